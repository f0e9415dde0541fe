"""Opens files in `.mew` so that no other user can have put another file or folder in their place.

From the folder `.mew` of a path on, each folder is opened within the one before. None may be a link, belong to another
user or be writable for everybody. A path without `.mew` is not checked; below the root of `open_within`, no link is
followed there either.

Spec: threat 27.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

__all__ = ["KEPT", "find_tracked", "hide", "open_below", "open_beneath", "open_folder", "open_within"]

KEPT = ".mew"
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CHECKS = os.open in os.supports_dir_fd and os.name == "posix"


def open_folder(folder: Path, *, make: bool = False) -> int | None:
    """A descriptor of the folder; None on a system without such descriptors.

    Args:
        make: whether missing folders from `.mew` on are created, for their owner alone.

    Raises:
        OSError: when it does not exist, or a folder from `.mew` on may not be used; its `strerror` is the reason.
    """
    return open_within(folder, (), make=make)


def open_within(root: Path, parts: Iterable[str], *, make: bool) -> int | None:
    """A descriptor of the folder of these names below `root`; no link below it is followed. Else as `open_folder`."""
    if not _CHECKS:
        return None
    root = root.absolute()
    whole = root.joinpath(*parts).parts
    kept = whole.index(KEPT) if KEPT in whole else len(whole)
    at = min(kept, len(root.parts))
    there = Path(*whole[:at])
    return _descend(os.open(there, _FOLDER), whole[at:], there, make=make, kept=kept - at)


def open_beneath(root: Path, parts: Iterable[str], *, identity: tuple[int, int]) -> int | None:
    """A descriptor of the folder of these names below `root`, which is no link and still that folder.

    Args:
        identity: the device and the inode of `root` (`os.stat`).

    Raises:
        OSError: as `open_within`, and where another folder stands in the place of `root`.
    """
    if not _CHECKS:
        return None
    descriptor = os.open(root, _FOLDER | _NOFOLLOW)
    about = os.fstat(descriptor)
    if (about.st_dev, about.st_ino) != identity:
        os.close(descriptor)
        raise OSError(errno.ESTALE, f"{root} is another folder than before")
    names = tuple(parts)
    return _descend(descriptor, names, root, make=False, kept=len(names))


def _descend(descriptor: int, parts: Sequence[str], there: Path, *, make: bool, kept: int) -> int:
    """A descriptor of the folder of these names below an open one, which is closed; from `kept` on they are checked."""
    for number, part in enumerate(parts):
        there /= part
        try:
            inner = _step(part, descriptor, there, make=make, is_kept=number >= kept)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _step(part: str, within: int, there: Path, *, make: bool, is_kept: bool) -> int:
    try:
        try:
            inner = os.open(part, _FOLDER | _NOFOLLOW, dir_fd=within)
        except FileNotFoundError:
            if not make:
                raise
            with contextlib.suppress(FileExistsError):  # another process made it meanwhile
                os.mkdir(part, 0o700, dir_fd=within)
            inner = os.open(part, _FOLDER | _NOFOLLOW, dir_fd=within)
    except OSError as fault:
        if fault.errno in (errno.ELOOP, errno.ENOTDIR):
            raise OSError(
                fault.errno, f"{there} is a link or no folder; put a folder of yours there"
            ) from None
        raise
    about = os.fstat(inner)
    why = ""
    if is_kept and about.st_uid != os.geteuid():
        why = f"{there} belongs to somebody else; put a folder of yours there"
    elif is_kept and about.st_mode & stat.S_IWOTH:
        why = f"everybody may write to {there}; run: chmod o-w {there}"
    if why:
        os.close(inner)
        raise OSError(errno.EPERM, why)
    return inner


def open_below(path: Path, flags: int, mode: int = 0o600, *, make: bool = False) -> int:
    """Opens a file as `os.open` does; below `.mew` no link is followed, and `make` creates its folders.

    Raises:
        OSError: when it cannot be opened, or its folder may not be used.
    """
    if KEPT not in path.absolute().parent.parts:
        return os.open(path, flags, mode)
    folder = open_folder(path.parent, make=make)
    if folder is None:
        return os.open(path, flags, mode)
    try:
        return os.open(path.name, flags | _NOFOLLOW, mode, dir_fd=folder)
    finally:
        os.close(folder)


def hide(folder: Path) -> None:
    """Makes git ignore the content of `.mew`; a link in the place of the file is not followed."""
    if folder.is_dir():
        with contextlib.suppress(FileExistsError):
            fd = open_below(folder / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                os.write(fd, b"*\n")
            finally:
                os.close(fd)


# --- what git keeps -----------------------------------------------------------------------------------------------

MAX_INDEX = 64 * 1024 * 1024  # bytes of an index of git that is read
HASHES = (20, 32)  # bytes of the digests in such an index
LONGEST_PATH = 4096  # bytes; no system opens a longer one
_HEAD = 40  # bytes of an entry before its digest


def find_tracked(files: Iterable[Path]) -> list[Path]:
    """The files that the index of the git repository around them names: whoever has the repository has them.

    The index is read, and git is not run: the settings of a repository from elsewhere could start a program.
    """
    tracked: list[Path] = []
    below: dict[Path, dict[bytes, list[Path]]] = {}  # the files of each repository, by their paths in it
    for file in files:
        place = file.parent.resolve() / file.name
        root = next((folder for folder in place.parents if os.path.lexists(folder / ".git")), None)
        if root is None:
            continue
        below.setdefault(root, {}).setdefault(os.fsencode(place.relative_to(root).as_posix()), []).append(
            file
        )
    for root, named in below.items():
        for path in {path for path in _read_index(root / ".git") if path in named}:
            tracked += named[path]
    return tracked


def _read_index(git: Path) -> Iterator[bytes]:
    """The paths in the index of a repository, where one may be of tokens; none where it cannot be read."""
    try:
        if git.is_file():  # of a worktree, or of a repository within another
            with git.open("rb") as pointer:
                git = git.parent / os.fsdecode(pointer.read(4096).partition(b"gitdir:")[2].strip())
        index = os.open(git / "index", os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(index, "rb") as file:
            data = file.read(MAX_INDEX) if stat.S_ISREG(os.fstat(index).st_mode) else b""
    except (OSError, ValueError):
        return
    if data[:4] == b"DIRC" and b"token" in data:
        for size in HASHES:
            yield from _paths(data, size)


def _paths(data: bytes, hash_size: int) -> Iterator[bytes]:
    """The paths of an index of the versions 2 to 4, as far as it follows its form."""
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    at, path = 12, b""
    for _ in range(count):
        flags = at + _HEAD + hash_size
        begin = flags + (4 if int.from_bytes(data[flags : flags + 2]) & 0x4000 else 2)
        if version == 4:  # each path is told by what it shares with the one before it
            cut, more = 0, True
            while more and begin < len(data):
                cut, more = ((cut + 1 if cut else 0) << 7) | data[begin] & 0x7F, data[begin] >= 0x80
                begin += 1
            path = path[: max(0, len(path) - cut)]
        else:
            path = b""
        end = data.find(b"\0", begin)
        if end < 0:
            return
        path += data[begin:end]
        if len(path) > LONGEST_PATH:  # each entry may add to the one before it
            return
        yield path
        at = end + 1 if version == 4 else at + ((end - at) // 8 + 1) * 8
