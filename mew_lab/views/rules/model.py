"""The rules of the person of a lab as rows, and what a page does with them: try, adopt, look, stop, write one by hand.

The rows are those of `lab.rules`. A row tells what was decided, and nothing of a call that waits: which of these a rule
covers, and which one was chosen for review, stands in no row, count or order. So the rows follow the rules and the
decisions, and no proposal.

Candidates are learned from the log on a thread, and only once somebody looks. All else runs on the loop's thread.

To adopt a rule, or to go on with a paused one, takes two steps. `read` gives the words that a page shows, with their
digest. The page tells when all of them were in sight. A click counts only after that, by the arming time at least, and
for the same words: what was decided meanwhile changes them, so that they have to be read anew.

Spec: §2.1, §9.4, ruling R29.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeVar

from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions import cards
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.kept_rules import KeptRule
from mew_lab.lab.decisions.owned_rules import OwnedRules
from mew_lab.lab.lab_rules import (
    STATES,
    OfferedRule,
    RuleWords,
    bind,
    describe_call,
    offered_rules,
    own_decisions,
    tell_approver,
    tell_evidence,
    tell_life,
    tell_notes,
    tell_words,
)
from mew_lab.lab.session import Session
from mew_lab.lab.subscribers import Subscribers
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.decision_ways import PERSON
from mew_lab.protocol.envelope import digest
from mew_lab.protocol.visible import one_line
from mew_lab.rules.backtests import back_test, find_remark
from mew_lab.rules.decided_calls import DecidedCall
from mew_lab.rules.life import State
from mew_lab.rules.rule import ApprovalRule, parse_rule
from mew_lab.views.ui.debounce import Debounce

__all__ = ["CheckedSentence", "RuleEvidence", "RuleRow", "RuleRows", "Step"]

MOST_HELD = 100  # sentences of a person, and rules whose words pages show
GATHERED = 0.05  # seconds; changes within this time cause one refresh
LEARN_AFTER = 0.5  # seconds after a decision
LEARN_SHARE = 10  # learning takes at most one part of so many of the time
Step = Literal["adopted", "looked"]
_VERBS: Final[dict[Step, str]] = {"adopted": "adopted", "looked": "active again"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule: its state with the reason, and its record, evidence and origin in words."""

    rule: ApprovalRule
    number: int
    state: State
    why: str
    about: str


class RuleEvidence(NamedTuple):
    """A decision on a call that a rule covers: in words, whether it stands against the rule, and the arguments."""

    seq: int
    t: float
    what: str
    is_against: bool
    values: str


class CheckedSentence(NamedTuple):
    """A sentence that states a rule, and what that covers.

    Attributes:
        state: The state of the rule where there is one already; None for a new one.
        tested: What it would have decided in the log.
        beyond: How many decisions it covers that the rule does not from which it was edited.
        remark: Why it would cover no call of now, as far as the log tells; empty where nothing stands against it.
    """

    rule: ApprovalRule
    state: State | None
    tested: str
    beyond: int
    remark: str


@dataclass(slots=True)
class _ShownWords:
    """The words of a rule in one page: their digest, and since when all of them were in sight."""

    digest: str
    since: float | None = None


@dataclass(frozen=True, slots=True)
class _Learned:
    """The candidates by SHA-256, and why the file of rules is not read."""

    offered: dict[str, OfferedRule] = field(default_factory=dict)
    fault: str = ""
    is_ready: bool = False


class RuleRows:
    """The rules of the person of one lab. Made on any thread.

    `rows` is replaced, never changed, so any thread may read it. `notes` are sentences about all rules, and `is_ready`
    is whether the candidates were learned.
    """

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rows: tuple[RuleRow, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.is_ready = False
        self.changed: Subscribers[()] = Subscribers()
        self._session = session
        self._owned: OwnedRules = session.decisions.rules
        self._clock = clock
        self._learned = _Learned()
        self._checked: BoundedDict[str, OfferedRule] = BoundedDict(MOST_HELD)
        self._used: BoundedDict[str, OfferedRule] = BoundedDict(MOST_HELD)  # listed when they are stopped
        self._shown: BoundedDict[tuple[str, str], _ShownWords] = BoundedDict(MOST_HELD)
        self._is_wanted = self._is_learning = self._is_stale = False
        self._pause = LEARN_AFTER
        self._soon, self._later = Debounce(self.refresh), Debounce(self._begin_learning)
        self._leave = (
            self._owned.changed.add(lambda: session.loop.post(lambda: self._soon.within(GATHERED))),
            session.decisions.subscribe(self._take_card),
        )

    def close(self) -> None:
        """Stops following the rules and the decisions."""
        for leave in self._leave:
            leave()

    # --- following ---

    def look(self) -> None:
        """Tells that somebody looks: candidates are learned now, and after each later decision. For any thread."""
        self._session.loop.post(self._take_look)

    def _take_look(self) -> None:
        self._is_wanted = True
        self.refresh()
        if self._is_stale or not self.is_ready:
            self._begin_learning()

    def _take_card(self, card: Card) -> None:
        if card.decision in ("fulfilled", "rejected"):
            self._is_stale = True
            if self._is_wanted:
                self._later.within(self._pause)

    def _begin_learning(self) -> None:
        if not self._is_learning and not self._session.closed:
            self._is_learning = True
            self._session.loop.submit(self._learn())

    async def _learn(self) -> None:
        began, self._is_stale = self._clock(), False
        self._owned.acquire_if_any()
        try:
            offered, _, fault = await self._in_thread(lambda: offered_rules(self._session))
            self._learned = _Learned({one.rule.sha256: one for one in offered}, fault, is_ready=True)
        except MewError as failure:
            self._session.fault(f"No rule is suggested: {one_line(str(failure), 300)}")
            self._learned = _Learned(is_ready=True)
        finally:
            self._is_learning = False
        self._pause = max(LEARN_AFTER, LEARN_SHARE * (self._clock() - began))
        self.refresh()
        if self._is_stale:
            self._later.within(self._pause)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return work() if self._session.loop.threadless else await asyncio.to_thread(work)

    def refresh(self) -> None:
        """Makes the rows anew; calls the subscribers where something has changed."""
        self._soon.cancel()
        rows = [
            RuleRow(
                rule=one.rule,
                number=one.number,
                state=one.life.state,
                why=one.life.why,
                about=tell_life(one),
            )
            for one in self._owned.kept
        ]
        rows += [
            RuleRow(
                rule=one.rule,
                number=self._owned.number_of(one.rule),
                state="candidate",
                why="",
                about=tell_evidence(one),
            )
            for one in {**self._used, **self._learned.offered}.values()
            if not self._owned.has_like(one.rule)
        ]
        rows.sort(key=lambda row: (STATES.index(row.state), row.number))
        notes = tell_notes(self._learned.fault, self._owned.elsewhere, tell_approver(self._session))
        now = tuple(rows), notes, self._learned.is_ready
        if now != (self.rows, self.notes, self.is_ready):
            self.rows, self.notes, self.is_ready = now
            self.changed.tell()

    # --- what a person does, on the loop ---

    def _find(self, sha256: str) -> OfferedRule:
        offered = self._learned.offered
        if (kept := self._owned.find(sha256)) is not None:
            # What is learned of it by now may have another rate.
            known = next((one for one in offered.values() if one.rule.words == kept.rule.words), None)
            return OfferedRule(kept.rule, kept.origin, None if known is None else known.candidate)
        found = offered.get(sha256) or self._checked.get(sha256) or self._used.get(sha256)
        if found is None:
            raise MewError("That rule is listed no more, so nothing was done.")
        return found

    async def _decided(self) -> tuple[DecidedCall, ...]:
        return await self._in_thread(lambda: own_decisions(self._session))

    async def try_(self, sha256: str) -> str:
        """Lets a rule judge in silence.

        Raises:
            MewError: There is no such rule, or it cannot be tried.
        """
        offered = self._find(sha256)
        kept = self._begin("tried", offered, await self._decided())
        return f"{kept.name.capitalize()} judges in silence from now on and approves nothing."

    def stop(self, sha256: str) -> str:
        """Stops a rule. One that approved calls is suspended, and one that was tried is a candidate.

        Raises:
            MewError: There is no such rule, or another process has the rules.
        """
        offered = self._find(sha256)
        told = self._owned.stop_by_click(sha256)
        self._used[sha256] = offered
        return told

    async def read(self, view: str, sha256: str) -> tuple[RuleWords, str]:
        """The words that a person reads before she adopts a rule or goes on with it, and their digest.

        Args:
            view: The page that shows them.
        """
        words = await self._words(self._find(sha256), await self._decided())
        key = _digest(words)
        known = self._shown.get((view, sha256))
        if known is None or known.digest != key:
            self._shown[view, sha256] = _ShownWords(key)
        return words, key

    def take_sight(self, view: str, sha256: str, digest: str) -> None:
        """Takes that all words with that digest were in sight in a page."""
        shown = self._shown.get((view, sha256))
        if shown is not None and shown.digest == digest and shown.since is None:
            shown.since = self._clock()

    async def confirm(self, step: Step, view: str, sha256: str, digest: str) -> str:
        """Adopts a rule, or goes on with a paused one, by a click on the words with that digest.

        Raises:
            NotApproved: The page has not shown these words, or not for the arming time.
            MewError: They have changed since, or the step makes no sense in the state of the rule.
        """
        offered, verb = self._find(sha256), _VERBS[step]
        shown = self._shown.get((view, sha256))
        if shown is None or shown.digest != digest or shown.since is None:
            raise NotApproved(
                f"The rule is not {verb}, because the page that was clicked has not shown all of its words yet; read "
                "them to the end, then press once more",
                code="never_seen",
            )
        if (seconds := self._clock() - shown.since) < cards.ARMING:
            raise NotApproved(
                f"The rule is not {verb}, because its words were in sight for {seconds:.2f} s; look at them for "
                f"{cards.ARMING:g} s, then press once more",
                code="too_fast",
            )
        decided = await self._decided()
        if _digest(await self._words(offered, decided)) != digest:
            raise MewError(
                f"The rule is not {verb}, because its words have changed since, by a decision that came meanwhile; read "
                "them once more"
            )
        kept = self._begin(step, offered, decided)
        self._shown.pop((view, sha256), None)
        return f"{kept.name.capitalize()} approves calls from now on."

    def _begin(
        self, step: Literal["tried"] | Step, offered: OfferedRule, decided: Sequence[DecidedCall]
    ) -> KeptRule:
        kept = self._owned.begin(step, offered.rule, how="click", origin=offered.origin, approved=decided)
        self._used[offered.rule.sha256] = offered
        return kept

    async def _words(self, offered: OfferedRule, decided: Sequence[DecidedCall]) -> RuleWords:
        number = self._owned.number_of(offered.rule)
        return await self._in_thread(lambda: tell_words(offered, decided, number=number))

    async def find_evidence(self, sha256: str) -> tuple[RuleEvidence, ...]:
        """The decisions on calls that a rule covers, those that stand against it first, then the newest first.

        Those of a candidate are what it was learned from. No call that waits is among them.
        """
        offered = self._find(sha256)
        if (candidate := offered.candidate) is not None and self._owned.find(sha256) is None:
            calls = [*candidate.rejected, *candidate.approved]
        else:
            calls = [one for one in await self._decided() if _is_covered(offered.rule, one)]
        found = {one.seq: _tell_decision(one) for one in calls}
        return tuple(sorted(found.values(), key=lambda one: (not one.is_against, -one.seq)))

    async def check(self, text: str, base: str = "") -> CheckedSentence:
        """Reads a sentence; the rule that it states can be tried and adopted from then on.

        Args:
            base: The rule from which it was edited, whose limits and description of the tool it has, too.

        Raises:
            ConfigError: It states no rule; the message tells the place.
        """
        source = self._find(base).rule if base else None
        rule = parse_rule(text.strip())
        if source is not None and rule.about == source.about:
            rule = parse_rule(
                text.strip(),
                tool_hash=source.tool_hash,
                an_hour=source.an_hour,
                days=source.days,
                uses=source.uses,
            )
        rule = bind(self._session, rule)
        decided = await self._decided()
        test = await self._in_thread(
            lambda: back_test([rule], [one for one in decided if one.teaches], rated=False)
        )
        covered = [one for one in decided if _is_covered(rule, one)]
        beyond = sum(source is not None and not _is_covered(source, one) for one in covered)
        kept = self._owned.find(rule.sha256)
        known = "candidate" if rule.sha256 in self._learned.offered else None
        if known is None and kept is None:
            self._checked[rule.sha256] = OfferedRule(rule, "written")
        state: State | None = kept.life.state if kept is not None else "candidate" if known else None
        return CheckedSentence(rule, state, str(test), beyond, find_remark(rule, decided))


def _is_covered(rule: ApprovalRule, decided: DecidedCall) -> bool:
    """Whether it is a decision on a call that a rule covers."""
    return decided.verdict != "undecided" and rule.covers_call(decided)


def _tell_decision(decided: DecidedCall) -> RuleEvidence:
    what = "edited" if decided.edited else decided.verdict
    by = "" if decided.how in PERSON or not decided.how else f" by {decided.how}"
    is_against = decided.edited or decided.verdict == "rejected"
    return RuleEvidence(decided.seq, decided.t, f"{what}{by}", is_against, describe_call(decided))


def _digest(words: RuleWords) -> str:
    # Not its evidence: the same decisions are in what it would have decided, and it is learned a moment later.
    return digest(
        [
            words.rule.sha256,
            words.limits,
            words.permission,
            words.tested,
            [list(one) for one in words.past],
            words.more,
        ]
    )
