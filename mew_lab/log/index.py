"""Keeps an index of a journal in a DuckDB file, so that a log larger than the memory is searched at once.

How it works
------------
The journal is the truth, and the index is a copy of its columns that may be deleted at any time:

    journal ── one statement of DuckDB (`build`) ── index file (mode 0600)
       │                                             │ rows(where): places
       └── pread(start, length) ── text(place) ──────┘

- Each line is parsed once. A filter on columns reads the index alone; the text of a message is read from the journal by
  the offset and the length of its line.
- The index of a journal under `files.LARGE` bytes is built in memory where somebody asks for it; such a log answers from
  its records (`answers`). A larger one is built in a
  private folder within the user's cache folder, and renamed when it is complete (`sidecar`). With a folder as
  `index`, index files are kept in that folder.
- At the next opening the index is taken where this user wrote it and nobody changed it since, and where version, device,
  inode, size and times of each file are still the same. Where size or times are not, the digest of all that is indexed
  must be the same; lines that were appended since are added. In any doubt it is built anew. DuckDB then reads no other
  file but the journal, and its settings are locked.
- An index file that cannot be read in the middle of a question is built anew, and the question is asked again.
- Where the folder cannot be written to, where the disk is full, or with `index=False`, the index is kept in memory, and
  `notes` says so.
- `build` may run in a thread: `rows` then sees the files that were indexed so far.

The table `entries` has a row for each line that is not blank. Its columns have the names of the columns of `Log.df`;
`to`, `receivers` and `correlation_id` are lists. Besides them: `place` (the number of the row in the order of reading,
from 1), `file`, `start` and `length` of the line, and `message`, which is false for an event without a message. No
column has what stands in a payload; a filter reads that (`filter.indexed`). `judged` is `entries` with what follows from
other messages: the states of the ledger and the findings of the diagnosis, whose full text is in `diagnosis`;
`judged_states` and `judged_findings` have rows for the messages alone that have such facts, and are therefore faster.
The tables `frame_…` hold the frames of the ledger. These facts are written once, by `write_facts`, for all rows that the
index has then; when rows are added, they are written anew. For an index that is kept beside a large journal, the pass
that makes them begins as soon as it is built, in a process (`fact_process`): `passes` tells how far it is, and
`stop_passes` ends it.

`build` makes the table of lines, and `facts` those of facts.

Spec: §3.6.8.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np

from mew_lab.errors import JournalError
from mew_lab.log.build import LINE_TABLE, Reached, add_lines, is_text, literal_path, quote_text
from mew_lab.log.fact_process import FactProcess
from mew_lab.log.facts import FACTS, TABLES, FactWriter, create_tables, frame_values, run_facts, take_tables
from mew_lab.log.files import Files, JournalSource, SessionStart, begin_session, is_large
from mew_lab.log.reading import LineReader, are_journals, open_regular, torn_line, unread_lines
from mew_lab.log.sidecar import (
    FileState,
    are_indexed,
    digest_blocks,
    digest_first,
    digest_last,
    index_path,
    is_sealed,
    make_place,
    old_index,
    remove_index,
    seal_index,
    times,
)
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record
from mew_lab.transport.scratch import ScratchFolder

__all__ = ["VERSION", "LogIndex", "Progress"]

VERSION = 14
"""The version of the tables; an index of another version is built anew."""

BATCH_BYTES = 64 * 1024 * 1024  # of the messages that are read at a time
MEMORY = "256MB"  # of DuckDB
ENDED_WITHIN = 10.0  # seconds for the questions of other threads before a database is closed
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_told_old: set[Path] = set()  # the indexes of earlier versions that were told in this process

Progress = Callable[[int, int], None]
"""Called with the bytes that are indexed and the bytes of the journal."""

_TABLES = """
CREATE TABLE about (name VARCHAR, value VARCHAR);
CREATE VIEW entries AS SELECT * EXCLUDE (vouched), len(receivers) AS deliveries FROM lines;
"""
_STARTS = """SELECT place, file, event, detail, space FROM lines
    WHERE event = 'opened' OR place IN (SELECT min(place) FROM lines GROUP BY file) ORDER BY place"""
_JUDGED = """
CREATE VIEW judged AS SELECT
    entries.*, state, latency, decided_by, severity AS "diag.severity", rules AS "diag.rule"
FROM entries LEFT JOIN states USING (place) LEFT JOIN findings USING (place);
CREATE VIEW events AS SELECT place FROM lines WHERE NOT message;
CREATE VIEW judged_states AS SELECT *, place NOT IN (FROM events) AS message FROM states;
CREATE VIEW judged_findings AS SELECT
    place, severity AS "diag.severity", rules AS "diag.rule", place NOT IN (FROM events) AS message
FROM findings;
"""
FACT_COLUMNS: dict[str, tuple[str, ...]] = {
    "states": ("state", "latency", "decided_by"),
    "findings": ("diag.severity", "diag.rule"),
}
"""The tables of facts that the view `judged` has columns of."""


class _Store:
    """A DuckDB database with a private folder, for what DuckDB writes when its memory is full.

    Args:
        path: The database; None for one in memory.
        parent: The folder for the private folder; None for that of temporary files.
        copy: Whether it is a copy of the file at `path` within the private folder, which can be written to.
        reads: Files that a question may read besides the database.
        beside: Folders of databases from which rows are added.
    """

    def __init__(
        self,
        path: Path | None,
        parent: Path | None = None,
        *,
        copy: bool = False,
        reads: Sequence[Path] = (),
        beside: Sequence[Path] = (),
    ) -> None:
        self._questions = 0  # that are being answered
        self._ended = threading.Condition()
        self._closes = False
        self._scratch = ScratchFolder(parent)
        self.folder = self._scratch.path
        self.building = parent is not None
        settings: dict[str, Any] = {
            "threads": min(os.cpu_count() or 1, 4),
            "memory_limit": MEMORY,
            "temp_directory": str(self.folder / "spill"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        self.attached = path is not None or self.building
        try:
            built = self.folder / "idx"
            if copy and path is not None:
                shutil.copyfile(path, built)
            # A file is attached to a database in memory, because one process can open it only with equal settings.
            self.connection = duckdb.connect(":memory:", config=settings)
            self.connection.execute(
                "SET GLOBAL TimeZone = 'UTC'; SET enable_progress_bar = true; SET enable_progress_bar_print = false; "
                "SET progress_bar_time = 0"
            )
            if self.attached:
                options = "" if self.building else " (READ_ONLY)"
                place = built if self.building else path
                self.connection.execute(f"ATTACH {quote_text(str(place))} AS journal{options}")
                # What stands in a file is not trusted with more than it needs.
                paths = [str(file.absolute()) for file in reads]
                files = ", ".join(map(quote_text, [*paths, *map(literal_path, paths)]))
                folders = ", ".join(quote_text(f"{folder}{os.sep}") for folder in (self.folder, *beside))
                self.connection.execute(
                    f"SET allowed_paths = [{files}]; SET allowed_directories = [{folders}]; "
                    "SET enable_external_access = false; SET lock_configuration = true"
                )
            self._prepare(self.connection)
        except BaseException:
            self.close()
            raise

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own, for one thread.

        Raises:
            duckdb.ConnectionException: when the database is closed.
        """
        connection = getattr(self, "connection", None)
        if connection is None:
            raise duckdb.ConnectionException("the database is closed")
        cursor: duckdb.DuckDBPyConnection = connection.cursor()
        self._prepare(cursor)
        return cursor

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self.attached:
            connection.execute("USE journal")

    @contextmanager
    def question(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one question of any thread; the database is closed behind its end.

        Raises:
            duckdb.ConnectionException: when the database is closed.
        """
        with self._ended:
            if self._closes:
                raise duckdb.ConnectionException("the database is closed")
            self._questions += 1
        try:
            yield self.cursor()
        finally:
            with self._ended:
                self._questions -= 1
                self._ended.notify_all()

    @property
    def is_closed(self) -> bool:
        """Whether it answers no question any more."""
        return self._closes

    def disconnect(self) -> None:
        """Closes the database, once the questions of other threads are answered: DuckDB would end them, or refuse."""
        with self._ended:
            self._closes = True
            self._ended.wait_for(lambda: not self._questions, ENDED_WITHIN)
        with suppress(duckdb.Error, AttributeError):
            self.connection.close()
            del self.connection  # DuckDB reports it as leaked where a thread still holds the index at the end

    def close(self) -> None:
        """Closes the database and deletes the folder."""
        self.disconnect()
        self._scratch.remove()


_Answer = TypeVar("_Answer")
_BROKEN = (duckdb.IOException, duckdb.SerializationException, duckdb.InternalException, duckdb.FatalException)


def _is_broken(fault: duckdb.Error) -> bool:
    """Whether a database cannot be read; a checksum that is wrong is an error without a class of its own."""
    return isinstance(fault, _BROKEN) or type(fault) is duckdb.Error


class LogIndex:
    """The index of a log, built from its files in their order; `build` adds what was appended to them since.

    Attributes:
        notes: Sentences on where the index is kept, where that is not its usual place.
        path: The index file in use; None where the index is in memory.
        progress: Called while the index is built.
    """

    def __init__(
        self, source: JournalSource, *, keep: bool | Path = True, progress: Progress | None = None
    ) -> None:
        self.notes: tuple[str, ...] = ()
        self.path: Path | None = None
        self.progress = progress
        self._source = source
        self._keep = keep
        self._lock = threading.Lock()  # one thread builds; the others may read meanwhile
        self._store: _Store | None = None
        self._lines = LineReader(())
        self._process: FactProcess | None = None  # the newest
        self._passes_lock = threading.Lock()  # within it no other lock is taken
        self._begins_passes = True
        self._reset()

    def _reset(self) -> None:
        self._last: datetime | None = None
        self._files: list[FileState] = []
        self._verified: dict[
            int, tuple[int, ...]
        ] = {}  # by file, the state for which its digest was the same
        self._rows = 0
        self._facts = -1  # the number of rows that were known when the facts were written
        self._done = 0

    def close(self) -> None:
        """Closes the index; an index file stays."""
        self.stop_passes()
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._store is not None:
            self._finalizer()
            self._store = None

    def __repr__(self) -> str:
        where = self.path if self.path is not None else "memory"
        return f"<LogIndex of {self._rows} rows in {where}>"

    # --- building ---

    def build(self) -> LogIndex:
        """Indexes what is not indexed yet.

        Raises:
            JournalError: when a file cannot be read any more, or is no journal any more.
        """
        with self._lock:
            try:
                changed = self._store is not None and not self._still_holds()
            except OSError as fault:
                raise _cannot_index(self._source.paths, fault) from None
            if changed:
                self._note(f"{self._source.paths[0]} was changed since it was indexed; it is indexed anew.")
                self._drop()
                self._reset()
                self.path, self._lines = None, LineReader(())
            if self._store is None and not self._reopen():
                self._begin(self._place_of_file())
            try:
                self._extend()
            except (duckdb.Error, OSError, MemoryError) as fault:
                self._go_to_memory(fault, writes=self._store is not None and self._store.building)
        self._begin_passes()
        return self

    def _go_to_memory(self, fault: BaseException, *, writes: bool) -> None:
        """Builds the index again in memory, because its file cannot be written.

        Raises:
            JournalError: when no file was written, or a journal is gone.
        """
        if isinstance(fault, FileNotFoundError) or not writes:
            raise _cannot_index(self._source.paths, fault) from None
        self._begin_in_memory(f"The index cannot be written: {_reason(fault)}.")
        self._extend()

    def _begin_in_memory(self, why: str) -> None:
        self._note(f"{why} It is kept in memory instead.")
        self._drop()
        self._reset()
        self.path = None
        self._begin(None)

    # --- facts ---

    def write_facts(self) -> None:
        """Writes the tables of facts, unless they hold those of all rows of the index already.

        A pass that goes on in a process is waited for; an interrupt of the wait does not end it.

        Raises:
            JournalError: when a file cannot be read any more, or was changed.
        """
        self.build()
        while not self.has_facts:
            process = self._begin_process()
            if process is None or not process.wait():
                self._write_facts_here()

    @property
    def has_facts(self) -> bool:
        """Whether it holds the facts of all its rows."""
        return self._facts == self._rows

    def _write_facts_here(self) -> None:
        with self._lock:
            if self.has_facts:
                return

            def insert(cursor: duckdb.DuckDBPyConnection) -> None:
                for table in TABLES:
                    cursor.execute(f"DELETE FROM {table}")
                run_facts(self._all_records(), FactWriter(cursor).put)

            try:
                self._store_facts(insert)
            except (duckdb.Error, OSError, MemoryError) as fault:
                self._go_to_memory(fault, writes=self.path is not None)
                self._store_facts(insert)

    def _store_facts(
        self, insert: Callable[[duckdb.DuckDBPyConnection], None], beside: Sequence[Path] = ()
    ) -> None:
        """Writes the facts of all rows; a file is replaced by a copy, so that what reads the index is not disturbed.

        Args:
            beside: Folders of databases from which rows are taken.
        """
        target = self.path
        if target is None:
            self._insert_facts(self._opened(), insert)
            return
        copy = self._copy_of(target, beside)
        try:
            self._insert_facts(copy, insert)
            self._put_in_place(copy, target)
        finally:
            copy.close()
        self._drop()
        self._connect(self._store_of(target), new=False)

    def _insert_facts(self, store: _Store, insert: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
        cursor = store.cursor()
        insert(cursor)
        self._write_about(cursor, self._rows)
        cursor.close()
        self._facts = self._rows

    @cached_property
    def column_names(self) -> frozenset[str]:
        """The columns of `entries`, and those of facts."""
        return frozenset(str(row[0]) for row in self.query("DESCRIBE judged"))

    @staticmethod
    def view_of_facts(columns: Set[str]) -> str | None:
        """The view of the messages with facts that has these columns; None where no such view has them all."""
        views = (f"judged_{table}" for table, names in FACT_COLUMNS.items() if columns <= {*names})
        return next(views, None)

    def frame_values(self, frame: str) -> dict[str, Any]:
        """The columns of a frame of the ledger, as `write_facts` has written them."""
        return self._ask(lambda cursor: frame_values(cursor, frame))

    def _all_records(self) -> Iterator[Record]:
        """The records of all rows that are indexed, and no later ones."""
        records = Files(tuple(self._source.paths)).read([])
        for place in range(1, self._rows + 1):
            record = next(records, None)
            if record is None:
                raise self.changed(place)
            yield record

    # --- passes in processes ---

    @property
    def passes(self) -> dict[str, float]:
        """The part of the log that the pass in a process has read, by its name: from 0 to 1; empty where none runs."""
        process = self._process
        if process is None or not process.is_running:
            return {}
        return {FACTS: process.done / max(1, process.rows)}

    def stop_passes(self) -> None:
        """Ends the passes that are running; what needs their facts begins them anew."""
        with self._passes_lock:
            self._begins_passes = False
            process = self._process
        if process is not None:
            process.stop()

    def _begin_passes(self) -> None:
        """Begins the pass whose facts an index file is to hold."""
        if self._begins_passes and self.path is not None and not self.has_facts:
            self._begin_process()

    def _begin_process(self) -> FactProcess | None:
        """The process of the pass over all rows, which may be running already; None where none is to make it."""
        if not is_large(self._source.paths):
            return None
        with self._passes_lock:
            process, of = self._process, tuple(self._files)
            if process is None or process.of != of or process.was_stopped or process.has_succeeded:
                if process is not None:
                    process.stop()
                take = weakref.WeakMethod(self._take_facts)  # the pass for an index that nobody holds ends
                process = self._process = FactProcess(self._source.paths, self._rows, of, take)
                process.start()
        return process

    def _take_facts(self, process: FactProcess, database: Path) -> None:
        """Takes the tables that a process has written, if the index is still of the same lines."""

        def insert(cursor: duckdb.DuckDBPyConnection) -> None:
            take_tables(cursor, database)

        with self._lock:
            if self._store is None or process.of != tuple(self._files) or not self._still_holds():
                return
            if self.has_facts:
                return
            self._store_facts(insert, (database.parent,))

    # --- end of the facts ---

    @property
    def last_time(self) -> datetime | None:
        """The time of the last row of an index of journals; None where there is none."""
        return self._last

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes = (*self.notes, sentence)

    def _place_of_file(self) -> Path | None:
        """The path that the index shall have; None where it is kept in memory."""
        paths = self._source.paths
        if self._keep is False or not is_large(paths):
            return None
        folder = self._keep if isinstance(self._keep, Path) else None
        if folder is None and isinstance(self._source, Files) and self._source.unpacked is not None:
            folder = self._source.unpacked.folder  # where these files are, which end with it
        place = index_path(paths[0], folder)
        if place is None:
            self._note("There is no folder of this user for the index. It is kept in memory.")
        elif not all(map(is_text, (place, *paths))):
            place = None
            self._note(f"The name of {paths[0]} is no text in UTF-8. Its index is kept in memory.")
        elif folder is None and (old := old_index(paths[0])) is not None and old not in _told_old:
            _told_old.add(old)
            self._note(f"{old} is the index of an earlier version. It is not read, and may be deleted.")
        return place

    def _begin(self, target: Path | None) -> None:
        """Begins an empty index: in a private folder beside `target`, or in memory."""
        if target is not None:
            try:
                make_place(target)
                self._connect(_Store(None, target.parent, reads=self._source.paths))
                return
            except (OSError, duckdb.Error) as fault:
                self._note(
                    f"The index {target} cannot be written: {_reason(fault)}. It is kept in memory; "
                    "open_log(…, index=FOLDER) keeps it in another folder."
                )
        self._connect(_Store(None))

    def _connect(self, store: _Store, *, new: bool = True) -> None:
        if new:
            store.connection.execute(LINE_TABLE)
            store.connection.execute(_TABLES)
            create_tables(store.connection, TABLES.values())
            store.connection.execute(_JUDGED)
        self._store = store
        self._finalizer = weakref.finalize(self, store.close)

    def _reopen(self) -> bool:
        """Takes an index file that is still of these files; false where there is none."""
        target = self._place_of_file()
        if target is None or not os.path.lexists(target):
            return False
        if self._take(target):
            return True
        self._note(
            f"The index {target} is of another version or of another state of the journal; it is built anew."
        )
        return False

    def _store_of(self, target: Path) -> _Store:
        return _Store(target, reads=self._source.paths)

    def _take(self, target: Path) -> bool:
        try:
            if not is_sealed(target, self._source.paths[0]):
                return False
            store = self._store_of(target)
        except (OSError, duckdb.Error):
            return False
        if not is_sealed(target, self._source.paths[0]):  # another one was put in its place meanwhile
            store.close()
            return False
        try:
            about = dict(store.connection.execute("SELECT name, value FROM about").fetchall())
            files = [FileState(*fields) for fields in json.loads(about["files"])]
            rows, done = int(about["rows"]), sum(state.end for state in files)
            [(held,)] = store.connection.execute("SELECT count(*) FROM lines").fetchall()
            if (
                about["version"] != str(VERSION)
                or held != rows
                or not are_indexed(self._source.paths, files, self._verified, whole=True)
            ):
                store.close()
                return False
            facts = int(about["facts"])
            last = datetime.fromisoformat(about["last"]) if rows else None
        except (duckdb.Error, KeyError, TypeError, ValueError, AttributeError):
            store.close()
            return False
        self._connect(store, new=False)
        self.path, self._files, self._rows, self._done = target, files, rows, done
        self._facts = facts
        self._last = last
        return True

    def _still_holds(self) -> bool:
        """Whether what is indexed of each file is unchanged; of an index in memory its first line and its end."""
        whole = self.path is not None
        return are_indexed(self._source.paths, self._files, self._verified, whole=whole)

    def _extend(self) -> None:
        paths = self._source.paths
        if not are_journals(paths):
            raise JournalError(
                f"Cannot index {paths[0]}: it is no journal of mew_lab any more. Open it again.",
                path=str(paths[0]),
            )
        if self._lines.paths != tuple(paths):
            self._lines = LineReader(paths)
        sizes = [path.stat().st_size for path in paths]
        if self._is_current(paths, sizes):
            return
        if self.path is not None:
            try:
                copy = self._copy_of(self.path)
                self._drop()
                self._connect(copy, new=False)
                self.path = None  # until the copy has replaced it
            except (OSError, duckdb.Error) as fault:
                self._begin_in_memory(f"The index {self.path} cannot be written: {_reason(fault)}.")
        total = sum(sizes)
        for number, path in enumerate(paths):
            state = self._files[number] if number < len(self._files) else None
            self._extend_file(number, path, state, total)
        self._last = self._find_last()
        self._complete()

    def _find_last(self) -> datetime | None:
        """The time of the last row."""
        found = self._opened().connection.execute(
            'SELECT epoch_us("time") FROM lines WHERE place = ?', [self._rows]
        )
        return next((_EPOCH + timedelta(microseconds=time) for (time,) in found.fetchall()), None)

    def _is_current(self, paths: Sequence[Path], sizes: Sequence[int]) -> bool:
        return len(self._files) == len(paths) and all(
            state.size == size for state, size in zip(self._files, sizes, strict=True)
        )

    def _extend_file(self, number: int, path: Path, state: FileState | None, total: int) -> None:
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
            if state is not None and found.st_size == state.size:
                return
            if state is None and number < len(self._files):
                return
            reached = Reached(state.end, state.lines) if state is not None else Reached()
            kept = self._opened().building
            # What is changed while it is read is then other than its digest, or than its times.
            begun, before = reached.end, state.blocks if state is not None else ""
            until = found.st_size
            blocks = digest_blocks(file, before, begun, until) if kept else ""
            last = digest_last(file, until)
            done = self._done - reached.end

            def tell(end: int) -> None:
                if self.progress is not None:
                    self.progress(done + end, total)

            store = self._opened()
            reached, rows = add_lines(
                store.connection, path, file, number, self._rows, reached, store.folder, tell
            )
            self._rows += rows
            self._done = done + reached.end
            if reached.end != until:  # its last line is torn, or it grew meanwhile
                last = digest_last(file, reached.end)
                if kept and reached.end < until:
                    blocks = digest_blocks(file, before, begun, reached.end)
                elif kept:
                    blocks = digest_blocks(file, blocks, until, reached.end)
            if not kept:
                found = os.fstat(
                    file.fileno()
                )  # a file that grew while it was read was changed at another time
            held = FileState(
                path.name, found.st_dev, found.st_ino, digest_first(file), reached.end, blocks,
                last, reached.lines, bool(reached.torn), reached.end + reached.torn, *times(found),
            )  # fmt: skip
            self._files[number:] = [held]

    def _opened(self) -> _Store:
        assert self._store is not None, "an index is begun before it is used"
        return self._store

    def _copy_of(self, target: Path, beside: Sequence[Path] = ()) -> _Store:
        """A private copy of the index file, which can be written to, and then replaces it.

        Raises:
            OSError: when the file is not as this index has read or written it.
        """
        if not is_sealed(target, self._source.paths[0]):
            raise OSError(errno.EEXIST, "it was changed meanwhile")
        copy = _Store(target, target.parent, copy=True, reads=self._source.paths, beside=beside)
        [(files,)] = copy.connection.execute("SELECT value FROM about WHERE name = 'files'").fetchall()
        if files != json.dumps(self._files):
            copy.close()
            raise OSError(errno.EEXIST, "another reader of the journal has written it meanwhile")
        return copy

    def _complete(self) -> None:
        """Writes what the index is of; an index in a private folder takes its place and is opened from there."""
        store = self._opened()
        self._write_about(store.connection, self._facts)
        target = self._place_of_file()
        if not store.building or target is None:
            return
        self._put_in_place(store, target)
        self._drop()
        self._connect(self._store_of(target), new=False)
        self.path = target

    def _put_in_place(self, store: _Store, target: Path) -> None:
        """Puts an index that is complete in its place, and seals it."""
        store.connection.execute("CHECKPOINT")
        store.disconnect()
        built = store.folder / "idx"
        built.chmod(0o600)
        built.replace(target)
        seal_index(target, self._source.paths[0])

    def _write_about(self, connection: duckdb.DuckDBPyConnection, facts: int) -> None:
        about = {
            "version": str(VERSION),
            "files": json.dumps(self._files),
            "rows": str(self._rows),
            "last": self._last.isoformat() if self._last is not None else "",
            "facts": str(facts),
        }
        connection.execute("DELETE FROM about")
        connection.executemany("INSERT INTO about VALUES (?, ?)", [*map(list, about.items())])

    # --- reading ---

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on lines that could not be read, a file each; only of what is indexed so far."""
        unread = {
            file: (count, first)
            for file, count, first in self.query(
                "SELECT file, count(*), arg_min(detail, place) FROM entries WHERE event = 'unreadable' GROUP BY file"
            )
        }
        faults = list[str]()
        for number, state in enumerate(self._files):
            if number in unread:
                faults.append(unread_lines(state.name, *unread[number]))
            if state.torn:
                faults.append(torn_line(state.name))
        return tuple(faults)

    def __len__(self) -> int:
        """The number of rows that are indexed so far, events included."""
        return self._rows

    def count_messages(self) -> int:
        """The number of messages that are indexed so far."""
        [(count,)] = self.query("SELECT count(*) FROM lines WHERE message")
        return int(count)

    def starts(self) -> tuple[SessionStart, ...]:
        """Where the sessions begin that are indexed so far."""
        starts = list[SessionStart]()
        for place, file, event, detail, space in self.query(_STARTS):
            record = Record(0, _EPOCH, event, space, detail=detail)
            begin_session(starts, place, self._source.paths[file], record)
        return tuple(starts)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query of the tables of the index; a text of a user is a parameter, never a part of `sql`."""
        return self._ask(lambda cursor: cursor.execute(sql, parameters).fetchall())

    def fetch(
        self,
        sql: str,
        parameters: Sequence[Any] = (),
        *,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
        """The columns of a query as NumPy arrays; `tables` are further tables of it, columns by name."""

        def ask(cursor: duckdb.DuckDBPyConnection) -> dict[str, Any]:
            for name, columns in (tables or {}).items():
                cursor.register(name, dict(columns))
            return dict(cursor.execute(sql, parameters).fetchnumpy())

        return {name: np.ma.getdata(values) for name, values in self._ask(ask).items()}

    def rows(
        self,
        where: str = "",
        parameters: Sequence[Any] = (),
        *,
        events: bool = False,
        view: str = "entries",
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The places of the rows for which a condition on the columns of `entries` holds, in their order.

        Args:
            where: A condition in SQL, with `?` for each of `parameters`; empty for all rows.
            events: Also rows of events without a message.
            view: The view whose columns the condition uses: `judged` has `known_facts` too.
        """
        conditions = [f"({condition})" for condition in ("" if events else "message", where) if condition]
        held = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        found = self.fetch(f"SELECT place FROM {view}{held} ORDER BY place", parameters)
        return np.asarray(found["place"], dtype=np.int64)

    def batches(self, places: np.ndarray[Any, Any], most: int) -> Iterator[np.ndarray[Any, Any]]:
        """Some places in parts of at most `most` rows, whose messages have about 64 MiB in all."""
        sizes = self._rows_at(places, "SELECT size FROM wanted JOIN lines USING (place) ORDER BY n")
        ends = np.cumsum([size for (size,) in sizes], dtype=np.int64)
        first, before = 0, 0
        while first < len(places):
            last = min(first + most, max(first + 1, int(np.searchsorted(ends, before + BATCH_BYTES))))
            yield places[first:last]
            first, before = last, int(ends[last - 1])

    def parts(
        self,
        terms: Sequence[str],
        where: str = "message",
        parameters: Sequence[Any] = (),
        *,
        places: np.ndarray[Any, Any] | None = None,
    ) -> Iterator[Any]:
        """The values of some terms in the rows for which a condition on `lines` holds, or in some rows.

        Each is an array of pyarrow where it is installed, and one of NumPy where not. One column at a time is read of
        all rows, so that it alone is in memory as DuckDB gives it.
        """
        if places is not None:
            where = "place IN (SELECT place FROM wanted)"

        def ask(cursor: duckdb.DuckDBPyConnection, several: Sequence[str]) -> list[Any]:
            if places is not None:
                cursor.register("wanted", {"place": places})
            names = ", ".join(f"{term} AS c{number}" for number, term in enumerate(several))
            found = cursor.sql(f"SELECT {names} FROM lines WHERE {where}", params=parameters)
            if find_spec("pyarrow") is not None:
                return list(found.to_arrow_table().columns)
            return [np.ma.getdata(values) for values in found.fetchnumpy().values()]

        for several in [terms] if places is not None or parameters else [[term] for term in terms]:
            yield from self._ask(lambda cursor, several=several: ask(cursor, several))  # type: ignore[misc]

    @property
    def is_as_indexed(self) -> bool:
        """Whether no file was changed, or became longer, since it was indexed."""
        with suppress(OSError):
            states = zip(self._files, self._source.paths, strict=False)
            return all(times(path.stat()) == (state.changed, state.touched) for state, path in states)
        return False

    def changed(self, place: int) -> JournalError:
        """The error for a row whose line was changed since it was indexed."""
        name = self._source.paths[0] if self._source.paths else "the log"
        return JournalError(
            f"Cannot read row {place} of {name}: the file was changed while it was read. Open it again.",
            path=str(name),
        )

    @property
    def reader(self) -> LineReader:
        """Reads the lines of the files by their offsets."""
        return self._lines

    def text(self, place: int) -> str | None:
        """The exact text of the message in a row; None where it has none.

        Raises:
            JournalError: when there is no such row, or its line was changed since it was indexed.
        """
        return self.texts(np.array([place], dtype=np.int64))[0]

    def record(self, place: int) -> Record:
        """The record in a row.

        Raises:
            JournalError: when there is no such row, or its line was changed since it was indexed.
        """
        for record in self.records(np.array([place], dtype=np.int64)):
            return record
        raise JournalError(f"There is no row {place}: the log has {self._rows} rows. Name a smaller number.")

    def texts(self, places: np.ndarray[Any, Any]) -> list[str | None]:
        """The exact texts of the messages in some rows."""
        sql = "SELECT n, file, start, length, body, size FROM wanted JOIN lines USING (place) ORDER BY n"
        return [self._lines.text(*span) for _, *span in self._rows_at(places, sql)]

    def _rows_at(self, places: np.ndarray[Any, Any], sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query of `wanted`, which are some places and their order `n`."""

        def ask(cursor: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
            cursor.register("wanted", {"place": places, "n": np.arange(len(places))})
            return cursor.execute(sql).fetchall()

        return self._ask(ask)

    def records(self, places: np.ndarray[Any, Any] | None = None) -> Iterator[Record]:
        """The records of some rows, or of all of them in their order."""
        rows = np.arange(1, self._rows + 1) if places is None else places
        for first in range(0, len(rows), 16384):
            spans = self._rows_at(
                rows[first : first + 16384],
                'SELECT file, start, length, epoch_us("time"), event, detail FROM wanted '
                "JOIN entries USING (place) ORDER BY n",
            )
            for file, start, length, time, event, detail in spans:
                record = self._lines.record(file, start, length) if event != "unreadable" else None
                now = _EPOCH + timedelta(microseconds=time)
                yield record if record is not None else Record(0, now, "unreadable", detail=detail)

    def _ask(self, ask: Callable[[duckdb.DuckDBPyConnection], _Answer]) -> _Answer:
        """The answer to a question; it is asked again where the index file cannot be read, which is then built anew.

        Raises:
            JournalError: when it cannot be built.
        """
        asked_again = False
        while True:
            if (store := self._store) is None:
                self.build()
                continue
            try:
                with store.question() as cursor:
                    return ask(cursor)
            except (duckdb.ConnectionException, duckdb.InvalidInputException):
                # A question that took longer than a store waits for meets a closed one, or has no result set any more.
                if self._store is store and not store.is_closed:
                    raise
                with self._lock:  # another thread is putting a new file in its place
                    continue
            except duckdb.Error as fault:
                if not _is_broken(fault):
                    raise
                if not store.attached or store.building or asked_again:
                    raise _cannot_index(self._source.paths, fault) from None
            asked_again = True
            self._build_anew(store)

    def _build_anew(self, broken: _Store) -> None:
        """Builds the index again, with the facts that it held, in the place of a file that cannot be read."""
        with self._lock:
            if self._store is not broken:
                return  # another thread has done it
            had_facts = self.has_facts
            self._note(f"The index {self.path} cannot be read any more; it is built anew.")
            if self.path is not None:
                remove_index(self.path)
            self._drop()
            self._reset()
            self.path = None
        self.build()
        if had_facts:
            self.write_facts()


def _reason(fault: BaseException) -> str:
    text = (
        getattr(fault, "strerror", None) or str(fault).splitlines()[0] if str(fault) else type(fault).__name__
    )
    return one_line(str(text).rstrip("."), 200)


def _cannot_index(paths: Sequence[Path], fault: BaseException) -> JournalError:
    path = str(paths[0]) if paths else "the log"
    return JournalError(f"Cannot read {path}: {_reason(fault)}. Name a file that can be read.", path=path)
