"""Who has decided what?  Keeps a card for every proposal that this human may decide, and carries decisions out.

The first decision wins, whichever view, person or policy it comes from; what is sent is built from the proposal that
the participant's book holds, never from what a view says. Everything runs on the loop's thread, so there is no lock;
`decide` and the readers may be called from any thread.

Spec: §3.2.1, §3.3, rulings R17, R18.
"""

from __future__ import annotations

import contextlib
import hmac
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from mew_lab.errors import MewError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.proposals import Proposal
from mew_lab.workbench.cards import POLICY, Card, CardState
from mew_lab.workbench.decide import Policy
from mew_lab.workbench.editing import Editing, Review
from mew_lab.workbench.faces import LastCalls, card_of, outcome_of
from mew_lab.workbench.loop import LoopThread
from mew_lab.workbench.sources import Sources
from mew_lab.workbench.subscribers import Subscribers

__all__ = ["HumanDecisions"]

MAX_DECIDED = 200
STATES: Mapping[str, CardState] = {
    "open": "open",
    "rejected": "rejected",
    "withdrawn": "withdrawn",
    "fulfilled": "fulfilled",
    "answered": "done",
}

Note = Callable[[str, dict[str, Any]], None]


class HumanDecisions:
    """The seat of the human who decides; implements `cards.Decisions`.

    `note(event, detail)` writes who decided into the journal before anything is sent; `annotations(participant,
    tool)` gives what is known of a tool.
    """

    def __init__(
        self,
        me: MEWParticipant,
        *,
        loop: LoopThread,
        note: Note,
        annotations: Callable[[str, str], Mapping[str, Any]] = lambda participant, tool: {},
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._me = me
        self._loop = loop
        self._note = note
        self._annotations = annotations
        self._clock = clock
        self._cards: dict[str, Card] = {}
        self._deciding: dict[str, str] = {}  # proposal -> who is deciding it just now
        self._by_policy: dict[str, str] = {}  # proposal -> the policy that decided it in the human's name
        self._proposal_of: dict[str, str] = {}  # request -> the proposal that it fulfilled
        self._subscribers: Subscribers[Card] = Subscribers()
        self._policy: Policy | None = None
        self._sources = Sources()
        self._last = LastCalls()
        self._seen: dict[str, float] = {}  # proposal -> when a view first showed it
        self.editing = Editing(me)
        me.client.on_message(self._observe)

    # --- what a view asks ---

    def pending(self) -> list[Card]:
        """The open cards, oldest first."""
        return [card for card in tuple(self._cards.values()) if card.is_open]

    def decided(self) -> list[Card]:
        """The cards that were decided last, oldest first; at most 200."""
        past = [card for card in tuple(self._cards.values()) if not card.is_open]
        return sorted(past, key=lambda card: card.decided_at or 0.0)[-MAX_DECIDED:]

    def targets(self) -> list[str]:
        """The participants that a proposal without `to` could be given to."""
        me = self._me.client.id
        return sorted(name for name in tuple(self._me.client.participants) if name != me)

    def banner(self) -> str:
        """The policy in force, as one sentence; empty when there is none."""
        if self._policy is None or not self._policy.decides:
            return ""
        return f"Policy “{self._policy.name}” decides every proposal here; set lab.decide = None to decide yourself."

    def seen(self, proposal: str) -> None:
        """A view shows the card for the first time: from now on it is on screen."""
        card = self._cards.get(proposal)
        if card is not None and card.is_open:
            self._seen.setdefault(proposal, self._clock())

    def subscribe(self, on_change: Callable[[Card], None]) -> Callable[[], None]:
        """Calls back with each new state of a card; returns what ends it."""
        return self._subscribers.add(on_change)

    def card(self, prefix: str) -> Card:
        """The card whose proposal id is `prefix` or begins so, unmistakably.

        Raises:
            MewError: when there is none, or more than one.
        """
        cards = tuple(self._cards.values())
        exact = [card for card in cards if card.id == prefix]
        found = exact or [card for card in cards if prefix and card.id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        waiting = ", ".join(card.id for card in cards if card.is_open) or "none is open"
        problem = "more than one proposal begins with" if found else "there is no proposal"
        raise MewError(f"cannot decide {prefix[:80]!r}: {problem} {prefix[:80]!r} here; open: {waiting}")

    # --- deciding ---

    @property
    def policy(self) -> Policy | None:
        """What decides instead of the human; None when nothing does."""
        return self._policy

    def set_policy(self, policy: Policy | None) -> None:
        """Puts a policy in force, for what is open now too. To be called on the loop."""
        self._policy = policy
        for card in self.pending():
            self._judge(card)
            self._subscribers.tell(card)

    def decide(
        self, proposal: str, *, digest: str, decision: str, reason: str = "", target: tuple[str, ...] = ()
    ) -> Future[str]:
        """Decides (`approve` or `reject`) the proposal, or the kept edit of it, whose canonical bytes have that digest.

        See `cards.Decisions`.
        """
        return self._loop.submit(
            self.carry_out(proposal, digest=digest, decision=decision, reason=reason, target=target)
        )

    async def carry_out(
        self,
        proposal: str,
        *,
        digest: str | None,
        decision: str,
        reason: str = "",
        target: tuple[str, ...] = (),
        by: str = "human",
    ) -> str:
        """The same on the loop. `digest` None takes the proposal as the book holds it. See `Editing` for edits.

        Returns:
            One sentence about what was sent.

        Raises:
            MewError: says why nothing was sent.
        """
        card = self._cards.get(proposal)
        if card is None:
            raise MewError(f"cannot {decision} {proposal[:80]!r}: there is no such proposal here")
        if proposal in self._deciding:
            raise MewError(f"{card.request}: being decided already by {self._deciding[proposal]}")
        if not card.is_open:
            raise MewError(f"{card.request}: {card.decision} already by {card.by}")
        edit = self._edit(card, digest, decision)
        self._deciding[proposal] = by
        self._put(replace(card, state="deciding", by=by))
        try:
            meant = edit.digest if edit else card.digest
            details: dict[str, Any] = {"proposal": proposal, "decision": decision, "by": by, "digest": meant}
            if (began := self._seen.get(proposal)) is not None:
                details["on_screen"] = round(self._clock() - began, 2)
            self._note("decided", details | ({"reason": reason} if reason else {}))
            if by.startswith(POLICY):
                self._by_policy[proposal] = by
            if decision == "approve":
                params = edit.params if edit else None
                request = await self._me.approve(proposal, digest=meant, to=target or None, params=params)
                return f"approved: {card.request}" + (
                    await self._tell_changes(card, edit, request.id) if edit else ""
                )
            await self._me.reject(proposal, reason or "disagree")
            return f"rejected ({reason or 'disagree'}): {card.request}"
        finally:
            del self._deciding[proposal]
            self._refresh(proposal)

    def _edit(self, card: Card, digest: str | None, decision: str) -> Review | None:
        if digest is None or hmac.compare_digest(digest.encode(), card.digest.encode()):
            return None
        edit = self.editing.kept(card.id, digest) if decision == "approve" else None
        if edit is None:
            raise MewError(f"{card.request}: what was shown is not what is proposed; look at the card again")
        return edit

    async def _tell_changes(self, card: Card, edit: Review, request: str) -> str:
        """Says to the proposer what was changed; how that went, to be added to the sentence."""
        text = f"Approved with changes, {card.tool or card.method}: {edit.said}"
        try:
            await self._me.chat(text, card.proposer, correlation_id=[request, card.id])
        except MewError as fault:
            return f", edited; {card.proposer} was not told: {fault}"
        return f", edited; {card.proposer} was told what was changed"

    def _judge(self, card: Card) -> None:
        """Lets the policy in force decide an open card."""
        policy = self._policy
        if policy is None or card.state != "open":
            return
        decision = policy.judge(card)
        if decision is None or (decision.decision == "approve" and not card.to):
            return

        async def act() -> None:
            with contextlib.suppress(MewError):  # somebody was faster: the card says who
                await self.carry_out(
                    card.id,
                    digest=card.digest,
                    decision=decision.decision,
                    reason=decision.reason,
                    by=f"{POLICY}{policy.name}",
                )

        self._loop.submit(act())

    # --- following the space ---

    def _observe(self, envelope: Envelope) -> None:
        self._sources.observe(envelope, me=self._me.client.id)
        self._last.observe(envelope)
        if envelope.kind == "mcp/proposal":
            self._refresh(envelope.id)
        elif envelope.kind.startswith("mcp/"):
            for id in envelope.correlation_id:
                if envelope.kind == "mcp/request" and id in self._cards:
                    self._proposal_of[envelope.id] = id
                self._refresh(self._proposal_of.get(id, id))

    def _refresh(self, id: str) -> None:
        proposal = self._me.proposals.get(id)
        if proposal is None or proposal.proposer == self._me.client.id:
            return
        known = self._cards.get(id)
        card = known or self._first(proposal)
        if card is None:
            return
        if id not in self._deciding:
            card = self._advanced(card, proposal)
        if card != known:
            self._put(card)
            if known is None:
                self._judge(card)

    def _first(self, proposal: Proposal) -> Card | None:
        return card_of(
            proposal,
            since=self._clock(),
            of_the_tool=self._of_the_tool(proposal),
            sources=self._sources,
            last=self._last.of(proposal),
        )

    def _of_the_tool(self, proposal: Proposal) -> tuple[str, ...]:
        known = [self._annotations(name, proposal.tool) for name in proposal.to] if proposal.tool else []
        if any(one.get("destructiveHint") is True for one in known):
            return ("destroys: the tool says so itself (annotations)",)
        if any(one.get("readOnlyHint") is False for one in known):
            return ("writes: the tool is not read-only (annotations)",)
        return ()

    def _advanced(self, card: Card, proposal: Proposal) -> Card:
        state = STATES[proposal.state]
        rejection = proposal.rejections[-1] if proposal.rejections else None
        by = (rejection.by if rejection else "") if state == "rejected" else proposal.by
        if by == self._me.client.id and proposal.id in self._by_policy:
            by = f"{by} by {self._by_policy[proposal.id]}"
        reason = rejection.reason if rejection and state == "rejected" else proposal.reason
        decided_at = None if state == "open" else card.decided_at or self._clock()
        began = self._seen.get(card.id)
        return replace(
            card,
            state=state,
            by=by if state != "open" else "",
            edited=proposal.edited,
            outcome=outcome_of(proposal) or one_line(reason, 120),
            decided_at=decided_at,
            on_screen=None if began is None or decided_at is None else max(0.0, decided_at - began),
        )

    def _put(self, card: Card) -> None:
        self._cards[card.id] = card
        if not card.is_open:
            self.editing.forget(card.id)
        past = len(self._cards) - MAX_DECIDED
        if past > 0:
            for old in [one.id for one in self._cards.values() if not one.is_open][:past]:
                del self._cards[old]
                self._by_policy.pop(old, None)
                self._seen.pop(old, None)
        self._subscribers.tell(card)
