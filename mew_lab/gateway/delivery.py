"""Delivers messages on one connection, so that a slow reader costs other connections nothing.

A `Frame` is one message for all its receivers: encoded once, whatever their number. A `Peer` is the gateway's
end of one connection; `put` never waits. A queue is bounded in bytes, and frames that are put within one turn of the
loop leave in one write. A reader that lets its queue fill, or takes nothing for a while, is cut.

Envelopes, spaces and rules are not known here.
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

MAX_QUEUED = 8 * 1024 * 1024  # bytes that may wait for one reader
STALL_SECONDS = 10.0  # seconds in which a reader with a queue must take something
CLOSE_SECONDS = 1.0  # seconds that a closing reader has to take what is left
CHUNK = 256 * 1024  # bytes handed to the operating system at a time
PROMPT_BYTES = 64 * 1024  # bytes waiting in the operating system below which a reader counts as prompt
CLOSE_SLOW = 1008  # policy violation (RFC 6455 §7.4.1)
TEXT, BINARY = 0x81, 0x82  # FIN and the opcode (RFC 6455 §5.2)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def encode(first: int, payload: bytes) -> bytes:
    """A whole unmasked frame, as servers send them (RFC 6455 §5.2)."""
    size = len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2) + payload
    return bytes((first, 127)) + size.to_bytes(8) + payload


class Frame:
    """One message on its way out: `text` leaves as a text frame, else `data` as a binary one.

    `wire` is the encoded WebSocket frame: made when it is first asked for, the same object for every receiver.
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
        """Queues a message. Never waits, never raises; after a close or a cut it does nothing."""

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        """Sends what is queued, unless `drop`, then closes. Twice is harmless."""

    async def alive(self, timeout: float) -> bool:
        """Whether the other end answers within `timeout` seconds; False once a close has begun."""


def _too_slow(waiting: int) -> str:
    return f"slow reader: {waiting} bytes waited unread"


class MemoryPeer:
    """The gateway's end of a link inside this process.

    Args:
        link: the end that the gateway holds.
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
        """Closes; the reader may still receive what is queued, unless `drop`."""
        self._link.shut(code, reason, drop=drop)

    async def alive(self, timeout: float) -> bool:
        """Whether it is open: inside one process nothing breaks unnoticed."""
        return self._link.closed is None


class DeliveryQueue:
    """The gateway's end of one WebSocket, over an ASGI `send` callable.

    While the reader is prompt, encoded frames go straight to the socket, once a turn of the loop. Else, or
    where the server's inside is not as expected, they wait here and one task sends them as they are taken.

    Args:
        send: the ASGI callable of an accepted WebSocket.
        coalescer: decides when to write; shared by the queues of one server.
        limit: bytes that may wait for the reader; may be set anew at any time.
        stall: seconds in which a reader with a queue must take something.
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
        self._close_reason: tuple[int, str] | None = None  # set when nothing more is taken
        self._ended = False  # the socket is gone
        self._closing_here = asyncio.Event()  # set when this end closes first

    @property
    def closing(self) -> bool:
        """Whether a close or a cut has begun, or the socket is gone."""
        return self._close_reason is not None

    @property
    def dismissed(self) -> bool:
        """Whether this end has begun a close or a cut: messages that still come in are to be dropped."""
        return self._closing_here.is_set()

    def put(self, frame: Frame) -> None:
        """Queues a message; cuts the reader when too much waits."""
        if self._close_reason is not None:
            return
        self._queue.append(frame)
        self._size += len(frame.wire)
        if self._size > self.limit:
            self.flush()  # it may be that much at once, and no slow reader
            if self._size > self.limit:
                self._cut(_too_slow(self._size))
        elif not self._announced:
            self._announced = True
            self._coalescer.add(self)

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        """Sends what is queued, unless `drop`, then closes."""
        if self._close_reason is not None:
            return
        self._begin_close(code, reason)
        if drop:
            self._queue.clear()
            self._size = 0
        self.flush()
        self._ensure_pump()  # the close frame itself goes by the ASGI `send`

    async def alive(self, timeout: float) -> bool:
        """Whether a ping is answered within `timeout` seconds; where none can be sent, whether it is open."""
        if self._close_reason is not None or self._ended:
            return False
        if self._wire is None:
            return True
        return await self._wire.ping(timeout) and self._close_reason is None

    async def unread(self, seconds: float) -> None:
        """Returns after so many seconds, or when this end begins a close; until then nothing is read from the socket."""
        if self._wire is not None:
            self._wire.pause(seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing_here.wait()
            if self._wire is not None:
                self._wire.resume()

    def count_extras(self, count: Callable[[int, int], float]) -> None:
        """From now on `count(bytes, messages)` is called for pings and for pieces of messages.

        It returns the seconds for which the socket is not to be read.
        """
        if self._wire is not None:
            self._wire.count_extras(count)

    def take_directly(self, take: Callable[[str | bytes], bool], taken: Callable[[], object]) -> None:
        """From now on messages in one piece are handed to `take` as they are read, where the server can do that."""
        if self._wire is not None:
            self._wire.take_directly(take, taken)

    def pause(self, seconds: float) -> None:
        """Reads nothing from the socket for so many seconds, or until this end begins a close."""
        if self._wire is not None:
            self._wire.pause(seconds)

    def take_queued(self) -> None:
        """From now on every message comes the usual way."""
        if self._wire is not None:
            self._wire.take_queued()

    def detach(self) -> None:
        """Forgets the queued messages; to be called when the socket is gone."""
        self._ended = True
        self._close_reason = self._close_reason or (1006, "")
        self._queue.clear()
        self._size = 0
        if self._pump is not None:
            self._pump.cancel()

    async def wait_closed(self) -> None:
        """Waits until a close that has begun is on the wire, or given up."""
        if self._pump is not None:
            await asyncio.wait({self._pump})

    def _begin_close(self, code: int, reason: str) -> None:
        self._close_reason = (code, reason)
        self._closing_here.set()
        if self._wire is not None:
            self._wire.resume()

    # --- writing to the socket, and by the ASGI `send` ---

    def flush(self) -> None:
        """Writes all that waits to the socket, in one write, while the reader is prompt."""
        self._announced = False
        if self._queue and self._pump is None and not self._write():
            self._ensure_pump()

    def _write(self) -> bool:
        """Writes queued frames as long as the reader is prompt; returns whether nothing is left."""
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
            self.detach()  # the socket went away while we wrote; whoever reads from it tells the gateway
        elif self._close_reason is None:
            self.flush()  # something may have come since it found nothing more

    async def _drain(self) -> None:
        """Sends by the ASGI `send`, which waits for a slow reader; a prompt reader is written to directly again."""
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
            self._pump.cancel()  # it waits for the very reader that we give up on
        self._start(self._send_close(CLOSE_SLOW, reason))
