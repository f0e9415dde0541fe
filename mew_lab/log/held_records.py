"""Holds the records of a log: those of its files, or those that a live log has observed.

`FileRecords` reads files again for each use, but keeps those of a small log, which are read in a moment. `LiveRecords`
keeps the newest records and reads the older ones back from the journal.

There is no lock. Only the thread that runs the gateway calls `observe`; other threads copy the list of records in one
step that the interpreter does not interrupt.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, NamedTuple

from mew_lab.log.claude_sessions import companions_of
from mew_lab.log.entries import is_message
from mew_lab.log.files import Files, JournalSource, RecentRecords, SessionStart, begin_session, is_large
from mew_lab.log.rare_collection import rare_collection
from mew_lab.space.events import Record, outline

__all__ = ["MAX_CHARACTERS", "MAX_RECORDS", "FileRecords", "LiveRecords", "LogCounts", "excess"]

MAX_RECORDS: Final = 200_000
MAX_CHARACTERS: Final = 512 * 1024 * 1024  # of the texts in memory


class LogCounts(NamedTuple):
    """The messages of a log, those of which only the beginning is kept, and sentences on what could not be read."""

    messages: int
    unknown: int
    faults: tuple[str, ...] = ()


class FileRecords:
    """The records of files.

    Attributes:
        source: The files.
        counts: What a pass to their end has counted; None before that.
        starts: Where the sessions begin that such a pass has found.
    """

    grows: Final = False
    has_dropped: Final = False
    first_place: Final = 1
    first_seq: Final = None
    upto: Final = 0

    def __init__(self, files: Files) -> None:
        self.source = files
        self.counts: LogCounts | None = None
        self.starts: tuple[SessionStart, ...] = ()
        self._state: object = None
        self._seen: dict[Path, tuple[int, ...]] = {}
        self._kept: list[Record] | None = None

    def state(self) -> tuple[tuple[int, ...], ...]:
        """What is other when a file was changed, or has grown; a file that is gone is as it was."""
        watched = [one for path in self.source.paths for one in (path, *companions_of(path))]
        for path in watched:
            # What was read of a file that is gone still answers; a read anew says that it is gone.
            with suppress(OSError, ValueError):
                found = path.stat()
                self._seen[path] = (found.st_size, found.st_mtime_ns, found.st_dev, found.st_ino)
        return tuple(self._seen.get(path, ()) for path in watched)

    @property
    def recent(self) -> RecentRecords:
        """All of them."""
        return RecentRecords(0, [*self.all()])

    def all(self) -> Iterable[Record]:
        """The records up to now; those of large files are read during iteration."""
        state = self.state()
        if state != self._state:
            self._state, self._kept, self.counts = state, None, None
        if self._kept is None and not is_large(self.source.paths):
            with rare_collection:
                self._kept = list(self._read())
        return self._read() if self._kept is None else iter(self._kept)

    def after(self, done: int) -> Iterable[Record]:
        """The records behind the first `done`; after a pass over all of them there are none."""
        return () if done else self.all()

    def count(self) -> LogCounts:
        """The messages and the faults; reads what was not read yet."""
        records = self.all()
        if self.counts is None:
            for _ in records:
                pass
        assert self.counts is not None
        return self.counts

    def _read(self) -> Iterator[Record]:
        messages, unknown, faults = 0, 0, list[str]()
        begun, files, starts = list[Path](), 0, list[SessionStart]()
        for place, record in enumerate(self.source.read(faults, begun=begun), 1):
            if record.event == "opened" or len(begun) > files:
                files = len(begun)
                begin_session(starts, place, begun[-1], record)
            if record.verdict == "refused":
                messages += is_message(record)
                unknown += outline(record) is not None
            elif record.raw is not None:
                messages += 1
            yield record
        self.counts, self.starts = LogCounts(messages, unknown, tuple(faults)), tuple(starts)


class LiveRecords:
    """The records that are observed, one after the other.

    Attributes:
        source: The journal to which the same records are written before they are observed; None where there is none.
        first_seq: The `seq` of the first of them.
    """

    grows: Final = True
    starts: Final = ()  # a live log is one session

    def __init__(
        self,
        journal: JournalSource | None,
        *,
        most: int = MAX_RECORDS,
        characters: int = MAX_CHARACTERS,
    ) -> None:
        self.source = journal
        self.first_seq: int | None = None
        self._most, self._most_characters = most, characters
        self._recent = RecentRecords(0, [])
        self._characters = self._messages = self._unknown = 0

    def observe(self, record: Record) -> None:
        """Adds the next record."""
        recent = self._recent
        if self.first_seq is None:
            self.first_seq = record.seq
        recent.records.append(record)
        if is_message(record):
            self._messages += 1
        if record.raw is not None:
            self._characters += len(record.raw)
            self._unknown += outline(record) is not None
        # A quarter at a time, so that the cost of a record is the same however long the session lasts.
        cut = 0
        if len(recent.records) > self._most + self._most // 4 + 1024:
            cut = len(recent.records) - self._most
        elif self._characters > self._most_characters:
            cut = excess(recent.records, self._most_characters * 3 // 4)
        if cut:
            self._characters -= sum(len(record.raw or "") for record in recent.records[:cut])
            self._recent = RecentRecords(recent.dropped + cut, recent.records[cut:])

    def pass_over(self, records: int, messages: int, unknown: int) -> None:
        """Counts records that stay in the journal, and the messages among them; called before the first `observe`."""
        self._recent = RecentRecords(records, [])
        self._messages, self._unknown = messages, unknown

    @property
    def recent(self) -> RecentRecords:
        """The newest records, those in memory, as they are now."""
        recent = self._recent  # once: it is replaced as a whole
        return RecentRecords(recent.dropped, recent.records[:])

    @property
    def has_dropped(self) -> bool:
        """Whether the journal has records that are in memory no more."""
        return self.source is not None and self._recent.dropped > 0

    @property
    def first_place(self) -> int:
        """The place in the log of the first record of `all`."""
        return 1 if self.source is not None else self._recent.dropped + 1

    @property
    def upto(self) -> int:
        """The number of records up to now."""
        recent = self._recent
        return recent.dropped + len(recent.records)

    def held_after(self, seq: int, most: int) -> list[Record]:
        """Of the records in memory, the first `most` after the record `seq`."""
        records = self._recent.records
        start = bisect_right(records, seq, key=operator.attrgetter("seq"))
        return records[start : start + most]

    def state(self) -> object:
        """Always the same: what is new comes behind what was there."""
        return None

    def all(self) -> Iterable[Record]:
        """The records up to now; where the journal has older ones, they are read during iteration."""
        recent = self._recent
        newest = recent.records[:]
        if not recent.dropped or self.source is None:
            return newest
        end = newest[-1].seq if newest else -1  # the journal may already hold more
        return takewhile(lambda record: record.seq <= end, Files(self.source.paths).read([]))

    def after(self, done: int) -> Iterable[Record]:
        """The records behind the first `done`; those that are neither in memory nor in a journal are missing."""
        recent = self._recent
        if done >= recent.dropped:
            return recent.records[done - recent.dropped :]
        return recent.records[:] if self.source is None else islice(self.all(), done, None)

    @property
    def counts(self) -> LogCounts:
        """The messages; a record that was observed has no faults."""
        return LogCounts(self._messages, self._unknown)

    def count(self) -> LogCounts:
        """The same."""
        return self.counts


def excess(records: Sequence[Record], most: int) -> int:
    """The number of oldest records to drop so that the texts of the others have at most `most` characters.

    The last record always stays.
    """
    left = sum(len(record.raw or "") for record in records)
    for count, record in enumerate(records[:-1]):
        if left <= most:
            return count
        left -= len(record.raw or "")
    return max(0, len(records) - 1)
