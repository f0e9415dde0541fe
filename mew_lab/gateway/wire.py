"""What do we use of the server library's inside?  One attribute, looked up in one guarded function.

`wire_of` finds the library's protocol object behind an ASGI `send`, and gives its socket a face: write an
encoded frame, see how much waits, ping, hang up. Where the inside is not as expected it gives None, and all
that uses it has another way: slower, without ghost probes, but right. A canary test says when it happens.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Wire", "hang_up", "silent", "wire_of"]

PING = 0x89  # FIN and the opcode of a ping (RFC 6455 §5.5.2)
PING_BYTES = 8

logger = logging.getLogger(__name__)


class Wire:
    """The socket below one accepted WebSocket. Takes whole encoded frames only."""

    __slots__ = ("_pings", "abort", "closing", "waiting", "write")

    def __init__(self, protocol: Any) -> None:
        transport = protocol.transport
        self.write: Callable[[bytes], None] = transport.write
        """Hands encoded frames to the socket."""
        self.waiting: Callable[[], int] = transport.get_write_buffer_size
        """How many bytes the operating system has not taken yet."""
        self.closing: Callable[[], bool] = transport.is_closing
        """Whether the socket takes nothing more."""
        self.abort: Callable[[], None] = transport.abort
        """Hangs up at once; what waits is lost."""
        self._pings: dict[bytes, asyncio.Future[None]] = {}
        handled = protocol.handle_pong

        def handle_pong(event: Any) -> None:
            answered = self._pings.pop(bytes(event.data), None)
            if answered is not None and not answered.done():
                answered.set_result(None)
            handled(event)

        protocol.handle_pong = handle_pong

    async def ping(self, timeout: float) -> bool:
        """Whether the other end answers a ping within `timeout` seconds."""
        if self.closing():
            return False
        payload = secrets.token_bytes(PING_BYTES)
        answered = self._pings[payload] = asyncio.get_running_loop().create_future()
        self.write(bytes((PING, PING_BYTES)) + payload)
        try:
            async with asyncio.timeout(timeout):
                await answered
        except TimeoutError:
            return False
        finally:
            self._pings.pop(payload, None)
        return not self.closing()


def wire_of(send: Any) -> Wire | None:
    """The wire behind the ASGI `send` of an accepted WebSocket; None if the server is not one we know."""
    try:
        protocol = send.__self__
        transport = protocol.transport
        known = callable(transport.write) and callable(transport.abort) and callable(protocol.handle_pong)
        if known and not transport.is_closing() and transport.get_write_buffer_size() >= 0:
            return Wire(protocol)
    except Exception as fault:
        logger.debug("frames take the long way: the server's inside is not as expected (%s)", fault)
    return None


def hang_up(connections: Iterable[Any]) -> None:
    """Ends the library's connections at once, whatever they wait for."""
    for protocol in tuple(connections):
        transport = getattr(protocol, "transport", None)
        if transport is not None:
            transport.abort()


def silent(connections: Iterable[Any]) -> set[Any]:
    """Those of the library's connections that have not sent a whole request yet."""
    return {one for one in connections if getattr(one, "cycle", one) is None}
