"""The tables of an index that hold its lines: a thread writes rows, and rows of another database are added.

`line_columns` makes the rows. `lines` has a row for each line, with the numbers of its row of `headers` and of its row
of `subjects`, which other lines share. `stored` holds the texts of records that stand in no line.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import duckdb
import numpy as np

from mew_lab.log.line import write_line
from mew_lab.log.line_columns import Columns, Header, Subject
from mew_lab.space.events import Record

__all__ = ["LINE_TABLES", "LineWriter"]

LINE_TABLES: Final = """
CREATE TABLE headers (
    header INTEGER, event VARCHAR, space VARCHAR, participant VARCHAR, connection VARCHAR, via VARCHAR,
    verdict VARCHAR, code VARCHAR, pattern VARCHAR, "grant" VARCHAR, runtime_id VARCHAR, detail VARCHAR,
    receivers VARCHAR[], message BOOLEAN
);
CREATE TABLE subjects (
    subject INTEGER, source VARCHAR, addressees VARCHAR[], kind VARCHAR, method VARCHAR, tool VARCHAR
);
CREATE TABLE lines (
    place BIGINT, file INTEGER, start BIGINT, length BIGINT, body INTEGER, seq BIGINT, "time" TIMESTAMPTZ,
    header INTEGER, subject INTEGER, size BIGINT, id VARCHAR, ts VARCHAR, context VARCHAR, correlation_id VARCHAR[]
);
CREATE TABLE stored (place BIGINT, record VARCHAR, json VARCHAR);
"""
"""The statements that create the tables."""

_HEADERS = json.dumps(
    [
        dict.fromkeys(Header._fields, "VARCHAR")
        | {"header": "INTEGER", "receivers": ["VARCHAR"], "message": "BOOLEAN"}
    ]
)
_SUBJECTS = json.dumps(
    [dict.fromkeys(Subject._fields, "VARCHAR") | {"subject": "INTEGER", "addressees": ["VARCHAR"]}]
)


class LineWriter:
    """Inserts rows into the tables in a thread of its own while the next ones are parsed.

    DuckDB works without the interpreter's lock, so both go on at once. At most two batches wait.

    Args:
        cursor: A connection that nobody else uses; it is closed at the end of the `with` block.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._waiting: queue.Queue[Any] = queue.Queue(maxsize=2)
        self._fault: BaseException | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, fault: object, trace: object) -> None:
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        self._cursor.close()
        if kind is None:
            self._check()

    def put(
        self, columns: Columns, file: int, places: np.ndarray[Any, Any], records: Sequence[Record] = ()
    ) -> None:
        """Inserts the rows at some places."""
        self._check()
        if len(columns.seq) < 1000 and self._thread is None:
            _insert(self._cursor, columns, file, places, records)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log index", daemon=True)
            self._thread.start()
        self._waiting.put((columns, file, places, records))

    def add_rows(self, database: Path, *, place: int, header: int, subject: int) -> None:
        """Adds the rows of the tables of another database, when all others are inserted.

        Args:
            place: What is added to their places, so that they follow the rows before them; `header` and `subject`
                likewise.
        """
        self._waiting.join()
        self._check()
        path = str(database).replace("'", "''")
        self._cursor.execute(f"ATTACH '{path}' AS other (READ_ONLY)")
        numbers = {"place": place, "header": header, "subject": subject}
        for table, names in (("headers", ["header"]), ("subjects", ["subject"]), ("lines", [*numbers])):
            terms = ", ".join(f"{name} + {numbers[name]} AS {name}" for name in names)
            self._cursor.execute(f"INSERT INTO {table} SELECT * REPLACE ({terms}) FROM other.{table}")
        self._cursor.execute("DETACH other")

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        while (batch := self._waiting.get()) is not None:
            if self._fault is None:
                try:
                    _insert(self._cursor, *batch)
                except BaseException as fault:  # raised again by the thread that parses
                    self._fault = fault
            self._waiting.task_done()


def _insert(
    cursor: duckdb.DuckDBPyConnection,
    columns: Columns,
    file: int,
    places: np.ndarray[Any, Any],
    records: Sequence[Record],
) -> None:
    """Inserts rows; the headers and subjects first, so that a row that can be read can be joined."""
    if columns.headers:
        _insert_structs(
            cursor, "headers", _HEADERS, [{"header": n, **h._asdict()} for n, h in columns.headers]
        )
    if columns.subjects:
        _insert_structs(
            cursor, "subjects", _SUBJECTS, [{"subject": n, **s._asdict()} for n, s in columns.subjects]
        )
    count = len(columns.seq)
    if not count:
        return
    objects = {name: np.array(getattr(columns, name), dtype=object) for name in ("id", "ts", "context")}
    numbers = {
        name: np.array(getattr(columns, name), dtype=np.int64)
        for name in ("start", "length", "body", "seq", "time", "header", "subject", "size")
    }
    first = [ids[0] if ids else None for ids in columns.correlation_id]
    batch: dict[str, Any] = {
        "place": places,
        **numbers,
        **objects,
        "first": np.array(first, dtype=object),
    }
    about = "CASE WHEN first IS NULL THEN [] ELSE [first] END"
    if max(map(len, columns.correlation_id)) > 1:
        more = [json.dumps(ids) if len(ids) > 1 else None for ids in columns.correlation_id]
        batch["several"] = np.array(more, dtype=object)
        about = f"""CASE WHEN several IS NULL THEN {about} ELSE from_json(several::JSON, '["VARCHAR"]') END"""
    cursor.register("batch", batch)
    cursor.execute(
        f"INSERT INTO lines SELECT place, {file}, start, length, body, seq, make_timestamptz(time), header, subject, "
        f"size, id, ts, context, {about} FROM batch"
    )
    cursor.unregister("batch")
    if records:
        lines = [write_line(record).decode() for record in records]
        cursor.register("batch", {"place": batch["place"], "record": np.array(lines, dtype=object)})
        cursor.execute("INSERT INTO stored SELECT place, record, NULL FROM batch")
        cursor.unregister("batch")


def _insert_structs(
    cursor: duckdb.DuckDBPyConnection, table: str, structure: str, rows: list[dict[str, Any]]
) -> None:
    cursor.execute(
        f"INSERT INTO {table} BY NAME SELECT unnest(row) FROM (SELECT unnest(from_json(?::JSON, ?)) AS row)",
        [json.dumps(rows), structure],
    )
