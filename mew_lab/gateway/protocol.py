"""Reads unfragmented WebSocket messages directly, without the queue and the tasks of the server library.

The library's own way costs a generator for each frame, a queue, and a task that is woken in a later turn of the loop.
It also makes two system calls that stop and start reading. This module unmasks a message and hands it on where its
frame was read.

It takes only frames that are valid without regard to earlier ones: FIN, text or binary, masked, within the limit, valid
UTF-8, outside of a fragmented message, before any close. Every other frame goes to the library unchanged once it is
complete. One that is too long, or not masked, goes there at once with all that follows it. So RFC 6455 is kept in one
place, and every close has the code that the library gives it.

Spec: §5.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without the compiled module
    from websockets.utils import apply_mask

__all__ = ["CONNECTION", "DirectProtocol"]

CONNECTION = "mew_lab.connection"  # the member of a scope's state that holds the connection of the listener

FIN, OPCODE = 0x80, 0x0F  # of a frame's first byte (RFC 6455 §5.2)
MASK = 0x80  # of its second
WHOLE_TEXT = 0x81
WHOLE = frozenset({WHOLE_TEXT, 0x82})
CONTROL = 0x8  # opcodes from here on belong to no message


class DirectProtocol(WebSocketsSansIOProtocol):
    """The library's protocol of one WebSocket, with a direct path for unfragmented messages.

    `take` is called with each such message and returns whether it has handled it; the library queues the others
    as usual. `taken` is called when all data of one read is handled, if `take` took any of it. While `take` is None
    every frame goes to the library.
    """

    take: Callable[[str | bytes], bool] | None = None
    taken: Callable[[], object]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._most = self.config.ws_max_size
        self._upgraded = False
        self._framed = False  # frames are parsed here: from the upgrade request to a fault or our own close
        self._rest: bytes | bytearray = b""  # the beginning of a frame
        self._in_pieces = False  # amid a message of several frames
        self._room = self._most  # bytes that it may still have

    def connection_lost(self, exc: Exception | None) -> None:
        """Gives the place of the connection back."""
        if CONNECTION in self.app_state:
            self.app_state[CONNECTION].lose()
        super().connection_lost(exc)

    def data_received(self, data: bytes | bytearray) -> None:
        """Takes the data that the socket received; it may end within a frame."""
        if self._rest:
            if not isinstance(self._rest, bytearray):
                self._rest = bytearray(self._rest)
            self._rest += data
            data = self._rest
        at, end, took = 0, len(data), False
        while self._framed and not self.close_sent and end - at >= 2:
            first, size = data[at], data[at + 1] - MASK
            if size < 0:  # it is not masked
                self._framed = False
                break
            begin = at + 6
            if size >= 126:
                begin = at + (8 if size == 126 else 14)
                if begin - 4 > end:
                    break
                size = int.from_bytes(data[at + 2 : begin - 4])
            if size > self._room:
                self._framed = False
                break
            stop = begin + size
            if stop > end:
                break
            if first in WHOLE and not self._in_pieces and self.take is not None and self.queue.empty():
                payload = apply_mask(data[begin:stop], data[begin - 4 : begin])
                try:
                    message = payload.decode() if first == WHOLE_TEXT else payload
                except UnicodeDecodeError:
                    pass  # the library closes for it
                else:
                    if self.take(message):
                        at, took = stop, True
                        continue
            self._follow(first, size)
            super().data_received(bytes(data[at:stop]))
            at = stop
        if took:
            self.taken()
        if self._framed and not self.close_sent:
            self._rest = data[at:] if 0 < at < end else data if at < end else b""
        else:
            self._rest = b""
            if at < end and not self.transport.is_closing():
                super().data_received(bytes(data[at:]))
            if not self._upgraded and self.handshake_initiated:
                self._upgraded = self._framed = True

    def _follow(self, first: int, size: int) -> None:
        """Tracks whether the library is within a fragmented message, or after a close."""
        if first & OPCODE < CONTROL:
            self._in_pieces = not first & FIN
            self._room = self._room - size if self._in_pieces else self._most
