"""The load of the gateway's benchmark: sockets that only count, so that they are never what is measured."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence

TIMEOUT = 120.0
UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def masked(text: str) -> bytes:
    """A client's text frame; a mask of zeros leaves the payload readable (RFC 6455 §5.3)."""
    data = text.encode()
    size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2)
    return b"\x81" + size + bytes(4) + data


def chat(number: int, sender: str) -> str:
    """A complete envelope with a text of 200 bytes."""
    return json.dumps(
        {
            "protocol": "mew/v0.4",
            "id": f"{sender}-{number:08}",
            "ts": "2026-11-21T22:40:01.123Z",
            "from": sender,
            "kind": "chat",
            "payload": {"text": "x" * 200},
        },
        separators=(",", ":"),
    )


class Counter(asyncio.Protocol):
    """One WebSocket that counts the messages it gets, and can keep so many of its own on the way."""

    def __init__(self) -> None:
        self.count = 0
        self._target = 0
        self._reached: asyncio.Future[None] | None = None
        self._open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._skip = 0
        self._to_send: Sequence[bytes] = ()
        self._sent = 0
        self._packed = True
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if not self._open.done():
            head, end, data = (self._rest + data).partition(b"\r\n\r\n")
            if not end:
                self._rest = head
                return
            assert b" 101 " in head, head
            self._rest = b""
            self._open.set_result(None)
        arrived = self._count(data)
        self.count += arrived
        if arrived and self._sent < len(self._to_send):
            self._write(self._to_send[self._sent : self._sent + arrived])
            self._sent += arrived
        if self._reached is not None and self.count >= self._target and not self._reached.done():
            self._reached.set_result(None)

    def _count(self, data: bytes) -> int:
        """How many frames begin in `data`; frames may be cut anywhere."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, count, size = self._skip, 0, len(data)
        while at + 10 <= size:
            length, head = data[at + 1], 2
            if length == 126:
                length, head = data[at + 2] << 8 | data[at + 3], 4
            elif length == 127:
                length, head = int.from_bytes(data[at + 2 : at + 10]), 10
            at += head + length
            count += 1
        if at < size:
            self._rest, self._skip = data[at:], 0
        else:
            self._skip = at - size
        return count

    async def opened(self, join: str | None) -> None:
        """Waits for the upgrade, and for the welcome where one is asked for."""
        await self._open
        if join is not None:
            self._transport.write(masked(join))
            await self.wait(1)

    async def wait(self, count: int) -> None:
        """Until so many messages have come, all in all."""
        self._target = count
        if self.count < count:
            self._reached = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(TIMEOUT):
                await self._reached

    def send(self, frames: Sequence[bytes], *, window: int, packed: bool = True) -> None:
        """Begins to send; for each message that comes, the next one goes.

        `packed` writes together what goes together, so that the server finds many messages at one reading; else each
        goes by a system call of its own, as clients send.
        """
        self._to_send, self._sent, self._packed = frames, window, packed
        self._write(frames[:window])

    def _write(self, frames: Sequence[bytes]) -> None:
        if self._packed:
            self._transport.write(b"".join(frames))
            return
        socket = self._transport.get_extra_info("socket").fileno()
        for frame in frames:
            if self._transport.get_write_buffer_size() or os.write(socket, frame) < len(frame):
                raise RuntimeError("the server takes nothing more: fewer messages should be on their way")

    def close(self) -> None:
        self._transport.abort()


async def connect(port: int, token: str | None) -> Counter:
    loop = asyncio.get_running_loop()
    _, counter = await loop.create_connection(Counter, "127.0.0.1", port)
    counter._transport.write(UPGRADE.format(port=port).encode())
    await counter.opened(None if token is None else json.dumps({"type": "join", "token": token}))
    return counter
