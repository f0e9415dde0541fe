"""Writes the journal of a space: append-only files of one line a record, readable by their owner alone.

How it works
------------
A gateway appends the records of each turn before it delivers anything:

    records ── write_line ── chain_line ── shorten ── one write() ── <root>/.mew/<space>/<utc>.jsonl
                                                                           │ full: `ROTATE_AT` bytes
                                                                           └─ <utc>-2.jsonl, <utc>-3.jsonl …

- A batch goes to the operating system in one call, whole or not at all. A write that fails raises `JournalError`; its
  partial line is removed, so that the next line is readable, and the batch may be tried again. Where a partial line
  cannot be removed, the next write ends it first.
- The first line is an `opened` with the format, the epoch and the vantage. A full file is followed by the next one,
  whose first line is a copy of it and names the previous file.
- Each line carries the SHA-256 of the chain of the previous line and of its own bytes (line.py), through all files of a
  journal. `head` is the end of the chain; integrity.py verifies it.
- A large value that the file has already is written as a reference to it (references.py). A resumed journal, and each
  later file, begins without knowing one.
- A file is created for its owner alone, no link in its place is followed, and it is locked against a second process.
- `Journal.resume` continues a journal after its last complete line; the first append removes a partial line there.

line.py has the format of a line, reading.py reads files, and prune.py deletes old ones. This module does not know the
meaning of a message. There is no lock between threads: a `Journal` belongs to the one thread that runs its gateway.
`flush` writes the buffers of the operating system to the disk.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mew_lab.errors import JournalError
from mew_lab.log.line import (
    CHAIN_BYTES,
    NO_CHAIN,
    chain_line,
    read_line,
    read_members,
    split_chain,
    write_line,
)
from mew_lab.log.reading import LINE_LIMIT, JournalReader, first_record, list_files, read_journal, successor
from mew_lab.log.references import BrokenReference, WrittenValues, refers, restore
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.filename import folder_name
from mew_lab.space.events import Record
from mew_lab.transport.folder import KEPT, hide, open_below, open_folder

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

__all__ = ["ROTATE_AT", "Head", "Journal", "JournalReader", "journal_path", "read_journal"]

FORMAT = 1
ROTATE_AT = 256 * 1024 * 1024
BESIDE = (
    "tokens",
    "tools-agents",
    "logs",
    "run.json",
    "run.lock",
    "run.log",
)  # what is in `.mew` and is no space's


def journal_path(root: str | os.PathLike[str], *, space: str, now: datetime) -> Path:
    """The path of the journal of a space that opens `now`: `<root>/.mew/<space>/<utc>.jsonl`.

    A space whose name is no plain file name gets a folder of another name, so that no path leads out of `.mew`.

    Raises:
        JournalError: when a link in `.mew` leads elsewhere.
    """
    folder = Path(root) / ".mew"
    there = [*folder.iterdir()] if folder.is_dir() else []
    taken = [*BESIDE, *(entry.name for entry in there if not entry.is_dir())]  # a file, such as a space.yaml
    name = folder_name(space, among=[entry.name for entry in there], taken=taken)
    path = folder / name / now.astimezone(UTC).strftime("%Y%m%dT%H%M%S_%fZ.jsonl")
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise JournalError(
            f"Cannot keep the journal of {space!r} in {path.parent}: that is a link out of {folder}. "
            "Remove the link.",
            path=str(path),
        )
    return path


def _make_folders(folder: Path) -> None:
    """Makes the folder and its missing parents, readable by their owner alone; `.mew` hides itself from git."""
    folder = folder.absolute()
    parts = folder.parts
    kept = Path(*parts[: parts.index(KEPT)]) if KEPT in parts else folder
    for missing in reversed([missing for missing in (kept, *kept.parents) if not os.path.lexists(missing)]):
        missing.mkdir(mode=0o700)
    below = open_folder(folder, make=True)  # before anything is written there
    if below is None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        os.close(below)
    for place in (folder, *folder.parents):
        if place.name == KEPT:
            hide(place)


def _create(path: Path) -> int:
    """A descriptor of a file that did not exist; a link in its place is not followed."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
    for name in ("O_NOFOLLOW", "O_BINARY"):  # each exists on some systems only
        flags |= getattr(os, name, 0)
    try:
        _make_folders(path.parent)
        return _lock_file(open_below(path, flags, make=True), path)
    except FileExistsError:
        raise JournalError(
            f"Cannot begin the journal {path}: there is a file already, and a journal never writes over one. "
            "Name another file.",
            path=str(path),
        ) from None
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or fault
        raise JournalError(
            f"Cannot begin the journal {path}: {why}. Name a file in a folder that can be written to.",
            path=str(path),
        ) from None


def _reopen(path: Path) -> int:
    """A descriptor of an existing file, for appending."""
    flags = os.O_RDWR | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        return _lock_file(open_below(path, flags), path)
    except OSError as fault:
        raise JournalError(
            f"Cannot go on with the journal {path}: {fault.strerror}. Name a file that can be written to.",
            path=str(path),
        ) from None


def _lock_file(fd: int, path: Path) -> int:
    """The same descriptor, locked against other writers, because two would mix two spaces in one journal.

    The operating system releases the lock when the process ends, for any reason.
    """
    if fcntl is not None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise JournalError(
                f"Cannot write the journal {path}: another process is writing it. End that one first.",
                path=str(path),
            ) from None
    return fd


def _whole_lines(fd: int) -> tuple[int, bytes, bytes]:
    """The number of bytes of complete lines in a file, the bytes after them, and the last complete line."""
    size = os.fstat(fd).st_size
    begin = max(0, size - 2 * LINE_LIMIT - 1)
    end = _read_at(fd, begin, size - begin)
    cut = end.rfind(b"\n") + 1
    return size - len(end) + cut, end[cut:], end[end.rfind(b"\n", 0, max(0, cut - 1)) + 1 : cut]


def _read_at(fd: int, start: int, size: int) -> bytes:
    """So many bytes of a file from an offset on, or fewer at its end; each write goes to its end all the same."""
    os.lseek(fd, start, os.SEEK_SET)
    parts = []
    while size > 0 and (part := os.read(fd, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _is_stub(path: Path) -> bool:
    """Whether a journal file ends within its first line."""
    data = path.read_bytes()
    return b"\n" not in data and data[:7] == b'{"seq":'[: len(data)]


class Head(NamedTuple):
    """The end of the chain of a journal's lines: the `seq` of the last record, and the chain of its line."""

    seq: int = 0
    chain: bytes = NO_CHAIN


class Journal:
    """An append-only file of records, and the files that continue it.

    The first line is an `opened` with format, epoch and vantage. It is the first appended record where that is one,
    else it is made here. Every later file begins with a copy of it that names the previous file. `paths` lists the
    files, the current one last. `on_append` is called after each batch is written; it must neither wait nor raise.

    Args:
        path: The file to make; it must not exist yet. Missing folders are made.
        space: The name of the space; when empty, that of the first record.
        epoch: The run of the space, which a replay needs; None when it is not known.
        vantage: `gateway` (verdicts and refusals are recorded) or `participant`.
        rotate_at: The size of a file in bytes, exceeded only by a single batch.

    Raises:
        JournalError: when the file cannot be made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        space: str = "",
        epoch: int | None = None,
        vantage: str = "gateway",
        rotate_at: int = ROTATE_AT,
    ) -> None:
        first = Path(path)
        self.rotate_at = rotate_at
        self.paths: tuple[Path, ...] = (first,)
        self.on_append: Callable[[], object] = lambda: None
        self._about = {"format": FORMAT, "epoch": epoch, "vantage": vantage}
        self._opened = Record(0, datetime.min, "opened", space, detail=compact(self._about))
        self._size = 0
        self._torn = False  # the last line is not ended
        self._cut = False  # a partial line follows the complete ones
        self._head = Head()
        self._values = WrittenValues()
        self._fd = _create(first)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], *, rotate_at: int = ROTATE_AT) -> Journal:
        """Continues a journal after its last complete line.

        The first append removes a partial line that a killed process left; until then the file is unchanged.

        Args:
            path: The first file of the journal.

        Raises:
            JournalError: when there is no journal, another process is writing it, or it cannot be written.
        """
        paths = list_files(Path(path))
        opened = first_record(paths[0])
        if opened is None or opened.event != "opened":
            raise JournalError(
                f"Cannot go on with the journal {path}: it does not begin with the opening of a space. Name the first "
                "file of a journal that a gateway wrote.",
                path=str(path),
            )
        self = cls.__new__(cls)
        self.rotate_at = rotate_at
        self.paths = paths
        self.on_append = lambda: None
        self._about = {}
        self._opened = opened
        self._torn = self._cut = False
        self._values = WrittenValues()
        self._fd = _reopen(paths[-1])
        whole, tail, last = _whole_lines(self._fd)
        self._size = whole
        if tail and read_members(tail) is not None:  # a complete record without its line break
            self._size, self._torn, last = whole + len(tail), True, tail
        elif tail:
            self._cut = True
        if refers(last):
            with suppress(BrokenReference):
                last = restore(last, self._size - len(last), partial(_read_at, self._fd))
        record = read_line(last)
        self._head = Head(record.seq if record else 0, split_chain(last)[1] or NO_CHAIN)
        following = successor(paths)
        if following.is_file() and following.stat().st_size < LINE_LIMIT and _is_stub(following):
            following.unlink()  # a successor without a complete first line, left by a kill
        return self

    def __repr__(self) -> str:
        return f"<Journal {self.path}{'' if self._fd >= 0 else ', closed'}>"

    @property
    def path(self) -> Path:
        """The current file."""
        return self.paths[-1]

    @property
    def head(self) -> Head:
        """The current end of the chain of lines."""
        return self._head

    @property
    def epoch(self) -> int | None:
        """The run of the space; None when it is not known."""
        epoch = (read_members(self._opened.detail) or {}).get("epoch")
        return epoch if type(epoch) is int else None

    @property
    def space(self) -> str:
        """The name of the space; empty until it is known."""
        return self._opened.space

    def append(self, records: Iterable[Record]) -> None:
        """Hands the records to the operating system with one write, all or none.

        Raises:
            JournalError: when they cannot be written. The journal is then unchanged; a later append may succeed.
        """
        if self._fd < 0:
            raise self._fault("it is closed")
        batch = list(records)
        if not batch:
            return
        if batch[0].event == "opened":
            batch[0] = self._opened = self._complete(batch[0])
        lines = [write_line(record) for record in batch]
        longest = max(map(len, lines)) + CHAIN_BYTES
        if longest > LINE_LIMIT:  # the reader would not take it
            raise self._fault(f"a line would have {longest} bytes, and the most is {LINE_LIMIT}")
        if not self._size and batch[0].event != "opened":
            self._opened = self._opened._replace(space=self._opened.space or batch[0].space, now=batch[0].now)
            lines.insert(0, write_line(self._opened))
        seq = batch[-1].seq
        size = sum(map(len, lines)) + CHAIN_BYTES * len(lines)
        if self._size and self._size + size > self.rotate_at:
            self._rotate(lines, seq, batch[0].now)
        else:
            self._write(lines, seq)
        self.on_append()

    def free_space(self) -> int:
        """Free bytes on the disk of the journal; a very large number where the system does not report them."""
        try:
            return shutil.disk_usage(self.path.parent).free
        except (OSError, AttributeError):  # Pyodide
            return sys.maxsize

    def flush(self) -> None:
        """Writes the buffers of the operating system to the disk."""
        if self._fd >= 0:
            os.fsync(self._fd)

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _complete(self, opened: Record) -> Record:
        """A first line, completed with the members that it lacks."""
        about = read_members(opened.detail) or {}
        missing = {key: value for key, value in self._about.items() if key not in about}
        return opened._replace(detail=compact({**about, **missing})) if missing else opened

    def _fault(self, why: str) -> JournalError:
        return JournalError(
            f"Cannot write to the journal {self.path}: {why}. Make room for it, or begin another elsewhere; "
            "messages that cannot be recorded are not delivered.",
            path=str(self.path),
        )

    def _write(self, lines: Sequence[bytes], seq: int) -> None:
        self._remove_partial()
        chain = self._head.chain
        # A partial line that could not be removed is ended first, so that the next line is complete.
        parts = [b"\n"] if self._torn else []
        end = self._size + len(parts)
        for line in lines:
            line, chain = chain_line(line, chain)
            line = self._values.shorten(line, end, partial(_read_at, self._fd))
            end += len(line)
            parts.append(line)
        data = b"".join(parts)
        try:
            written = os.write(self._fd, data)
            why = f"the disk took {written} of {len(data)} bytes"
        except OSError as fault:
            written, why = 0, fault.strerror or str(fault)
        self._values.commit(written=written == len(data))
        if written == len(data):
            self._size += written
            self._torn = False
            self._head = Head(seq, chain)
            return
        if written:
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                self._size += written
                self._torn = True
        raise self._fault(why)

    def _remove_partial(self) -> None:
        """Removes the partial line that a killed process left."""
        if not self._cut:
            return
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as fault:
            raise self._fault(fault.strerror or str(fault)) from None
        self._cut = False

    def _rotate(self, lines: Iterable[bytes], seq: int, now: datetime) -> None:
        """Continues in the next file; when that fails, nothing changes and the next append tries again."""
        self._remove_partial()
        before = self._fd, self._size, self._torn, self.paths, self._values
        path = successor(self.paths)
        about = {**(read_members(self._opened.detail) or {"format": FORMAT}), "previous": self.path.name}
        about.pop("pruned", None)
        about.pop("branched", None)
        opened = self._opened._replace(seq=0, now=now, detail=compact(about))
        self._fd, self._size, self._torn, self.paths = _create(path), 0, False, (*self.paths, path)
        self._values = WrittenValues()
        try:
            self._write((write_line(opened), *lines), seq)
        except JournalError:
            os.close(self._fd)
            self._fd, self._size, self._torn, self.paths, self._values = before
            with suppress(OSError):
                path.unlink()
            raise
        os.close(before[0])
