"""Provides one check with fresh connections, unique ids, and a list for its findings, row by row.

A `CheckGroup` collects the checks of a module. Each check is one async function that names the rows which it can show,
and reports for each whether it holds. Where an awaited message does not come, the check ends and all its rows have
failed for that reason.

Spec: the rows name their sections.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mew_lab.conformance.profile import ROLES, SECOND_ROLES, Profile
from mew_lab.conformance.transcript import WireTranscript
from mew_lab.conformance.wire import (
    GatewayAddress,
    HttpAnswer,
    NotObserved,
    SendResult,
    WireMessage,
    WirePeer,
    complete_message,
)
from mew_lab.protocol.token import Token
from mew_lab.transport.link import HandshakeRefused

__all__ = ["Check", "CheckGroup", "CheckSession", "Finding", "all_in", "open_session"]


class Finding(NamedTuple):
    """The result of one check for one row: `ok` is None where it cannot be tested from outside."""

    row: str
    ok: bool | None
    detail: str
    exchange: str


class Check(NamedTuple):
    """One check: its name, the rows that it shows, and whether it needs a second space.

    The name is shown in a progress line: that of the function, without `check_`.
    """

    name: str
    rows: tuple[str, ...]
    run: Callable[[CheckSession], Awaitable[None]]
    second: bool


class CheckGroup:
    """The checks of one module, in their order."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def shows(self, *rows: str, second: bool = False) -> Callable[[CheckFunction], CheckFunction]:
        """Decorator that registers a function as a check of these rows."""

        def register(function: CheckFunction) -> CheckFunction:
            self.checks.append(Check(function.__name__.removeprefix("check_"), rows, function, second))
            return function

        return register


CheckFunction = Callable[["CheckSession"], Awaitable[None]]


class CheckSession:
    """One run of one check against the gateway: its connections, ids and findings."""

    def __init__(self, address: GatewayAddress, profile: Profile, *, timeout: float, run: str) -> None:
        self.profile = profile
        self.rows: tuple[str, ...] = ()  # of the check that it runs
        self.transcript = WireTranscript()
        self.findings: list[Finding] = []
        self.timeout = timeout
        self._address = address
        self._run = run
        self._ids = itertools.count(1)
        self._guests: list[WirePeer] = []
        self._later: list[Callable[[], Awaitable[object]]] = []

    # --- findings ---

    def report(self, ok: bool, otherwise: str, rows: str = "") -> bool:
        """Reports whether these rows (ids between blanks) hold; if not, `otherwise` states what was observed.

        Without `rows` it reports all rows that the check shows.
        """
        exchange = "" if ok else str(self.transcript)
        self.findings += [
            Finding(row, ok, "" if ok else otherwise, exchange) for row in rows.split() or self.rows
        ]
        return ok

    def cannot_tell(self, why: str, rows: str = "") -> None:
        """Reports that these rows, or all rows that the check shows, cannot be tested from outside here."""
        self.findings += [Finding(row, None, why, "") for row in rows.split() or self.rows]

    # --- names ---

    def new_id(self, word: str = "m") -> str:
        """A message id that is unique over all runs."""
        return f"{word}-{self._run}-{next(self._ids)}"

    def new_name(self, word: str = "guest") -> str:
        """A participant id that was never used."""
        return f"{word}-{self._run}-{next(self._ids)}-{secrets.token_hex(2)}"

    def message(self, kind: str, payload: Any = None, **members: Any) -> dict[str, Any]:
        """An envelope without `from` and `ts`, which are added when it is sent."""
        envelope: dict[str, Any] = {"protocol": "mew/v0.4", "id": self.new_id(), "kind": kind}
        envelope |= {("from" if key == "from_" else key): value for key, value in members.items()}
        return envelope | {"payload": {} if payload is None else payload}

    def chat(self, text: str = "hello", **members: Any) -> dict[str, Any]:
        """A chat message."""
        return self.message("chat", {"text": text}, **members)

    def grant(self, recipient: str, *capabilities: Mapping[str, Any], **members: Any) -> dict[str, Any]:
        """A capability/grant."""
        payload = {"recipient": recipient, "capabilities": list(capabilities), "reason": "conformance"}
        return self.message("capability/grant", payload, to=[recipient], **members)

    def revoke(self, recipient: str, **what: Any) -> dict[str, Any]:
        """A capability/revoke, by `grant_id` or `capabilities`."""
        return self.message("capability/revoke", {"recipient": recipient, **what}, to=[recipient])

    def configured(self, role: str, *, second: bool = False) -> list[dict[str, Any]]:
        """The capabilities that the profile gives to a role."""
        return [dict(pattern) for pattern in (SECOND_ROLES if second else ROLES)[role]]

    # --- connections ---

    def token(self, role: str, *, second: bool = False) -> Token:
        """The role's token."""
        return self._space(second).tokens[role]

    def _space(self, second: bool) -> Profile:
        profile = self.profile.second if second else self.profile
        assert profile is not None, "a check that plays in the second space says so to its checks"
        return profile

    async def open_socket(
        self,
        role: str,
        *,
        token: Token | None = None,
        header: bool = True,
        path: str = "",
        space: str | None = None,
    ) -> WirePeer:
        """Opens a WebSocket, and sends nothing on it.

        Raises:
            HandshakeRefused: the gateway refused it.
        """
        peer = await self._address.open(
            role,
            space=self.profile.space if space is None else space,
            token=(token or self.token(role)) if header else None,
            transcript=self.transcript,
            timeout=self.timeout,
            path=path,
        )
        self._guests.append(peer)
        return peer

    def join_frame(
        self, role: str, *, token: Token | None = None, as_id: str = "", second: bool = False
    ) -> str:
        """The join frame that other clients send first, as text."""
        frame = {
            "type": "join",
            "space": self._space(second).space,
            "token": (token or self.token(role, second=second)).reveal(),
            "participantId": as_id or role,
        }
        return json.dumps(frame)

    async def join(
        self, role: str, *, as_id: str = "", token: Token | None = None, second: bool = False
    ) -> WirePeer:
        """Lets a participant join the space: token in the header, join frame, welcome.

        Raises:
            NotObserved: it was not admitted.
        """
        token = token or self.token(role, second=second)
        try:
            peer = await self.open_socket(role, token=token, space=self._space(second).space)
        except HandshakeRefused as no:
            raise NotObserved(f"{role} was refused with HTTP {no.status} instead of being let in") from None
        await peer.send(self.join_frame(role, token=token, as_id=as_id, second=second))
        await self.await_welcome(peer)
        return peer

    async def await_welcome(self, peer: WirePeer) -> WireMessage:
        """Waits for the peer's welcome, and returns it."""
        peer.welcome = await peer.wait_for("its welcome", lambda received: received.kind == "system/welcome")
        return peer.welcome

    async def join_all(self, *roles: str) -> list[WirePeer]:
        """Lets several roles join, and waits until each has received the joins of the others."""
        peers = [await self.join(role) for role in roles]
        for peer in peers:
            await peer.settle()
        return peers

    async def post(
        self, role: str, body: Any, *, as_: str = "", token: Token | None = None, header: bool = True
    ) -> HttpAnswer:
        """Posts one message by HTTP; a text is sent unchanged."""
        return await self._address.request(
            "POST",
            f"/participants/{as_ or role}/messages",
            token=(token or self.token(role)) if header else None,
            body=body if isinstance(body, str) else complete_message(body, by=as_ or role),
            transcript=self.transcript,
            timeout=self.timeout,
        )

    async def get(self, path: str, *, role: str, token: Token | None = None) -> HttpAnswer:
        """Sends one GET request."""
        return await self._address.request(
            "GET", path, token=token or self.token(role), transcript=self.transcript, timeout=self.timeout
        )

    # --- arrivals ---

    async def arrivals(self, id: Any, *peers: WirePeer) -> list[bool]:
        """Whether a message of this id has reached each peer, after the gateway handled all earlier messages."""
        for peer in peers:
            await peer.settle()
        return [
            any(received.id == id and received.kind != "system/error" for received in peer.inbox)
            for peer in peers
        ]

    async def reaches(self, id: Any, *peers: WirePeer) -> bool:
        """Whether a message of this id has reached all of the peers."""
        return all(await self.arrivals(id, *peers))

    async def hidden(self, id: Any, *peers: WirePeer) -> bool:
        """Whether a message of this id has reached none of the peers."""
        return not any(await self.arrivals(id, *peers))

    async def expect_refusal(
        self, peer: WirePeer, message: Mapping[str, Any] | str, *others: WirePeer
    ) -> SendResult:
        """Sends a message that must be refused; it counts as accepted where it has reached one of the others."""
        outcome = await peer.attempt(message)
        if outcome.id is not None and others and not await self.hidden(outcome.id, *others):
            return outcome._replace(error=None)
        return outcome

    # --- the end ---

    def on_close(self, undo: Callable[[], Awaitable[object]]) -> None:
        """Registers an action for the end of the check, whatever its result."""
        self._later.append(undo)

    async def close(self) -> None:
        """Runs the registered actions, and closes the connections that are left."""
        for undo in reversed(self._later):
            with contextlib.suppress(NotObserved):
                await undo()
        for peer in self._guests:
            if peer.closed is None:
                await peer.leave()


def all_in(wanted: Iterable[Any], present: Iterable[Any]) -> bool:
    """Whether each capability of `wanted` is in `present`; further members that a gateway adds do not count."""

    def bare(capability: Any) -> Any:
        return (
            {key: capability[key] for key in capability if key in ("kind", "payload", "to")}
            if isinstance(capability, dict)
            else capability
        )

    seen = [bare(capability) for capability in present]
    return all(bare(capability) in seen for capability in wanted)


@contextlib.asynccontextmanager
async def open_session(session: CheckSession) -> AsyncIterator[CheckSession]:
    """A session that is closed at the end."""
    try:
        yield session
    finally:
        await session.close()
