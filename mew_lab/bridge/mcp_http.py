"""Serves an MCP surface over HTTP on this machine: one port on 127.0.0.1, for clients that have its token.

All MCP surfaces use this HTTP server. A request passes three checks before it reaches the MCP library: `Host` must name
this server, no web page may have sent it (`Origin`), and its bearer must be the token.

Spec: tools-agent.md "MCP Server Project", TA-51 to TA-54; threat 40.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from mcp.server.lowlevel import Server

from mew_lab.bridge.delivery import ANSWER_DELIVERY, SESSION_HEADER, AnswerDelivery, ClientSession
from mew_lab.bridge.mcp_server import MAX_REQUEST
from mew_lab.gateway.admission import MISSING_BEARER, Hosts, bearer
from mew_lab.gateway.http_server import HttpServer, admit
from mew_lab.protocol.token import Token
from mew_lab.transport.listener import LimitedLog

__all__ = ["McpHttpServer"]

logger = logging.getLogger(__name__)
HOST = "127.0.0.1"
PATH = "/mcp"
SESSIONS = 64  # at once
IDLE = 600.0  # seconds after which a session without a request ends
REQUESTS = 256  # admitted ones at once
LAST_REQUESTS = 0.2  # seconds that requests have to end


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
        self._log = LimitedLog(logger)
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
        self._requests = 0  # admitted and not answered
        # The lifespan holds the sessions of the library.
        self._server = HttpServer(self, frame_bytes=MAX_REQUEST, lifespan=True)

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://{HOST}:{self.port}{PATH}"

    async def __aenter__(self) -> McpHttpServer:
        self.port = self._server.bind(HOST, self.port)
        self._hosts = Hosts(self.port)
        await self._server.start()
        return self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request (ASGI); it goes to the MCP library when it passes the three checks."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        refusal = self._check(headers)
        if refusal is None and self._requests >= REQUESTS:
            refusal = 503, "limit_exceeded", f"{REQUESTS} requests wait for their answer; try again later"
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        admit(scope)
        self._requests += 1
        try:
            session = self._sessions.get(headers.get(SESSION_HEADER, ""))
            delivery = scope[ANSWER_DELIVERY] = AnswerDelivery(
                receive, send, session=session, on_session=self._note_session
            )
            ends = scope["method"] == "DELETE"
            with session.exchange(delivery, ends=ends) if session is not None else nullcontext():
                await self._app(scope, delivery.receive, delivery.send)
        finally:
            self._requests -= 1

    def _note_session(self, id: str) -> None:
        """Notes a session that the library has opened, and forgets those that are over. A broken one may come back."""
        if id not in self._sessions:
            self._sessions = {id: known for id, known in self._sessions.items() if not known.is_over}
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
            self._log.warn("requests with a wrong token, refused since the last such line: %d")
            return 401, "invalid_token", f"this is not {self._token_name}"
        return None

    async def __aexit__(self, *fault: object) -> None:
        await self._server.stop(within=LAST_REQUESTS)


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
