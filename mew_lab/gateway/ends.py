"""Wakes a space when the next of its grants is over, or when it owes welcomes: one timer, set for the first of these.

It decides nothing: what is to be done is the space's to say, when it is asked.

Spec: §3.6.1, rulings R24 and R25.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["AT_ONCE", "EndTimer"]

AT_ONCE = datetime.min.replace(tzinfo=UTC)
"""A time that has come already."""

LONGEST = 60.0  # seconds until the wall clock is looked at anew: it may be set, or the machine may sleep
SHORTEST = 0.001


class EndTimer:
    """Calls `wake` at the time that was `set`, or sooner; it is to be set again then."""

    __slots__ = ("_end", "_handle", "_wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._end: datetime | None = None
        self._handle: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it will call."""
        return self._handle is not None

    def set(self, end: datetime | None, clock: Callable[[], datetime]) -> None:
        """The next time; None: there is none. Without a running loop nothing is called: the next message sees to it."""
        if end == self._end:
            return
        self.cancel()
        if end is None:
            return
        with contextlib.suppress(RuntimeError):
            loop = asyncio.get_running_loop()
            seconds = (end - clock()).total_seconds()
            self._handle = loop.call_later(min(max(seconds, SHORTEST), LONGEST), self._ring)
            self._end = end

    def cancel(self) -> None:
        """Calls nothing any more."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._end = None

    def _ring(self) -> None:
        self._handle = self._end = None
        self._wake()
