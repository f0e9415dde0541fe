"""What would a proposer be allowed from now on, if a person said "yes, and not only this time"?

An offer is worked out here, shown, and kept under the digest of its own bytes; whoever confirms it names that digest
and the proposal's, so what is granted is what was shown. The proposal is approved first: where that fails nothing is
granted, and where the grant is refused the approval stands and the reason is told.

Spec: §3.2.1, §3.6.1; threats 14, 20, 22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Click
from mew_lab.lab.decisions.given import ENDS_HERE
from mew_lab.lab.decisions.granting import Granting
from mew_lab.lab.decisions.matching import Matches
from mew_lab.lab.decisions.narrowing import narrowest
from mew_lab.lab.session import Session
from mew_lab.ledger.calls import shown
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import digest

__all__ = ["LIMITS", "Offer", "Offers"]

MAX_OFFERS = 100
OPEN_WORLD = "Arguments that do not stand here stay free: no pattern can forbid them."

# What a grant may be limited to: minutes, uses.
LIMITS: Mapping[str, tuple[float | None, int | None]] = {
    "1 use": (None, 1),
    "10 uses": (None, 10),
    "10 min": (10.0, None),
    "1 h": (60.0, None),
    "no end": (None, None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A grant as it is to be confirmed; `digest` names it, `proposed` is the proposal's own digest.

    `remarks` are sentences about what it does not forbid.
    """

    proposal: str
    proposed: str
    digest: str
    to: str
    pattern: Mapping[str, Any]
    limit: str
    matches: Matches
    remarks: tuple[str, ...]


class Offers:
    """The grants that one human is about to confirm."""

    def __init__(self, session: Session, granting: Granting) -> None:
        self._session = session
        self._granting = granting
        self._kept: BoundedDict[str, Offer] = BoundedDict(MAX_OFFERS)

    async def offer(self, proposal: str, *, values: bool, limit: str, target: tuple[str, ...] = ()) -> Offer:
        """What would be granted to whoever made the proposal, and how much of the log it would have matched.

        Args:
            values: Only with the values of this proposal, rather than with any arguments.
            limit: One of `LIMITS`.
            target: Who runs it, where the proposal does not say.

        Raises:
            MewError: there is no such proposal or limit, or no pattern can say it.
        """
        found = self._session.me.participant.proposals.get(proposal)
        if found is None or limit not in LIMITS:
            raise MewError(
                f"cannot grant for {proposal[:80]!r}: there is no such proposal, or no limit {limit[:20]!r}"
            )
        to = found.to or target
        if not to:
            raise MewError("cannot grant it: choose who runs it first")
        pattern = narrowest(to, shown(found.envelope)["payload"], values=values)
        remarks: tuple[str, ...] = (
            (OPEN_WORLD,)
            if values
            else ("Any arguments are allowed, other paths and other targets in them too.",)
        )
        if any(LIMITS[limit]) and not self._granting.kept:
            remarks = (*remarks, ENDS_HERE)
        key = digest({"proposal": found.digest, "to": found.proposer, "pattern": pattern, "limit": limit})
        matches = await self._granting.matching(pattern, sender=found.proposer)
        offer = Offer(
            proposal=proposal,
            proposed=found.digest,
            digest=key,
            to=found.proposer,
            pattern=pattern,
            limit=limit,
            matches=matches,
            remarks=remarks,
        )
        self._kept[key] = offer
        return offer

    async def take(
        self, proposal: str, *, digest: str, offer: str, click: Click, target: tuple[str, ...] = ()
    ) -> str:
        """Approves by a click the proposal of this digest, then grants what was offered; one sentence about both.

        Raises:
            MewError: says what was not done, and why.
        """
        kept = self._kept.get(offer)
        if kept is None or (kept.proposal, kept.proposed) != (proposal, digest):
            raise MewError(
                "nothing was approved or granted: what was offered is not known here; look at it again"
            )
        approved = await self._session.decisions.carry_out(
            proposal, digest=digest, decision="approve", click=click, target=target
        )
        minutes, uses = LIMITS[kept.limit]
        try:
            id = await self._granting.grant(
                kept.to,
                [kept.pattern],
                minutes=minutes,
                uses=uses,
                reason=f"with the approval of {proposal[:80]}",
            )
        except MewError as refusal:
            raise MewError(f"{approved}; but nothing was granted to {kept.to[:64]}: {refusal}") from refusal
        del self._kept[offer]
        return f"{approved}; granted to {kept.to[:64]} ({kept.limit}), grant {id}"
