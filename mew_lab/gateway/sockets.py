"""Drives each WebSocket: identifies its participant, admits it to a space, and hands over its messages.

`admission` reads tokens and join frames; the gateway takes whole messages. The timers of one socket (first frame,
ghost probe) are here. This module does not judge messages.

Spec: §5.2.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from mew_lab.errors import NotAdmitted, ProtocolError
from mew_lab.gateway.admission import (
    MISSING_BEARER,
    Identity,
    JoinFrame,
    bearer,
    identify,
    read_join,
    without_join,
)
from mew_lab.gateway.coalescer import WriteCoalescer
from mew_lab.gateway.delivery import DeliveryQueue, Peer, Send
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.http_server import refuse
from mew_lab.gateway.limits import Limits, Rates
from mew_lab.gateway.rotation import QUANTUM, Rotation
from mew_lab.protocol.kinds import CLOSE_TAKEN, CLOSE_UNKNOWN
from mew_lab.transport.listener import LimitedLog

__all__ = ["Sockets", "refuse_upgrade"]

Event = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Event]]

# RFC 6455 §7.4.1, and the registry of close codes that it makes; after 1012 and 1013 a client of ours comes back.
TOO_BIG, INTERNAL_ERROR, STOPPING, TRY_LATER = 1009, 1011, 1012, 1013
FULL = "this space takes no more connections"
ENOUGH = "this participant has its share of connections and requests; end some of them"
UNKNOWN = "token or space unknown"
OVERSIZE = 4  # times the limit: up to this size a message is refused, beyond it the socket closes

logger = logging.getLogger(__name__)


class _Refused(Exception):
    """Raised within a socket that is not admitted: an HTTP status, or a close code once the socket is open."""

    def __init__(self, code: int, error: str, message: str = "") -> None:
        super().__init__(error)
        self.code = code
        self.error = error
        self.message = message


class _Gone(Exception):
    """Raised within a socket whose other end closed before it was admitted."""


refuse_upgrade = partial(refuse, kind="websocket.http.response")


class Sockets:
    """Every WebSocket of one server."""

    def __init__(self, gateway: Gateway, *, limits: Limits, rates: Rates) -> None:
        self.gateway = gateway
        self.limits = limits
        self.rates = rates
        self.coalescer = WriteCoalescer()
        self.rotation = Rotation()
        self._log = LimitedLog(logger)
        self._probing: Counter[str] = Counter()  # newcomers of each space that wait for a probe
        self._open: set[DeliveryQueue] = set()
        self._none_open = asyncio.Event()
        self._stopping = False

    async def serve(
        self,
        headers: Mapping[str, str],
        query: str,
        receive: Receive,
        send: Send,
        *,
        admit: Callable[[Identity], bool] = lambda identity: True,
    ) -> None:
        """Drives one socket from its upgrade request, whose host and origin are checked already, to its end.

        `admit` is called when its token is known; it returns False where its participant has its share of connections.
        """
        requested = next(iter(parse_qs(query).get("space", ())), "")
        try:
            known = await self._upgrade(headers.get("authorization"), requested)
            if known is not None and not admit(known):
                raise _Refused(503, "limit_exceeded", ENOUGH)
        except _Refused as refused:
            return await refuse_upgrade(send, refused.code, refused.error, refused.message)
        await receive()  # the request itself
        await send({"type": "websocket.accept"})
        session = _SocketSession(self, receive, send, requested=requested, known=known, identified=admit)
        self._open.add(session.queue)
        try:
            await session.run()
        finally:
            self._open.discard(session.queue)
            if not self._open:
                self._none_open.set()
        return None

    async def stop(self, *, within: float) -> None:
        """Closes every socket (1012) and takes no new one; returns when all have closed, `within` seconds at most."""
        self._stopping = True
        self._none_open.clear()
        for queue in self._open:
            queue.close(STOPPING, "the gateway stops")
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._none_open.wait()

    async def refusal_delay(self) -> None:
        """Delays the answer to a wrong token, and logs it without the token."""
        self._log.warn("refused since the last such line, for an unknown token or space: %d")
        await asyncio.sleep(self.limits.refusal_delay)

    async def _upgrade(self, authorization: str | None, requested: str) -> Identity | None:
        """The identity of the token in the header; None without a header, so that a join frame must follow."""
        if self._stopping:
            raise _Refused(503, "stopping", "this gateway stops")
        if authorization is None:
            return None
        token = bearer(authorization)
        if token is None:
            raise _Refused(401, MISSING_BEARER)
        known = identify(self.gateway.tokens, token, spaces=self.gateway.spaces, requested=requested)
        if known is None:
            await self.refusal_delay()
            raise _Refused(401, UNKNOWN)
        if self.full(known.space):
            raise _Refused(503, "limit_exceeded", FULL)
        return known

    def full(self, space: str) -> bool:
        """Whether the space has its maximum of connections."""
        return self.gateway.connections(space) + self._probing[space] >= self.limits.connections

    async def answers(self, holder: Peer, space: str) -> bool:
        """Whether the connection that has an id answers; the waiting newcomer counts as a connection."""
        self._probing[space] += 1
        try:
            return await holder.alive(self.limits.probe)
        finally:
            self._probing[space] -= 1


class _SocketSession:
    """One accepted WebSocket: it is identified and admitted, exchanges messages, and leaves."""

    def __init__(
        self,
        sockets: Sockets,
        receive: Receive,
        send: Send,
        *,
        requested: str,
        known: Identity | None,
        identified: Callable[[Identity], bool],
    ) -> None:
        self.queue = DeliveryQueue(send, coalescer=sockets.coalescer, on_cut=self._leave)
        self._sockets = sockets
        self._gateway = sockets.gateway
        self._receive = receive
        self._requested = requested
        self._known = known
        self._identified = identified
        self._first: asyncio.Task[Event] | None = None  # a first message that is not consumed yet
        self._space = ""
        self._name = ""
        self._runtime_id = ""

    async def run(self) -> None:
        reason = ""
        try:
            identity, runtime_id = await self._identify()
            if not self._identified(identity):
                raise _Refused(TRY_LATER, "limit_exceeded", ENOUGH)
            await self._admit(identity, runtime_id)
            reason = await self._converse(identity)
        except _Gone:
            pass
        except _Refused as refused:
            self.queue.close(
                refused.code, refused.error if not refused.message else f"{refused.error}: {refused.message}"
            )
        except NotAdmitted as refused:
            self.queue.close(refused.close_code, str(refused))
        except Exception:
            logger.exception(
                "a connection of %r ended by a fault of this gateway", self._runtime_id or "a stranger"
            )
            self.queue.close(INTERNAL_ERROR, "internal error")
        finally:
            self._leave(reason)
            if self._first is not None:
                self._first.cancel()
            if self.queue.closing:
                await self.queue.wait_closed()
            self.queue.detach()

    def _leave(self, reason: str) -> None:
        if self._name:
            self._gateway.leave(self._space, self._name, reason)

    # --- identification ---

    async def _identify(self) -> tuple[Identity, str]:
        """The identity of the socket, and the runtime id that it requests.

        Spec: §5.2; §3.6.4 for the runtime id.
        """
        known, limits = self._known, self._sockets.limits
        patience = limits.first_frame if known is None else limits.header_wait
        self._first = asyncio.ensure_future(self._receive())
        await asyncio.wait({self._first}, timeout=patience)
        join = self._read_join(self._first.result()) if self._first.done() else None
        if join is not None:
            self._first = None
            identity = await self._authenticate(join)
            return identity, join.runtime_id or identity.participant
        if known is None:
            raise _Refused(
                CLOSE_UNKNOWN,
                "a join frame must come first"
                if self._first.done()
                else f"no join frame came within {patience:g} s",
            )
        return known, known.participant

    def _read_join(self, event: Event) -> JoinFrame | None:
        if event["type"] != "websocket.receive":
            raise _Gone
        text = event.get("text")
        try:
            return read_join(text, limit=self._sockets.limits.join_bytes) if text else None
        except ProtocolError as fault:
            raise _Refused(CLOSE_UNKNOWN, str(fault)) from None

    async def _authenticate(self, join: JoinFrame) -> Identity:
        """The identity that header, query and join frame agree on; any disagreement is refused in the same way."""
        known = self._known
        spaces = {name for name in (join.space, self._requested, known.space if known else "") if name}
        identity = None
        if len(spaces) <= 1:
            if join.token is None:
                identity = known
            else:
                gateway, space = self._gateway, next(iter(spaces), "")
                identity = identify(gateway.tokens, join.token, spaces=gateway.spaces, requested=space)
        if identity is None or known not in (None, identity):
            await self._sockets.refusal_delay()
            raise _Refused(CLOSE_UNKNOWN, UNKNOWN)
        return identity

    async def _admit(self, identity: Identity, runtime_id: str) -> None:
        """Admits the socket; an older connection with the same id is probed first.

        Spec: §3.6.4, §5.2.
        """
        gateway, (space, participant) = self._gateway, identity
        if self._sockets.full(space):
            raise _Refused(TRY_LATER, "limit_exceeded", FULL)
        holder = gateway.holder(space, runtime_id)
        if holder is not None and gateway.logical(space, runtime_id) == participant:
            if await self._sockets.answers(holder, space):
                raise _Refused(CLOSE_TAKEN, f"{runtime_id!r} is connected already, and answers")
            if gateway.holder(space, runtime_id) is holder:
                gateway.replace(space, runtime_id)
        self.queue.limit = gateway.queue_bytes(space)
        self._name = gateway.admit(space, participant, self.queue, runtime_id=runtime_id, via="websocket")
        self._space, self._runtime_id = space, runtime_id

    # --- messages ---

    async def _converse(self, identity: Identity) -> str:
        """Hands every message to the gateway; returns the reason for the end of the connection.

        While none waits, messages are handled as they are read where the server supports it; else they come by
        `receive`. A socket above its rate is not read for a while; no message is dropped.
        """
        turn = _MessageIntake(self._sockets, self.queue, identity, self._name)
        coalescer, receive = self._sockets.coalescer, self._receive
        first, self._first = self._first, None
        try:
            while True:
                turn.idle = first is None
                event = await (first or coalescer.before_waiting(receive()))
                turn.idle = False
                first = None
                if turn.fault is not None:
                    raise turn.fault
                if event["type"] != "websocket.receive":
                    return f"closed with {event.get('code', 1005)} {event.get('reason') or ''}".rstrip()
                text = event.get("text")
                await turn.begin()
                coalescer.hold()
                turn.handle(event["bytes"] if text is None else text)
                await turn.slow_down()
        finally:
            self.queue.take_queued()
            coalescer.flush()


class _MessageIntake:
    """Takes the messages of one admitted connection in order, within its rate and its turn."""

    def __init__(self, sockets: Sockets, queue: DeliveryQueue, identity: Identity, name: str) -> None:
        self.idle = False  # no received message waits to be handled
        self.fault: Exception | None = None  # our own fault, in a message that was handled as it was read
        self._gateway = sockets.gateway
        self._coalescer = sockets.coalescer
        self._rotation = sockets.rotation
        self._queue = queue
        self._identity = identity
        self._space = identity.space
        self._name = name
        self._limit = sockets.gateway.message_bytes(identity.space)
        self._now = asyncio.get_running_loop().time
        self._bucket = sockets.rates.of(*identity, self._now())
        self._unread = 0.0  # until then it is above its rate
        self._free = 0.0  # until then other senders need not be considered
        queue.count_extras(self._count)
        queue.take_directly(self._take, self._coalescer.flush)

    def handle(self, message: str | bytes) -> None:
        """Counts a message, hands it to the gateway, and counts the time taken."""
        if self._queue.dismissed:
            return  # this side closed the connection; data still on its way is dropped
        at = self._now()
        within = self._bucket.take(len(message), at)
        limit = self._limit
        if len(message) > limit * OVERSIZE:
            self._queue.close(TOO_BIG, f"a message of over {limit * OVERSIZE} bytes")
        elif isinstance(message, str):
            self._gateway.receive(self._space, self._name, without_join(message, limit=limit))
        else:
            self._gateway.receive(self._space, self._name, message)
        now = self._now()
        self._rotation.spend(now - at)
        if not self._bucket.spend(now - at, now) or not within:
            self._unread = now + self._bucket.pause(now)

    async def begin(self) -> None:
        """Returns when the next message is to be handled."""
        await self.slow_down()
        if self._now() > self._free and self._rotation.over:
            self._coalescer.flush()
            await self._rotation.wait(self._identity)
            self._free = self._now() + QUANTUM

    async def slow_down(self) -> None:
        """Returns when the connection is within its rate; until then it is not read."""
        ahead = self._unread - self._now()
        if ahead > 0.0:
            self._coalescer.flush()
            await self._queue.unread(ahead)

    def _take(self, message: str | bytes) -> bool:
        """Handles a message that was just read; returns False where it must wait and be queued."""
        now = self._now()
        if not self.idle or now < self._unread or (now > self._free and self._rotation.over):
            return False
        self._coalescer.hold()
        try:
            self.handle(message)
        except Exception as fault:
            self.fault, self.idle = fault, False
            return False  # queued, so that the code that waits for the next message gets the fault
        if self._unread > now:
            self._queue.pause(self._unread - now)
        return True

    def _count(self, size: int, messages: int) -> float:
        self._bucket.take(size, self._now(), messages=messages)
        return self._bucket.pause(self._now())
