"""Decides by the rules of one person, in one lab: which call a rule approves, which waits for review, when a rule falls.

How it works. Each proposal is judged once, when its card was read (`judge`). What happens then:

1. A rule that covers it says yes, says nothing or never (`mew_lab.rules.judgements`). This module adds what only the
   card and the lab know (`find_bar`): an edit that has begun, a quorum, an equal call that waits, and so on.
2. Of the calls to which a rule would say yes, one of each block is a *review*, chosen by a secret of this process. It
   waits for the person as if there were no rule. No policy, rule or agent of this lab executes it, and nothing here
   tells of a rule before it is decided. Then a record says so. Suspended rules are sampled like active ones. Where the
   proposer withdraws it, or it expires, the next covered call is a review in its place.
3. Otherwise the first active rule approves it. `use` judges it anew, in the moment before it is sent, and counts it.

A rule falls by `take_refusal` (the owner rejects or edits), `take_rejection` (anybody rejects), `take_stop` (the owner
cancels a call), `take_change` (a tool has changed), `follow` (an outcome is unknown) and `stop_all`.

The rules are kept outside the project (`kept_rules.py`); a rule that cannot be counted there approves nothing. Each
change of a state is a record of the log. Everything runs on the loop's thread, so the only lock is that of the store.

Spec: §2.1, §9.4, rulings R32, R35, R39, R41.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from mew_lab.errors import ConfigError, MewError, NotApproved
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.kept_rules import (
    MAX_EVIDENCE,
    MAX_RULES,
    KeptRule,
    Origin,
    RuleStore,
    StoredRules,
    evidence_of,
)
from mew_lab.lab.decisions.pinned_tools import PinnedTools
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import Proposal, shown
from mew_lab.log.decision_note import REVIEWED, RULE_EVENT
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.decision_ways import PERSON
from mew_lab.protocol.pattern import is_progress_token
from mew_lab.protocol.visible import one_line
from mew_lab.rules.approvals import Approvals
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.judgements import RuleJudgement, judge
from mew_lab.rules.life import Happened, Life, State, What, advance, block_of, is_review
from mew_lab.rules.rule import ApprovalRule

__all__ = ["OwnedRules", "read_asked"]

SAMPLED: Final[frozenset[State]] = frozenset({"active", "paused", "suspended"})
MAX_DECIDED = 1_000  # proposals of which it is known which rule approved them
MAX_CALL = 64 * 1024  # characters of a proposal that rules judge; to parse a larger one would hold the loop
MOST_TEXT = 2_000  # characters of a rule in a record


class _Review(NamedTuple):
    """A call that waits for the person: its proposal, and the rules that chose it, each with its number among the calls
    that it covers and the length of its blocks."""

    proposal: str
    rules: tuple[tuple[KeptRule, int, int], ...]


def read_asked(
    card: Card, proposal: Proposal, *, tools: PinnedTools, logical: Callable[[str], str]
) -> AskedCall | None:
    """The call of a card as a rule reads it; None where it is more than a plain call (R34), ambiguous, or too large."""
    if len(proposal.envelope.raw) > MAX_CALL:
        return None
    try:
        payload = shown(proposal.envelope)["payload"]
    except MewError:
        return None
    params = payload.get("params") if isinstance(payload, Mapping) else None
    if not isinstance(params, Mapping) or payload.keys() - {"jsonrpc", "id", "method", "params"}:
        return None
    arguments = params.get("arguments", {})
    if not isinstance(arguments, Mapping) or params.keys() - {"name", "arguments", "_meta"}:
        return None
    meta = params.get("_meta", {})
    if not isinstance(meta, Mapping) or meta.keys() - {"progressToken"}:
        return None
    if not is_progress_token(meta.get("progressToken", 0)):
        return None
    tool, targets = tools.shown(card.id), tuple(dict.fromkeys(card.to))
    return AskedCall(
        proposer=logical(card.proposer),
        target=logical(targets[0]) if len(card.to) == 1 else "",
        method=card.method,
        tool=card.tool,
        arguments=arguments,
        tool_hash="" if tool is None else tool.digest,
        hints=tuple(sorted({*card.hints, *tools.hints(proposal)})),
        warnings=(*filter(None, [card.refusal]), *card.warnings, *card.misfits),
        after_unknown=bool(card.repeats),
        has_options=card.permission is not None,
        rejected=bool(card.rejected or proposal.rejections),
    )


class OwnedRules:
    """The rules of one person in one lab.

    Args:
        ask: Gives the call of a card as rules read it; None where it is no plain call.
        bars: Gives the reason why no rule may approve a card, as far as the lab knows one; else an empty text.
        note: Writes a record into the log.
        fault: Receives a sentence about what failed in the background.
        clock: Seconds since 1970.
        secret: Random bytes by which reviews are chosen; those of the process by default.
    """

    def __init__(
        self,
        *,
        ask: Callable[[Card], AskedCall | None],
        bars: Callable[[Card], str],
        note: Callable[[str, dict[str, Any]], None],
        fault: Callable[[str], None],
        clock: Callable[[], float],
        secret: bytes = b"",
    ) -> None:
        self._ask = ask
        self._bars = bars
        self._note = note
        self._fault = fault
        self._clock = clock
        self._secret = secret or secrets.token_bytes(32)
        self._store: RuleStore | None = None
        self._rules: dict[str, KeptRule] = {}  # by SHA-256, the oldest first
        self._next = 1
        self._numbers: dict[str, int] = {}  # of candidates, until they are kept
        # By the number of a proposal among all messages: an id may be used again (R6).
        self._judged: dict[int, tuple[KeptRule, ...]] = {}  # of open cards: the rules that said yes
        self._reviews: dict[int, _Review] = {}
        self._owed: set[str] = set()  # the SHA-256 of rules whose last review nobody has decided
        self._approved_by: BoundedDict[int, KeptRule] = BoundedDict(MAX_DECIDED)
        self._decided_how: BoundedDict[int, str] = BoundedDict(MAX_DECIDED)
        self._approvals = Approvals()
        self.owner = ""
        self.elsewhere = "the rules of this person are not read yet"
        """The reason why no rule acts here; empty where they may."""
        self.changed: Subscribers[()] = Subscribers()

    # --- where they are kept ---

    def attach(self, store: RuleStore, *, owner: str) -> None:
        """Takes the rules that are kept for a person, once it is known who that is. Tells a fault; never raises."""
        self._store, self.owner = store, owner
        self.elsewhere = ""
        self.acquire_if_any()

    def acquire(self) -> str:
        """Makes this the process that uses the rules, where it can; returns the reason why not, else an empty text."""
        store = self._store
        if store is None:
            return self.elsewhere
        if store.is_held:
            return ""
        why = store.acquire()
        try:
            self._take(store.read())
        except ConfigError as damaged:
            store.release()
            self._take(StoredRules())
            why = str(damaged)
            self._fault(why)
        self.elsewhere = why
        self.changed.tell()
        return why

    def acquire_if_any(self) -> str:
        """The same, where anything is kept; otherwise nothing is to be used."""
        store = self._store
        return self.acquire() if store is not None and (store.exists or store.is_held) else ""

    def close(self) -> None:
        """Gives the rules back, so that another process may use them; here they act no more."""
        self.elsewhere = "the lab is down"
        if self._store is not None:
            self._store.release()

    def _take(self, stored: StoredRules) -> None:
        covered = {sha: kept.covered for sha, kept in self._rules.items()}
        self._rules = {kept.rule.sha256: kept for kept in stored.rules}
        for sha, kept in self._rules.items():
            kept.covered = covered.get(sha, 0)
            for call in kept.approved:
                self._approvals.add(call)
        self._next = max(self._next, stored.next)

    def _keep(self) -> None:
        """Keeps all rules. Raises OSError."""
        if self._store is None:
            raise OSError(0, "they are kept nowhere")
        self._store.write(StoredRules(tuple(self._rules.values()), self._next))

    # --- what there is ---

    @property
    def kept(self) -> tuple[KeptRule, ...]:
        """The rules that were tried or adopted, the oldest first, as they are now."""
        self._expire()
        return tuple(self._rules.values())

    @property
    def active(self) -> tuple[KeptRule, ...]:
        """Those that approve calls in this lab now."""
        return tuple(kept for kept in self.kept if kept.life.acts and self._may_act)

    @property
    def _may_act(self) -> bool:
        return not self.elsewhere and self._store is not None and self._store.is_held

    def find(self, sha256: str) -> KeptRule | None:
        """The kept rule with that SHA-256; None where there is none."""
        return self._rules.get(sha256)

    def has_like(self, rule: ApprovalRule) -> bool:
        """Whether a rule of these words, for the same description of the tool, is kept, whatever its limits are."""
        return any(kept.rule.words == rule.words for kept in self._rules.values())

    def number_of(self, rule: ApprovalRule) -> int:
        """The number of a rule, which a candidate gets when it is first listed."""
        if (kept := self._rules.get(rule.sha256)) is not None:
            return kept.number
        if rule.sha256 not in self._numbers:
            self._numbers[rule.sha256] = self._next
            self._next += 1
        return self._numbers[rule.sha256]

    # --- what a person does ---

    def begin(
        self,
        what: What,
        rule: ApprovalRule,
        *,
        how: str,
        origin: Origin = "learned",
        approved: Iterable[DecidedCall] = (),
    ) -> KeptRule:
        """Tries or adopts a rule in the name of its owner, or goes on with a paused one.

        Args:
            what: `tried`, `adopted` or `looked`.
            how: How the person did it.
            approved: What she has approved so far.

        Raises:
            MewError: It makes no sense in its state, or nothing can be kept, or another process has the rules.
        """
        if why := self.acquire():
            raise MewError(f"Cannot change rule {self.number_of(rule)}: {why}")
        if not rule.tool_hash:
            raise MewError(
                f"Cannot use rule {self.number_of(rule)}: the tool {one_line(f'{rule.target}/{rule.tool}', 120)} is not "
                "listed here, so nobody knows which one is meant; lab.tools() asks for the tools"
            )
        kept, stored_before = self._rules.get(rule.sha256), tuple(self._rules.values())
        ended = [one for one in stored_before if one.life.state in ("suspended", "expired")]
        if kept is None and ended and len(stored_before) >= MAX_RULES:  # the one that ended first makes room
            del self._rules[min(ended, key=lambda one: one.life.since).rule.sha256]
        if kept is None:
            kept = KeptRule(self.number_of(rule), rule, Life(owner=self.owner), origin)
        life = advance(kept.life, Happened(what=what, t=self._clock(), by=self.owner), rule)
        resting = [] if what == "looked" else self._evidence(rule, approved)
        before = StoredRules(stored_before, self._next), kept.life, list(kept.approved)
        kept.life, kept.approved = life, [*kept.approved, *resting][-MAX_EVIDENCE:]
        self._rules[rule.sha256] = kept
        try:
            self._keep()
        except OSError as fault:
            stored, kept.life, kept.approved = before
            self._rules = {one.rule.sha256: one for one in stored.rules}
            raise MewError(
                f"Cannot change {kept.name}: it cannot be kept: {fault.strerror or 'the file cannot be written'}"
            ) from None
        for call in resting:
            self._approvals.add(call)
        self._tell(kept, what, how=how)
        return kept

    def _evidence(self, rule: ApprovalRule, approved: Iterable[DecidedCall]) -> list[DecidedCall]:
        """The approved calls on which a rule rests: those that say more of what was approved than the ones before."""
        known, found = Approvals(self._rules[rule.sha256].approved if rule.sha256 in self._rules else ()), []
        for call in approved:
            arguments = call.arguments
            if (
                call.about != rule.about
                or not call.teaches
                or call.verdict != "approved"
                or arguments is None
            ):
                continue
            if known.find_new(_asked_again(rule, arguments)):
                found.append(evidence_of(rule, arguments, t=call.t, by=self.owner))
                known.add(found[-1])
        return found

    def stop(self, kept: KeptRule, *, how: str) -> None:
        """Stops a rule: an active one is suspended, one that is tried is a candidate again."""
        if kept.life.state in ("shadow", "candidate"):
            self._rules.pop(kept.rule.sha256, None)
            self._numbers[kept.rule.sha256] = kept.number
            kept.life = Life(owner=self.owner)
            self._keep_or_fault()
            self._tell(kept, "stopped", how=how)
        else:
            self._happen(kept, "stopped", by=self.owner, how=how)

    def stop_by_click(self, sha256: str) -> str:
        """Stops the rule with that SHA-256, by a click; returns one sentence.

        Raises:
            MewError: There is no such rule, or another process has the rules.
        """
        if why := self.acquire_if_any():
            raise MewError(f"The rule was not stopped here: {why}.")
        kept = self.find(sha256)
        if kept is None:
            raise MewError("That rule is none of yours any more, so nothing was stopped.")
        name, state = kept.name.capitalize(), kept.life.state
        if state not in ("active", "paused", "shadow"):
            return f"{name} is {state} already."
        self.stop(kept, how="click")
        if state == "shadow":
            return f"{name} judges no more."
        return f"{name} is stopped: such calls wait for you again. What it approved stands."

    def stop_all(self) -> int:
        """Suspends each rule that acts or is paused, because the lab was stopped; returns how many."""
        standing = [kept for kept in self.kept if kept.life.state in ("active", "paused")]
        for kept in standing:
            self._happen(kept, "lab_stopped", by=self.owner)
        return len(standing)

    # --- judging ---

    def judge(self, card: Card) -> KeptRule | None:
        """The rule that approves a card which was read now; None where a person decides it. Judges once."""
        if card.seq in self._judged or card.state != "open":
            return None
        self._judged[card.seq] = ()
        if not self._rules or not self._may_act or self._bars(card):
            return None
        asked = self._ask(card)
        if asked is None:
            return None
        self._expire()
        covering: list[tuple[KeptRule, int]] = []
        for kept in tuple(self._rules.values()):
            if kept.rule.about == asked.about:
                if kept.life.acts and asked.tool_hash and asked.tool_hash != kept.rule.tool_hash:
                    self._happen(kept, "tool_changed")
                if self._says(kept, asked):
                    covering.append((kept, kept.covered))
                    kept.covered += 1
        self._judged[card.seq] = tuple(kept for kept, _ in covering)
        chosen = tuple(
            (kept, number, kept.life.block)
            for kept, number in covering
            if kept.life.state in SAMPLED
            and (
                kept.rule.sha256 in self._owed
                or is_review(self._secret, kept.rule, number, size=kept.life.block)
            )
        )
        if chosen:
            self._owed -= {kept.rule.sha256 for kept, _, _ in chosen}
            self._reviews[card.seq] = _Review(card.id, chosen)
            return None
        return next((kept for kept, _ in covering if kept.life.acts), None)

    def _says(self, kept: KeptRule, asked: AskedCall) -> RuleJudgement:
        return judge(kept.rule, asked, self._approvals, now=self._clock(), used=kept.life.recent)

    def is_review(self, card: Card) -> bool:
        """Whether the card waits for a person because it was chosen for review. No surface tells this."""
        return card.seq in self._reviews

    def use(self, kept: KeptRule, card: Card) -> None:
        """Counts an approval by a rule, in the moment before it is sent.

        Raises:
            NotApproved: It may not approve the card now, or the approval cannot be counted.
        """
        asked, why = self._ask(card), self._bars(card)
        if not why and (not self._may_act or self._rules.get(kept.rule.sha256) is not kept):
            why = self.elsewhere or "another process uses the rules now"
        if not why and not (kept.life.acts and asked is not None and not self.is_review(card)):
            why = f"it is {kept.life.state}"
        if not why and asked is not None and not (said := self._says(kept, asked)):
            why = said.why
        before = kept.life
        if not why:
            try:
                kept.life = advance(before, Happened(what="used", t=self._clock(), by=self.owner), kept.rule)
                self._keep()
            except ConfigError as fault:
                why = str(fault)
            except OSError as fault:
                kept.life = before
                why = f"its use cannot be counted: {fault.strerror or 'the file cannot be written'}"
                self._fault(f"{kept.name} approves nothing: {why}")
        if why:
            raise NotApproved(f"{card.request}: not approved by {kept.name}, because {why}", code="rule")
        self._approved_by[card.seq] = kept
        if kept.life.state != before.state:
            self._tell(kept, "passed")
        else:
            self.changed.tell()

    # --- what is decided ---

    def take_refusal(self, card: Card, what: What) -> None:
        """Takes that the owner rejects a call, or approves it edited: before anything is sent."""
        for kept in self._covering(card):
            if kept.life.state != "shadow":
                self._happen(kept, what, by=self.owner)
        self._count_shadows(card, "disagreed")

    def take_approval(self, card: Card, *, how: str) -> None:
        """Takes that the owner has approved a call as it was proposed; `how` she did it."""
        asked = self._ask(card) if how in PERSON else None
        self._decided_how[card.seq] = how
        if asked is None:
            return
        self._count_shadows(card, "agreed")
        review = self._reviews.get(card.seq, _Review(card.id, ()))
        reviewed = {kept.rule.sha256 for kept, _, _ in review.rules}
        for kept in tuple(self._rules.values()):
            if kept.rule.about != asked.about:
                continue
            if kept.rule.sha256 in reviewed:
                self._happen(kept, "confirmed", by=self.owner)
            if self._approvals.find_new(asked):
                call = evidence_of(kept.rule, asked.arguments, t=self._clock(), by=self.owner)
                self._approvals.add(call)
                kept.approved = [*kept.approved, call][-MAX_EVIDENCE:]
                self._keep_or_fault()

    def _count_shadows(self, card: Card, what: What) -> None:
        """Counts a decision of the owner for the rules that judged it in silence."""
        for kept in self._judged.get(card.seq, ()):
            if kept.life.state == "shadow":
                self._happen(kept, what, by=self.owner)

    def take_rejection(self, card: Card, by: str) -> None:
        """Takes that a participant has rejected a call, whatever became of it."""
        for kept in self._covering(card):
            if kept.life.state != "shadow":
                self._happen(kept, "rejected", by=by)

    def take_stop(self, card: Card) -> None:
        """Takes that the owner cancels the call of a proposal."""
        for kept in self._covering(card):
            if kept.life.state != "shadow":
                self._happen(kept, "stopped", by=self.owner)

    def take_change(self, participant: str, tools: Collection[str]) -> None:
        """Takes that descriptions of tools have changed, or that these are listed no more."""
        for kept in tuple(self._rules.values()):
            if kept.rule.target == participant and kept.rule.tool in tools:
                self._happen(kept, "tool_changed")

    def follow(self, card: Card) -> None:
        """Takes each new state of a card: what was reviewed is recorded once it is decided."""
        if card.state == "unknown":
            for kept in self._covering(card):
                self._happen(kept, "unknown")
        if not card.is_open:
            self._judged.pop(card.seq, None)
            if (review := self._reviews.pop(card.seq, None)) is not None:
                if card.decision not in ("fulfilled", "rejected"):
                    self._owed |= {kept.rule.sha256 for kept, _, _ in review.rules}
                self._record(card, review)

    def _covering(self, card: Card) -> tuple[KeptRule, ...]:
        """The rules whose conditions the call of a card satisfies."""
        if not self._rules:
            return ()
        asked = self._ask(card)
        found = [kept for kept in self._rules.values() if asked is not None and kept.rule.covers_call(asked)]
        approved_by = self._approved_by.get(card.seq)
        if approved_by is not None and approved_by not in found:  # the ledger has forgotten its proposal
            found.append(approved_by)
        return tuple(found)

    def _record(self, card: Card, review: _Review) -> None:
        how = self._decided_how.pop(card.seq, "")
        edited = card.decision == "fulfilled" and card.edited is not False
        verdict = {"fulfilled": "edited" if edited else "approved", "rejected": "rejected"}
        for kept, number, size in review.rules:
            block, place = block_of(number, size)
            detail: dict[str, Any] = {"proposal": review.proposal, "rule": _named(kept)}
            detail |= {
                "verdict": verdict.get(card.decision, "undecided"),
                "block": block,
                "place": place,
                "of": size,
            }
            if card.decision in verdict:
                detail["by"] = card.by
            if how:
                detail["how"] = how
            self._note(REVIEWED, detail)

    # --- the lives of the rules ---

    def _expire(self) -> None:
        for kept in self._rules.values():
            if kept.life.state in ("active", "paused"):
                self._happen(kept, "passed")

    def _happen(self, kept: KeptRule, what: What, *, by: str = "", how: str = "") -> None:
        before = kept.life
        kept.life = advance(before, Happened(what=what, t=self._clock(), by=by), kept.rule)
        if kept.life == before:
            return
        self._keep_or_fault()
        if kept.life.state != before.state:
            self._tell(kept, what, how=how)
        else:
            self.changed.tell()

    def _keep_or_fault(self) -> None:
        if not self._may_act:
            return
        try:
            self._keep()
        except OSError as fault:  # it holds in this process all the same
            self._fault(f"The rules could not be kept: {fault.strerror or 'the file cannot be written'}")

    def _tell(self, kept: KeptRule, what: str, *, how: str = "") -> None:
        detail: dict[str, Any] = {"rule": _named(kept), "what": what, "state": kept.life.state}
        detail |= {"why": kept.life.why} if kept.life.why else {}
        self._note(RULE_EVENT, detail | ({"how": how} if how else {}))
        self.changed.tell()


def _named(kept: KeptRule) -> dict[str, Any]:
    return {"sha256": kept.rule.sha256, "text": kept.rule.text[:MOST_TEXT], "number": kept.number}


def _asked_again(rule: ApprovalRule, arguments: Mapping[str, Any]) -> AskedCall:
    return AskedCall(proposer=rule.proposer, target=rule.target, tool=rule.tool, arguments=arguments)
