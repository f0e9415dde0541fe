"""Files to which lines are appended while other programs may empty, move or remove them.

A file stays open between two writes. Before each write it is compared with the file at its path, by device and inode,
and opened again where they differ. No link on the path from its folder is followed. Lines that cannot be written are
counted and reported; no write is waited for.

Spec: threat 27.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
import weakref
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mew_lab.transport.folder import open_within

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "AppendedFile",
    "FileLock",
    "Place",
    "list_names",
    "open_parent",
    "read_small",
    "remove",
    "replace_small",
    "sync_folder",
]

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # nor a pipe that is waited for
_LONGEST = 64  # bytes of a lock
ATTEMPTS = 5  # at a lock, which a process that looks for its holder has for a moment
_FILE = os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_LINK


class Place(NamedTuple):
    """The place of the next line: the identity of the file, and its size in bytes."""

    device: int
    inode: int
    size: int


class AppendedFile:
    """A file below a folder to which lines are appended; no link on the way to it is followed.

    Args:
        root: the folder, and `name` the path below it, with `/` between its parts.
        fault: called with a sentence when lines begin to be lost, and when they are written again.
        private: whether a file that others may read is restricted to its owner.
        help: added to the sentence with the number of lost lines.
    """

    def __init__(
        self,
        root: Path,
        name: str,
        *,
        fault: Callable[[str], object],
        private: bool = False,
        help: str = "",
    ) -> None:
        self.path = root / name
        self.name = name
        self.lost = 0
        """Lines that could not be written."""
        self._root = root
        self._private = private and os.name == "posix"
        self._parts = PurePosixPath(name).parts
        self._fault = fault
        self._help = help
        self._told = -1  # lost lines before those that were reported; -1: it can be written
        self._torn = False  # it ends within a line
        self._fd = -1

    def append(self, *lines: str) -> bool:
        """Writes lines with one call of the operating system; lines that do not fit are lost. Never raises.

        Returns:
            Whether all were written.
        """
        written = 0
        try:
            data = [line.encode() + b"\n" for line in lines]
            place = self._ready()
            written = self._write(place, data)
            if written < len(data):
                raise OSError(0, "the disk is full")
        except (OSError, ValueError) as fault:
            self.leave_out(len(lines) - written, getattr(fault, "strerror", None) or str(fault))
            return False
        if self._told >= 0:
            count = self.lost - self._told
            self._told = -1
            self._fault(f"{self.path} is written again; {_lines(count)} left out{self._help}")
        return True

    def leave_out(self, lines: int, why: str) -> None:
        """Counts lines that are not written; reports that once, until the file can be written again."""
        before, self.lost = self.lost, self.lost + lines
        if self._told < 0:
            self._told = before
            self._fault(f"{self.path} cannot be written: {why}; its lines are left out until it can")

    def place(self) -> Place:
        """The place of the next line; opens the file, or creates it.

        Raises:
            OSError: when it cannot be opened.
        """
        return self._ready()

    def shift(self, keep: int) -> None:
        """Renames the file to `<name>.1`, the former `.1` to `.2` and so on; `keep` of these are kept.

        Raises:
            OSError: when it cannot be renamed; the file then stays in use.
        """
        folder = open_parent(self._root, self.name)
        try:
            name = self._parts[-1]
            names = [name, *(f"{name}.{number}" for number in range(1, keep + 1))]
            for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
                with contextlib.suppress(FileNotFoundError):
                    if folder is None:
                        (self.path.parent / newer).replace(self.path.parent / older)
                    else:
                        os.replace(newer, older, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            if folder is not None:
                os.close(folder)
        self.close()

    def count_behind(self, place: Place) -> tuple[int, Place | None]:
        """The number of whole lines behind a place, and the place of the next line; half a line is removed.

        The second value is None where it is another file, or a shorter one: then no line is known.

        Raises:
            OSError: when it cannot be read.
        """
        now = self._ready()
        if now[:2] != place[:2] or now.size < place.size:
            return 0, None
        count, at, end = 0, place.size, place.size
        while data := os.pread(self._fd, 1 << 20, at):
            count += data.count(b"\n")
            if (cut := data.rfind(b"\n") + 1) > 0:
                end = at + cut
            at += len(data)
        if end < at:
            os.ftruncate(self._fd, end)
        return count, self._ready()

    def finish(self) -> None:
        """Closes the file for good; reports the number of lost lines that were not reported yet."""
        self.close()
        if self._told >= 0:
            count, self._told = self.lost - self._told, -1
            self._fault(f"{self.path}: {_lines(count)} left out{self._help}")

    def close(self) -> None:
        """Closes the file; the next line opens it again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # --- opening ---

    def _ready(self) -> Place:
        if self._fd >= 0:
            status = os.fstat(self._fd)
            try:
                there = self.path.lstat()
            except OSError:
                there = None
            if there is not None and (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino):
                return Place(status.st_dev, status.st_ino, status.st_size)
            self.close()
            self._torn = False
        fd = _open_file(self._root, self.name, _FILE)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "it is no plain file")
            if self._private and stat.S_IMODE(status.st_mode) & 0o077:
                os.fchmod(fd, 0o600)  # others may have made it, and an invited one's token may be in it
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return Place(status.st_dev, status.st_ino, status.st_size)

    # --- writing ---

    def _write(self, place: Place, lines: list[bytes]) -> int:
        """Writes as many whole lines as fit; returns their number."""
        head = b"\n" if self._torn and place.size else b""
        data = head + b"".join(lines)
        try:
            done = os.write(self._fd, data)
        except BlockingIOError:
            done = 0
        if done == len(data):
            self._torn = False
            return len(lines)
        whole = data.rfind(b"\n", 0, done) + 1
        if done > whole:
            try:
                if os.fstat(self._fd).st_size == place.size + done:  # it was not emptied meanwhile
                    os.ftruncate(self._fd, place.size + whole)
            except OSError:
                self._torn = True
                return data.count(b"\n", len(head), whole)
        if whole:
            self._torn = False
        return data.count(b"\n", len(head), whole)


def open_parent(root: Path, name: str, *, make: bool = True) -> int | None:
    """A descriptor of the folder of a file below `root`; `make` creates it where it is missing; no link is followed.

    From `.mew` on, the folders must be the user's own (folder.py). None on a system where folders cannot be opened.

    Raises:
        OSError: when it cannot be opened, or a folder may not be used; its `strerror` is the reason.
    """
    parts = PurePosixPath(name).parts
    folder = open_within(root, parts[:-1], make=make)
    if folder is None:
        path = root.joinpath(*parts)
        if not path.resolve().is_relative_to(root.resolve()):
            raise OSError(0, "it lies outside its folder")
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
    return folder


def _open_file(root: Path, name: str, flags: int) -> int:
    """Opens a file below a folder, or makes it for its owner alone; no link to its folder is followed."""
    folder = open_parent(root, name, make=bool(flags & os.O_CREAT))
    if folder is None:
        return os.open(root / name, flags, 0o600)
    try:
        return os.open(PurePosixPath(name).name, flags, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


def read_small(root: Path, name: str, *, most: int, end: bool = False) -> bytes:
    """The content of a file below a folder; no link is followed.

    Args:
        end: whether the last `most` bytes of a longer file are read.

    Raises:
        OSError: when it cannot be read, or is longer than `most` bytes.
    """
    file = _open_file(root, name, os.O_RDONLY | _NO_LINK)
    with os.fdopen(file, "rb") as open_file:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(0, "it is no plain file")
        if end:
            open_file.seek(max(0, os.fstat(file).st_size - most))
            return open_file.read(most)
        data = open_file.read(most + 1)
    if len(data) > most:
        raise OSError(0, f"it has more than {most} bytes")
    return data


def replace_small(root: Path, name: str, data: bytes, *, durably: bool = False) -> None:
    """Replaces a file below a folder atomically; only its owner may read it, and no link is followed.

    Args:
        durably: whether it is on the disk when this returns.

    Raises:
        OSError: when it cannot be written; the old file then stays.
    """
    parts = PurePosixPath(name).parts
    fresh = f"{parts[-1]}.new"
    folder = open_parent(root, name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    beside = (root / name).parent
    try:
        with contextlib.suppress(FileNotFoundError):  # what a killed process left
            if folder is None:
                (beside / fresh).unlink()
            else:
                os.unlink(fresh, dir_fd=folder)
        file = (
            os.open(beside / fresh, flags, 0o600)
            if folder is None
            else os.open(fresh, flags, 0o600, dir_fd=folder)
        )
        try:
            if os.write(file, data) != len(data):
                raise OSError(0, "the disk is full")
            if durably:
                os.fsync(file)
        finally:
            os.close(file)
        if folder is None:
            (beside / fresh).replace(root / name)
        else:
            os.replace(fresh, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        if folder is not None:
            os.close(folder)
    if durably:
        sync_folder(beside)


def sync_folder(path: Path) -> None:
    """Returns when the names in a folder are on the disk. Raises OSError."""
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def list_names(root: Path, folder: str, *, most: int) -> list[str]:
    """The names in a folder below `root`, up to a limit; no link is followed.

    Raises:
        OSError: when it cannot be read.
    """
    within = open_parent(root, f"{folder}/x")
    try:
        return sorted(os.listdir(root / folder if within is None else within))[:most]  # noqa: PTH208
    finally:
        if within is not None:
            os.close(within)


def remove(root: Path, name: str) -> None:
    """Removes a file below a folder; no link is followed.

    Raises:
        OSError: when it cannot be removed.
    """
    within = open_parent(root, name)
    try:
        if within is None:
            (root / name).unlink()
        else:
            os.unlink(PurePosixPath(name).name, dir_fd=within)
    finally:
        if within is not None:
            os.close(within)


class FileLock:
    """A lock in a file below a folder, which this process has until it ends, releases it, or another one takes it.

    The file has the number of the process. It is made where it is missing, and no link on the way to it is followed.
    Where the system has no such locks, every process has it.

    Raises:
        BlockingIOError: another process has it.
        OSError: the file cannot be opened.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._name = root, name
        while True:
            file = _open_file(root, name, os.O_RDWR | os.O_CREAT | _NO_LINK)
            self._close = weakref.finalize(self, os.close, file)
            self._file = file
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise OSError(0, "it is no plain file")
                _lock(file, attempts=ATTEMPTS)
            except BaseException:
                self._close()
                raise
            if self.is_at_path:  # it may have been removed before it was locked
                break
            self._close()
        self._text = str(os.getpid()).encode()
        os.ftruncate(file, 0)
        os.write(file, self._text)

    @property
    def is_at_path(self) -> bool:
        """Whether its file is still there, so that no other process can lock another one in its place."""
        try:
            return os.path.samestat((self._root / self._name).lstat(), os.fstat(self._file))
        except OSError:
            return False

    @property
    def was_taken(self) -> bool:
        """Whether another process has taken what the lock is for."""
        os.lseek(self._file, 0, os.SEEK_SET)
        return os.read(self._file, _LONGEST) != self._text

    def release(self) -> None:
        """Gives it back, and removes its file; once is enough."""
        if self._close.alive and self.is_at_path:
            with contextlib.suppress(OSError):
                remove(self._root, self._name)
        self._close()

    @staticmethod
    def find_holder(root: Path, name: str) -> str:
        """The process that has the lock of a file, such as `process 712`; empty where none has it, or none is seen."""
        with contextlib.suppress(OSError):
            file = _open_file(root, name, os.O_RDONLY | _NO_LINK)
            try:
                _lock(file, shared=True)
            except BlockingIOError:
                number = os.read(file, _LONGEST)
                return f"process {number.decode()}" if number.isdigit() else "another process"
            finally:
                os.close(file)
        return ""

    @staticmethod
    def take(root: Path, name: str) -> None:
        """Tells the process that has the lock of a file that another one has taken what it is for.

        Raises:
            OSError: the file cannot be written.
        """
        file = _open_file(root, name, os.O_WRONLY | _NO_LINK)
        try:
            os.write(file, b"taken by %d" % os.getpid())
        finally:
            os.close(file)


def _lock(file: int, *, shared: bool = False, attempts: int = 1) -> None:
    """Locks an open file; raises BlockingIOError where another process has locked it."""
    if fcntl is not None:
        for left in range(attempts, 0, -1):
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                if left == 1:
                    raise
                time.sleep(0.01)
            except OSError:
                return  # a file system without locks
            else:
                return


def _lines(count: int) -> str:
    return "1 line was" if count == 1 else f"{count} lines were"
