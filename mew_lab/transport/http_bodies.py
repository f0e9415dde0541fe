"""Finds the messages in the bodies of one direction of an HTTP connection: JSON bodies, and events of event streams.

A `BodyReader` gets the parts of an `HttpStream`. Each JSON body, and the data of each event, is one message, shown to an
observer when it is complete. Bodies under gzip or deflate are read, too. What cannot be shown (another coding, a message
that is too long or cut off) is counted. Headers are never shown.

Spec: RFC 9110 §8.4; WHATWG HTML, §9.2.6.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from mew_lab.transport.http_stream import HttpHead, HttpPart

__all__ = ["BodyReader", "EventData", "Lost", "Observer"]

# Bytes of one message; of a longer one only the number of bytes is told.
MAX_SHOWN: Final = 4 * 1024 * 1024 + 1
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
CODINGS: Final = ("gzip", "x-gzip", "deflate")
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")

Observer = Callable[[str, bytes, str], None]
"""Called with the side, the message and the connection that it came on."""

Lost = Callable[[str, int], None]
"""Called with the side and the number of bytes of a message that cannot be shown."""


class EventData:
    """The data of the events in an event stream, each when the event is complete.

    Args:
        most: The bytes of an event that is kept whole; of a longer one only their number is given.
    """

    def __init__(self, most: int = MAX_SHOWN) -> None:
        self._most = most
        self._first = True
        self._after_return = False
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._cut = False  # whether the event that has begun is too long

    @property
    def size(self) -> int:
        """The bytes that wait for the end of their event."""
        return self._data_size + self._line_size

    def feed(self, content: bytes) -> Iterator[bytes | int]:
        """The data of the events that `content` ends, and the size of each that is too long."""
        if not content:
            return
        if self._after_return:
            content = content.removeprefix(b"\n")  # the carriage return has ended the line
        self._after_return = content.endswith(b"\r")
        *lines, rest = _LINE_END.split(content)
        for part in lines:
            self._add(part)
            yield from self._end_line()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._line_size += len(part)
        if self.size <= self._most:
            self._line.append(part)
        else:
            self._line = []

    def _end_line(self) -> Iterator[bytes | int]:
        line, size = b"".join(self._line), self._line_size
        self._line, self._line_size = [], 0
        if self._first:
            line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not size:
            if self._cut:
                yield self._data_size
            elif self._data:
                yield b"\n".join(self._data)
            self._data, self._data_size, self._cut = [], 0, False
            return
        field, _, value = line.partition(b":")
        if not line:
            self._data, self._cut = [], True
        elif field != b"data":
            return
        elif not self._cut:
            self._data.append(value.removeprefix(b" "))
        self._data_size += size


class BodyReader:
    """Shows the messages in the bodies of one direction.

    Args:
        side: Who sends them, `client` or `server`.
        connection: The name of the connection.
    """

    def __init__(self, side: str, connection: str, observe: Observer, lost: Lost) -> None:
        self._side, self._connection = side, connection
        self._observe, self._lost = observe, lost
        self._begin(None)

    def take(self, part: HttpPart) -> None:
        """Shows the messages that `part` completes."""
        if part.unread and part.data:
            self._lost(self._side, len(part.data))
        if part.head is not None:
            self._begin(part.head)
        if part.content and self._kind:
            self._add(part.content)
        if part.last:
            if self._kind == JSON and self._data:
                self._observe(self._side, b"".join(self._data), self._connection)
                self._unshown = 0
            self.end()

    def end(self) -> None:
        """Counts what has not been shown of a body that has ended, or is cut off."""
        left = self._unshown + self._events.size
        if left:
            self._lost(self._side, left)
        self._begin(None)

    def _begin(self, head: HttpHead | None) -> None:
        headers = {} if head is None else head.headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._kind = kind if kind in (JSON, EVENTS) else ""
        coding = headers.get("content-encoding", "identity").strip().lower()
        self._coded = coding != "identity"
        self._decoder = zlib.decompressobj(wbits=47) if coding in CODINGS else None  # gzip or zlib
        self._data: list[bytes] = []
        self._unshown = 0  # bytes of the body that are not shown, or not yet
        self._events = EventData()

    def _add(self, content: bytes) -> None:
        decoded = self._decode(content) if self._coded else content
        if decoded is None:
            self._unshown += len(content)
        elif self._kind == EVENTS:
            for message in self._events.feed(decoded):
                if isinstance(message, int):
                    self._lost(self._side, message)
                else:
                    self._observe(self._side, message, self._connection)
        elif decoded:
            self._unshown += len(decoded)
            if self._unshown <= MAX_SHOWN:
                self._data.append(decoded)
            else:
                self._data = []

    def _decode(self, content: bytes) -> bytes | None:
        """The bytes without their coding, or None where they cannot be read, as all that follows then."""
        if self._decoder is None:
            return None
        try:
            decoded = self._decoder.decompress(content, MAX_SHOWN)
        except zlib.error:
            decoded = None
        if decoded is None or self._decoder.unconsumed_tail:
            self._decoder, self._data = None, []
            return None
        return decoded
