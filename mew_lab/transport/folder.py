"""Opens files in `.mew` so that no other user can have put another file or folder in their place.

From the folder `.mew` of a path on, each folder is opened within the one before. None may be a link, belong to another
user or be writable for everybody. A path without `.mew` is not checked.

Spec: threat 27.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

__all__ = ["KEPT", "hide", "open_below", "open_folder"]

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
    if not _CHECKS:
        return None
    parts = folder.absolute().parts
    at = parts.index(KEPT) if KEPT in parts else len(parts)
    there = Path(*parts[:at])
    descriptor = os.open(there, _FOLDER)
    for part in parts[at:]:
        there /= part
        try:
            inner = _step(part, descriptor, there, make=make)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _step(part: str, within: int, there: Path, *, make: bool) -> int:
    try:
        try:
            inner = os.open(part, _FOLDER | _NOFOLLOW, dir_fd=within)
        except FileNotFoundError:
            if not make:
                raise
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
    if about.st_uid != os.geteuid():
        why = f"{there} belongs to somebody else; put a folder of yours there"
    elif about.st_mode & stat.S_IWOTH:
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
