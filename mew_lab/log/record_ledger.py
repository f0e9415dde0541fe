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
from mew_lab.log.entries import RecordedEntry
from mew_lab.space.events import Record

__all__ = ["Mark", "PlacedEntry", "RecordLedger"]


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
        names: The participant of each id of a connection.
        entry: The message of the newest record; None where it has none.
        changes: The changes that it made.
    """

    def __init__(self, chapters: Collection[str] = CHAPTERS) -> None:
        self.chapters = chapters
        self.names: dict[str, str] = {}
        names = self.names
        self.ledger = Ledger(logical=lambda id: names.get(id, id), chapters=chapters)
        self.entry: PlacedEntry | None = None
        self.changes: tuple[LedgerChange, ...] = ()
        self._place = 0

    def observe(self, record: Record, place: int) -> None:
        """Observes the record at a place of the log, from 1; once, however many readers ask for it."""
        if place == self._place:
            return
        self._place = place
        if record.raw is not None:
            self.entry = entry = PlacedEntry(record, place, place)
            self.changes = self.ledger.observe(entry)
            return
        self.entry, self.changes = None, ()
        if record.event == "joined" and record.verdict != "refused" and record.detail:
            self.names[record.detail] = record.participant
