"""Which settings are there, how are they spelt, and what may each say?  A table, and one reader a type; pure.

Two spellings are known: ours (`max_iterations`) and the specification's (`maxIterations`). Where a setting is
a time, ours is in seconds, and the other in milliseconds, as its files have it. It knows no file and no
environment; a value is in no message.

Spec: SDK "Layer 1" (ClientOptions), "Layer 2" (ParticipantOptions), "Layer 3" (AgentConfig),
"Chat Message Response Strategy".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from mew_lab.errors import ConfigError
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.settings.faults import did_you_mean, kind_of

__all__ = ["OPTIONS", "PHASES", "Option", "option_of", "value_of"]

PHASES = ("system", "reason", "act", "respond")
OLDER = {"thinking_enabled": "reasoning_enabled"}  # in files that were written before the word changed
Part = Literal["", "client", "participant", "agent"]


class _Wrong(Exception):
    """A value is not what its setting takes: `words` say what it takes, `at` where in the value the fault is."""

    def __init__(self, words: str, at: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.at = at


class Option(NamedTuple):
    """One setting: whose it is ("" is the settings' own), and what makes a value of what was written."""

    part: Part
    read: Callable[[Any], Any]
    seconds: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong("must be text, not {}")
    try:
        value.encode()
    except UnicodeError:
        raise _Wrong("holds half a character (a lone surrogate)") from None
    return str(value)


def _named(value: Any) -> str:
    if not _text(value):
        raise _Wrong("is empty; leave it out, or say which")
    return _text(value)


def _secret(value: Any) -> Token:
    if isinstance(value, Token):
        return value
    secret = _named(value)
    if not secret.isprintable() or any(one.isspace() for one in secret):
        raise _Wrong("holds a space or a line end, which no secret that is sent in a header may")
    return Token(secret)


def _base_url(value: Any) -> str:
    url = _named(value)
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    except ValueError:
        good = False
    if not good:
        raise _Wrong("must be an address such as http://127.0.0.1:8000/v1, without user and password")
    return url


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("must be true or false, not {}")
    return value


def _whole(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise _Wrong(f"must be a whole number from {least} on")
        return value

    return read


def _number(
    words: str, holds: Callable[[float], bool], *, none: bool = False
) -> Callable[[Any], float | None]:
    def read(value: Any) -> float | None:
        if value is None and none:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Wrong(f"must be {words}, not {{}}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or not holds(number):
            raise _Wrong(f"must be {words}")
        return number

    return read


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise _Wrong(f"must be one of {', '.join(words)}")
        return value

    return read


def _prompts(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _Wrong(f"must be a mapping with {', '.join(PHASES)}, not {{}}")
    for phase, template in value.items():
        if phase not in PHASES:
            raise _Wrong(f"is no phase; there are {', '.join(PHASES)}", f".{one_line(str(phase), 40)}")
        if not isinstance(template, str):
            raise _Wrong("must be text", f".{phase}")
    return {phase: _text(template) for phase, template in value.items()}


def _capabilities(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list | tuple):
        raise _Wrong("must be a list of capabilities, not {}")
    try:
        return [dict(one) for one in CapabilitySet(value).patterns]
    except ConfigError as fault:
        raise _Wrong(f"is no capability: {fault}", fault.key) from None


def _participants(value: Any) -> tuple[str, ...]:
    named = value.split(",") if isinstance(value, str) else value
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) and one.strip() for one in named):
        raise _Wrong("must be a list of participants' ids, or *, not {}")
    return tuple(one.strip() for one in named)


_SECONDS = _number("a number of seconds above 0, or nothing at all", lambda one: one > 0, none=True)

OPTIONS: Mapping[str, Option] = {
    "gateway": Option("", _named),
    "space": Option("", _named),
    "token": Option("", _secret),
    "participant_id": Option("", _named),
    "reconnect": Option("client", _flag),
    "heartbeat_interval": Option("client", _SECONDS, seconds=True),
    "max_reconnect_attempts": Option("client", _whole(0)),
    "reconnect_delay": Option(
        "client", _number("a number of seconds from 0 on", lambda one: one >= 0), seconds=True
    ),
    "while_down": Option("client", _one_of("refuse", "queue")),
    "capabilities": Option("client", _capabilities),
    "request_timeout": Option("participant", _SECONDS, seconds=True),
    "name": Option("agent", _named),
    "system_prompt": Option("agent", _text),
    "model": Option("agent", _named),
    "api_key": Option("agent", _secret),
    "base_url": Option("agent", _base_url),
    "reasoning_enabled": Option("agent", _flag),
    "max_iterations": Option("agent", _whole(1)),
    "log_level": Option("agent", _one_of("debug", "info", "warn", "error")),
    "reasoning_format": Option("agent", _one_of("native", "scratchpad")),
    "conversation_history_length": Option("agent", _whole(0)),
    "prompts": Option("agent", _prompts),
    "obeys": Option("agent", _participants),
    "auto_respond": Option("agent", _flag),
    "respond_to_questions": Option("agent", _flag),
    "respond_to_mentions": Option("agent", _flag),
    "respond_to_direct": Option("agent", _flag),
    "confidence_threshold": Option("agent", _number("a number from 0 to 1", lambda one: 0 <= one <= 1)),
    "context_window": Option("agent", _whole(0)),
    "reasoning_stream": Option("agent", _flag),
    "max_tokens": Option("agent", _whole(1)),
    "call_timeout": Option("agent", _SECONDS, seconds=True),
    "discovery_wait": Option(
        "agent", _number("a number of seconds from 0 on", lambda one: one >= 0), seconds=True
    ),
    "temperature": Option("agent", _number("a number from 0 to 2", lambda one: 0 <= one <= 2)),
    "max_reply_tokens": Option("agent", _whole(1)),
    "model_timeout": Option("agent", _SECONDS, seconds=True),
    "tool_choice": Option("agent", _named),
    "silence_notice": Option("agent", _SECONDS, seconds=True),
    "questions_per_minute": Option("agent", _whole(1)),
    "max_concurrent": Option("agent", _whole(1)),
    "max_observation": Option("agent", _whole(100)),
}


def _theirs(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_MEANT = {name: name for name in OPTIONS} | OLDER
_MEANT |= {_theirs(name): meant for name, meant in _MEANT.items()} | {"baseURL": "base_url"}


def option_of(spelt: str, *, source: str) -> str:
    """The setting's name in our spelling.

    Raises:
        ConfigError: there is none; it names the nearest.
    """
    meant = _MEANT.get(spelt)
    if meant is None:
        shown = one_line(spelt, 60)
        hint = did_you_mean(spelt, _MEANT) or f"there are {', '.join(OPTIONS)}"
        raise ConfigError(f"{source}: {shown!r} is no setting; {hint}", path=source, key=shown)
    return meant


def value_of(spelt: str, value: Any, *, source: str) -> Any:
    """What is meant by a value under this spelling, a time in seconds.

    Raises:
        ConfigError: it is not what the setting takes; the value itself is not shown.
    """
    name = option_of(spelt, source=source)
    option = OPTIONS[name]
    try:
        read = option.read(value)
    except _Wrong as wrong:
        words = wrong.words.replace("{}", kind_of(value))
        key = spelt + wrong.at
        raise ConfigError(f"{source}: {key} {words}", path=source, key=key) from None
    if option.seconds and "_" not in spelt and read is not None:
        return read / 1000.0
    return read
