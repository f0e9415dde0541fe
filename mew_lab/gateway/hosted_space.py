"""One space as a gateway runs it: its journal, peers, event queue, time and timer. The gateway moves this data.

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
from mew_lab.space.turn import Turn

__all__ = ["AT_ONCE", "HostedSpace", "JournalFile", "Recorder", "WakeTimer"]

AT_ONCE = datetime.min.replace(tzinfo=UTC)
"""A time that has come already."""

LONGEST = 60.0  # seconds until the wall clock is looked at anew: it may be set, or the machine may sleep
SHORTEST = 0.001


class Recorder(Protocol):
    """A journal, as the gateway uses it."""

    def append(self, records: Iterable[Record]) -> None:
        """Writes the records to the operating system, or raises JournalError and writes nothing."""


@runtime_checkable
class JournalFile(Recorder, Protocol):
    """A journal in a file: its lines are a chain, and a disk can be full."""

    @property
    def head(self) -> tuple[int, bytes]:
        """The last record's number, and the chain of its line."""

    def free_space(self) -> int:
        """Bytes that are free where the next ones will be written."""


class WakeTimer:
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


class HostedSpace:
    """One space and everything that it runs with; `last` is the last time that it was given.

    `timer` is set for the end of its next grant and for the welcomes that it owes; it calls `wake`.
    """

    __slots__ = (
        "busy",
        "connections",
        "journal",
        "last",
        "logged",
        "owed",
        "peers",
        "queue",
        "queue_bytes",
        "ring",
        "room",
        "shares",
        "space",
        "timer",
        "unrecorded",
    )  # fmt: skip

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
        self.peers: dict[str, Peer] = {}
        self.connections = 0
        self.last = since
        self.owed: list[Turn] = []
        self.queue: deque[Event] = deque()
        self.busy = False
        self.timer = WakeTimer(lambda: wake(self))
