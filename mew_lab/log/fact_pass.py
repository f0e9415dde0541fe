"""The passes of a log whose results an index keeps: states, findings, the diagnosis and the frames, as tables of data.

A `FactPass` reads all records of a log once and puts rows into its tables, some at a time. A frame of the ledger is a
table, too: it has the column `row`, the number of the row in the frame from 0, and then the columns of the frame. Rows
come in the order in which they settle, which is not that of `row`.

`FACTS` makes all tables of a log from one ledger. `LEDGER`, `RULES` and `STATES` make the parts that a question needs,
for a log that is read in a moment.

This module reads no file and knows no database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from mew_lab.log.diagnose.diagnosis import (
    DiagnosisPass,
    FindingCollector,
    judge_messages,
)
from mew_lab.log.frame_columns import FRAMES
from mew_lab.log.ledger_rows import LedgerPass, MessageStates, ledger_columns
from mew_lab.log.rare_collection import rare_collection
from mew_lab.log.record_ledger import RecordLedger
from mew_lab.space.events import Record

__all__ = ["FACTS", "LEDGER", "RULES", "STATES", "FactColumn", "FactPass", "FactTable", "frame_table"]

BATCH: Final = 16_384  # rows that are put at a time

ColumnType = Literal["int64", "Int64", "float64", "bool", "boolean", "time", "text", "texts", "list"]
"""`texts` are tuples of texts that no condition reads, `list` those of a column that a filter reads."""


class FactColumn(NamedTuple):
    """One column of a table of facts."""

    name: str
    type: ColumnType


class FactTable(NamedTuple):
    """A table of facts."""

    name: str
    columns: tuple[FactColumn, ...]


Put = Callable[[str, Sequence[Sequence[Any]]], None]
"""Takes the name of a table and some rows of it, as columns."""


class FactPass(NamedTuple):
    """One pass over the records of a log: `run(records, put)` puts all rows of `tables`."""

    name: str
    tables: tuple[FactTable, ...]
    run: Callable[[Iterable[Record], Put], None]


def frame_table(frame: str) -> str:
    """The name of the table of a frame."""
    return f"frame_{frame}"


def _table_of(frame: str) -> FactTable:
    columns = [FactColumn("row", "int64")]
    for column in FRAMES[frame].columns:
        type = "texts" if column.several else _TYPES.get(column.dtype, column.dtype)
        columns.append(FactColumn(column.name, type))  # type: ignore[arg-type]
    return FactTable(frame_table(frame), tuple(columns))


_TYPES: Final = {"object": "text", "datetime64[us, UTC]": "time"}
# The verdicts have a row for each message; the table `entries` has nearly all of it already.
_KEPT: Final = tuple(frame for frame in FRAMES if frame != "verdicts")
_STATES = FactTable(
    "states",
    (
        *(FactColumn("place", "int64"), FactColumn("state", "text")),
        *(FactColumn("latency", "float64"), FactColumn("decided_by", "text")),
    ),
)
_FINDINGS = FactTable(
    "findings", (FactColumn("place", "int64"), FactColumn("severity", "text"), FactColumn("rules", "list"))
)
_DIAGNOSIS = FactTable("diagnosis", (FactColumn("number", "int64"), FactColumn("finding", "text")))


def _run_states(records: Iterable[Record], put: Put) -> None:
    _put_rows(put, "states", [*ledger_columns(records)])


class _FrameTables:
    """Puts the frames of a ledger pass into their tables."""

    def __init__(self, ledger: LedgerPass, put: Put) -> None:
        self._ledger = ledger
        self._values = {frame: [column.value for column in FRAMES[frame].columns] for frame in _KEPT}
        self._put = put

    def put_settled(self) -> None:
        """Puts the rows that cannot change any more, when there are many."""
        if self._ledger.due:
            self._put_rows(self._ledger.settle())

    def put_all(self) -> None:
        """Puts all other rows, at the end of the log."""
        ledger = self._ledger
        self._put_rows(ledger.rows)
        for frame, counted in (("traffic", sorted(ledger.traffic.items())), ("talk", [*ledger.talk.items()])):
            rows = [[value(row) for value in self._values[frame]] for row in counted]
            _put_rows(self._put, frame_table(frame), [(number, *row) for number, row in enumerate(rows)])

    def _put_rows(self, frames: Mapping[str, Sequence[Any]]) -> None:
        for frame, rows in frames.items():
            for first in range(0, len(rows) if frame in self._values else 0, BATCH):
                several = rows[first : first + BATCH]
                columns = [list(map(value, several)) for value in self._values[frame]]
                self._put(frame_table(frame), [[row.place for row in several], *columns])


def _run_ledger(records: Iterable[Record], put: Put) -> None:
    states = MessageStates()
    ledger = LedgerPass(states=states)
    tables = _FrameTables(ledger, put)
    with rare_collection:
        for record in records:
            ledger.observe(record)
            tables.put_settled()
        tables.put_all()
        _put_rows(put, "states", states.take())


def _run_rules(records: Iterable[Record], put: Put) -> None:
    judgements, diagnosis = judge_messages(records)
    _put_rows(put, "findings", judgements)
    _put_rows(put, "diagnosis", [*diagnosis.rows])


def _run_facts(records: Iterable[Record], put: Put) -> None:
    source, states, findings = RecordLedger(), MessageStates(), FindingCollector()
    rows = LedgerPass(states=states, source=source)
    tables = _FrameTables(rows, put)
    judge = DiagnosisPass(findings.add, source=source)
    with rare_collection:
        for record in records:
            rows.observe(record)
            judge.observe(record)
            tables.put_settled()
        judge.finish()
        tables.put_all()
        _put_rows(put, "states", states.take())
        _put_rows(put, "findings", findings.judgements)
        _put_rows(put, "diagnosis", [*findings.diagnosis(judge.messages).rows])


def _put_rows(put: Put, table: str, rows: Sequence[Sequence[Any]]) -> None:
    for first in range(0, len(rows), BATCH):
        put(table, [*zip(*rows[first : first + BATCH], strict=True)])


STATES: Final = FactPass("states", (_STATES,), _run_states)
LEDGER: Final = FactPass("ledger", (_STATES, *map(_table_of, _KEPT)), _run_ledger)
RULES: Final = FactPass("rules", (_FINDINGS, _DIAGNOSIS), _run_rules)
FACTS: Final = FactPass("facts", (*LEDGER.tables, *RULES.tables), _run_facts)
