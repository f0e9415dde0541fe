"""The table of settings, pure: the names, the spellings and the reader of the value of each setting.

Each setting has two spellings: that of Python (`max_iterations`) and that of the specification (`maxIterations`).
A time is in seconds in the spelling of Python and in milliseconds in the other, as in files of the specification.
The module reads no file and no environment. No error shows a value.

Spec: SDK "Layer 1" (ClientOptions), "Layer 2" (ParticipantOptions), "Layer 3" (AgentConfig),
"Chat Message Response Strategy".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.protocol.address import read_host
from mew_lab.protocol.describe import reword_refusal
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.protocol.profiles import refer_to_patterns
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.settings.faults import did_you_mean, kind_of

__all__ = ["OPTIONS", "PHASES", "Option", "client_options", "option_of", "value_of"]

PHASES = ("system", "reason", "act", "respond")
OLDER = {"thinking_enabled": "reasoning_enabled"}  # in files that were written before the option was renamed
Part = Literal["", "client", "participant", "agent"]


class _Unfit(Exception):
    """A value that its setting does not take: `words` state what it takes, `at` is the key path within the value."""

    def __init__(self, words: str, at: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.at = at


class Option(NamedTuple):
    """One setting: its layer ("" for `Settings` itself), and the reader of its value."""

    part: Part
    read: Callable[[Any], Any]
    seconds: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unfit("must be text, not {}")
    try:
        value.encode()
    except UnicodeError:
        raise _Unfit("holds half a character (a lone surrogate)") from None
    return str(value)


def _nonempty(value: Any) -> str:
    if not _text(value):
        raise _Unfit("is empty; leave it out, or say which")
    return _text(value)


def _secret(value: Any) -> Token:
    if isinstance(value, Token):
        return value
    secret = _nonempty(value)
    if not secret.isprintable() or any(character.isspace() for character in secret):
        raise _Unfit("holds a space or a line end, which no secret that is sent in a header may")
    return Token(secret)


def _base_url(value: Any) -> str:
    url = _nonempty(value)
    try:
        read_host(url)
    except ValueError:
        raise _Unfit(
            "must be an address such as http://127.0.0.1:8000/v1, without user and password"
        ) from None
    return url


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Unfit("must be true or false, not {}")
    return value


def _whole_number(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise _Unfit(f"must be a whole number from {least} on")
        return value

    return read


def _number(
    words: str, holds: Callable[[float], bool], *, none: bool = False
) -> Callable[[Any], float | None]:
    def read(value: Any) -> float | None:
        if value is None and none:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Unfit(f"must be {words}, not {{}}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or not holds(number):
            raise _Unfit(f"must be {words}")
        return number

    return read


def _choice(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise _Unfit(f"must be one of {', '.join(words)}")
        return value

    return read


def _tool_choice(value: Any) -> str:
    if value not in ("auto", "none", "required") and "/" not in _text(value):
        raise _Unfit("must be auto, none, required or the participant/tool to call")
    return _text(value)


def _prompts(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _Unfit(f"must be a mapping with {', '.join(PHASES)}, not {{}}")
    for phase, template in value.items():
        if phase not in PHASES:
            raise _Unfit(f"is no phase; there are {', '.join(PHASES)}", f".{one_line(str(phase), 40)}")
        if not isinstance(template, str):
            raise _Unfit("must be text", f".{phase}")
    return {phase: _text(template) for phase, template in value.items()}


def _capabilities(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list | tuple):
        raise _Unfit("must be a list of permissions, not {}")
    try:
        return [dict(pattern) for pattern in CapabilitySet(value).patterns]
    except ConfigError as fault:
        raise _Unfit(
            f"is no permission: {refer_to_patterns(reword_refusal(str(fault)))}", fault.key
        ) from None


def _participants(value: Any) -> tuple[str, ...]:
    ids = value.split(",") if isinstance(value, str) else value
    if not isinstance(ids, list | tuple) or not all(isinstance(id, str) and id.strip() for id in ids):
        raise _Unfit("must be a list of participants' ids, or *, not {}")
    return tuple(id.strip() for id in ids)


_SECONDS = _number("a number of seconds above 0, or nothing at all", lambda seconds: seconds > 0, none=True)
_FROM_0 = _number("a number of seconds from 0 on", lambda seconds: seconds >= 0)

OPTIONS: Mapping[str, Option] = {
    "gateway": Option("", _nonempty),
    "space": Option("", _nonempty),
    "token": Option("", _secret),
    "participant_id": Option("", _nonempty),
    "reconnect": Option("client", _boolean),
    "heartbeat_interval": Option("client", _SECONDS, seconds=True),
    "max_reconnect_attempts": Option("client", _whole_number(0)),
    "reconnect_delay": Option("client", _FROM_0, seconds=True),
    "while_down": Option("client", _choice("refuse", "queue")),
    "capabilities": Option("client", _capabilities),
    "request_timeout": Option("participant", _SECONDS, seconds=True),
    "strict_unknown": Option("participant", _boolean),
    "repeats_within": Option("participant", _FROM_0, seconds=True),
    "name": Option("agent", _nonempty),
    "system_prompt": Option("agent", _text),
    "model": Option("agent", _nonempty),
    "api_key": Option("agent", _secret),
    "base_url": Option("agent", _base_url),
    "reasoning_enabled": Option("agent", _boolean),
    "max_iterations": Option("agent", _whole_number(1)),
    "log_level": Option("agent", _choice("debug", "info", "warn", "error")),
    "reasoning_format": Option("agent", _choice("native", "scratchpad")),
    "conversation_history_length": Option("agent", _whole_number(0)),
    "prompts": Option("agent", _prompts),
    "obeys": Option("agent", _participants),
    "auto_respond": Option("agent", _boolean),
    "respond_to_questions": Option("agent", _boolean),
    "respond_to_mentions": Option("agent", _boolean),
    "respond_to_direct": Option("agent", _boolean),
    "confidence_threshold": Option("agent", _number("a number from 0 to 1", lambda number: 0 <= number <= 1)),
    "context_window": Option("agent", _whole_number(0)),
    "reasoning_stream": Option("agent", _boolean),
    "max_tokens": Option("agent", _whole_number(1)),
    "call_timeout": Option("agent", _SECONDS, seconds=True),
    "discovery_wait": Option("agent", _FROM_0, seconds=True),
    "temperature": Option("agent", _number("a number from 0 to 2", lambda number: 0 <= number <= 2)),
    "max_reply_tokens": Option("agent", _whole_number(1)),
    "model_timeout": Option("agent", _SECONDS, seconds=True),
    "tool_choice": Option("agent", _tool_choice),
    "images": Option("agent", _boolean),
    "text_calls": Option("agent", _boolean),
    "silence_notice": Option("agent", _SECONDS, seconds=True),
    "questions_per_minute": Option("agent", _whole_number(1)),
    "max_concurrent": Option("agent", _whole_number(1)),
    "max_observation": Option("agent", _whole_number(100)),
}


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_SPELLINGS = {name: name for name in OPTIONS} | OLDER
_SPELLINGS |= {_camel_case(name): option for name, option in _SPELLINGS.items()} | {"baseURL": "base_url"}


def option_of(spelt: str, *, source: str) -> str:
    """The setting's name in Python's spelling.

    Raises:
        ConfigError: the setting does not exist; the error names the nearest one.
    """
    name = _SPELLINGS.get(spelt)
    if name is None:
        shown = one_line(spelt, 60)
        hint = did_you_mean(spelt, _SPELLINGS) or f"there are {', '.join(OPTIONS)}"
        raise ConfigError(f"{source}: {shown!r} is no setting; {hint}", path=source, key=shown)
    return name


def value_of(spelt: str, value: Any, *, source: str) -> Any:
    """The value of the setting of this spelling; a time in seconds.

    Raises:
        ConfigError: the setting does not take the value, which the error does not show.
    """
    name = option_of(spelt, source=source)
    option = OPTIONS[name]
    try:
        read = option.read(value)
    except _Unfit as unfit:
        words = unfit.words.replace("{}", kind_of(value))
        key = spelt + unfit.at
        raise ConfigError(f"{source}: {key} {words}", path=source, key=key) from None
    if option.seconds and "_" not in spelt and read is not None:
        return read / 1000.0
    return read


def client_options(values: Mapping[str, Any], accepted: Collection[str], *, source: str) -> dict[str, Any]:
    """The values of these arguments of `MEWClient`, checked where they are settings.

    Args:
        accepted: the names of all its arguments.

    Raises:
        ConfigError: it has no such argument, or does not take its value; the error names the nearest one.
    """
    for name in values:
        if name not in accepted:
            nearest = _SPELLINGS.get(name, "")
            if nearest not in accepted:
                hint = did_you_mean(name, accepted) or f"there are {', '.join(accepted)}"
            elif OPTIONS[nearest].seconds:
                hint = f"did you mean {nearest!r}, which is in seconds?"
            else:
                hint = f"did you mean {nearest!r}?"
            raise ConfigError(f"{source}: {one_line(name, 60)!r} is none; {hint}", key=name)
    return {
        name: value_of(name, value, source=source) if name in OPTIONS else value
        for name, value in values.items()
    }
