"""Who was granted what, and who took note?  The book of grants and revokes that were seen; pure.

What the gateway relays it has accepted, so a grant in here was given. Whether it still stands is the gateway's to
know: a grant falls with its granter's right, and a revoke by patterns takes more or less than one grant. Of one's
own rights the welcome tells; of others' nobody does.

Spec: §3.6.1 to §3.6.3, ruling R13.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line

__all__ = ["Acknowledgement", "Grant", "Grants", "Revocation"]

MAX_ENTRIES = 1000  # grants, and revokes; the oldest go
MAX_BYTES = 4_000_000  # of the messages that they came in
MAX_ACKNOWLEDGEMENTS = 8  # of one grant: as many connections as a participant may have
MAX_TIME = 40  # characters of an RFC 3339 time
MAX_TEXT = 300  # characters of a reason or a status


class Acknowledgement(NamedTuple):
    """A recipient's word about a grant."""

    by: str
    status: str


@dataclass(frozen=True, slots=True)
class Grant:
    """One grant; `id` is its `grant_id`, `revoked_by` who revoked it by that id (empty: nobody did).

    `expires_at` and `max_uses` are when it ends as its granter stated it; whether it does is the gateway's to know.
    """

    id: str
    granter: str
    recipient: str
    to: tuple[str, ...]
    capabilities: tuple[dict[str, Any], ...]
    reason: str
    size: int
    acknowledged: tuple[Acknowledgement, ...] = ()
    revoked_by: str = ""
    expires_at: str = ""
    max_uses: int | None = None

    @property
    def ends(self) -> dict[str, Any]:
        """The end as it stands in a payload; empty where none was stated."""
        told = {"expires_at": self.expires_at or None, "max_uses": self.max_uses}
        return {key: value for key, value in told.items() if value is not None}

    @classmethod
    def of(cls, envelope: Envelope) -> Grant:
        """What a `capability/grant` says."""
        payload = envelope.payload
        recipient, reason = _name(payload.get("recipient")), _text(payload.get("reason"))
        patterns, size = _patterns(payload.get("capabilities")), len(envelope.raw)
        until, uses = payload.get("expires_at"), payload.get("max_uses")
        return cls(
            envelope.id,
            envelope.sender,
            recipient,
            envelope.to,
            patterns,
            reason,
            size,
            expires_at=until if isinstance(until, str) and len(until) <= MAX_TIME else "",
            max_uses=uses if type(uses) is int else None,
        )


@dataclass(frozen=True, slots=True)
class Revocation:
    """One revoke, by `grant_id` or by patterns. `remaining` are capabilities that overlap the patterns and were kept,
    as the gateway tells the revoker alone."""

    id: str
    by: str
    recipient: str
    grant_id: str
    capabilities: tuple[dict[str, Any], ...]
    reason: str
    size: int
    remaining: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, envelope: Envelope) -> Revocation:
        """What a `capability/revoke` says."""
        payload = envelope.payload
        recipient, grant_id = _name(payload.get("recipient")), _name(payload.get("grant_id"))
        patterns, reason = _patterns(payload.get("capabilities")), _text(payload.get("reason"))
        size = len(envelope.raw)
        return cls(envelope.id, envelope.sender, recipient, grant_id, patterns, reason, size)


class Grants:
    """The grants and revokes of a space as one participant saw them, the oldest first."""

    def __init__(self) -> None:
        self._grants: BoundedDict[str, Grant] = _book()
        self._revocations: BoundedDict[str, Revocation] = _book()

    def __len__(self) -> int:
        return len(self._grants)

    def __iter__(self) -> Iterator[Grant]:
        return iter(tuple(self._grants.values()))

    def get(self, id: str) -> Grant | None:
        """The grant of that id; None when it was never seen, or long ago."""
        return self._grants.get(id)

    def given_by(self, granter: str) -> list[Grant]:
        """What one participant granted."""
        return [one for one in self if one.granter == granter]

    def revocation(self, id: str) -> Revocation | None:
        """The revoke that came in the message of that id."""
        return self._revocations.get(id)

    def observe(self, envelope: Envelope) -> Grant | Revocation | None:
        """Takes note of one message; the entry that is new or changed."""
        match envelope.kind:
            case "capability/grant":
                return self._granted(envelope)
            case "capability/grant-ack":
                return self._acknowledged(envelope)
            case "capability/revoke":
                return self._revoked(envelope)
        return None

    def kept(self, id: str, remaining: object) -> Revocation | None:
        """The gateway says what a revoke left in place."""
        found = self._revocations.get(id)
        if found is not None:
            found = self._revocations[id] = replace(found, remaining=_patterns(remaining))
        return found

    def _granted(self, envelope: Envelope) -> Grant | None:
        grant = Grant.of(envelope)
        if not grant.recipient or not grant.capabilities or grant.id in self._grants:
            return None
        self._grants[grant.id] = grant
        return grant

    def _acknowledged(self, envelope: Envelope) -> Grant | None:
        """Only a recipient can take note of a grant."""
        for id in envelope.correlation_id:
            grant = self._grants.get(id)
            if grant is None or envelope.sender not in (grant.recipient, *grant.to):
                continue
            said = tuple(one for one in grant.acknowledged if one.by != envelope.sender)
            if len(said) < MAX_ACKNOWLEDGEMENTS:
                new = Acknowledgement(envelope.sender, _text(envelope.payload.get("status")))
                grant = self._grants[id] = replace(grant, acknowledged=(*said, new))
            return grant
        return None

    def _revoked(self, envelope: Envelope) -> Revocation:
        made = Revocation.of(envelope)
        found = self._grants.get(made.grant_id)
        if found is not None:
            self._grants[found.id] = replace(found, revoked_by=made.by)
            made = made if made.recipient else replace(made, recipient=found.recipient)
        self._revocations[made.id] = made
        return made


def _book() -> BoundedDict[str, Any]:
    return BoundedDict(MAX_ENTRIES, max_size=MAX_BYTES, size_of=lambda entry: entry.size)


def _patterns(told: object) -> tuple[dict[str, Any], ...]:
    return tuple(one for one in told if isinstance(one, dict)) if isinstance(told, list) else ()


def _name(told: object) -> str:
    return told if isinstance(told, str) else ""


def _text(told: object) -> str:
    return one_line(told, MAX_TEXT) if isinstance(told, str) else ""
