"""The connection of one client: opens a link, writes to it, and reconnects. It reads no envelope.

How it works
------------
`start` makes one task that opens a link, reads from it, and opens the next one after a break; a second task writes to
the open link. The state goes

    disconnected -> connecting -> connected (a link) -> joined (asked to join) -> ready (welcomed)

and back to `connecting` after a break that is worth another attempt (close codes 1001, 1006, 1012, or no welcome in
time), else to `disconnected`. The delay between attempts doubles, up to 30 s. The client calls `ready` after the
welcome; only then does the `Outbox` send messages.

`Endpoint` is the only code of the client that reveals a token: in headers and in the join frame. It sends both: other
gateways read only the frame, and that of mew_lab waits for a frame that may name a runtime id.

Spec: §5.2, SDK "Layer 1", "State Management", rulings R8, R8b, R8c.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from mew_lab.errors import ConfigError, ConnectionLost, MewError, NoReply, NotAdmitted
from mew_lab.protocol.address import Address
from mew_lab.protocol.envelope import MOST_MESSAGE, compact
from mew_lab.protocol.text import utf8_size
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.transport.link import HandshakeRefused, Link, LinkClosed

__all__ = [
    "MAX_KEPT",
    "MAX_KEPT_BYTES",
    "MAX_UNSENT",
    "Connection",
    "ConnectionHooks",
    "Endpoint",
    "Outbox",
    "RetryPolicy",
    "State",
    "address",
    "identify_gateway",
]

logger = logging.getLogger(__name__)
State = Literal["disconnected", "connecting", "connected", "joined", "ready"]

MAX_ANSWER = 64 * 1024  # bytes of an answer about notes that are read
MAX_DELAY = 30.0  # seconds between two attempts at most
FLUSH = 1.0  # seconds that `stop` waits for what was posted before it
MAX_UNSENT = 10_000  # messages that wait for a link which takes none
MAX_KEPT = 1000  # messages that wait for the next link
MAX_KEPT_BYTES = 8 * 1024 * 1024  # and their size together
BROKEN = "the connection ended before this message was sent"
ON_ITS_WAY = "the connection broke while this message was on its way, so nobody can know whether it arrived"
RECONNECT = frozenset({1001, 1006, 1012})
FINAL = {
    4401: "the token or the space is unknown there. It may have been voided or replaced: "
    "ask the space's owner for the token of this space",
    4403: "it was removed from the space. Ask the space's owner for a new invitation",
    4409: "its id is taken. End the other connection of that id, or join under another one",
}

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


# --- the address ---


def address(gateway: str, space: str) -> str:
    """The WebSocket address of a space: `http` becomes `ws`, no path becomes `/ws`, and no secret stands in
    it.

    Raises:
        ConfigError: when `gateway` is no address, or contains a user, a password, or a query other than `space`; or
            when `space` has half a surrogate pair, which no address can hold.
    """
    given = Address(gateway)
    try:
        parts = given.parts
    except ValueError:
        parts = urlsplit("")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if (
        scheme not in ("ws", "wss")
        or not parts.hostname
        or given.find_secret() in ("a user or password", "a parameter")
    ):
        raise ConfigError(
            f"{given!r} is no address of a gateway; it reads like ws://127.0.0.1:8080, without user and password",
            key="gateway",
        )
    if parts.fragment or {key for key, _ in parse_qsl(parts.query, keep_blank_values=True)} - {"space"}:
        raise ConfigError(
            f"Cannot use {given} as the address of a gateway: it has a query, which others could read. "
            "Give the token by token_file= or token_env=, and the space by space=",
            key="gateway",
        )
    try:
        query = urlencode({"space": space}) if space else ""
    except UnicodeEncodeError:
        raise ConfigError(
            f"{one_line(space, 80)!r} is no name of a space: half a surrogate pair is no text", key="space"
        ) from None
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") or "/ws", query, ""))


def identify_gateway(gateway: str) -> str:
    """A text that is equal for addresses of one gateway, such as `localhost:8080`; no secret stands in it.

    It has the host, the port and the path without `/ws`. The names of the loopback are one, and so are `http` and `ws`.
    What is no address stays as it may be shown.
    """
    given = Address(gateway)
    try:
        parts = given.parts
    except ValueError:
        return str(given)
    if not parts.hostname:
        return str(given)
    host = "localhost" if parts.hostname in _LOOPBACK else parts.hostname
    port = parts.port or (443 if parts.scheme in ("wss", "https") else 80)
    path = parts.path.rstrip("/").removesuffix("/ws")
    return str(Address(f"{host}:{port}{path}"))


class Endpoint(NamedTuple):
    """The address, space, token and runtime id with which a participant joins."""

    gateway: Address
    space: str
    token: Token | None
    participant_id: str | None

    async def open(self, *, timeout: float, heartbeat: float | None) -> Link:
        """Opens a WebSocket and sends the join frame; the welcome comes on it.

        Raises:
            ConfigError: the address is invalid.
            HandshakeRefused, LinkClosed: from the transport; `explain` turns them into a MewError.
        """
        from mew_lab.transport import websocket  # a client within one process needs no network library

        headers = {"Authorization": f"Bearer {self.token.reveal()}"} if self.token else {}
        link = await websocket.connect(
            address(self.gateway, self.space),
            headers=headers,
            open_timeout=timeout,
            max_size=MOST_MESSAGE,  # what this gateway takes is known only after its welcome
            ping_interval=heartbeat,
            ping_timeout=heartbeat,
        )
        join = {
            "type": "join",
            "space": self.space,
            "token": self.token.reveal() if self.token else "",
            "participantId": self.participant_id or "",
        }
        with contextlib.suppress(LinkClosed):  # the first `receive` raises with the reason
            await link.send(compact({key: value for key, value in join.items() if value}))
        return link

    def post_note(self, participant: str, text: str, *, timeout: float) -> int:
        """Posts a note to a gateway of ours, in the calling thread; returns the status of the answer.

        Raises:
            OSError: there is no answer.

        Spec: ruling R42.
        """
        return self._ask_notes("POST", participant, text=text, timeout=timeout)[0]

    def find_note(
        self, participant: str, request: str, to: Iterable[str], *, timeout: float
    ) -> tuple[int, bytes]:
        """Asks a gateway of ours what was reported of a request, in the calling thread; returns status and body.

        Raises:
            OSError: there is no answer.

        Spec: rulings R35, R42.
        """
        query = urlencode([("request", request), *(("to", name) for name in to)], errors="replace")
        return self._ask_notes("GET", participant, query=query, timeout=timeout)

    def _ask_notes(
        self, method: str, participant: str, *, text: str = "", query: str = "", timeout: float
    ) -> tuple[int, bytes]:
        """One request about notes. No redirect is followed and no proxy is used: both would send the token to another
        host."""
        import http.client

        parts = urlsplit(address(self.gateway, self.space))
        kind = http.client.HTTPSConnection if parts.scheme == "wss" else http.client.HTTPConnection
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token.reveal()}"
        path = f"{parts.path.removesuffix('/ws')}/participants/{quote(participant, safe='')}/notes"
        queries = "&".join(filter(None, (parts.query, query)))
        connection = kind(parts.netloc, timeout=timeout)
        try:
            connection.request(method, f"{path}?{queries}", text.encode() or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_ANSWER)
        except http.client.HTTPException as fault:
            raise OSError(f"the answer is no HTTP: {fault!r:.80}") from None
        finally:
            connection.close()

    def explain(self, fault: HandshakeRefused | LinkClosed, *, name: str, welcomed: bool) -> MewError:
        """The error for a fault of the transport: what was tried, by which participant, and what would help."""
        where = f"space {self.space!r}" + (f" at {self.gateway}" if self.gateway else "")
        who = f"{name!r}" if name else "a participant"
        if isinstance(fault, HandshakeRefused):
            if fault.status == 401:
                return NotAdmitted(f"Cannot join {where} as {who}: {FINAL[4401]}", space=self.space)
            detail = f" ({one_line(fault.body, 200)})" if fault.body else ""
            return ConnectionLost(
                f"Cannot join {where} as {who}: the gateway answered with HTTP {fault.status}{detail}. "
                "Check the address, and which hosts and origins the gateway allows"
            )
        reason = f" ({one_line(fault.reason, 200)})" if fault.reason else ""
        if fault.code in FINAL:
            tried = f"{who} can no longer be in {where}" if welcomed else f"Cannot join {where} as {who}"
            return NotAdmitted(
                f"{tried}: {FINAL[fault.code]}{reason}", space=self.space, close_code=fault.code
            )
        # The transport closes with 1011 itself when a ping stays unanswered: that is a broken link, not a
        # fault there.
        code = 1006 if fault.code == 1011 and "keepalive" in fault.reason else fault.code
        if not welcomed:
            return ConnectionLost(
                f"Cannot join {where} as {who}: the link closed with {code}{reason}. "
                "Check the address, and that the gateway runs",
                close_code=code,
            )
        if code in RECONNECT:
            return ConnectionLost(f"{who} lost the connection to {where}: {code}{reason}", close_code=code)
        return ConnectionLost(
            f"The gateway of {where} closed the connection of {who}: {code}{reason}; connect() joins again",
            clean=code == 1000,
            close_code=code,
        )


# --- unsent messages ---


class QueuedMessage(NamedTuple):
    """One message. `sent` is done when the link has taken it; `keeper` is the id under which it was kept."""

    message: str | bytes
    sent: asyncio.Future[None] | None
    keeper: str = ""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        message = self.message
        return len(message) if isinstance(message, bytes) else utf8_size(message)


class Outbox:
    """The messages of one connection that no link has taken yet. It reads no envelope.

    1. Messages go out in order and never twice: a message that was in transfer when the link broke is not repeated,
       because it may have arrived.
    2. A caller that awaits a message gets its error; messages that are not awaited are counted and reported.
    3. Only messages that were added without a link are kept for the next one, if `keep` is set, and within limits. The
       sender of a message on a broken link got an error and may have acted on it. Frames are never kept: the stream
       would have gone on without them.

    Args:
        keep: Whether messages are kept for the next link.
        lost: Called with the number of unawaited messages that were lost, and the reason.
    """

    def __init__(self, *, keep: bool, lost: Callable[[int, str], None]) -> None:
        self._keep = keep
        self._lost = lost
        self._waiting: deque[QueuedMessage] = deque()
        self._held: QueuedMessage | None = None  # in transfer to the link
        self._bytes = 0  # of those that are kept

    def __len__(self) -> int:
        return len(self._waiting) + (self._held is not None)

    def add(self, message: str | bytes, *, sent: asyncio.Future[None] | None) -> None:
        """Adds a message for the open link behind all others.

        Raises:
            ConnectionLost: the limit is reached, because the link takes nothing.
        """
        if len(self._waiting) >= MAX_UNSENT:
            raise ConnectionLost(f"{MAX_UNSENT} messages wait already, and the gateway takes none")
        self._waiting.append(QueuedMessage(message, sent))

    def keep(self, message: str | bytes, *, sent: asyncio.Future[None] | None, sender: str) -> bool:
        """Adds a message for the next link behind all others; returns False, without adding it, if `keep` is off
        or `sender` is empty.

        Raises:
            ConnectionLost: the limit of messages or bytes is reached.
        """
        if not self._keep or not sender:
            return False
        queued = QueuedMessage(message, sent, sender)
        if len(self._waiting) >= MAX_KEPT or self._bytes + queued.size > MAX_KEPT_BYTES:
            raise ConnectionLost(
                f"the queue for the next connection is full: it takes {MAX_KEPT} messages and "
                f"{MAX_KEPT_BYTES // 1024 // 1024} MiB"
            )
        self._waiting.append(queued)
        self._bytes += queued.size
        return True

    def take(self) -> str | bytes | None:
        """The next message for the link; None when there is none. `confirm_taken` must follow."""
        while self._waiting:
            queued = self._waiting.popleft()
            # a message whose `send` was cancelled is not sent
            if queued.sent is None or not queued.sent.cancelled():
                self._held = queued
                return queued.message
        return None

    def confirm_taken(self) -> None:
        """Marks the last message of `take` as taken by the link."""
        if self._held is not None and self._held.sent is not None and not self._held.sent.done():
            self._held.sent.set_result(None)
        self._held = None

    def interrupt(self) -> None:
        """Ends all messages but the kept ones, because the link closed and another may follow."""
        held, self._held = self._held, None
        ended = [queued for queued in self._waiting if not queued.keeper]
        self._waiting = deque(queued for queued in self._waiting if queued.keeper)
        self._bytes = sum(queued.size for queued in self._waiting)
        if held is not None:
            self._end([held], ON_ITS_WAY)
        self._end(ended, BROKEN)

    def claim(self, sender: str) -> None:
        """Refuses kept messages of another id, because the new link gave this client the id `sender`."""
        others = [queued for queued in self._waiting if queued.keeper not in ("", sender)]
        self._waiting = deque(queued for queued in self._waiting if queued.keeper in ("", sender))
        if others:
            was = others[0].keeper
            self._end(others, f"it was written as {was!r}, and the gateway calls this client {sender!r} now")

    def end(self, why: str) -> None:
        """Ends all messages, because no other link follows."""
        held, self._held = self._held, None
        waiting, self._waiting, self._bytes = self._waiting, deque(), 0
        if held is not None:
            self._end([held], ON_ITS_WAY)
        self._end(waiting, why)

    def _end(self, these: deque[QueuedMessage] | list[QueuedMessage], why: str) -> None:
        for queued in these:
            if queued.sent is not None and not queued.sent.done():
                queued.sent.set_exception(ConnectionLost(why))
        unawaited = sum(queued.sent is None for queued in these)
        if unawaited:
            self._lost(unawaited, why)


# --- the links ---


class RetryPolicy(NamedTuple):
    """The delay (in seconds, doubled for each attempt) and the number of attempts; 0 `attempts` never reconnects."""

    attempts: int = 10
    delay: float = 1.0
    welcome: float = 10.0


class ConnectionHooks(NamedTuple):
    """The callbacks of a connection: `open` a link, `take` a received message, `explain` a fault; the rest report."""

    open: Callable[[], Awaitable[Link]]
    take: Callable[[str | bytes], None]
    explain: Callable[[HandshakeRefused | LinkClosed], MewError]
    up: Callable[[], None]
    down: Callable[[MewError | None], None]
    retrying: Callable[[int], None]
    became: Callable[[State], None] = lambda state: None
    lost: Callable[[int, str], None] = lambda count, why: None


class Connection:
    """The links between `start` and `stop`: one session after the other, and the attempts between them."""

    def __init__(
        self,
        hooks: ConnectionHooks,
        *,
        retry: RetryPolicy,
        keep: bool = False,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.state: State = "disconnected"
        self.failure: MewError | None = None
        self._hooks = hooks
        self._retry = retry
        self._wait = wait
        self._link: Link | None = None
        self._runner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._welcomed = False  # once at least since `start`
        self._leaving = False
        self._outbox = Outbox(keep=keep, lost=hooks.lost)
        self._unsent = asyncio.Event()
        self._sent = asyncio.Event()
        self._held: Callable[[], Awaitable[None]] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop on which it runs; None while it does not."""
        return None if self._runner is None else self._runner.get_loop()

    async def start(self) -> None:
        """Opens a link; returns when `ready` was called, at once if it was before.

        Raises:
            MewError: from `explain`, when the first attempt fails; there is no second one.
        """
        if self._runner is None:
            self.failure = None
            self._leaving = self._welcomed = False
            # this may be another loop than before
            self._unsent, self._sent = (asyncio.Event(), asyncio.Event())
            self._ready = asyncio.get_running_loop().create_future()
            self._runner = asyncio.get_running_loop().create_task(self._run())
        assert self._ready is not None
        ready = self._ready
        try:
            await asyncio.shield(ready)
        except asyncio.CancelledError:
            if not ready.done():
                await self.stop()
            raise

    async def stop(self) -> None:
        """Closes for good. Posted messages are sent first, if the link takes them within a second."""
        self._leaving = True
        runner, link = self._runner, self._link
        if link is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH):
                    while self._outbox and self.state == "ready":
                        self._sent.clear()
                        await self._sent.wait()
            await link.close(1000, "leaving")
        if runner is not None and runner is not asyncio.current_task():
            runner.cancel()
            await asyncio.wait({runner})

    def ready(self, sender: str = "") -> None:
        """Records the welcome, in which this client is `sender`; kept messages go out before new ones."""
        if self.state != "ready":
            self._outbox.claim(sender)
        self._welcomed = True
        self._become("ready")
        self._unsent.set()
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def post(
        self, message: str | bytes, *, sent: asyncio.Future[None] | None = None, sender: str = ""
    ) -> None:
        """Posts a message behind all others; `sent` is done when the link has taken it.

        If the connection keeps messages, one with a `sender` may also be posted between two links.

        Raises:
            ConnectionLost: when there is no link, or a limit is reached.
        """
        if self.state == "ready":
            self._outbox.add(message, sent=sent)
            self._unsent.set()
        elif (
            self.state == "disconnected"
            or self._leaving
            or not self._outbox.keep(message, sent=sent, sender=sender)
        ):
            raise ConnectionLost(f"not connected (state {self.state})")

    def _become(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._hooks.became(state)

    def hold(self, until: Callable[[], Awaitable[None]]) -> None:
        """Stops reading from the link until `until()` is done. Handlers of a message call it."""
        self._held = until

    # --- the reading task ---

    async def _run(self) -> None:
        attempt = 0
        error: MewError | None = None
        try:
            while True:
                error = await self._session()
                if self.state == "ready":
                    attempt = 0
                if not self._welcomed or not self._worth_another(error):
                    return
                if attempt >= self._retry.attempts:
                    if attempt:
                        error = ConnectionLost(f"{error}. Gave up after {attempt} attempts", close_code=1006)
                    return
                self._down(error, "connecting")
                attempt += 1
                self._hooks.retrying(attempt)
                await self._wait(min(self._retry.delay * 2 ** (attempt - 1), MAX_DELAY))
        except asyncio.CancelledError:
            error = None
        finally:
            self._end(None if self._leaving else error)

    def _worth_another(self, error: MewError) -> bool:
        if isinstance(error, ConnectionLost):
            return error.close_code in RECONNECT
        return isinstance(error, NoReply)

    async def _session(self) -> MewError:
        """Opens a link and reads until it ends; returns the reason."""
        self._become("connecting")
        try:
            link = await self._hooks.open()
        except MewError as fault:
            return fault
        except (HandshakeRefused, LinkClosed) as fault:
            return self._hooks.explain(fault)
        except Exception as fault:
            return ConnectionLost(f"opening the link failed: {type(fault).__name__}: {fault}")
        self._link = link
        self._become("connected")
        self._hooks.up()
        self._become("joined")
        writer = asyncio.get_running_loop().create_task(self._write(link))
        try:
            async with asyncio.timeout(self._retry.welcome) as limit:
                while True:
                    self._hooks.take(await link.receive())
                    if self._held is not None:
                        until, self._held = self._held, None
                        await until()
                    if limit.when() is not None and self._is_ready():
                        limit.reschedule(None)
        except LinkClosed as closed:
            return self._hooks.explain(closed)
        except TimeoutError:
            return NoReply(
                f"no welcome came within {self._retry.welcome:g} s of opening the link; is it a MEW gateway?",
                after_s=self._retry.welcome,
                waiting_for="system/welcome",
            )
        finally:
            writer.cancel()
            await link.close(1000)

    def _is_ready(self) -> bool:
        return self.state == "ready"

    def _down(self, error: MewError | None, state: State) -> None:
        was_up = self.state in ("connected", "joined", "ready")
        self._link = None
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()
        if state == "disconnected":
            self._outbox.end(f"{BROKEN}: {error}" if error else BROKEN)
        else:
            self._outbox.interrupt()
        self._become(state)
        self._sent.set()
        if was_up or state == "disconnected":
            self._hooks.down(error)

    def _end(self, error: MewError | None) -> None:
        self._runner = None
        self.failure = error
        self._down(error, "disconnected")
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error or ConnectionLost("disconnected before the welcome", clean=True))
            self._ready.exception()  # only the waiting `start` gets it

    # --- the writing task ---

    async def _write(self, link: Link) -> None:
        try:
            while True:
                while self.state == "ready" and (message := self._outbox.take()) is not None:
                    await link.send(message)
                    self._outbox.confirm_taken()
                self._sent.set()
                self._unsent.clear()
                await self._unsent.wait()
        except LinkClosed:
            pass  # the reading task notices it, too, and reports the reason
        except Exception:
            logger.exception("writing failed")
            await link.close(1011, "writing failed")
