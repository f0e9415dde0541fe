"""Writes a log as a Parquet file, and reads it as the lines of a journal with the same records.

`write_parquet` writes it without loss: a row for each record, events included, with the columns of an index.
`raw` is the exact text of the message and `received` the text that came in, where the gateway completed it. `record` is
filled only for a text that is no valid Unicode; the row is then read back from it. A Parquet file that pandas wrote
from `Log.df` is read as well; it has no events. Where its column `grant` was left out, the origin of a permission is not
recorded.

DuckDB reads the file under a plain name of a private folder: it takes a name with `[`, `*` or `?` as a pattern of other
files, and a folder `seq=5` as a column. It reads no other file, and loads nothing. A row whose texts no line may hold,
or whose time no date has, becomes a line that cannot be read.

Spec: §3.6.8.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np

from mew_lab.errors import JournalError
from mew_lab.log.build import LINE_TABLE, add_records, literal_path, quote_text
from mew_lab.log.entries import SOURCE, lacking
from mew_lab.log.line import write_line
from mew_lab.log.reading import LINE_LIMIT
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record
from mew_lab.transport.scratch import ScratchFolder, path_beside

__all__ = ["read_parquet_lines", "write_parquet"]

BATCH: Final = 8192  # records that are written at a time
BATCH_CHARACTERS: Final = 64 * 1024 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDED = ("seq", "time", "event", "verdict", "raw")
_TYPES = {"time": "TIMESTAMPTZ", "seq": "BIGINT", "receivers": "VARCHAR[]"}
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "256MB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_ROWS = 16  # at a time: each may have some megabytes of text
_NO_LINE = b'{"seq":null}\n'  # what stands for a row that is no record
_KNOWN = {*Record._fields, "time", "receivers", "record"} - {"to", "now"}


def read_parquet_lines(path: Path) -> Iterator[bytes]:
    """The lines of a journal that has the records of a Parquet file.

    Raises:
        JournalError: when the file is no Parquet file of a log.
    """
    scratch = ScratchFolder()
    file = scratch.path / "log"
    try:
        with duckdb.connect(config=_SETTINGS) as connection:
            file.symlink_to(path.absolute())
            source = f"read_parquet({quote_text(literal_path(str(file)))}, hive_partitioning = false)"
            connection.execute(
                "SET enable_progress_bar = false; "
                f"SET temp_directory = {quote_text(str(scratch.path / 'spill'))}; "
                f"SET allowed_paths = [{quote_text(str(file))}, {quote_text(literal_path(str(file)))}]; "
                "SET enable_external_access = false; SET lock_configuration = true"
            )
            described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            names = [row[0] for row in described if row[0] in _KNOWN]
            if missing := [name for name in _NEEDED if name not in names]:
                raise JournalError(
                    f"{path} is not a log: it has no column {missing[0]!r}. Name a file that Log.to_parquet wrote.",
                    path=str(path),
                )
            # `receivers` is a list; its texts count, too.
            size = " + ".join(f'coalesce(strlen(try_cast("{name}" AS VARCHAR)), 0)' for name in names)
            fits = f"{size} <= {LINE_LIMIT // 2}"
            terms = ", ".join(_term(name, fits) for name in names)
            found = connection.execute(f"SELECT {fits} AS fits, {terms} FROM {source}")
            while rows := found.fetchmany(_ROWS):
                for fits_in, *row in rows:
                    yield _line_of(dict(zip(names, row, strict=True))) if fits_in else _NO_LINE
    except duckdb.Error as fault:
        why = one_line(str(fault).splitlines()[0].replace(str(file), path.name).rstrip("."), 200)
        raise JournalError(
            f"Cannot read {path}: {why}. Name a Parquet file that Log.to_parquet wrote.",
            path=str(path),
        ) from None
    finally:
        scratch.remove()


def write_parquet(records: Iterable[Record], path: Path) -> None:
    """Writes records with their texts as a Parquet file, readable by its owner alone.

    Raises:
        JournalError: when it cannot be written.
    """
    folder = path_beside(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        folder.mkdir(mode=0o700)
        # The rows stand in a file until they are whole: DuckDB needs their number before it writes the first.
        with duckdb.connect(str(folder / "rows"), config=_SETTINGS) as connection:
            connection.execute(
                "SET TimeZone = 'UTC'; SET enable_progress_bar = false; " + LINE_TABLE + "CREATE TABLE texts "
                "(place BIGINT, raw VARCHAR, received VARCHAR, record VARCHAR)"
            )
            place = 0
            for batch in _batches(records):
                add_records(connection, batch, place)
                texts = zip(*map(_texts_of, batch), strict=True)
                columns = {
                    name: np.array([*values, None], dtype=object)[:-1]
                    for name, values in zip(("raw", "received", "record"), texts, strict=True)
                }
                connection.register("batch", {"place": np.arange(len(batch)) + place + 1, **columns})
                connection.execute("INSERT INTO texts SELECT place, raw, received, record FROM batch")
                connection.unregister("batch")
                place += len(batch)
            connection.execute(
                "COPY (SELECT lines.* EXCLUDE (file, start, length, body, vouched), len(receivers) AS deliveries, raw, "
                "received, record FROM lines JOIN texts USING (place) ORDER BY place) TO "
                f"{quote_text(str(folder / 'parquet'))} (FORMAT parquet, COMPRESSION zstd)"
            )
        (folder / "parquet").chmod(0o600)
        (folder / "parquet").replace(path)
    except (duckdb.Error, OSError, ValueError) as fault:
        why = one_line(str(getattr(fault, "strerror", None) or str(fault).splitlines()[0]).rstrip("."), 200)
        raise JournalError(
            f"Cannot write the log to {path}: {why}. Name a file in a folder that can be written to.",
            path=str(path),
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records in parts of some thousands, whose texts have about 64 MiB at most."""
    batch, size = list[Record](), 0
    for record in records:
        batch.append(record)
        size += len(record.raw or "") + len(record.received or "")
        if len(batch) == BATCH or size > BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _texts_of(record: Record) -> tuple[str | None, str | None, str | None]:
    """The texts of a record; the third is its line, where one of the others is no valid Unicode."""
    texts = record.raw, record.received
    try:
        for text in texts:
            if text is not None and not text.isascii():
                text.encode()
    except UnicodeEncodeError:
        raw, received = (text and text.encode("utf-8", "backslashreplace").decode() for text in texts)
        return raw, received, write_line(record).decode().rstrip("\n")
    return *texts, None


def _term(name: str, fits: str) -> str:
    term = f'try_cast("{name}" AS {_TYPES.get(name, "VARCHAR")})'
    # A text that is too long is not fetched: many rows may share one.
    return f'epoch_us({term}) AS "time"' if name == "time" else f"CASE WHEN {fits} THEN {term} END"


def _line_of(row: dict[str, Any]) -> bytes:
    if row.get("record"):
        return str(row["record"]).encode() + b"\n"

    def text(name: str) -> str:
        value = row.get(name)
        return value if isinstance(value, str) else ""

    try:
        now = _EPOCH + timedelta(microseconds=int(row["time"] or 0))
    except OverflowError:
        return _NO_LINE
    raw, received = row.get("raw"), row.get("received")
    receivers = row.get("receivers")
    record = Record(
        seq=int(row["seq"] or 0),
        now=now,
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
