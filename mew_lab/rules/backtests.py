"""Replays decisions under rules: what these would have approved, and which of it a person decided otherwise. Pure.

Spec: §9.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mew_lab.errors import ConfigError
from mew_lab.protocol.visible import one_line
from mew_lab.rules.approvals import Approvals
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.judgements import HOUR, judge
from mew_lab.rules.learner import Candidate, learn
from mew_lab.rules.rule import ApprovalRule, parse_rule
from mew_lab.rules.statistics import upper_bound

__all__ = [
    "BackTest",
    "Frontier",
    "FrontierPoint",
    "asked_of",
    "back_test",
    "draw_frontier",
    "find_remark",
    "learned_frontier",
    "read_rules",
]

UNKNOWN: Final = "f" * 64  # stands for the description of a tool that a log does not tell
SPLIT: Final = 0.5  # of the decisions that a frontier learns from


def asked_of(decided: DecidedCall) -> AskedCall:
    """The call of a decision as it was proposed. What its card said beside the tool is not known any more."""
    arguments: dict[str, Any] = dict(decided.proposed if decided.proposed is not None else decided.sent or {})
    return AskedCall(
        proposer=decided.proposer,
        target=decided.target,
        method=decided.method,
        tool=decided.tool,
        arguments=arguments,
        tool_hash=decided.tool_hash,
        hints=decided.hints,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTest:
    """What some rules would have decided on decisions of the past.

    Attributes:
        rules: The rules.
        wrong: What they would have approved and a person rejected or edited; `right` what both approved.
        missed: What a person approved as it was proposed and no rule covers.
        never: What a rule covers and no rule may approve, whatever a person decided.
        decided: How many decisions were replayed.
    """

    rules: tuple[ApprovalRule, ...]
    right: tuple[DecidedCall, ...]
    wrong: tuple[DecidedCall, ...]
    missed: tuple[DecidedCall, ...]
    never: tuple[DecidedCall, ...]
    decided: int

    @property
    def covered(self) -> int:
        """How many decisions the rules would have made."""
        return len(self.right) + len(self.wrong)

    @property
    def coverage(self) -> float:
        """The part of what the person approved that the rules would have approved; 0 where there is nothing."""
        approved = len(self.right) + len(self.missed) + sum(_is_yes(one) for one in self.never)
        return len(self.right) / approved if approved else 0.0

    @property
    def wrong_rate(self) -> float:
        """The part of what the rules would have approved that the person did not; 0 where there is nothing."""
        return len(self.wrong) / self.covered if self.covered else 0.0

    @property
    def bound(self) -> float:
        """The greatest rate of wrong approvals that this leaves possible, at 95 % and one-sided."""
        return upper_bound(len(self.wrong), self.covered)

    @property
    def shown(self) -> tuple[DecidedCall, ...]:
        """What they would have approved, the wrong ones first, each the newest first."""
        return (*reversed(self.wrong), *reversed(self.right))

    def __str__(self) -> str:
        if not self.covered:
            return f"of {self.decided} decisions it would have made none"
        return (
            f"of {self.decided} decisions it would have made {self.covered}, {len(self.wrong)} of them wrong "
            f"(at most {self.bound * 100:.1f} %), and {self.coverage * 100:.0f} % of what was approved"
        )


def _is_yes(decided: DecidedCall) -> bool:
    """Whether the person approved it as it was proposed."""
    return decided.verdict == "approved" and not decided.edited


def back_test(
    rules: Iterable[ApprovalRule],
    decisions: Iterable[DecidedCall],
    *,
    known: Iterable[DecidedCall] = (),
    any_how: bool = False,
    rated: bool = True,
) -> BackTest:
    """What these rules would have decided, one decision after the other.

    What was not approved before at that time is `never`, as it is when a rule acts. The rate of each rule holds, too.

    Args:
        rated: Whether the rate holds. Without it what a rule would have approved at another time is told, too.
        known: Earlier decisions, which count as approved before.
        any_how: Whether decisions that teach nothing are replayed, too, such as those of a log without receipts. Where
            the log does not tell what a target says of its tool, that counts as what the rule is for.
    """
    rules = tuple(rules)
    tried = [rule.bound(UNKNOWN) if any_how and not rule.tool_hash else rule for rule in rules]
    approvals, used = Approvals(known), [deque[float]() for _ in rules]
    right, wrong, missed, never = (
        list[DecidedCall](),
        list[DecidedCall](),
        list[DecidedCall](),
        list[DecidedCall](),
    )
    count = 0
    for decided in decisions:
        if decided.verdict == "undecided" or decided.arguments is None or not (decided.teaches or any_how):
            continue
        count += 1
        call, said = asked_of(decided), "silent"
        for rule, times in zip(tried, used, strict=True):
            if any_how and not decided.tool_hash:
                call = replace(call, tool_hash=rule.tool_hash)
            while times and times[0] <= decided.t - HOUR:
                times.popleft()
            judged = judge(rule, call, approvals, now=decided.t, used=times)
            if judged.says == "approve":
                if rated:
                    times.append(decided.t)
                said = "approve"
                break
            said = judged.says if judged.says == "never" else said
        if said == "approve":
            (right if _is_yes(decided) else wrong).append(decided)
        elif said == "never":
            never.append(decided)
        elif _is_yes(decided):
            missed.append(decided)
        approvals.add(decided)
    return BackTest(
        rules=rules,
        right=tuple(right),
        wrong=tuple(wrong),
        missed=tuple(missed),
        never=tuple(never),
        decided=count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """Coverage against wrong approvals, with the rules up to `rule` in force."""

    rules: int
    rule: ApprovalRule
    coverage: float
    wrong: int
    covered: int

    @property
    def wrong_rate(self) -> float:
        """The part of what the rules would have approved that the person did not."""
        return self.wrong / self.covered if self.covered else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """How coverage and wrong approvals grow with the rules, those with the best evidence first.

    `learned` is the number of decisions from which they were learned, 0 where they were given. `tested` is the test of
    all of them on the decisions behind these.
    """

    points: tuple[FrontierPoint, ...]
    tested: BackTest
    learned: int = 0

    def __str__(self) -> str:
        head = f"learned from {self.learned} decisions; " if self.learned else ""
        lines = [f"{head}{self.tested}"]
        for point in self.points:
            told = f"{point.coverage * 100:5.1f} % covered, {point.wrong} of {point.covered} wrong"
            lines.append(f"{point.rules:3}  {told}  {point.rule}")
        return "\n".join(lines)


def read_rules(
    rules: Iterable[ApprovalRule | Candidate | str], decisions: Sequence[DecidedCall]
) -> list[ApprovalRule]:
    """The rules that are given as rules, candidates or sentences.

    One that names no description of its tool gets that of the newest decision on a call of its tool.

    Raises:
        ConfigError: A sentence states no rule, or a value is none.
    """
    newest = {one.about: one.tool_hash for one in decisions if one.tool_hash}
    read = []
    for given in rules:
        rule = (
            given.rule
            if isinstance(given, Candidate)
            else parse_rule(given)
            if isinstance(given, str)
            else given
        )
        if not isinstance(rule, ApprovalRule):
            raise ConfigError(
                f"{type(given).__name__} is no rule; give a sentence, a rule, or a candidate", key="rules"
            )
        known = newest.get(rule.about, "")
        read.append(rule.bound(known) if known and not rule.tool_hash else rule)
    return read


def find_remark(rule: ApprovalRule, decisions: Sequence[DecidedCall]) -> str:
    """Why a rule would cover no call of now, as far as these decisions tell; empty where nothing stands against it."""
    target, tool = one_line(rule.target, 60), one_line(rule.tool, 60)
    known = [one for one in decisions if one.about == rule.about]
    if not known:
        return f"no call of {target}/{tool} by {one_line(rule.proposer, 60)} is in this log"
    newest = next((one.tool_hash for one in reversed(known) if one.tool_hash), "")
    if not newest:
        return f"what {target} says of {tool} is not in this log"
    return "" if rule.tool_hash in ("", newest) else f"{target} describes {tool} otherwise by now"


def draw_frontier(
    rules: Sequence[ApprovalRule],
    decisions: Sequence[DecidedCall],
    *,
    known: Sequence[DecidedCall] = (),
    any_how: bool = False,
) -> Frontier:
    """The frontier of these rules in their order on these decisions; see `back_test`."""
    points = []
    for count in range(1, len(rules) + 1):
        found = back_test(rules[:count], decisions, known=known, any_how=any_how)
        points.append(
            FrontierPoint(
                rules=count,
                rule=rules[count - 1],
                coverage=found.coverage,
                wrong=len(found.wrong),
                covered=found.covered,
            )
        )
    tested = back_test(rules, decisions, known=known, any_how=any_how)
    return Frontier(points=tuple(points), tested=tested, learned=len(known))


def learned_frontier(decisions: Sequence[DecidedCall], *, split: float = SPLIT) -> Frontier:
    """The frontier of the rules that the first part of the decisions suggests, on the rest of them: a split by time."""
    taught = [decided for decided in decisions if decided.teaches and decided.verdict != "undecided"]
    at = round(len(taught) * split)
    candidates: Sequence[Candidate] = sorted(learn(taught[:at]), key=lambda candidate: candidate.bound)
    return draw_frontier([candidate.rule for candidate in candidates], taught[at:], known=taught[:at])
