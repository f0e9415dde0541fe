"""How is a gateway spoken to from outside?  One WebSocket or one HTTP request, raw, with a deadline.

Nothing is validated and nothing is completed on the way out: what a check wants to send, goes out. It knows of MEW
only what it takes to tell when a gateway has dealt with everything that was sent.

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
from urllib.parse import urlencode, urlsplit

from mew_lab.conformance.exchange import Exchange, remember_tokens
from mew_lab.protocol.text import timestamp
from mew_lab.protocol.token import Token
from mew_lab.transport.link import HandshakeRefused, Link, LinkClosed
from mew_lab.transport.websocket import connect

__all__ = ["Address", "Answer", "Entry", "Guest", "Outcome", "Unmet", "whole"]

# A kind that every gateway refuses aloud, whatever its sender may do; so it tells when all before it is done.
BARRIER = "system/conformance-barrier"
BARRIER_ID = "conformance-barrier-"
_count = itertools.count(1)


class Unmet(Exception):
    """What a check waited for did not come; the text says what that was."""


class Entry(NamedTuple):
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
    def payload(self) -> dict[str, Any]:
        found = self.members.get("payload")
        return found if isinstance(found, dict) else {}

    @property
    def related(self) -> list[Any]:
        found = self.members.get("correlation_id")
        return found if isinstance(found, list) else [] if found is None else [found]

    @property
    def to(self) -> list[Any]:
        found = self.members.get("to")
        return found if isinstance(found, list) else []

    @property
    def data(self) -> bytes | None:
        """The whole stream frame, if it is one."""
        if isinstance(self.raw, bytes):
            return self.raw
        return self.raw.encode("utf-8", "surrogatepass") if self.raw.startswith("#") else None


class Outcome(NamedTuple):
    """What became of one message: the echo that its sender got, and the error."""

    id: Any
    echo: Entry | None
    error: Entry | None

    @property
    def refused(self) -> bool:
        return self.error is not None

    @property
    def code(self) -> str:
        """The error's code: the finer one where there are two; '' when it was accepted."""
        if self.error is None:
            return ""
        return str(self.error.payload.get("code") or self.error.payload.get("error") or "?")

    def refused_with(self, *codes: str) -> bool:
        """Whether it was refused, with one of these as its error or its code."""
        if self.error is None:
            return False
        return any(self.error.payload.get(key) in codes for key in ("error", "code"))


class Answer(NamedTuple):
    """What an HTTP request was answered with; `body` is what its JSON says, None where it is none."""

    status: int
    text: str
    body: Any

    @property
    def taken(self) -> bool:
        """Whether it says that what was asked for is done."""
        return 200 <= self.status < 300


def read(raw: str | bytes) -> Entry:
    """One message as it came, with what it says."""
    members: Any = None
    if isinstance(raw, str) and not raw.startswith("#"):
        try:
            members = json.loads(raw)
        except ValueError:
            members = None
    return Entry(raw, members if isinstance(members, dict) else {})


def whole(message: Mapping[str, Any], *, by: str) -> str:
    """A message as JSON, with what only its sending can tell: no gateway has to complete a message."""
    told = dict(message)
    if "kind" in told and by:
        told = {**told, "ts": told.get("ts", timestamp(datetime.now(UTC))), "from": told.get("from", by)}
    return json.dumps(told, ensure_ascii=False)


def _is_barrier(raw: str | bytes) -> bool:
    """Whether it is a barrier, or the answer to one: an exchange is easier to read without them."""
    return isinstance(raw, str) and BARRIER_ID in raw


class Guest:
    """A participant as the outside sees it: one WebSocket, and everything that has come by it, in order.

    Nothing runs in the background: messages are taken when somebody waits for them.
    """

    def __init__(self, link: Link, role: str, *, exchange: Exchange, timeout: float) -> None:
        self.role = role
        self.inbox: list[Entry] = []
        self.welcome = Entry("", {})
        self.closed: LinkClosed | None = None
        self._link = link
        self._exchange = exchange
        self._timeout = timeout
        self._barrier = ""

    @property
    def id(self) -> str:
        """The id that the gateway's welcome gave it."""
        you = self.welcome.payload.get("you")
        return str(you.get("id", "")) if isinstance(you, dict) else ""

    @property
    def capabilities(self) -> list[Any]:
        """What it may do, by the newest welcome that has come to it."""
        return _capabilities(next(filter(self.is_my_welcome, reversed(self.inbox)), self.welcome))

    def is_my_welcome(self, one: Entry) -> bool:
        """Whether it is a welcome that speaks of this participant."""
        you = one.payload.get("you")
        return one.kind == "system/welcome" and isinstance(you, dict) and you.get("id") == self.id

    def is_my_error(self, one: Entry) -> bool:
        """Whether it is an error that is not another's alone: a gateway may let everybody see those."""
        return one.kind == "system/error" and (not one.to or self.id in one.to or self.role in one.to)

    @property
    def mark(self) -> int:
        """Now, as a place in the inbox."""
        return len(self.inbox)

    async def send(self, message: Mapping[str, Any] | str | bytes) -> None:
        """Sends a text as it is, and a mapping as JSON with the `ts` and `from` that every message has."""
        text = message if isinstance(message, str | bytes) else whole(message, by=self.id)
        if not _is_barrier(text):
            self._exchange.sent(self.role, text)
        try:
            async with asyncio.timeout(self._timeout):
                await self._link.send(text)
        except LinkClosed as closed:
            self.closed = closed
            raise Unmet(f"the connection of {self.role} was closed ({closed}) before it could send") from None
        except TimeoutError:
            raise Unmet(f"the gateway took nothing from {self.role} for {self._timeout:g} s") from None

    async def until(self, what: str, wanted: Callable[[Entry], bool], *, since: int = 0) -> Entry:
        """The first message from place `since` on that is wanted, waited for until the deadline.

        Raises:
            Unmet: it did not come; `what` names it.
        """
        at = since
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    for one in self.inbox[at:]:
                        if wanted(one):
                            return one
                    at = len(self.inbox)
                    await self._take()
        except LinkClosed as closed:
            raise Unmet(f"{self.role} waited for {what}, but its connection ended ({closed})") from None
        except TimeoutError:
            self._exchange.noted(self.role, f"waited {self._timeout:g} s for {what}")
            raise Unmet(f"{self.role} waited {self._timeout:g} s for {what}, which did not come") from None

    async def _take(self) -> None:
        if self.closed is not None:
            raise self.closed
        try:
            raw = await self._link.receive()
        except LinkClosed as closed:
            self.closed = closed
            self._exchange.noted(self.role, f"connection ended: {closed}")
            raise
        if not _is_barrier(raw):
            self._exchange.heard(self.role, raw)
        one = read(raw)
        if one.kind != BARRIER or one.id == self._barrier:  # a gateway at fault passes on those of others
            self.inbox.append(one)

    async def settle(self) -> None:
        """Waits until the gateway has dealt with all that was sent here, so that all it led to has come."""
        id = self._barrier = f"{BARRIER_ID}{next(_count)}"
        mark = self.mark
        await self.send({"protocol": "mew/v0.4", "id": id, "kind": BARRIER, "payload": {}})

        def ends(one: Entry) -> bool:
            return one.id == id or (
                self.is_my_error(one) and (id in one.related or one.payload.get("attempted_kind") == BARRIER)
            )

        await self.until("any answer to what it had sent", ends, since=mark)
        self.inbox = [one for one in self.inbox if not ends(one)]

    async def attempt(self, message: Mapping[str, Any] | str | bytes, *, id: Any = None) -> Outcome:
        """Sends it and waits until the gateway has dealt with it: what became of it?"""
        mark = self.mark
        await self.send(message)
        if id is None and isinstance(message, Mapping):
            id = message.get("id")
        await self.settle()
        new = self.inbox[mark:]
        echo = next(
            (one for one in new if id is not None and one.id == id and one.kind != "system/error"), None
        )
        error = next(
            (
                one
                for one in new
                if self.is_my_error(one) and (not one.related or id is None or id in one.related)
            ),
            None,
        )
        return Outcome(id, echo, error)

    async def ended(self) -> LinkClosed:
        """Waits until the gateway has closed the connection.

        Raises:
            Unmet: it did not.
        """
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    await self._take()
        except LinkClosed as closed:
            return closed
        except TimeoutError:
            raise Unmet(f"the connection of {self.role} was not closed within {self._timeout:g} s") from None

    async def leave(self) -> None:
        """Closes the connection from here."""
        self._exchange.noted(self.role, "closes its connection")
        try:
            async with asyncio.timeout(self._timeout):
                await self._link.close()
        except TimeoutError:
            pass
        self.closed = self.closed or LinkClosed(1000, "closed from here")


def _capabilities(welcome: Entry) -> list[Any]:
    you = welcome.payload.get("you")
    found = you.get("capabilities") if isinstance(you, dict) else None
    return found if isinstance(found, list) else []


class Address:
    """Where a gateway is; every form of its URL leads to its WebSocket and to its HTTP routes.

    Raises:
        ValueError: when `url` names no gateway.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss", "http", "https") or not parts.hostname or "@" in parts.netloc:
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
        exchange: Exchange,
        timeout: float,
        path: str = "",
    ) -> Guest:
        """A WebSocket that has said nothing yet; with a token, it stands in the header.

        Raises:
            HandshakeRefused: the gateway answered with an HTTP status.
            Unmet: nobody answered.
        """
        query = f"?{urlencode({'space': space})}" if space else ""
        at = f"{path or self._path}{query}"
        headers = {"Authorization": f"Bearer {token.reveal()}"} if token else {}
        exchange.noted(
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
            exchange.noted(role, f"was refused with HTTP {no.status}: {no.body[:200]}")
            raise
        except LinkClosed as closed:
            raise Unmet(closed.reason or str(closed)) from None
        except TimeoutError:
            raise Unmet(f"no WebSocket could be opened within {timeout:g} s") from None
        return Guest(link, role, exchange=exchange, timeout=timeout)

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: Token | None,
        body: Any = None,
        exchange: Exchange,
        timeout: float,
    ) -> Answer:
        """One HTTP request; `body` goes out as JSON, a text as it is.

        Raises:
            Unmet: nobody answered.
        """
        data = body if body is None or isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        exchange.sent("http", f"{method} {path} {data or ''}".rstrip())
        try:
            answer = await asyncio.to_thread(self._ask, method, path, token, data, timeout)
        except (OSError, http.client.HTTPException) as fault:
            raise Unmet(f"{method} {path} was not answered: {fault or type(fault).__name__}") from None
        exchange.heard("http", f"{answer.status} {answer.text}")
        return answer

    def _ask(self, method: str, path: str, token: Token | None, data: str | None, timeout: float) -> Answer:
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
        return Answer(response.status, text, body)
