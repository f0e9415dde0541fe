"""Connects to an MCP server at a URL by the official library, over connections with limits.

The library ends a whole session when one request meets a network fault, and parses each answer in one piece. Here a
fault is the error of its one request. An answer that is large or costly is judged, and kept as a file, as a line of a
process is (`message_reader`): the library gets a small message in its place.

Spec: MCP 2025-11-25 (transports).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from mew_lab.bridge.message_reader import MessageReader
from mew_lab.bridge.process import ENDLESS, LONGEST, GrowingLine, LineJudge
from mew_lab.bridge.remote import RemoteServer
from mew_lab.protocol.intake import OUTCOME_UNKNOWN
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.transport.line_judge import answered_id

__all__ = ["EventBody", "connect"]

UNREACHABLE = -32000
MAX_BODY = 8 * 1024 * 1024  # bytes of an error, and of an event as the library gets it
HELD_EVENT = 960 * 1024  # bytes of an event that are held over SSE, where the library takes at most 1 MiB
MAX_FIELD = 64 * 1024  # bytes of a line of an event that is no data
CONNECT_WITHIN = 20.0  # seconds; an answer may take as long as it takes, for a person may have to think
_LINE_END = re.compile(rb"\r\n|\n|\r")
_FIELDS = (b"event", b"id", b"retry")
ADVICE = {401: "; it may need a header such as Authorization", 403: "; its headers may not suffice"}


@asynccontextmanager
async def connect(server: RemoteServer, at_end: Callable[[], None]) -> AsyncIterator[Any]:
    """The streams of messages from and to the server.

    Args:
        at_end: called when the server has ended the session; `server.fault` tells how.
    """

    def client(*_: Any, **__: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers={**server.headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=CONNECT_WITHIN),
            transport=_BoundedTransport(server, at_end),
        )

    if server.transport == "sse":
        async with sse_client(server.url.reveal(), httpx_client_factory=client) as streams:
            yield streams
    else:
        async with (
            client() as http,
            streamable_http_client(
                server.url.reveal(), http_client=http, max_sse_event_size=MAX_BODY
            ) as streams,
        ):
            yield streams


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests; a fault of the network becomes an answer that has it as its JSON-RPC error."""

    def __init__(self, server: RemoteServer, at_end: Callable[[], None]) -> None:
        self._server = server
        self._at_end = at_end
        self._inner = httpx2.AsyncHTTPTransport()
        self._judge = LineJudge()
        self._shared = self._new_reader()  # over SSE, whose one stream has the answers to all requests
        self._ends: asyncio.Queue[bytes] = asyncio.Queue()  # events for that stream, of requests that failed

    def _new_reader(self) -> MessageReader:
        return MessageReader(self._server.spool, self._server.command_line, self._judge)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        over_sse = self._server.transport == "sse"
        reader = self._shared if over_sse else self._new_reader()
        message = None
        if request.method == "POST":
            message = types.jsonrpc_message_adapter.validate_json(await request.aread(), by_name=False)
            reader.note_sent(message)
        response = await self._send(request, reader)
        if not over_sse or message is None or response.status_code < 400:
            return response
        # The library would send nothing more after such an answer, and the request would never end.
        if isinstance(message, types.JSONRPCRequest):
            await self._end_request(message, response)
        else:
            await response.aclose()
        return httpx2.Response(202)

    async def _end_request(self, message: types.JSONRPCRequest, response: httpx2.Response) -> None:
        """Ends a request over SSE by an event with the error in a response, or with its status."""
        code = response.status_code
        if (found := await _read_error(response)) is None:
            failed = self._failed(f"answered with HTTP {code}{ADVICE.get(code, '')}", unknown=code >= 500)
            found = json.loads(failed.content)
        error = json.dumps({**found, "id": message.id}).encode()
        for text in await self._shared.read_texts(error, self._server.unread):
            self._ends.put_nowait(_write_event(text))

    async def _send(self, request: httpx2.Request, reader: MessageReader) -> httpx2.Response:
        over_sse = reader is self._shared
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as fault:
            unsent = isinstance(fault, httpx2.ConnectError | httpx2.ConnectTimeout)
            return self._failed(f"cannot be reached: {_reason(fault)}", unknown=not unsent)
        kind = response.headers.get("content-type", "").lower()
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            self._server.fault = "has ended the session"
            self._at_end()
        elif response.status_code >= 400 and not kind.startswith("application/json"):
            await response.aclose()
            code = response.status_code
            return self._failed(f"answered with HTTP {code}{ADVICE.get(code, '')}", code, unknown=code >= 500)
        elif response.status_code >= 500 and (found := await _read_error(response)) is None:
            code = response.status_code
            return self._failed(f"answered with HTTP {code}", code, unknown=True)
        elif response.status_code >= 500:
            return httpx2.Response(response.status_code, json=found)
        elif response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return self._failed("compressed its answer, and was asked not to", 502, unknown=True)
        else:
            self._server.fault = ""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        body = _Body(response.stream, None, self._at_end if request.method == "GET" and over_sse else None)
        if response.status_code < 300 and kind.startswith("text/event-stream"):
            held = HELD_EVENT if over_sse else LONGEST
            events = EventBody(body, reader, self._server, held=held)
            response.stream = _MergedEvents(events, self._ends) if over_sse else events
        elif response.status_code < 300 and kind.startswith("application/json"):
            response.stream = _Answer(body, reader, self._server)
        else:
            body.limit = MAX_BODY
            response.stream = body
        return response

    def _failed(self, how: str, status: int = 503, *, unknown: bool) -> httpx2.Response:
        """The answer in place of one; `unknown` where the server may have got the request and carried it out (R35)."""
        self._server.fault = one_line(mask(how), 300)
        error: dict[str, Any] = {
            "code": UNREACHABLE,
            "message": f"The MCP server {self._server.command_line} {self._server.fault}",
        }
        if unknown:
            error["data"] = {"code": OUTCOME_UNKNOWN}
        return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error})

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._judge.close()


async def _read_error(response: httpx2.Response) -> dict[str, Any] | None:
    """The JSON-RPC error in a response; None where it holds none that can be read."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Body(response.stream, MAX_BODY, None)
    try:
        found = json.loads(await response.aread())
    except (httpx2.StreamError, ValueError, RecursionError):
        return None
    finally:
        await response.aclose()
    return found if isinstance(found, dict) and isinstance(found.get("error"), dict) else None


class _Body(httpx2.AsyncByteStream):
    """The body of a response, of at most `limit` bytes; `at_end` is called when it has ended."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, limit: int | None, at_end: Callable[[], None] | None
    ) -> None:
        self.limit = limit
        self._inner = inner
        self._at_end = at_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._inner:
                size += len(chunk)
                if self.limit is not None and size > self.limit:
                    raise httpx2.StreamError(f"it has more than {self.limit} bytes")
                yield chunk
        except httpx2.TransportError as fault:
            raise httpx2.StreamError(f"the connection was lost: {_reason(fault)}") from None
        finally:
            if self._at_end is not None:
                self._at_end()

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Answer(httpx2.AsyncByteStream):
    """One answer in JSON, or the message that takes its place."""

    def __init__(self, body: _Body, reader: MessageReader, server: RemoteServer) -> None:
        self._body, self._reader, self._server = body, reader, server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line = GrowingLine(self._server.spool)
        try:
            async for chunk in self._body:
                line.add(chunk)
                _check_end(line)
            size = line.size
            texts = await self._reader.read_texts(line.take(), self._server.unread)
            if not texts:
                raise httpx2.StreamError(f"it has {size} bytes, and is no answer of MCP")
            # The library takes one message here. Of a batch that is the answer.
            yield texts[0] if len(texts) == 1 else max(texts, key=_is_answer)
        finally:
            line.drop()

    async def aclose(self) -> None:
        await self._body.aclose()


def _is_answer(text: bytes) -> bool:
    return answered_id(json.loads(text)) is not None


class EventBody(httpx2.AsyncByteStream):
    """A stream of server-sent events. The data of a large one, or of a costly one, is replaced.

    What no empty line ends is no event.

    Spec: HTML "Server-sent events" (parsing an event stream).
    """

    def __init__(
        self, body: httpx2.AsyncByteStream, reader: MessageReader, server: RemoteServer, *, held: int
    ) -> None:
        self._body, self._reader, self._server = body, reader, server
        self._line = b""  # the beginning of a line that is no data
        self._is_data = False  # whether the line goes on with data
        self._after_cr = False
        self._others: dict[bytes, bytes] = {}  # the other lines of the event, by the name of the field
        self._has_data = False
        self._data = GrowingLine(server.spool, held=held)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._body:
                async for event in self._take(chunk):
                    yield event
        finally:
            self._data.drop()

    async def aclose(self) -> None:
        await self._body.aclose()

    async def _take(self, chunk: bytes) -> AsyncIterator[bytes]:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        first, *more = _LINE_END.split(chunk)
        self._add(first)
        for piece in more:
            if self._end_line():
                async for event in self._end_event():
                    yield event
            self._add(piece)

    def _add(self, piece: bytes) -> None:
        if not self._is_data:
            self._line += piece
            if not self._line.startswith(b"data:"):
                if len(self._line) > MAX_FIELD:
                    raise httpx2.StreamError(f"a line of an event has more than {MAX_FIELD} bytes")
                return
            self._is_data, piece, self._line = True, self._line[5:], b""
            self._begin_data()
        self._data.add(piece)
        _check_end(self._data)

    def _begin_data(self) -> None:
        if self._has_data:
            self._data.add(b"\n")
        self._has_data = True

    def _end_line(self) -> bool:
        """Ends the line; whether an event ends with it. Of empty lines alone, a server may send any number."""
        is_empty = not self._line and not self._is_data
        if self._line == b"data":
            self._begin_data()
        elif (name := self._line.partition(b":")[0]) in _FIELDS:
            self._others[name] = self._line
        self._line, self._is_data = b"", False
        return is_empty and (self._has_data or bool(self._others))

    async def _end_event(self) -> AsyncIterator[bytes]:
        head = b"".join(field + b"\n" for field in self._others.values())
        texts: list[bytes] = []
        if self._has_data:
            texts = await self._reader.read_texts(self._data.take(), self._server.unread)
        self._others, self._has_data = {}, False
        if not texts:
            yield head + b"\n"
        for text in texts:
            yield head + _write_event(text)


class _MergedEvents(httpx2.AsyncByteStream):
    """A stream of events, and between them those that are made here."""

    def __init__(self, events: EventBody, made: asyncio.Queue[bytes]) -> None:
        self._events, self._made = events, made

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop, events = asyncio.get_running_loop(), aiter(self._events)

        async def read() -> bytes:
            return await anext(events, b"")

        coming, making = loop.create_task(read()), loop.create_task(self._made.get())
        try:
            while True:
                await asyncio.wait((coming, making), return_when=asyncio.FIRST_COMPLETED)
                if making.done():
                    yield making.result()
                    making = loop.create_task(self._made.get())
                elif event := coming.result():
                    yield event
                    coming = loop.create_task(read())
                else:
                    return
        finally:
            coming.cancel()
            making.cancel()
            await asyncio.gather(coming, making, return_exceptions=True)

    async def aclose(self) -> None:
        await self._events.aclose()


def _write_event(text: bytes) -> bytes:
    return b"".join(b"data:" + line + b"\n" for line in text.split(b"\n")) + b"\n"


def _check_end(line: GrowingLine) -> None:
    if line.size > ENDLESS:
        raise httpx2.StreamError(f"it has more than {ENDLESS} bytes")


def _reason(fault: Exception) -> str:
    return str(fault) or type(fault).__name__
