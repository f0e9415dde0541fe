"""What does one space run on?  Its journal, its peers, its queue and its time; data that a gateway moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable

from mew_lab.gateway.ends import EndTimer
from mew_lab.gateway.outbox import Peer
from mew_lab.gateway.ring import BEGINNING, Ring
from mew_lab.gateway.shares import JournalLimits, Room, Shares
from mew_lab.space.core import Space
from mew_lab.space.events import Event, Record
from mew_lab.space.turn import Turn

__all__ = ["Kept", "Recorder", "Running"]


class Recorder(Protocol):
    """What the gateway needs of a journal."""

    def append(self, records: Iterable[Record]) -> None:
        """Writes the records to the operating system, or raises JournalError and writes nothing."""


@runtime_checkable
class Kept(Recorder, Protocol):
    """A journal in a file: its lines are a chain, and a disk can be full."""

    @property
    def head(self) -> tuple[int, bytes]:
        """The last record's number, and the chain of its line."""

    def free_space(self) -> int:
        """Bytes that are free where the next ones will be written."""


class Running:
    """One space with what it runs on; `last` is the time that it was given last.

    `ends` is the timer for the ends of its grants and for the welcomes that it owes, which calls `wake`.
    """

    __slots__ = (
        "busy", "connections", "ends", "journal", "last", "logged", "owed", "peers", "queue", "queue_bytes", "ring",
        "room", "shares", "space", "unrecorded",
    )  # fmt: skip

    def __init__(
        self,
        space: Space,
        journal: Recorder | None,
        *,
        queue_bytes: int,
        wake: Callable[[Running], object],
        since: datetime = BEGINNING,
        limits: JournalLimits | None = None,
        used: Mapping[str, int] | None = None,
    ) -> None:
        limits = limits or JournalLimits()
        self.space = space
        self.queue_bytes = queue_bytes
        self.journal = journal
        self.shares = Shares(limits, used) if journal is not None else None
        self.room = Room(journal.free_space, limits.floor) if isinstance(journal, Kept) else None
        self.unrecorded = {"accepted": 0, "refused": 0}  # messages that a full disk has turned away
        self.logged: datetime | None = None  # when the last of them was
        self.ring = Ring(space.state.logical, begins=since)
        self.peers: dict[str, Peer] = {}
        self.connections = 0
        self.last = since
        self.owed: list[Turn] = []
        self.queue: deque[Event] = deque()
        self.busy = False
        self.ends = EndTimer(lambda: wake(self))
