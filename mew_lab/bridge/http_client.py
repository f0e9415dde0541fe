"""Connects to an MCP server at a URL by the official library, over connections with limits.

The library ends a whole session when one request meets a network fault, and reads answers of any size. Here a fault
is the error of its one request, and an answer has a greatest size.

Spec: MCP 2025-11-25 (transports).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from mew_lab.bridge.remote import RemoteServer
from mew_lab.protocol.intake import OUTCOME_UNKNOWN
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line

__all__ = ["connect"]

UNREACHABLE = -32000
MAX_BODY = 8 * 1024 * 1024  # bytes of an answer, which the library parses on the loop
CONNECT_WITHIN = 20.0  # seconds; an answer may take as long as it takes, for a person may have to think
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

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
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
        session = request.method == "GET" and self._server.transport == "sse"
        limit = None if kind.startswith("text/event-stream") else MAX_BODY
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Body(response.stream, limit, self._at_end if session else None)
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
        self._inner = inner
        self._limit = limit
        self._at_end = at_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._inner:
                size += len(chunk)
                if self._limit is not None and size > self._limit:
                    raise httpx2.StreamError(f"it has more than {self._limit} bytes")
                yield chunk
        except httpx2.TransportError as fault:
            raise httpx2.StreamError(f"the connection was lost: {_reason(fault)}") from None
        finally:
            if self._at_end is not None:
                self._at_end()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _reason(fault: Exception) -> str:
    return str(fault) or type(fault).__name__
