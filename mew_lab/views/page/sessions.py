"""Signs a browser in by a code of one use, and keeps the sessions that come of it.

A link holds the code in its fragment, which no browser sends to any server. The page exchanges it, within two minutes
and once, for the secret of a session. Both have 128 bits or more, and are kept as hashes. A session ends when it is told
to, or when its person did nothing for twelve hours.

Spec: ruling R38.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from hashlib import sha256

from mew_lab.protocol.bounded import BoundedDict

__all__ = ["CODE_LIFE", "IDLE", "PageSession", "PageSessions", "seconds"]

CODE_BYTES = 16  # 128 bits
SECRET_BYTES = 32
CODE_LIFE = 120.0  # seconds
IDLE = 12 * 3600.0  # seconds
MOST_CODES = 8  # not used yet; the oldest gives way
MOST_SESSIONS = 16  # likewise


def seconds() -> float:
    """The seconds since some moment; those count in which the machine sleeps, where the system tells."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class PageSession:
    """One browser that has signed in; `on_end` are called once, when it is over."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.is_over = False
        self.on_end: list[Callable[[], object]] = []
        self._now = now
        self._used = now()

    def use(self) -> None:
        """Notes that its person has done something."""
        self._used = self._now()

    @property
    def left(self) -> float:
        """Seconds until it is over where nothing is done; not above zero where it is."""
        return 0.0 if self.is_over else self._used + IDLE - self._now()

    def end(self) -> None:
        """Ends it; a second call does nothing."""
        self.is_over = True
        while self.on_end:
            self.on_end.pop()()


class PageSessions:
    """The codes and the sessions of one page. To be used on one thread.

    Args:
        now: A clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = seconds) -> None:
        self._now = now
        self._codes: BoundedDict[bytes, float] = BoundedDict(
            MOST_CODES
        )  # by hash, the time at which it is over
        self._open: dict[bytes, PageSession] = {}

    def new_code(self) -> str:
        """A code for one sign-in."""
        code = secrets.token_urlsafe(CODE_BYTES)
        self._codes[_hash(code)] = self._now() + CODE_LIFE
        return code

    def exchange(self, code: str) -> str | None:
        """The secret of a new session; None where the code is wrong, was used, or is too old."""
        over = self._codes.pop(_hash(code), None)
        if over is None or self._now() >= over:
            return None
        self._sweep()
        while len(self._open) >= MOST_SESSIONS:
            self._open.pop(next(iter(self._open))).end()
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._open[_hash(secret)] = PageSession(self._now)
        return secret

    def find(self, secret: str) -> PageSession | None:
        """The session of that secret; None where there is none, or it is over."""
        self._sweep()
        return self._open.get(_hash(secret))

    def end_all(self) -> int:
        """Ends every session, and forgets every code; returns the number of the sessions."""
        self._codes.clear()
        self._sweep()
        count = len(self._open)
        while self._open:
            self._open.popitem()[1].end()
        return count

    def _sweep(self) -> None:
        for key in [key for key, session in self._open.items() if session.left <= 0]:
            self._open.pop(key).end()


def _hash(secret: str) -> bytes:
    # What is looked up tells by its time nothing of a secret.
    return sha256(secret.encode("utf-8", "replace")).digest()
