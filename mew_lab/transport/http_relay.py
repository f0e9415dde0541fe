"""Relays HTTP connections to one server, byte for byte but for the name of the host, and shows the bodies as they pass.

Each connection of a client gets one to the server. A `Host` that names this machine, as that of the relay does, becomes
the server's, because a server refuses requests for another; any other passes as it is, so that a server behind the relay
still refuses a page that has another name (DNS rebinding). Nothing else is changed, and what is no HTTP/1.1 passes as it
is. The messages in the bodies are shown to an observer.

The server decides who may do what. A connection is admitted from the end of a request to the end of its answer, or to
the head of an answer that refuses it; after an upgrade, from the first message of the server on. One that has not sent
the head of a request gets no connection to the server. When either end has left, so does the other: what the client has
not read by then has a time for that.

Spec: RFC 9112; MCP transports, streamable HTTP.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final
from urllib.parse import urlsplit

from mew_lab.errors import ConfigError
from mew_lab.transport.http_bodies import BodyReader, Lost, Observer
from mew_lab.transport.http_stream import HttpPart, HttpStream
from mew_lab.transport.listener import HANDLING, AcceptedConnection, Listener

__all__ = ["HttpRelay"]

CHUNK: Final = 65_536  # bytes
CONTROL: Final = 0x8  # opcodes of WebSocket frames from here on belong to no message (RFC 6455 §5.2)
OWN_HOSTS: Final = (b"localhost", b"127.0.0.1", b"[::1]")
_PORT: Final = re.compile(rb":[0-9]*$")


class _ClientProtocol(asyncio.StreamReaderProtocol):
    """The protocol of the connection of a client, which tells when that is gone in both directions."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        begin: Callable[
            [asyncio.StreamReader, asyncio.StreamWriter, asyncio.Event], Coroutine[Any, Any, None]
        ],
    ) -> None:
        self._lost = asyncio.Event()
        super().__init__(reader, lambda reader, writer: begin(reader, writer, self._lost))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost.set()


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
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or "@" in parts.netloc
            or set(";=%").intersection(parts.path)
            or parts.query
            or parts.fragment
        ):
            # It is not quoted: it may hold a user, a password or a key.
            raise ConfigError(
                "Cannot relay to that address: name one such as http://127.0.0.1:8000/mcp, without user, password, "
                "query and fragment, and with none of ; = % in its path; clients send their headers through the relay",
                key="to",
            )
        self.host, self.port, self.path = host, port, parts.path
        self._there = (parts.hostname, there)
        self._authority = parts.netloc
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._observe, self._lost = observe, lost
        self._count = 0
        self._listener: Listener | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.path}"

    async def __aenter__(self) -> HttpRelay:
        def make_protocol(connection: AcceptedConnection) -> asyncio.BaseProtocol:
            return _ClientProtocol(
                asyncio.StreamReader(limit=CHUNK), partial(self._connect, accepted=connection)
            )

        self._listener = Listener(self.host, self.port, descriptors=2)
        self.port = self._listener.port
        self._listener.start(make_protocol)
        return self

    async def __aexit__(self, *fault: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)
        await self._listener.wait_closed()

    async def _connect(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lost: asyncio.Event,
        accepted: AcceptedConnection,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self._count += 1
        try:
            await self._relay(reader, writer, lost, f"h{self._count}", accepted)
            accepted.answer(refused=True)
            accepted.handle()  # in this time the client takes the rest of its answer
            writer.close()
            await lost.wait()
        except (OSError, ssl.SSLError):
            pass  # the client sees the end of its connection, as from the server itself
        finally:
            self._open.discard(task)
            writer.transport.abort()
            accepted.lose()

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lost: asyncio.Event,
        connection: str,
        accepted: AcceptedConnection,
    ) -> None:
        host, port = self._there
        requests, responses = HttpStream(responses=False), HttpStream(responses=True)
        first = await _read_first(reader, requests)
        if not first:
            return
        accepted.handle()
        connecting = asyncio.ensure_future(asyncio.open_connection(host, port, ssl=self._tls, limit=CHUNK))
        leaving = asyncio.ensure_future(lost.wait())
        try:
            await asyncio.wait({connecting, leaving}, timeout=HANDLING, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not connecting.done():
                connecting.cancel()
        if not connecting.done():
            return
        from_server, to_server = connecting.result()
        asked = BodyReader("client", connection, self._observe, self._lost)
        answered = BodyReader("server", connection, self._observe, self._lost)
        upgraded = False

        def wait(*, refused: bool = False) -> None:
            accepted.answer(refused=refused)
            accepted.handle()

        def pass_request(part: HttpPart) -> bytes:
            asked.take(part)
            data = part.data
            if part.head is not None:
                responses.methods.append(part.head.first.partition(" ")[0])
                data = _with_host(data, self._authority)
            if part.last and responses.methods:
                accepted.admit()
            elif part.head is not None or (part.unread and not upgraded):
                accepted.handle()
            return data

        def pass_response(part: HttpPart) -> bytes:
            nonlocal upgraded
            answered.take(part)
            status = 0 if part.head is None else part.head.status
            if status == 101:
                upgraded = True
                accepted.answer(refused=True)
                accepted.handle(inf)  # the server has its own time for the first message
                for rest in requests.give_up():
                    to_server.write(pass_request(rest))
            elif status >= 400:
                wait(refused=True)
            elif status >= 200 or (part.unread and not (upgraded and part.data[0] & CONTROL)):
                accepted.admit()
            if part.last and status not in range(100, 200) and not responses.methods:
                wait()
            return part.data

        async def pass_responses() -> None:
            await _pump(from_server, writer, responses, pass_response)
            raise ConnectionResetError  # what the client still sends has no receiver

        async def await_end() -> None:
            await lost.wait()
            raise ConnectionResetError

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, to_server, requests, pass_request, first))
                group.create_task(pass_responses())
                group.create_task(await_end())
        except* OSError:
            pass
        finally:
            asked.end()
            answered.end()
            to_server.transport.abort()


async def _read_first(reader: asyncio.StreamReader, stream: HttpStream) -> list[HttpPart]:
    """The parts that come first, as soon as there are any; none of a client that leaves before."""
    while data := await reader.read(CHUNK):
        if parts := list(stream.feed(data)):
            return parts
    return list(stream.end())


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stream: HttpStream,
    show: Callable[[HttpPart], bytes],
    first: Iterable[HttpPart] = (),
) -> None:
    def write(parts: Iterable[HttpPart]) -> None:
        for part in parts:
            data = show(part)
            # a write to a closed transport is a fault of this program for some event loops
            if writer.is_closing():
                raise ConnectionResetError
            writer.write(data)

    write(first)
    while data := await reader.read(CHUNK):
        write(stream.feed(data))
        await writer.drain()
    write(stream.end())
    await writer.drain()
    with suppress(OSError, NotImplementedError):
        if not writer.is_closing() and writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()


def _with_host(head: bytes, authority: str) -> bytes:
    """The head of a request, in which a `Host` of this machine is replaced; every other byte stays."""
    lines = head.split(b"\r\n")
    for n, line in enumerate(lines[1:], 1):
        name, _, value = line.partition(b":")
        if name.lower() == b"host" and _PORT.sub(b"", value.strip()).lower() in OWN_HOSTS:
            lines[n] = name + b": " + authority.encode()
    return b"\r\n".join(lines)
