"""The facts of a log that an index keeps: states, findings, the diagnosis and the frames, as tables in a database.

`run_facts` reads all records of a log once and puts rows into the tables, some at a time. A frame of the ledger is a
table, too: it has the column `row`, the number of the row in the frame from 0, and then the columns of the frame. Rows
come in the order in which they settle, which is not that of `row`.

A text is stored as it is, a tuple of texts as JSON, a time as microseconds since 1970. So a value that is read back
equals the one that was put.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import duckdb
import numpy as np

from mew_lab.log.diagnose.diagnosis import DiagnosisPass, FindingCollector
from mew_lab.log.frame_columns import FRAMES
from mew_lab.log.ledger_rows import LedgerPass, MessageStates, whole_number
from mew_lab.log.rare_collection import rare_collection
from mew_lab.log.record_ledger import RecordLedger
from mew_lab.space.events import Record

__all__ = [
    "FACTS",
    "TABLES",
    "FactColumn",
    "FactTable",
    "FactWriter",
    "StoredValues",
    "create_tables",
    "frame_table",
    "frame_values",
    "run_facts",
    "take_tables",
]


FACTS: Final = "facts"  # the name of the pass

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
TABLES: Final = {table.name: table for table in (_STATES, _FINDINGS, _DIAGNOSIS, *map(_table_of, _KEPT))}
"""All tables of facts by their names."""


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


def run_facts(records: Iterable[Record], put: Put) -> None:
    """Reads all records of a log once, and puts all rows of `TABLES`."""
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


# --- in a database ---

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SQL: Final = {
    "int64": "BIGINT",
    "Int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "boolean": "BOOLEAN",
    "time": "TIMESTAMPTZ",
    "text": "VARCHAR",
    "texts": "VARCHAR",
    "list": "VARCHAR[]",
}

_Array = np.ndarray[Any, Any]


class StoredValues(NamedTuple):
    """The values of a column, and which of them are missing; None where none is."""

    values: Any
    missing: _Array | None = None


def create_tables(connection: duckdb.DuckDBPyConnection, tables: Iterable[FactTable]) -> None:
    """Creates tables of facts without rows."""
    for table in tables:
        columns = ", ".join(f"{_quote(column.name)} {_SQL[column.type]}" for column in table.columns)
        connection.execute(f"CREATE TABLE {table.name} ({columns})")


def take_tables(connection: duckdb.DuckDBPyConnection, database: Path) -> None:
    """Replaces the rows of all tables by those of a database."""
    path = str(database).replace("'", "''")
    connection.execute(f"ATTACH '{path}' AS found (READ_ONLY)")
    for table in TABLES:
        connection.execute(f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM found.{table}")
    connection.execute("DETACH found")


class FactWriter:
    """Inserts rows of tables of facts."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def put(self, table: str, columns: Sequence[Sequence[Any]]) -> None:
        """Inserts rows, given as columns."""
        batch: dict[str, _Array] = {}
        terms: list[str] = []
        for number, (column, values) in enumerate(zip(TABLES[table].columns, columns, strict=True)):
            stored = _STORE[column.type](values)
            term = f"c{number}"
            batch[term] = stored.values
            if column.type == "time":
                term = f"make_timestamptz({term})"
            elif column.type == "list":
                term = f"""from_json({term}::JSON, '["VARCHAR"]')"""
            elif column.type == "float64" and table == "states":
                term = (
                    f"CASE WHEN isnan({term}) THEN NULL ELSE {term} END"  # a condition must not hold for it
                )
            if stored.missing is not None:
                batch[f"m{number}"] = stored.missing
                term = f"CASE WHEN m{number} THEN NULL ELSE {term} END"
            terms.append(term)
        self._connection.register("facts", batch)
        self._connection.execute(f"INSERT INTO {table} SELECT {', '.join(terms)} FROM facts")
        self._connection.unregister("facts")


def frame_values(cursor: duckdb.DuckDBPyConnection, frame: str) -> dict[str, StoredValues]:
    """The columns of a frame by their names, in the order of its rows: lists of texts and tuples, arrays of all else."""
    table = TABLES[frame_table(frame)]
    found: dict[str, StoredValues] = {}
    for column in table.columns[1:]:
        # One at a time, so that only one column is in memory as DuckDB gives it.
        name = _quote(column.name)
        term = f"epoch_us({name})" if column.type == "time" else name
        fetched = cursor.execute(f'SELECT {term} AS value FROM {table.name} ORDER BY "row"').fetchnumpy()
        found[column.name] = _restore(column.type, fetched["value"])
    return found


def _restore(type: str, fetched: Any) -> StoredValues:
    values, missing = np.ma.getdata(fetched), np.ma.getmaskarray(fetched)
    if type == "text":
        texts = values.tolist()
        share = dict(zip(texts, texts, strict=True))
        return StoredValues([share[text] for text in texts])
    if type == "texts":
        texts = values.tolist()
        read = {text: tuple(json.loads(text)) for text in set(texts)}
        return StoredValues([read[text] for text in texts])
    if type == "time":
        times = values.astype(np.int64).astype("datetime64[us]")
        times[missing] = np.datetime64("NaT")
        return StoredValues(times)
    if type == "float64":
        return StoredValues(np.where(missing, np.nan, values.astype(np.float64)))
    return StoredValues(values.astype(bool if type in ("bool", "boolean") else np.int64), missing)


def _store_integers(values: Sequence[Any]) -> StoredValues:
    """Integers, some of which may be missing; one that no column can hold is 0, or missing where that is possible."""
    try:
        return StoredValues(np.array(values, dtype=np.int64))
    except (OverflowError, TypeError):
        known = [whole_number(value) for value in values]
        missing = np.array([value is None for value in known])
        return StoredValues(np.array([value or 0 for value in known], dtype=np.int64), missing)


def _store_whole(values: Sequence[Any]) -> StoredValues:
    return StoredValues(_store_integers(values).values)  # 0 for a number that no column holds


def _store_numbers(values: Sequence[Any]) -> StoredValues:
    return StoredValues(np.array(values, dtype=np.float64))  # None becomes NaN


def _store_truths(values: Sequence[Any]) -> StoredValues:
    missing = np.array([value is None for value in values])
    return StoredValues(np.array(values, dtype=bool), missing if missing.any() else None)


def _store_times(values: Sequence[Any]) -> StoredValues:
    missing = np.array([value is None for value in values])
    times = [0 if value is None else (value - _EPOCH) // _MICROSECOND for value in values]
    return StoredValues(np.array(times, dtype=np.int64), missing if missing.any() else None)


def _store_texts(values: Sequence[Any]) -> StoredValues:
    return StoredValues(np.array(values, dtype=object))


def _store_tuples(values: Sequence[Any]) -> StoredValues:
    known: dict[Any, str] = {}
    for value in values:
        if value not in known:
            known[value] = json.dumps(value, ensure_ascii=False)
    texts = np.empty(len(values), dtype=object)
    texts[:] = [known[value] for value in values]
    return StoredValues(texts)


_STORE: Final[dict[str, Callable[[Sequence[Any]], StoredValues]]] = {
    "int64": _store_whole,
    "Int64": _store_integers,
    "float64": _store_numbers,
    "bool": _store_truths,
    "boolean": _store_truths,
    "time": _store_times,
    "text": _store_texts,
    "texts": _store_tuples,
    "list": _store_tuples,
}


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
