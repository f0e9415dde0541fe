"""Learns candidates of rules from the decisions of a person. Pure: the same decisions give the same candidates.

How it works
------------
Decisions are grouped by proposer, target, tool, SHA-256 of the tool, and names of the arguments. In a group each
argument has *features*: the conditions of `conditions` that its approved values satisfy. A set of decisions is a number
whose bits are the decisions, so that a combination of features costs one `&` and a count.

1. Each argument has a base: the widest condition that its values allow. A tool that only reads has `any text` and `any
   number`; every other tool has a range, a length, or some values, and no base at all for a path.
2. All bases, and all bases but one or two that are replaced by a feature, are the combinations. The one that covers the
   most approvals which no earlier rule covers, and that the statistics accept, becomes a candidate, and so on.
3. Each condition of a candidate is then replaced by the narrowest one that covers the same approvals.

A combination is accepted where all of this holds:

- it covers at least 12 approvals. Of equal calls at most 5 count, and a condition wider than values has seen 3 values,
  3 of them outside each folder, ending and domain that is narrower: an approval may be a slip, too. A range ends where
  one or two values stand farther off than all others are wide;
- where its tool may change something, it says more than how long texts are, and nothing that is run has a length alone;
- its decisions are 20 times as likely under 2 % slips as under the rate of rejections beside it, which is taken as 10 %
  at least, and as 20 % where hardly anything lies beside it;
- its rejections are no more than 2 % slips explain, or none where it has fewer than 25 decisions;
- each rejection in it is *answered*: 8 approvals in it came later, two of them in each narrower folder, ending, range
  and value that the rejection stands in, but for places with less than a tenth of the decisions of which only the
  newest is a rejection. So a change of policy ends a rule, and one slip does not for ever.

Decisions count half as much for each 250 of the group that came after them. An edit counts as an approval of what was
sent and a rejection of what was proposed. A rejection that the person took back does not count where it is the only one
among at least 40.

Spec: §2.1, §9.4.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, Final, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.coerce import is_number
from mew_lab.protocol.difference import equality_key
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import count_of
from mew_lab.protocol.tool_hints import READ_ONLY
from mew_lab.rules.approvals import ancestors
from mew_lab.rules.conditions import (
    MAX_VALUE,
    MAX_VALUES,
    Anything,
    Below,
    Between,
    Condition,
    Ending,
    InDomain,
    OneOf,
    TextOf,
    is_path,
    is_plain,
)
from mew_lab.rules.decided_calls import DecidedCall
from mew_lab.rules.judgements import HOUR
from mew_lab.rules.rule import AN_HOUR, MAX_ARGUMENTS, MAX_TEXT, ApprovalRule
from mew_lab.rules.statistics import at_least, upper_bound

__all__ = ["Candidate", "learn"]

NEED: Final = 12  # approvals
DISTINCT: Final = 3  # values that a condition wider than values has seen
EQUAL: Final = 5  # equal calls that count
SLIP: Final = 0.02
LIKELIER: Final = 20.0
BESIDE: Final = (
    0.1,
    0.2,
)  # the least rate of rejections beside a rule, and that where hardly anything lies beside it
LEAST_BESIDE: Final = 5  # decisions beside it of which a rate is taken
FEW: Final = 25  # decisions among which no rejection is a slip
UNLIKELY: Final = 0.05
RARE: Final = (
    10  # places with less than this part of the decisions, whose only newest decision is a rejection
)
LATER: Final = (8, 2)  # approvals behind a rejection, in all and in each narrower place
BAND: Final = 250  # decisions of a group, after which one counts half
NEWEST: Final = 2_000  # decisions of a group that are looked at
TAKEN_BACK: Final = 40
MAX_RULES: Final = 12  # of one group
MAX_CHARACTERS: Final = 16_384  # of the arguments of one call
MAX_FEATURES: Final = 48  # of one argument
MIN_AN_HOUR: Final = 3
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
RUN: Final = frozenset(
    [
        "cmd",
        "code",
        "command",
        "eval",
        "exec",
        "expression",
        "program",
        "query",
        "script",
        "shell",
        "sql",
        "statement",
    ]
)
"""Words in the name of an argument that its target runs, so that its length says nothing of what it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A rule that the decisions suggest, with its evidence.

    Attributes:
        approved: The decisions that it would have decided in the same way; `rejected` those that it would have decided
            otherwise, which are the counter-examples. Both hold what taught, the oldest first.
        read_only: Whether the tool says that it only reads.
    """

    rule: ApprovalRule
    approved: tuple[DecidedCall, ...]
    rejected: tuple[DecidedCall, ...]
    read_only: bool = False

    @property
    def bound(self) -> float:
        """The greatest rate of wrong approvals that these decisions leave possible, at 95 % and one-sided."""
        return upper_bound(len(self.rejected), len(self.approved) + len(self.rejected))

    @property
    def evidence(self) -> str:
        """Such as `12 of 12, wrong in at most 22 %`."""
        of = len(self.approved) + len(self.rejected)
        return f"{len(self.approved)} of {of}, wrong in at most {math.ceil(self.bound * 100)} %"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know before she tries it: how the evidence came, and what the rule cannot tell."""
        told = []
        times = sorted(decided.t for decided in self.approved)
        burst = max((_within(times, at, 600.0) for at in range(len(times))), default=0)
        if burst > len(times) / 2 and len(times) >= NEED:
            told.append(f"{burst} of these {len(times)} came within ten minutes")
        if self.rule.capability is None:
            told.append("no permission of the gateway is as narrow as this rule")
        if self.rejected:
            counted = count_of(len(self.rejected), "decision")
            told.append(
                f"{counted} was otherwise" if len(self.rejected) == 1 else f"{counted} were otherwise"
            )
        return tuple(told)

    def __str__(self) -> str:
        return f"{self.rule} ({self.evidence})"


def _within(times: Sequence[float], first: int, seconds: float) -> int:
    end = first
    while end < len(times) and times[end] <= times[first] + seconds:
        end += 1
    return end - first


def learn(decisions: Iterable[DecidedCall]) -> tuple[Candidate, ...]:
    """The candidates that these decisions suggest, those with the most evidence first.

    Decisions are taken in their order. What teaches nothing, and what nobody decided, is left out. Of a tool whose
    description has changed only the decisions on the newest one count.
    """
    groups: dict[tuple[str, str, str, tuple[str, ...]], list[_Example]] = {}
    newest: dict[tuple[str, str, str], str] = {}
    for example in _examples(decisions):
        decided = example.decided
        tool = decided.proposer, decided.target, decided.tool
        if newest.get(tool, decided.tool_hash) != decided.tool_hash:
            for key in [key for key in groups if key[:3] == tool]:
                del groups[key]
        newest[tool] = decided.tool_hash
        groups.setdefault((*tool, tuple(sorted(example.arguments))), []).append(example)
    found = [candidate for group in groups.values() for candidate in _Group(group).learn()]
    return tuple(sorted(found, key=lambda one: (-len(one.approved), one.rule.text)))


class _Example(NamedTuple):
    decided: DecidedCall
    arguments: Mapping[str, Any]
    approved: bool


def _examples(decisions: Iterable[DecidedCall]) -> Iterator[_Example]:
    for decided in decisions:
        if not decided.teaches or decided.verdict == "undecided" or decided.method != "tools/call":
            continue
        names = decided.proposer, decided.target, decided.tool
        if not (decided.tool_hash and all(names)) or decided.arguments is None or not _is_json(names):
            continue
        proposed = decided.proposed if decided.verdict == "approved" and decided.edited else None
        if proposed is not None and _is_json(proposed):
            yield _Example(decided, proposed, approved=False)
        if _is_json(decided.arguments):
            yield _Example(decided, decided.arguments, decided.verdict == "approved")


def _is_json(arguments: Mapping[str, Any] | Sequence[str]) -> bool:
    """Whether arguments or names can be written as JSON, and are few; a journal of others may hold any."""
    try:
        return len(arguments) <= MAX_ARGUMENTS and len(compact(arguments)) <= MAX_CHARACTERS
    except ProtocolError:
        return False


class _Feature(NamedTuple):
    """A condition, the decisions that satisfy it, and whether it is narrow enough for a rejection to be answered in."""

    condition: Condition
    mask: int
    is_place: bool = False


class _Group:
    """The decisions on calls of one shape, the newest 2,000."""

    def __init__(self, examples: Sequence[_Example]) -> None:
        self._examples = examples = _without_taken_back(examples[-NEWEST:])
        self._yes = _mask(example.approved for example in examples)
        self._no = _mask(not example.approved for example in examples)
        self._all = (1 << len(examples)) - 1
        equal: Counter[str] = Counter()
        self._counted = 0  # approvals of which at most 5 are equal
        for n, example in enumerate(examples):
            key = equality_key(example.arguments)
            equal[key] += example.approved
            self._counted |= (example.approved and equal[key] <= EQUAL) << n
        self._bands = [
            (
                0.5**age,
                ((1 << max(0, len(examples) - age * BAND)) - 1)
                & ~((1 << max(0, len(examples) - (age + 1) * BAND)) - 1),
            )
            for age in range(-(-len(examples) // BAND))
        ]
        self._read_only = READ_ONLY in examples[-1].decided.hints if examples else False

    def _weigh(self, mask: int) -> float:
        return sum(weight * (mask & band).bit_count() for weight, band in self._bands)

    def learn(self) -> Iterator[Candidate]:
        if self._yes.bit_count() < NEED:
            return
        names = sorted(self._examples[-1].arguments)
        columns = [
            _Column(
                [one.arguments[name] for one in self._examples], self._yes, self._no, self._read_only, name
            )
            for name in names
        ]
        left, made = self._yes, 0
        combos = sorted(
            _combinations(columns, self._all), key=lambda combo: -(combo.mask & self._yes).bit_count()
        )
        accepted: dict[int, bool] = {}
        while made < MAX_RULES:
            best: _Combination | None = None
            gain = (0.0, 0)
            for combo in combos:
                new = (combo.mask & left).bit_count()
                if new < max(NEED // 2, gain[0]) or (combo.mask & self._yes).bit_count() < NEED:
                    continue
                rank = (new, -combo.width)
                if rank <= gain:
                    continue
                if combo.mask not in accepted:
                    accepted[combo.mask] = self._accepts(combo.mask, columns)
                if not combo.chooses and not self._read_only:
                    continue
                if accepted[combo.mask] and (combo.is_exact or self._is_diverse(combo.mask)):
                    best, gain = combo, rank
            if best is None:
                return
            left &= ~best.mask
            made += 1
            candidate = self._candidate(names, columns, best)
            if len(candidate.rule.text) <= MAX_TEXT:  # a longer one could not be read back
                yield candidate

    def _is_diverse(self, mask: int) -> bool:
        """Whether enough different calls are among the approvals."""
        return (mask & self._counted).bit_count() >= NEED

    def _accepts(self, mask: int, columns: Sequence[_Column]) -> bool:
        yes, no = mask & self._yes, mask & self._no
        approved, rejected = self._weigh(yes), self._weigh(no)
        beside = self._all & ~mask
        outside = self._weigh(beside)
        rate = BESIDE[1]
        if beside.bit_count() >= LEAST_BESIDE:
            rate = min(0.9, max(BESIDE[0], self._weigh(beside & self._no) / outside))
        likelier = rejected * math.log(SLIP / rate) + approved * math.log((1 - SLIP) / (1 - rate))
        if likelier < math.log(LIKELIER):
            return False
        if rejected:
            whole = math.ceil(rejected - 0.5), round(approved + rejected)
            if whole[0] and (whole[1] < FEW or at_least(whole[0], whole[1], SLIP) < UNLIKELY):
                return False
        return all(self._is_answered(n, mask, columns) for n in _bits(no & self._recent))

    @property
    def _recent(self) -> int:
        """The decisions that still count a quarter."""
        return self._all & ~((1 << max(0, len(self._examples) - 3 * BAND)) - 1)

    def _is_answered(self, n: int, mask: int, columns: Sequence[_Column]) -> bool:
        later = mask & self._yes & ~((1 << (n + 1)) - 1)
        if later.bit_count() < LATER[0]:
            return False
        for column in columns:
            for place in column.places(n):
                here = place & mask
                since = here & ~((1 << (here & self._yes).bit_length()) - 1)
                if here.bit_count() * RARE < mask.bit_count() and since.bit_count() < 2:
                    continue  # too rare to tell a slip from a policy
                if (later & place).bit_count() < LATER[1]:
                    return False
        return True

    def _candidate(self, names: Sequence[str], columns: Sequence[_Column], combo: _Combination) -> Candidate:
        mask, wanted = combo.mask, combo.mask & self._yes
        chosen = list(combo.features)
        for n, column in enumerate(columns):
            others = self._all
            for m, feature in enumerate(chosen):
                others &= feature.mask if m != n else self._all
            for feature in column.narrowest:
                if not wanted & ~feature.mask and not (feature.mask & others & ~mask):
                    chosen[n] = feature
                    break
        covered = self._all
        for feature in chosen:
            covered &= feature.mask
        told = [self._examples[n] for n in _bits(covered)]
        first = told[-1].decided
        conditions = {name: feature.condition for name, feature in zip(names, chosen, strict=True)}
        approved = tuple(one.decided for one in told if one.approved)
        times = sorted(one.t for one in approved)
        busiest = max((_within(times, at, HOUR) for at in range(len(times))), default=0)
        rule = ApprovalRule(
            first.proposer,
            first.target,
            first.tool,
            conditions,
            first.tool_hash,
            min(AN_HOUR, max(MIN_AN_HOUR, busiest)),
        )
        rejected = tuple(one.decided for one in told if not one.approved)
        return Candidate(rule=rule, approved=approved, rejected=rejected, read_only=self._read_only)


def _without_taken_back(examples: Sequence[_Example]) -> Sequence[_Example]:
    """Without the only rejection among many, where its person approved the same proposal later."""
    rejected = [one for one in examples if not one.approved]
    if len(rejected) != 1 or len(examples) < TAKEN_BACK or rejected[0].decided.verdict != "rejected":
        return examples
    only = rejected[0].decided
    back = any(
        one.approved and only.proposal and one.decided.proposal == only.proposal and one.decided.by == only.by
        for one in examples
    )
    return [one for one in examples if one.approved] if back else examples


class _Combination(NamedTuple):
    """One feature for each argument; `is_exact` where all are values, `chooses` where some say more than a length."""

    features: tuple[_Feature, ...]
    mask: int
    width: int
    is_exact: bool

    @property
    def chooses(self) -> bool:
        return not self.features or any(not isinstance(one.condition, TextOf) for one in self.features)


def _combinations(columns: Sequence[_Column], everything: int) -> Iterator[_Combination]:
    """All bases, with up to two of them replaced by a feature. An argument without a base has a feature in each."""
    bases = [column.base for column in columns]
    must = {n for n, base in enumerate(bases) if base is None}
    seen: set[int] = set()
    for replaced in range(3):
        for places in combinations(range(len(columns)), replaced):
            if not must <= {*places}:
                continue
            fixed = everything
            for n, base in enumerate(bases):
                if base is not None and n not in places:
                    fixed &= base.mask
            for chosen, mask in _chosen([columns[n].features for n in places], fixed):
                if mask in seen:
                    continue
                seen.add(mask)
                given = dict(zip(places, chosen, strict=True))
                features = tuple(f for n, base in enumerate(bases) if (f := given.get(n, base)) is not None)
                width = sum(feature.condition.width for feature in features)
                yield _Combination(
                    features, mask, width, all(isinstance(f.condition, OneOf) for f in features)
                )


def _chosen(options: Sequence[Sequence[_Feature]], mask: int) -> Iterator[tuple[tuple[_Feature, ...], int]]:
    """One feature of each column, in all ways that leave enough decisions."""
    if mask.bit_count() < NEED:
        return
    if not options:
        yield (), mask
        return
    for feature in options[0]:
        for rest, left in _chosen(options[1:], mask & feature.mask):
            yield (feature, *rest), left


# --- one argument ---


class _Column:
    """The values of one argument, one for each decision, and its features."""

    def __init__(self, values: Sequence[Any], yes: int, no: int, read_only: bool, name: str) -> None:
        self._values = values
        self._is_run = not RUN.isdisjoint(word.lower() for word in _WORDS.findall(name))
        self._yes, self._no = yes, no
        self._found: dict[Condition, int] = {}
        self._places: dict[Condition, int] = {}
        by_key: dict[str, list[int]] = {}
        for n, value in enumerate(values):
            by_key.setdefault(_key(value), []).append(n)
        self._by_key = {key: (values[places[0]], _mask_of(places)) for key, places in by_key.items()}
        self._texts = [(value, mask) for value, mask in self._by_key.values() if isinstance(value, str)]
        self._add_values()
        self._add_texts()
        self._add_numbers()
        self.base = self._base(read_only)
        ranked = sorted(
            self._found.items(), key=lambda item: (-(item[1] & yes).bit_count(), item[0].width, item[0].text)
        )
        supported = [(c, m) for c, m in ranked if self._is_supported(c, m)]
        seen = [self._seen(m) for c, m in supported if not isinstance(c, OneOf | Between)]
        kept = [
            (c, m)
            for c, m in supported
            if isinstance(c, OneOf | Between) or not self._is_carried_by_few(self._seen(m), seen)
        ]
        self.features = [_Feature(condition, mask) for condition, mask in kept[:MAX_FEATURES]]
        every = [*self.features, *([self.base] if self.base is not None else [])]
        self.narrowest = sorted(
            every, key=lambda one: (one.mask.bit_count(), one.condition.width, -len(one.condition.text))
        )

    def _is_supported(self, condition: Condition, mask: int) -> bool:
        if (mask & self._yes).bit_count() < NEED // 2:
            return False
        return isinstance(condition, OneOf) or self._seen(mask).bit_count() >= DISTINCT

    def _is_carried_by_few(self, values: int, all_seen: Sequence[int]) -> bool:
        """Whether all but one or two of the values that a condition has seen are those of a narrower one."""
        return any(
            narrower != values and not narrower & ~values and (values & ~narrower).bit_count() < DISTINCT
            for narrower in all_seen
        )

    def _seen(self, mask: int) -> int:
        """The approved values among these decisions, by their first approval."""
        firsts = 0
        for _, own in self._by_key.values():
            approved = own & self._yes
            if approved & mask:
                firsts |= approved & -approved
        return firsts

    def places(self, n: int) -> Iterator[int]:
        """The sets of decisions that stand in the same narrow place as the decision with that number."""
        value = self._values[n]
        for mask in self._places.values():
            if mask >> n & 1:
                yield mask
        if is_number(value) and not isinstance(value, bool):
            yield self._near(value)

    def _near(self, value: float) -> int:
        """The decisions whose number is in the same third as this one, by rank."""
        numbers = sorted((one, mask) for one, mask in self._by_key.values() if is_number(one))
        third = max(1, len(numbers) // 3)
        at = next(n for n, (one, _) in enumerate(numbers) if one == value)
        first = min(at // third, 2) * third
        last = len(numbers) if first == 2 * third else first + third
        mask = 0
        for _, own in numbers[first:last]:
            mask |= own
        return mask

    def _add(self, condition: Condition, mask: int, *, place: bool = False) -> None:
        self._found[condition] = self._found.get(condition, 0) | mask
        if place:
            self._places[condition] = self._places.get(condition, 0) | mask

    def _add_values(self) -> None:
        common: list[tuple[Any, int]] = []
        for value, mask in self._by_key.values():
            if len(compact(value)) > MAX_VALUE or (mask & self._yes).bit_count() < DISTINCT:
                continue
            common.append((value, mask))
            self._add(OneOf((value,)), mask, place=not is_number(value))
        common.sort(key=lambda item: -(item[1] & self._yes).bit_count())
        # Where values are chosen by their own decisions, each needs enough of them: of many, some are good by chance.
        good = [
            (v, m)
            for v, m in common
            if (m & self._yes).bit_count() >= max(NEED // 2, 4 * (m & self._no).bit_count())
        ]
        for several in (common if len(self._by_key) <= MAX_VALUES else [], good):
            chosen = several[:MAX_VALUES]
            if len(chosen) > 1:
                mask = 0
                for _, own in chosen:
                    mask |= own
                self._add(OneOf(tuple(sorted((v for v, _ in chosen), key=compact))), mask)

    def _add_texts(self) -> None:
        for value, mask in self._texts:
            if len(value) > MAX_VALUE or not is_plain(value) or any(map(str.isspace, value)):
                continue
            ending = _ending(value)
            if is_path(value):
                for folder in ancestors(value):
                    if not is_plain(folder):
                        continue
                    if Below(folder).holds(value):
                        self._add(Below(folder), mask, place=True)
                    if ending and Below(folder, ending).holds(value):
                        self._add(Below(folder, ending), mask)
            if ending and Ending(ending).holds(value):
                self._add(Ending(ending), mask, place=True)
            for domain in _domains(value):
                condition = InDomain(domain, mail="://" not in value)
                if condition.holds(value):
                    self._add(condition, mask, place=True)

    def _add_numbers(self) -> None:
        numbers = sorted((value, mask) for value, mask in self._by_key.values() if is_number(value))
        if len(numbers) < DISTINCT:
            return
        low = high = 0
        best = score = 0.0
        first = 0
        for n, (_, mask) in enumerate(numbers):
            if score <= 0:
                score, first = 0.0, n
            score += (mask & self._yes).bit_count() - 10 * (mask & self._no).bit_count()
            if score > best:
                best, low, high = score, first, n
        if best > 0:
            self._add_range(numbers[low : high + 1])
        approved = [(value, mask) for value, mask in numbers if mask & self._yes]
        self._add_range(approved)
        newest = sorted(((m.bit_length(), v) for v, m in numbers if m & self._no), reverse=True)[:10]
        for _, at in newest:
            self._add_range([one for one in approved if one[0] < at])
            self._add_range([one for one in approved if one[0] > at])

    def _add_range(self, numbers: Sequence[tuple[Any, int]]) -> None:
        inner = _together([value for value, mask in numbers if mask & self._yes])
        if len(inner) < DISTINCT:
            return
        condition = Between(inner[0], inner[-1])
        mask = 0
        for value, own in self._by_key.values():
            if condition.holds(value):
                mask |= own
        self._found[condition] = mask

    def _base(self, read_only: bool) -> _Feature | None:
        """The widest condition that the approved values allow; None for paths of a tool that may write."""
        approved = [(value, mask) for value, mask in self._by_key.values() if mask & self._yes]
        kinds = Counter(_type(value) for value, mask in approved for _ in _bits(mask & self._yes))
        (kind, _), *_ = kinds.most_common(1)
        condition: Condition | None
        if kind == "number":
            numbers = _together(sorted(value for value, _ in approved if is_number(value)))
            condition = Anything("number") if read_only else Between(numbers[0], numbers[-1])
        elif kind == "text" and read_only:
            condition = Anything("text")
        elif kind == "text":
            condition = self._length([value for value, _ in approved if isinstance(value, str)])
        else:
            condition = self._few(approved)
        if condition is None or isinstance(condition, OneOf) or len(approved) >= DISTINCT:
            pass
        else:
            condition = self._few(approved)
        return None if condition is None else _Feature(condition, self._holding(condition))

    def _few(self, approved: Sequence[tuple[Any, int]]) -> Condition | None:
        values = [value for value, _ in approved if len(compact(value)) <= MAX_VALUE]
        return OneOf(tuple(sorted(values, key=compact))) if 0 < len(values) <= MAX_VALUES else None

    def _length(self, texts: Sequence[str]) -> Condition | None:
        if self._is_run:
            return None
        words = [text for text in texts if TextOf(len(text), word=True).holds(text)]
        if 2 * len(words) > len(texts):
            if sum("." in text for text in words) * 2 > len(words):  # names of files
                return None
            return TextOf(_rounded(max(map(len, words))), word=True)
        prose = [text for text in texts if TextOf(len(text)).holds(text)]
        return TextOf(_rounded(max(map(len, prose)))) if 2 * len(prose) > len(texts) else None

    def _holding(self, condition: Condition) -> int:
        mask = 0
        for value, own in self._by_key.values():
            if condition.holds(value):
                mask |= own
        return mask


def _together(numbers: Sequence[float]) -> Sequence[float]:
    """The numbers in their order without one or two at an end that stand farther off than all others are wide."""
    first, last = 0, len(numbers)
    while last - first > DISTINCT:
        inner = numbers[first:last]
        gaps = [Fraction(high) - Fraction(low) for low, high in pairwise(inner)]
        widest = max(range(len(gaps)), key=gaps.__getitem__)
        if 2 * gaps[widest] <= Fraction(inner[-1]) - Fraction(inner[0]):
            break
        if len(inner) - widest - 1 < DISTINCT:
            last = first + widest + 1
        elif widest + 1 < DISTINCT:
            first += widest + 1
        else:
            break
    return numbers[first:last]


def _rounded(length: int) -> int:
    """A length rounded up to two digits at most, and to at least 10."""
    step = int(10 ** max(1, len(str(length)) - 2))
    return max(10, -(-length // step) * step)


def _type(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    return "number" if is_number(value) else "other"


def _key(value: Any) -> str:
    return f"t{value}" if isinstance(value, str) else equality_key(value)


def _ending(path: str) -> str:
    """The ending of the name of a file, such as `.md`; empty where there is none."""
    name = path[path.rfind("/") + 1 :]
    at = name.rfind(".")
    return name[at:] if at > 0 and 1 < len(name) - at <= 10 else ""


def _domains(value: str) -> Iterator[str]:
    """The domains of an https address, the host first, or that of an address of mail."""
    if "://" in value:
        host = value.split("://", 1)[1].split("/", 1)[0].split(":", 1)[0]
        parts = host.split(".")
        for n in range(max(1, len(parts) - 1)):
            yield ".".join(parts[n:])
    elif "@" in value:
        yield value.rsplit("@", 1)[1]


def _mask(flags: Iterable[bool]) -> int:
    return _mask_of(n for n, flag in enumerate(flags) if flag)


def _mask_of(places: Iterable[int]) -> int:
    mask = 0
    for n in places:
        mask |= 1 << n
    return mask


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
