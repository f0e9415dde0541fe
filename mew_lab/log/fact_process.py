"""Finds the facts of a journal in two processes, so that the kernel's loop stays free and both cores work.

How it works
------------
                                       ┌─ python -m mew_lab.log.fact_process calls …  ── reads the journal
    index ── FactProcesses ── thread ──┤
                               │       └─ python -m mew_lab.log.fact_process others … ── reads the journal
                               │                     │ each writes its tables
                               └── take(databases) ──┘ into a database in a private temporary folder

Each process makes one of `fact_pass.HALVES` from the records that the index holds, and no later ones, and prints their
number from time to time. It ends with the process that began it: their pipe closes then. Where no process can be begun,
or one fails, `wait` returns False, and the passes are made by the process that needs them.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import duckdb

from mew_lab.errors import JournalError
from mew_lab.log.child_process import begin_module, end_with_parent
from mew_lab.log.fact_pass import HALVES
from mew_lab.log.fact_store import FactWriter, create_tables
from mew_lab.log.files import Files
from mew_lab.space.events import Record
from mew_lab.transport.scratch import ScratchFolder

__all__ = ["FactProcesses", "main"]

EVERY: Final = 5_000  # records between two reports
NEW_OBJECTS: Final = 10_000_000  # after which the collector of cyclic garbage runs: a pass makes hardly any


class FactProcesses:
    """The passes over the first `rows` records of some files, each in a process.

    Attributes:
        done: The number of records that each pass has read so far.
        was_stopped: Whether `stop` has ended them before their time.
        has_succeeded: Whether their tables were made and given to `take`.

    Args:
        of: What the records are of, for `take`.
        take: A weak reference to what is called in a thread, with this object and the databases of the tables, when they
            are complete. The processes end when nobody else holds that any more.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        rows: int,
        of: object,
        take: Callable[[], Callable[[FactProcesses, Sequence[Path]], None] | None],
    ) -> None:
        self.rows = rows
        self.of = of
        self.done = dict.fromkeys(HALVES, 0)
        self.was_stopped = self.has_succeeded = False
        self._paths = paths
        self._take = take
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log passes")

    @property
    def is_running(self) -> bool:
        """Whether they have not ended."""
        return not self._ended.is_set()

    def start(self) -> None:
        """Begins them, in a thread that ends with the main thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends them."""
        if self.is_running:
            self.was_stopped = True

    def wait(self) -> bool:
        """Waits for their end; returns whether their tables were taken."""
        self._ended.wait()
        return self.has_succeeded

    def _run(self) -> None:
        scratch = None
        try:
            scratch = ScratchFolder()
            databases = {name: scratch.path / name for name in HALVES}
            if self._complete(databases) and (take := self._take()) is not None:
                take(self, [*databases.values()])
                self.has_succeeded = True
        except (OSError, duckdb.Error, JournalError, MemoryError):
            pass  # the one that waits makes the passes itself
        finally:
            if scratch is not None:
                scratch.remove()
            self._ended.set()

    def _complete(self, databases: Mapping[str, Path]) -> bool:
        """Runs the processes to their end; returns whether all tables are in their databases."""
        with ExitStack() as stack:
            processes = [stack.enter_context(self._begin(*each)) for each in databases.items()]
            readers = [
                threading.Thread(target=self._read_reports, args=each, name="log pass reports", daemon=True)
                for each in zip(databases, processes, strict=True)
            ]
            for reader in readers:
                reader.start()
            while any(reader.is_alive() for reader in readers):
                is_over = self.was_stopped or self._take() is None or not threading.main_thread().is_alive()
                if is_over or any(process.poll() for process in processes):
                    for process in processes:
                        process.kill()
                for reader in readers:
                    reader.join(0.05)
        succeeded = all(process.returncode == 0 for process in processes)
        return succeeded and {*self.done.values()} == {self.rows} and not self.was_stopped

    def _begin(self, half: str, database: Path) -> subprocess.Popen[bytes]:
        files = map(os.path.abspath, self._paths)
        return begin_module(__name__, half, str(self.rows), str(database), *files)

    def _read_reports(self, half: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(ValueError):
                self.done[half] = min(self.rows, int(line))


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
    """Makes a half of the facts: its name, the number of records, the database to write, the files of the journal."""
    name, rows, database, *paths = argv
    end_with_parent()
    gc.set_threshold(NEW_OBJECTS)
    half = HALVES[name]
    with duckdb.connect(database, config={"threads": 1, "memory_limit": "256MB"}) as connection:
        create_tables(connection, half.tables)
        records = Files(tuple(map(Path, paths))).read([])
        half.run(_first(records, int(rows)), FactWriter(connection).put)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # what a pass held is not given back object by object
