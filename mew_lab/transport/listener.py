"""Listens on one port of this machine, and keeps it usable while other processes fill it with connections.

Every server of the package listens here. How it works. A connection is a stranger until its server admits it by
`admit`. A stranger is closed when it was not admitted in time. Where strangers are many, or the process has few
descriptors left, the oldest makes room for the next. A connection whose request was admitted and answered waits for its
next request under the same time, and makes room only where no stranger can. A connection with an admitted request is
closed only when the server stops. So a process without a token can use up neither the places nor the descriptors of
a server. One owner of a right has a share of the connections with admitted requests: what it holds open is not taken
from others.

The protocol of a connection calls its methods: `handle` when a whole request has come, `admit`, `answer`, and `lose`
when the connection is gone.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from typing import Any, Final

from mew_lab.errors import ConfigError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

__all__ = [
    "HANDLING",
    "PATIENCE",
    "STRANGERS",
    "AcceptedConnection",
    "LimitedLog",
    "Listener",
    "descriptor_limit",
]

STRANGERS: Final = 256  # connections of one listener that are not admitted
PATIENCE: Final = 5.0  # seconds that a connection may take for a whole request
HANDLING: Final = 30.0  # seconds after a whole request in which it is admitted or refused
LEAST_LIFE: Final = (
    0.025  # seconds that a stranger has in any case, which is how fast strangers may follow each other
)
SPARE: Final = 16  # descriptors that no connection may take
OWNED: Final = 64  # connections of one owner with admitted requests at once, where descriptors suffice
LEAST_OWNED: Final = 16  # however few descriptors the system gives
SHARE: Final = 8  # the part of the descriptors that one owner has: one of so many
AT_ONCE: Final = 16  # connections accepted in one turn of the loop
BACKLOG: Final = 2048  # connections that the system keeps until they are accepted
RETRY: Final = 0.05  # seconds until the next attempt where the system gave no descriptor
LOG_INTERVAL: Final = 10.0  # seconds between two lines of one kind
FREE_PORTS: Final = (
    5  # numbers that are tried where any will do: one may be taken at another address of the host
)
NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b'content-length: 26\r\n\r\n{"error":"limit_exceeded"}'
)

logger = logging.getLogger(__name__)

# A process has one limit of descriptors for all its listeners.
_listeners: set[Listener] = set()


class LimitedLog:
    """Logs warnings that other processes can cause at will: each kind once in `LOG_INTERVAL` seconds, counted."""

    def __init__(self, to: logging.Logger) -> None:
        self._logger = to
        self._counts: dict[str, int] = {}
        self._due: dict[str, float] = {}

    def warn(self, sentence: str) -> None:
        """Counts an event, and logs `sentence`, in which `%d` is the number of such events, when a line is due."""
        self._counts[sentence] = self._counts.get(sentence, 0) + 1
        now = time.monotonic()
        if now >= self._due.get(sentence, 0.0):
            self._due[sentence] = now + LOG_INTERVAL
            self._logger.warning(sentence, self._counts.pop(sentence))


class AcceptedConnection:
    """One connection of a listener."""

    __slots__ = ("_admitted", "_closed", "_known", "_listener", "_owner", "accepted", "due", "transport")

    def __init__(self, listener: Listener, now: float) -> None:
        self.transport: asyncio.Transport | None = None
        self.accepted = now
        self.due = now
        """The time at which it is closed, unless it is admitted."""
        self._listener = listener
        self._admitted = False
        self._owner: Hashable = None
        self._known = False  # a request of it was admitted earlier
        self._closed = False

    def handle(self, within: float = HANDLING) -> None:
        """Notes that a whole request has come, which the server admits or refuses `within` seconds."""
        if not self._admitted:
            self.due = self._listener.now() + within

    def admit(self, owner: Hashable = None) -> bool:
        """Notes that the request has shown its right: until its answer the connection is not closed here.

        Returns False, and notes nothing, where `owner` has its share of connections with such requests.
        """
        if not self._closed and not self._admitted:
            if not self._listener.take_place(owner):
                return False
            self._owner = owner
            self._admitted = self._known = True
            self._listener.forget(self)
        return True

    def answer(self, *, refused: bool = False) -> None:
        """Notes that the request was answered: the connection waits for the next one, as a stranger where `refused`."""
        if not self._closed:
            self._give_place_back()
            self._known = self._known and not refused
            self._listener.await_request(self, known=self._known)

    def lose(self) -> None:
        """Notes that the connection is gone."""
        self._give_place_back()
        self._listener.forget(self, lost=True, closing=-self._closed)
        self._closed = True

    def close(self) -> None:
        """Closes the connection at once."""
        self._give_place_back()
        self._listener.forget(self, closing=not self._closed)
        self._closed = True
        if self.transport is not None:
            self.transport.abort()

    def _give_place_back(self) -> None:
        if self._admitted:
            self._admitted = False
            self._listener.give_place_back(self._owner)

    @property
    def admitted(self) -> bool:
        """Whether it has an admitted request that is not answered."""
        return self._admitted

    @property
    def closed(self) -> bool:
        """Whether the connection is gone or about to go."""
        return self._closed


class Listener:
    """A port on `host`. To be used on one event loop.

    Args:
        host: the address to listen on; a name stands for all its addresses.
        port: 0 takes a free one.
        strangers: the maximum number of connections that are not admitted.
        patience: seconds that a connection may take for a whole request.
        descriptors: how many a connection takes.

    Raises:
        ConfigError: when the address or port cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        strangers: int = STRANGERS,
        patience: float = PATIENCE,
        descriptors: int = 1,
    ) -> None:
        self.host = host
        self._descriptors = descriptors
        self._most = strangers
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self.now: Callable[[], float] = self._loop.time
        self._sockets = _bind_any(host) if port == 0 else _bind(host, port)
        self.port: int = self._sockets[0].getsockname()[1]
        self._open: set[AcceptedConnection] = set()
        self._closing = 0  # of them, those that were closed here
        self._strangers: dict[AcceptedConnection, None] = {}  # the oldest first
        self._idle: dict[AcceptedConnection, None] = {}  # those that were admitted before
        self._owned: Counter[Hashable] = Counter()  # admitted connections of each owner
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._log = LimitedLog(logger)

    def start(self, make_protocol: Callable[[AcceptedConnection], asyncio.BaseProtocol]) -> None:
        """Accepts connections from now on."""
        _listeners.add(self)
        for listening in self._sockets:
            listening.listen(BACKLOG)
            self._run(self._accept(listening, make_protocol))

    def close(self) -> None:
        """Accepts no more and frees the port; connections stay open. A second call does nothing."""
        _listeners.discard(self)
        for task in self._tasks:
            task.cancel()
        for listening in self._sockets:
            listening.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    async def wait_closed(self) -> None:
        """Returns when no more connection is accepted, after `close`."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def hang_up(self) -> None:
        """Closes every connection at once."""
        for connection in tuple(self._open):
            connection.close()

    # --- called by connections ---

    def take_place(self, owner: Hashable) -> bool:
        """Counts an admitted connection of `owner`; returns False where it has its share. None has none."""
        if owner is not None:
            if self._owned[owner] >= owned_limit(self._descriptors):
                return False
            self._owned[owner] += 1
        return True

    def give_place_back(self, owner: Hashable) -> None:
        """Ends what `take_place` counted."""
        if owner is not None:
            self._owned[owner] -= 1
            if not self._owned[owner]:
                del self._owned[owner]

    def await_request(self, connection: AcceptedConnection, *, known: bool) -> None:
        """Puts a connection behind the others that have to send a request in time."""
        connection.due = self.now() + self._patience
        self._strangers.pop(connection, None)
        self._idle.pop(connection, None)
        (self._idle if known else self._strangers)[connection] = None
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(self._patience / 4, self._sweep)

    def forget(self, connection: AcceptedConnection, *, lost: bool = False, closing: int = 0) -> None:
        """Ends the wait for a connection that was admitted, closed, or lost; `closing` more are being closed."""
        self._strangers.pop(connection, None)
        self._idle.pop(connection, None)
        if connection in self._open:
            self._closing += closing
        if lost:
            self._open.discard(connection)

    # --- accepting ---

    async def _accept(
        self, listening: socket.socket, make_protocol: Callable[[AcceptedConnection], asyncio.BaseProtocol]
    ) -> None:
        accepted = 0
        while listening.fileno() >= 0:
            try:
                sock, _ = await self._loop.sock_accept(listening)
            except OSError as fault:
                if fault.errno in NO_DESCRIPTOR:
                    self._log.warn("connections waited because this process has no descriptor left: %d")
                    if (oldest := self._find_waiting()) is not None:
                        oldest.close()
                await asyncio.sleep(RETRY)  # else a lasting fault would hold the loop
                continue
            await self._take(sock, make_protocol)
            accepted += 1
            if accepted % AT_ONCE == 0:
                await asyncio.sleep(0)
            while self._closing >= AT_ONCE:  # noqa: ASYNC110  their descriptors come back a turn later
                await asyncio.sleep(0.001)

    async def _take(
        self, sock: socket.socket, make_protocol: Callable[[AcceptedConnection], asyncio.BaseProtocol]
    ) -> None:
        """Serves a socket, in the place of another one where there is none free, or refuses it."""
        try:
            while (oldest := self._find_oldest()) is not None:
                wait = LEAST_LIFE - (self.now() - oldest.accepted)
                if wait <= 0.0:
                    break
                await asyncio.sleep(wait)
        except BaseException:
            sock.close()
            raise
        if oldest is not None:
            self._log.warn("connections closed before they were admitted, to make room for others: %d")
            oldest.close()
        elif _taken() >= descriptor_limit() - SPARE:
            self._log.warn("connections refused because this process has too few descriptors left: %d")
            with suppress(OSError):
                sock.send(FULL)
            sock.close()
            return
        connection = AcceptedConnection(self, self.now())
        self._open.add(connection)
        self.await_request(connection, known=False)
        self._run(self._connect(connection, sock, make_protocol))

    async def _connect(
        self,
        connection: AcceptedConnection,
        sock: socket.socket,
        make_protocol: Callable[[AcceptedConnection], asyncio.BaseProtocol],
    ) -> None:
        try:
            made = await self._loop.connect_accepted_socket(lambda: make_protocol(connection), sock)
            connection.transport = made[0]
        except BaseException as fault:
            sock.close()
            connection.lose()
            if not isinstance(fault, OSError):
                raise
        else:
            if connection.closed:
                connection.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- limits ---

    def _find_oldest(self) -> AcceptedConnection | None:
        """The connection that has to go before the next one is served; None where none has to, or none can."""
        if len(self._strangers) >= self._most:
            return next(iter(self._strangers))
        return self._find_waiting() if _taken() >= descriptor_limit() // 2 else None

    def _find_waiting(self) -> AcceptedConnection | None:
        """The oldest connection, of the listener of this loop that has most of them, that waits to be admitted."""
        here = [one for one in tuple(_listeners) if one._loop is self._loop]
        for waiting in ([one._strangers for one in here], [one._idle for one in here]):
            if longest := max(waiting, key=len, default=None):
                return next(iter(longest))
        return None

    def _sweep(self) -> None:
        """Closes the connections that took too long."""
        now = self.now()
        for connection in [one for one in (*self._strangers, *self._idle) if one.due <= now]:
            connection.close()
        waits = self._strangers or self._idle
        self._sweep_timer = self._loop.call_later(self._patience / 4, self._sweep) if waits else None


def descriptor_limit() -> int:
    """The number of descriptors that this process may have."""
    if resource is None:
        return 512  # what `select` takes on Windows
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def owned_limit(descriptors: int = 1) -> int:
    """The number of connections with admitted requests that one owner may have, each of so many descriptors."""
    return min(OWNED, max(LEAST_OWNED, (descriptor_limit() - SPARE) // (SHARE * descriptors)))


def _taken() -> int:
    """The number of descriptors that the connections of all listeners take."""
    return sum(len(one._open) * one._descriptors for one in tuple(_listeners))


def _bind_any(host: str) -> list[socket.socket]:
    """A socket on each address of `host`, with one number that is free at all of them."""
    for _ in range(FREE_PORTS - 1):
        with suppress(ConfigError):
            return _bind(host, 0)
    return _bind(host, 0)


def _bind(host: str, port: int) -> list[socket.socket]:
    """A socket on each address of `host`."""
    at = f"port {port} of {host}"
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    except (OSError, OverflowError) as fault:
        raise ConfigError(f"cannot listen on {at}: {_reason(fault)}", key="host") from None
    absent: OSError | None = None
    for family, address in addresses:
        listening = None
        try:
            # With the protocol named, asyncio sets TCP_NODELAY on what is accepted: a second small message would else
            # wait for the peer's acknowledgement of the first, 40 ms.
            listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            if os.name == "posix":  # elsewhere it would let two servers share one port
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and len(addresses) > 1:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # The system's own look-up takes the number modulo 65536.
            number = bound[0].getsockname()[1] if port == 0 and bound else port
            listening.bind((address[0], number, *address[2:]))
        except (OSError, OverflowError) as fault:
            if listening is not None:
                listening.close()
            if isinstance(fault, OSError) and fault.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                absent = fault
                continue
            for one in bound:
                one.close()
            if isinstance(fault, OSError) and fault.errno == errno.EADDRINUSE:
                message = f"{at} is in use already; choose another port, or 0 for any free one"
            else:
                message = f"cannot listen on {at}: {_reason(fault)}"
            raise ConfigError(message, key="port") from None
        listening.setblocking(False)
        bound.append(listening)
    if not bound:
        raise ConfigError(f"cannot listen on {at}: {_reason(absent)}", key="port")
    return bound


def _reason(fault: BaseException | None) -> str:
    return getattr(fault, "strerror", None) or str(fault)
