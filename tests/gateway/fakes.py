"""ASGI servers that can be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any


class FakeTransport:
    """A socket that takes what fits: `waiting` bytes are what the reader has not taken."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.waiting = 0
        self.aborted = False
        self.closing = False
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def is_closing(self) -> bool:
        return self.closing or self.aborted

    def abort(self) -> None:
        self.aborted = True


class FakeProtocol:
    """As much of the server library's protocol as is used; `writable` is cleared while a reader is slow."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.writable = asyncio.Event()
        self.writable.set()
        self.sent: list[MutableMapping[str, Any]] = []
        self.gone = False
        self.read_paused = False
        self.ping_timeout = 0.1
        self.pong_timer: asyncio.TimerHandle | None = None
        self.overdue = 0

    def handle_pong(self, event: Any) -> None: ...

    def handle_ping(self) -> None: ...

    def handle_cont(self, event: Any) -> None: ...

    def keepalive_timeout(self) -> None:
        self.overdue += 1

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.writable.wait()
        if self.gone:
            raise OSError("client is gone")
        self.sent.append(message)


class FakeServer:
    """Without an inside that we know."""

    def __init__(self) -> None:
        self.sent: list[MutableMapping[str, Any]] = []

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


async def turn() -> None:
    """Lets everything that is ready in this turn of the loop happen."""
    await asyncio.sleep(0)
