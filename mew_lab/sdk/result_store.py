"""Keeps results that no message can hold as files, for a while: within a budget, for this user alone.

A store is a folder of one process, below the user's folder for state. It is deleted with its process; what a killed
process left is deleted by the next one (`transport/scratch`). A result is written before it is announced, and kept
until it expires: no later one takes its place. Where the budget or the disk is full, nothing more is kept.

The lines of servers that are on their way, and the results in them that nobody has taken yet, lie in the same folder
and count against the same budget: over HTTP, any number of answers may come at once.

This module knows texts and sizes, no message.

Spec: ruling R43.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.ledger.unknown_calls import DAY
from mew_lab.protocol.text import utf8_size
from mew_lab.transport.scratch import ScratchFolder, sweep

__all__ = ["OPTIONS", "KeptResult", "ResultLimits", "ResultStore", "UnreadResult"]

OPTIONS = ("result_bytes", "results_bytes", "results_seconds")
"""The limits as the options of commands and the members of files name them, in the order of `ResultLimits`."""

FOLDER = "results"  # in the user's folder for state
FLOOR = 64 * 1024 * 1024  # bytes that are left free on the disk
PIECE = 1 << 20  # bytes that are written at once
WRAPPING = 64 * 1024  # bytes of a line beside its result


class ResultLimits(NamedTuple):
    """What a participant keeps: bytes of one result, bytes in all, and seconds."""

    result: int = 64 * 1024 * 1024
    total: int = 256 * 1024 * 1024
    seconds: float = DAY

    @classmethod
    def stated(cls, options: object) -> ResultLimits | None:
        """The limits among the options of a command, by the names that files have too; None where it states none.

        Raises:
            ConfigError: as `checked`.
        """
        told = {field: getattr(options, name) for field, name in zip(cls._fields, OPTIONS, strict=True)}
        stated = {field: value for field, value in told.items() if value is not None}
        return cls()._replace(**stated).checked() if stated else None

    def checked(self) -> ResultLimits:
        """These limits.

        Raises:
            ConfigError: one is no number from 0, or `seconds` is 0.
        """
        for name, value in zip(OPTIONS, self, strict=True):
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
            if not is_number or (name == "results_seconds" and not 0 < value <= 30 * DAY):
                raise ConfigError(
                    f"Cannot set {name} to {value!r:.40}: it is a number from 0, and at most 30 days of seconds",
                    key=name,
                )
        return self


class UnreadResult(dict[str, Any]):
    """A result that is a file: JSON text that was checked, and that nobody here has parsed.

    The file is deleted with this object, unless `take` was called. As a mapping it is empty.

    Attributes:
        size: The bytes of its text.
        sha256: The digest of its text.
        is_error: Whether it says that the tool failed.
        is_costly: Whether parsing it would hold a loop.
        kinds: The type, MIME type and characters of its first parts.
    """

    def __init__(
        self,
        path: Path,
        *,
        size: int,
        sha256: str,
        is_error: bool,
        is_costly: bool,
        kinds: Sequence[Sequence[Any]],
    ) -> None:
        super().__init__()
        self.is_costly = is_costly
        self.size = size
        self.sha256 = sha256
        self.is_error = is_error
        self.kinds = kinds
        self._path = path
        self._finalizer = weakref.finalize(self, _delete, path)

    def read(self) -> bytes:
        """Its text, in UTF-8.

        Raises:
            OSError: it cannot be read.
        """
        return self._path.read_bytes()

    def drop(self) -> None:
        """Deletes its file at once: an object may live on, and a full disk has no room for it."""
        self._finalizer()

    def take(self) -> Path:
        """Its file, which belongs to the caller from now on."""
        self._finalizer.detach()
        return self._path


class KeptResult(NamedTuple):
    """One result that is kept: its id, its file, and who may read it until it expires (seconds since 1970)."""

    id: str
    path: Path
    size: int
    sha256: str
    expires: float
    readers: frozenset[str]

    def read(self, begin: int, size: int) -> bytes:
        """So many bytes of its text, from `begin` on.

        Raises:
            OSError: it cannot be read.
        """
        with self.path.open("rb") as file:
            file.seek(begin)
            return file.read(size)


class ResultStore:
    """The results that one participant keeps.

    Args:
        state: Gives the user's folder for state; None where there is none that only this process may read.
        limits: How much it keeps, and how long.
        clock: The time in seconds since 1970.
    """

    def __init__(
        self,
        state: Callable[[], Path | None] | None,
        limits: ResultLimits | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limits = (limits or ResultLimits()).checked()
        self._state = state
        self._clock = clock
        self._folder: ScratchFolder | None = None
        self._kept: dict[str, KeptResult] = {}
        self._coming = 0  # bytes that are being written
        self._spooled: set[Path] = set()  # files of lines, which their users may have deleted

    def __len__(self) -> int:
        """The number of results that have not expired."""
        self.expire()
        return len(self._kept)

    @property
    def used(self) -> int:
        """The bytes of the results that have not expired, those included that are being written or still lines."""
        self.expire()
        spooled = 0
        for path in [*self._spooled]:
            try:
                spooled += path.stat().st_size
            except OSError:
                self._spooled.discard(path)
        return self._coming + spooled + sum(kept.size for kept in self._kept.values())

    @property
    def most(self) -> int:
        """The bytes of the longest line with a result that is kept."""
        return self.limits.result + WRAPPING

    def new_file(self) -> Path:
        """A new empty private file for a line, in the folder of this store; its bytes are counted until it is deleted.

        Raises:
            OSError: it cannot be made.
        """
        path = self._new_path()
        self._spooled.add(path)
        return path

    def check_growth(self, size: int) -> None:
        """Raises OSError where the file of a line cannot grow by so many bytes now."""
        # What a line has beside its result is given back once it is read: a result that fits must not fail for that.
        if obstacle := self.find_obstacle(size - WRAPPING):
            raise OSError(errno.ENOSPC, obstacle)

    def find_obstacle(self, size: int, *, counted: int = 0) -> str:
        """Why no result of so many bytes, `counted` of which are in use already, can be kept; empty where it can."""
        if size > self.limits.result:
            return f"a result takes at most {self.limits.result} bytes"
        if (used := self.used) + size - counted > self.limits.total:
            return f"{used} of {self.limits.total} bytes are in use"
        try:
            folder = self._opened()
            if shutil.disk_usage(folder).free < size - counted + FLOOR:
                return "the disk is full"
        except OSError as fault:
            return fault.strerror or str(fault)
        return ""

    async def keep(self, result: str | UnreadResult, *, readers: frozenset[str]) -> KeptResult:
        """Keeps a result.

        Args:
            result: Its JSON text, or a result that is in a file of this store already.
            readers: The participants that may read it.

        Raises:
            OSError: there is no room for it, or it cannot be written.
        """
        size, counted = (
            (result.size, result.size) if isinstance(result, UnreadResult) else (utf8_size(result), 0)
        )
        if obstacle := self.find_obstacle(size, counted=counted):
            raise OSError(errno.ENOSPC, obstacle)
        if isinstance(result, UnreadResult):
            path, digest = result.take(), result.sha256
            self._spooled.discard(path)
        else:
            self._coming += size
            try:
                path = self._new_path()
                digest = await asyncio.to_thread(_write, path, result)
            finally:
                self._coming -= size
        expires = self._clock() + self.limits.seconds
        kept = KeptResult(secrets.token_hex(16), path, size, digest, expires, readers)
        self._kept[kept.id] = kept
        asyncio.get_running_loop().call_later(self.limits.seconds + 1.0, self.expire)
        return kept

    def find(self, id: str) -> KeptResult | None:
        """The result of that id; None where none is kept: it has expired, or never was."""
        self.expire()
        return self._kept.get(id)

    def expire(self) -> None:
        """Deletes what has expired."""
        now = self._clock()
        for kept in [kept for kept in self._kept.values() if kept.expires <= now]:
            del self._kept[kept.id]
            _delete(kept.path)

    def sweep(self) -> None:
        """Deletes what killed processes left."""
        state = self._state() if self._state is not None else None
        if state is not None:
            with contextlib.suppress(OSError):
                sweep(state / FOLDER)

    def close(self) -> None:
        """Deletes all results."""
        self._kept.clear()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()

    def _new_path(self) -> Path:
        path = self._opened() / secrets.token_hex(16)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        return path

    def _opened(self) -> Path:
        if self._folder is None:
            state = self._state() if self._state is not None else None
            if state is None:
                raise OSError(0, "there is no folder that only this user may read")
            place = state / FOLDER
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.name == "posix":
                place.chmod(0o700)
            self._folder = ScratchFolder(place)
        return self._folder.path


def _write(path: Path, text: str) -> str:
    """Writes a text, and returns its digest."""
    data = text.encode()
    try:
        with path.open("wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest[:PIECE]) :]
    except OSError:
        _delete(path)
        raise
    return hashlib.sha256(data).hexdigest()


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
