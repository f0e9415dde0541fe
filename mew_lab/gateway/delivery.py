"""Delivers messages on one connection, so that a slow reader does not delay other connections.

A `Frame` is one message for all its receivers: encoded once, whatever their number. A `Peer` is the gateway's
end of one connection; `put` never waits. A queue is bounded in bytes, and the frames of one turn of the loop leave in
one write. A reader whose queue is full, or that takes nothing for a while, is cut.

This module knows no envelope, space or rule.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, Protocol

from mew_lab.gateway.coalescer import WriteCoalescer
from mew_lab.gateway.wire import Wire, wire_of
from mew_lab.transport.link import LinkClosed
from mew_lab.transport.memory import MemoryLink

__all__ = ["MAX_QUEUED", "DeliveryQueue", "Frame", "MemoryPeer", "Peer", "encode"]

MAX_QUEUED = 8 * 1024 * 1024  # bytes that may wait for a reader
STALL_SECONDS = 10.0  # seconds in which a reader with a queue must take data
CLOSE_SECONDS = 1.0  # seconds that a closing reader has to take the rest
CHUNK = 256 * 1024  # bytes handed to the operating system at a time
PROMPT_BYTES = 64 * 1024  # bytes waiting in the operating system below which a reader counts as prompt
CLOSE_SLOW = 1008  # policy violation (RFC 6455 §7.4.1)
TEXT, BINARY = 0x81, 0x82  # FIN and the opcode (RFC 6455 §5.2)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def encode(first: int, payload: bytes) -> bytes:
    """A complete unmasked frame, as servers send it (RFC 6455 §5.2)."""
    size = len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2) + payload
    return bytes((first, 127)) + size.to_bytes(8) + payload


class Frame:
    """One outgoing message: `text` is sent as a text frame, else `data` as a binary one.

    `wire` is the encoded WebSocket frame: made at first use, the same object for every receiver.
    """

    __slots__ = ("message", "wire")

    message: str | bytes
    wire: bytes

    def __init__(self, text: str | None = None, data: bytes = b"") -> None:
        self.message = data if text is None else text

    def __getattr__(self, name: str) -> bytes:
        if name != "wire":
            raise AttributeError(name)
        message = self.message
        self.wire = encode(TEXT, message.encode()) if isinstance(message, str) else encode(BINARY, message)
        return self.wire


class Peer(Protocol):
    """The gateway's end of one connection, over any transport."""

    def put(self, frame: Frame) -> None:
        """Queues a message without waiting or raising; after a close or a cut it does nothing."""

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        """Sends the queued messages, unless `drop`, then closes. A second call does nothing."""

    async def alive(self, timeout: float) -> bool:
        """Whether the other end answers within `timeout` seconds; False once a close has begun."""


def _too_slow(waiting: int) -> str:
    return f"slow reader: {waiting} bytes waited unread"


class MemoryPeer:
    """The gateway's end of a link inside this process.

    Args:
        link: the gateway's end of the link.
        limit: characters and bytes that may wait for the reader.
        on_cut: called with the reason, in a later turn of the loop, when the reader was cut.
    """

    __slots__ = ("_limit", "_link", "_on_cut")

    def __init__(
        self,
        link: MemoryLink,
        *,
        limit: int = MAX_QUEUED,
        on_cut: Callable[[str], object] = lambda reason: None,
    ) -> None:
        self._link = link
        self._limit = limit
        self._on_cut = on_cut

    def put(self, frame: Frame) -> None:
        """Queues a message; cuts the reader when too much waits."""
        try:
            unread = self._link.put(frame.message)
        except LinkClosed:
            return
        if unread > self._limit:
            reason = _too_slow(unread)
            self._link.shut(CLOSE_SLOW, reason, drop=True)
            # Later: the caller is in the middle of delivering, and a cut makes the gateway take a step.
            asyncio.get_running_loop().call_soon(self._on_cut, reason)

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        """Closes; the reader may still receive queued messages, unless `drop`."""
        self._link.shut(code, reason, drop=drop)

    async def alive(self, timeout: float) -> bool:
        """Whether it is open; within one process that needs no probe."""
        return self._link.closed is None


class DeliveryQueue:
    """The gateway's end of one WebSocket, over an ASGI `send` callable.

    While the reader is prompt, encoded frames go directly to the socket, once a turn of the loop. Else, or where the
    server's protocol object is not as expected, one task sends them by ASGI as the reader takes them.

    Args:
        send: the ASGI callable of an accepted WebSocket.
        coalescer: decides when to write; shared by the queues of one server.
        limit: bytes that may wait for the reader; may change at any time.
        stall: seconds in which a reader with a queue must take data.
        on_cut: called with the reason, in a later turn of the loop, when the reader was cut.
    """

    def __init__(
        self,
        send: Send,
        *,
        coalescer: WriteCoalescer,
        limit: int = MAX_QUEUED,
        stall: float = STALL_SECONDS,
        on_cut: Callable[[str], object] = lambda reason: None,
    ) -> None:
        self._send = send
        self._coalescer = coalescer
        self.limit = limit
        self._stall = stall
        self._on_cut = on_cut
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = wire_of(send)
        self._queue: deque[Frame] = deque()
        self._size = 0
        self._announced = False  # to the coalescer
        self._pump: asyncio.Task[None] | None = None
        self._close_reason: tuple[int, str] | None = None  # set when no more messages are taken
        self._ended = False  # the socket has closed
        self._closing_here = asyncio.Event()  # set when this end closes first

    @property
    def closing(self) -> bool:
        """Whether a close or a cut has begun, or the socket has closed."""
        return self._close_reason is not None

    @property
    def dismissed(self) -> bool:
        """Whether this end has begun a close or a cut, so that received messages must be dropped."""
        return self._closing_here.is_set()

    def put(self, frame: Frame) -> None:
        """Queues a message; cuts the reader when too much waits."""
        if self._close_reason is not None:
            return
        self._queue.append(frame)
        self._size += len(frame.wire)
        if self._size > self.limit:
            self.flush()  # one turn may produce this much for a reader that is not slow
            if self._size > self.limit:
                self._cut(_too_slow(self._size))
        elif not self._announced:
            self._announced = True
            self._coalescer.add(self)

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        """Sends the queued messages, unless `drop`, then closes."""
        if self._close_reason is not None:
            return
        self._begin_close(code, reason)
        if drop:
            self._queue.clear()
            self._size = 0
        self.flush()
        self._ensure_pump()  # the close frame itself goes by the ASGI `send`

    async def alive(self, timeout: float) -> bool:
        """Whether a ping is answered within `timeout` seconds; where none can be sent, whether the socket is open."""
        if self._close_reason is not None or self._ended:
            return False
        if self._wire is None:
            return True
        return await self._wire.ping(timeout) and self._close_reason is None

    async def unread(self, seconds: float) -> None:
        """Pauses reading for `seconds`, or until this end begins a close; returns then."""
        if self._wire is not None:
            self._wire.pause(seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing_here.wait()
            if self._wire is not None:
                self._wire.resume()

    def count_extras(self, count: Callable[[int, int], float]) -> None:
        """Calls `count(bytes, messages)` for each ping, each pong and each fragment of a message.

        It returns the seconds for which the socket is not to be read.
        """
        if self._wire is not None:
            self._wire.count_extras(count)

    def take_directly(self, take: Callable[[str | bytes], bool], taken: Callable[[], object]) -> None:
        """Hands unfragmented messages to `take` as they are read, where the server supports it."""
        if self._wire is not None:
            self._wire.take_directly(take, taken)

    def pause(self, seconds: float) -> None:
        """Pauses reading for `seconds`, or until this end begins a close."""
        if self._wire is not None:
            self._wire.pause(seconds)

    def take_queued(self) -> None:
        """Ends `take_directly`: every message is queued again."""
        if self._wire is not None:
            self._wire.take_queued()

    def detach(self) -> None:
        """Drops the queued messages; to be called when the socket has closed."""
        self._ended = True
        self._close_reason = self._close_reason or (1006, "")
        self._queue.clear()
        self._size = 0
        if self._pump is not None:
            self._pump.cancel()

    async def wait_closed(self) -> None:
        """Waits until a close that has begun is sent, or given up."""
        if self._pump is not None:
            await asyncio.wait({self._pump})

    def _begin_close(self, code: int, reason: str) -> None:
        self._close_reason = (code, reason)
        self._closing_here.set()
        if self._wire is not None:
            self._wire.resume()

    # --- writing to the socket, and by the ASGI `send` ---

    def flush(self) -> None:
        """Writes all queued frames to the socket, in one write, while the reader is prompt."""
        self._announced = False
        if self._queue and self._pump is None and not self._write():
            self._ensure_pump()

    def _write(self) -> bool:
        """Writes queued frames as long as the reader is prompt; returns whether the queue is empty."""
        wire, queue = self._wire, self._queue
        while queue:
            if wire is None or wire.waiting() > PROMPT_BYTES or wire.closing():
                return False
            if self._size <= CHUNK:
                wire.write(queue[0].wire if len(queue) == 1 else b"".join([frame.wire for frame in queue]))
                queue.clear()
                self._size = 0
                return True
            parts, size = [], 0
            while queue and size < CHUNK:
                parts.append(queue.popleft().wire)
                size += len(parts[-1])
            self._size -= size
            wire.write(b"".join(parts))
        return True

    def _ensure_pump(self) -> None:
        if self._pump is None and not self._ended:
            self._start(self._drain())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._pump = self._loop.create_task(work)
        self._pump.add_done_callback(self._on_drained)

    def _on_drained(self, pump: asyncio.Task[None]) -> None:
        if self._pump is pump:
            self._pump = None
        if not pump.cancelled() and pump.exception() is not None:
            self.detach()  # the socket closed during the write; the code that reads it notifies the gateway
        elif self._close_reason is None:
            self.flush()  # a frame may have been queued since the queue was empty

    async def _drain(self) -> None:
        """Sends by ASGI, which waits for a slow reader; returns to direct writes once the reader is prompt."""
        while self._queue:
            frame = self._queue.popleft()
            self._size -= len(frame.wire)
            key = "text" if isinstance(frame.message, str) else "bytes"
            patience = CLOSE_SECONDS if self._close_reason else self._stall
            try:
                async with asyncio.timeout(patience):
                    await self._send({"type": "websocket.send", key: frame.message})
            except TimeoutError:
                if self._close_reason is None:
                    self._begin_cut(f"slow reader: took nothing for {patience:g} s")
                break
            self._write()
        if self._close_reason is not None:
            await self._send_close(*self._close_reason)

    async def _send_close(self, code: int, reason: str) -> None:
        """Sends the close frame; ends the connection of a reader that does not take it in time."""
        short = reason.encode()[:123].decode(errors="ignore")
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._send({"type": "websocket.close", "code": code, "reason": short})
        except TimeoutError:
            if self._wire is not None:
                self._wire.abort()

    def _begin_cut(self, reason: str) -> None:
        self._begin_close(CLOSE_SLOW, reason)
        self._queue.clear()
        self._size = 0
        # Later: the caller is in the middle of delivering, and a cut makes the gateway take a step.
        self._loop.call_soon(self._on_cut, reason)

    def _cut(self, reason: str) -> None:
        self._begin_cut(reason)
        if self._pump is not None:
            self._pump.cancel()  # it waits for the reader that is cut
        self._start(self._send_close(CLOSE_SLOW, reason))
