"""Serves an MCP surface over HTTP on this machine: one port on 127.0.0.1, for clients that have its token.

All MCP surfaces use this HTTP server. A request passes three checks before it reaches the MCP library: `Host` must name
this server, no web page may have sent it (`Origin`), and its bearer must be the token.

All clients have one token, so one of them could take the places of the others. A body counts as a request once it is
whole, and of the bodies that are not, the oldest makes room. So does the oldest stream, and the session that is used
least. A body of many values would hold the loop for seconds, and is refused unread. The requests of one session, and
those without one, take half of all at most, and sessions take turns.

Spec: tools-agent.md "MCP Server Project", TA-51 to TA-54; threat 40.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from mcp.server.lowlevel import Server

from mew_lab.bridge.delivery import ANSWER_DELIVERY, SESSION_HEADER, AnswerDelivery, ClientSession, first_of
from mew_lab.bridge.mcp_server import MAX_REQUEST
from mew_lab.bridge.message_reader import may_be_costly
from mew_lab.gateway.admission import MISSING_BEARER, Hosts, bearer
from mew_lab.gateway.http_server import HttpServer, admit, refuse
from mew_lab.protocol.token import Token
from mew_lab.transport.line_judge import MAX_CONTAINERS, MAX_VALUES
from mew_lab.transport.listener import SPARE, LimitedLog, descriptor_limit

__all__ = ["McpHttpServer"]

logger = logging.getLogger(__name__)
HOST = "127.0.0.1"
PATH = "/mcp"
SESSIONS = 64  # at once
IDLE = 600.0  # seconds after which a session without a request ends
REQUESTS = 256  # admitted ones at once, where descriptors suffice
BODIES = 16  # read at once
BODY = 0.1  # seconds that one has in any case
WAITING = 64 * 1024 * 1024  # bytes of all bodies that wait for their answer
SMALL = 64 * 1024  # bytes up to which a body is taken in any case
IN_A_TURN = 2  # requests handed to the library in one turn of the loop
EXACT = 1024 * 1024  # bytes of a body up to which the values in it are told from the characters of its texts
TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
STREAMS = 32  # of messages, without a session
STREAM = 1.0  # seconds that such a stream has in any case
LISTEN = "subscriptions/listen"  # the method with which such a stream begins
COSTLY = (
    413,
    "limit_exceeded",
    f"a request has at most {MAX_VALUES} values and names, and {MAX_CONTAINERS} lists and objects",
)
UNREAD = (
    503,
    "limit_exceeded",
    f"more than {BODIES} requests are not complete; send this one again, and at once",
)
LAST_REQUESTS = 0.2  # seconds that requests have to end


class _Turns:
    """Lets requests begin, so many in one turn of the loop: those of the session served least recently come first."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the session that is next comes first
        self._begun = 0  # in this turn

    async def wait(self, session: str) -> None:
        """Returns when a request of the session is to begin."""
        loop = asyncio.get_running_loop()
        if self._begun == 0:
            loop.call_soon(self._next)
        self._begun += 1
        if self._begun > IN_A_TURN:
            turn = loop.create_future()
            self._waiting.setdefault(session, deque()).append(turn)
            await turn

    def _next(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < IN_A_TURN:
            session = next(iter(self._waiting))
            turns = self._waiting.pop(session)
            turn = turns.popleft()
            if turns:
                self._waiting[session] = turns
            if not turn.done():
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next)


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
        self._most_sessions = sessions
        self._requests: Counter[str] = Counter()  # admitted and not answered, of each session
        self._bytes = 0  # of their bodies
        self._turns = _Turns()
        self._opening = 0  # requests that open a session
        # when each body began, by what ends it; the oldest first
        self._reading: dict[asyncio.Event, float] = {}
        # when those without a session began; the oldest first
        self._streams: dict[AnswerDelivery, float] = {}
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
        body = None
        if refusal is None:
            body = await self._read(receive)
            id = headers.get(SESSION_HEADER, "")
            listens = headers.get("mcp-method") == LISTEN and SESSION_HEADER not in headers
            id = id if id in self._sessions else LISTEN if listens else ""
            refusal = self._find_excess(id, body) if body is not None else UNREAD
        if refusal is not None:
            await refuse(send, *refusal)
            return
        admit(scope, None)
        opens = SESSION_HEADER not in headers and body is not None and b'"initialize"' in body
        self._requests[id] += 1
        self._bytes += (size := len(body or b""))
        self._opening += opens
        try:
            await self._turns.wait(id)
            if opens:
                await self._make_room(scope)
            await self._answer(scope, _replay(body, receive), send, id)
        finally:
            self._opening -= opens
            self._bytes -= size
            self._requests[id] -= 1
            if not self._requests[id]:
                del self._requests[id]

    async def _answer(self, scope: Any, receive: Any, send: Any, id: str) -> None:
        """Hands an admitted request to the MCP library."""
        session = self._sessions.get(id)
        listens = scope["method"] == "GET" or id == LISTEN
        delivery = scope[ANSWER_DELIVERY] = AnswerDelivery(
            receive, send, session=session, on_session=self._note_session, listens=listens
        )
        if id == LISTEN:
            if len(self._streams) >= STREAMS:
                oldest = next(iter(self._streams))
                del self._streams[oldest]
                oldest.end()
            self._streams[delivery] = asyncio.get_running_loop().time()
        try:
            ends = scope["method"] == "DELETE"
            with session.exchange(delivery, ends=ends) if session is not None else nullcontext():
                await self._app(scope, delivery.receive, delivery.send)
            await delivery.finish()
        finally:
            self._streams.pop(delivery, None)

    async def _read(self, receive: Any) -> bytes | None:
        """The whole body of a request; None where it made room for others, or its client has gone."""
        now = asyncio.get_running_loop().time()
        while len(self._reading) >= BODIES:
            oldest, since = next(iter(self._reading.items()))
            if now - since < BODY:
                break
            del self._reading[oldest]
            oldest.set()
        parts: list[bytes] = []
        size, more, ends = 0, True, asyncio.Event()
        self._reading[ends] = now
        try:
            while more:
                message = await first_of(receive(), ends)
                if message is None or message["type"] != "http.request":
                    return None
                parts.append(message.get("body", b""))
                size, more = size + len(parts[-1]), message.get("more_body", False)
                if size > MAX_REQUEST:
                    break  # the library refuses it by its size
        finally:
            self._reading.pop(ends, None)
        return b"".join(parts)

    def _find_excess(self, id: str, body: bytes) -> tuple[int, str, str] | None:
        """The refusal of one more request of a session; None where there is room for it."""
        size = len(body)
        if may_be_costly(body) and (size > EXACT or may_be_costly(TEXTS.sub(b"", body))):
            return COSTLY
        if id == LISTEN and len(self._streams) >= STREAMS:
            age = asyncio.get_running_loop().time() - next(iter(self._streams.values()))
            if age < STREAM or self._requests[id] > STREAMS:
                return _full(f"{STREAMS} streams are open")
        most = min(REQUESTS, (descriptor_limit() - SPARE) * 3 // 4)
        if self._requests.total() >= most:
            return _full(f"{most} requests wait for their answer")
        if size > SMALL and self._bytes + size > WAITING:
            return _full(f"requests of {WAITING} bytes wait for their answer")
        if self._requests[id] >= most // 2:
            what = "of this session" if id else "without a session"
            return _full(f"{most // 2} requests {what} wait for their answer")
        return None

    async def _make_room(self, scope: Any) -> None:
        """Ends the session that is used least where one more would be too many; none that waits for an answer."""
        live = {id: one for id, one in self._sessions.items() if not one.is_over}
        free = [id for id, one in live.items() if not one.is_asking]
        if len(live) + self._opening <= self._most_sessions or not free:
            return
        least = min(free, key=lambda id: live[id].rank)
        self._sessions.pop(least).end()
        self._log.warn("sessions ended to make room for others: %d")
        names = {SESSION_HEADER.encode(), b"content-length", b"transfer-encoding"}
        headers = [pair for pair in scope["headers"] if pair[0] not in names]
        headers += [(SESSION_HEADER.encode(), least.encode()), (b"content-length", b"0")]

        async def drop(message: Any) -> None: ...

        ending = {**scope, "method": "DELETE", "headers": headers}
        await self._app(ending, _replay(b"", _never), drop)

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


def _full(why: str) -> tuple[int, str, str]:
    return 503, "limit_exceeded", f"{why}; try again later"


def _replay(body: bytes | None, receive: Any) -> Any:
    """A `receive` (ASGI) that gives a body that was read, and then what comes behind it."""
    waiting = [{"type": "http.request", "body": body or b"", "more_body": False}]

    async def receive_again() -> Any:
        return waiting.pop() if waiting else await receive()

    return receive_again


async def _never() -> Any:
    await asyncio.Event().wait()
