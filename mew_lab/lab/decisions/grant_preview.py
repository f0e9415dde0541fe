"""Previews a grant: the rights that a proposer would have if a person approved its proposal and similar ones.

The offer is the narrowest capability that would have let the proposer act by itself. It is shown, and kept under the
digest of its own bytes. The person confirms that digest and the proposal's, so the shown capability is the granted one.
The proposal is approved first: where that fails nothing is granted. Where the grant is refused, the approval stands and
the result says why.

Text from a peer must not widen the grant: a tool or addressee called `*`, or an argument like a wildcard, is escaped so
that it matches itself alone. Where the pattern language cannot express a value, nothing is offered. A list of patterns
matches any of them, so no pattern matches one whole list.

An offer for the values of a proposal is closed (R34): these arguments and no others. Where the gateway of the space
ignores `x-closed`, the closed capability is judged here (`alike.py`), or the open one is granted after the person was
told that other arguments stay free. An object pattern of an open one does not restrict members that it does not name,
so `{}` matches any object there.

Spec: §3.2.1, §3.6.1, §4.1, rulings R11, R12, R34; threats 14, 20, 22.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError, ConnectionLost, MewError, NoReply
from mew_lab.lab.decisions.cards import Click
from mew_lab.lab.decisions.limited_grants import ENDS_HERE, LimitedGrants, Matches
from mew_lab.lab.session import Session
from mew_lab.lab.standing import logical
from mew_lab.ledger.calls import shown
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import digest
from mew_lab.protocol.pattern import Literal, compile_pattern, compile_strings
from mew_lab.protocol.permit import CLOSED
from mew_lab.protocol.visible import one_line

__all__ = [
    "LIMITS",
    "SESSION",
    "Allowed",
    "GrantOffer",
    "GrantOffers",
    "literal",
    "narrowest",
    "remarks_of_values",
]


_MANY = ("$", "*", "?")


def narrowest(
    to: Sequence[str], payload: Mapping[str, Any], *, values: bool, closed: bool = False
) -> dict[str, Any]:
    """The pattern of an `mcp/request` with this method, this tool and these addressees.

    With `values` each argument must have its present value. Other arguments are refused by a `closed` pattern, and stay
    free in any other one. Without `values` all arguments are free.

    Raises:
        MewError: The pattern language cannot express it; the message names the place.
    """
    params = payload.get("params")
    params = params if isinstance(params, Mapping) else {}
    wanted: dict[str, Any] = {"method": literal(str(payload.get("method", "")), "the method")}
    tool = params.get("name")
    if payload.get("method") == "tools/call" and not (isinstance(tool, str) and tool):
        raise MewError(
            "Cannot grant it: the request names no tool, and a pattern without one means every tool"
        )
    inner: dict[str, Any] = {"name": literal(tool, "the tool's name")} if isinstance(tool, str) else {}
    if values and closed:
        if not isinstance(payload.get("params"), Mapping):
            raise MewError("Cannot allow exactly this: the request has no params, so nothing could be closed")
        inner |= _exact_params(params)
        wanted |= {
            _key(name): _value(value, name)
            for name, value in payload.items()
            if name not in ("jsonrpc", "id", "method", "params")
        }
    elif values:
        arguments = params.get("arguments")
        if not isinstance(arguments, Mapping) or not arguments:
            raise MewError("Cannot grant exactly this: a pattern without arguments means any arguments")
        inner["arguments"] = {_key(name): _value(value, name) for name, value in arguments.items()}
    closed = values and closed
    if inner or closed:
        wanted["params"] = inner
    pattern: dict[str, Any] = {"kind": "mcp/request"}
    if to:
        addressees = [literal(id, "an addressee") for id in to]
        pattern["to"] = addressees[0] if len(to) == 1 else addressees
        compile_strings(pattern["to"], key="to")
    return pattern | {"payload": wanted} | ({CLOSED: True} if closed else {})


def _exact_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The members of `params` beside the tool's name, as a closed pattern names them."""
    exact: dict[str, Any] = {}
    for name, value in params.items():
        if name == "name" and isinstance(value, str):
            continue
        if name == "arguments" and value == {}:
            continue  # a closed pattern without arguments allows none
        if name == "_meta" and isinstance(value, Mapping):
            value = {key: inner for key, inner in value.items() if key != "progressToken"}
            if not value:
                continue
        exact[_key(name)] = _value(value, name, closed=True)
    return exact


def literal(text: str, what: str) -> str:
    """A string pattern that matches `text` and nothing else; `what` describes the text in the error.

    Raises:
        MewError: No pattern does.
    """
    with contextlib.suppress(ConfigError):  # such as a lone "!"
        if isinstance(compile_pattern(text), Literal):
            return text
    escaped = f"/{''.join(_escape(c) for c in text)}/"
    try:
        compile_pattern(escaped)
    except ConfigError as fault:
        raise MewError(
            f"Cannot grant exactly this: {what} ({one_line(text, 40)}) cannot be expressed by a pattern: {fault}"
        ) from None
    return escaped


def _escape(c: str) -> str:
    return c if c.isalnum() or c == "_" or not c.isascii() else f"\\x{ord(c):02x}"


def _key(name: object) -> str:
    text = str(name)
    if text[:1] == "$" or any(sign in text for sign in _MANY):
        raise MewError(
            f"Cannot grant exactly this: an argument called {one_line(text, 40)} reads like a wildcard"
        )
    return text


def _value(value: Any, name: object, *, closed: bool = False) -> Any:
    if isinstance(value, str):
        return literal(value, f"the value of {one_line(str(name), 40)}")
    if isinstance(value, Mapping) and (value or closed):
        return {_key(key): _value(inner, f"{name}.{key}", closed=closed) for key, inner in value.items()}
    if isinstance(value, Mapping | list):
        kind = "an empty object" if isinstance(value, Mapping) else "a list"
        raise MewError(
            f"Cannot grant exactly this: {one_line(str(name), 40)} is {kind}, which no pattern can match as a whole"
        )
    return value


SESSION = "this session"  # the limit that also ends when the lab goes down
ENDS_WITH_SESSION = "It ends when this lab goes down, and after 8 h at the latest."
MOST_TOOLS = 50
MAX_OFFERS = 100
OPEN_WORLD = "Other arguments stay free: the gateway of this space has no way to forbid them."
OPEN_WITHIN = "So does what else the objects in these arguments may hold."
OPEN_BESIDE = "So does what may stand beside `arguments` and beside `params`, such as `_meta` and `task`."
EITHER = "A call to some of these addressees alone is allowed too."
NOTHING_ELSE = "These arguments and no others."
JUDGED_HERE = (
    "It is judged in this lab: each call is approved in your name, with its own receipt, while the lab is up."
)
IGNORES_CLOSED = "This gateway ignores 'nothing else'"
TEXT_ALONE = "Paths are compared as text: links, %2e and ~ are up to the participant that runs the call."

# The limits of a grant: minutes, uses.
LIMITS: Mapping[str, tuple[float | None, int | None]] = {
    "1 use": (None, 1),
    "10 uses": (None, 10),
    "10 min": (10.0, None),
    "1 h": (60.0, None),
    "this session": (480.0, None),
    "no end": (None, None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOffer:
    """A grant to be confirmed; `digest` identifies it, `proposed` is the proposal's own digest.

    `remarks` are sentences about calls that it also allows. `here` is whether it is judged in this lab. `ask` is a
    question to be confirmed before the offer can be taken; empty where there is none.
    """

    proposal: str
    proposed: str
    digest: str
    to: str
    pattern: Mapping[str, Any]
    limit: str
    matches: Matches
    remarks: tuple[str, ...]
    here: bool = False
    ask: str = ""


class Allowed(NamedTuple):
    """An approval with a permission: a sentence about both, the holder, the limit and the id of the grant.

    `here` is whether no grant was given, and alike calls are approved in this lab.
    """

    sentence: str
    to: str
    limit: str
    grant: str
    here: bool = False

    def __str__(self) -> str:
        return self.sentence


class GrantOffers:
    """The offered grants that wait for one human's confirmation."""

    def __init__(self, session: Session, granting: LimitedGrants) -> None:
        self._session = session
        self._granting = granting
        self._offers: BoundedDict[str, GrantOffer] = BoundedDict(MAX_OFFERS)

    async def offer(
        self,
        proposal: str,
        *,
        values: bool,
        limit: str,
        target: tuple[str, ...] = (),
        read_only: bool = False,
        opened: bool = False,
        aware: bool = False,
    ) -> GrantOffer:
        """Offers a grant for the proposer of a proposal, with the number of logged envelopes that would match.

        Args:
            values: Whether only the argument values of this proposal are allowed, rather than any.
            limit: One of `LIMITS`.
            target: The participant that runs the tool, where the proposal names none.
            read_only: Whether all tools of the target that it lists as read-only are allowed, rather than this one.
            opened: Whether the values are granted at a gateway that leaves other arguments free, rather than judged
                here. It has no effect where the gateway knows closed capabilities.
            aware: Whether the person was told so; without it the offer has a question and cannot be taken.

        Raises:
            MewError: There is no such proposal or limit, the tool is not listed as read-only, or no pattern can
                express it.
        """
        proposed = self._session.me.participant.proposals.get(proposal)
        if proposed is None or limit not in LIMITS:
            raise MewError(
                f"Cannot grant for {proposal[:80]!r}: there is no such proposal, or no limit {limit[:20]!r}"
            )
        if proposed.permission is not None:
            raise MewError(
                "Cannot grant it: an agent asks for a permission of its own, so choose one of its options"
            )
        to = proposed.to or target
        if not to:
            raise MewError("Cannot grant it: choose who runs it first")
        exact, knows_closed = values and not read_only, self._granting.knows_closed
        closed = exact and (knows_closed or not opened)
        here = closed and not knows_closed
        payload = shown(proposed.envelope)["payload"]
        if read_only:
            pattern = self._read_only_pattern(proposed.tool, to)
        else:
            pattern = narrowest(to, payload, values=values, closed=closed)
        remarks: tuple[str, ...] = ("Any arguments are allowed, including other paths and other targets.",)
        if exact:
            remarks = remarks_of_values(payload, closed=closed)
        if len(set(to)) > 1:
            remarks = (*remarks, EITHER)
        if here:
            if not proposed.to:
                raise MewError("Cannot approve alike calls here: the proposal leaves open who runs it")
            remarks = (*remarks, JUDGED_HERE)
        if read_only:
            remarks = (f"These tools are read-only by the word of {one_line(to[0], 60)} alone.", *remarks)
        if limit == SESSION:
            remarks = (*remarks, ENDS_WITH_SESSION)
        if any(LIMITS[limit]) and not self._granting.kept and not here:
            remarks = (*remarks, ENDS_HERE)
        key = digest(
            {"proposal": proposed.digest, "to": proposed.proposer, "pattern": pattern, "limit": limit}
        )
        matches = await self._granting.count_matches(pattern, sender=proposed.proposer)
        offer = GrantOffer(
            proposal=proposal,
            proposed=proposed.digest,
            digest=key,
            to=proposed.proposer,
            pattern=pattern,
            limit=limit,
            matches=matches,
            remarks=remarks,
            here=here,
            ask=IGNORES_CLOSED if exact and not closed and not aware else "",
        )
        if not offer.ask:
            self._offers[key] = offer
        return offer

    def _read_only_pattern(self, tool: str, to: Sequence[str]) -> dict[str, Any]:
        """The pattern of calls of all read-only tools of the only target."""
        names = self._session.decisions.tools.read_only_tools(to[0]) if len(set(to)) == 1 else []
        if tool not in names:
            raise MewError(
                f"Cannot allow the read-only tools: {one_line(tool, 60)} is not listed as one of them"
            )
        if len(names) > MOST_TOOLS:
            raise MewError(
                f"Cannot allow the read-only tools: {len(names)} are more than the {MOST_TOOLS} to be shown"
            )
        patterns = [literal(name, "the name of a tool") for name in names]
        params = {"name": patterns[0] if len(patterns) == 1 else patterns}
        payload = {"method": "tools/call", "params": params}
        return {"kind": "mcp/request", "to": literal(to[0], "an addressee"), "payload": payload}

    async def take(
        self, proposal: str, *, digest: str, offer: str, click: Click, target: tuple[str, ...] = ()
    ) -> Allowed:
        """Approves a proposal by a click, then gives the offered grant.

        Raises:
            MewError: Something was not done; the message says what and why.
        """
        shown = self._offers.get(offer)
        if shown is None or (shown.proposal, shown.proposed) != (proposal, digest):
            raise MewError(
                "Nothing was approved or granted: this offer is not known here; open the preview again"
            )
        card = self._session.decisions.card(proposal)
        warnings = card.warnings if card is not None else ()
        approved = await self._session.decisions.carry_out(
            proposal, digest=digest, decision="approve", click=click, target=target
        )
        minutes, uses = LIMITS[shown.limit]
        if shown.here:
            return self._allow_here(shown, approved, warnings)
        try:
            id = await self._granting.grant(
                shown.to,
                [shown.pattern],
                minutes=minutes,
                uses=uses,
                reason=f"with the approval of {proposal[:80]}",
                session=shown.limit == SESSION,
            )
        except MewError as refusal:
            what = "nothing was granted to"
            if isinstance(refusal, NoReply | ConnectionLost):  # `grant` takes it back
                what = "no permission is confirmed, and what may have been granted is taken back from"
            raise MewError(f"{approved}; but {what} {shown.to[:64]}: {refusal}") from refusal
        self._offers.pop(offer, None)
        sentence = f"{approved}; granted to {shown.to[:64]} ({shown.limit}), grant {id}"
        return Allowed(sentence, shown.to, shown.limit, id)

    def _allow_here(self, shown: GrantOffer, approved: str, warnings: Sequence[str]) -> Allowed:
        """Approves alike calls in this lab from now on."""
        minutes, uses = LIMITS[shown.limit]
        proposer = logical(self._session, shown.to)
        id = self._session.decisions.alike.allow(
            proposer, shown.pattern, warnings=warnings, minutes=minutes, uses=uses
        )
        self._offers.pop(shown.digest, None)
        sentence = (
            f"{approved}; alike calls of {proposer[:64]} are approved in this lab ({shown.limit}), rule {id}"
        )
        return Allowed(sentence, proposer, shown.limit, id, here=True)


def remarks_of_values(payload: Mapping[str, Any], *, closed: bool) -> tuple[str, ...]:
    """What a capability for the values of this request, that `narrowest` has made, allows beside them."""
    remarks: tuple[str, ...] = (NOTHING_ELSE,)
    if not closed:
        arguments = payload["params"]["arguments"]
        within = (OPEN_WITHIN,) if any(isinstance(value, Mapping) for value in arguments.values()) else ()
        remarks = (OPEN_WORLD, *within, OPEN_BESIDE)
    return (*remarks, TEXT_ALONE) if _has_path(payload.get("params")) else remarks


def _has_path(value: Any) -> bool:
    """Whether a text in it has parts, as a path has."""
    if isinstance(value, Mapping):
        return any(map(_has_path, value.values()))
    return isinstance(value, str) and ("/" in value or "\\" in value)
