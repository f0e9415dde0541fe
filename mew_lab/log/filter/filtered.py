"""The part of a log that a filter selects: a view that is read like the log itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mew_lab.log.copying import CopiedMessages
from mew_lab.log.entries import RecordedEntry, is_message
from mew_lab.log.filter.facts import collect_facts, write_facts
from mew_lab.log.filter.fields import NO_FACTS, Facts
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.indexed import Rows, select_places
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.predicate import compile_predicate, needs_facts
from mew_lab.log.filter.tree import FilterTree
from mew_lab.log.line import read_members
from mew_lab.log.numbering import NumberedEntry, numbered
from mew_lab.log.table import COLUMNS, Column, to_frame
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import visible
from mew_lab.space.events import Record

if TYPE_CHECKING:
    import pandas as pd

    from mew_lab.log.index import LogIndex

__all__ = ["FilteredLog", "filter_records"]


def filter_records(records: Callable[[], Iterable[Record]], tree: FilterTree) -> Iterator[tuple[int, Record]]:
    """Yields the records that pass a filter, in their order, with their places in the log, from 1.

    Args:
        records: Makes an iterable over the records. It is called once more where the filter reads facts from the ledger,
            and once more where it reads the diagnosis.
    """
    predicate = compile_predicate(tree)
    facts: Mapping[int, Facts] = {}
    if needs_facts(tree):
        facts = collect_facts(records, tree)
    for place, record in enumerate(records(), 1):
        if predicate(RecordedEntry(record, place), facts.get(place, NO_FACTS)):
            yield place, record


class FilteredLog(CopiedMessages):
    """The records of a log that pass a filter. `Log.filter` returns one.

    Iteration yields the members of each message, `len` counts messages, `df` is their table, and `filter` narrows it
    further. `to_jsonl`, `to_markdown`, `to_mermaid` and `to_python` give them as text for elsewhere. Nothing is kept:
    each use reads the log up to now. Times such as `-5m` count from the last record of a file, or from now in a live
    log.

    Attributes:
        text: The filter.

    Args:
        last: Returns the time of the last record; None in a live log, where times count from now.
        index: Returns an index of the log that holds all records which may pass the filter; None where there is none.
        sign: What stands before a number; see `Log.sign`.
    """

    def __init__(
        self,
        text: str,
        records: Callable[[], Iterable[Record]],
        *,
        last: Callable[[], datetime | None] = lambda: None,
        index: Callable[[FilterTree], LogIndex | None] = lambda tree: None,
        sign: str = "#",
    ) -> None:
        self.text = text
        self._records = records
        self._last = last
        self._index = index
        self._sign = sign
        self._tree = parse_filter(text, clock=FilterClock(self._now))

    def _now(self) -> datetime:
        return self._last() or datetime.now(UTC)

    @property
    def records(self) -> Iterator[Record]:
        """The records that pass, events without a message included, the oldest first."""
        return (record for _, record in self._passing())

    def _passing(self) -> Iterator[tuple[int, Record]]:
        selected = self._select()
        if selected is None:
            return filter_records(self._records, self._tree)
        index, places = selected
        return zip(places.tolist(), index.records(places), strict=True)

    def _select(self, *, events: bool = True) -> tuple[LogIndex, Rows] | None:
        """The index and the places of the records that pass; None where no index can judge the filter."""
        index = self._index(self._tree)
        if index is None:
            return None
        write_facts(index, self._tree)
        places = select_places(index, self._tree, events=events)
        return (index, places) if places is not None else None

    @property
    def entries(self) -> tuple[NumberedEntry, ...]:
        """The messages that pass, in the order received, with their numbers in the log."""
        return tuple(numbered(self.records, sign=self._sign))

    @property
    def df(self) -> pd.DataFrame:
        """The rows of `Log.df` of the messages that pass."""
        if (selected := self._select(events=False)) is None:
            return self.table()
        from mew_lab.log.line_frame import line_frame

        index, places = selected
        return line_frame(index, places=places)

    def table(self, columns: Sequence[Column] = COLUMNS, *, events: bool = False) -> pd.DataFrame:
        """A table with other columns; with `events`, records without a message have rows too."""
        places: list[int] = []

        def read_records() -> Iterator[Record]:
            for place, record in self._passing():
                if events or is_message(record):
                    places.append(place)
                    yield record

        frame = to_frame(read_records(), columns, events=events)
        if "place" in frame.columns:
            frame["place"] = places  # in the log, not among the records that pass
        return frame

    def filter(self, text: str) -> FilteredLog:
        """The messages of these that pass another filter, too.

        Raises:
            FilterError: the text is no filter.
        """
        parse_filter(text, clock=FilterClock())  # so that an error shows the text alone
        both = " and ".join(f"({part})" for part in (self.text, text) if part.strip())
        return FilteredLog(both, self._records, last=self._last, index=self._index)

    def __len__(self) -> int:
        selected = self._select(events=False)
        return len(selected[1]) if selected is not None else sum(map(is_message, self.records))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for record in self.records:
            members = read_members(record.raw) if record.raw is not None else None
            if members is not None:
                yield members

    def __repr__(self) -> str:
        return f"<FilteredLog: {count_of(len(self), 'message')} with {visible(self.text[:200])}>"
