"""How does an MCP client reach an agent of tools?  As an MCP server, over stdio or over HTTP on this machine.

Both eras of the protocol are spoken: the handshake and the stateless one. What is listed, called and said of itself
is the agent's own (`member`), the same as in a space; arguments and faults are its business, too, because the
library neither checks the ones nor words the others. On stdout stands nothing but the protocol.

Spec: tools-agent.md "MCP Server Project", TA-51 to TA-54.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import Mapping
from typing import Any, cast

import mcp.server.stdio
from mcp import MCPError, types
from mcp.server.lowlevel import Server

from mew_lab.errors import ConfigError
from mew_lab.gateway.admission import MISSING_BEARER, Hosts, bearer
from mew_lab.gateway.server import Uvicorn, settings
from mew_lab.gateway.wire import hang_up
from mew_lab.protocol.token import Token
from mew_lab.sdk.tools import RpcError
from mew_lab.tools_agent.member import ToolsAgent

__all__ = ["HttpServer", "mcp_server", "serve_stdio"]

logger = logging.getLogger(__name__)
HOST = "127.0.0.1"
PATH = "/mcp"
SESSIONS = 64  # at once
IDLE = 600.0  # seconds after which a session without a request ends
CONNECTIONS = 256  # and requests at once
MAX_BODY = 4 * 1024 * 1024  # bytes of one request
CHUNK = 1 << 16
LAST_REQUESTS = 0.2  # seconds that requests have to end
TELL_EVERY = 10.0  # seconds between two lines about wrong tokens
ENDS_WITHIN = 5.0  # seconds


def mcp_server(agent: ToolsAgent) -> Server[Any]:
    """The agent as a server of the MCP library, to be run over any of its transports. Spec: T-1, T-3."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        listed = await agent.answer("tools/list", {})
        return types.ListToolsResult.model_validate(listed)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            done = await agent.call(params.name, params.arguments)
        except RpcError as fault:
            raise MCPError(fault.code, fault.message, data=fault.data) from None
        return types.CallToolResult.model_validate(done.result)

    told = agent.initialized()
    return Server(
        told["serverInfo"]["name"],
        version=told["serverInfo"]["version"],
        instructions=told.get("instructions"),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(agent: ToolsAgent, *, ended: asyncio.Event) -> None:
    """Serves one client on stdin and stdout, until it closes stdin or `ended` is set.

    While it serves, whatever is printed goes to stderr.
    """
    server = mcp_server(agent)

    async def serve() -> None:
        lines = cast(Any, _Lines(0))
        async with mcp.server.stdio.stdio_server(stdin=lines) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    loop = asyncio.get_running_loop()
    serving, ending = loop.create_task(serve()), loop.create_task(ended.wait())
    try:
        await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (serving, ending):
            task.cancel()
        await asyncio.gather(serving, ending, return_exceptions=True)
    if not serving.cancelled() and (fault := serving.exception()) is not None:
        raise fault


class HttpServer:
    """The agent as a streamable HTTP server on 127.0.0.1; `async with` listens, and ends all connections.

    `url` is where clients find it. Requests for other hosts, and those of web pages, are refused.

    Args:
        token: what every request must show as a bearer.
        port: 0 takes a free one.
        sessions: how many there may be at once.
        idle: seconds after which a session without a request ends.

    Raises:
        ConfigError: on entering, when nobody can listen there.
    """

    def __init__(
        self,
        agent: ToolsAgent,
        *,
        token: Token,
        port: int = 0,
        sessions: int = SESSIONS,
        idle: float = IDLE,
    ) -> None:
        self.port = port
        self._token = token
        self._wrong = 0  # wrong tokens since that was logged
        self._tell_at = 0.0
        self._hosts = Hosts(port)
        self._app = mcp_server(agent).streamable_http_app(
            streamable_http_path=PATH,
            host=HOST,
            max_request_body_size=MAX_BODY,
            max_sessions=sessions,
            session_idle_timeout=idle,
        )
        self._uvicorn: Uvicorn | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self.port}{PATH}"

    async def __aenter__(self) -> HttpServer:
        listener = socket.socket()
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, self.port))
        except (OSError, OverflowError) as fault:
            listener.close()
            raise ConfigError(f"cannot listen on port {self.port} of {HOST}: {fault}", key="port") from None
        self.port = listener.getsockname()[1]
        self._hosts = Hosts(self.port)
        config = settings(self, message_bytes=MAX_BODY)
        config.limit_concurrency = CONNECTIONS
        config.lifespan = "on"  # the library's sessions live in it
        self._uvicorn = Uvicorn(config)
        loop = asyncio.get_running_loop()
        self._running = loop.create_task(self._uvicorn.serve(sockets=[listener]))
        listening = loop.create_task(self._uvicorn.listening.wait())
        await asyncio.wait({self._running, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._running.done():
            listener.close()
            await self._running
        return self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, as ASGI hands it over: only who names us, is no web page and shows the token comes further."""
        no = None
        if scope["type"] == "http":
            headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
            no = self._turned_away(headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if no is not None:
            await _refuse(send, *no)
        else:
            await self._app(scope, receive, send)

    def _turned_away(self, headers: Mapping[str, str]) -> tuple[int, str, str] | None:
        """Status, code and words for who may not come in. No web page may: none is configured."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return 421, "misdirected_request", f"this server is not {host[:80]!r}; name it by its own address"
        if origin is not None:
            return 403, "origin_not_allowed", f"pages of {origin[:80]!r} may not use this server"
        shown = bearer(headers.get("authorization"))
        if shown is None:
            return (
                401,
                MISSING_BEARER,
                "send Authorization: Bearer and the token of the file that serve names",
            )
        if shown != self._token:
            self._tell_wrong()
            return 401, "invalid_token", "this is not the token of the file that serve names"
        return None

    def _tell_wrong(self) -> None:
        """Logs that a wrong token was shown, at most once in `TELL_EVERY` seconds, without it."""
        self._wrong += 1
        now = asyncio.get_running_loop().time()
        if now >= self._tell_at:
            self._tell_at = now + TELL_EVERY
            logger.warning("requests with a wrong token, refused since the last such line: %d", self._wrong)
            self._wrong = 0

    async def __aexit__(self, *fault: object) -> None:
        server, running = self._uvicorn, self._running
        if server is not None and running is not None:
            server.leave.set()
            await asyncio.wait({running}, timeout=LAST_REQUESTS)
            hang_up(server.server_state.connections)  # a client that only listens would hold it up
            await asyncio.wait({running}, timeout=ENDS_WITHIN)


async def _refuse(send: Any, status: int, error: str, message: str) -> None:
    body = json.dumps({"error": error, "message": message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *([(b"www-authenticate", b"Bearer")] if status == 401 else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Lines:
    """The lines of a file descriptor. A thread reads, so that no reader has to be waited for at the end."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._coming: asyncio.Queue[bytes] = asyncio.Queue()
        self._rest = b""
        descriptor = os.dup(descriptor)
        threading.Thread(target=self._read, args=(descriptor,), name="mew-lab-stdin", daemon=True).start()

    def _read(self, descriptor: int) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: the loop is closed
            while data := os.read(descriptor, CHUNK):
                self._loop.call_soon_threadsafe(self._coming.put_nowait, data)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._coming.put_nowait, b"")

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        while b"\n" not in self._rest:
            data = await self._coming.get()
            if not data or len(self._rest) > MAX_BODY:
                raise StopAsyncIteration
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", errors="replace") + "\n"
