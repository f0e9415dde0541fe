"""Keeps the heads of a journal's chain beside the tokens: each minute, and when the space ends.

A journal shows by itself that nothing within it was changed. That its end is there, and that it was not written
anew, only a head shows that was kept elsewhere. The file is readable by its owner alone and only grows.

Runs on the loop; log/integrity.py reads the file.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from mew_lab.log.integrity import heads_path
from mew_lab.log.journal import Journal
from mew_lab.transport.folder import open_below

__all__ = ["EVERY", "HeadKeeper"]

EVERY = 60.0  # seconds
LONGEST = 256  # bytes of a line


class HeadKeeper:
    """Appends the head of one journal to its file of heads, while it grows.

    Args:
        folder: Where `.mew` lies.
        fault: Is given a sentence, once, when the file cannot be written; nothing else happens then.
    """

    def __init__(
        self,
        journal: Journal,
        folder: Path,
        *,
        every: float = EVERY,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        fault: Callable[[str], object],
    ) -> None:
        self._journal = journal
        self._folder = folder
        self._every = every
        self._clock = clock
        self._fault = fault
        self._kept = b""
        self._failed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keeps the head of now, and from now on."""
        self.keep()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Keeps the last head. Before the journal is closed."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self.keep()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            self.keep()

    def keep(self) -> None:
        """Appends the head, unless it is the one that was kept last."""
        head, epoch = self._journal.head, self._journal.epoch
        if head.chain == self._kept or epoch is None:
            return
        line = f"{self._clock().isoformat()} {epoch:016x} {head.seq} {head.chain.decode()}\n"
        try:
            _append(heads_path(self._folder, self._journal.space), line.encode("ascii"))
            self._kept = head.chain
        except OSError as fault:
            if not self._failed:
                self._failed = True
                self._fault(
                    f"the head of the journal is not kept beside the tokens: {fault.strerror or fault}"
                )


def _append(path: Path, line: bytes) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    fd = open_below(path, flags, make=True)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is no regular file")
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(fd, 0o600)
        at = max(0, found.st_size - LONGEST)
        os.lseek(fd, at, os.SEEK_SET)
        whole = os.read(fd, LONGEST).rfind(b"\n") + 1
        if at + whole < found.st_size:  # what a killed process left half written
            os.ftruncate(fd, at + whole)
        os.write(fd, line)
    finally:
        os.close(fd)
