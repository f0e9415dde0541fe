"""The states of a space in the course of its journal: each of them is restored in a few steps.

A journal is read once, and later only where it has grown. The place of each record that changes the state is kept, and
after every 1,000 of them the whole state as text. A state is restored from the last such text before it and the records
that follow.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

from mew_lab.errors import JournalError, MewError
from mew_lab.log.line import read_line, read_members
from mew_lab.log.reading import (
    LINE_LIMIT,
    UnreadLine,
    is_torn,
    open_regular,
    record_at,
    split_lines,
    stored_length,
)
from mew_lab.log.replay import CAUSED, SNAPSHOT, event_of
from mew_lab.log.state_replay import LinePlace, StateReplay
from mew_lab.space.core import Space
from mew_lab.space.events import Record
from mew_lab.space.opening import reopen
from mew_lab.space.snapshot import restore, snapshot

__all__ = ["GIVING", "StateHistory", "find_record", "lines_at"]

GIVING = frozenset({"capability/grant", "space/invite"})
_NOTED = (b"capability", b"space", b"name_freed", b"\\u", b"\\/")  # what such a line contains
EVERY = 1000  # changes of the state between two snapshots


class _StateChange(NamedTuple):
    """A record that changed the state, or its place; and the number of the gateway's own messages before it."""

    what: Record | LinePlace
    messages: int


class _Snapshot(NamedTuple):
    """The state after the first `steps` steps, as text, and the `opened` of its space."""

    steps: int
    opened: Record
    text: str


class StateHistory:
    """The states of one space, from the files of its journal or from its records.

    Args:
        name: The name of the journal, for errors.
        every: The number of changes between two snapshots.
    """

    def __init__(self, name: str = "the journal", *, every: int = EVERY) -> None:
        self._name = name
        self._every = every
        self._replay = StateReplay(name, observe=self._note)
        self._opened: Record | None = None
        self._steps: list[_StateChange] = []
        self._seqs: list[int] = []
        self._snapshots: list[_Snapshot] = []
        self._first = 0  # records up to here were deleted
        self._paths: Sequence[Path] = ()
        self._file = self._start = 0  # where the next line begins
        self._last = -1
        self.grants: dict[str, Record | LinePlace] = {}
        """The accepted grants and invitations by id, also those after a fault."""
        self.freed: list[Record] = []
        """The notes that a name changed its owner."""
        self._fault: MewError | None = None
        self._fault_at = 0

    @property
    def last(self) -> int:
        """The `seq` of the newest record; -1 before the first."""
        return self._last

    @property
    def snapshot(self) -> Record | None:
        """The beginning of a journal that begins with a snapshot, whose state is behind the record `first`."""
        return self._opened if self._first else None

    @property
    def first(self) -> int:
        """The `seq` of the first state: 0, or that of the last record before a snapshot."""
        return self._first

    @property
    def fault(self) -> MewError | None:
        """The reason why the states from some record on are not known; None where there is none."""
        return self._fault

    # --- reading ---

    def read_files(self, paths: Sequence[Path]) -> None:
        """Reads what the files of a journal, in their order, have gained since the last call."""
        self._paths = paths
        newest = b""
        while self._file < len(paths):
            last = self._file + 1 == len(paths)
            with open_regular(paths[self._file], buffering=1 << 18) as file:
                file.seek(self._start)
                newest = self._read_lines(file, last=last) or newest
            if last:
                break
            self._file, self._start = self._file + 1, 0
        self._end(read_line(newest) if newest else None)

    def _read_lines(self, file: IO[bytes], *, last: bool) -> bytes:
        """Reads the lines of one file from here on; returns the newest."""
        newest = b""
        take, number = self._replay.take_line, self._file
        for line in split_lines(file):
            data, length = b"" if isinstance(line, UnreadLine) else line, stored_length(line)
            if last and is_torn(line):
                break  # torn, or not yet written to its end
            if not data.isspace():
                place = LinePlace(number, self._start, length)
                if self._fault is None:
                    try:
                        take(data, place)
                    except MewError as fault:
                        before = read_line(newest) if newest else None
                        self._last = max(self._last, before.seq if before is not None else -1)
                        self._stop(fault, read_line(data))
                if self._fault is not None and any(part in data for part in _NOTED):
                    self._keep_note(read_line(data), place)
                newest = data
            self._start += length
        return newest

    def read_places(
        self, paths: Sequence[Path], places: Iterable[tuple[LinePlace, bool]], *, end: LinePlace, last: int
    ) -> None:
        """Reads the lines at these places, which are all that may change the state, and the records that they caused.

        Args:
            places: As in `lines_at`.
            end: The last line of the journal, up to which these are all.
            last: Its newest `seq`.

        Raises:
            ReplayMismatch, JournalError: when it cannot be replayed; this history is then of no use.
        """
        self._paths = paths
        for line, place in lines_at(paths, places):
            record = read_line(line)
            if record is None:
                raise JournalError(
                    f"{self._name} was changed while it was read; open it again", path=self._name
                )
            self._replay.take(record, place)
        _ = self._replay.space
        self._last = max(self._last, last)
        self._file, self._start = end.file, end.start + end.length

    def read_records(self, records: Iterable[Record]) -> None:
        """Reads further records."""
        newest = None
        for record in records:
            if self._fault is None:
                try:
                    self._replay.take(record)
                except MewError as fault:
                    self._stop(fault, record)
            if self._fault is not None:
                self._keep_note(record, None)
            newest = record
        self._end(newest)

    def _end(self, newest: Record | None) -> None:
        self._last = max(self._last, newest.seq if newest is not None else -1)
        try:
            _ = self._replay.space  # replays what it holds back
        except MewError as fault:
            self._stop(fault, newest)

    def _stop(self, fault: MewError, record: Record | None) -> None:
        """Ends the history before a record that cannot be replayed."""
        if self._fault is None:
            self._fault = fault
            taken = record.seq if record is not None else self._last + 1
            failed = self._replay.failed
            self._fault_at = failed[0].seq if failed else taken
            for earlier in failed:
                self._keep_note(earlier, None)

    def _keep_note(self, record: Record | None, place: LinePlace | None) -> None:
        """Keeps a grant, and a note that a name changed its owner."""
        if record is None or record.verdict == "refused":
            return
        if record.event == "name_freed":
            self.freed.append(record)
        elif record.verdict == "accepted" and record.raw is not None:
            members = read_members(record.raw) or {}
            id = members.get("id")
            if isinstance(id, str) and members.get("kind") in GIVING:
                self.grants[id] = place or record

    def _note(self, group: Sequence[Record], place: LinePlace | None, messages: int) -> None:
        """Keeps the change that the replay has just made."""
        record = group[0]
        self._keep_note(record, place)
        for caused in group[1:]:
            if caused.event == "name_freed":
                self.freed.append(caused)
        if record.event == "opened":
            self._opened, self._first = record, 0
        elif record.event == SNAPSHOT:
            space = self._replay.space
            self._first = space.state.records if space is not None else 0
            self._last = max(self._last, self._first)
        else:
            self._steps.append(_StateChange(place or record, messages))
            self._seqs.append(record.seq)
            if len(self._steps) % self._every:
                return
        space = self._replay.space
        if space is not None and self._opened is not None:
            self._snapshots.append(_Snapshot(len(self._steps), self._opened, snapshot(space)))

    # --- restoring ---

    def restore(self, seq: int) -> Space:
        """The space as it was behind the record `seq`, without the ids that requests and proposals had taken.

        Raises:
            JournalError: when there is no such record, or the journal cannot be replayed up to it.
        """
        if self._fault is not None and seq >= self._fault_at:
            raise JournalError(
                f"the state of the space at #{seq} is not known, because {self._fault}", path=self._name
            )
        if self._replay.sessions > 1:
            raise JournalError(
                f"{self._name} holds {self._replay.sessions} spaces or runs of one, so #{seq} is not one record; "
                "open the journal of one run",
                path=self._name,
            )
        if not self._first <= seq <= self._last or not self._snapshots:
            deleted = f", and it begins with a snapshot behind #{self._first}" if self._first else ""
            last = f"its last one is #{self._last}" if self._last >= 0 else "it holds none"
            raise JournalError(f"{self._name} has no record #{seq}: {last}{deleted}", path=self._name)
        count = bisect_right(self._seqs, seq)
        start = next(known for known in reversed(self._snapshots) if known.steps <= count)
        space = reopen(start.opened)
        restore(space, start.text)
        with ExitStack() as files:
            for record, messages in self._read_steps(start.steps, count, files):
                state = space.state
                state.records, state.messages = record.seq - 1, messages
                state.forget_ids()
                space.step(event_of(record), record.now)
        return space

    def record(self, what: Record | LinePlace) -> Record:
        """A record from its place.

        Raises:
            JournalError: when the file was changed meanwhile.
        """
        if isinstance(what, Record):
            return what
        with ExitStack() as files:
            return self._read(what, {}, files)

    def _read(self, place: LinePlace, opened: dict[int, IO[bytes]], files: ExitStack) -> Record:
        if place.file not in opened:
            opened[place.file] = files.enter_context(open_regular(self._paths[place.file]))
        record = record_at(opened[place.file], place.start)
        if record is None:
            raise JournalError(f"{self._name} was changed while it was read; open it again", path=self._name)
        return record

    def _read_steps(self, first: int, last: int, files: ExitStack) -> Iterator[tuple[Record, int]]:
        """The records of some steps, each with the number of gateway messages before it."""
        opened: dict[int, IO[bytes]] = {}
        for step in self._steps[first:last]:
            what = step.what
            record = what if isinstance(what, Record) else self._read(what, opened, files)
            yield record, step.messages


# --- some records ---


def lines_at(
    paths: Sequence[Path], places: Iterable[tuple[LinePlace, bool]]
) -> Iterator[tuple[bytes, LinePlace | None]]:
    """The lines at some places, and behind each that has effects, which the flag beside it says, the lines of these.

    What follows an `opened` may be an effect of an event that is left out. A line that no reader takes is empty.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(open_regular(path, buffering=1 << 13)) for path in paths]
        for place, has_effects in places:
            file = files[place.file]
            file.seek(place.start)
            line = next(split_lines(file), b"")
            yield b"" if isinstance(line, UnreadLine) else line, place
            if has_effects:
                for effect in _effects(files[place.file :]):
                    yield effect, None


def _effects(files: Sequence[IO[bytes]]) -> Iterator[bytes]:
    """The lines of the effects that follow in these files; a file may end within an event."""
    for file in files:
        if file is not files[0]:
            file.seek(0)
            file.readline(LINE_LIMIT)  # its beginning
        for line in split_lines(file):
            record = read_line(line) if not isinstance(line, UnreadLine) else None
            if isinstance(line, UnreadLine) or record is None or record.event not in CAUSED:
                return
            yield line


def find_record(paths: Sequence[Path], seq: int) -> Record | None:
    """The record with that `seq` in the files of a journal; None where there is none.

    The records of a journal stand in the order of their `seq`, so only a few lines are read.
    """
    for path in paths:
        with open_regular(path, buffering=1 << 14) as file:
            low, high = 0, file.seek(0, os.SEEK_END)
            while low < high:
                middle = (low + high) // 2
                record = _next_record(file, middle)
                if record is None or record.seq >= seq:
                    high = middle
                else:
                    low = middle + 1
            record = _next_record(file, low)
            if record is not None and record.seq == seq:
                return record
    return None


def _next_record(file: IO[bytes], start: int) -> Record | None:
    """The first readable record whose line begins at `start` or later."""
    file.seek(max(0, start - 1))
    if start:
        while (data := file.readline(LINE_LIMIT)) and not data.endswith(b"\n"):
            pass
    for line in split_lines(file):
        record = read_line(line) if not isinstance(line, UnreadLine) else None
        if record is not None:
            return record
    return None
