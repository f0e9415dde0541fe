"""Finds the facts of a journal in a process, so that the kernel's loop stays free.

How it works
------------
    index ── FactProcess ── thread ── python -m mew_lab.log.fact_process … ── reads the journal
                               │                     │ writes the tables
                               └── take(database) ───┘ of a database in a private temporary folder

The process makes all tables of `facts` from the records that the index holds, and no later ones, and prints
their number from time to time. It ends with the process that began it: their pipe closes then. Where no process can be
begun, or it fails, `wait` returns False, and the passes are made by the process that needs them.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import duckdb

from mew_lab.errors import JournalError
from mew_lab.log.child_process import begin_module, end_with_parent
from mew_lab.log.facts import TABLES, FactWriter, create_tables, run_facts
from mew_lab.log.files import Files
from mew_lab.space.events import Record
from mew_lab.transport.scratch import ScratchFolder

__all__ = ["FactProcess", "main"]

EVERY: Final = 5_000  # records between two reports
NEW_OBJECTS: Final = 10_000_000  # after which the collector of cyclic garbage runs: a pass makes hardly any


class FactProcess:
    """The pass over the first `rows` records of some files, in a process.

    Attributes:
        done: The number of records that it has read so far.
        was_stopped: Whether `stop` has ended it before its time.
        has_succeeded: Whether its tables were made and given to `take`.

    Args:
        of: What the records are of, for `take`.
        take: A weak reference to what is called in a thread, with this object and the database of the tables, when it is
            complete. The process ends when nobody else holds that any more.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        rows: int,
        of: object,
        take: Callable[[], Callable[[FactProcess, Path], None] | None],
    ) -> None:
        self.rows = rows
        self.of = of
        self.done = 0
        self.was_stopped = self.has_succeeded = False
        self._paths = paths
        self._take = take
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log pass")

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return not self._ended.is_set()

    def start(self) -> None:
        """Begins it, in a thread that ends with the main thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        if self.is_running:
            self.was_stopped = True

    def wait(self) -> bool:
        """Waits for its end; returns whether its tables were taken."""
        self._ended.wait()
        return self.has_succeeded

    def _run(self) -> None:
        scratch = None
        try:
            scratch = ScratchFolder()
            database = scratch.path / "facts"
            if self._complete(database) and (take := self._take()) is not None:
                take(self, database)
                self.has_succeeded = True
        except (OSError, duckdb.Error, JournalError, MemoryError):
            pass  # the one that waits makes the passes itself
        finally:
            if scratch is not None:
                scratch.remove()
            self._ended.set()

    def _complete(self, database: Path) -> bool:
        """Runs the process to its end; returns whether all tables are in the database."""
        files = map(os.path.abspath, self._paths)
        with begin_module(__name__, str(self.rows), str(database), *files) as process:
            assert process.stdout is not None
            told = process.stdout
            reader = threading.Thread(
                target=self._read_reports, args=(told,), name="log pass reports", daemon=True
            )
            reader.start()
            while reader.is_alive():
                if self.was_stopped or self._take() is None or not threading.main_thread().is_alive():
                    process.kill()
                reader.join(0.05)
        return process.returncode == 0 and self.done == self.rows and not self.was_stopped

    def _read_reports(self, told: IO[bytes]) -> None:
        for line in told:
            with suppress(ValueError):
                self.done = min(self.rows, int(line))


def _first(records: Iterator[Record], rows: int) -> Iterator[Record]:
    """The first records, and a report of their number from time to time."""
    for number in range(1, rows + 1):
        record = next(records, None)
        if record is None:
            raise JournalError(f"the journal has {number - 1} records instead of {rows}: it was changed")
        yield record
        if number % EVERY == 0 or number == rows:
            print(number, flush=True)


def main(argv: Sequence[str]) -> None:
    """Makes the facts: the number of records, the database to write, the files of the journal."""
    rows, database, *paths = argv
    end_with_parent()
    gc.set_threshold(NEW_OBJECTS)
    with duckdb.connect(database, config={"threads": 1, "memory_limit": "256MB"}) as connection:
        create_tables(connection, TABLES.values())
        records = Files(tuple(map(Path, paths))).read([])
        run_facts(_first(records, int(rows)), FactWriter(connection).put)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # what a pass held is not given back object by object
