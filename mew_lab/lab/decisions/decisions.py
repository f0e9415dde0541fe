"""Decides proposals, by a click in a view, a typed command or a policy.

How it works. `HumanDecisions` decides the cards of a `CardQueue`. A proposal becomes a `Card` (`cards.py`) with its
warnings (`risks.py`, `sources.py`, `pinned_tools.py`). A view or a text shows the card and reports to the `Gate` what
it has shown. Every decision then goes through `carry_out`. `_check` has the one list of reasons against it; what is
sent is checked once more where it is drafted, byte by byte (`sdk.decisions`).

1. The card must have been read (`reading_queue.py`). It must be open, or rejected and approved despite that (R32), and
   its digest, or that of a kept edit (`edits.py`), must be the one that was shown.
2. The gate checks that all of it was shown for long enough. A policy reads all of it, so only its digest is checked.
3. The client for which it is proposed must wait for it (`Card.caller`): nobody approves what its client has cancelled,
   and where that is gone, a person approves it twice.
4. A note of the decision goes into the journal, before anything is sent (R29).
5. A proposal that is alike to one that the person allowed here is approved by that rule (`alike.py`), where no policy
   is in force.
6. The request is built from the proposal that the participant's ledger holds, never from a view's message.

The first decision wins, whichever view, person or policy it comes from. Everything runs on the loop's thread, so there
is no lock; `decide` and the readers may be called from any thread.

Spec: §3.2.1, §3.3, rulings R6, R17, R18, R29.
"""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from mew_lab.errors import ConnectionLost, MewError, NoReply, NotApproved
from mew_lab.lab.decisions import cards
from mew_lab.lab.decisions.alike import AlikeCalls, AlikeRule
from mew_lab.lab.decisions.card_queue import CardQueue
from mew_lab.lab.decisions.cards import BEING_READ, CANCELLED, POLICY, Card, CardState, Click
from mew_lab.lab.decisions.edits import EditReview
from mew_lab.lab.decisions.policies import Policy, is_decision
from mew_lab.lab.decisions.unshown import UnshownProposals
from mew_lab.lab.loop import LoopThread
from mew_lab.ledger.calls import shown
from mew_lab.protocol.text import cut
from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_rows import TO, Rows, write_value

__all__ = ["HumanDecisions", "check_state", "check_target"]

Note = Callable[[str, dict[str, Any]], None]
MOST_NAMED = 3
MAX_REPORTED = 200  # characters of the name or text of a policy


class HumanDecisions:
    """The decisions of one human about the cards of a queue. The first one wins; a second one fails and names the first.

    `note(event, detail)` writes the decision and its author into the journal before anything is sent. Where `reports()`,
    that journal is not the gateway's: then the decision is reported to the gateway, too (R42).
    `logical` gives the participant that an id means, `folders(participant)` the folders that a person gave to it.
    `fault` receives a sentence about each failure of a policy.
    """

    def __init__(
        self,
        me: MEWParticipant,
        *,
        loop: LoopThread,
        note: Note,
        reports: Callable[[], bool] = lambda: False,
        logical: Callable[[str], str] = lambda id: id,
        clock: Callable[[], float] = time.time,
        folders: Callable[[str], Sequence[str]] = lambda participant: (),
        fault: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._me = me
        self._logical = logical
        self.queue = queue = CardQueue(me, judge=self._judge, logical=logical, clock=clock, folders=folders)
        # Views and texts take these parts by themselves.
        self.gate, self.editing, self.tools, self.running = (
            queue.gate, queue.editing, queue.tools, queue.running,
        )  # fmt: skip
        self._fault = fault
        self._loop = loop
        self._note = note
        self._reports = reports
        self._policy: Policy | None = None
        self.alike = AlikeCalls(clock=clock)
        self.unshown = UnshownProposals(me, logical=logical, run=loop.submit, fault=fault)

    # --- what a view asks ---

    def pending(self) -> list[Card]:
        """The open cards, oldest first."""
        return self.queue.pending()

    def decided(self) -> list[Card]:
        """The last decided cards, oldest first; at most 200."""
        return self.queue.decided()

    def subscribe(self, on_change: Callable[[Card], None]) -> Callable[[], None]:
        """Calls `on_change` with each new state of a card; returns a function that ends the subscription.

        A card with a known id and another `seq` is another proposal (R6). The card of the earlier one comes before it,
        under another id.
        """
        return self.queue.subscribers.add(on_change)

    def card(self, prefix: str, *, digest: str = "") -> Card:
        """The card whose proposal id is `prefix` or begins with it; see `CardQueue.card`."""
        return self.queue.card(prefix, digest=digest)

    def targets(self) -> list[str]:
        """The possible targets of a proposal without `to`."""
        me = self._me.client.id
        return sorted(name for name in tuple(self._me.client.participants) if name != me)

    def banner(self) -> str:
        """What decides here instead of the human, as one sentence; empty when nothing does."""
        if self._policy is None or not self._policy.decides:
            names = list(dict.fromkeys(rule.proposer for rule in self.alike.standing))
            who = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
            return (
                f"Alike calls of {who} are approved in this lab; lab.undo() ends the newest." if names else ""
            )
        return f"Policy “{self._policy.name}” decides every proposal here; set lab.decide = None to decide yourself."

    def rows(self, proposal: str, digest: str) -> Rows | None:
        """The rows of a proposal that can be approved, or of its kept edit, with that digest; None: there is none."""
        card = self._approvable(proposal)
        if card is None:
            return None
        if card.digest == digest:
            return card.arguments
        edit = self.editing.reviewed(proposal, digest)
        return None if edit is None else edit.arguments

    def record_shown(self, proposal: str, *, view: str, digest: str) -> bool:
        """Records that a view shows the proposal or edit with that digest from now on; False when there is none."""
        card = self._approvable(proposal)
        if card is None or self.rows(proposal, digest) is None:
            return False
        self.gate.record_shown(card, view=view, digest=digest)
        return True

    def record_opened(self, proposal: str, digest: str, index: int) -> None:
        """Records that a view shows a folded row of the proposal or edit with that digest in full."""
        if self.rows(proposal, digest) is not None:
            self.gate.record_opened(proposal, digest, index)

    def seconds_left(self, proposal: str, *, view: str, digest: str) -> float:
        """Seconds until a click in that view may approve the proposal or edit with that digest; 0 when it may now."""
        card = self._approvable(proposal)
        return 0.0 if card is None else self.gate.seconds_left(card, view=view, digest=digest)

    def click(self, view: str) -> Click:
        """A click in that view that arrives now."""
        return self.gate.click(view)

    def refusal(
        self,
        proposal: str,
        *,
        digest: str,
        decision: str,
        click: Click,
        target: tuple[str, ...] = (),
        despite: Collection[str] = (),
    ) -> str:
        """The reason why that click cannot decide so; empty when it can."""
        how: dict[str, Any] = {"digest": digest, "decision": decision, "target": target, "despite": despite}
        try:
            self._check(proposal, click=click, **how)
        except MewError as refused:
            return str(refused)
        return ""

    def is_rejected(self, card: Card) -> bool:
        """Whether a participant has rejected it, and it can still be approved, because it was not withdrawn."""
        known = self._me.proposals.get(card.id)
        return known is not None and known.seq == card.seq and known.state == "rejected"

    def _approvable(self, id: str) -> Card | None:
        card = self.queue.find(id)
        return card if card is not None and card.can_be_approved else None

    # --- deciding ---

    @property
    def policy(self) -> Policy | None:
        """The policy that decides instead of the human; None when there is none."""
        return self._policy

    def set_policy(self, policy: Policy | None) -> None:
        """Sets the policy in force; it also judges the open proposals. To be called on the loop."""
        self._policy = policy
        for card in self.pending():
            self._judge(card)
            self.queue.subscribers.tell(card)

    def decide(
        self, proposal: str, *, digest: str, decision: str, click: Click, reason: str = "", **more: Any
    ) -> Future[str]:
        """Approves or rejects, by a click, the proposal or kept edit with that digest.

        The click's own view must have shown it for the arming time, and its folded rows must have been opened. The
        future's result is one sentence; its exception, a MewError, says why nothing was sent. `more`: see `carry_out`.
        """
        work = self.carry_out(proposal, digest=digest, decision=decision, click=click, reason=reason, **more)
        return self._loop.submit(work)

    async def carry_out(
        self,
        proposal: str,
        *,
        digest: str | None,
        decision: str,
        click: Click | None = None,
        reason: str = "",
        target: tuple[str, ...] = (),
        policy: Policy | None = None,
        typed: str = "",
        despite: Collection[str] = (),
    ) -> str:
        """Carries out a decision that came by a `click`, from a `policy`, or as a `typed` command.

        Args:
            digest: The digest of what was shown. None, for a rejection only, means the proposal as the ledger holds it;
                the first such attempt is refused where it has replaced another open proposal. See `Edits` for edits.
            typed: The typed characters of the digest, or `yes` after the whole card was printed.
            despite: What an approval disregards on purpose: `rejected` for a proposal that a participant has rejected,
                `unknown` for a repeat of a call of unknown outcome, which only a click approves without it.

        Returns:
            One sentence about what was sent.

        Raises:
            NotApproved: Not all that would be sent was shown.
            MewError: The decision cannot be made; the message says why nothing was sent.
        """
        card, edit, seconds = self._check(
            proposal,
            digest=digest,
            decision=decision,
            click=click,
            target=target,
            policy=policy,
            typed=typed,
            despite=despite,
        )
        meant, rows = (edit.digest, edit.arguments) if edit else (card.digest, card.arguments)
        by = f"{POLICY}{policy.name}" if policy else "human"
        note: dict[str, Any] = {"proposal": proposal, "decision": decision, "by": by, "digest": meant}
        over: list[str] = []
        if policy:
            note["policy"] = {"name": policy.name, "text": policy.text}
        elif typed:
            note["typed"] = typed
        elif seconds is not None:
            note["on_screen"] = round(seconds * 1000)
        if decision == "approve":
            note |= {"request": card.request_id, "edited": edit is not None} | (
                {"to": target} if target else {}
            )
            if over := _disregarded(card, despite, is_rejected=self.is_rejected(card)):
                note["despite"] = over
            if target and not card.to:  # the human chose the target that the proposal leaves open
                rows = tuple((at, write_value(target) if at == TO else text) for at, text in rows)
        if click is not None:
            self.gate.record_decided(card, click)
        # From here until the end the card changes by this decision alone, so that a second one is refused.
        self.queue.deciding[proposal] = by
        self.queue.put(replace(card, state="deciding", by=by))
        sent: CardState | None = None
        receipt = _receipt(by, policy, typed, over, clicked=click is not None) if self._reports() else None
        try:
            # In the journal before it is sent: a request without its note is one that went around the card (R29).
            self._note("decided", note | ({"reason": reason} if reason else {}))
            if policy:
                self.queue.by_policy[proposal] = by
            if decision == "approve":
                params, id = edit.params if edit else None, card.request_id
                request = await self._me.approve(
                    proposal,
                    digest=meant,
                    to=target or None,
                    params=params,
                    request_id=id,
                    rows=rows,
                    despite=tuple(despite),
                    receipt=receipt,
                )
                sent = "fulfilled"
                remark = await self._tell_changes(card, edit, request.id) if edit else ""
                return f"Approved: {card.request}{remark}"
            if receipt is not None and digest is not None:
                receipt["digest"] = meant
            await self._me.reject(proposal, reason or "disagree", receipt=receipt)
            sent = "rejected"
            return f"Rejected ({reason or 'disagree'}): {card.request}"
        finally:
            del self.queue.deciding[proposal]
            self.queue.refresh(proposal, sent=sent)

    def _check(
        self,
        proposal: str,
        *,
        digest: str | None,
        decision: str,
        click: Click | None = None,
        target: tuple[str, ...] = (),
        despite: Collection[str] = (),
        policy: Policy | None = None,
        typed: str = "",
    ) -> tuple[Card, EditReview | None, float | None]:
        """Checks that a decision can be made, and that all that would be sent was shown.

        Returns the card, the edit that is meant, and for how many seconds a clicked view has shown it.

        Raises as `carry_out`.
        """
        card = self.queue.find(proposal)
        if card is None:
            raise MewError(f"Cannot decide {proposal[:80]!r}: there is no such proposal here")
        if proposal in self.queue.deciding:
            raise MewError(f"{card.request}: being decided already by {self.queue.deciding[proposal]}")
        check_state(card, decision, despite, is_rejected=self.is_rejected(card))
        if not all(isinstance(id, str) and id for id in target):
            raise MewError(f"{card.request}: not decided, because the chosen target has no name")
        if digest is None and proposal in self.queue.anew:
            self.queue.anew.discard(proposal)
            raise MewError(
                f"{card.request}: {card.proposer} has replaced another proposal with the same id by this one; "
                "look at it, then decide again"
            )
        # What is meant comes before whether it was shown: the time on screen is that of this very text.
        edit = self._edit(card, digest, decision)
        meant, rows = (edit.digest, edit.arguments) if edit else (card.digest, card.arguments)
        seconds = None
        if not policy and not typed and digest is not None:
            seconds = self.gate.check_click(card, click, digest=meant, decision=decision)
        if decision == "reject":
            return card, edit, seconds
        if digest is None or card.refusal:
            why = card.refusal or "no digest names the shown card"
            raise NotApproved(f"{card.request}: cannot be approved, because {why}", code="rows_mismatch")
        if click is not None:
            check_target(card, target, self.targets())
        elif card.repeats and "unknown" not in despite:
            raise NotApproved(
                f"{card.request}: not approved. {card.repeats}. Find out first; or approve it all the same with "
                f'lab.approve({card.id!r}, despite="unknown"), %mew approve {visible(card.id)} --despite unknown, '
                f"or /approve {visible(card.id)} despite=unknown in a terminal",
                code="outcome_unknown",
            )
        if not policy:
            self.gate.check_rows(card, rows, meant)
        # Last, because it takes note of a first yes: a yes that was refused for another reason is none.
        self._check_caller(card, at=click.at if click else math.inf, may_ask=policy is None)
        return card, edit, seconds

    def _check_caller(self, card: Card, *, at: float, may_ask: bool = True) -> None:
        """Checks that the client waits for the call, or that a person approves it a second time.

        Args:
            at: When the approval was given, in seconds of the gate's clock.
            may_ask: Whether a person gave it, who may give it again.

        Raises:
            NotApproved: The client has cancelled it, or is gone and this is the first approval since.
        """
        if card.caller == "cancelled":
            why = f"{card.request}: not approved, because it was {CANCELLED}; if that asks again, it can be approved"
            raise NotApproved(why, code="cancelled_by_client")
        if card.caller == "gone":
            asked = self.queue.asked.get(card.id)
            if not may_ask or asked is None or at < asked + cards.ARMING:
                self.queue.asked.setdefault(card.id, self.gate.click("").at)
                why = f"{card.request}: not approved, because {card.notices[-1]}"
                raise NotApproved(f"{why}; approve it once more to run it all the same", code="client_gone")

    def _edit(self, card: Card, digest: str | None, decision: str) -> EditReview | None:
        if digest is None or hmac.compare_digest(
            digest.encode("utf-8", "surrogatepass"), card.digest.encode()
        ):
            return None
        edit = self.editing.reviewed(card.id, digest) if decision == "approve" else None
        if edit is None:
            raise NotApproved(
                f"{card.request}: what was shown is not what is proposed; look at the card again",
                code="digest_mismatch",
            )
        return edit

    async def _tell_changes(self, card: Card, edit: EditReview, request: str) -> str:
        """Sends the changes to the proposer; returns the addition to the sentence."""
        text = f"Approved with changes, {card.tool or card.method}: {edit.summary}"
        try:
            about = [request, card.id]
            await self._me.sender.say_accepted("chat", {"text": text}, to=card.proposer, about=about)
        except MewError as fault:
            return f", edited; it is not confirmed that the changes were sent to {card.proposer}: {fault}"
        return f", edited; the changes were sent to {card.proposer}"

    def _judge(self, card: Card) -> None:
        """Lets the policy in force decide an open card, or a rule for alike calls where there is none.

        One for which no client waits, or that repeats a call of unknown outcome (R35), is left to a person.
        """
        if card.state != "open" or card.caller or card.repeats:
            return
        policy, rule = self._policy, None
        if policy is None:
            rule = self._find_alike(card)
            policy = None if rule is None else rule.policy
        if policy is None:
            return
        try:
            decision = policy.judge(card)
        except Exception as fault:  # a policy may be any code: the card stays open for the person
            self._fault(
                f"Policy {policy.name!r:.80} could not judge {card.request}: {one_line(repr(fault), 160)}"
            )
            return
        if decision is not None and not is_decision(decision):
            self._fault(
                f"Policy {policy.name!r:.80} returned {decision!r:.80} for {card.request}, which is no Decision"
            )
            return
        if decision is None or (decision.decision == "approve" and (not card.to or card.rejected)):
            return

        if rule is not None:
            self.alike.count(rule, 1)  # before it is sent, so that no more are approved than were allowed

        async def act() -> None:
            try:
                await self.carry_out(
                    card.id,
                    digest=card.digest,
                    decision=decision.decision,
                    reason=decision.reason,
                    policy=policy,
                )
            except (NoReply, ConnectionLost):  # the call may have gone out, so its use stays spent
                pass
            except MewError:  # another decision came first: the card names its author
                if rule is not None:
                    self.alike.count(rule, -1)

        self._loop.submit(act())

    def _find_alike(self, card: Card) -> AlikeRule | None:
        """The rule that approves a card here."""
        proposal = self._me.proposals.get(card.id)
        if proposal is None or not card.to or not self.alike.standing:
            return None
        try:
            payload = shown(proposal.envelope)["payload"]
        except MewError:
            return None
        proposer, to = self._logical(card.proposer), tuple(map(self._logical, card.to))
        return self.alike.find(proposer, to, payload, warnings=card.warnings)


def check_state(card: Card, decision: str, despite: Collection[str], *, is_rejected: bool) -> None:
    """Checks that a card waits for a decision, or was ended by a rejection alone and is approved `despite` it (R32).

    Raises:
        NotApproved: It is still being read.
        MewError: It is decided already.
    """
    if decision not in ("approve", "reject"):
        raise MewError(f"Cannot decide {card.id[:80]!r}: {decision!r:.60} is neither approve nor reject")
    is_rejected = decision == "approve" and is_rejected
    if is_rejected and "rejected" not in despite:
        stated = f" ({card.outcome})" if card.outcome else ""
        who = card.rejected if card.is_open else f"rejected already by {card.by}{stated}"
        raise MewError(
            f"{card.request}: not approved, because it was {who}. “Approve all the same”, "
            "lab.approve(…, despite='rejected'), %mew approve … --despite rejected, or /approve … despite=rejected in "
            "a terminal approves it all the same, without a permission"
        )
    if not card.is_read and (card.is_open or is_rejected):
        raise NotApproved(f"{card.request}: not decided, because it is {BEING_READ}", code="being_read")
    if not card.is_open and not is_rejected:
        how = f" by {card.by}" if card.by else f": {card.outcome}"
        raise MewError(f"{card.request}: {card.decision} already{how}; this decision changed nothing")


def check_target(card: Card, target: tuple[str, ...], targets: Collection[str]) -> None:
    """Checks that a click chose who runs a call where its proposal leaves that open, and only there.

    Raises:
        NotApproved: It chose nobody who is here, or where there is nothing to choose.
    """
    if card.to and target:
        raise NotApproved(f"{card.request}: not approved, because it names its target itself", code="target")
    if not card.to and (len(target) != 1 or target[0] not in targets):
        raise NotApproved(
            f"{card.request}: not approved yet; choose one of the participants to run it", code="target"
        )


def _disregarded(card: Card, despite: Collection[str], *, is_rejected: bool) -> list[str]:
    """What an approval disregards in fact, of what it may disregard."""
    holds = {"rejected": is_rejected, "unknown": bool(card.repeats)}
    return [what for what, does in holds.items() if does and what in despite]


def _receipt(
    by: str, policy: Policy | None, typed: str, over: Sequence[str], *, clicked: bool
) -> dict[str, Any]:
    """How a decision was made, for the gateway of a space elsewhere."""
    despite = {"despite": list(over)} if over else {}
    if policy:
        named = {"name": cut(policy.name, MAX_REPORTED), "text": cut(policy.text, MAX_REPORTED)}
        return {"how": "policy", "by": cut(by, MAX_REPORTED), "policy": named} | despite
    how = {"how": "click" if clicked else "typed", "by": by}
    return (how | {"typed": typed[:64]} if typed else how) | despite
