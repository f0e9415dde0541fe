"""Answers the questions to a log, in one of two ways.

`DirectAnswers` asks the ledger about records: those of a live log, or of files that are read in a moment.
`IndexedAnswers` asks the tables of an index, where one pass of the same code has stored what it found; it is for files
that are large. Both give the same answers. SQL restates no rule but the filter's (`filter.sql`).

What answers directly loads neither pandas nor DuckDB, but for a table.

Spec: §3.6.8.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mew_lab.log.diagnose.diagnosis import Diagnosis, diagnose
from mew_lab.log.entries import RecordedEntry, is_message
from mew_lab.log.files import SessionStart
from mew_lab.log.filter.facts import collect_facts, facts_of
from mew_lab.log.filter.fields import NO_FACTS, Facts
from mew_lab.log.filter.predicate import compile_predicate
from mew_lab.log.filter.tree import FilterTree
from mew_lab.log.follow import ExchangeFinder, FollowedExchange
from mew_lab.log.frames import FrameMaker, stored_frame
from mew_lab.log.held_records import FileRecords, LiveRecords, LogCounts
from mew_lab.log.reading import Vantage
from mew_lab.log.table import COLUMNS, Column, to_frame
from mew_lab.space.events import Record, outline

if TYPE_CHECKING:
    import pandas as pd

    from mew_lab.log.frame_columns import FrameColumn
    from mew_lab.log.index import LogIndex
    from mew_lab.log.links import IndexedExchanges

__all__ = ["Answers", "DirectAnswers", "IndexedAnswers", "LogOrigin", "table_of"]

FRAME_ROWS: Final = 250_000  # of a table that is kept while it is not in use
_OUTLINED: Final = """SELECT detail, count(*) FROM entries
    WHERE event = 'received' AND verdict = 'refused' AND starts_with(detail, '{') GROUP BY detail"""
_BEGINNING: Final = datetime.fromtimestamp(0, UTC)


class LogOrigin(NamedTuple):
    """Where a log comes from: who recorded it, what stands before a number, and what its frames cannot show."""

    vantage: Vantage
    sign: str
    unseen: str


class _KeptTable:
    """A table of messages, kept until there are more; a large one is kept only while it is in use.

    Attributes:
        upto: The number of records that it is of.
    """

    def __init__(self) -> None:
        self.upto = -1
        self._get: Callable[[], pd.DataFrame | None] = lambda: None

    def get(self) -> pd.DataFrame | None:
        """The table; None where it is not kept."""
        return self._get()

    def lend(self, frame: pd.DataFrame, upto: int) -> pd.DataFrame:
        """Keeps a table; returns one for a user, whose changes do not change it."""
        self.upto = upto
        # A table of the records in memory may stay; that of a whole long session takes gigabytes.
        self._get = (lambda: frame) if len(frame) <= FRAME_ROWS else weakref.ref(frame)
        lent = frame.copy(deep=False)
        weakref.finalize(lent, _hold, frame).atexit = False
        return lent


def _hold(frame: object) -> None:
    """Does nothing: what is to be called at the end of an object lives as long as that."""


class DirectAnswers:
    """Answers by the ledger, from the records themselves.

    Args:
        index: Returns the index of a journal, for a table of more records than are in memory.
    """

    def __init__(
        self, records: FileRecords | LiveRecords, origin: LogOrigin, index: Callable[[], LogIndex]
    ) -> None:
        self._records = records
        self._origin = origin
        self._index = index
        self._table = _KeptTable()
        self._makers: dict[bool, FrameMaker] = {}  # with and without the verdicts
        self._finder: ExchangeFinder | None = None
        self._facts: dict[tuple[bool, ...], tuple[int, Mapping[int, Facts]]] = {}

    def count(self) -> LogCounts:
        """The number of messages, and the faults."""
        return self._records.count()

    def last_time(self) -> datetime | None:
        """The time of the last record; None where there is none."""
        last = deque(self._records.all(), maxlen=1)
        return last[0].now if last else None

    def table(self) -> pd.DataFrame:
        """One row for each message."""
        done = self._table.get()
        if done is not None and not self._records.grows:
            return self._table.lend(done, 0)
        recent = self._records.recent
        upto = recent.dropped + len(recent.records)
        if recent.dropped and self._records.has_dropped:
            if done is None or self._table.upto != upto:
                from mew_lab.log.line_frame import line_frame

                # The journal may already hold more than was observed.
                seen = [self._records.first_seq, recent.records[-1].seq if recent.records else -1]
                done = line_frame(self._index(), "message AND seq BETWEEN ? AND ?", seen)
        elif done is None or self._table.upto < recent.dropped:
            done = to_frame(recent.records, first=recent.dropped + 1)
            _add_sessions(done, self._records.starts)
        elif self._table.upto < upto:
            from pandas import concat

            newer = recent.records[self._table.upto - recent.dropped :]
            fresh = to_frame(newer, first=self._table.upto + 1)
            done = concat([done, fresh], ignore_index=True)
        return self._table.lend(done, upto)

    def frame(self, name: str) -> pd.DataFrame:
        """The frame of the ledger with that name."""
        # Verdicts have a row for each message, so they are made only for those that ask for them.
        verdicts = name == "verdicts"
        if verdicts not in self._makers:
            grows, unseen = self._records.grows, self._origin.unseen
            self._makers[verdicts] = FrameMaker(verdicts=verdicts, unseen=unseen, grows=grows)
        return self._makers[verdicts].frame(name, self._records.after)

    def frame_of(self, name: str, columns: Sequence[FrameColumn]) -> pd.DataFrame:
        """The frame with that name, with other columns."""
        maker = FrameMaker({name: columns}, verdicts=name == "verdicts", unseen=self._origin.unseen)
        return maker.frame(name, self._records.after)

    def diagnose(self, faults: Callable[[], Iterable[str]]) -> Diagnosis:
        """All findings; `faults` are asked for after the records were read."""
        origin = self._origin
        return diagnose(self._records.all(), faults, sign=origin.sign, vantage=origin.vantage)

    def follow(self, which: str | int, *, most: int) -> FollowedExchange:
        """The exchange of a message."""
        return self.exchanges().follow(which, most=most)

    def exchanges(self) -> ExchangeFinder:
        """The newest messages, and what each follows from."""
        if self._finder is None:
            self._finder = ExchangeFinder(sign=self._origin.sign)
        self._finder.add(self._records.after(self._finder.read))
        return self._finder

    def passing(self, tree: FilterTree) -> Iterator[tuple[int, Record]]:
        """The records that pass a filter, with their places in the log, from 1."""
        predicate = compile_predicate(tree)
        facts = self._known_facts(tree)
        for place, record in enumerate(self._records.all(), self._records.first_place):
            if predicate(RecordedEntry(record, place), facts.get(place, NO_FACTS)):
                yield place, record

    def _known_facts(self, tree: FilterTree) -> Mapping[int, Facts]:
        """The facts that a filter reads, by place; kept until there are more records."""
        kinds, upto = facts_of(tree), self._records.upto
        if not any(kinds):
            return {}
        known = self._facts.get(kinds)
        if known is None or known[0] != upto:
            known = upto, collect_facts(self._records.all, tree, first=self._records.first_place)
            self._facts[kinds] = known
        return known[1]

    def count_passing(self, tree: FilterTree) -> int:
        """The number of messages that pass a filter."""
        return sum(is_message(record) for _, record in self.passing(tree))

    def passing_table(self, tree: FilterTree) -> pd.DataFrame:
        """The rows of `table` whose messages pass a filter."""
        return _add_sessions(table_of(self.passing(tree)), self._records.starts)


class IndexedAnswers:
    """Answers by the tables of an index, which are built when the first question comes.

    Args:
        index: The index of the files, which adds what was appended to them since.
        faults: Sentences on files that the index knows nothing of.
        copied: Whether the index is of a copy of the files, of whose lines `faults` tell.
    """

    def __init__(
        self, index: LogIndex, origin: LogOrigin, faults: tuple[str, ...], *, copied: bool = False
    ) -> None:
        self._copied = copied
        self._index = index
        self._origin = origin
        self._faults = faults
        self._table = _KeptTable()
        self._frames: dict[str, tuple[int, pd.DataFrame]] = {}  # by name, with the rows of the index then
        self._exchanges: IndexedExchanges | None = None

    def count(self) -> LogCounts:
        """The number of messages, and the faults."""
        index = self._index.build()
        unknown = sum(count for detail, count in index.query(_OUTLINED) if _is_outline(detail))
        of_lines = () if self._copied else index.faults
        return LogCounts(index.count_messages(), unknown, (*self._faults, *of_lines))

    def last_time(self) -> datetime | None:
        """The time of the last record; None where there is none."""
        return self._index.build().last_time

    def table(self) -> pd.DataFrame:
        """One row for each message."""
        index = self._index.build()
        done = self._table.get()
        if done is None or self._table.upto != len(index):
            from mew_lab.log.line_frame import line_frame

            done = _add_sessions(line_frame(index), index.starts())
        return self._table.lend(done, len(index))

    def frame(self, name: str) -> pd.DataFrame:
        """The frame of the ledger with that name, but for `verdicts`."""
        index = self._index.build()
        rows, made = self._frames.get(name, (-1, None))
        if made is None or rows != len(index):
            index.write_facts()
            made = stored_frame(index, name, self._origin.unseen)
            self._frames[name] = len(index), made
        return made.copy(deep=False)

    def diagnose(self, faults: Callable[[], Iterable[str]]) -> Diagnosis:
        """All findings; `faults` are asked for after the records were read."""
        self._index.write_facts()
        rows = self._index.query("SELECT number, finding FROM diagnosis ORDER BY number")
        return Diagnosis.of_rows(rows, faults(), sign=self._origin.sign)

    def follow(self, which: str | int, *, most: int) -> FollowedExchange:
        """The exchange of a message."""
        from mew_lab.log.links import IndexedExchanges

        index = self._index.build()
        if self._exchanges is None:
            self._exchanges = IndexedExchanges(index, sign=self._origin.sign)
        return self._exchanges.follow(which, most=most)

    def passing(self, tree: FilterTree) -> Iterator[tuple[int, Record]]:
        """The records that pass a filter, with their places in the log, from 1."""
        places = self._places(tree, events=True)
        return zip(places.tolist(), self._index.records(places), strict=True)

    def count_passing(self, tree: FilterTree) -> int:
        """The number of messages that pass a filter."""
        return len(self._places(tree))

    def passing_table(self, tree: FilterTree) -> pd.DataFrame:
        """The rows of `table` whose messages pass a filter."""
        from mew_lab.log.line_frame import line_frame

        frame = line_frame(self._index, places=self._places(tree))
        return _add_sessions(frame, self._index.starts())

    def _places(self, tree: FilterTree, *, events: bool = False) -> Any:
        from mew_lab.log.filter.indexed import select_places

        if any(facts_of(tree)):
            self._index.write_facts()
        return select_places(self._index.build(), tree, events=events)


Answers = DirectAnswers | IndexedAnswers
"""What a log can be asked; each answer is of all its records up to now."""


def table_of(
    passing: Iterable[tuple[int, Record]], columns: Sequence[Column] = COLUMNS, *, events: bool = False
) -> pd.DataFrame:
    """The table of some records of a log, with their places in it."""
    places: list[int] = []

    def read_records() -> Iterator[Record]:
        for place, record in passing:
            if events or is_message(record):
                places.append(place)
                yield record

    frame = to_frame(read_records(), columns, events=events)
    if places and "place" in frame.columns:
        frame["place"] = places  # in the log, not among the records that pass
    return frame


def _add_sessions(frame: pd.DataFrame, starts: Sequence[SessionStart]) -> pd.DataFrame:
    """Adds the columns `session`, `file` and `space` where a log has several sessions; returns the table."""
    if starts and starts[-1].session > 1:
        first = [start.place for start in starts]
        at = [bisect_right(first, place) - 1 for place in frame["place"].tolist()]
        frame["session"] = [starts[n].session for n in at]
        for name in ("file", "space"):
            frame[name] = [getattr(starts[n], name) for n in at]
    return frame


def _is_outline(detail: str) -> bool:
    return outline(Record(0, _BEGINNING, "received", verdict="refused", detail=detail)) is not None
