"""What does one space run on?  Its journal, its peers, its queue and its time; data that a gateway moves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from mew_lab.gateway.outbox import Peer
from mew_lab.gateway.ring import BEGINNING, Ring
from mew_lab.space.core import Space
from mew_lab.space.events import Event, Record
from mew_lab.space.turn import Turn

__all__ = ["Recorder", "Running"]


class Recorder(Protocol):
    """What the gateway needs of a journal."""

    def append(self, records: Iterable[Record]) -> None:
        """Writes the records to the operating system, or raises JournalError and writes nothing."""


class Running:
    """One space with what it runs on; `last` is the time that it was given last.

    `timer` raises the end of grants at `next_end`, or sooner, to look at the clock anew.
    """

    __slots__ = (
        "busy", "connections", "journal", "last", "next_end", "owed", "peers", "queue", "queue_bytes", "ring", "space",
        "timer",
    )  # fmt: skip

    def __init__(
        self, space: Space, journal: Recorder | None, *, queue_bytes: int, since: datetime = BEGINNING
    ) -> None:
        self.space = space
        self.queue_bytes = queue_bytes
        self.journal = journal
        self.ring = Ring(space.state.logical, begins=since)
        self.peers: dict[str, Peer] = {}
        self.connections = 0
        self.last = since
        self.owed: list[Turn] = []
        self.queue: deque[Event] = deque()
        self.busy = False
        self.next_end: datetime | None = None
        self.timer: asyncio.TimerHandle | None = None

    def wait_until(self, end: datetime | None) -> None:
        """The next end of a grant is this one; a timer that was set for another is ended."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer, self.next_end = None, end
