"""Reads unfragmented WebSocket messages directly, without the queue and the tasks of the server library.

The library's own way costs a generator for each frame, a queue, and a task that is woken in a later turn of the loop.
It also makes two system calls that stop and start reading. This module unmasks a message and hands it on where its
frame was read.

It takes only frames that are valid without regard to earlier ones: FIN, text or binary, masked, within the limit, valid
UTF-8, outside of a fragmented message, before any close. Every other frame goes to the library unchanged once it is
complete. One that is too long, or not masked, goes there at once with all that follows it. So RFC 6455 is kept in one
place, and every close has the code that the library gives it.

One read may hold ten thousand pings. So the library gets only some frames in one turn of the loop, and none while the
connection is not to be read: the rest of what was read waits here.

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
HANDED = 64  # frames that the library gets of one connection in one turn of the loop
EARLY = 64  # pings, pongs and pieces of messages that a client may send before it is welcomed
IN_A_ROW = 1000  # pings and pongs of one that was not read to the end meanwhile
CONTROL = 0x8  # opcodes from here on belong to no message


class DirectProtocol(WebSocketsSansIOProtocol):
    """The library's protocol of one WebSocket, with a direct path for unfragmented messages.

    `take` is called with each such message and returns whether it has handled it; the library queues the others
    as usual. `taken` is called when all data of one read is handled, if `take` took any of it. While `take` is None
    every frame goes to the library. While `held`, what was read is handled no further; `go_on` is called after it.
    """

    take: Callable[[str | bytes], bool] | None = None
    taken: Callable[[], object]
    held = False
    counted = False
    """Whether pings, pongs and pieces count for the rate of its participant."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._most = self.config.ws_max_size
        self._upgraded = False
        self._framed = False  # frames are parsed here: from the upgrade request to a fault or our own close
        self._rest: bytes | bytearray = b""  # the beginning of a frame, or all that waits while stopped
        self._stopped = False  # whole frames wait in the rest
        self._extras = 0
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
            if self._stopped and data:
                self.transport.pause_reading()  # the library may have resumed it
            if not isinstance(self._rest, bytearray):
                self._rest = bytearray(self._rest)
            self._rest += data
            data = self._rest
        if self._stopped:
            return
        at, end, took, handed = 0, len(data), False, 0
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
            if handed == HANDED or (handed and self.held):
                self._stopped = True
                break
            self._follow(first, size)
            super().data_received(bytes(data[at:stop]))
            at, handed = stop, handed + 1
            # A backlog of these would keep the connection long after its client has gone, which nobody sees meanwhile.
            if first & OPCODE >= CONTROL or (first not in WHOLE and not self.counted):
                self._extras += 1
                if self._extras > (IN_A_ROW if self.counted else EARLY):
                    self.transport.abort()
                    return
        if took:
            self.taken()
        if self._stopped:
            self._rest = bytearray(data[at:])
            self.transport.pause_reading()
            if not self.held:
                self.loop.call_soon(self.go_on)
        elif self._framed and not self.close_sent:
            self._extras *= not self.counted
            self._rest = data[at:] if 0 < at < end else data if at < end else b""
        else:
            self._rest = b""
            if at < end and not self.transport.is_closing():
                super().data_received(bytes(data[at:]))
            if not self._upgraded and self.handshake_initiated:
                self._upgraded = self._framed = True

    def go_on(self) -> None:
        """Handles what waits of earlier reads, unless the connection is held."""
        if self._stopped and not self.held and not self.transport.is_closing():
            self._stopped = False
            self.data_received(b"")
            if not (self._stopped or self.held or self.read_paused or self.transport.is_closing()):
                self.transport.resume_reading()

    def _follow(self, first: int, size: int) -> None:
        """Tracks whether the library is within a fragmented message, or after a close."""
        if first & OPCODE < CONTROL:
            self._in_pieces = not first & FIN
            self._room = self._room - size if self._in_pieces else self._most
