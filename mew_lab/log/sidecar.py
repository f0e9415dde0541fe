"""Keeps the files of indexes in the user's cache folder: which this user wrote, and whether one is still of a journal.

An index decides what a filter finds, and DuckDB runs what stands in its file. So it is not kept beside the journal,
where whoever sends a journal could put one, and none is opened that has no valid seal. The seal stands beside the
index: an HMAC of the journal's path and of the identity of the file as it was written (device, inode, size, times of its
content and of its state), by a key that this user alone can read. A copy of an index has another identity, and so has
one that was changed since.

Where a key or the cache folder cannot be made, there is no place for an index; it is then kept in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from mew_lab.log.reading import open_regular
from mew_lab.settings.environment import cache_folder, state_folder
from mew_lab.transport.scratch import path_beside, start_of_name

__all__ = [
    "FileState",
    "are_indexed",
    "clear_indexes",
    "digest_blocks",
    "digest_first",
    "digest_last",
    "has_index",
    "index_path",
    "is_sealed",
    "make_place",
    "old_index",
    "remove_index",
    "seal_index",
    "times",
]


BLOCK: Final = 1024 * 1024  # bytes of a file that have a digest of their own
KEY_BYTES: Final = 32
MAX_SEAL: Final = 16 * 1024  # bytes
_PRIVATE: Final = 0o077


def index_path(journal: Path, folder: Path | None = None) -> Path | None:
    """The path of the index of a journal, in the user's cache folder or in `folder`; None where there is no place."""
    if folder is None and (cache := cache_folder()) is not None:
        folder = cache / "logs"
    if folder is None or _key() is None:
        return None
    digest = hashlib.sha256(os.fsencode(journal.absolute())).hexdigest()[:16]
    return folder / f"{start_of_name(journal.name)}-{digest}.idx"


def make_place(index: Path) -> None:
    """Makes the folders of an index in the cache folder, for this user alone.

    Raises:
        OSError: when that cannot be done.
    """
    cache = cache_folder()
    if cache is not None and index.is_relative_to(cache):
        cache.parent.mkdir(parents=True, exist_ok=True)
        for folder in (cache, index.parent):
            folder.mkdir(mode=0o700, exist_ok=True)


def clear_indexes() -> tuple[int, int]:
    """Deletes the files of all indexes in the user's cache folder; returns their number and their bytes.

    An index that a process uses stays readable for it until it ends.

    Raises:
        OSError: when one cannot be deleted.
    """
    cache = cache_folder()
    folder = cache / "logs" if cache is not None else None
    files = size = 0
    for path in [*folder.iterdir()] if folder is not None and folder.is_dir() else ():
        found = path.lstat()
        if stat.S_ISREG(found.st_mode):
            path.unlink()
            files, size = files + 1, size + found.st_size
    return files, size


def old_index(journal: Path) -> Path | None:
    """The index that an earlier version wrote beside the journal, which nothing reads; None where there is none."""
    path = journal.with_name(f"{journal.name}.idx")
    return path if os.path.lexists(path) else None


def has_index(journal: Path) -> bool:
    """Whether an index of the journal is kept in the cache folder."""
    path = index_path(journal)
    return path is not None and is_sealed(path, journal)


def is_sealed(index: Path, journal: Path) -> bool:
    """Whether this user wrote the index of that journal, and nobody changed it since."""
    with suppress(OSError):
        found = index.lstat()
        if not _is_private(found):
            return False
        told, key = _read_seal(_seal_of(index)).get("mac"), _key()
        return (
            key is not None
            and isinstance(told, str)
            and hmac.compare_digest(
                told.encode("utf-8", "backslashreplace"), _mac(key, found, journal).encode()
            )
        )
    return False


def seal_index(index: Path, journal: Path) -> None:
    """Writes the seal of an index that this process has just written, and removes indexes of journals that are gone.

    Raises:
        OSError: when it cannot be written.
    """
    key = _key()
    if key is None:
        raise OSError("there is no key for its seal")
    seal = {"journal": str(journal.absolute()), "mac": _mac(key, index.lstat(), journal)}
    _write_private(_seal_of(index), json.dumps(seal).encode("utf-8", "backslashreplace"))
    _sweep(index.parent)


def remove_index(index: Path) -> None:
    """Deletes an index and its seal, as far as that goes."""
    for path in (_seal_of(index), index):
        with suppress(OSError):
            path.unlink()


def _seal_of(index: Path) -> Path:
    return index.with_name(f"{index.name}.seal")


def _mac(key: bytes, found: os.stat_result, journal: Path) -> str:
    about = [
        *(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns),
        os.fsencode(journal.absolute()).hex(),
    ]
    return hmac.new(key, json.dumps(about).encode(), "sha256").hexdigest()


def _sweep(folder: Path) -> None:
    for place in folder.glob("*.idx.seal"):
        journal = _read_seal(place).get("journal")
        with suppress(OSError, ValueError):
            if isinstance(journal, str) and not Path(journal).exists():
                remove_index(place.with_name(place.name.removesuffix(".seal")))


def _read_seal(place: Path) -> dict[str, Any]:
    """The members of a seal; none where there is no such file, or it holds anything else."""
    with suppress(OSError, ValueError, RecursionError):
        members = json.loads(_read_private(place, MAX_SEAL) or b"")
        return members if isinstance(members, dict) else {}
    return {}


def _read_private(path: Path, most: int) -> bytes | None:
    """A file that this user alone can read, of at most so many bytes; None where it is another one.

    Raises:
        OSError: when it cannot be opened.
    """
    # Non-blocking, so that a pipe in the place of the file cannot block this process.
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        return file.read() if _is_private(found) and found.st_size <= most else None


def _is_private(found: os.stat_result) -> bool:
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return stat.S_ISREG(found.st_mode) and mine and (os.name != "posix" or not found.st_mode & _PRIVATE)


def _key() -> bytes | None:
    """The key of this user, which is made when it is first needed; None where it cannot be kept."""
    folder = state_folder()
    if folder is None:
        return None
    path = folder / "index.key"
    with suppress(OSError):
        if not os.path.lexists(path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = path_beside(path)
            try:
                _write_private(new, secrets.token_bytes(KEY_BYTES), whole=False)
                with suppress(FileExistsError):  # another process has just made one
                    os.link(new, path)
            finally:
                new.unlink(missing_ok=True)
        key = _read_private(path, KEY_BYTES)
        return key if key is not None and len(key) == KEY_BYTES else None
    return None


def _write_private(path: Path, data: bytes, *, whole: bool = True) -> None:
    """Writes a file that its owner alone can read; `whole`: in the place of an earlier one, all at once."""
    new = path_beside(path) if whole else path
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    if whole:
        new.replace(path)


# --- whether an index is still of its files ---


class FileState(NamedTuple):
    """What an index holds of a file: `end` is the offset after its last indexed line.

    `first`, `blocks` and `last` are digests: of the first line, of the whole blocks before `end`, and of the rest before
    it. `blocks` is of an index file only. `size`, `changed` and `touched` (the time of its state, which nobody can set)
    are those of the file when it was indexed.
    """

    name: str
    device: int
    inode: int
    first: str
    end: int
    blocks: str
    last: str
    lines: int
    torn: bool
    size: int
    changed: int
    touched: int


def are_indexed(
    paths: Sequence[Path], states: Sequence[FileState], verified: dict[int, tuple[int, ...]], *, whole: bool
) -> bool:
    """Whether each indexed file is still there, and either unchanged or only longer.

    Args:
        verified: By file, the state for which its digest was the same; it is added to.
        whole: Whether the digest of all that is indexed must be the same where a file has other times.
    """
    if len(states) > len(paths):
        return False
    for number, (state, path) in enumerate(zip(states, paths, strict=False)):
        try:
            file = open_regular(path)
        except OSError:
            return False
        with file:
            found = os.fstat(file.fileno())
            if (path.name, found.st_dev, found.st_ino) != (state.name, state.device, state.inode):
                return False
            now = (found.st_size, *times(found))
            same = now in ((state.size, state.changed, state.touched), verified.get(number))
            longer = found.st_size - state.size
            if not same and (
                longer < 0
                or (longer and number < len(states) - 1)
                or (not longer and (state.torn or not whole))
            ):
                return False
            if digest_first(file) != state.first or digest_last(file, state.end) != state.last:
                return False
            if whole and not same:
                if digest_blocks(file, "", 0, state.end) != state.blocks:
                    return False
                verified[number] = now
    return True


def times(found: os.stat_result) -> tuple[int, int]:
    return found.st_mtime_ns, found.st_ctime_ns


def digest_first(file: Any) -> str:
    file.seek(0)
    return hashlib.sha256(file.readline(65536)).hexdigest()


def digest_last(file: Any, end: int) -> str:
    """The digest of what stands after the last whole block before `end`."""
    file.seek(end - end % BLOCK)
    return hashlib.sha256(file.read(end % BLOCK)).hexdigest()


def digest_blocks(file: Any, before: str, start: int, end: int) -> str:
    """The digest of the whole blocks before `end`, from that of those before `start`."""
    file.seek(start - start % BLOCK)
    for _ in range(start // BLOCK, end // BLOCK):
        digest = hashlib.sha256(file.read(BLOCK)).hexdigest()
        before = hashlib.sha256(f"{before}{digest}".encode()).hexdigest()
    return before
