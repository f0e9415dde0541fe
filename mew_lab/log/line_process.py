"""Indexes the second part of a large file of a journal in a process, while its caller indexes the first part.

How it works
------------
                     ┌─ lines before the split ── the caller
    a large file ────┤
                     └─ lines after it ────────── python -m mew_lab.log.line_process … ── tables of lines in a database
                                                                                          in a private folder

`find_split` finds the split: the line before it is a record, so the time that an unreadable line after it has is known.
The process leaves a last line without a line feed to the caller. The numbers of its places, headers and subjects begin
anew, and `LineWriter.add_rows` makes them go on. Where no process can be begun, or it fails, it has no result, and the
caller reads on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Final, NamedTuple, Self

import duckdb
import numpy as np

from mew_lab.log.child_process import begin_module, end_with_parent
from mew_lab.log.line import read_line
from mew_lab.log.line_columns import ColumnParser, Reached, read_columns
from mew_lab.log.line_store import LINE_TABLES, LineWriter
from mew_lab.log.rare_collection import rare_collection
from mew_lab.log.reading import LINE_LIMIT, open_regular

__all__ = ["LineProcess", "Part", "Split", "find_split", "main"]

LARGE = 128 * 1024 * 1024  # bytes of lines that are worth a process
SHARE = 0.53  # of the lines for the caller, who begins sooner
TRIED: Final = 100  # lines of which one must be a record
COUNTED: Final = 1024 * 1024  # bytes whose lines are counted at a time


class Split(NamedTuple):
    """Where the second part of a file begins, and ends; `before` is the time of the record before it."""

    start: int
    end: int
    before: datetime


class Part(NamedTuple):
    """What the second part holds: its end, its numbers of rows, headers and subjects, and the time of its last row."""

    reached: Reached
    rows: int
    headers: int
    subjects: int
    last: datetime


def find_split(file: IO[bytes], start: int, end: int) -> Split | None:
    """Where the lines between two offsets of a file are split; None where they are few, or no records stand there."""
    if end - start < LARGE:
        return None
    file.seek(start + int((end - start) * SHARE))
    whole = file.readline(LINE_LIMIT).endswith(b"\n")
    for _ in range(TRIED):
        line = file.readline(LINE_LIMIT) if whole else b""
        if not line.endswith(b"\n"):
            break  # it is too long, or the last one
        if (record := read_line(line)) is not None:
            return Split(file.tell(), end, record.now)
    return None


class LineProcess:
    """The indexing of the second part of a file in a process.

    It begins with the object, and ends at the end of the `with` block at the latest; its database is then deleted.

    Attributes:
        done: The number of bytes that it has indexed so far.
        result: What it has indexed, when it has ended and did not fail.
        database: The database of its tables.

    Args:
        path: The file; `file` is the same file, which the caller reads, and `number` is its number in the log.
        folder: A private folder, in which the database has a folder of its own.
    """

    def __init__(self, path: Path, file: IO[bytes], number: int, split: Split, folder: Path) -> None:
        self.done = 0
        self.result: Part | None = None
        self._file = file
        self._start = split.start
        self._resources = ExitStack()
        self._reader = threading.Thread(target=self._read_reports, name="log index reports", daemon=True)
        with suppress(OSError):
            own = tempfile.TemporaryDirectory(dir=folder, prefix="part-", ignore_cleanup_errors=True)
            self.database = Path(self._resources.enter_context(own)) / "lines"
            place = (str(number), str(split.start), str(split.end), split.before.isoformat())
            process = begin_module(__name__, str(path.absolute()), str(self.database), *place)
            self._process: subprocess.Popen[bytes] = self._resources.enter_context(process)
            self._resources.callback(process.kill)
            self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def wait(self, seconds: float) -> bool:
        """Waits for its end, at most for so long; returns whether it has ended."""
        if self._reader.ident is not None:
            self._reader.join(seconds)
        return not self._reader.is_alive()

    def _read_reports(self) -> None:
        """Reads how far it is, and then its result."""
        assert self._process.stdout is not None
        with suppress(ValueError, TypeError, KeyError):
            for line in self._process.stdout:
                told = json.loads(line)
                if isinstance(told, int):
                    self.done = told - self._start
                    continue
                is_same = told.pop("file") == _identity(self._file)  # and no other one in its place
                reached, last = Reached(*told.pop("reached")), datetime.fromisoformat(told.pop("last"))
                if is_same:
                    self.result = Part(reached=reached, last=last, **told)


def _identity(file: IO[bytes]) -> list[int]:
    found = os.fstat(file.fileno())
    return [found.st_dev, found.st_ino]


def _count_lines(file: IO[bytes], end: int) -> int:
    count = 0
    while data := file.read(min(COUNTED, end - file.tell())):
        count += data.count(b"\n")
    return count


def main(argv: Sequence[str]) -> None:
    """Writes the rows of a part of a file into a new database, and prints what they are of."""
    path, database, number, start, end, before = argv
    end_with_parent()
    parser = ColumnParser(last=datetime.fromisoformat(before))
    rows = 0
    with (
        rare_collection,
        open_regular(Path(path)) as file,
        duckdb.connect(database, config={"threads": 1, "memory_limit": "256MB"}) as connection,
    ):
        connection.execute(LINE_TABLES)
        first = Reached(int(start), _count_lines(file, int(start)))
        with LineWriter(connection.cursor()) as writer:
            for reached, columns in read_columns(file, parser, first, int(end)):
                if columns is not None:
                    count = len(columns.seq)
                    writer.put(columns, int(number), np.arange(rows + 1, rows + count + 1))
                    rows += count
                    print(reached.end, flush=True)
        told = {
            "file": _identity(file),
            "reached": reached,
            "rows": rows,
            "headers": parser.next_header,
            "subjects": parser.next_subject,
            "last": parser.last.isoformat(),
        }
    print(json.dumps(told), flush=True)  # the database is complete


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # what was parsed is not given back object by object
