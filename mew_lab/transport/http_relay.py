"""Relays HTTP connections to one server, byte for byte but for the name of the host, and shows the bodies as they pass.

Each connection of a client gets one to the server. The `Host` of each request becomes that of the server, because a
server refuses requests for another; nothing else is changed, and what is no HTTP/1.1 passes as it is. Bodies are shown
to an observer: each JSON body, and each event of an event stream, as one message. Headers are never shown.

Spec: RFC 9112; MCP transports, streamable HTTP.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from mew_lab.errors import ConfigError
from mew_lab.transport.http_stream import HttpHead, HttpPart, HttpStream

__all__ = ["EventData", "HttpRelay"]

CHUNK: Final = 65_536  # bytes
MAX_SHOWN: Final = (
    4 * 1024 * 1024 + 1
)  # bytes of one message; of a longer one only the number of bytes is told
BODIES: Final = ("application/json", "text/event-stream")

Observer = Callable[[str, bytes, str], None]
"""Called with the side, the message and the connection that it came on."""

Lost = Callable[[str, int], None]
"""Called with the side and the number of bytes of a message that cannot be shown."""


class EventData:
    """The data of the events in an event stream, each when the event is complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, content: bytes) -> list[bytes]:
        """The data of the events that `content` ends."""
        *lines, self._rest = (self._rest + content).replace(b"\r\n", b"\n").split(b"\n")
        found = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line.strip(b"\r") and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found

    @property
    def size(self) -> int:
        """The bytes that wait for the end of their event."""
        return len(self._rest) + sum(map(len, self._data))

    def clear(self) -> None:
        """Forgets the event that has begun."""
        self._rest, self._data = b"", []


class _Body:
    """Shows the messages in the body of one HTTP message."""

    def __init__(self, side: str, connection: str, observe: Observer, lost: Lost) -> None:
        self._side, self._connection = side, connection
        self._observe, self._lost = observe, lost
        self._kind = ""
        self._data = b""
        self._size = 0
        self._events = EventData()

    def take(self, part: HttpPart) -> None:
        if part.unread:
            self._lost(self._side, len(part.data))
        if part.head is not None:
            self._begin(part.head)
        if part.content and self._kind:
            self._size += len(part.content)
            if self._kind == "text/event-stream":
                for message in self._events.feed(part.content):
                    self._observe(self._side, message, self._connection)
                if self._events.size > MAX_SHOWN:
                    self._lost(self._side, self._events.size)
                    self._events.clear()
            elif self._size <= MAX_SHOWN:
                self._data += part.content
        if part.last and self._kind == "application/json":
            if self._size > MAX_SHOWN:
                self._lost(self._side, self._size)
            elif self._data:
                self._observe(self._side, self._data, self._connection)
        if part.last and self._kind == "unknown" and self._size:
            self._lost(self._side, self._size)
        if part.last:
            self._kind = ""

    def _begin(self, head: HttpHead) -> None:
        kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._kind = kind if kind in BODIES else ""
        if self._kind and head.headers.get("content-encoding", "identity").lower() != "identity":
            self._kind = "unknown"
        self._data, self._size = b"", 0
        self._events = EventData()


class HttpRelay:
    """A relay that listens on `host` and `port` and passes all to the server at `to`; `async with` listens.

    Raises:
        ConfigError: when `to` is no address of HTTP, or when the port cannot be listened on.
    """

    def __init__(self, host: str, port: int, to: str, observe: Observer, lost: Lost) -> None:
        try:
            parts = urlsplit(to)
            there = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            parts, there = urlsplit(""), 0
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"Cannot relay to {to!r}: name an address such as http://127.0.0.1:8000/mcp", key="to"
            )
        self.host, self.port, self.path = host, port, parts.path
        self._there = (parts.hostname, there)
        self._authority = parts.netloc.rpartition("@")[2]
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._observe, self._lost = observe, lost
        self._count = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.path}"

    async def __aenter__(self) -> HttpRelay:
        try:
            self._server = await asyncio.start_server(self._connect, self.host, self.port, limit=CHUNK)
        except (OSError, OverflowError) as fault:
            raise ConfigError(f"Cannot listen on {self.host}:{self.port}: {fault}", key="listen") from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *fault: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self._count += 1
        try:
            await self._relay(reader, writer, f"h{self._count}")
        except (OSError, ssl.SSLError):
            pass  # the client sees the end of its connection, as from the server itself
        finally:
            self._open.discard(task)
            writer.close()

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: str
    ) -> None:
        host, port = self._there
        from_server, to_server = await asyncio.open_connection(host, port, ssl=self._tls, limit=CHUNK)
        requests, responses = HttpStream(responses=False), HttpStream(responses=True)
        asked = _Body("client", connection, self._observe, self._lost)
        answered = _Body("server", connection, self._observe, self._lost)

        def pass_request(part: HttpPart) -> bytes:
            asked.take(part)
            if part.head is None:
                return part.data
            responses.methods.append(part.head.first.partition(" ")[0])
            return _with_host(part.data, self._authority)

        def pass_response(part: HttpPart) -> bytes:
            answered.take(part)
            return part.data

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, to_server, requests, pass_request))
                group.create_task(_pump(from_server, writer, responses, pass_response))
        except* OSError:
            pass
        finally:
            to_server.close()
            with suppress(OSError, ssl.SSLError):
                await to_server.wait_closed()


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stream: HttpStream,
    show: Callable[[HttpPart], bytes],
) -> None:
    while data := await reader.read(CHUNK):
        for part in stream.feed(data):
            writer.write(show(part))
        await writer.drain()
    for part in stream.end():
        writer.write(show(part))
    await writer.drain()
    with suppress(OSError, NotImplementedError):
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()


def _with_host(head: bytes, authority: str) -> bytes:
    """The head of a request with another `Host`; every other byte stays."""
    lines = head.split(b"\r\n")
    for n, line in enumerate(lines[1:], 1):
        if line[:5].lower() == b"host:":
            lines[n] = line[:5] + b" " + authority.encode()
    return b"\r\n".join(lines)
