"""Passes the records of a log through a ledger, once for all readers that need what it says.

Several readers of a log ask the ledger: the rows of the frames, the states of messages, and the rules of the diagnosis.
Those that read in step share one `RecordLedger`, so that each message is parsed and observed once.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from mew_lab.ledger.ledger import CHAPTERS, Ledger, LedgerChange
from mew_lab.log.decision_note import resolve_reported
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.line import read_members
from mew_lab.log.reading import Vantage, holds_opening, vantage_of
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.space.events import REPORTED, RESUMED, Record

__all__ = ["MAX_IDS", "Mark", "PlacedEntry", "RecordLedger"]

MAX_IDS = 100_000  # ids that are remembered, at least


class Mark(NamedTuple):
    """What is kept of a message that a later message may concern."""

    place: int
    seq: int
    time: datetime
    id: str
    sender: str
    to: tuple[str, ...]


class PlacedEntry(RecordedEntry):
    """The entry of a record. Its `seq` is the record's place among all records of the log, from 1, which is unique."""

    _mark: Mark | None = None

    @property
    def mark(self) -> Mark:
        if self._mark is None:
            record = self.record
            self._mark = Mark(self.seq, record.seq, record.now, self.id, self.sender, self.to)
        return self._mark


class RecordLedger:
    """The ledger of a log.

    Attributes:
        chapters: The chapters of the ledger that observe the messages.
        ledger: The ledger, after the newest record.
        vantage: Who recorded the log; its `opened` says it, where there is one.
        whole: Whether the log holds all records from the opening of its space.
        names: The participant of each id of a connection.
        assumed: Ids of connections whose join is not in the log, with the place of the first message of each. The
            participant is the one that the record of this message states.
        entry: The message of the newest record; None where it has none.
        changes: The changes that the record made.
    """

    def __init__(self, chapters: Collection[str] = CHAPTERS, vantage: Vantage = "gateway") -> None:
        self.chapters = chapters
        self.vantage = vantage
        self.whole = False
        self.names: BoundedDict[str, str] = BoundedDict(MAX_IDS)
        self.assumed: BoundedDict[str, int] = BoundedDict(MAX_IDS)
        names = self.names
        self.ledger = Ledger(logical=lambda id: names.get(id, id), chapters=chapters)
        self.entry: PlacedEntry | None = None
        self.changes: tuple[LedgerChange, ...] = ()
        self._place = 0
        self._seq = -1

    def observe(self, record: Record, place: int) -> None:
        """Observes the record at a place of the log, from 1; once, however many readers ask for it."""
        if place == self._place:
            return
        self._place = place
        if record.seq > self._seq + 1:  # the lines between cannot be read, or are not in this log
            self.whole = False
        self._seq = record.seq
        if record.raw is not None:
            self.entry = entry = PlacedEntry(record, place, place)
            if not self.whole:
                self._assume_connection(entry)
            self.changes = self.ledger.observe(entry)
            return
        self.entry, self.changes = None, ()
        if record.event == "joined" and record.verdict != "refused" and record.detail:
            self.names[record.detail] = record.participant
        elif record.event == "opened":
            about = read_members(record.detail) or {}
            if "previous" not in about:  # else it is a later file of the same session
                self.whole = holds_opening(about)
                self.vantage = vantage_of(about)
        elif record.event == RESUMED:  # another gateway goes on: nothing of what waited is answered any more
            self.changes = self.ledger.calls.interrupt()
        elif record.event == REPORTED:
            names = self.names
            self.changes = resolve_reported(self.ledger.calls, record, lambda id: names.get(id, id))

    def _assume_connection(self, entry: PlacedEntry) -> None:
        """Takes the sender of a message for a connection of the participant that the record states."""
        owner, sender = entry.record.participant, entry.sender
        if entry.record.verdict == "accepted" and owner and sender not in self.names:
            self.names[sender] = owner
            if owner != sender:
                self.assumed[sender] = entry.seq
