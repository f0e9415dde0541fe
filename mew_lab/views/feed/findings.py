"""Judges the rows of the feed by the rules of the log's diagnosis, in steps, while somebody looks at the feed.

The rules are those of `log.diagnose()` (`mew_lab.log.diagnose`). The first step begins before the oldest row that a view
may hold, each later one goes on from there, so that no message is judged twice. In a longer session, a message that
refers to one of 20 000 messages earlier may be taken for one that refers to nothing; `log.diagnose()` reads all.

What the end of a log leaves open, such as a request without an answer, is reported when the space has stopped, and of a
log from files when all is read. Only the writer of the feed calls this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Protocol

from mew_lab.lab.rows import Rows
from mew_lab.log.diagnose.diagnosis import DiagnosisPass
from mew_lab.log.diagnose.findings import SEVERITIES, LogFinding
from mew_lab.log.entries import number_after
from mew_lab.log.filter.fields import Facts
from mew_lab.log.reading import Vantage
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.space.events import Record
from mew_lab.views.ui.sent_rows import ChangedKeys

__all__ = ["FileFindings", "GrowingLog", "LiveFindings", "RowFindings", "rank_of"]

MOST_PLACES = 40_000  # messages whose rows are remembered
MOST_OF_ONE = 8  # findings about one message


class GrowingLog(Protocol):
    """The log of a space, of which the newest records are in memory."""

    @property
    def held(self) -> list[Record]: ...
    @property
    def vantage(self) -> Vantage: ...
    def held_after(self, seq: int, most: int) -> list[Record]: ...


class RowFindings(ABC):
    """The findings about the newest rows of a feed, by the numbers of the rows.

    Args:
        ring: How many rows a view holds.
        vantage: Who recorded the log.
    """

    def __init__(self, *, ring: int, vantage: Vantage) -> None:
        self._vantage = vantage
        self._changed: ChangedKeys[int] = ChangedKeys()
        self._found: BoundedDict[int, tuple[LogFinding, ...]] = BoundedDict(ring)
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._judge = DiagnosisPass(self._keep, vantage=self._vantage)
        self._rows: BoundedDict[int, int] = BoundedDict(MOST_PLACES)  # place in the pass -> row
        self._row = 0  # the number of the newest one

    @abstractmethod
    def step(self, most: int) -> bool:
        """Judges at most `most` further records; returns whether all rows are judged."""

    def _observe(self, record: Record) -> None:
        if record.raw is not None:
            self._row = number_after(record, self._row)
            self._rows[self._judge.places + 1] = self._row
        self._judge.observe(record)

    def _keep(self, finding: LogFinding) -> None:
        row = self._rows.get(finding.place)
        if row is None:
            return
        known = self._found.get(row, ())
        if len(known) < MOST_OF_ONE:
            self._found[row] = (*known, finding)
            self._changed.add(row)

    def take(self) -> list[int]:
        """The rows whose findings have changed since the last time."""
        return self._changed.take()

    def get(self, row: int) -> tuple[LogFinding, ...]:
        """The findings about a row, in the order in which they were found."""
        return self._found.get(row, ())

    def between(self, first: int, last: int) -> list[int]:
        """The rows from `first` to `last` with findings."""
        return [row for row in self._found if first <= row <= last]

    def add_to(self, facts: Facts, row: int) -> Facts:
        """The facts about a row, for a filter, with what is found about it."""
        if not (found := self.get(row)):
            return facts
        rules = tuple(dict.fromkeys(finding.rule for finding in found))
        return facts._replace(severity=SEVERITIES[rank_of(found) - 1], rules=rules)


class LiveFindings(RowFindings):
    """The findings about the newest rows of a space.

    Args:
        ended: Returns whether the space has stopped, so that no message follows.
    """

    def __init__(self, log: GrowingLog, source: Rows, *, ring: int, ended: Callable[[], bool]) -> None:
        super().__init__(ring=ring, vantage=log.vantage)
        self._log = log
        self._source = source
        self._ring = ring
        self._ended = ended
        self._begun = False

    def _begin(self) -> None:
        """Begins so far before the oldest row of a view as it has rows; most of what it refers to is there.

        Where not so many rows are held, it begins so many records before. Of what came before, only the connections
        are needed.
        """
        rows, held = self._source, self._log.held
        shown = rows.back(rows.last_seq, self._ring)
        before = self._find(held, rows.back(shown, self._ring))
        start = max(0, min(before, self._find(held, shown) - self._ring))
        self._begin_pass()
        self._last = held[start].seq - 1 if held else -1
        self._most_behind = len(held) - start + self._ring
        for row in self.between(self._last + 1, rows.last_seq):  # these are judged again
            del self._found[row]
            self._changed.add(row)
        self._begun, self._finished = True, False
        for record in held[:start]:
            if record.event == "joined":
                self._judge.observe(record)

    def _find(self, held: list[Record], after: int) -> int:
        """The place of the first row after `after` among the held records; 0 where there is none."""
        first = self._source.numbers(after, 1)
        record = self._source.record(first[0]) if first else None
        return bisect_left(held, record.seq, key=attrgetter("seq")) if record is not None else 0

    def step(self, most: int) -> bool:
        """Judges at most `most` further records; returns whether all rows are judged."""
        if not self._begun or not self._goes_on():
            self._begin()
        records = self._log.held_after(self._last, most)
        for record in records:
            self._observe(record)
            self._last = record.seq
        if len(records) == most:
            return False
        if self._ended() and not self._finished:
            self._finished = True
            self._judge.finish()
        return True

    def _goes_on(self) -> bool:
        """Whether the next record is still in memory, and near enough to go on from there."""
        oldest = self._log.held_after(-1, 1)
        behind = self._log.held_after(self._last, self._most_behind + 1)
        return len(behind) <= self._most_behind and (not oldest or oldest[0].seq <= self._last + 1)


class FileFindings(RowFindings):
    """The findings about the newest rows of a log from files.

    Args:
        records: The newest records of the log.
    """

    def __init__(self, records: Iterable[Record], *, ring: int, vantage: Vantage = "gateway") -> None:
        super().__init__(ring=ring, vantage=vantage)
        self._records = iter(records)
        self._finished = False

    def step(self, most: int) -> bool:
        """Judges at most `most` further records; returns whether all rows are judged."""
        count = 0
        for record in islice(self._records, most):
            self._observe(record)
            count += 1
        if count < most and not self._finished:
            self._finished = True
            self._judge.finish()
        return self._finished


def rank_of(findings: Sequence[LogFinding]) -> int:
    """The rank of the highest severity, from 1 for a note to 4; 0 without findings."""
    return max((SEVERITIES.index(finding.severity) + 1 for finding in findings), default=0)
