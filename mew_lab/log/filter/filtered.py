"""The part of a log that a filter selects: a view that is read like the log itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mew_lab.log.answers import Answers, table_of
from mew_lab.log.copying import CopiedMessages
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.line import read_members
from mew_lab.log.numbering import NumberedEntry, numbered
from mew_lab.log.table import COLUMNS, Column
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import visible
from mew_lab.space.events import Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FilteredLog"]


class FilteredLog(CopiedMessages):
    """The records of a log that pass a filter. `Log.filter` returns one.

    Iteration yields the members of each message, `len` counts messages, `df` is their table, and `filter` narrows it
    further. `to_jsonl`, `to_markdown`, `to_mermaid` and `to_python` give them as text for elsewhere. Nothing is kept:
    each use reads the log up to now. Times such as `-5m` count from the last record of a file, or from now in a live
    log.

    Attributes:
        text: The filter.

    Args:
        answers: Returns what answers the questions to the log, up to now.
        grows: Whether the log is live, so that times count from now.
        sign: What stands before a number; see `Log.sign`.
    """

    def __init__(
        self, text: str, answers: Callable[[], Answers], *, grows: bool = True, sign: str = "#"
    ) -> None:
        self.text = text
        self._answers = answers
        self._grows = grows
        self._sign = sign
        self._tree = parse_filter(text, clock=FilterClock(self._now))

    def _now(self) -> datetime:
        return (None if self._grows else self._answers().last_time()) or datetime.now(UTC)

    @property
    def records(self) -> Iterator[Record]:
        """The records that pass, events without a message included, the oldest first."""
        return (record for _, record in self._answers().passing(self._tree))

    @property
    def entries(self) -> tuple[NumberedEntry, ...]:
        """The messages that pass, in the order received, with their numbers in the log."""
        return tuple(numbered(self.records, sign=self._sign))

    @property
    def df(self) -> pd.DataFrame:
        """The rows of `Log.df` of the messages that pass."""
        return self._answers().passing_table(self._tree)

    def table(self, columns: Sequence[Column] = COLUMNS, *, events: bool = False) -> pd.DataFrame:
        """A table with other columns; with `events`, records without a message have rows too."""
        return table_of(self._answers().passing(self._tree), columns, events=events)

    def filter(self, text: str) -> FilteredLog:
        """The messages of these that pass another filter, too.

        Raises:
            FilterError: the text is no filter.
        """
        parse_filter(text, clock=FilterClock())  # so that an error shows the text alone
        both = " and ".join(f"({part})" for part in (self.text, text) if part.strip())
        return FilteredLog(both, self._answers, grows=self._grows, sign=self._sign)

    def __len__(self) -> int:
        return self._answers().count_passing(self._tree)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for record in self.records:
            members = read_members(record.raw) if record.raw is not None else None
            if members is not None:
                yield members

    def __repr__(self) -> str:
        return f"<FilteredLog: {count_of(len(self), 'message')} with {visible(self.text[:200])}>"
