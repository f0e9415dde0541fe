"""Serves a gateway to other processes on one port for WebSocket and HTTP; it prints nothing.

Every request passes the same two checks first: `Host` must name this gateway, `Origin` must be configured. After them
`sockets` and `routes` answer.

Spec: §5.2, §5.3.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping
from functools import partial
from typing import Any

from mew_lab.gateway.admission import Hosts
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.http_server import HttpServer, admit
from mew_lab.gateway.limits import Limits, Rates
from mew_lab.gateway.routes import Routes, refusal
from mew_lab.gateway.sockets import OVERSIZE, Sockets, refuse_upgrade
from mew_lab.protocol.envelope import MAX_MESSAGE

__all__ = ["Server"]

GRACE = 0.2  # seconds that clients have to answer a close before the socket is cut
LAST_REQUESTS = 0.12  # seconds that requests have to end before their socket is cut

Message = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Awaitable[None]]


class Server:
    """One port of one gateway. To be used on the gateway's own event loop.

    Args:
        gateway: the gateway that is served.
        host: the address to listen on; other machines can reach it unless it is a loopback address.
        port: 0 takes a free one.
        allowed_hosts: further names allowed in `Host`; one without a port matches any port.
        allowed_origins: web pages that may connect, such as `http://localhost:8888`; by default none.
        limits: the limits of connections, rates and times.

    Attributes:
        run: a random text that identifies this run: `GET /health` answers it.

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
        self.run = secrets.token_hex(16)
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
            run=self.run,
        )
        self._hosts = Hosts(port)
        self._server: HttpServer | None = None

    # --- start and stop ---

    async def start(self) -> int:
        """Listens; returns the port.

        Raises:
            ConfigError: when the address or port cannot be used.
        """
        if self._server is not None:
            raise RuntimeError("a server starts once; make another one")
        sizes = (self._gateway.message_bytes(space) for space in self._gateway.spaces)
        server = HttpServer(
            self,
            frame_bytes=OVERSIZE * max(sizes, default=MAX_MESSAGE),
            ping=self._limits.ping,
            strangers=self._limits.unauthenticated,
            patience=self._limits.first_frame,
        )
        self.port = server.bind(self.host, self.port)
        self._server = server
        at = {"0.0.0.0": "localhost", "::": "localhost"}.get(self.host, self.host)
        at = f"[{at}]" if ":" in at else at
        self._gateway.connection_url = f"ws://{at}:{self.port}/ws"
        self._hosts = Hosts(self.port, allowed=self._allowed_hosts, bound=self.host)
        await self._server.start()
        return self.port

    async def stop(self) -> None:
        """Closes every WebSocket (1012) and frees the port. A second call does nothing."""
        if self._server is not None:
            self._routes.stop()
            await self._sockets.stop(within=GRACE)
            await self._server.stop(within=LAST_REQUESTS)

    # --- requests ---

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers one request (ASGI)."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._find_refusal(headers)
        if scope["type"] == "websocket":
            if refused:
                return await refuse_upgrade(send, *refused)
            return await self._sockets.serve(
                headers, scope["query_string"].decode("latin-1"), receive, send, admit=partial(admit, scope)
            )
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
