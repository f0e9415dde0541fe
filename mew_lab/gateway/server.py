"""Serves a gateway to other processes on one port for WebSocket and HTTP; it prints nothing.

Every request passes the same two checks first: `Host` must name this gateway, `Origin` must be configured. After them
`sockets` and `routes` answer.

Spec: §5.2, §5.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import uvicorn

from mew_lab.errors import ConfigError
from mew_lab.gateway.admission import Hosts
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits, Rates
from mew_lab.gateway.protocol import DirectProtocol
from mew_lab.gateway.routes import Routes, refusal
from mew_lab.gateway.sockets import OVERSIZE, Sockets, refuse_upgrade
from mew_lab.gateway.wire import hang_up, silent
from mew_lab.protocol.envelope import MAX_MESSAGE
from mew_lab.protocol.token import mask

__all__ = ["Server", "Uvicorn", "settings"]

GRACE = 0.2  # seconds that clients have to answer a close before the socket is cut
LAST_REQUESTS = 0.12  # seconds that requests have to end before their socket is cut
LOGGERS = ("uvicorn.error", "uvicorn.access")
NO_UTF_8 = "Invalid UTF-8 sequence received from client."  # the fault of a peer, closed with 1007, not of this process

Message = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Awaitable[None]]

logger = logging.getLogger(__name__)


def settings(app: Callable[..., Any], *, message_bytes: int, ping: float = 20.0) -> uvicorn.Config:
    """The uvicorn settings of every server, for messages of this size and a ping every `ping` seconds."""
    return uvicorn.Config(
        app,
        http="h11",
        ws=DirectProtocol,
        ws_max_size=OVERSIZE * message_bytes,
        ws_per_message_deflate=False,
        ws_ping_interval=ping,
        ws_ping_timeout=ping,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
    )


class Uvicorn(uvicorn.Server):
    """uvicorn within another program's process: no signal handlers, no timer while idle."""

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


class _ServerLogFilter(logging.Filter):
    """Redirects the library's log records about this server to this module's logger, and no others."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            if asyncio.get_running_loop() is not self._loop:
                return True
        except RuntimeError:
            return True
        is_fault = record.exc_info or record.levelno >= logging.CRITICAL
        if is_fault and record.msg != NO_UTF_8:
            logger.error("%s", mask(logging.Formatter().format(record)))
        return False


class Server:
    """One port of one gateway. To be used on the gateway's own event loop.

    Args:
        gateway: the gateway that is served.
        host: the address to listen on; other machines can reach it unless it is a loopback address.
        port: 0 takes a free one.
        allowed_hosts: further names allowed in `Host`; one without a port matches any port.
        allowed_origins: web pages that may connect, such as `http://localhost:8888`; by default none.
        limits: the limits of connections, rates and times.

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
        self._origins = frozenset(origin.lower() for origin in allowed_origins)
        rates = Rates(limits)
        self._sockets = Sockets(gateway, limits=limits, rates=rates)
        self._routes = Routes(
            gateway,
            limits=limits,
            rates=rates,
            refusal_delay=self._sockets.refusal_delay,
            rotation=self._sockets.rotation,
        )
        self._hosts = Hosts(port)
        self._uvicorn: Uvicorn | None = None
        self._running: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._log_filter: _ServerLogFilter | None = None

    # --- start and stop ---

    async def start(self) -> int:
        """Listens; returns the port.

        Raises:
            ConfigError: when the address or port cannot be used.
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
        largest = max(limits, default=MAX_MESSAGE)
        self._uvicorn = Uvicorn(settings(self, message_bytes=largest, ping=self._limits.ping))
        loop = asyncio.get_running_loop()
        self._log_filter = _ServerLogFilter(loop)
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self._log_filter)
        running = loop.create_task(self._uvicorn.serve(sockets=[listener]))
        listening = loop.create_task(self._uvicorn.listening.wait())
        await asyncio.wait({running, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            listening.cancel()
            listener.close()
            self._remove_log_filter()
            await running  # raises the fault
        self._running = running
        self._sweeping = loop.create_task(self._sweep(self._uvicorn))
        return self.port

    async def stop(self) -> None:
        """Closes every WebSocket (1012) and frees the port. A second call does nothing."""
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
        self._remove_log_filter()

    def _remove_log_filter(self) -> None:
        for name in LOGGERS:
            if self._log_filter is not None:
                logging.getLogger(name).removeFilter(self._log_filter)

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
                message = f"{at} is in use already; choose another port, or 0 for any free one"
            else:
                message = f"the gateway cannot listen on {at}: {fault.strerror}"
            raise ConfigError(message, key="port") from None
        listener.setblocking(False)
        return listener

    async def _sweep(self, server: Uvicorn) -> None:
        """Closes sockets that connect and send no request."""
        before: set[object] = set()
        while True:
            await asyncio.sleep(self._limits.first_frame)
            now = silent(server.server_state.connections)
            hang_up(now & before)
            before = now

    # --- requests ---

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers one request (ASGI)."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._find_refusal(headers)
        if scope["type"] == "websocket":
            if refused:
                return await refuse_upgrade(send, *refused)
            return await self._sockets.serve(headers, scope["query_string"].decode("latin-1"), receive, send)
        if refused:
            return await refusal(*refused)(scope, receive, send)
        return await self._routes(scope, receive, send)

    def _find_refusal(self, headers: Mapping[str, str]) -> tuple[int, str, str] | None:
        """Status, code and sentence of a refusal by `Host` or `Origin`; None accepts the request.

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
