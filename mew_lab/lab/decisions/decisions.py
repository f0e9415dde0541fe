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
4. Where a quorum is set, an approval is a yes that waits for others (`shared_reviews.py`). No policy has one.
5. A note of the decision goes into the journal, before anything is sent (R29).
6. Of the permission of an agent, an approval chooses one option (R41): the named one, or else the only `allow_once`.
   No policy, rule or key chooses any other kind.
7. A proposal that is alike to one that the person allowed here is approved by that rule (`alike.py`), where no policy
   is in force; so is the call for which the person gave a coding agent its permission (`ask_once.py`), and one that an
   adopted rule covers, unless it was chosen for review (`owned_rules.py`). Where an approver of this person is seated,
   it sends what a rule approves, in its own name and with a receipt of its own (`lab/approver_seat.py`).
8. The request is built from the proposal that the participant's ledger holds, never from a view's message.

The first decision wins, whichever view, person or policy it comes from. Everything runs on the loop's thread, so there
is no lock; `decide` and the readers may be called from any thread.

Spec: §3.2.1, §3.3, rulings R6, R17, R18, R29, R39.
"""

from __future__ import annotations

import contextlib
import hmac
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from mew_lab.bridge.written_files import FileDiff, FileWrite
from mew_lab.errors import ConnectionLost, MewError, NoReply, NotApproved
from mew_lab.lab.decisions import cards
from mew_lab.lab.decisions.alike import AlikeCalls, AlikeRule
from mew_lab.lab.decisions.ask_once import AskOnce, CountedPermission
from mew_lab.lab.decisions.card_queue import CardQueue
from mew_lab.lab.decisions.cards import (
    BEING_READ,
    CANCELLED,
    MAX_PATH,
    POLICY,
    Card,
    CardState,
    Click,
    DecidingRule,
    type_anywhere,
)
from mew_lab.lab.decisions.edits import EditReview
from mew_lab.lab.decisions.kept_rules import KeptRule
from mew_lab.lab.decisions.old_files import FindWrite, change_lines, note_of
from mew_lab.lab.decisions.owned_rules import OwnedRules, read_asked
from mew_lab.lab.decisions.past_decisions import PastDecisions
from mew_lab.lab.decisions.policies import Policy, is_at_prompt, is_decision
from mew_lab.lab.decisions.rule_suggestions import RuleSuggestions
from mew_lab.lab.decisions.shared_reviews import Ballot, SharedReviews
from mew_lab.lab.decisions.unshown import UnshownProposals
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import shown
from mew_lab.ledger.options import PermissionOption, find_choice_fault
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.decision_ways import PERSON
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import cut
from mew_lab.protocol.visible import one_line
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.sdk.decisions import digest_of_choice
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.quorum import Quorum
from mew_lab.sdk.request_rows import TO, Rows, write_value
from mew_lab.sdk.tools import CANCELLED as CANCELS

__all__ = ["Approver", "HumanDecisions", "check_state", "check_target"]

Note = Callable[[str, dict[str, Any]], None]
TEXT = "text"  # in place of a view, for what a text has shown
EDITOR = "editor"  # how a decision was made that an editor passed on
MOST_NAMED = 3
ASK_WITHIN = 15.0  # seconds after a rejection in which its proposer can be asked for the proposal again
MAX_ASKED = 1_000  # rejections of which it is known that somebody was asked
MOST_OPTIONS = 10  # that an error names
MAX_REPORTED = 200  # characters of the name or text of a policy


class Approver(Protocol):
    """A participant of this process that sends what the rules of this person approve (§9.4)."""

    @property
    def participant(self) -> MEWParticipant: ...
    def tell(self) -> str:
        """What it approves and what not, in sentences."""

    def find_bar(self, card: Card) -> str:
        """Why it may not approve a card now; empty where nothing stands against that."""

    async def prepare(self, card: Card) -> None:
        """Waits until it knows a proposal and may send its call; raises NotApproved where it does not or may not."""

    def note(self, event: str, detail: dict[str, Any]) -> None:
        """Writes a record of a decision of its own into the journal."""

    async def wait_seen(self, request: Envelope) -> None:
        """Waits until this person has received a request that it has sent."""


class HumanDecisions:
    """The decisions of one human about the cards of a queue. The first one wins; a second one fails and names the first.

    `note(event, detail)` writes the decision and its author into the journal before anything is sent. Where `reports()`,
    that journal is not the gateway's: then the decision is reported to the gateway, too (R42).
    `logical` gives the participant that an id means, `folders(participant)` the folders that a person gave to it,
    `find_write` the file that a call writes, and `enforced` the quorum of an executor of this process. `fault` receives
    a sentence about each failure of a policy.
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
        find_write: FindWrite = lambda to, tool, arguments: None,
        fault: Callable[[str], None] = lambda text: None,
        enforced: Callable[[str], Quorum | None] = lambda participant: None,
    ) -> None:
        self._me = me
        self._logical = logical
        self._enforced = enforced
        self._clock = clock
        self._asked: BoundedDict[tuple[str, int], None] = BoundedDict(MAX_ASKED)
        self.review = SharedReviews(
            me,
            refresh=self._review_anew,
            find=lambda id: self.queue.find(id),
            logical=logical,
            enforced=enforced,
        )
        self.queue = queue = CardQueue(
            me,
            judge=self._judge,
            meet=self._meet,
            logical=logical,
            clock=clock,
            folders=folders,
            find_write=find_write,
            review=self.review.describe,
        )
        queue.subscribers.add(self.review.follow)
        # Views and texts take these parts by themselves, and ask the queue for its cards.
        self.gate, self.editing, self.tools = queue.gate, queue.editing, queue.tools
        self.running, self.click = queue.running, queue.gate.click
        self.pending, self.decided, self.card = queue.pending, queue.decided, queue.card
        self._fault = fault
        self._loop = loop
        self._note = note
        self._reports = reports
        self._policy: Policy | None = None
        # What a person types, in sentences that ask for it; a terminal sets `type_in_terminal`.
        self.type_it = type_anywhere
        # Whether a text tells the old content of a file: in a terminal, which keeps nothing, and in no notebook.
        self.tells_changes = False
        self.alike = AlikeCalls(clock=clock)
        self.rules = OwnedRules(ask=self._ask_of, bars=self._find_bar, note=note, fault=fault, clock=clock)
        self.approver: Approver | None = None
        """Sends what the rules approve, in its own name; None where that is sent in the name of this person."""
        self.past = PastDecisions()
        self.suggested = RuleSuggestions(
            self.past, self.rules, run=loop.submit, in_threads=not loop.threadless
        )
        self._asked_calls: dict[int, AskedCall] = {}  # of open cards, by the number of the proposal
        self._approving: dict[int, KeptRule] = {}  # the rule that said yes, from then until it is judged
        self._hows: BoundedDict[int, str] = BoundedDict(MAX_ASKED)  # how this lab has decided a card
        queue.subscribers.add(self._remember)
        queue.subscribers.add(self.rules.follow)
        me.client.on_message(self._take_others_decision, kinds=("mcp/reject", "mcp/request"))
        self.once = AskOnce(me, logical=logical)
        self.unshown = UnshownProposals(me, logical=logical, run=loop.submit, fault=fault)
        # The policies and rules that decide a proposal now, by its number.
        self._automatic: Counter[int] = Counter()
        self.left_open: Subscribers[Card] = Subscribers()
        """Called with a card that stayed open although a policy or a rule was to decide it."""

    # --- what a view asks ---

    def subscribe(self, on_change: Callable[[Card], None]) -> Callable[[], None]:
        """Calls `on_change` with each new state of a card; returns a function that ends the subscription.

        A card with a known id and another `seq` is another proposal (R6). The card of the earlier one comes before it,
        under another id.
        """
        return self.queue.subscribers.add(on_change)

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
        if self.review.shares:
            self._loop.post(lambda: self.review.note_shown(card))
        return True

    def record_opened(self, proposal: str, digest: str, index: int) -> None:
        """Records that a view shows a folded row of the proposal or edit with that digest in full."""
        if self.rows(proposal, digest) is not None:
            self.gate.record_opened(proposal, digest, index)

    def seconds_left(self, proposal: str, *, view: str, digest: str) -> float:
        """Seconds until a click in that view may approve the proposal or edit with that digest; 0 when it may now."""
        card = self._approvable(proposal)
        return 0.0 if card is None else self.gate.seconds_left(card, view=view, digest=digest)

    def refusal(
        self,
        proposal: str,
        *,
        digest: str,
        decision: str,
        click: Click,
        target: tuple[str, ...] = (),
        despite: Collection[str] = (),
        option: str = "",
    ) -> str:
        """The reason why that click cannot decide so; empty when it can."""
        how: dict[str, Any] = {"digest": digest, "decision": decision, "target": target, "despite": despite}
        try:
            self._check(proposal, click=click, option=option, **how)
        except MewError as refused:
            return str(refused)
        return ""

    def is_mine(self, card: Card) -> bool:
        """Whether another participant proposed it, and this person may approve it."""
        proposal = self._me.proposals.get(card.id)
        if proposal is None or card.proposer == self._me.client.id:
            return False
        return self._me.can_send("mcp/request", proposal.payload, to=proposal.to)

    def is_rejected(self, card: Card) -> bool:
        """Whether a participant has rejected it, and it can still be approved, because it was not withdrawn."""
        known = self._me.proposals.get(card.id)
        return known is not None and known.seq == card.seq and known.state == "rejected"

    def is_automatic(self, card: Card) -> bool:
        """Whether a policy or a rule of this lab decides an open card now.

        It is certain from the turn of the loop on that follows a change of the card. Where nothing was decided,
        `left_open` is called.
        """
        return card.seq in self._automatic

    def _approvable(self, id: str) -> Card | None:
        card = self.queue.find(id)
        return card if card is not None and card.can_be_approved else None

    # --- deciding ---

    @property
    def policy(self) -> Policy | None:
        """The policy that decides instead of the human; None when there is none."""
        return self._policy

    def set_review(self, *, shares: bool, quorum: Quorum | None) -> None:
        """Sets whether this lab shares its reviews, and its quorum; raises as `SharedReviews.set`. On the loop."""
        self.review.set(shares=shares, quorum=quorum)
        for card in self.pending():
            self.queue.put(card)

    def _review_anew(self, id: str) -> None:
        """Says anew on a card who looks at it and who said yes."""
        card = self.queue.find(id)
        if card is not None and card.is_open and self.review.describe(card) != card.review:
            self.queue.put(card)

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
        rule: KeptRule | None = None,
        typed: str = "",
        in_editor: bool = False,
        despite: Collection[str] = (),
        option: str = "",
        permission: CountedPermission | None = None,
    ) -> str:
        """Carries out a decision that came by a `click`, from a `policy` or a `rule`, as a `typed` command, or from an
        editor.

        Args:
            digest: The digest of what was shown. None, for a rejection only, means the proposal as the ledger holds it;
                the first such attempt is refused where it has replaced another open proposal. See `Edits` for edits.
            typed: The typed characters of the digest, or `yes` after the whole card was printed.
            in_editor: Whether the person answered the question of an editor, which was given the whole card as text.
                For how long that was on a screen is not known, so the receipt has no time.
            despite: What an approval disregards on purpose: `rejected` for a proposal that a participant has rejected,
                `unknown` for a repeat of a call of unknown outcome, which only a click approves without it.
            option: The id of the option that an approval chooses of the permission of an agent; empty means the only one
                of the kind `allow_once` (R41).
            permission: The permission that counts for the call; its policy is `policy`.

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
            is_automatic=policy is not None or rule is not None,
            typed=typed,
            in_editor=in_editor,
            despite=despite,
            option=option,
        )
        # A person may still decide it while its file is read for a rule.
        checked = None if rule is None else await self._check_file(card, None, None)
        approver = None if rule is None else self.approver
        if rule is not None:
            if approver is not None:
                await approver.prepare(card)
            card = self._check_still(card, ())
        chosen = _choice(card, decision, option)
        meant, rows = (edit.digest, edit.arguments) if edit else (card.digest, card.arguments)
        by = rule.name if rule is not None else f"{POLICY}{policy.name}" if policy else "human"
        note: dict[str, Any] = {"proposal": proposal, "decision": decision, "by": by, "digest": meant}
        over: list[str] = []
        if decision == "reject":
            self.review.take_back(proposal)
        if rule is not None:
            note["rule"] = {"sha256": rule.rule.sha256, "text": rule.rule.text, "number": rule.number}
        elif policy:
            note["policy"] = {"name": policy.name, "text": policy.text}
            if permission is not None:
                note["permission"] = permission._asdict()
        elif typed:
            note["typed"] = typed
        elif in_editor:
            note["how"] = EDITOR
        elif seconds is not None:
            note["on_screen"] = round(seconds * 1000)
        by_person = policy is None and rule is None
        by_words = "typed" if is_at_prompt(reads_lines=self.tells_changes) else "script"
        how = EDITOR if in_editor else "click" if click is not None else by_words
        how = "rule" if rule is not None else "policy" if policy else how
        if approver is not None:
            note |= {"how": "approver", "rules_of": self.rules.owner}
        if how == "script" or (how == "typed" and decision == "reject"):
            note["how"] = how
        if (tool := self.queue.tools.shown(proposal)) is not None:
            note["tool"] = {"sha256": tool.digest, "hints": list(tool.hints)}
        if decision == "approve":
            note |= {"request": card.request_id, "edited": edit is not None} | (
                {"to": target} if target else {}
            )
            if over := _disregarded(card, despite, is_rejected=self.is_rejected(card)):
                note["despite"] = over
            if target and not card.to:  # the human chose the target that the proposal leaves open
                rows = tuple((at, write_value(target) if at == TO else text) for at, text in rows)
        if chosen is not None:
            note["option"] = chosen.receipt
        if click is not None:
            self.gate.record_decided(card, click)
        receipt = _receipt(how, by, policy, rule, typed, over) if self._reports() else None
        send = partial(
            self._send,
            edit=edit,
            click=click,
            rows=rows,
            note=note | ({"reason": reason} if reason else {}),
            receipt=receipt,
            target=target,
            despite=despite,
            policy=policy,
            rule=rule,
            approver=approver,
            checked=checked,
            chosen=chosen,
        )
        if receipt is not None and decision == "reject" and digest is not None:
            receipt["digest"] = meant
        is_vote = decision == "approve" and by_person and self.review.shares
        if is_vote and chosen is not None and (proposed := self._me.proposals.get(proposal)) is not None:
            meant = digest_of_choice(proposed, chosen.id)  # a yes to another option is a yes to another form
        if is_vote and (missing := await self._vote(card, meant, send)):
            now = self.queue.find(proposal)
            if (
                now is not None and now.state != "open"
            ):  # another lab has sent it, and its yes has fallen with that
                return f"Your yes is shared; meanwhile it was decided: {now.outcome or now.state}"
            return f"Your yes is shared, and nothing is sent before {missing}: {card.request}"
        # Another decision may have come while the yes was shared.
        if self.queue.find(proposal) is not card:
            card = self._check_still(card, despite)
        return await send(card)

    async def _vote(self, card: Card, digest: str, send: Callable[[Card], Coroutine[Any, Any, str]]) -> str:
        """Shares a yes of the person; returns the yes that is missing, empty where the call is sent now.

        Raises:
            NotApproved: The yes cannot be shared.
        """

        if self.review.quorum is not None and not card.to:
            raise NotApproved(
                f"{card.request}: not approved, because it names no target, and a yes to one could not be counted; "
                "reject it and let it be proposed with its target",
                code="target",
            )

        async def send_later(now: Card) -> None:
            try:
                await send(self._check_still(now, ()))
            except MewError as fault:
                self._fault(
                    f"Your yes to {now.request} was not sent when the others had said theirs: {fault}"
                )

        def complete(now: Card) -> None:
            self._loop.submit(send_later(now))

        try:
            return await self.review.vote(card, Ballot(card.seq, digest, complete))
        except ValueError as fault:
            if self.review.quorum is None:  # then it needs nobody else's
                return ""
            raise NotApproved(
                f"{card.request}: not approved, because your yes could not be shared: {fault}",
                code="not_shared",
            ) from None

    def _check_still(self, shown: Card, despite: Collection[str]) -> Card:
        """The card of now, where it can still be approved and is the one that was approved.

        Raises:
            MewError: It was decided, or has changed, meanwhile.
        """
        card = self.queue.find(shown.id)
        if card is None or card.seq != shown.seq or card.digest != shown.digest or card.unmet != shown.unmet:
            raise NotApproved(
                f"{shown.request}: not sent, because it has changed; look at it again", code="changed"
            )
        if card.id in self.queue.deciding:
            raise MewError(f"{card.request}: being decided already by {self.queue.deciding[card.id]}")
        check_state(card, "approve", despite, is_rejected=self.is_rejected(card))
        if (card.caller and card.caller != shown.caller) or (card.repeats and card.repeats != shown.repeats):
            raise NotApproved(
                f"{card.request}: not sent, because more is known of it now; look at it again", code="changed"
            )
        return card

    async def _send(
        self,
        card: Card,
        *,
        edit: EditReview | None,
        click: Click | None,
        rows: Rows,
        note: dict[str, Any],
        receipt: dict[str, Any] | None,
        target: tuple[str, ...],
        despite: Collection[str],
        policy: Policy | None,
        rule: KeptRule | None,
        approver: Approver | None,
        checked: dict[str, Any] | None,
        chosen: PermissionOption | None,
    ) -> str:
        """Sends a decision that was checked; returns one sentence."""
        proposal, by, meant, reason = card.id, note["by"], note["digest"], note.get("reason", "")
        person = "click" if click is not None else note.get("how", "typed")
        self._hows[card.seq] = "rule" if rule is not None else "policy" if policy is not None else person
        by_person = policy is None and rule is None
        deciding = None
        if rule is not None:
            self.gate.check_going(card)
            if approver is not self.approver:
                raise NotApproved(
                    f"{card.request}: not approved, because an approver has come or left", code="rule"
                )
            self.rules.use(rule, card)
            deciding = DecidingRule(rule.number, rule.rule.sha256, rule.rule.text)
            if approver is not None:
                self._hows[card.seq] = "approver"
                deciding = deciding._replace(approver=approver.participant.client.id, owner=self.rules.owner)
                by = deciding.name
        elif by_person and (note["decision"] == "reject" or edit is not None):
            self.rules.take_refusal(card, "rejected" if edit is None else "edited")
        # From here until the end the card changes by this decision alone, so that a second one is refused.
        self.queue.deciding[proposal] = by
        self.queue.put(replace(card, state="deciding", by=by))
        sent: CardState | None = None
        try:
            if note["decision"] == "approve":
                view = click.view if click is not None else None if policy else TEXT
                note |= await self._check_file(card, edit, view) if checked is None else checked
                self.gate.check_going(card)  # anew: the lab may have been stopped meanwhile
            # In the journal before it is sent: a request without its note is one that went around the card (R29).
            (self._note if approver is None else approver.note)("decided", note)
            for table in (self.queue.by_policy, self.queue.by_rule):
                table.pop(proposal, None)
            if not by_person:
                self.queue.by_policy[proposal] = by
            if deciding is not None:
                self.queue.by_rule[proposal] = deciding
            if note["decision"] == "approve":
                params, id = edit.params if edit else None, card.request_id
                if (
                    person in PERSON and by_person
                ):  # before it is sent: the call of the agent may come at once
                    self.once.note(proposal, chosen, id)
                request = await (self._me if approver is None else approver.participant).approve(
                    proposal,
                    digest=meant,
                    to=target or None,
                    params=params,
                    request_id=id,
                    rows=rows,
                    despite=tuple(despite),
                    option=chosen.id if chosen is not None else "",
                    receipt=receipt,
                )
                sent = "fulfilled"
                if approver is not None:
                    await approver.wait_seen(request)
                if by_person and edit is None:
                    self.rules.take_approval(card, how=person)
                if chosen is not None:
                    return f"Chose {chosen.quoted}: {card.request}"
                remark = await self._tell_changes(card, edit, request.id) if edit else ""
                return f"Approved: {card.request}{remark}"
            await self._me.reject(proposal, reason or "disagree", receipt=receipt)
            sent = "rejected"
            told = "" if card.permission is None else f"; {card.permission.told_by_rejection}"
            return f"Rejected ({reason or 'disagree'}): {card.request}{told}"
        finally:
            if sent != "fulfilled":
                self.once.forget(proposal)
            if sent is None:  # whatever decides it now is not this
                self._hows.pop(card.seq, None)
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
        is_automatic: bool = False,
        typed: str = "",
        in_editor: bool = False,
        option: str = "",
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
        check_state(card, decision, despite, is_rejected=self.is_rejected(card), type_it=self.type_it)
        if decision == "approve":
            self.gate.check_going(card)
        if is_automatic and self.rules.is_review(card):
            raise NotApproved(f"{card.request}: not decided, because a person decides it", code="review")
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
        if not is_automatic and not typed and not in_editor and digest is not None:
            seconds = self.gate.check_click(card, click, digest=meant, decision=decision)
        if decision == "reject":
            return card, edit, seconds
        if digest is None or card.refusal:
            why = card.refusal or "no digest names the shown card"
            raise NotApproved(f"{card.request}: cannot be approved, because {why}", code="rows_mismatch")
        self._check_option(card, option, is_edited=edit is not None)
        if in_editor and not self.gate.was_shown_whole(card):
            raise NotApproved(
                f"{card.request}: not approved, because the editor was not given all of it", code="never_seen"
            )
        if click is not None:
            check_target(card, target, self.targets())
            asks = edit is None and card.file is not None and card.file.is_known
            if asks and not self.queue.files.was_shown(card, click.view):
                raise NotApproved(
                    f"{card.request}: not approved, because the view that was clicked has not shown yet what would "
                    "change in the file; look at it, then approve it once more",
                    code="never_seen",
                )
        elif card.repeats and "unknown" not in despite:
            raise NotApproved(
                f"{card.request}: not approved. {card.repeats}. Find out first; or approve it all the same with "
                f"{self.type_it(card.id, 'despite', 'unknown')}",
                code="outcome_unknown",
            )
        if not is_automatic:
            self.gate.check_rows(card, rows, meant)
        # Last, because it takes note of a first yes: a yes that was refused for another reason is none.
        self._check_caller(card, at=click.at if click else math.inf, may_ask=not is_automatic)
        return card, edit, seconds

    def _check_option(self, card: Card, option: str, *, is_edited: bool) -> None:
        """Checks that an approval chooses one option of a permission, and none of any other proposal.

        Raises:
            NotApproved: Nothing would be chosen.
        """
        asked = card.permission
        why = find_choice_fault(asked, option, is_edited=is_edited)
        if why and asked is not None and not is_edited:
            names = ", ".join(
                f"{one.quoted} ({one_line(one.id, 40)})" for one in asked.options[:MOST_OPTIONS]
            )
            more = len(asked.options) - MOST_OPTIONS
            names += f" and {more} more" if more > 0 else ""
            why = f"{why}. Choose one on its card, or by {self.type_it(card.id, 'option', 'OPTION')}: {names}"
        if why:
            raise NotApproved(f"{card.request}: nothing was chosen, because {why}", code="option")

    async def ask_again(self, proposal: str, *, digest: str) -> str:
        """Asks the proposer of what this person has just rejected for the proposal once more, by a chat message.

        It names the proposal and its digest. Each rejection is asked about once, within `ASK_WITHIN` seconds.

        Returns:
            One sentence about what was sent.

        Raises:
            MewError: It was not rejected here just now, or the message cannot be sent.
        """
        card = self.queue.find(proposal)
        age = None if card is None or card.decided_at is None else self._clock() - card.decided_at
        is_own = card is not None and card.decision == "rejected" and card.by == self._me.client.id
        if card is None or not is_own or card.digest != digest or age is None or age > ASK_WITHIN:
            raise MewError(
                f"Nobody was asked for {proposal[:80]!r} again: this works for {ASK_WITHIN:g} s after its rejection "
                "here. A chat message to its proposer does the same"
            )
        if (asked := (card.id, card.seq)) in self._asked:
            raise MewError(f"{card.named(card.proposer)} was asked for it again already")
        self._asked[asked] = None
        text = (
            f"I have rejected your proposal {one_line(card.id, 100)} ({one_line(card.tool or card.method, 80)}, SHA-256 "
            f"{card.digest}) and want to look at it again. Please propose it once more."
        )
        try:
            await self._me.sender.say_accepted("chat", {"text": text}, to=card.proposer, about=[card.id])
        except MewError:
            self._asked.pop(asked, None)
            raise
        return f"{card.named(card.proposer)} was asked to propose {one_line(card.tool or card.method, 60)} again."

    async def compare_file(
        self, proposal: str, *, digest: str, view: str
    ) -> list[tuple[FileDiff, FileWrite]]:
        """What the call of a proposal would change in a file, for a view that shows it at once.

        Of the permission of an agent it is what that states, which may be several files.

        Raises:
            MewError: it cannot be approved any more, or writes no file that is known here.
        """
        card, proposed = self._approvable(proposal), self._me.proposals.get(proposal)
        if card is None or card.digest != digest or proposed is None or proposed.seq != card.seq:
            raise MewError(f"Cannot compare the file of {proposal[:80]!r}: its card is no longer open here")
        changes = await self.queue.files.compare(card, proposed, view=view)
        card = self._approvable(proposal)
        if card is not None and card.digest == digest and card.file is not None and card.state == "open":
            self.queue.put(replace(card, file=note_of(changes, at=self._clock(), note=card.file)))
        return changes

    async def tell_change(self, card: Card) -> list[str]:
        """The lines by which a text that tells old content shows what the call would change in a file; else none."""
        if card.file is None or not card.file.is_known or not (self.tells_changes or card.file.is_stated):
            return []
        try:
            changes = await self.compare_file(card.id, digest=card.digest, view=TEXT)
        except MewError:
            return []  # it was decided meanwhile
        if not card.file.is_stated:
            return change_lines(changes[0][0])
        heads = [
            f"  {one_line(write.path, MAX_PATH)}, as {card.named(card.proposer)} states it"
            for _, write in changes
        ]
        return [
            line
            for head, (diff, _) in zip(heads, changes, strict=True)
            for line in (head, *change_lines(diff))
        ]

    async def _check_file(self, card: Card, edit: EditReview | None, view: str | None) -> dict[str, Any]:
        """What the receipt of an approval says of the file that the call writes. `view` has shown the file, if any.

        Raises:
            NotApproved: the file was changed since the view that was clicked has shown it.
        """
        proposal = self._me.proposals.get(card.id)
        write = None
        if proposal is not None:
            write = self.queue.files.find(proposal, edit.params if edit else None)
        if write is None or write.why:
            return {}
        is_same = edit is None or (card.file is not None and card.file.path == write.path)
        about, changed = await self.queue.files.check(card, write, view if is_same else None)
        if changed:
            self.queue.files.forget(card.id)
            self.gate.forget_views(card.id, texts=True)
            known = self.queue.find(card.id)
            if known is not None and known.file is not None:
                at = datetime.fromtimestamp(self._clock()).astimezone()
                note = f"{changed} (noticed at {at:%H:%M:%S}): look at what would change now"
                self.queue.put(replace(known, file=replace(known.file, told="", changed=note)))
            raise NotApproved(
                f"{card.request}: not approved, because {changed}; look at what would change now",
                code="file_changed",
            )
        return {"file": about} if about else {}

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

        One for which no client waits, that repeats a call of unknown outcome (R35), or that needs a quorum (R39), is
        left to a person.
        """
        owned = self._approving.pop(card.seq, None)
        permission = self.once.find(card) if card.state == "open" else None
        if card.state != "open" or card.caller or card.repeats or card.unmet or self.gate.stopped:
            return
        if self.rules.is_review(card):
            return
        policy, rule = self._policy, None
        if policy is None:
            rule = self._find_alike(card)
            policy = None if rule is None else rule.policy
        if policy is None and permission is not None and self._enforced(card.to[0]) is None:
            policy = permission.policy
        else:
            permission = None
        if policy is None and owned is not None:
            self._decide_by_itself(card, self._approve_by(owned, card))
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
        leaves = not card.to or card.rejected or self.review.quorum is not None
        if (asked := card.permission) is not None and asked.default is None:
            leaves = True  # which of its options is meant, a person says (R41)
        if decision is None or (decision.decision == "approve" and leaves):
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
                    permission=permission,
                )
            except (NoReply, ConnectionLost):  # the call may have gone out, so its use stays spent
                pass
            except MewError:  # another decision came first: the card names its author
                if rule is not None:
                    self.alike.count(rule, -1)

        self._decide_by_itself(card, act())

    def _decide_by_itself(self, card: Card, work: Coroutine[Any, Any, None]) -> None:
        """Runs the decision of a policy or a rule. It counts as one from now on, and not only once it is sent."""
        self._automatic[card.seq] += 1

        async def decide() -> None:
            try:
                await work
            finally:
                self._automatic[card.seq] -= 1
                if not self._automatic[card.seq]:
                    del self._automatic[card.seq]
                now = self.queue.find(card.id)
                if now is not None and now.seq == card.seq and now.state == "open":
                    self.left_open.tell(now)

        self._loop.submit(decide())

    async def _approve_by(self, owned: KeptRule, card: Card) -> None:
        """Approves a call by a rule, unless something has come in between."""
        with contextlib.suppress(MewError):
            await self.carry_out(card.id, digest=card.digest, decision="approve", rule=owned)

    def _meet(self, card: Card) -> Card:
        """Lets the rules judge a card, once, and says on it what was decided on calls like it, unless it is a review."""
        asked = self._ask_of(card) if card.permission is None else None
        if asked is None:
            return card
        self._asked_calls[card.seq] = asked
        if (owned := self.rules.judge(card)) is not None:
            self._approving[card.seq] = owned
        if self.rules.is_review(card):
            return card
        now = datetime.fromtimestamp(self._clock()).astimezone()
        return replace(card, history=self.past.tell(asked, now))

    def _remember(self, card: Card) -> None:
        """Takes each new state of a card; a decided one is remembered."""
        if card.is_open or (asked := self._asked_calls.pop(card.seq, None)) is None:
            return
        how = self._hows.pop(card.seq, "")
        if card.decision not in ("fulfilled", "rejected"):
            return
        decided = DecidedCall(
            seq=card.seq,
            t=self._clock(),
            proposal=card.id,
            proposer=asked.proposer,
            target=asked.target,
            method=asked.method,
            tool=asked.tool,
            tool_hash=asked.tool_hash,
            hints=asked.hints,
            proposed=asked.arguments,
            verdict="rejected" if card.decision == "rejected" else "approved",
            edited=card.edited is not False,
            by=card.by,
            how=how,
            teaches=how in PERSON and card.by == self._me.client.id and card.edited is False,
        )
        self.past.add(decided)
        self.suggested.note(decided)

    def _ask_of(self, card: Card) -> AskedCall | None:
        """The call of a card as rules read it."""
        proposal = self._me.proposals.get(card.id)
        if proposal is None or proposal.seq != card.seq:
            return None
        return read_asked(card, proposal, tools=self.tools, logical=self._logical)

    def _find_bar(self, card: Card) -> str:
        """Why no rule approves a card, as far as only this lab knows it; empty where nothing stands against that."""
        if self.gate.stopped or self._policy is not None:
            return "the lab was stopped" if self.gate.stopped else "a policy is in force"
        if card.caller or card.unmet or not card.to:
            return "nobody waits for it, a quorum was missing, or it names no target"
        if card.twin:
            return "an equal call waits already"
        if card.id in self.queue.anew or self.editing.has_begun(card.id):
            return "a person has begun to decide it"
        if self.review.quorum is not None or any(map(self._enforced, card.to)):
            return "a quorum decides it"
        if self._logical(card.proposer) == self.rules.owner:
            return "its proposer is the owner of the rule"
        return "" if self.approver is None else self.approver.find_bar(card)

    def _take_others_decision(self, envelope: Envelope) -> None:
        """Takes a rejection by another participant, and that the person cancels a call."""
        sender = envelope.sender
        if envelope.kind == "mcp/reject":
            if sender != self._me.client.id:
                for card in filter(None, map(self.queue.find, dict.fromkeys(envelope.correlation_id))):
                    self.rules.take_rejection(card, self._logical(sender))
        elif envelope.payload.get("method") == CANCELS and self._is_owner(sender):
            for id in dict.fromkeys(envelope.correlation_id):
                request = self._me.ledger.calls.requests.get(id)
                about = () if request is None else request.entry.correlation_id
                for card in filter(None, map(self.queue.find, dict.fromkeys(about))):
                    self.rules.take_stop(card)

    def _is_owner(self, sender: str) -> bool:
        """Whether a participant is the owner of the rules, or her approver, which cancels for her alone."""
        approver = "" if self.approver is None else self.approver.participant.client.id
        return sender == approver or self._logical(sender) == self.rules.owner

    def _find_alike(self, card: Card) -> AlikeRule | None:
        """The rule that approves a card here."""
        proposal = self._me.proposals.get(card.id)
        if proposal is None or not card.to or not self.alike.standing or card.permission is not None:
            return None
        try:
            payload = shown(proposal.envelope)["payload"]
        except MewError:
            return None
        proposer, to = self._logical(card.proposer), tuple(map(self._logical, card.to))
        return self.alike.find(proposer, to, payload, warnings=card.warnings)


def check_state(
    card: Card,
    decision: str,
    despite: Collection[str],
    *,
    is_rejected: bool,
    type_it: Callable[[str, str, str], str] = type_anywhere,
) -> None:
    """Checks that a card waits for a decision, or was ended by a rejection alone and is approved `despite` it (R32).

    `type_it` gives what a person types for that.

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
            f"{card.request}: not approved, because it was {who}. “Approve all the same” on its card, or "
            f"{type_it('…', 'despite', 'rejected')}, approves it all the same, without a permission"
        )
    if not card.is_read and (card.is_open or is_rejected):
        raise NotApproved(f"{card.request}: not decided, because it is {BEING_READ}", code="being_read")
    if not card.is_open and not is_rejected:
        how = f" by {card.by}" if card.by else f": {card.outcome}"
        how += f" with the option {card.choice.quoted}" if card.choice is not None else ""
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


def _choice(card: Card, decision: str, option: str) -> PermissionOption | None:
    """The option that a decision about a permission means; None where it means none."""
    if (asked := card.permission) is None:
        return None
    return asked.chosen(option) if decision == "approve" else asked.rejection


def _receipt(
    how: str, by: str, policy: Policy | None, rule: KeptRule | None, typed: str, over: Sequence[str]
) -> dict[str, Any]:
    """How a decision was made, for the gateway of a space elsewhere."""
    despite = {"despite": list(over)} if over else {}
    if rule is not None:
        told = {"sha256": rule.rule.sha256, "text": cut(rule.rule.text, MAX_REPORTED)}
        return {"how": how, "by": by, "rule": told}
    if policy:
        named = {"name": cut(policy.name, MAX_REPORTED), "text": cut(policy.text, MAX_REPORTED)}
        return {"how": how, "by": cut(by, MAX_REPORTED), "policy": named} | despite
    stated = {"how": how, "by": by}
    return (stated | {"typed": typed[:64]} if typed else stated) | despite
