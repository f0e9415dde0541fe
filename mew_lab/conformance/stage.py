"""What does a check work with?  Fresh connections, unique ids, and claims: what was seen, row by row.

A `Chapter` collects checks; each is one async function that names the rows which it can show. A row that it claims
to hold or not to hold has its result; of a check that could not be played to its end, because something that it
waited for did not happen, every row has failed for that reason.

Spec: none of its own; the rows name their sections.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mew_lab.conformance.exchange import Exchange
from mew_lab.conformance.profile import ROLES, SECOND_ROLES, Profile
from mew_lab.conformance.wire import Address, Answer, Entry, Guest, Outcome, Unmet, whole
from mew_lab.protocol.token import Token
from mew_lab.transport.link import HandshakeRefused

__all__ = ["Chapter", "Check", "Claim", "Stage", "all_in", "playing"]


class Claim(NamedTuple):
    """What one check says of one row: `ok` is None where it cannot be told from outside."""

    row: str
    ok: bool | None
    detail: str
    exchange: str


class Check(NamedTuple):
    """One check: what it does in a sentence, the rows that it shows, whether it needs a second space."""

    name: str
    rows: tuple[str, ...]
    run: Callable[[Stage], Awaitable[None]]
    second: bool


class Chapter:
    """The checks of one module, in its order."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def shows(self, *rows: str, second: bool = False) -> Callable[[CheckFunction], CheckFunction]:
        """Makes a function a check that shows these rows."""

        def register(function: CheckFunction) -> CheckFunction:
            self.checks.append(Check(function.__name__, rows, function, second))
            return function

        return register


CheckFunction = Callable[["Stage"], Awaitable[None]]


class Stage:
    """Where one check plays."""

    def __init__(self, address: Address, profile: Profile, *, timeout: float, run: str) -> None:
        self.profile = profile
        self.exchange = Exchange()
        self.claims: list[Claim] = []
        self.timeout = timeout
        self._address = address
        self._run = run
        self._ids = itertools.count(1)
        self._guests: list[Guest] = []
        self._later: list[Callable[[], Awaitable[object]]] = []

    # --- claims ---

    def claim(self, rows: str, ok: bool, otherwise: str) -> bool:
        """These rows (ids between blanks) hold, or not: then `otherwise` says what was seen instead."""
        exchange = "" if ok else str(self.exchange)
        self.claims += [Claim(row, ok, "" if ok else otherwise, exchange) for row in rows.split()]
        return ok

    def cannot_tell(self, rows: str, why: str) -> None:
        """These rows cannot be told from outside here."""
        self.claims += [Claim(row, None, why, "") for row in rows.split()]

    # --- names ---

    def new_id(self, word: str = "m") -> str:
        """An id that no other message of any run has."""
        return f"{word}-{self._run}-{next(self._ids)}"

    def new_name(self, word: str = "guest") -> str:
        """A participant id that nobody has had."""
        return f"{word}-{self._run}-{next(self._ids)}-{secrets.token_hex(2)}"

    def message(self, kind: str, payload: Any = None, **members: Any) -> dict[str, Any]:
        """A complete envelope, but for `from`, `ts` and `protocol`, which a gateway knows."""
        told: dict[str, Any] = {"protocol": "mew/v0.4", "id": self.new_id(), "kind": kind}
        told |= {("from" if key == "from_" else key): value for key, value in members.items()}
        return told | {"payload": {} if payload is None else payload}

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
        """What the profile gives to a role."""
        return [dict(one) for one in (SECOND_ROLES if second else ROLES)[role]]

    # --- connections ---

    def token(self, role: str, *, second: bool = False) -> Token:
        """The role's token."""
        return self._space(second).tokens[role]

    def _space(self, second: bool) -> Profile:
        profile = self.profile.second if second else self.profile
        assert profile is not None, "a check that plays in the second space says so to its chapter"
        return profile

    async def knock(
        self,
        role: str,
        *,
        token: Token | None = None,
        header: bool = True,
        path: str = "",
        space: str | None = None,
    ) -> Guest:
        """A WebSocket that is open, and on which nothing has been said.

        Raises:
            HandshakeRefused: the gateway would not open one.
        """
        guest = await self._address.open(
            role,
            space=self.profile.space if space is None else space,
            token=(token or self.token(role)) if header else None,
            exchange=self.exchange,
            timeout=self.timeout,
            path=path,
        )
        self._guests.append(guest)
        return guest

    def join_frame(
        self, role: str, *, token: Token | None = None, as_id: str = "", second: bool = False
    ) -> str:
        """The first message of peers in the field, as text."""
        told = {
            "type": "join",
            "space": self._space(second).space,
            "token": (token or self.token(role, second=second)).reveal(),
            "participantId": as_id or role,
        }
        return json.dumps(told)

    async def join(
        self, role: str, *, as_id: str = "", token: Token | None = None, second: bool = False
    ) -> Guest:
        """A participant that is in the space: token in the header, join frame, welcome.

        Raises:
            Unmet: it was not let in.
        """
        token = token or self.token(role, second=second)
        try:
            guest = await self.knock(role, token=token, space=self._space(second).space)
        except HandshakeRefused as no:
            raise Unmet(f"{role} was refused with HTTP {no.status} instead of being let in") from None
        await guest.send(self.join_frame(role, token=token, as_id=as_id, second=second))
        await self.welcomed(guest)
        return guest

    async def welcomed(self, guest: Guest) -> Entry:
        """Waits for the guest's welcome."""
        guest.welcome = await guest.until("its welcome", lambda one: one.kind == "system/welcome")
        return guest.welcome

    async def seats(self, *roles: str) -> list[Guest]:
        """Several roles that have joined, and have heard of each other."""
        guests = [await self.join(role) for role in roles]
        for guest in guests:
            await guest.settle()
        return guests

    async def post(
        self, role: str, body: Any, *, as_: str = "", token: Token | None = None, header: bool = True
    ) -> Answer:
        """One message by HTTP; a text goes out as it is."""
        return await self._address.request(
            "POST",
            f"/participants/{as_ or role}/messages",
            token=(token or self.token(role)) if header else None,
            body=body if isinstance(body, str) else whole(body, by=as_ or role),
            exchange=self.exchange,
            timeout=self.timeout,
        )

    async def get(self, path: str, *, role: str, token: Token | None = None) -> Answer:
        """One question by HTTP."""
        return await self._address.request(
            "GET", path, token=token or self.token(role), exchange=self.exchange, timeout=self.timeout
        )

    # --- looking ---

    async def heard(self, id: Any, *guests: Guest) -> list[bool]:
        """For each guest whether a message of this id has reached it, after all that was sent before."""
        for guest in guests:
            await guest.settle()
        return [any(one.id == id and one.kind != "system/error" for one in guest.inbox) for guest in guests]

    async def reaches(self, id: Any, *guests: Guest) -> bool:
        """Whether it has reached all of them."""
        return all(await self.heard(id, *guests))

    async def hidden(self, id: Any, *guests: Guest) -> bool:
        """Whether it has reached none of them."""
        return not any(await self.heard(id, *guests))

    async def refuses(self, guest: Guest, message: Mapping[str, Any] | str, *others: Guest) -> Outcome:
        """Sends what must be refused; the outcome counts as accepted where anybody has heard it all the same."""
        outcome = await guest.attempt(message)
        if outcome.id is not None and others and not await self.hidden(outcome.id, *others):
            return outcome._replace(error=None)
        return outcome

    # --- the end ---

    def later(self, undo: Callable[[], Awaitable[object]]) -> None:
        """Something to do when the check is over, whatever came of it."""
        self._later.append(undo)

    async def close(self) -> None:
        """Undoes and closes what the check left."""
        for undo in reversed(self._later):
            with contextlib.suppress(Unmet):
                await undo()
        for guest in self._guests:
            if guest.closed is None:
                await guest.leave()


def all_in(wanted: Iterable[Any], found: Iterable[Any]) -> bool:
    """Whether each capability wanted is among those found; remarks of a gateway on them do not count."""

    def bare(one: Any) -> Any:
        return (
            {key: one[key] for key in one if key in ("kind", "payload", "to")}
            if isinstance(one, dict)
            else one
        )

    seen = [bare(one) for one in found]
    return all(bare(one) in seen for one in wanted)


@contextlib.asynccontextmanager
async def playing(stage: Stage) -> AsyncIterator[Stage]:
    """A stage that is closed at the end."""
    try:
        yield stage
    finally:
        await stage.close()
