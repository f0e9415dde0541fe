"""Defines the interface between an agent and a model: messages and tools in, one reply out; data and one protocol.

Each adapter is a module of its own: `completions` for any server of the chat completions API, `offline` for rules.
Names of tools are `participant/tool` in this interface; an adapter translates them for its API (`names`).

Spec: SDK "Layer 3", "LLM Tool Preparation".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from mew_lab.protocol.content import CheckedPicture
from mew_lab.protocol.text import utf8_size

__all__ = [
    "Message",
    "Model",
    "Reply",
    "ReplySettings",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "estimate_prompt",
    "estimate_tokens",
]

A_MESSAGE = 4  # tokens that a message costs beside its text
CHARACTERS_A_TOKEN = 4
A_PICTURE = 1_000  # tokens; models count 85 to some thousand, by the size

Role = Literal["system", "user", "assistant", "tool"]


class ToolSpec(NamedTuple):
    """One tool that is offered to a model. `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def participant(self) -> str:
        """The participant that offers it: the text before the first slash."""
        return self.name.partition("/")[0]


class ToolCall(NamedTuple):
    """One call in a reply of a model. `fault` is the reason why it cannot be made; then the arguments are empty.

    `text` is the call as it stood in the text of the reply; empty for a call of the API. A call from a text is always
    a proposal.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    fault: str = ""
    text: str = ""


class Message(NamedTuple):
    """One message of a prompt. `tool_calls` belong to an assistant, `tool_call_id` to the answer of a tool.

    Only a message of a user has `pictures`, and only for a model that takes them.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    pictures: tuple[CheckedPicture, ...] = ()


class Usage(NamedTuple):
    """The numbers of tokens that the model counted."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a model. `reasoning` is the reasoning beside its text, if the model shows any. `cut` is whether
    the reply ended at its greatest length, and `filtered` whether the filter of its provider ended it.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    cut: bool = False
    filtered: bool = False


class ReplySettings(NamedTuple):
    """An agent's settings for each reply of its model; None leaves a setting to the model.

    `max_tokens` is the greatest length of one reply. `tool_choice` is "auto", "none", "required" or the
    `participant/tool` to call; "required" and a name hold until a tool has answered. `images` is whether the model
    takes pictures, and `text_calls` whether calls at the end of a reply's text count.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float | None = None
    tool_choice: str | None = None
    images: bool | None = None
    text_calls: bool | None = None


def estimate_tokens(*texts: str) -> int:
    """The estimated tokens of messages with these texts: for each a quarter of its bytes in UTF-8, plus four."""
    # Each step of an agent estimates its whole prompt, so the usual text is measured without a call.
    sizes = [len(text) if text.isascii() else utf8_size(text) for text in texts]
    return sum([-(-size // CHARACTERS_A_TOKEN) for size in sizes]) + A_MESSAGE * len(sizes)


def estimate_prompt(messages: Sequence[Message]) -> int:
    """The estimated tokens of the texts and pictures of the messages, without their tool calls."""
    pictures = sum([len(message.pictures) for message in messages])
    return estimate_tokens(*[message.content for message in messages]) + A_PICTURE * pictures


class Model(Protocol):
    """The model of an agent.

    `name` describes it, `max_tokens` is the length of its context (None: not known). A model whose attribute `images`
    is true gets the pictures in the answers of tools. A model may have two more methods.
    `with_settings(ReplySettings)` returns a model with these settings that shares its connections. `measure()` is
    awaited before the first reply and may set `max_tokens`.
    """

    name: str
    max_tokens: int | None

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """The next message.

        Args:
            tools: the tools that it may call. With a `schema` the messages describe them already, and the reply
                contains a call inside its JSON.
            schema: the JSON Schema for the text of the reply; None leaves its form free.
            on_text: called with each piece of the text as it arrives.

        Raises:
            ModelFailed: there is no reply; the message states the reason and what would help.
        """
        ...

    async def aclose(self) -> None:
        """Closes its connections. A second call does nothing."""
        ...
