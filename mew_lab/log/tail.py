"""Reads a journal while it is written: complete records as they arrive, over all files of the journal.

A gateway removes a batch that a full disk took only in part. A reader that has read a part of it gets `JournalChanged`,
and reads again from the first record.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mew_lab.errors import JournalError
from mew_lab.log.line import read_line
from mew_lab.log.reading import LINE_LIMIT, goes_on, successor
from mew_lab.log.references import BrokenReference, refers, restore
from mew_lab.space.events import Record

__all__ = ["JournalChanged", "Tail"]

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class JournalChanged(Exception):
    """A part of a journal that was read is no longer in it."""


class Tail:
    """A cursor over the records of a journal, from the first one on.

    `bytes` counts the bytes read. A tail must be closed.

    Args:
        first: The first file of the journal.

    Raises:
        JournalError: when it cannot be read.
    """

    def __init__(self, first: Path) -> None:
        self.bytes = 0
        self._paths = [first]
        self._next: Path | None = None
        self._offset = 0
        self._line = 0
        self._fd = self._open(first)

    @property
    def path(self) -> Path:
        """The current file."""
        return self._paths[-1]

    @property
    def unread(self) -> int:
        """The bytes of the current file that follow the last complete record read."""
        return max(0, os.fstat(self._fd).st_size - self._offset)

    def close(self) -> None:
        """Closes the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def read(self, most: int) -> list[Record]:
        """The next complete records, of about so many bytes at most; none when there are no more now.

        Raises:
            JournalChanged: when the journal no longer begins as it was read.
            JournalError: when a line is no record, or the file cannot be read.
        """
        try:
            status = os.fstat(self._fd)
            if status.st_size < self._offset or not status.st_nlink:
                raise JournalChanged
            records = self._records(most) if status.st_size > self._offset else []
            if not records and self._goes_on():
                records = self._records(most)  # records written before the journal continued in the next file
                if not records:
                    self._advance()
                    records = self._records(most)
        except OSError as fault:
            raise self._fault(fault.strerror or str(fault)) from None
        return records

    def _records(self, most: int) -> list[Record]:
        # Room for `most` bytes costs more than the read itself where there is little to read.
        data = os.pread(self._fd, min(most, self.unread), self._offset)
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) == most:  # the end of a long line
            data = os.pread(self._fd, max(most, LINE_LIMIT), self._offset)
            cut = data.rfind(b"\n") + 1
            if not cut and len(data) >= LINE_LIMIT:
                raise self._fault(f"line {self._line + 1} is too long")
        records, taken, whole = [], 0, 0
        for line in data[: cut - 1].split(b"\n") if cut else ():
            self._line += 1
            restored = self._restore(line, self._offset + taken)
            record = read_line(restored)
            if record is not None:
                records.append(record)
            elif line.strip():
                raise self._fault(f"line {self._line} is not a whole record")
            taken += len(line) + 1
            whole += len(restored)
            if whole > max(most, cut):  # short lines may stand for long ones
                break
        self._offset += taken
        self.bytes += taken
        return records

    def _restore(self, line: bytes, start: int) -> bytes:
        if not refers(line):
            return line
        try:
            return restore(line, start, lambda at, size: os.pread(self._fd, size, at))
        except BrokenReference as fault:
            raise self._fault(f"line {self._line} {fault}") from None

    def _goes_on(self) -> bool:
        if self._next is None and self._offset:
            self._next = successor(self._paths)
        return self._next is not None and goes_on(self._next, self._paths)

    def _advance(self) -> None:
        assert self._next is not None
        fd = self._open(self._next)
        self.close()
        self._paths.append(self._next)
        self._fd, self._next, self._offset, self._line = fd, None, 0, 0

    def _open(self, path: Path) -> int:
        try:
            fd = os.open(path, _FLAGS)
        except (OSError, ValueError) as fault:
            raise self._fault(getattr(fault, "strerror", None) or str(fault)) from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise self._fault("it is no regular file")
        return fd

    def _fault(self, why: str) -> JournalError:
        return JournalError(f"Cannot read the journal {self.path}: {why}.", path=str(self.path))
