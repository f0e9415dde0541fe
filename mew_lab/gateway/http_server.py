"""Serves an ASGI application to other processes on one guarded port; it prints nothing.

The gateway and all MCP surfaces use this server. Its application calls `admit` when a request has shown its right.
Until then the connection is a stranger of the listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, MutableMapping
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from mew_lab.gateway.protocol import CONNECTION, DirectProtocol
from mew_lab.protocol.token import mask
from mew_lab.transport.listener import PATIENCE, STRANGERS, AcceptedConnection, Listener

__all__ = ["HttpServer", "admit", "refuse"]

ENDS_WITHIN: Final = 5.0  # seconds
# With a body unread, the system would reset the connection as it closes, and the answer would be lost.
UNREAD_BYTES: Final = 64 * 1024  # of a body, that are read before an answer that closes the connection
UNREAD_WITHIN: Final = 1.0  # seconds for these
CLOSES: Final = (b"connection", b"close")
LOGGERS: Final = ("uvicorn.error", "uvicorn.access")
# Faults of a peer, not of this process.
PEER_FAULTS: Final = frozenset({"Invalid UTF-8 sequence received from client."})

Message = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

logger = logging.getLogger(__name__)


def admit(scope: Message, owner: Hashable) -> bool:
    """Notes that the request of this scope (ASGI) has shown its right; returns False where `owner` has its share."""
    connection = scope.get("state", {}).get(CONNECTION)
    return connection is None or connection.admit(owner)


async def refuse(
    send: Send, status: int, error: str, message: str = "", *, kind: str = "http.response"
) -> None:
    """Answers a request (ASGI) with an HTTP status and a JSON body, and closes its connection.

    Args:
        kind: `http.response`, or `websocket.http.response` in place of a WebSocket.
    """
    body = json.dumps({"error": error, "message": message} if message else {"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *([(b"www-authenticate", b"Bearer")] if status == 401 else []),
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


class _HttpProtocol(H11Protocol):
    """The library's protocol of one HTTP connection, for a connection of a listener."""

    def send_400_response(self, msg: str) -> None:
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
        else:  # the application answers the request before the fault; a second answer would break into its own
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.transport.abort()

    def on_response_complete(self) -> None:
        self.app_state[CONNECTION].answer()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.app_state[CONNECTION].lose()
        super().connection_lost(exc)


class _Uvicorn(uvicorn.Server):
    """uvicorn within another program's process: a guarded port, no signal handlers, no timer while idle."""

    def __init__(self, config: uvicorn.Config, listener: Listener) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.leave = asyncio.Event()
        self._listener = listener

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the application did not start")
        self.servers = [self._listener]  # type: ignore[list-item]

        def make_protocol(connection: AcceptedConnection) -> asyncio.Protocol:
            state = {**self.lifespan.state, CONNECTION: connection}
            return _HttpProtocol(self.config, self.server_state, state)

        self._listener.start(make_protocol)
        self.started = True
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
        if is_fault and record.msg not in PEER_FAULTS:
            logger.error("%s", mask(logging.Formatter().format(record)))
        return False


class HttpServer:
    """One port of an ASGI application. To be used on one event loop.

    Args:
        app: the application.
        frame_bytes: the largest message of a WebSocket; a larger one closes the socket.
        ping: seconds between pings of a WebSocket.
        lifespan: whether the application has a lifespan of its own.
        strangers: the maximum number of connections that are not admitted.
        patience: seconds that a connection may take for a whole request.
    """

    def __init__(
        self,
        app: Application,
        *,
        frame_bytes: int,
        ping: float = 20.0,
        lifespan: bool = False,
        strangers: int = STRANGERS,
        patience: float = PATIENCE,
    ) -> None:
        self._app = app
        self._strangers = strangers
        self._patience = patience
        self._config = uvicorn.Config(
            self._handle,
            http=_HttpProtocol,
            ws=DirectProtocol,
            ws_max_size=frame_bytes,
            ws_per_message_deflate=False,
            ws_ping_interval=ping,
            ws_ping_timeout=ping,
            lifespan="on" if lifespan else "off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        self._listener: Listener | None = None
        self._uvicorn: _Uvicorn | None = None
        self._running: asyncio.Task[None] | None = None
        self._log_filter: _ServerLogFilter | None = None

    def bind(self, host: str, port: int) -> int:
        """Takes the port, for `start`; returns its number.

        Raises:
            ConfigError: when the address or port cannot be used.
        """
        self._listener = Listener(host, port, strangers=self._strangers, patience=self._patience)
        return self._listener.port

    async def start(self) -> None:
        """Answers requests from now on."""
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        self._uvicorn = _Uvicorn(self._config, self._listener)
        self._log_filter = _ServerLogFilter(loop)
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self._log_filter)
        running = loop.create_task(self._uvicorn.serve())
        listening = loop.create_task(self._uvicorn.listening.wait())
        await asyncio.wait({running, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            listening.cancel()
            self._listener.close()
            self._remove_log_filter()
            await running  # raises the fault
        self._running = running

    async def stop(self, *, within: float) -> None:
        """Frees the port and ends all connections; requests have `within` seconds to end. A second call does nothing."""
        running, self._running = self._running, None
        if running is None or self._uvicorn is None or self._listener is None:
            return
        self._uvicorn.leave.set()
        await asyncio.wait({running}, timeout=within)
        self._listener.hang_up()  # a client that only reads would delay the end
        await asyncio.wait({running}, timeout=ENDS_WITHIN)
        self._remove_log_filter()

    def _remove_log_filter(self) -> None:
        for name in LOGGERS:
            if self._log_filter is not None:
                logging.getLogger(name).removeFilter(self._log_filter)

    async def _handle(self, scope: Message, receive: Receive, send: Send) -> None:
        connection = scope.get("state", {}).get(CONNECTION)
        if connection is None:
            await self._app(scope, receive, send)
            return
        connection.handle()

        unread = UNREAD_BYTES

        async def read() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread - len(message.get("body", b"")) if message.get("more_body") else 0
            return message

        async def answer_once(message: Message) -> None:
            """Ends the connection of a stranger with its answer: it gets one for each of its connections."""
            if message["type"] == "http.response.start":
                headers = [(name.lower(), value) for name, value in message.get("headers", ())]
                if not connection.admitted:
                    kept = [pair for pair in headers if pair[0] != CLOSES[0]]
                    headers = [*kept, CLOSES]
                if CLOSES in headers:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(UNREAD_WITHIN):
                            while unread > 0:
                                await read()
                message = {**message, "headers": headers}
            await send(message)

        if scope["type"] == "http":
            await self._app(scope, read, answer_once)
        else:
            await self._app(scope, receive, send)
