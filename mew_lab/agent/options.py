"""Holds the options of an agent, each with its default; pure. `sdk.options` reads their values.

The names are those of the specification in the spelling of Python. Spec: SDK "AgentConfig", "ChatResponseConfig".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mew_lab.agent.attention import Habits
from mew_lab.agent.model import ReplySettings
from mew_lab.agent.prompts import Prompts
from mew_lab.agent.react import Format
from mew_lab.errors import ConfigError
from mew_lab.sdk.options import OPTIONS, value_of
from mew_lab.settings.faults import did_you_mean

__all__ = ["AgentOptions"]


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of one agent.

    Args:
        name: the name by which chat addresses it; its id when empty.
        system_prompt: opens each prompt; `prompts.system`, if set, replaces it.
        prompts: templates of the phases.
        reasoning_enabled: whether `reasoning/*` is sent; off for a model that reasons by itself.
        reasoning_format: the form of earlier steps in the prompt, `native` or `scratchpad`.
        reasoning_stream: whether thoughts are mirrored to a stream where that is permitted.
        max_iterations: steps of one request, its answer not counted.
        conversation_history_length: earlier messages in the prompt; 0 for the request alone.
        habits: when to answer chat.
        obeys: the participants whose chat requests it works on: ids, or `*` for anybody. None means those that
            started it, and each participant that may call any tool itself.
        max_tokens: the length of the model's context; None takes that of the model or its server.
        temperature: of the model's replies, from 0 to 2; None leaves it to the model.
        max_reply_tokens: greatest length of one reply; None leaves it to the model.
        model_timeout: seconds of a server's silence after which a reply has failed; None is the model's own.
        tool_choice: `auto`, `none`, `required`, or the `participant/tool` to call first. `required` and a name
            hold until a tool has answered: an agent that must always call a tool can never answer.
        images: whether the model gets the pictures in the answers of tools; None leaves it to the model, which judges by
            its name.
        text_calls: whether calls that the model writes into the end of its text (`<tool_call>`) count; each is a
            proposal. None leaves it to the model.
        silence_notice: seconds of the model's silence after which the agent reports that it still waits; it reports
            again each time that the silence has doubled. None reports nothing.
        questions_per_minute: the number of questions of one sender that are answered, and five times as many of all
            senders together; further ones get `chat/acknowledge` with the status `rate_limited`.
        call_timeout: seconds that a call waits for its tool, or a proposal for people; None waits without a limit.
        discovery_wait: seconds that a request waits for tools that are being discovered.
        max_concurrent: requests worked on at once; more wait.
        max_observation: characters of a tool's answer that reach the model.
        log_level: of the agent's own logger; None leaves it.
    """

    name: str = ""
    system_prompt: str = ""
    prompts: Prompts = field(default_factory=Prompts)
    reasoning_enabled: bool = True
    reasoning_format: Format = "native"
    reasoning_stream: bool = True
    max_iterations: int = 10
    conversation_history_length: int = 0
    habits: Habits = field(default_factory=Habits)
    obeys: tuple[str, ...] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    max_reply_tokens: int | None = None
    model_timeout: float | None = None
    tool_choice: str | None = None
    images: bool | None = None
    text_calls: bool | None = None
    silence_notice: float | None = 15.0
    questions_per_minute: int = 12
    call_timeout: float | None = 300.0
    discovery_wait: float = 5.0
    max_concurrent: int = 8
    max_observation: int = 20_000
    log_level: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> AgentOptions:
        """Reads options from names and values; those of chat and of prompts may stand beside the others.

        Raises:
            ConfigError: a name is unknown, or an option does not take its value; `key` names it.
        """
        return cls().changed(values)

    def changed(self, values: Mapping[str, Any]) -> AgentOptions:
        """These options with others in place of some. Raises as `of`."""
        defaults = {option.name: option.default for option in dataclasses.fields(self)} | Habits()._asdict()
        own: dict[str, Any] = {}
        for key, value in values.items():
            if key not in defaults:
                hint = did_you_mean(key, sorted({*defaults, *OPTIONS}))
                message = f"An agent has no option {key[:80]!r}" + (f"; {hint}" if hint else "")
                raise ConfigError(message, key=key)
            is_read = isinstance(value, Prompts | Habits) or (value in (None, "") and value == defaults[key])
            own[key] = value if is_read else value_of(key, value, source="The options of an agent")
        if isinstance(own.get("prompts"), dict):
            own["prompts"] = Prompts(**own["prompts"])
        habits = {key: own.pop(key) for key in Habits._fields if key in own}
        whole = dataclasses.replace(self, **own)
        return dataclasses.replace(whole, habits=whole.habits._replace(**habits))

    @property
    def reply_settings(self) -> ReplySettings:
        """The settings for each reply of the model."""
        return ReplySettings(
            self.temperature,
            self.max_reply_tokens,
            self.model_timeout,
            self.tool_choice,
            self.images,
            self.text_calls,
        )

    @property
    def templates(self) -> Prompts:
        """The prompts in force: `system_prompt` opens them unless a template of its own does."""
        return (
            self.prompts if self.prompts.system else self.prompts._replace(system=self.system_prompt or None)
        )
