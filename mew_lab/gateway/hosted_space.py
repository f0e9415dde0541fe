"""The state of one space in a gateway: its journal, peers, event queue, time and timer.

Spec: §3.6.1, rulings R24 and R25 (the timer).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from mew_lab.gateway.delivery import Peer
from mew_lab.gateway.ring import BEGINNING, Ring
from mew_lab.gateway.shares import JournalLimits, Room, Shares
from mew_lab.space.core import Space
from mew_lab.space.events import Event, Record
from mew_lab.space.reports import Resolutions
from mew_lab.space.turn import Turn

__all__ = ["AT_ONCE", "HostedSpace", "JournalFile", "Recorder", "WakeTimer"]

AT_ONCE = datetime.min.replace(tzinfo=UTC)
"""A due time in the past."""

LONGEST = 60.0  # seconds until the wall clock is read again: it may be set, or the machine may sleep
SHORTEST = 0.001  # what is due already still waits for a turn of the loop, or it would starve the connections


class Recorder(Protocol):
    """The interface of a journal that the gateway uses."""

    def append(self, records: Iterable[Record]) -> None:
        """Writes the records to the operating system, or raises JournalError and writes nothing."""


@runtime_checkable
class JournalFile(Recorder, Protocol):
    """The interface of a journal in a file, whose lines are a chain and whose disk can be full."""

    @property
    def head(self) -> tuple[int, bytes]:
        """The number of the last record, and the chain of its line."""

    def free_space(self) -> int:
        """Free bytes on the disk of the current file."""


class WakeTimer:
    """Calls `wake` at the time given to `set`, or earlier; the timer must then be set again."""

    __slots__ = ("_end", "_handle", "_wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._end: datetime | None = None
        self._handle: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether a call is scheduled."""
        return self._handle is not None

    def set(self, end: datetime | None, clock: Callable[[], datetime]) -> None:
        """Sets the time of the next call; None cancels it. Without a running loop, the next message does the work."""
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
        """Cancels the scheduled call."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._end = None

    def _ring(self) -> None:
        self._handle = self._end = None
        self._wake()


class HostedSpace:
    """One space and everything that it runs with; `last` is the time of its last event.

    `timer` calls `wake` at the end of the next grant and when welcomes are due.
    """

    def __init__(
        self,
        space: Space,
        journal: Recorder | None,
        *,
        queue_bytes: int,
        wake: Callable[[HostedSpace], object],
        since: datetime = BEGINNING,
        limits: JournalLimits | None = None,
        used: Mapping[str, int] | None = None,
        resolutions: Resolutions | None = None,
    ) -> None:
        limits = limits or JournalLimits()
        self.space = space
        self.queue_bytes = queue_bytes
        self.journal = journal
        self.shares = Shares(limits, used) if journal is not None else None
        self.room = Room(journal.free_space, limits.floor) if isinstance(journal, JournalFile) else None
        self.unrecorded = {"accepted": 0, "refused": 0}  # messages that a full disk has turned away
        self.logged: datetime | None = None  # when the last of them was
        self.ring = Ring(space.state.logical, begins=since)
        self.resolutions = Resolutions() if resolutions is None else resolutions
        self.peers: dict[str, Peer] = {}
        self.connections = 0
        self.last = since
        self.owed: list[Turn] = []
        self.queue: deque[Event] = deque()
        self.busy = False
        self.timer = WakeTimer(lambda: wake(self))
