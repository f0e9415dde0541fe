"""How long a call of an MCP client waits for a person: the times that a gate, its command and a lab share.

Spec: §3.2, §3.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from mew_lab.errors import ConfigError

__all__ = [
    "ANSWER_AFTER",
    "DECIDE_WITHIN",
    "GRACE",
    "RUN_WITHIN",
    "TOLD_ANSWER_AFTER",
    "WITHDRAW_AFTER",
    "check_seconds",
    "told_answer_after",
]

ANSWER_AFTER: Final = 45.0
"""Seconds after which a call that still waits is answered as pending; many clients give up after 60."""
TOLD_ANSWER_AFTER: Final = "x-answer-after"
"""The member of a capability that tells a gate of its holder these seconds; gateways keep it and ignore it (R11)."""
DECIDE_WITHIN: Final = 3600.0
"""Seconds after which a call that nobody decided is refused."""
RUN_WITHIN: Final = 3600.0
"""Seconds after which an approved call that its tool has not answered ends as unknown, and its place is free."""
GRACE: Final = 300.0
"""Seconds that a call still waits for a client that is gone."""
WITHDRAW_AFTER: Final = 3.0
"""Seconds after which a call that its client cancelled is withdrawn, unless the client repeats it."""

_MOST = 30 * 24 * 3600  # seconds


def check_seconds(value: float, *, key: str) -> float:
    """The value, if it is a time that a call can wait.

    Raises:
        ConfigError: it is not above 0, or longer than 30 days.
    """
    if isinstance(value, bool) or not 0 < value <= _MOST:
        raise ConfigError(f"{value!r} is no number of seconds above 0 and up to {_MOST}", key=key)
    return value


def told_answer_after(capabilities: Iterable[Mapping[str, Any]]) -> float | None:
    """The longest time that one of these capabilities tells in `TOLD_ANSWER_AFTER`; None where none tells one."""
    told = []
    for capability in capabilities:
        seconds = capability.get(TOLD_ANSWER_AFTER)
        if isinstance(seconds, int | float) and not isinstance(seconds, bool):
            with suppress(ConfigError):
                told.append(check_seconds(seconds, key=TOLD_ANSWER_AFTER))
    return max(told, default=None)
