"""Talks to a gateway from outside: one WebSocket or one HTTP request, raw, with a deadline.

Outgoing messages are not validated, so that a check can send anything. To detect that a gateway has handled everything
that was sent, each attempt ends with a message that every gateway refuses (`BARRIER`).

Spec: §5.2, §5.3.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from mew_lab.conformance.transcript import WireTranscript, remember_tokens
from mew_lab.protocol.address import Address
from mew_lab.protocol.coerce import list_of, mapping_of, member
from mew_lab.protocol.text import timestamp
from mew_lab.protocol.token import Token
from mew_lab.transport.link import HandshakeRefused, Link, LinkClosed
from mew_lab.transport.websocket import connect

__all__ = [
    "GatewayAddress",
    "HttpAnswer",
    "NotObserved",
    "SendResult",
    "WireMessage",
    "WirePeer",
    "complete_message",
]

# Every gateway refuses this kind with an error, for any sender; the error shows that all earlier messages are handled.
BARRIER = "system/conformance-barrier"
BARRIER_ID = "conformance-barrier-"
_count = itertools.count(1)


class NotObserved(Exception):
    """An awaited message or event did not come; the text names it."""


class WireMessage(NamedTuple):
    """One message as it arrived; `members` is `{}` for a frame, and for a text that is no JSON object."""

    raw: str | bytes
    members: dict[str, Any]

    @property
    def kind(self) -> Any:
        return self.members.get("kind")

    @property
    def id(self) -> Any:
        return self.members.get("id")

    @property
    def payload(self) -> Mapping[str, Any]:
        return mapping_of(self.members.get("payload"))

    @property
    def related(self) -> list[Any]:
        value = self.members.get("correlation_id")
        return value if isinstance(value, list) else [] if value is None else [value]

    @property
    def to(self) -> list[Any]:
        return list_of(self.members.get("to"))

    @property
    def participant(self) -> Any:
        """The id of the participant that a presence is about."""
        return member(self.payload, "participant", "id")

    def is_leave_of(self, name: str) -> bool:
        """Whether it is the presence that announces the leave of a participant."""
        return (
            self.kind == "system/presence"
            and self.payload.get("event") == "leave"
            and self.participant == name
        )

    @property
    def data(self) -> bytes | None:
        """The whole stream frame, if it is one."""
        if isinstance(self.raw, bytes):
            return self.raw
        return self.raw.encode("utf-8", "surrogatepass") if self.raw.startswith("#") else None


class SendResult(NamedTuple):
    """The gateway's reaction to one message: the echo for its sender, and the error."""

    id: Any
    echo: WireMessage | None
    error: WireMessage | None

    @property
    def refused(self) -> bool:
        return self.error is not None

    @property
    def code(self) -> str:
        """The code of the error, the more specific one of two; '' when the message was accepted."""
        if self.error is None:
            return ""
        return str(self.error.payload.get("code") or self.error.payload.get("error") or "?")

    def refused_with(self, *codes: str) -> bool:
        """Whether it was refused with one of these as its error or its code."""
        if self.error is None:
            return False
        return any(self.error.payload.get(key) in codes for key in ("error", "code"))


class HttpAnswer(NamedTuple):
    """The answer to an HTTP request; `body` is its JSON; None where it is no JSON. `route` is what was requested."""

    status: int
    text: str
    body: Any
    route: str = ""

    @property
    def taken(self) -> bool:
        """Whether its status is a success."""
        return 200 <= self.status < 300


def read(raw: str | bytes) -> WireMessage:
    """One received message with its members."""
    members: Any = None
    if isinstance(raw, str) and not raw.startswith("#"):
        try:
            members = json.loads(raw)
        except ValueError:
            members = None
    return WireMessage(raw, members if isinstance(members, dict) else {})


def complete_message(message: Mapping[str, Any], *, by: str) -> str:
    """A message as JSON with `ts` and `from`, because gateways need not complete messages."""
    envelope = dict(message)
    if "kind" in envelope and by:
        envelope = {
            **envelope,
            "ts": envelope.get("ts", timestamp(datetime.now(UTC))),
            "from": envelope.get("from", by),
        }
    return json.dumps(envelope, ensure_ascii=False)


def _is_barrier(raw: str | bytes) -> bool:
    """Whether it is a barrier or the answer to one, which are omitted from a transcript."""
    return isinstance(raw, str) and BARRIER_ID in raw


class WirePeer:
    """One WebSocket of a participant, and everything that has come over it, in order.

    Nothing runs in the background: messages are received only while a check waits for them.
    """

    def __init__(self, link: Link, role: str, *, transcript: WireTranscript, timeout: float) -> None:
        self.role = role
        self.inbox: list[WireMessage] = []
        self.welcome = WireMessage("", {})
        self.closed: LinkClosed | None = None
        self._link = link
        self._transcript = transcript
        self._timeout = timeout
        self._barrier = ""

    @property
    def id(self) -> str:
        """Its id in the welcome of the gateway."""
        return str(member(self.welcome.payload, "you", "id") or "")

    @property
    def capabilities(self) -> list[Any]:
        """Its capabilities in the newest welcome to it."""
        welcome = next(filter(self.is_my_welcome, reversed(self.inbox)), self.welcome)
        return list_of(member(welcome.payload, "you", "capabilities"))

    def is_my_welcome(self, message: WireMessage) -> bool:
        """Whether it is a welcome for this participant."""
        return bool(message.kind == "system/welcome" and member(message.payload, "you", "id") == self.id)

    def is_my_error(self, message: WireMessage) -> bool:
        """Whether it is an error for this participant; a gateway may also send errors of others."""
        return message.kind == "system/error" and (
            not message.to or self.id in message.to or self.role in message.to
        )

    def received(self, kind: str, *, since: int = 0) -> list[WireMessage]:
        """The messages of a kind from place `since` of the inbox on."""
        return [received for received in self.inbox[since:] if received.kind == kind]

    @property
    def mark(self) -> int:
        """The end of the inbox, as a place in it."""
        return len(self.inbox)

    async def send(self, message: Mapping[str, Any] | str | bytes) -> None:
        """Sends a text unchanged, and a mapping as JSON with `ts` and `from`."""
        text = message if isinstance(message, str | bytes) else complete_message(message, by=self.id)
        if not _is_barrier(text):
            self._transcript.record_sent(self.role, text)
        try:
            async with asyncio.timeout(self._timeout):
                await self._link.send(text)
        except LinkClosed as closed:
            self.closed = closed
            raise NotObserved(
                f"the connection of {self.role} was closed ({closed}) before it could send"
            ) from None
        except TimeoutError:
            raise NotObserved(f"the gateway took nothing from {self.role} for {self._timeout:g} s") from None

    async def wait_for(
        self, what: str, wanted: Callable[[WireMessage], bool], *, since: int = 0
    ) -> WireMessage:
        """Waits for the first wanted message from place `since` on, until the deadline.

        Raises:
            NotObserved: it did not come; `what` names it.
        """
        at = since
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    for received in self.inbox[at:]:
                        if wanted(received):
                            return received
                    at = len(self.inbox)
                    await self._take()
        except LinkClosed as closed:
            raise NotObserved(f"{self.role} waited for {what}, but its connection ended ({closed})") from None
        except TimeoutError:
            self._transcript.record_event(self.role, f"waited {self._timeout:g} s for {what}")
            raise NotObserved(
                f"{self.role} waited {self._timeout:g} s for {what}, which did not come"
            ) from None

    async def _take(self) -> None:
        if self.closed is not None:
            raise self.closed
        try:
            raw = await self._link.receive()
        except LinkClosed as closed:
            self.closed = closed
            self._transcript.record_event(self.role, f"connection ended: {closed}")
            raise
        if not _is_barrier(raw):
            self._transcript.record_received(self.role, raw)
        received = read(raw)
        # a faulty gateway relays those of others
        if received.kind != BARRIER or received.id == self._barrier:
            self.inbox.append(received)

    async def settle(self) -> None:
        """Waits until the gateway has handled everything that this peer sent."""
        id = self._barrier = f"{BARRIER_ID}{next(_count)}"
        mark = self.mark
        await self.send({"protocol": "mew/v0.4", "id": id, "kind": BARRIER, "payload": {}})

        def ends(received: WireMessage) -> bool:
            return received.id == id or (
                self.is_my_error(received)
                and (id in received.related or received.payload.get("attempted_kind") == BARRIER)
            )

        await self.wait_for("any answer to what it had sent", ends, since=mark)
        self.inbox = [received for received in self.inbox if not ends(received)]

    async def attempt(self, message: Mapping[str, Any] | str | bytes, *, id: Any = None) -> SendResult:
        """Sends a message, waits until the gateway has handled it, and returns its reaction."""
        mark = self.mark
        await self.send(message)
        if id is None and isinstance(message, Mapping):
            id = message.get("id")
        await self.settle()
        new = self.inbox[mark:]
        echo = next(
            (
                received
                for received in new
                if id is not None and received.id == id and received.kind != "system/error"
            ),
            None,
        )
        error = next(
            (
                received
                for received in new
                if self.is_my_error(received)
                and (not received.related or id is None or id in received.related)
            ),
            None,
        )
        return SendResult(id, echo, error)

    async def wait_closed(self) -> LinkClosed:
        """Waits until the gateway has closed the connection.

        Raises:
            NotObserved: it did not.
        """
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    await self._take()
        except LinkClosed as closed:
            return closed
        except TimeoutError:
            raise NotObserved(
                f"the connection of {self.role} was not closed within {self._timeout:g} s"
            ) from None

    async def leave(self) -> None:
        """Closes the connection from here."""
        self._transcript.record_event(self.role, "closes its connection")
        try:
            async with asyncio.timeout(self._timeout):
                await self._link.close()
        except TimeoutError:
            pass
        self.closed = self.closed or LinkClosed(1000, "closed from here")


class GatewayAddress:
    """The address of a gateway; each form of its URL gives its WebSocket and its HTTP routes.

    Raises:
        ValueError: when `url` names no gateway.
    """

    def __init__(self, url: str) -> None:
        given = Address(url)
        parts = given.parts
        is_gateway = parts.scheme in ("ws", "wss", "http", "https") and parts.hostname
        # the query of a copied address is not used
        if not is_gateway or given.find_secret() not in ("", "a query"):
            raise ValueError("it must read like ws://127.0.0.1:8080, without user and password")
        self._secure = parts.scheme in ("wss", "https")
        self._host = parts.netloc
        self._path = parts.path.rstrip("/") or "/ws"

    async def open(
        self,
        role: str,
        *,
        space: str,
        token: Token | None,
        transcript: WireTranscript,
        timeout: float,
        path: str = "",
    ) -> WirePeer:
        """Opens a WebSocket and sends nothing on it; a token goes into the header.

        Raises:
            HandshakeRefused: the gateway answered with an HTTP status.
            NotObserved: no answer came.
        """
        query = f"?{urlencode({'space': space})}" if space else ""
        at = f"{path or self._path}{query}"
        headers = {"Authorization": f"Bearer {token.reveal()}"} if token else {}
        transcript.record_event(
            role, f"GET {at} as a WebSocket, {'with' if token else 'without'} a token in the header"
        )
        try:
            async with asyncio.timeout(timeout):
                link = await connect(
                    f"{'wss' if self._secure else 'ws'}://{self._host}{at}",
                    headers=headers,
                    open_timeout=timeout,
                    close_timeout=1.0,
                    max_size=16 * 1024 * 1024,
                    ping_interval=None,
                )
        except HandshakeRefused as no:
            transcript.record_event(role, f"was refused with HTTP {no.status}: {no.body[:200]}")
            raise
        except LinkClosed as closed:
            raise NotObserved(closed.reason or str(closed)) from None
        except TimeoutError:
            raise NotObserved(f"no WebSocket could be opened within {timeout:g} s") from None
        return WirePeer(link, role, transcript=transcript, timeout=timeout)

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: Token | None,
        body: Any = None,
        transcript: WireTranscript,
        timeout: float,
    ) -> HttpAnswer:
        """Sends one HTTP request; `body` is sent as JSON, a text unchanged.

        Raises:
            NotObserved: no answer came.
        """
        data = body if body is None or isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        transcript.record_sent("http", f"{method} {path} {data or ''}".rstrip())
        try:
            answer = await asyncio.to_thread(self._ask, method, path, token, data, timeout)
        except (OSError, http.client.HTTPException) as fault:
            raise NotObserved(f"{method} {path} was not answered: {fault or type(fault).__name__}") from None
        transcript.record_received("http", f"{answer.status} {answer.text}")
        return answer

    def _ask(
        self, method: str, path: str, token: Token | None, data: str | None, timeout: float
    ) -> HttpAnswer:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, timeout=timeout)
        headers = {"Connection": "close"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token.reveal()}"
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, data.encode() if data is not None else None, headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        remember_tokens(text)
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        return HttpAnswer(response.status, text, body, f"{method} {path.partition('?')[0]}")
