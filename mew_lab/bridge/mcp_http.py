"""Serves an MCP surface over HTTP on this machine: one port on 127.0.0.1, for clients that have its token.

All MCP surfaces use this HTTP server. A request passes three checks before it reaches the MCP library: `Host` must name
this server, no web page may have sent it (`Origin`), and its bearer must be the token.

Spec: tools-agent.md "MCP Server Project", TA-51 to TA-54; threat 40.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from mcp.server.lowlevel import Server

from mew_lab.bridge.delivery import ANSWER_DELIVERY, SESSION_HEADER, AnswerDelivery, ClientSession
from mew_lab.bridge.mcp_server import MAX_REQUEST
from mew_lab.errors import ConfigError
from mew_lab.gateway.admission import MISSING_BEARER, Hosts, bearer
from mew_lab.gateway.server import Uvicorn, settings
from mew_lab.gateway.wire import hang_up
from mew_lab.protocol.token import Token

__all__ = ["McpHttpServer"]

logger = logging.getLogger(__name__)
HOST = "127.0.0.1"
PATH = "/mcp"
SESSIONS = 64  # at once
IDLE = 600.0  # seconds after which a session without a request ends
CONNECTIONS = 256  # and requests at once
LAST_REQUESTS = 0.2  # seconds that requests have to end
WRONG_TOKEN_LOG_INTERVAL = 10.0  # seconds between two lines about wrong tokens
ENDS_WITHIN = 5.0  # seconds


class McpHttpServer:
    """A streamable HTTP server of MCP on 127.0.0.1; `async with` listens, and ends all connections.

    `url` is its address for clients. Requests for other hosts, and those of web pages, are refused.

    Args:
        server: the server of the MCP library that answers the requests; `mcp_server` makes one of a surface.
        token: the bearer that every request must have.
        token_name: the description of the token in the answer to a request without it.
        port: 0 takes a free one.
        sessions: the maximum number of sessions at once.
        idle: seconds after which a session without a request ends.

    Raises:
        ConfigError: on entering, when the port cannot be listened on.
    """

    def __init__(
        self,
        server: Server[Any],
        *,
        token: Token,
        token_name: str = "the token of this server",
        port: int = 0,
        sessions: int = SESSIONS,
        idle: float = IDLE,
    ) -> None:
        self.port = port
        self._token = token
        self._token_name = token_name
        self._wrong_tokens = 0  # since the last line of the log
        self._log_wrong_at = 0.0
        self._hosts = Hosts(port)
        self._idle = idle
        self._sessions: dict[str, ClientSession] = {}  # those that the library has opened, by id
        self._app = server.streamable_http_app(
            streamable_http_path=PATH,
            host=HOST,
            max_request_body_size=MAX_REQUEST,
            max_sessions=sessions,
            session_idle_timeout=idle,
        )
        self._uvicorn: Uvicorn | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://{HOST}:{self.port}{PATH}"

    async def __aenter__(self) -> McpHttpServer:
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
        config = settings(self, message_bytes=MAX_REQUEST)
        config.limit_concurrency = CONNECTIONS
        config.lifespan = "on"  # it holds the sessions of the library
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
        """Answers one request (ASGI); it goes to the MCP library when it passes the three checks."""
        refusal = None
        headers: dict[str, str] = {}
        if scope["type"] == "http":
            headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
            refusal = self._check(headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if refusal is not None:
            await _refuse(send, *refusal)
        else:
            session = self._sessions.get(headers.get(SESSION_HEADER, ""))
            delivery = scope[ANSWER_DELIVERY] = AnswerDelivery(
                receive, send, session=session, on_session=self._note_session
            )
            ends = scope.get("method") == "DELETE"
            with session.exchange(delivery, ends=ends) if session is not None else nullcontext():
                await self._app(scope, delivery.receive, delivery.send)

    def _note_session(self, id: str) -> None:
        """Notes a session that the library has opened, and forgets those that are not live."""
        if id not in self._sessions:
            self._sessions = {id: known for id, known in self._sessions.items() if known.is_live}
            self._sessions[id] = ClientSession(idle=self._idle)

    def _check(self, headers: Mapping[str, str]) -> tuple[int, str, str] | None:
        """Status, code and sentence of a refusal; None accepts the request. No `Origin` is allowed."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return 421, "misdirected_request", f"this server is not {host[:80]!r}; name it by its own address"
        if origin is not None:
            return 403, "origin_not_allowed", f"pages of {origin[:80]!r} may not use this server"
        shown = bearer(headers.get("authorization"))
        if shown is None:
            return 401, MISSING_BEARER, f"send Authorization: Bearer and {self._token_name}"
        if shown != self._token:
            self._log_wrong_token()
            return 401, "invalid_token", f"this is not {self._token_name}"
        return None

    def _log_wrong_token(self) -> None:
        """Logs the use of a wrong token, without the token, at most once in `WRONG_TOKEN_LOG_INTERVAL` seconds."""
        self._wrong_tokens += 1
        now = asyncio.get_running_loop().time()
        if now >= self._log_wrong_at:
            self._log_wrong_at = now + WRONG_TOKEN_LOG_INTERVAL
            logger.warning(
                "requests with a wrong token, refused since the last such line: %d", self._wrong_tokens
            )
            self._wrong_tokens = 0

    async def __aexit__(self, *fault: object) -> None:
        server, running = self._uvicorn, self._running
        if server is not None and running is not None:
            server.leave.set()
            await asyncio.wait({running}, timeout=LAST_REQUESTS)
            hang_up(server.server_state.connections)  # a client that only reads would delay the end
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
