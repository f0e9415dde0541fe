"""Reads stdin and writes stdout in threads of their own, for a process whose client starts it and speaks with it so.

The threads are daemons, so the end of the process waits for no client that neither writes nor reads. While a
`StdoutLines` is open, stdout carries its lines alone: all other output of the process goes to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

__all__ = ["StdinChunks", "StdoutLines"]

CHUNK = 1 << 16  # bytes that are read at once
MAX_AHEAD = 256  # chunks that are read before one of them is taken


class StdinChunks:
    """What comes on stdin, or from `read`. `ended` is set when there is no more, whatever has been taken of it."""

    def __init__(self, read: Callable[[], bytes] | None = None) -> None:
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_AHEAD)
        read = partial(os.read, os.dup(0), CHUNK) if read is None else read
        threading.Thread(target=self._read, args=(read,), name="mew-lab-stdin", daemon=True).start()

    def _read(self, read: Callable[[], bytes]) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: the loop is closed
            while data := read():
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, data)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._chunks.put_nowait, b"")
            self._loop.call_soon_threadsafe(self.ended.set)

    async def take(self) -> bytes:
        """The next piece; empty at the end."""
        data = await self._chunks.get()
        self._room.release()
        return data


class StdoutLines:
    """Writes lines to stdout. `lost` is set when the client cannot read any more, and nothing is written then.

    Args:
        write_line: Writes a line to a file descriptor, in a thread.
    """

    def __init__(self, write_line: Callable[[int, str], None]) -> None:
        self.lost = asyncio.Event()
        sys.stdout.flush()
        self._write_line = write_line
        self._descriptor, own = os.dup(1), os.dup(1)
        os.dup2(2, 1)
        self._loop = asyncio.get_running_loop()
        self._lines: SimpleQueue[tuple[str, asyncio.Future[None]] | None] = SimpleQueue()
        threading.Thread(target=self._write, args=(own,), name="mew-lab-stdout", daemon=True).start()

    def post(self, line: str) -> asyncio.Future[None]:
        """Writes one line behind the others; the future is done when the operating system has taken it."""
        taken: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line, taken))
        return taken

    def _write(self, descriptor: int) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            try:
                while (item := self._lines.get()) is not None:
                    self._write_line(descriptor, item[0])
                    self._loop.call_soon_threadsafe(_set, item[1])
            except OSError:
                self._loop.call_soon_threadsafe(self.lost.set)
        os.close(descriptor)

    def close(self) -> None:
        """Gives stdout back; a line that is being written is written to its end, where the client reads it."""
        self._lines.put(None)
        sys.stdout.flush()
        os.dup2(self._descriptor, 1)
        os.close(self._descriptor)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():  # else nobody waits for it
        future.set_result(None)
