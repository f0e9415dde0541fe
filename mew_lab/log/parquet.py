"""Reads the Parquet file of a log, as the lines of a journal with the same records.

`LogIndex.write_parquet` writes it without loss: a row for each record, events included, with the columns of `entries`.
`raw` is the exact text of the message and `received` the text that came in, where the gateway completed it. `record` is
filled only for a text that is no valid Unicode; the row is then read back from it. A Parquet file that pandas wrote
from `Log.df` is read as well; it has no events. Where its column `grant` was left out, the origin of a permission is not
recorded.

Spec: §3.6.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from mew_lab.errors import JournalError
from mew_lab.log.entries import SOURCE, lacking
from mew_lab.log.line import write_line
from mew_lab.space.events import Record

__all__ = ["read_parquet_lines"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDED = ("seq", "time", "event", "verdict", "raw")
_TYPES = {"time": "TIMESTAMPTZ", "seq": "BIGINT", "receivers": "VARCHAR[]"}
_KNOWN = {*Record._fields, "time", "receivers", "record"} - {"to", "now"}


def read_parquet_lines(path: Path) -> Iterator[bytes]:
    """The lines of a journal that has the records of a Parquet file.

    Raises:
        JournalError: when the file is no Parquet file of a log.
    """
    try:
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false; SET memory_limit = '256MB'; SET threads = 2")
            described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
            names = [row[0] for row in described if row[0] in _KNOWN]
            if missing := [name for name in _NEEDED if name not in names]:
                raise JournalError(
                    f"{path} is not a log: it has no column {missing[0]!r}. Name a file that Log.to_parquet wrote.",
                    path=str(path),
                )
            terms = ", ".join(map(_term, names))
            found = connection.execute(f"SELECT {terms} FROM read_parquet(?)", [str(path)])
            while rows := found.fetchmany(4096):
                for row in rows:
                    yield _line_of(dict(zip(names, row, strict=True)))
    except duckdb.Error as fault:
        raise JournalError(
            f"Cannot read {path}: {str(fault).splitlines()[0].rstrip('.')}. "
            "Name a Parquet file that Log.to_parquet wrote.",
            path=str(path),
        ) from None


def _term(name: str) -> str:
    term = f'try_cast("{name}" AS {_TYPES.get(name, "VARCHAR")})'
    return f'epoch_us({term}) AS "time"' if name == "time" else term


def _line_of(row: dict[str, Any]) -> bytes:
    if row.get("record"):
        return str(row["record"]).encode() + b"\n"

    def text(name: str) -> str:
        value = row.get(name)
        return value if isinstance(value, str) else ""

    raw, received = row.get("raw"), row.get("received")
    receivers = row.get("receivers")
    record = Record(
        seq=int(row["seq"] or 0),
        now=_EPOCH + timedelta(microseconds=int(row["time"] or 0)),
        event=text("event"),
        space=text("space"),
        participant=text("participant"),
        connection=text("connection"),
        via=text("via"),
        verdict=text("verdict"),
        code=text("code"),
        pattern=text("pattern"),
        detail=text("detail"),
        received=received if isinstance(received, str) else None,
        raw=raw if isinstance(raw, str) else None,
        to=tuple(str(one) for one in receivers) if isinstance(receivers, list) else (),
        grant=text("grant"),
        runtime_id=text("runtime_id"),
    )
    missing = SOURCE if "grant" not in row and record.pattern else ""
    return write_line(lacking(record, missing) if missing and not record.detail else record)
