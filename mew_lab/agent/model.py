"""Defines what an agent expects of a model: messages and tools in, one reply out; data and one protocol, pure.

Each adapter is a module of its own: `completions` speaks with any server of the chat completions API, `offline` follows
rules. Names of tools are `participant/tool`
on both sides of this seam; what an API makes of them is its adapter's own business (`names`).

Spec: SDK "Layer 3", "LLM Tool Preparation".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

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

Role = Literal["system", "user", "assistant", "tool"]


class ToolSpec(NamedTuple):
    """One tool as a model is offered it. `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def participant(self) -> str:
        """The participant that has it: the text before the first slash."""
        return self.name.partition("/")[0]


class ToolCall(NamedTuple):
    """One call that a model asks for. `fault` says why it cannot be made; then the arguments are empty."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    fault: str = ""


class Message(NamedTuple):
    """One message of a prompt. `tool_calls` belong to an assistant, `tool_call_id` to what a tool answered."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


class Usage(NamedTuple):
    """Tokens, as the model counted them."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a model. `reasoning` is the reasoning that it shows beside its text, where it does; `cut` says that
    the reply ended at its greatest length.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    cut: bool = False


class ReplySettings(NamedTuple):
    """An agent's settings for each reply of its model; None leaves a setting to the model.

    `max_tokens` is the greatest length of one reply. `tool_choice` is "auto", "none", "required" or the
    `participant/tool` to call; "required" and a name hold until a tool has answered.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float | None = None
    tool_choice: str | None = None


def estimate_tokens(*texts: str) -> int:
    """About how many tokens messages with these texts take: their bytes of UTF-8 over four, and four a message."""
    # Each step of an agent estimates its whole prompt, so the usual text is measured without a call.
    sizes = [len(text) if text.isascii() else utf8_size(text) for text in texts]
    return sum([-(-size // CHARACTERS_A_TOKEN) for size in sizes]) + A_MESSAGE * len(sizes)


def estimate_prompt(messages: Sequence[Message]) -> int:
    """About how many tokens the texts of the messages take; their tool calls are not counted."""
    return estimate_tokens(*[message.content for message in messages])


class Model(Protocol):
    """A model that an agent thinks with.

    `name` describes it, `max_tokens` is the length of its context (None: not known). A model may have two more
    methods. `with_settings(ReplySettings)` returns a model that replies so and shares its connections. `measure()`
    is awaited before the first reply and may find out `max_tokens`.
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
            tools: the tools that it may call. With a `schema` they are described in the messages already, and the reply
                asks for a call inside its JSON.
            schema: the JSON Schema that the reply's text shall fit; None leaves its form free.
            on_text: called with each piece of the text as it comes.

        Raises:
            ModelFailed: no reply could be had; the sentence says why, and what would help.
        """
        ...

    async def aclose(self) -> None:
        """Closes its connections. Twice is harmless."""
        ...
