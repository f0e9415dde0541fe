"""Bounds how much participants can add to a journal: one share for each, and a floor of free space for all.

Both are decided here and not in the space: a message refused here leaves no line, so a replay never sees it. The
journal later has a count of them.

A share counts the bytes that a participant causes: its messages, the errors and welcomes that answer them, its joins.
Seats of this process have no share; the floor applies to them too.

Spec: §3.6.8 (ruling on the size of a journal).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from mew_lab.protocol.text import utf8_size
from mew_lab.space.events import (
    LOG_SINK,
    Event,
    FrameReceived,
    Joined,
    Limited,
    Oversize,
    Received,
    Record,
    Reported,
    WelcomesDue,
)
from mew_lab.space.state import State

__all__ = ["UNCOUNTED", "JournalLimits", "Room", "Share", "Shares", "journal_bytes", "payer"]

LINE = 320  # bytes of a line besides its texts, including its chain
_SENT = (Received, FrameReceived, Oversize, Limited)
UNCOUNTED = frozenset({"memory", LOG_SINK})  # connections of this process
CHECK_AFTER = 16 * 1024 * 1024  # bytes written
CHECK_EVERY = 1.0  # seconds
NOTE_EVERY = 60.0  # seconds between two notes of the refusals of a participant
ERROR_INTERVAL = 0.1  # seconds between two errors about stream frames


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLimits:
    """The limits of a journal, in bytes."""

    bytes_per_second: float = 2 * 1024 * 1024
    """Of one participant, in the long run."""
    burst: int = 64 * 1024 * 1024
    """Of one participant, at once."""
    total: int = 4 * 1024 * 1024 * 1024
    """Of one participant, over all files of the journal."""
    floor: int = 128 * 1024 * 1024
    """Bytes that stay free on the disk."""


def journal_bytes(records: Iterable[Record]) -> int:
    """About how many bytes these records add to the journal."""
    size = 0
    for record in records:
        size += LINE + len(record.detail) + len(record.pattern)
        for text in (record.raw, record.received):
            if text is not None:
                size += utf8_size(text)
    return size


def payer(event: Event, state: State) -> str:
    """The participant to whose share an event counts; empty for the host and for a seat of this process."""
    if isinstance(event, Joined):
        return "" if event.via in UNCOUNTED else event.participant
    if isinstance(event, WelcomesDue):
        by = state.members.get(next(iter(state.due.values()), ""))
        return (
            "" if by is None or any(connection.via in UNCOUNTED for connection in by.connections) else by.name
        )
    if isinstance(event, Reported):
        return "" if event.via in UNCOUNTED else event.participant
    if not isinstance(event, _SENT):
        return ""
    if event.connection is None:
        return event.participant if isinstance(event, (Received, Oversize)) else ""
    connection = state.connections.get(event.connection)
    return "" if connection is None or connection.via in UNCOUNTED else connection.participant


class Share:
    """The bytes that one participant may still cause, and those refused since the last note."""

    __slots__ = ("_at", "_left", "_limits", "error_at", "messages", "noted", "refused_bytes", "used")

    def __init__(self, limits: JournalLimits, now: datetime, used: int = 0) -> None:
        self._limits = limits
        self._left = float(limits.burst)
        self._at = now
        self.used = used
        self.messages = self.refused_bytes = 0
        self.noted: datetime | None = None
        self.error_at: datetime | None = None

    def exceeded(self, now: datetime) -> str:
        """The reason why the participant may cause no more at `now`; empty where it may."""
        limits = self._limits
        if self.used >= limits.total:
            return (
                f"the journal of this space holds {self.used} bytes that you caused, and its limit is {limits.total}; "
                "its host can prune the journal, or raise limits.journal_bytes"
            )
        if now > self._at:
            left = self._left + (now - self._at).total_seconds() * limits.bytes_per_second
            self._left = left if left < limits.burst else float(limits.burst)
        self._at = now
        if self._left <= 0:
            return (
                f"the journal of this space takes {limits.bytes_per_second:.0f} bytes a second of each participant, and "
                f"{limits.burst} at once; send less, or slower"
            )
        return ""

    def charge(self, size: int) -> None:
        """Counts `size` bytes; one message never costs more than the burst."""
        self.used += size
        left, least = self._left - size, -self._limits.burst
        self._left = left if left > least else float(least)

    def refuse(self, size: int, now: datetime) -> bool:
        """Counts one more refused message; returns whether a note is due."""
        self.messages += 1
        self.refused_bytes += size
        if self.noted is None:
            self.noted = now
        return (now - self.noted).total_seconds() >= NOTE_EVERY

    def may_report(self, now: datetime) -> bool:
        """Whether a further error about a stream frame is due."""
        if self.error_at is not None and (now - self.error_at).total_seconds() < ERROR_INTERVAL:
            return False
        self.error_at = now
        return True

    def take_count(self) -> dict[str, int] | None:
        """Takes the count of refusals since the last note; None where there were none."""
        if not self.messages:
            return None
        count = {"messages": self.messages, "bytes": self.refused_bytes}
        self.messages = self.refused_bytes = 0
        self.noted = None
        return count


class Shares:
    """The shares of the participants of one space; `used` are the bytes of each that the journal held before."""

    def __init__(self, limits: JournalLimits, used: Mapping[str, int] | None = None) -> None:
        self._limits = limits
        self._used = dict(used or {})
        self._shares: dict[str, Share] = {}

    def of(self, participant: str, now: datetime) -> Share:
        """The participant's share; a full one at the first call."""
        share = self._shares.get(participant)
        if share is None:
            share = self._shares[participant] = Share(self._limits, now, self._used.get(participant, 0))
        return share


class Room:
    """The free space of the disk of a journal, compared with a floor.

    It is measured at most once in `CHECK_EVERY` seconds, and earlier after `CHECK_AFTER` written bytes.

    Args:
        free: Returns the bytes that are free.
        floor: Bytes that stay free.
    """

    def __init__(
        self, free: Callable[[], int], floor: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._free = free
        self._floor = floor
        self._clock = clock
        self._at = -CHECK_EVERY
        self._written = 0
        self._low = False
        self._first = True

    def low(self, size: int) -> bool:
        """Counts `size` bytes to be written; returns whether less than the floor is free."""
        now = self._clock()
        self._written += size
        if self._first or now - self._at >= CHECK_EVERY or (self._written >= CHECK_AFTER and not self._low):
            self._first, self._at, self._written = False, now, 0
            self._low = self._free() < self._floor
        return self._low
