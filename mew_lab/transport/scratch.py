"""Makes private temporary folders that are deleted with their process, also where it is killed.

A process holds a lock in each of its folders. Whoever makes the next folder deletes those beside it whose lock nobody
holds. Where there are no such locks, only the process itself deletes its folders. Names the files, too, that are written
beside others and then take their place.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["ScratchFolder", "path_beside", "start_of_name", "sweep", "written_beside"]

PREFIX: Final = "mew_lab-"
LOCK: Final = ".lock"
FRESH: Final = 60.0  # seconds for which a folder may be without its lock while it is made


def start_of_name(name: str, most: int = 100) -> str:
    """The beginning of a file's name of at most so many bytes in UTF-8, in which systems count names (most: 255)."""
    return name.encode("utf-8", "ignore")[:most].decode("utf-8", "ignore")


def path_beside(path: Path) -> Path:
    """A new hidden path beside a file, for what is to take its place."""
    return path.with_name(f".{start_of_name(path.name)}.{secrets.token_hex(6)}")


@contextmanager
def written_beside(path: Path, *, durably: bool = False) -> Iterator[BinaryIO]:
    """A new file that its owner alone can read; at the end of the block it takes the place of `path`, all at once.

    After an exception in the block the old file stays, and nothing else.

    Args:
        durably: whether it is on the disk when it takes that place.

    Raises:
        OSError: when it cannot be written.
        ValueError: when no file can have that path.
    """
    beside = path_beside(path)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if durably:
                file.flush()
                os.fsync(handle)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


class ScratchFolder:
    """A folder that this user alone can read; it is deleted with this object.

    Args:
        parent: The folder in which it is made; None for that of temporary files.

    Raises:
        OSError: when it cannot be made.
    """

    def __init__(self, parent: Path | None = None) -> None:
        place = Path(tempfile.gettempdir()) if parent is None else parent
        sweep(place)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        held = os.open(self.path / LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._finalizer = weakref.finalize(self, _remove, self.path, held)

    def remove(self) -> None:
        """Deletes it with all that is in it."""
        self._finalizer()


def _remove(path: Path, held: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(held)


def sweep(place: Path) -> None:
    """Deletes the folders of processes that have ended."""
    if fcntl is None:
        return
    before = time.time() - FRESH
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if os.fstat(lock).st_mtime < before:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
