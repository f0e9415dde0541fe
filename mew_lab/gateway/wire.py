"""Accesses the server library's protocol object, by one attribute in one guarded function.

`wire_of` finds that object behind an ASGI `send` and wraps its socket: it writes encoded frames, counts waiting bytes,
pings, pauses reading and closes. Where the library is not as expected it returns None; its users then use ASGI, which
is slower and has no ghost probes. A canary test fails when that happens.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any

from mew_lab.gateway.limits import UNREAD

__all__ = ["Wire", "wire_of"]

PING = 0x89  # FIN and the opcode of a ping (RFC 6455 §5.5.2)
PING_BYTES = 8  # random ones, which tell the answer to our ping from those to the pings of the library
PIECE = 4096  # bytes that a ping, a pong or a fragment counts besides its data: empty ones must not be free

logger = logging.getLogger(__name__)


class Wire:
    """The socket below one accepted WebSocket. Takes whole encoded frames only."""

    __slots__ = (
        *("_loop", "_pings", "_protocol", "_read_since", "_timer", "_unread_since"),
        *("abort", "closing", "waiting", "write"),
    )

    def __init__(self, protocol: Any) -> None:
        transport = protocol.transport
        self.write: Callable[[bytes], None] = transport.write
        """Writes encoded frames to the socket."""
        self.waiting: Callable[[], int] = transport.get_write_buffer_size
        """The number of bytes that the operating system has not taken yet."""
        self.closing: Callable[[], bool] = transport.is_closing
        """Whether the socket is closing and takes no more data."""
        self.abort: Callable[[], None] = transport.abort
        """Closes the socket at once; waiting data is lost."""
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._pings: dict[bytes, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None  # while it is not read
        self._unread_since = 0.0
        self._read_since = float("-inf")  # when reading began again
        original = protocol.handle_pong

        def handle_pong(event: Any) -> None:
            answered = self._pings.pop(bytes(event.data), None)
            if answered is not None and not answered.done():
                answered.set_result(None)
            original(event)

        protocol.handle_pong = handle_pong
        overdue = getattr(protocol, "keepalive_timeout", None)

        def keepalive_timeout() -> None:
            left = self._patience(protocol.ping_timeout)
            if left > 0.0 and not self.closing():
                protocol.pong_timer = self._loop.call_later(left, protocol.keepalive_timeout)
            elif overdue is not None:
                overdue()

        if overdue is not None:
            protocol.keepalive_timeout = keepalive_timeout

    # --- reading later ---

    def pause(self, seconds: float) -> None:
        """Pauses reading, for `UNREAD` seconds at most, so that the sender is slowed by flow control."""
        now = self._loop.time()
        if self._timer is None:
            self._unread_since = now
            self._protocol.held = True
            self._protocol.transport.pause_reading()
        else:
            self._timer.cancel()
        end = min(max(self._timer.when() if self._timer else now, now + seconds), self._unread_since + UNREAD)
        self._timer = self._loop.call_at(end, self.resume)

    def resume(self) -> None:
        """Resumes reading, unless the library itself waits until its messages are taken."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._read_since = self._loop.time()
            self._protocol.held = False
            if not getattr(self._protocol, "read_paused", False) and not self.closing():
                self._protocol.transport.resume_reading()
            if hasattr(self._protocol, "go_on"):
                self._protocol.go_on()

    def take_directly(self, take: Callable[[str | bytes], bool], taken: Callable[[], object]) -> None:
        """Hands unfragmented messages to `take` as they are read, where the server supports it: see `DirectProtocol`.

        Messages that `take` does not handle, and all other events, are queued as usual.
        """
        if hasattr(self._protocol, "take"):
            self._protocol.take, self._protocol.taken = take, taken

    def take_queued(self) -> None:
        """Ends `take_directly`: every message is queued again."""
        if hasattr(self._protocol, "take"):
            self._protocol.take = None

    def count_extras(self, count: Callable[[int, int], float]) -> None:
        """Calls `count(bytes, messages)` for each ping, each pong and each fragment of a message.

        It returns the seconds for which the socket is not to be read.
        """
        protocol = self._protocol

        def count_calls(handle: Callable[..., None], size: int, messages: int) -> Callable[..., None]:
            def handle_and_count(*event: Any) -> None:
                handle(*event)
                seconds = count(size, messages)
                if seconds:
                    self.pause(seconds)

            return handle_and_count

        if hasattr(protocol, "handle_ping") and hasattr(protocol, "handle_cont"):
            protocol.counted = True
            protocol.handle_ping = count_calls(protocol.handle_ping, PIECE, 1)
            protocol.handle_pong = count_calls(protocol.handle_pong, PIECE, 1)
            protocol.handle_cont = count_calls(protocol.handle_cont, PIECE, 0)

    def _patience(self, seconds: float) -> float:
        """The rest of the time for an answer; only time in which the socket is read counts."""
        return seconds if self._timer is not None else seconds - (self._loop.time() - self._read_since)

    # --- liveness ---

    async def ping(self, timeout: float) -> bool:
        """Whether the other end answers a ping within `timeout` seconds of reading its socket."""
        if self.closing():
            return False
        payload = secrets.token_bytes(PING_BYTES)
        answered = self._pings[payload] = self._loop.create_future()
        self.write(bytes((PING, PING_BYTES)) + payload)
        left = timeout
        try:
            while left > 0.0 and not answered.done() and not self.closing():
                await asyncio.wait({answered}, timeout=left)
                left = self._patience(timeout)
        finally:
            self._pings.pop(payload, None)
        return answered.done() and not self.closing()


def wire_of(send: Any) -> Wire | None:
    """The wire behind the ASGI `send` of an accepted WebSocket; None where the server is not a known one."""
    try:
        protocol = send.__self__
        transport = protocol.transport
        needed = (transport.write, transport.abort, transport.pause_reading, transport.resume_reading)
        known = all(map(callable, needed)) and callable(protocol.handle_pong)
        if known and not transport.is_closing() and transport.get_write_buffer_size() >= 0:
            return Wire(protocol)
    except Exception as fault:
        logger.debug("frames take the long way: the server's inside is not as expected (%s)", fault)
    return None
