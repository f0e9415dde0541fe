"""Tracks the grants of a space, their acknowledgements, revocations and ends.

How it works
------------
`GrantLedger.observe` takes every entry of a space, in order, and returns what it changed. A `Grant` or a `Revocation`
is a snapshot: it never changes, and the ledger holds the newest one of each id.

    grant   stands ─┬─ revoked   by its id, or all of its patterns by name
                    └─ ended     its recipient or its granter was removed from the space

- the gateway relays only what it accepted, so a relayed grant was given, and a relayed revoke took effect (R13);
- only its recipient, or a participant that it was addressed to, acknowledges a grant;
- a revoke by patterns takes the capabilities that it names literally. The gateway decides which others it takes, and
  reports them in a welcome to the recipient alone;
- the gateway reports the capabilities that a revoke by patterns left in place in a `revoke_partial` to the revoker
  alone;
- capabilities of an invitation bear its id, as those of a grant bear the id of the grant; only the time of an
  invitation is kept.

So a grant that is revoked or ended here is in force no more. One that stands here may have ended unseen: with the right
of its granter, by an overlapping pattern, or at its own end. A participant learns its own rights from its welcomes; a
reader in the process of the gateway reads the space itself.

Spec: §3.6.1 to §3.6.3, §3.6.5, §3.6.7, rulings R13, R25.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.members import GATEWAYS
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import line_of, text_of

__all__ = ["GRANT_KINDS", "Acknowledgement", "Grant", "GrantChange", "GrantLedger", "Revocation"]

GRANT_KINDS = frozenset(
    {
        "capability/grant",
        "capability/grant-ack",
        "capability/revoke",
        "space/invite",
        "space/kick",
        "system/error",
    }
)
MAX_ENTRIES = 1000  # grants, revokes and invitations, each; the oldest are forgotten
MAX_BYTES = 4_000_000  # of the messages that carried them
MAX_ACKNOWLEDGEMENTS = 8  # of one grant: as many connections as a participant may have
MAX_TIME = 40  # characters of an RFC 3339 time
MAX_TEXT = 300  # characters of a reason or a status

Patterns = tuple[dict[str, Any], ...]


class Acknowledgement(NamedTuple):
    """One recipient's acknowledgement of a grant."""

    by: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One grant and its state.

    Attributes:
        id: Its `grant_id`: the id of the `capability/grant`.
        to: The addressees of the message.
        left: The part of its capabilities that no revoke named.
        size: Characters of the message.
        state: `stands`, `revoked` or `ended`; a grant in state `stands` may have ended unseen.
        revoked_by: The participant that revoked it, or removed its recipient or granter; empty while it stands.
        expires_at: The end that its granter stated; empty where none was stated.
        max_uses: The number of uses that its granter stated; None where none was stated.
        t: When it was given, as `Entry.t`.
    """

    id: str
    granter: str
    recipient: str
    to: tuple[str, ...]
    capabilities: Patterns
    left: Patterns
    reason: str
    size: int
    acknowledged: tuple[Acknowledgement, ...] = ()
    state: Literal["stands", "revoked", "ended"] = "stands"
    revoked_by: str = ""
    expires_at: str = ""
    max_uses: int | None = None
    t: float = 0.0

    @property
    def stands(self) -> bool:
        """Whether no revoke and no removal is known that ended it."""
        return self.state == "stands"

    @property
    def ends(self) -> dict[str, Any]:
        """The members `expires_at` and `max_uses` of the payload, as far as they were stated."""
        stated = {"expires_at": self.expires_at or None, "max_uses": self.max_uses}
        return {key: value for key, value in stated.items() if value is not None}

    @classmethod
    def of(cls, entry: Entry) -> Grant:
        """The grant that a `capability/grant` states."""
        payload = entry.payload
        patterns = _patterns(payload.get("capabilities"))
        until, uses = payload.get("expires_at"), payload.get("max_uses")
        return cls(
            id=entry.id,
            granter=entry.sender,
            recipient=text_of(payload.get("recipient")),
            to=entry.to,
            capabilities=patterns,
            left=patterns,
            reason=line_of(payload.get("reason"), MAX_TEXT),
            size=len(entry.raw),
            expires_at=until if isinstance(until, str) and len(until) <= MAX_TIME else "",
            max_uses=uses if type(uses) is int else None,
            t=entry.t,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """One revoke, by `grant_id` or by patterns.

    `remaining` are the overlapping capabilities that were kept; the gateway reports them to the revoker alone.
    """

    id: str
    by: str
    recipient: str
    grant_id: str
    capabilities: Patterns
    reason: str
    size: int
    remaining: Patterns = ()

    @classmethod
    def of(cls, entry: Entry) -> Revocation:
        """The revocation that a `capability/revoke` states."""
        payload = entry.payload
        return cls(
            id=entry.id,
            by=entry.sender,
            recipient=text_of(payload.get("recipient")),
            grant_id=text_of(payload.get("grant_id")),
            capabilities=_patterns(payload.get("capabilities")),
            reason=line_of(payload.get("reason"), MAX_TEXT),
            size=len(entry.raw),
        )


class GrantChange(NamedTuple):
    """The change by one entry; `item` is the grant or the revocation that is new or changed."""

    what: Literal["granted", "acknowledged", "revoked", "ended", "revocation", "remaining"]
    item: Grant | Revocation
    entry: Entry


class GrantLedger:
    """The grants and revokes of a space, as one participant or one journal saw them.

    Args:
        logical: Maps the id of a connection to the name of its participant; by default each id is a participant.
        limit: How many grants, revokes and invitations, each, are held; the oldest are forgotten first.
    """

    def __init__(self, *, logical: Callable[[str], str] = str, limit: int = MAX_ENTRIES) -> None:
        self._logical = logical
        self._grants: BoundedDict[str, Grant] = _bounded(limit)
        self._revocations: BoundedDict[str, Revocation] = _bounded(limit)
        self._invitations: BoundedDict[str, float] = BoundedDict(limit)  # when each was given
        self._rules: Mapping[str, Callable[[Entry], Iterator[GrantChange]]] = {
            "capability/grant": self._on_grant,
            "capability/grant-ack": self._on_acknowledge,
            "capability/revoke": self._on_revoke,
            "space/invite": self._on_invite,
            "space/kick": self._on_kick,
            "system/error": self._on_error,
        }

    def __len__(self) -> int:
        return len(self._grants)

    def __iter__(self) -> Iterator[Grant]:
        """The grants, the oldest first."""
        return iter(tuple(self._grants.values()))

    def get(self, id: str) -> Grant | None:
        """The grant of that id; None where it is unknown or forgotten."""
        return self._grants.get(id)

    def given_at(self, id: str) -> float | None:
        """The time (`Entry.t`) of the grant or invitation of that id; None where it is unknown or forgotten."""
        grant = self._grants.get(id)
        return self._invitations.get(id) if grant is None else grant.t

    def given_by(self, granter: str) -> list[Grant]:
        """The grants that one participant gave."""
        return [grant for grant in self if grant.granter == granter]

    def revocation(self, id: str) -> Revocation | None:
        """The revocation by the message of that id; None where it is unknown or forgotten."""
        return self._revocations.get(id)

    def observe(self, entry: Entry) -> tuple[GrantChange, ...]:
        """Records one entry and returns the changes. It needs every entry of the space in order, own echoes included."""
        rule = self._rules.get(entry.kind)
        if rule is None or entry.refused or not entry.id:
            return ()
        if (entry.kind == "system/error") is not (entry.sender in GATEWAYS):
            return ()
        return tuple(rule(entry))

    # --- one rule a kind ---

    def _on_grant(self, entry: Entry) -> Iterator[GrantChange]:
        grant = Grant.of(entry)
        if grant.recipient and grant.capabilities and grant.id not in self._grants:
            yield self._keep("granted", grant, entry)

    def _on_invite(self, entry: Entry) -> Iterator[GrantChange]:
        self._invitations.setdefault(entry.id, entry.t)
        return iter(())

    def _on_acknowledge(self, entry: Entry) -> Iterator[GrantChange]:
        for id in entry.correlation_id:
            grant = self._grants.get(id)
            if grant is None or entry.sender not in (grant.recipient, *grant.to):
                continue
            others = tuple(known for known in grant.acknowledged if known.by != entry.sender)
            if len(others) < MAX_ACKNOWLEDGEMENTS:
                acknowledgement = Acknowledgement(
                    entry.sender, line_of(entry.payload.get("status"), MAX_TEXT)
                )
                grant = replace(grant, acknowledged=(*others, acknowledgement))
            yield self._keep("acknowledged", grant, entry)
            return

    def _on_revoke(self, entry: Entry) -> Iterator[GrantChange]:
        revocation = Revocation.of(entry)
        grant = self._grants.get(revocation.grant_id)
        if grant is not None:
            revocation = replace(revocation, recipient=revocation.recipient or grant.recipient)
            yield self._end("revoked", grant, entry)
        recipient, named = self._logical(revocation.recipient), set(map(_write, revocation.capabilities))
        for grant in self if named else ():
            if not grant.stands or self._logical(grant.recipient) != recipient:
                continue
            left = tuple(pattern for pattern in grant.left if _write(pattern) not in named)
            if not left:
                yield self._end("revoked", replace(grant, left=()), entry)
            elif left != grant.left:
                yield self._keep("revoked", replace(grant, left=left), entry)
        self._revocations[revocation.id] = revocation
        yield GrantChange("revocation", revocation, entry)

    def _on_kick(self, entry: Entry) -> Iterator[GrantChange]:
        name = self._logical(text_of(entry.payload.get("participant_id")))
        for grant in self:
            if grant.stands and name in (self._logical(grant.recipient), self._logical(grant.granter)):
                yield self._end("ended", grant, entry)

    def _on_error(self, entry: Entry) -> Iterator[GrantChange]:
        """Records the capabilities that a revoke left in place, as a `revoke_partial` lists them."""
        for id in entry.correlation_id if entry.payload.get("error") == "revoke_partial" else ():
            revocation = self._revocations.get(id)
            if revocation is not None:
                partial = replace(revocation, remaining=_patterns(entry.payload.get("remaining")))
                self._revocations[id] = partial
                yield GrantChange("remaining", partial, entry)

    # --- storage ---

    def _keep(self, what: Any, grant: Grant, entry: Entry) -> GrantChange:
        self._grants[grant.id] = grant
        return GrantChange(what, grant, entry)

    def _end(self, state: Literal["revoked", "ended"], grant: Grant, entry: Entry) -> GrantChange:
        return self._keep(state, replace(grant, state=state, revoked_by=entry.sender), entry)


def _bounded(limit: int) -> BoundedDict[str, Any]:
    return BoundedDict(limit, max_size=MAX_BYTES, size_of=lambda item: item.size)


def _patterns(value: object) -> Patterns:
    return tuple(pattern for pattern in value if isinstance(pattern, dict)) if isinstance(value, list) else ()


def _write(pattern: Mapping[str, Any]) -> str:
    return json.dumps(pattern, sort_keys=True)  # 1 and true are equal in Python, but not for a gateway
