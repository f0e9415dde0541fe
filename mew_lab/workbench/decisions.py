"""Who has decided what?  Keeps a card for every proposal that this human may decide, and carries decisions out.

The first decision wins, whichever view, person or policy it comes from; what is sent is built from the proposal that
the participant's book holds, never from what a view says. Everything runs on the loop's thread, so there is no lock;
`decide` and the readers may be called from any thread.

A card is open no longer than the book holds its proposal: what nobody can decide any more is `lapsed`. A proposer that
was admitted anew may use an id again (R6): the other proposal has a card of its own, and what became of the earlier one
stays among the decided under the id followed by `(earlier …)`.

Spec: §3.2.1, §3.3, rulings R6, R17, R18.
"""

from __future__ import annotations

import contextlib
import hmac
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import Any

from mew_lab.errors import MewError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.proposals import Proposal
from mew_lab.workbench.behalf import Behalf
from mew_lab.workbench.cards import POLICY, Card, CardState, stated
from mew_lab.workbench.decide import Policy
from mew_lab.workbench.editing import Editing, Review
from mew_lab.workbench.faces import LastCalls, card_of, outcome_of
from mew_lab.workbench.loop import LoopThread
from mew_lab.workbench.pinned_tools import PinnedTools
from mew_lab.workbench.shelf import Shelf
from mew_lab.workbench.sources import Sources
from mew_lab.workbench.subscribers import Subscribers

__all__ = ["HumanDecisions"]

MAX_OPEN = 10_000  # as many as the book of proposals holds
MAX_DECIDED = 200
MAX_NAMED = 10  # ids in an error

TOO_MUCH = "so much was proposed that it is not held here any more; what became of it is not known"
ANEW = "its proposer has used its id for another proposal, before a decision was seen here"

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
    tool)` gives what is known of a tool. `tools` remembers how tools described themselves.
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
        self._open = Shelf(MAX_OPEN)  # in the order in which they were proposed
        self._past = Shelf(MAX_DECIDED)  # in the order in which they were decided
        self._anew: set[str] = set()  # proposals that took the place of an open one
        self._deciding: dict[str, str] = {}  # proposal -> who is deciding it just now
        self._by_policy: dict[str, str] = {}  # proposal -> the policy that decided it in the human's name
        self._request_of: dict[str, str] = {}  # proposal -> the request that fulfilled it
        self._subscribers: Subscribers[Card] = Subscribers()
        self._policy: Policy | None = None
        self._sources, self._behalf = Sources(), Behalf()
        self.tools = PinnedTools(me.client)
        self._last = LastCalls()
        self._seen: dict[str, float] = {}  # proposal -> when a view first showed it
        self.editing = Editing(me)
        me.client.on_message(self.tools.observe)
        me.client.on_message(self._observe)

    # --- what a view asks ---

    def pending(self) -> list[Card]:
        """The open cards, oldest first."""
        return list(self._open.cards.values())

    def decided(self) -> list[Card]:
        """The cards that were decided last, oldest first; at most 200."""
        past = self._past.cards.values()
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
        if proposal in self._open.cards:
            self._seen.setdefault(proposal, self._clock())

    def subscribe(self, on_change: Callable[[Card], None]) -> Callable[[], None]:
        """Calls back with each new state of a card; returns what ends it."""
        return self._subscribers.add(on_change)

    def card(self, prefix: str) -> Card:
        """The card whose proposal id is `prefix` or begins so, unmistakably.

        Ids are free text, so who sees one could take its beginning for a proposal of its own: a whole id is mistaken
        while an older open one begins with it.

        Raises:
            MewError: when there is none, or more than one.
        """
        cards = (*self._open.cards.values(), *self._past.cards.values())
        found = [card for card in cards if prefix and card.id.startswith(prefix)]
        if exact := self._card(prefix):
            found = [exact, *(card for card in found if card.is_open and card.seq < exact.seq)]
        if len(found) == 1:
            return found[0]
        named = ", ".join(one_line(card.id, 100) for card in (found or self.pending())[:MAX_NAMED])
        what = f"cannot decide {prefix[:80]!r}"
        if found:
            raise MewError(f"{what}: more than one proposal begins with {prefix[:80]!r} here: {named}")
        raise MewError(f"{what}: there is no proposal {prefix[:80]!r} here; open: {named or 'none is open'}")

    def _card(self, id: str) -> Card | None:
        return self._open.cards.get(id) or self._past.cards.get(id)

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
        """The same on the loop. `digest` None takes the proposal as the book holds it, but once refuses one that took
        the place of another that was open. See `Editing` for edits.

        Returns:
            One sentence about what was sent.

        Raises:
            MewError: says why nothing was sent.
        """
        card = self._card(proposal)
        if card is None:
            raise MewError(f"cannot {decision} {proposal[:80]!r}: there is no such proposal here")
        if proposal in self._deciding:
            raise MewError(f"{card.request}: being decided already by {self._deciding[proposal]}")
        if not card.is_open:
            how = f" by {card.by}" if card.by else f": {card.outcome}"
            raise MewError(f"{card.request}: {card.decision} already{how}")
        if digest is None and proposal in self._anew:
            self._anew.discard(proposal)
            raise MewError(
                f"{card.request}: {card.proposer} has put it in the place of another proposal with the same id; "
                "look at what it says now, then decide once more"
            )
        edit = self._edit(card, digest, decision)
        self._deciding[proposal] = by
        self._put(replace(card, state="deciding", by=by))
        sent: CardState | None = None
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
                sent = "fulfilled"
                return f"approved: {card.request}" + (
                    await self._tell_changes(card, edit, request.id) if edit else ""
                )
            await self._me.reject(proposal, reason or "disagree")
            sent = "rejected"
            return f"rejected ({reason or 'disagree'}): {card.request}"
        finally:
            del self._deciding[proposal]
            self._refresh(proposal, sent=sent)

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
        self._behalf.observe(envelope)
        self._last.observe(envelope)
        if envelope.kind == "mcp/proposal":
            self._take(envelope)
        elif envelope.kind.startswith("mcp/"):
            self._answered(envelope)
        else:
            return
        self._lapse()

    def _take(self, envelope: Envelope) -> None:
        """Makes the card of a new proposal, and lets the policy judge it."""
        proposal = self._me.proposals.get(envelope.id)
        if proposal is None or proposal.envelope is not envelope:
            return
        if (known := self._card(proposal.id)) is not None:
            self._retire(known)
        card = self._first(proposal) if proposal.proposer != self._me.client.id else None
        if card is not None:
            self._put(card)
            self._judge(card)

    def _answered(self, envelope: Envelope) -> None:
        """Brings the cards that a message is about up to what the book holds."""
        named = dict.fromkeys(envelope.correlation_id)
        about = [id for id in named if self._card(id) is not None]
        for id in about if envelope.kind == "mcp/request" else ():
            proposal = self._me.proposals.get(id)
            if proposal is not None and proposal.fulfilment == envelope.id:
                self._request_of[id] = envelope.id
        about += [id for id, request in self._request_of.items() if request in named]
        for id in about:
            self._refresh(id)

    def _refresh(self, id: str, *, sent: CardState | None = None) -> None:
        """Brings a card up to what the book holds, or to what was `sent` where the book has forgotten it already."""
        card, proposal = self._card(id), self._me.proposals.get(id)
        if card is None or id in self._deciding:
            return
        if proposal is not None and proposal.seq == card.seq:
            if (advanced := self._advanced(card, proposal)) != card:
                self._put(advanced)
        elif card.is_open and sent:
            self._put(self._timed(replace(card, state=sent, by=self._named(self._me.client.id, id))))
        elif card.is_open:
            self._put(self._lapsed(card, TOO_MUCH))

    def _lapse(self) -> None:
        """Closes the cards that nobody can decide any more; the book, too, forgets what is oldest first."""
        while (card := self._open.first) is not None and card.id not in self._deciding:
            proposal = self._me.proposals.get(card.id)
            if proposal is not None and proposal.seq == card.seq and not self._open.is_over:
                return
            self._put(self._lapsed(card, TOO_MUCH))

    def _lapsed(self, card: Card, why: str) -> Card:
        return replace(card, state="lapsed", by="", outcome=why, decided_at=self._clock())

    def _retire(self, card: Card) -> None:
        """Another proposal takes this one's id: what became of it is kept under a name of its own."""
        self._forget(card.id)
        if card.is_open:
            self._anew.add(card.id)
            card = self._lapsed(card, ANEW)
        names = (f"{card.id} (earlier {n})" for n in count(card.seq))
        self._put(replace(card, id=next(name for name in names if self._card(name) is None)))

    def _first(self, proposal: Proposal) -> Card | None:
        known = [self._annotations(name, proposal.tool) for name in proposal.to] if proposal.tool else []
        return card_of(
            proposal,
            since=self._clock(),
            of_the_tool=(*stated(known), *self.tools.remarks(proposal)),
            sources=self._sources,
            last=self._last.of(proposal),
            why=self._behalf.of(proposal),
        )

    def _advanced(self, card: Card, proposal: Proposal) -> Card:
        state = STATES[proposal.state]
        rejection = proposal.rejections[-1] if proposal.rejections else None
        by = (rejection.by if rejection else "") if state == "rejected" else proposal.by
        reason = rejection.reason if rejection and state == "rejected" else proposal.reason
        return self._timed(
            replace(
                card,
                state=state,
                by=self._named(by, card.id) if state != "open" else "",
                edited=proposal.edited,
                outcome=outcome_of(proposal) or one_line(reason, 120),
            )
        )

    def _named(self, by: str, id: str) -> str:
        policy = self._by_policy.get(id) if by == self._me.client.id else None
        return f"{by} by {policy}" if policy else by

    def _timed(self, card: Card) -> Card:
        decided_at = None if card.is_open else card.decided_at or self._clock()
        began = self._seen.get(card.id)
        seen = None if began is None or decided_at is None else max(0.0, decided_at - began)
        return replace(card, decided_at=decided_at, on_screen=seen)

    def _put(self, card: Card) -> None:
        if card.is_open:
            self._open.put(card)
        else:
            self._past.put(card)
            self._open.drop(card.id)
            self.editing.forget(card.id)
            while self._past.is_over and (old := self._past.first) is not None:
                self._forget(old.id)
        self._subscribers.tell(card)

    def _forget(self, id: str) -> None:
        self._open.drop(id)
        self._past.drop(id)
        self._seen.pop(id, None)
        self._by_policy.pop(id, None)
        self._request_of.pop(id, None)
        self._anew.discard(id)
        self.editing.forget(id)
