"""Reads a stream of HTTP/1.1 messages as it passes by: heads, and pieces of bodies, without a change to any byte.

An `HttpStream` gets the bytes of one direction of a connection and divides them; the parts together are the bytes.
What is no HTTP/1.1 that it knows (an upgrade, a broken length) makes everything from there on unread parts, so that a
relay can still pass it on.

Spec: RFC 9112.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["HttpHead", "HttpPart", "HttpStream"]

MAX_HEAD: Final = 65_536  # bytes
MAX_SIZE_LINE: Final = 1024  # bytes of the line with the size of a chunk


class HttpHead(NamedTuple):
    """The first line and the headers of a message, the names of the headers in lower case."""

    first: str
    headers: dict[str, str]

    @property
    def status(self) -> int:
        """The status of a response; 0 for a request."""
        words = self.first.split(" ")
        return int(words[1]) if len(words) > 1 and words[0].startswith("HTTP/") and words[1].isdigit() else 0


class HttpPart(NamedTuple):
    """Consecutive bytes of the stream: of a head, or of a body with the `content` in them.

    `last` marks the end of a message; `unread` that the rest of the stream is not divided.
    """

    data: bytes
    head: HttpHead | None = None
    content: bytes = b""
    last: bool = False
    unread: bool = False


class HttpStream:
    """One direction of a connection.

    Args:
        responses: Whether it is that of the server. Then `methods` are the methods of the requests, to be appended as
            they pass.
    """

    def __init__(self, *, responses: bool) -> None:
        self.methods: list[str] = []
        self._responses = responses
        self._buffer = b""
        self._state = "head"  # or length, close, size, chunk, after, trailer, unread
        self._left = 0

    def feed(self, data: bytes) -> Iterator[HttpPart]:
        """The parts that `data` completes."""
        self._buffer += data
        while self._buffer:
            part = self._next()
            if part is None:
                return
            yield part

    def end(self) -> Iterator[HttpPart]:
        """What is left when the connection ends."""
        rest, self._buffer = self._buffer, b""
        if rest or self._state == "close":
            yield HttpPart(rest, last=self._state == "close", unread=bool(rest))
        self._state = "unread"

    def give_up(self) -> Iterator[HttpPart]:
        """What waits for the rest of a head; from here on nothing is divided, as after an upgrade."""
        self._state = "unread"
        yield from self.feed(b"")

    def _take(self, size: int) -> bytes:
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _give_up(self) -> HttpPart:
        self._state = "unread"
        return HttpPart(self._take(len(self._buffer)), unread=True)

    def _next(self) -> HttpPart | None:
        match self._state:
            case "head":
                return self._read_head()
            case "length" | "chunk":
                data = self._take(self._left)
                self._left -= len(data)
                last = not self._left and self._state == "length"
                if not self._left:
                    self._state = "head" if self._state == "length" else "after"
                return HttpPart(data, content=data, last=last)
            case "close":
                data = self._take(len(self._buffer))
                return HttpPart(data, content=data)
            case "size":
                return self._read_size()
            case "after":
                return self._read_line_end()
            case "trailer":
                return self._read_trailer()
        return self._give_up()

    def _read_head(self) -> HttpPart | None:
        at = self._buffer.find(b"\r\n\r\n")
        if at < 0:
            return self._give_up() if len(self._buffer) > MAX_HEAD else None
        lines = self._buffer[:at].decode("latin-1").split("\r\n")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            name, value = name.lower(), value.strip()
            if (
                not colon
                or name != name.strip()
                or (name == "content-length" and headers.get(name, value) != value)
            ):
                return self._give_up()
            headers[name] = (
                f"{headers[name]}, {value}" if name in headers and name != "content-length" else value
            )
        head = HttpHead(lines[0], headers)
        if not (head.status if self._responses else lines[0].endswith((" HTTP/1.1", " HTTP/1.0"))):
            return self._give_up()
        if self._responses and head.status == 101:
            self._state = "unread"
        elif not self._begin_body(head):
            return self._give_up()
        return HttpPart(self._take(at + 4), head, last=self._state == "head")

    def _begin_body(self, head: HttpHead) -> bool:
        """Chooses how the body is divided; returns whether it is known how."""
        length, coding = head.headers.get("content-length"), head.headers.get("transfer-encoding")
        if self._responses:
            if head.status < 200:
                return True
            method = self.methods.pop(0) if self.methods else ""
            if method == "HEAD" or head.status in (204, 304):
                return True
        if coding is not None:
            self._state = "size"
            return coding.lower() == "chunked" and length is None
        if length is not None:
            if not (length.isascii() and length.isdigit() and len(length) < 16):
                return False
            self._left = int(length)
            self._state = "length" if self._left else "head"
        elif self._responses:
            self._state = "close"
        return True

    def _read_size(self) -> HttpPart | None:
        at = self._buffer.find(b"\r\n")
        if at < 0:
            return self._give_up() if len(self._buffer) > MAX_SIZE_LINE else None
        digits = self._buffer[:at].partition(b";")[0].strip()
        if not digits or len(digits) > 12 or digits.strip(b"0123456789abcdefABCDEF"):
            return self._give_up()
        self._left = int(digits, 16)
        self._state = "chunk" if self._left else "trailer"
        return HttpPart(self._take(at + 2))

    def _read_line_end(self) -> HttpPart | None:
        if len(self._buffer) < 2:
            return None
        if not self._buffer.startswith(b"\r\n"):
            return self._give_up()
        self._state = "size"
        return HttpPart(self._take(2))

    def _read_trailer(self) -> HttpPart | None:
        at = self._buffer.find(b"\r\n")
        if at < 0:
            return self._give_up() if len(self._buffer) > MAX_HEAD else None
        if at == 0:
            self._state = "head"
        return HttpPart(self._take(at + 2), last=at == 0)
