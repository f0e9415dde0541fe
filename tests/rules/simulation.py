"""Lives of rules in a simulation: a person who decides by a policy with slips, adopts what is offered, and reviews.

The person adopts a candidate the first time that it is offered, and a suspended rule when it is offered again. Calls that
an active rule approves and that are no review run; all others are decided by the person. Only these decisions teach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from mew_lab.errors import ConfigError
from mew_lab.rules.approvals import Approvals
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.judgements import judge
from mew_lab.rules.learner import learn
from mew_lab.rules.life import Happened, Life, advance, is_review
from mew_lab.rules.rule import ApprovalRule

from .policies import Generator, Proposed

SLIPS = 0.02
OWNER = "ada"
AGAIN = 10  # decisions of the person after which candidates are looked for, more where there are many


@dataclass
class Held:
    """A rule that was adopted, and its life; `covered` counts the calls that it covers, whether it acts or not."""

    rule: ApprovalRule
    life: Life
    covered: int = 0

    def covers(self, call: AskedCall) -> bool:
        return self.rule.covers_call(call)


@dataclass
class Outcome:
    """What became of the calls of a history, one letter a call.

    `R` and `W`: approved by a rule, rightly or wrongly; `r` and `w`: covered and reviewed; `Y` and `N`: decided by the
    person alone, where the call deserved a yes or not.
    """

    kind: str
    calls: str = ""
    adopted: int = 0
    suspended: int = 0

    def part(self, first: int, last: int) -> Outcome:
        return Outcome(self.kind, self.calls[first:last])

    @property
    def automatic(self) -> int:
        return sum(map(self.calls.count, "RW"))

    @property
    def wrong(self) -> int:
        return self.calls.count("W")

    @property
    def deserving(self) -> int:
        return sum(map(self.calls.count, "RrY"))

    @property
    def covered(self) -> int:
        return sum(map(self.calls.count, "Rr"))


@dataclass
class Person:
    """One person with her rules and her decisions."""

    dice: Random
    slips: float = SLIPS
    decided: list[DecidedCall] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    approvals: Approvals = field(default_factory=Approvals)
    adopted: int = 0
    suspended: int = 0
    since: int = 0
    offer: Callable[[Sequence[DecidedCall]], Iterable[ApprovalRule]] = lambda decided: (
        one.rule for one in learn(decided)
    )
    secret: bytes = b""

    def __post_init__(self) -> None:
        self.secret = self.dice.randbytes(32)

    def take(self, proposed: Proposed) -> str:
        """Decides one proposal, by a rule or herself; returns the letter of what became of it."""
        call, t = proposed.call, proposed.t
        covering = [one for one in self.held.values() if one.covers(call)]
        active: Held | None = None
        reviewed = False
        for one in covering:
            one.life = advance(one.life, Happened(what="passed", t=t), one.rule)
            review = is_review(self.secret, one.rule, one.covered, size=one.life.block)
            one.covered += 1
            if one.life.acts and judge(one.rule, call, self.approvals, now=t, used=one.life.recent):
                active = active or one
                reviewed = reviewed or review
        if active is not None and not reviewed:
            active.life = advance(active.life, Happened(what="used", t=t), active.rule)
            return "R" if proposed.deserves else "W"
        yes = proposed.deserves is not (self.dice.random() < self.slips)
        self._note(call, t, yes=yes)
        for one in covering:
            if one.life.acts:
                what = "confirmed" if yes else "rejected"
                one.life = advance(one.life, Happened(what=what, t=t, by=OWNER), one.rule)
                self.suspended += one.life.state == "suspended"
        self._look(t)
        if active is not None:
            return "r" if proposed.deserves else "w"
        return "Y" if proposed.deserves else "N"

    def _note(self, call: AskedCall, t: float, *, yes: bool) -> None:
        number = len(self.decided)
        decided = DecidedCall(
            seq=number,
            t=t,
            proposal=str(number),
            proposer=call.proposer,
            target=call.target,
            tool=call.tool,
            tool_hash=call.tool_hash,
            hints=call.hints,
            proposed=call.arguments,
            sent=call.arguments if yes else None,
            verdict="approved" if yes else "rejected",
            by=OWNER,
            how="click",
        )
        self.decided.append(decided)
        self.approvals.add(decided)

    def _look(self, t: float) -> None:
        self.since += 1
        if self.since < max(AGAIN, len(self.decided) // 20):
            return
        self.since = 0
        for rule in self.offer(self.decided):
            held = self.held.setdefault(rule.sha256, Held(rule, Life(owner=OWNER)))
            if not held.life.acts:
                try:
                    held.life = advance(held.life, Happened(what="adopted", t=t, by=OWNER), rule)
                except ConfigError:
                    raise AssertionError(f"{held.life} cannot be adopted") from None
                self.adopted += 1


def live(source: Iterator[Proposed], kind: str, seed: int, calls: int, **how: object) -> Outcome:
    """The outcome of so many calls of a history."""
    person = Person(Random(seed), **how)  # type: ignore[arg-type]
    told = "".join(person.take(next(source)) for _ in range(calls))
    return Outcome(kind, told, person.adopted, person.suspended)


# --- a change of policy ---


def drift(generator: Generator, seed: int, *, affected: int = 1, calls: int = 500) -> int | None:
    """The wrong approvals after a planted change of policy at call 400, which forbids that many folders.

    None where no rule covered a call that is forbidden now.
    """
    source, change, deserves = generator.changing(seed, affected)
    person = Person(Random(seed))
    before = [next(source) for _ in range(400)]
    for proposed in before:
        person.take(proposed)
    change()
    forbidden = [one.call for one in before if one.deserves and not deserves(one.call)]
    if not any(held.life.acts and held.covers(call) for held in person.held.values() for call in forbidden):
        return None
    return "".join(person.take(next(source)) for _ in range(calls)).count("W")


# --- what the person catches ---


ATTENTION = {"weak": 3.0, "medium": 1.0, "strong": 0.3}
"""The written model of attention: a card is misread with P(miss) = 1 - exp(-k · cards an hour / 100), for k of these."""


def catch_rates(
    generator: Generator,
    seed: int,
    strength: float,
    *,
    calls: int = 800,
    planted: int = 20,
    hurry: float = 4.0,
) -> tuple[int, int, int]:
    """How many planted bad proposals a person catches without rules and with them, of how many: a simulation alone.

    A planted proposal is one that the policy forbids, made at a random time in the second half. A person who misreads a
    card approves it. With rules the person sees fewer cards an hour, and misreads fewer; what a rule approves is missed.
    Calls come `hurry` times as fast as in other histories.
    """
    caught = [0, 0]
    kind = generator.expressible[seed % len(generator.expressible)]
    for with_rules in (False, True):
        offer = (lambda decided: (one.rule for one in learn(decided))) if with_rules else (lambda decided: ())
        person = Person(Random(seed), offer=offer)
        source = generator.history(kind, seed)
        bad = {*Random(seed + 3).sample(range(calls // 2, calls), planted)}
        seen: list[float] = []
        for n in range(calls):
            proposed = next(source)
            while n in bad and proposed.deserves:
                proposed = next(source)
            proposed = proposed._replace(t=proposed.t / hurry)
            an_hour = sum(proposed.t - 3600 < t for t in seen[-200:])
            person.slips = 1 - math.exp(-strength * an_hour / 100)
            told = person.take(proposed)
            if told in "RW":
                continue
            seen.append(proposed.t)
            caught[with_rules] += n in bad and person.decided[-1].verdict == "rejected"
    return caught[0], caught[1], planted
