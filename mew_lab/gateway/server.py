"""How is a gateway reached from other processes?  One port for WebSocket and HTTP, which prints nothing.

Every request passes the same door first: `Host` must name us, `Origin` must be configured. HTTP is the
same pipeline as WebSocket: what comes in is handed to the gateway, and what it says is the answer.

Spec: §5.2, §5.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, MutableMapping
from email.utils import formatdate
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from mew_lab.errors import ConfigError
from mew_lab.gateway.door import MISSING_BEARER, Hosts, Identity, bearer, whose
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits, Rates
from mew_lab.gateway.sockets import OVERSIZE, Sockets, refuse_upgrade
from mew_lab.gateway.wire import hang_up, silent
from mew_lab.protocol.envelope import MAX_MESSAGE
from mew_lab.protocol.token import mask

__all__ = ["Server"]

GRACE = 0.2  # seconds that clients have to answer a close before we hang up
LAST_REQUESTS = 0.12  # seconds that requests have to end before we hang up
LOGGERS = ("uvicorn.error", "uvicorn.access")
FEATURES = ("capabilities", "context", "validation", "http-io")
BAD_TOKEN = "Invalid token for participant"
NOT_AN_ENVELOPE = frozenset({"invalid_json", "invalid_envelope"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Awaitable[None]]

logger = logging.getLogger(__name__)


class _Uvicorn(uvicorn.Server):
    """uvicorn as a part of somebody else's process: no signal handlers, no clock that ticks while idle."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.leave = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        await self.leave.wait()


class _Muffle(logging.Filter):
    """Takes what the server library logs about our server to our logger; others' servers keep theirs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            if asyncio.get_running_loop() is not self._loop:
                return True
        except RuntimeError:
            return True
        if record.exc_info or record.levelno >= logging.CRITICAL:
            logger.error("%s", mask(logging.Formatter().format(record)))
        return False


class Server:
    """One port of one gateway. To be used on the gateway's own event loop.

    Args:
        gateway: what is reached here.
        host: the address to listen on; other machines can reach it only where it is not a loopback one.
        port: 0 takes a free one.
        allowed_hosts: further names that `Host` may hold, each good with any port unless it has one.
        allowed_origins: web pages that may come here, such as `http://localhost:8888`; none unless named.
        limits: what everybody is granted.

    Spec: §5.2, §5.3.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        limits: Limits = Limits(),  # noqa: B008  frozen
    ) -> None:
        self.host = host
        self.port = port
        self._gateway = gateway
        self._limits = limits
        self._allowed_hosts = tuple(allowed_hosts)
        self._origins = frozenset(one.lower() for one in allowed_origins)
        self._rates = Rates(limits)
        self._sockets = Sockets(gateway, limits=limits, rates=self._rates)
        self._hosts = Hosts(port)
        self._uvicorn: _Uvicorn | None = None
        self._running: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._muffle: _Muffle | None = None
        self._started = 0.0
        self._routes = Starlette(
            routes=[
                Route("/ws", self._not_upgraded),
                Route("/health", self._health),
                Route("/participants", self._participants),
                Route("/participants/{id}/messages", self._post, methods=["POST"]),
            ],
            exception_handlers={HTTPException: _as_json},
        )

    # --- start and stop ---

    async def start(self) -> int:
        """Listens; returns the port.

        Raises:
            ConfigError: when nobody can listen there.
        """
        if self._uvicorn is not None:
            raise RuntimeError("a server starts once; make another one")
        listener = self._bind()
        self.port = listener.getsockname()[1]
        at = {"0.0.0.0": "localhost", "::": "localhost"}.get(self.host, self.host)
        at = f"[{at}]" if ":" in at else at
        self._gateway.connection_url = f"ws://{at}:{self.port}/ws"
        self._hosts = Hosts(self.port, allowed=self._allowed_hosts, bound=self.host)
        limits = (self._gateway.message_bytes(space) for space in self._gateway.spaces)
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                self,
                http="h11",
                ws="websockets-sansio",
                ws_max_size=OVERSIZE * max(limits, default=MAX_MESSAGE),
                ws_per_message_deflate=False,
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        loop = asyncio.get_running_loop()
        self._muffle = _Muffle(loop)
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self._muffle)
        self._started = time.monotonic()
        running = loop.create_task(self._uvicorn.serve(sockets=[listener]))
        listening = loop.create_task(self._uvicorn.listening.wait())
        await asyncio.wait({running, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            listening.cancel()
            listener.close()
            self._unmuffle()
            await running  # raises what went wrong
        self._running = running
        self._sweeping = loop.create_task(self._sweep(self._uvicorn))
        return self.port

    async def stop(self) -> None:
        """Closes every WebSocket (1012), frees the port, leaves nothing behind. Twice is harmless."""
        server, running, sweeping = self._uvicorn, self._running, self._sweeping
        if server is None or running is None or sweeping is None:
            return
        self._running = None
        sweeping.cancel()
        await self._sockets.stop(within=GRACE)
        server.leave.set()
        await asyncio.wait({running}, timeout=LAST_REQUESTS)
        hang_up(server.server_state.connections)
        await running
        self._unmuffle()

    def _unmuffle(self) -> None:
        for name in LOGGERS:
            if self._muffle is not None:
                logging.getLogger(name).removeFilter(self._muffle)

    def _bind(self) -> socket.socket:
        at = f"port {self.port} of {self.host}"
        try:
            family, kind, proto, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind, proto)
        except OSError as fault:
            raise ConfigError(f"the gateway cannot listen on {at}: {fault.strerror}", key="host") from None
        try:
            if os.name == "posix":  # elsewhere it would let two servers share one port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError as fault:
            listener.close()
            if fault.errno == errno.EADDRINUSE:
                said = f"{at} is in use already; choose another port, or 0 for any free one"
            else:
                said = f"the gateway cannot listen on {at}: {fault.strerror}"
            raise ConfigError(said, key="port") from None
        listener.setblocking(False)
        return listener

    async def _sweep(self, server: _Uvicorn) -> None:
        """Hangs up on sockets that connect and then say nothing."""
        before: set[object] = set()
        while True:
            await asyncio.sleep(self._limits.first_frame)
            now = silent(server.server_state.connections)
            hang_up(now & before)
            before = now

    # --- requests ---

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request, as ASGI hands it over."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        no = self._turned_away(headers)
        if scope["type"] == "websocket":
            if no:
                return await refuse_upgrade(send, *no)
            return await self._sockets.serve(headers, scope["query_string"].decode("latin-1"), receive, send)
        if no:
            return await _no(*no)(scope, receive, send)
        return await self._routes(scope, receive, send)

    def _turned_away(self, headers: Mapping[str, str]) -> tuple[int, str, str] | None:
        """Status and words for who must not come in at all, before anything else is looked at.

        Spec: §5.2 (rulings on hosts and origins).
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return (
                421,
                "misdirected_request",
                f"this gateway is not {host[:80]!r}; name it by its own address",
            )
        if origin is not None and origin.lower() not in self._origins:
            return 403, "origin_not_allowed", f"pages of {origin[:80]!r} may not use this gateway"
        return None

    async def _not_upgraded(self, request: Request) -> JSONResponse:
        return _no(426, "upgrade_required", "this is a WebSocket address", upgrade="websocket")

    async def _health(self, request: Request) -> JSONResponse:
        return _yes(
            {
                "status": "ok",
                "spaces": len(self._gateway.spaces),
                "clients": self._gateway.connections(),
                "uptime": round(time.monotonic() - self._started, 1),
                "features": FEATURES,
            }
        )

    async def _participants(self, request: Request) -> JSONResponse:
        identity = await self._identity(request)
        return _yes({"participants": self._gateway.participants(identity.space)})

    async def _post(self, request: Request) -> JSONResponse:
        """One message by HTTP.

        Spec: §5.3.
        """
        space, participant = await self._identity(request)
        name = request.path_params["id"]
        if self._gateway.logical(space, name) != participant:
            raise HTTPException(403, BAD_TOKEN)
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise HTTPException(415, "Content-Type must be application/json")
        body = await self._body(request, limit=OVERSIZE * self._gateway.message_bytes(space))
        now = asyncio.get_running_loop().time()
        if not self._rates.of(space, participant, now).take(now):
            return _no(429, "limit_exceeded", "too many messages in too short a time; send slower")
        status, said, _ = self._gateway.post(space, name, body)
        await asyncio.sleep(0)  # outboxes write at the end of a turn, and the answer is to come last
        if said.get("code") in NOT_AN_ENVELOPE:  # here the peers' answer is the sentence itself
            said = {**said, "error": said["message"]}
        return _yes(said, status=status)

    async def _identity(self, request: Request) -> Identity:
        token = bearer(request.headers.get("authorization"))
        if token is None:
            raise HTTPException(401, MISSING_BEARER, {"www-authenticate": "Bearer"})
        asked = request.query_params.get("space", "")
        identity = whose(self._gateway.tokens, token, spaces=self._gateway.spaces, asked=asked)
        if identity is None:
            await self._sockets.refusal_delay()
            raise HTTPException(403, BAD_TOKEN)
        return identity

    async def _body(self, request: Request, *, limit: int) -> str | bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body):
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        raise HTTPException(413, f"a message of over {limit} bytes")
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {self._limits.body:g} s") from None
        except ClientDisconnect:
            raise HTTPException(400, "the body ended early") from None
        body = b"".join(parts)
        try:
            return body.decode()
        except UnicodeDecodeError:
            return body  # the space says what is wrong with it


def _yes(body: Mapping[str, Any], *, status: int = 200, **headers: str) -> JSONResponse:
    return JSONResponse(body, status, {"date": formatdate(usegmt=True), **headers})


def _no(status: int, error: str, message: str = "", **headers: str) -> JSONResponse:
    """A refusal; the connection closes after it, so that a body which nobody reads holds nothing up."""
    body = {"error": error, "message": message} if message else {"error": error}
    return _yes(body, status=status, connection="close", **headers)


async def _as_json(request: Request, fault: Exception) -> JSONResponse:
    assert isinstance(fault, HTTPException)
    return _no(fault.status_code, fault.detail, **(fault.headers or {}))
