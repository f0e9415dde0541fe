"""How long a call of an MCP client waits for a person: the times that a gate, its command and a lab share.

Spec: §3.2, §3.3.1.
"""

from __future__ import annotations

from typing import Final

from mew_lab.errors import ConfigError

__all__ = ["ANSWER_AFTER", "DECIDE_WITHIN", "GRACE", "RUN_WITHIN", "WITHDRAW_AFTER", "check_seconds"]

ANSWER_AFTER: Final = 45.0
"""Seconds after which a call that still waits is answered as pending; many clients give up after 60."""
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
    if not 0 < value <= _MOST:
        raise ConfigError(f"{value!r} is no number of seconds above 0 and up to {_MOST}", key=key)
    return value
