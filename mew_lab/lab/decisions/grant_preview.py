"""Previews a grant: the rights that a proposer would have if a person approved its proposal and similar ones.

The offer is the narrowest capability that would have let the proposer act by itself. It is shown, and kept under the
digest of its own bytes. The person confirms that digest and the proposal's, so the shown capability is the granted one.
The proposal is approved first: where that fails nothing is granted. Where the grant is refused, the approval stands and
the result says why.

Text from a peer must not widen the grant: a tool or addressee called `*`, or an argument like a wildcard, is escaped so
that it matches itself alone. Where the pattern language cannot express a value, nothing is offered. An object pattern
does not restrict members that it does not name, so `{}` matches any object. A list of patterns matches any of them, so
no pattern matches one whole list.

Spec: §3.2.1, §3.6.1, §4.1, rulings R11, R12; threats 14, 20, 22.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.decisions.cards import Click
from mew_lab.lab.decisions.limited_grants import ENDS_HERE, LimitedGrants, Matches
from mew_lab.lab.session import Session
from mew_lab.ledger.calls import shown
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import digest
from mew_lab.protocol.pattern import Literal, compile_pattern, compile_strings
from mew_lab.protocol.visible import one_line

__all__ = ["LIMITS", "SESSION", "Allowed", "GrantOffer", "GrantOffers", "literal", "narrowest"]


_MANY = ("$", "*", "?")


def narrowest(to: Sequence[str], payload: Mapping[str, Any], *, values: bool) -> dict[str, Any]:
    """The pattern of an `mcp/request` with this method, this tool and these addressees.

    With `values` each argument must have its present value; other arguments stay free, because no pattern can forbid
    them. Without `values` all arguments are free.

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
    if values:
        arguments = params.get("arguments")
        if not isinstance(arguments, Mapping) or not arguments:
            raise MewError("Cannot grant exactly this: a pattern without arguments means any arguments")
        inner["arguments"] = {_key(name): _value(value, name) for name, value in arguments.items()}
    if inner:
        wanted["params"] = inner
    pattern: dict[str, Any] = {"kind": "mcp/request"}
    if to:
        addressees = [literal(id, "an addressee") for id in to]
        pattern["to"] = addressees[0] if len(to) == 1 else addressees
        compile_strings(pattern["to"], key="to")
    return pattern | {"payload": wanted}


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


def _value(value: Any, name: object) -> Any:
    if isinstance(value, str):
        return literal(value, f"the value of {one_line(str(name), 40)}")
    if isinstance(value, Mapping) and value:
        return {_key(key): _value(inner, f"{name}.{key}") for key, inner in value.items()}
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
OPEN_WORLD = "Other arguments stay free: no pattern can forbid them."

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

    `remarks` are sentences about calls that it also allows.
    """

    proposal: str
    proposed: str
    digest: str
    to: str
    pattern: Mapping[str, Any]
    limit: str
    matches: Matches
    remarks: tuple[str, ...]


class Allowed(NamedTuple):
    """An approval with a permission: a sentence about both, the holder, the limit and the id of the grant."""

    sentence: str
    to: str
    limit: str
    grant: str

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
    ) -> GrantOffer:
        """Offers a grant for the proposer of a proposal, with the number of logged envelopes that would match.

        Args:
            values: Whether only the argument values of this proposal are allowed, rather than any.
            limit: One of `LIMITS`.
            target: The participant that runs the tool, where the proposal names none.
            read_only: Whether all tools of the target that it lists as read-only are allowed, rather than this one.

        Raises:
            MewError: There is no such proposal or limit, the tool is not listed as read-only, or no pattern can
                express it.
        """
        proposed = self._session.me.participant.proposals.get(proposal)
        if proposed is None or limit not in LIMITS:
            raise MewError(
                f"Cannot grant for {proposal[:80]!r}: there is no such proposal, or no limit {limit[:20]!r}"
            )
        to = proposed.to or target
        if not to:
            raise MewError("Cannot grant it: choose who runs it first")
        if read_only:
            pattern = self._read_only_pattern(proposed.tool, to)
        else:
            pattern = narrowest(to, shown(proposed.envelope)["payload"], values=values)
        remarks: tuple[str, ...] = (
            (OPEN_WORLD,)
            if values and not read_only
            else ("Any arguments are allowed, including other paths and other targets.",)
        )
        if read_only:
            remarks = (f"These tools are read-only by the word of {one_line(to[0], 60)} alone.", *remarks)
        if limit == SESSION:
            remarks = (*remarks, ENDS_WITH_SESSION)
        if any(LIMITS[limit]) and not self._granting.kept:
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
        )
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
        approved = await self._session.decisions.carry_out(
            proposal, digest=digest, decision="approve", click=click, target=target
        )
        minutes, uses = LIMITS[shown.limit]
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
            raise MewError(f"{approved}; but nothing was granted to {shown.to[:64]}: {refusal}") from refusal
        del self._offers[offer]
        sentence = f"{approved}; granted to {shown.to[:64]} ({shown.limit}), grant {id}"
        return Allowed(sentence, shown.to, shown.limit, id)
