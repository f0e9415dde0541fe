"""Runs a pass over a journal in a process of its own, so that the kernel's loop stays free and two passes run at once.

How it works
------------
    index ── FactProcess ── thread ── python -m mew_lab.log.fact_process ── reads the journal
                               │                     │ writes its tables
                               └── take(database) ───┘ into a database in a private temporary folder

The process reads the records that the index holds, and no later ones, and prints their number from time to time. It
ends with the process that began it: their pipe closes then. Where no process can be begun, or one fails, `wait` returns
False, and the pass is made by the process that needs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import duckdb

from mew_lab.errors import JournalError
from mew_lab.log.fact_pass import PASSES, FactPass
from mew_lab.log.fact_store import FactWriter, create_tables
from mew_lab.log.files import Files
from mew_lab.space.events import Record

__all__ = ["FactProcess", "main"]

# This interpreter, with this package and without modules from the working directory.
COMMAND: Final = (sys.executable, "-P", "-X", "utf8", "-m", "mew_lab.log.fact_process")
PACKAGE: Final = Path(__file__).resolve().parents[2]
SEEN: Final = ("HOME", "LD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TMPDIR")  # variables that are passed on
EVERY: Final = 5_000  # records between two reports


class FactProcess:
    """One pass over the first `rows` records of some files, in a process.

    Attributes:
        done: The number of records that it has read so far.
        was_stopped: Whether `stop` has ended it before its time.
        has_succeeded: Whether its tables were made and given to `take`.

    Args:
        of: What the records are of, for `take`.
        take: Called in a thread with the process and the database that holds its tables, when they are complete.
    """

    def __init__(
        self,
        fact_pass: FactPass,
        paths: Sequence[Path],
        rows: int,
        of: object,
        take: Callable[[FactProcess, Path], None],
    ) -> None:
        self.fact_pass = fact_pass
        self.rows = rows
        self.of = of
        self.done = 0
        self.was_stopped = self.has_succeeded = False
        self._paths = paths
        self._take = take
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log pass {fact_pass.name}")

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
        folder = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="mew_lab-"))
            if self._complete(folder / "facts"):
                self._take(self, folder / "facts")
                self.has_succeeded = True
        except (OSError, duckdb.Error, JournalError, MemoryError):  # the one that waits makes the pass itself
            pass
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            self._ended.set()

    def _complete(self, database: Path) -> bool:
        """Runs the process to its end; returns whether all its tables are in the database."""
        environment = {name: os.environ[name] for name in SEEN if name in os.environ}
        with subprocess.Popen(
            [
                *COMMAND,
                self.fact_pass.name,
                str(self.rows),
                str(database),
                *map(os.path.abspath, self._paths),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment, "PYTHONPATH": str(PACKAGE)},
            start_new_session=True,  # an interrupt of a cell is not meant for it
        ) as process:
            assert process.stdout is not None
            reader = threading.Thread(
                target=self._read_reports, args=(process.stdout,), name="log pass reports", daemon=True
            )
            reader.start()
            while process.poll() is None:
                if self.was_stopped or not threading.main_thread().is_alive():
                    process.kill()
                reader.join(0.1)
                if not reader.is_alive():
                    process.wait()
            reader.join()
            return process.returncode == 0 and self.done == self.rows and not self.was_stopped

    def _read_reports(self, output: IO[bytes]) -> None:
        for line in output:
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


def _end_with_parent() -> None:
    while os.read(0, 1):  # until the process at the other end of the pipe is gone
        pass
    os._exit(1)


def main(argv: Sequence[str]) -> None:
    """Runs a pass: its name, the number of records, the database to write, and the files of the journal."""
    name, rows, database, *paths = argv
    threading.Thread(target=_end_with_parent, daemon=True).start()
    fact_pass = PASSES[name]
    with duckdb.connect(database, config={"threads": 1, "memory_limit": "256MB"}) as connection:
        create_tables(connection, fact_pass.tables)
        records = Files(tuple(map(Path, paths))).read([])
        fact_pass.run(_first(records, int(rows)), FactWriter(connection).put)


if __name__ == "__main__":
    main(sys.argv[1:])
