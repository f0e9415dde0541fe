"""`lab.rules`: the rules of the person of a lab: candidates, and those that she has tried, adopted or stopped.

A candidate is learned from the decisions of the log, or stands in a `mew-rules.yaml` in the folder of the space, or is
a sentence that the person writes. Nothing acts by it. To adopt one is an act of a person: the first call shows the words
of the rule, its evidence, and what it would have decided in the past, the wrong ones first. The same call once more
within five minutes adopts it, and so does `sure=True` at once. A program without a person at a prompt needs both.

What the rules do then is in `decisions/owned_rules.py`.

Spec: §2.1, §9.4.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.decisions.kept_rules import KeptRule, Origin
from mew_lab.lab.decisions.owned_rules import OwnedRules
from mew_lab.lab.decisions.policies import is_at_prompt
from mew_lab.lab.listing import Listing, Note
from mew_lab.lab.participant_verbs import Losses
from mew_lab.lab.session import Session, run_work
from mew_lab.protocol.envelope import compact, digest
from mew_lab.protocol.text import count_of, local_time
from mew_lab.protocol.visible import one_line, visible
from mew_lab.rules.backtests import back_test
from mew_lab.rules.decided_calls import DecidedCall
from mew_lab.rules.learner import Candidate, learn
from mew_lab.rules.life import State, What, end_of
from mew_lab.rules.rule import ApprovalRule, parse_rule, parse_rules
from mew_lab.settings.rule_files import RULE_FILE, read_rule_file

__all__ = [
    "STATES",
    "LabRules",
    "OfferedRule",
    "PastDecision",
    "RuleWords",
    "Which",
    "bind",
    "describe_call",
    "offered_rules",
    "own_decisions",
    "tell_approver",
    "tell_evidence",
    "tell_life",
    "tell_notes",
    "tell_words",
]

MOST_EXAMPLES = 10
MOST_VALUE = 80  # characters of an argument
LEAST_DIGITS = 8  # of a SHA-256 that names a rule
COLUMNS = ("number", "state", "rule", "evidence", "why")
ORIGINS: dict[Origin, str] = {
    "learned": "learned from your decisions",
    "written": "written by hand",
    "others": f"written by others, in {RULE_FILE}",
}
STATES: tuple[State, ...] = ("active", "paused", "suspended", "expired", "shadow", "candidate")
"""In the order in which they are listed."""
Which = int | str | ApprovalRule | Candidate


class PastDecision(NamedTuple):
    """A decision that a rule would have made: its number in the log, its time, whether the person decided otherwise, in
    words what she did, and the arguments in short."""

    seq: int
    t: float
    is_wrong: bool
    what: str
    values: str


class RuleWords(NamedTuple):
    """What a person reads before she adopts a rule.

    Attributes:
        evidence: Where it is from, and what it rests on.
        limits: How much it approves.
        permission: The permission that it would be, as JSON, or that there is none.
        tested: What it would have decided in the log.
        past: Some of that, the wrong ones first; `more` is how many others there are.
    """

    number: int
    rule: ApprovalRule
    evidence: str
    limits: str
    permission: str
    tested: str
    past: tuple[PastDecision, ...]
    more: int


class OfferedRule(NamedTuple):
    """A candidate: its rule, where its text is from, and its evidence where it was learned."""

    rule: ApprovalRule
    origin: Origin
    candidate: Candidate | None = None


def offered_rules(session: Session) -> tuple[tuple[OfferedRule, ...], tuple[DecidedCall, ...], str]:
    """The candidates of a lab, what its person has decided so far, and a sentence on a file that cannot be read.

    To be called on any thread but the loop's: it reads the log.
    """
    mine, host = own_decisions(session), session.host
    found = {one.rule.sha256: OfferedRule(one.rule, "learned", one) for one in learn(mine)}
    fault = ""
    path = None if host is None else host.folder / RULE_FILE
    if path is not None and path.exists():
        try:
            written, faults = parse_rules(read_rule_file(path))
            fault = "; ".join(f"{key}: {why}" for key, why in faults)
        except ConfigError as damaged:
            written, fault = [], str(damaged)
        for rule in written if not fault else []:
            bound = bind(session, rule)
            found.setdefault(bound.sha256, OfferedRule(bound, "others"))
    return tuple(found.values()), mine, fault


def own_decisions(session: Session) -> tuple[DecidedCall, ...]:
    """What the person of a lab has decided so far, and the proposals that nobody decided.

    To be called on any thread but the loop's: it reads the log.
    """
    ids = {session.me.name, session.me.participant.client.id or session.me.name}
    return tuple(one for one in session.log.decided_calls() if one.verdict == "undecided" or one.by in ids)


def bind(session: Session, rule: ApprovalRule) -> ApprovalRule:
    """The rule for the tool as it is listed now, where its text names none; without a SHA-256 where it is not listed."""
    if rule.tool_hash:
        return rule
    digest = session.loop.call(lambda: session.decisions.tools.digest_of(rule.target, rule.tool))
    return rule.bound(digest)


class LabRules(Listing):
    """The rules of one person, those that act first; `lab.rules` makes it anew.

    `try_` lets one judge in silence, `adopt` lets it approve calls, `stop` ends that, and `look` goes on with one that
    another participant's rejection has paused; `show` tells what a person reads before she adopts it. Each takes the
    number of a rule, its SHA-256 or the beginning of that, a row's `rule`, or a sentence such as `When coder asks files
    to run read_file with path below docs/, and nothing else: approve`.
    """

    def __init__(self, session: Session, losses: Losses) -> None:
        self._session = session
        self._losses = losses
        offered, self._decided, fault = offered_rules(session)
        self._offered = {one.rule.words: one for one in offered}
        rows = session.loop.call(self._rows)
        elsewhere = session.loop.call(lambda: self._owned.elsewhere)
        told = session.loop.call(lambda: tell_approver(session))
        super().__init__(
            "rules of " + one_line(session.me.name, 64),
            COLUMNS,
            rows,
            empty="No rule is suggested yet. Decide some calls that are alike, or write one: "
            'lab.rules.try_("When coder asks files to run read_file with path below docs/, and nothing else: approve")',
            note=" ".join(tell_notes(fault, elsewhere, told)),
        )

    @property
    def _owned(self) -> OwnedRules:
        return self._session.decisions.rules

    def _rows(self) -> list[tuple[Any, ...]]:
        self._owned.acquire_if_any()
        rows: list[tuple[Any, ...]] = [
            (kept.number, kept.life.state, kept.rule, tell_life(kept), kept.life.why)
            for kept in self._owned.kept
        ]
        for offered in self._offered.values():
            if not self._owned.has_like(offered.rule):
                number = self._owned.number_of(offered.rule)
                rows.append((number, "candidate", offered.rule, tell_evidence(offered), ""))
        return sorted(rows, key=lambda row: (STATES.index(row[1]), row[0]))

    def __str__(self) -> str:
        lines = [self.title] if self.rows else []
        for row in self.rows:
            number, state, rule, evidence, why = row
            reason = f", because {one_line(why, 120)}" if why else ""
            lines += [
                f"rule {number} is {_article(state)}{reason}: {visible(rule.text)}",
                f"  {one_line(evidence, 300)}",
            ]
        return "\n".join(filter(None, [*lines, "" if self.rows else self.empty, self.note]))

    __repr__ = __str__

    # --- what a person does ---

    def try_(self, which: Which) -> Note:
        """Lets a rule judge in silence: it approves nothing, and its record counts how often you decide as it says."""
        return self._begin(
            "tried", which, "judges in silence from now on; lab.rules tells how often you agree"
        )

    def look(self, which: Which) -> Note:
        """Goes on with a rule that paused, because another participant has rejected a call that it covers."""
        return self._begin("looked", which, "approves calls again")

    def adopt(self, which: Which, *, sure: bool = False) -> Note:
        """Lets a rule approve calls. The first time it shows what it would have decided; the second time adopts it.

        Where you decide something in between that changes these words, they are shown once more.

        Some of the calls that it covers wait for you all the same, unannounced. It is suspended by your first rejection
        or edit of a call that it covers.

        Args:
            sure: Adopts it at once, where a person types this. A script has to show the words first.

        Raises:
            MewError: There is no such rule, or it cannot be adopted.
        """
        offered = self._find(which)
        words = self._tell_words(offered)
        how = _how()

        async def adopt() -> Note:
            number, act = (
                self._owned.number_of(offered.rule),
                # Where a decision came in between, other words are to be read.
                compact({"do": "adopt", "rule": offered.rule.sha256, "shown": digest(words)}),
            )
            is_script = how == "script"
            if is_script or not sure:
                shown = self._losses.confirm(act, words) is None
                if is_script and shown and not sure:
                    self._losses.confirm(act, words)  # it was shown once more
                if not shown or (is_script and not sure):
                    again = f"lab.rules.adopt({number}, sure=True) adopts it, for no person types here"
                    end = again if is_script else "Repeat it to adopt the rule"
                    return Note(f"{words}\nNothing was adopted yet. {end}.")
            kept = self._owned.begin(
                "adopted", offered.rule, how=how, origin=offered.origin, approved=self._decided
            )
            return Note(
                f"{kept.name.capitalize()} approves calls from now on; lab.rules.stop({kept.number}) ends that: "
                f"{visible(kept.rule.text)}"
            )

        return run_work(self._session, adopt(), "adopting a rule")

    def stop(self, which: Which | None = None) -> Note:
        """Stops a rule, or all of them. One that approved calls is suspended, and one that was tried is a candidate."""
        chosen = None if which is None else self._find(which).rule.sha256
        how = _how()

        async def stop() -> Note:
            if why := self._owned.acquire_if_any():
                raise MewError(f"Cannot stop a rule: {why}")
            standing = [
                kept
                for kept in self._owned.kept
                if kept.life.state in ("active", "paused", "shadow") and chosen in (None, kept.rule.sha256)
            ]
            for kept in standing:
                self._owned.stop(kept, how=how)
            names = ", ".join(kept.name for kept in standing)
            return Note(
                f"Stopped: {names}" if names else "Nothing was stopped, because no such rule acts or judges"
            )

        return run_work(self._session, stop(), "stopping a rule")

    def show(self, which: Which) -> Note:
        """What `adopt` shows of a rule: its words, its evidence, and what it would have decided in the past."""
        return Note(self._tell_words(self._find(which)))

    def _tell_words(self, offered: OfferedRule) -> str:
        number = self._session.loop.call(lambda: self._owned.number_of(offered.rule))
        words = tell_words(offered, self._decided, number=number)
        sign = self._session.log.sign
        lines = [
            f"Rule {words.number}: {words.rule.text}",
            f"  {words.evidence}",
            f"  {words.limits}",
            f"  As a permission, which it does not give: {words.permission}",
            f"  In this log: {words.tested}",
        ]
        for one in words.past:
            mark, at = "WRONG, " if one.is_wrong else "", datetime.fromtimestamp(one.t).astimezone()
            lines.append(f"    {mark}{one.what}, {sign}{one.seq} at {at:%Y-%m-%d %H:%M}: {one.values}")
        lines += [f"    and {words.more} more"] if words.more else []
        return "\n".join(map(visible, lines))

    # --- which one is meant ---

    def _find(self, which: Which) -> OfferedRule:
        """The rule that is meant.

        Raises:
            MewError: There is none, or several begin so.
        """
        if isinstance(which, Candidate):
            return OfferedRule(which.rule, "learned", which)
        if isinstance(which, ApprovalRule):
            return self._known(bind(self._session, which))
        if isinstance(which, str) and which.lstrip().startswith("When "):
            return self._known(bind(self._session, parse_rule(which.strip())))
        text = str(which).strip().removeprefix("rule").strip()
        listed = [(row[0], row[2]) for row in self.rows]
        if text.isascii() and text.isdigit() and len(text) < LEAST_DIGITS:
            found = [rule for number, rule in listed if number == int(text)]
        elif re.fullmatch(rf"[0-9a-f]{{{LEAST_DIGITS},64}}", text):
            found = [rule for _, rule in listed if rule.sha256.startswith(text)]
        else:
            found = []
        if len(found) != 1:
            numbers = ", ".join(str(number) for number, _ in listed[:20]) or "none"
            raise MewError(
                f"There is no one rule {one_line(str(which), 80)!r}; lab.rules lists them, with the numbers {numbers}. "
                "A sentence that begins with When states another one"
            )
        return self._known(found[0])

    def _known(self, rule: ApprovalRule) -> OfferedRule:
        kept = self._session.loop.call(lambda: self._owned.find(rule.sha256))
        known = self._offered.get(rule.words)  # what is learned of it by now may have another rate
        if kept is not None:
            return OfferedRule(rule, kept.origin, None if known is None else known.candidate)
        return known if known is not None and known.rule == rule else OfferedRule(rule, "written")

    def _begin(self, what: What, which: Which, told: str) -> Note:
        offered, how = self._find(which), _how()

        async def begin() -> Note:
            kept = self._owned.begin(
                what, offered.rule, how=how, origin=offered.origin, approved=self._decided
            )
            return Note(f"{kept.name.capitalize()} {told}: {visible(kept.rule.text)}")

        return run_work(self._session, begin(), "changing a rule")


def _how() -> str:
    """`typed` where a person types in a cell or at a terminal, else `script`; what runs beside that is none."""
    is_typed = is_at_prompt(reads_lines=False) and threading.current_thread() is threading.main_thread()
    return "typed" if is_typed else "script"


def _article(state: str) -> str:
    return {"candidate": "a candidate", "shadow": "judging in silence"}.get(state, state)


def tell_evidence(offered: OfferedRule) -> str:
    """Where a rule is from, and its evidence where it was learned."""
    if offered.candidate is None:
        return ORIGINS[offered.origin]
    return "; ".join([f"{ORIGINS[offered.origin]}: {offered.candidate.evidence}", *offered.candidate.remarks])


def tell_approver(session: Session) -> str:
    """What the approver of a lab sends; empty without one. To be called on the loop."""
    approver = session.decisions.approver
    return "" if approver is None else one_line(approver.tell(), 600)


def tell_notes(fault: str, elsewhere: str, approver: str) -> tuple[str, ...]:
    """Sentences about all rules: why the file of candidates is not read, why no rule acts here, and who sends."""
    told = [f"{RULE_FILE} is not read: {one_line(fault, 300)}"] if fault else []
    told += [f"No rule acts here: {one_line(elsewhere, 300)}"] if elsewhere else []
    return (*told, *([approver] if approver else []))


def tell_life(kept: KeptRule) -> str:
    """Where a kept rule is from, what it has done, and when it expires."""
    life, rule, parts = kept.life, kept.rule, [ORIGINS[kept.origin]]
    if life.state == "shadow":
        parts.append(f"as you decided {life.agreed} times, otherwise {life.disagreed}")
    elif life.adopted is not None:
        calls = count_of(life.uses, "call")
        parts.append(
            f"adopted at {local_time(life.adopted)}, {calls} approved since, {life.confirmed} reviewed"
        )
        if life.state in ("active", "paused"):
            end, left = datetime.fromtimestamp(end_of(life.adopted, rule)).astimezone(), rule.uses - life.uses
            parts.append(f"expires on {end:%Y-%m-%d}, or after {count_of(left, 'more call')}")
    return "; ".join(parts)


def tell_words(offered: OfferedRule, decided: Sequence[DecidedCall], *, number: int) -> RuleWords:
    """What a person reads of a rule before she adopts it; `decided` is what she has decided so far."""
    rule, test = offered.rule, back_test([offered.rule], [one for one in decided if one.teaches], rated=False)
    wrong = {one.seq for one in test.wrong}
    past = tuple(
        PastDecision(
            one.seq,
            one.t,
            one.seq in wrong,
            f"you {'edited' if one.edited else one.verdict} it" if one.seq in wrong else "as you decided",
            describe_call(one),
        )
        for one in test.shown[:MOST_EXAMPLES]
    )
    return RuleWords(
        number=number,
        rule=rule,
        evidence=tell_evidence(offered),
        limits=f"It approves at most {rule.an_hour} calls an hour, for {rule.days} days or {rule.uses} calls, and "
        "one of each 3 to 5 waits for you unannounced.",
        permission=compact(rule.capability) if rule.capability else "no permission is as narrow",
        tested=str(test),
        past=past,
        more=max(0, len(test.shown) - MOST_EXAMPLES),
    )


def describe_call(decided: DecidedCall) -> str:
    """The proposed arguments of a call in short, on one line."""
    values = (decided.proposed or {}).items()
    return one_line(
        ", ".join(f"{name}={one_line(compact(value), MOST_VALUE)}" for name, value in values), 300
    )
