"""Learns candidates of rules from the decisions of a person. Pure: the same decisions give the same candidates.

How it works
------------
Decisions are grouped by proposer, target, tool, SHA-256 of the tool, and names of the arguments. In a group each
argument has *features*: the conditions of `conditions` that its approved values satisfy. A set of decisions is a number
whose bits are the decisions, so that a combination of features costs one `&` and a count.

1. Each argument has a base: the widest condition that its values allow. A tool that only reads has `any text` and `any
   number`; every other tool has a range, a length, or some values, and no base at all for a path.
2. All bases, and all bases but one or two that are replaced by a feature, are the combinations; where there are many
   arguments, two only by their widest features. The one that covers the most approvals which no earlier rule covers,
   and that the statistics accept, becomes a candidate, and so on.
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
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, combinations, takewhile
from operator import eq, itemgetter
from typing import Any, Final, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.coerce import is_number
from mew_lab.protocol.difference import equality_key
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import count_of
from mew_lab.protocol.tool_hints import READ_ONLY
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
    has_blank,
    is_plain,
    top_folder,
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
ARGUMENTS: Final = 50_000  # of all decisions that are looked at, each counted as one more
TAKEN_BACK: Final = 40
MAX_RULES: Final = 12  # of one group
MAX_CHARACTERS: Final = 16_384  # of the arguments of one call
MAX_FEATURES: Final = 48  # of one argument
MAX_NARROWER: Final = 192  # conditions of one argument beside which one is judged
MAX_DEPTH: Final = 32  # folders, or names of a domain, that are looked at
MAX_FAR: Final = 8  # times that numbers are left out of a range
PAIRS: Final = 10  # pairs of features for each approval
MIN_AN_HOUR: Final = 3
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_BEHIND_HOST: Final = re.compile(r"[/?#:]")
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
        burst = _most_within(times, 600.0)
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


def _most_within(times: Sequence[float], seconds: float) -> int:
    """The most of these times, given in their order, that lie within so many seconds."""
    first = most = 0
    for last, t in enumerate(times):
        while t > times[first] + seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def learn(decisions: Iterable[DecidedCall]) -> tuple[Candidate, ...]:
    """The candidates that these decisions suggest, those with the most evidence first.

    What teaches nothing, and what nobody decided, is left out. Of a tool whose description has changed only the
    decisions on the newest one count. Of all decisions the newest ones are looked at whose arguments are 50,000 at most.

    Args:
        decisions: The oldest first.
    """
    newest: dict[tuple[str, str, str], str] = {}
    groups: dict[tuple[str, ...], list[_Example]] = {}
    left = ARGUMENTS
    for example in _examples(decisions):
        decided = example.decided
        tool = decided.about
        if newest.setdefault(tool, decided.tool_hash) != decided.tool_hash:
            newest[tool] = ""  # what is older does not count, whatever it is on
            continue
        left -= 1 + len(example.arguments)
        if left < 0:
            break
        groups.setdefault((*tool, *sorted(example.arguments)), []).append(example)
    found = [candidate for group in groups.values() for candidate in _Group(group[:NEWEST][::-1]).learn()]
    return tuple(sorted(found, key=lambda one: (-len(one.approved), one.rule.text)))


class _Example(NamedTuple):
    decided: DecidedCall
    arguments: Mapping[str, Any]
    approved: bool


def _examples(decisions: Iterable[DecidedCall]) -> Iterator[_Example]:
    """What teaches of some decisions, the newest first."""
    for decided in reversed([*decisions]):
        if not decided.teaches or decided.verdict == "undecided" or decided.method != "tools/call":
            continue
        is_named = decided.tool_hash and all(decided.about) and _is_json(decided.about)
        if not is_named or decided.arguments is None:
            continue
        if _is_json(decided.arguments):
            yield _Example(decided, decided.arguments, decided.verdict == "approved")
        proposed = decided.proposed if decided.verdict == "approved" and decided.edited else None
        if proposed is not None and _is_json(proposed):
            yield _Example(decided, proposed, approved=False)


def _is_json(arguments: Mapping[str, Any] | Sequence[str]) -> bool:
    """Whether arguments or names can be written as JSON, and are few; a journal of others may hold any."""
    try:
        return len(arguments) <= MAX_ARGUMENTS and len(compact(arguments)) <= MAX_CHARACTERS
    except ProtocolError:
        return False


class _Feature(NamedTuple):
    """A condition, and the decisions that satisfy it."""

    condition: Condition
    mask: int


class _Group:
    """The decisions on calls of one shape, the oldest first."""

    def __init__(self, examples: Sequence[_Example]) -> None:
        self._examples = examples = _without_taken_back(examples)
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
        if sum(column.base is None for column in columns) > 2:  # no combination replaces more
            return
        for column in columns:
            column.find_features()
        combos = sorted(
            _combinations(columns, self._all, self._yes),
            key=lambda combo: -(combo.mask & self._yes).bit_count(),
        )
        if not combos:
            return
        self._places = {
            place
            for column in columns
            for place in column.places
            if place & self._no & self._recent and place & (place - 1)  # one decision alone is too rare
        }
        left, made = self._yes, 0
        accepted: dict[int, bool] = {}
        while made < MAX_RULES:
            best: _Combination | None = None
            gain = (NEED // 2, -math.inf)
            for combo in combos:
                if (combo.mask & self._yes).bit_count() < gain[0]:
                    break  # nor does any one behind it gain more
                rank = (combo.mask & left).bit_count(), -combo.width
                if rank <= gain or not (combo.chooses or self._read_only):
                    continue
                if combo.mask not in accepted:
                    accepted[combo.mask] = self._accepts(combo.mask)
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

    def _accepts(self, mask: int) -> bool:
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
        return self._is_answered(mask)

    @property
    def _recent(self) -> int:
        """The decisions that still count a quarter."""
        return self._all & ~((1 << max(0, len(self._examples) - 3 * BAND)) - 1)

    def _is_answered(self, mask: int) -> bool:
        """Whether enough approvals came after the newest rejection, in all and in each narrower place."""
        rejected = mask & self._no & self._recent
        if rejected and _behind(mask & self._yes, rejected) < LATER[0]:
            return False
        for place in self._places if rejected else ():
            here = place & mask
            if not here & rejected or _behind(here & self._yes, here & rejected) >= LATER[1]:
                continue
            is_rare = here.bit_count() * RARE < mask.bit_count()
            if not is_rare or _behind(here, here & self._yes) > 1:  # else it tells no slip from a policy
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
        busiest = _most_within(times, HOUR)
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
    """One feature for each argument: its base, but for the replaced ones. `width` is the sum of all widths."""

    bases: Sequence[_Feature | None]
    replaced: Mapping[int, _Feature]
    mask: int
    width: int

    @property
    def features(self) -> tuple[_Feature, ...]:
        found = (self.replaced.get(n, base) for n, base in enumerate(self.bases))
        return tuple(feature for feature in found if feature is not None)

    @property
    def is_exact(self) -> bool:
        """Whether all conditions are values."""
        return all(isinstance(one.condition, OneOf) for one in self.features)

    @property
    def chooses(self) -> bool:
        """Whether some condition says more than a length, as each feature does, or there is no argument."""
        return (
            not self.bases
            or bool(self.replaced)
            or any(one is not None and not isinstance(one.condition, TextOf) for one in self.bases)
        )


def _combinations(columns: Sequence[_Column], everything: int, yes: int) -> Iterator[_Combination]:
    """All bases, with up to two of them replaced by a feature, of what covers enough approvals.

    An argument without a base has a feature in each. Where there would be too many pairs, only the first features of
    each argument stand in them.
    """
    bases = [column.base for column in columns]
    must = {n for n, base in enumerate(bases) if base is None}
    seen: set[int] = set()
    for count in range(len(must), 3):
        chosen_places = [places for places in combinations(range(len(columns)), count) if must <= {*places}]
        most = _most_of_pairs(columns, chosen_places, yes.bit_count()) if count == 2 else MAX_FEATURES
        for places in chosen_places:
            others = [base for n, base in enumerate(bases) if base is not None and n not in places]
            fixed = everything
            for base in others:
                fixed &= base.mask
            width = sum(base.condition.width for base in others)
            for chosen, mask in _chosen([columns[n].features[:most] for n in places], fixed, yes):
                if mask not in seen:
                    seen.add(mask)
                    given = dict(zip(places, chosen, strict=True))
                    yield _Combination(bases, given, mask, width + sum(one.condition.width for one in chosen))


def _most_of_pairs(columns: Sequence[_Column], pairs: Sequence[Sequence[int]], decisions: int) -> int:
    """How many features of each argument stand in pairs, for so many decisions."""
    for most in range(MAX_FEATURES, 1, -1):
        sizes = [min(most, len(column.features)) for column in columns]
        if sum(sizes[one] * sizes[other] for one, other in pairs) <= PAIRS * decisions:
            return most
    return 1


def _chosen(
    options: Sequence[Sequence[_Feature]], mask: int, yes: int
) -> Iterator[tuple[tuple[_Feature, ...], int]]:
    """One feature of each column, in all ways that leave enough approvals."""
    if (mask & yes).bit_count() < NEED:
        return
    if not options:
        yield (), mask
        return
    for feature in options[0]:
        for rest, left in _chosen(options[1:], mask & feature.mask, yes):
            yield (feature, *rest), left


# --- one argument ---


class _Column:
    """The values of one argument, one for each decision, its base, and after `find_features` its features.

    Attributes:
        features: The conditions that cover enough approvals, those that cover the most first.
        places: The sets of decisions that stand in one narrow place each, in which a rejection is to be answered.
    """

    def __init__(self, values: Sequence[Any], yes: int, no: int, read_only: bool, name: str) -> None:
        self._is_run = not RUN.isdisjoint(word.lower() for word in _WORDS.findall(name))
        self._yes, self._no = yes, no
        by_key: dict[str, list[int]] = {}
        for n, value in enumerate(values):
            by_key.setdefault(_key(value), []).append(n)
        self._values = [(values[numbers[0]], _mask_of(numbers)) for numbers in by_key.values()]
        self.base = self._base(read_only)
        self._conditions: dict[
            int, Condition
        ] = {}  # by the decisions that satisfy them, the narrowest of each
        self.features: list[_Feature] = []
        self.places: set[int] = set()

    def find_features(self) -> None:
        """Finds the features and the places."""
        self._add_values()
        self._add_texts()
        self._add_numbers()
        ranked = sorted(
            self._conditions.items(),
            key=lambda item: (-(item[0] & self._yes).bit_count(), item[1].width, item[1].text),
        )
        # Of each value the first approval: a condition covers all decisions on a value, or none.
        firsts = 0
        for _, own in self._values:
            firsts |= own & self._yes & -(own & self._yes)
        seen = [mask & firsts for mask, one in ranked if not isinstance(one, OneOf | Between)][:MAX_NARROWER]
        for mask, one in ranked:
            values = mask & firsts
            if not isinstance(one, OneOf) and (
                values.bit_count() < DISTINCT
                or (not isinstance(one, Between) and _is_carried_by_few(values, seen))
            ):
                continue
            self.features.append(_Feature(one, mask))
            if len(self.features) == MAX_FEATURES:
                return

    @cached_property
    def narrowest(self) -> list[_Feature]:
        """The features and the base, those that cover the least first."""
        every = [*self.features, *([self.base] if self.base is not None else [])]
        return sorted(every, key=lambda one: (one.mask.bit_count(), *_narrowness(one.condition)))

    def _add(self, condition: Condition, mask: int) -> None:
        if not self._is_supported(mask):
            return
        known = self._conditions.get(mask)
        if known is None or _narrowness(condition) < _narrowness(known):
            self._conditions[mask] = condition

    def _is_supported(self, mask: int) -> bool:
        return (mask & self._yes).bit_count() >= NEED // 2

    def _add_values(self) -> None:
        common: list[tuple[Any, int]] = []
        for value, mask in self._values:
            if (mask & self._yes).bit_count() < DISTINCT or len(compact(value)) > MAX_VALUE:
                continue
            common.append((value, mask))
            self._add(OneOf((value,)), mask)
            if not is_number(value):
                self.places.add(mask)
        common.sort(key=lambda item: -(item[1] & self._yes).bit_count())
        # Where values are chosen by their own decisions, each needs enough of them: of many, some are good by chance.
        good = [
            (v, m)
            for v, m in common
            if (m & self._yes).bit_count() >= max(NEED // 2, 4 * (m & self._no).bit_count())
        ]
        for several in (common if len(self._values) <= MAX_VALUES else [], good):
            chosen = several[:MAX_VALUES]
            if len(chosen) > 1:
                self._add(OneOf(tuple(sorted((v for v, _ in chosen), key=compact))), _union(chosen))

    def _add_texts(self) -> None:
        folders: dict[tuple[str, ...], int] = {}
        hosts: dict[tuple[str, ...], int] = {}
        endings: dict[str, int] = {}
        below: dict[str, int] = {}  # those of folders
        for value, mask in self._values:
            if not isinstance(value, str) or not is_plain(value):
                continue
            if (ending := _ending(value)) and Ending(ending).holds(value):
                endings[ending] = endings.get(ending, 0) | mask
            if has_blank(value):
                continue
            if steps := _steps(value):
                folders[steps] = folders.get(steps, 0) | mask
                below[ending] = below.get(ending, 0) | mask
            domain = _domain(value)
            if domain is not None and domain.holds(value):
                steps = (f"@{domain.domain}",) if domain.mail else _labels(domain.domain)
                hosts[steps] = hosts.get(steps, 0) | mask
        for ending, mask in endings.items():
            self._add(Ending(ending), mask)
            self.places.add(mask)
        for steps, mask in _nested(folders):
            self.places.add(mask)
            if self._is_supported(mask):
                folder = f"{'/'.join(steps)}/"
                self._add(Below(folder), mask)
                for ending, own in below.items():
                    self._add(Below(folder, ending), mask & own)
        for steps, mask in _nested(hosts):
            self.places.add(mask)
            name = ".".join(reversed(steps))
            self._add(InDomain(name.removeprefix("@"), mail=name[0] == "@"), mask)

    def _add_numbers(self) -> None:
        numbers = sorted((value, mask) for value, mask in self._values if is_number(value))
        third = max(1, len(numbers) // 3)
        for part in (numbers[:third], numbers[third : 2 * third], numbers[2 * third :]):
            self.places.add(_union(part))
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
            self._add_range(numbers, numbers[low : high + 1])
        approved = [(value, mask) for value, mask in numbers if mask & self._yes]
        self._add_range(numbers, approved)
        newest = sorted(((m.bit_length(), v) for v, m in numbers if m & self._no), reverse=True)[:10]
        for _, at in newest:
            self._add_range(numbers, [one for one in approved if one[0] < at])
            self._add_range(numbers, [one for one in approved if one[0] > at])

    def _add_range(self, numbers: Sequence[tuple[Any, int]], inner: Sequence[tuple[Any, int]]) -> None:
        """Adds the range of the approved ones of some numbers; `numbers` are all, in their order."""
        values = _together([value for value, mask in inner if mask & self._yes])
        if len(values) >= DISTINCT:
            condition = Between(values[0], values[-1])
            first = bisect_left(numbers, condition.low, key=itemgetter(0))
            last = bisect_right(numbers, condition.high, key=itemgetter(0))
            self._add(condition, _union([one for one in numbers[first:last] if condition.holds(one[0])]))

    def _base(self, read_only: bool) -> _Feature | None:
        """The widest condition that the approved values allow; None for paths of a tool that may write."""
        approved = [(value, mask) for value, mask in self._values if mask & self._yes]
        kinds: Counter[str] = Counter()
        for value, mask in approved:
            kinds[_type(value)] += (mask & self._yes).bit_count()
        (kind, _), *_ = kinds.most_common(1)
        condition: Condition | None
        if kind == "number":
            numbers = _together(sorted(value for value, _ in approved if is_number(value)))
            condition = Between(numbers[0], numbers[-1]) if numbers else None
            condition = Anything("number") if read_only else condition
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
        return (
            None
            if condition is None
            else _Feature(condition, _union([one for one in self._values if condition.holds(one[0])]))
        )

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


def _together(numbers: Sequence[float]) -> Sequence[float]:
    """The numbers in their order without one or two at an end that stand farther off than all others are wide.

    None are left where that is so time and again: such numbers make no range.
    """
    first, last = 0, len(numbers)
    for _ in range(MAX_FAR):
        if last - first <= DISTINCT:
            return numbers[first:last]
        width = Fraction(numbers[last - 1]) - Fraction(numbers[first])
        # Behind which number a gap is that is more than half of the width; there is only one such gap.
        far = (
            n
            for n in sorted({first, first + 1, last - 3, last - 2})
            if 2 * (Fraction(numbers[n + 1]) - Fraction(numbers[n])) > width
        )
        if (at := next(far, None)) is None:
            return numbers[first:last]
        if last - at - 1 < DISTINCT:
            last = at + 1
        else:
            first = at + 1
    return ()


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


def _domain(value: str) -> InDomain | None:
    """The domain of an address of the web, or of one of mail; None where it is none."""
    if "://" in value:
        return InDomain(_BEHIND_HOST.split(value.split("://", 1)[1], maxsplit=1)[0])
    return InDomain(value.rsplit("@", 1)[1], mail=True) if "@" in value else None


def _labels(domain: str) -> tuple[str, ...]:
    """The highest domain of two names that a domain is in, and the names below that."""
    *names, second, first = domain.split(".")
    return (f"{second}.{first}", *reversed(names[-MAX_DEPTH:]))


def _steps(path: str) -> tuple[str, ...]:
    """The highest folder that a path is `Below`, and the names of the folders below that; empty where there is none."""
    whole, path = path, path.partition("?")[0] if "://" in path else path
    if not (top := top_folder(path)):
        return ()
    steps = (top[:-1], *path[len(top) :].split("/", MAX_DEPTH))[:-1]
    if Below(top).holds(whole):
        return steps
    # Where a folder does not do, none above it does.
    tops = list(accumulate(steps, lambda above, name: f"{above}/{name}"))
    first = bisect_left(tops, True, key=lambda folder: Below(f"{folder}/").holds(whole))
    return (tops[first], *steps[first + 1 :]) if first < len(tops) else ()


def _nested(places: Mapping[tuple[str, ...], int]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each set of decisions that stand below one place, with the narrowest such place.

    `places` are those of the decisions, each by its steps. A set of several of them is below what two that are
    neighbours in their order have in common, so there are at most twice as many sets as places.
    """
    above: list[tuple[tuple[str, ...], int]] = []  # each is below the one before
    for place in [*sorted(places, key="\0".join), ()]:
        common = sum(takewhile(bool, map(eq, above[-1][0], place))) if above else 0
        while above and len(above[-1][0]) > common:
            yield (below := above.pop())
            if above and len(above[-1][0]) >= common:
                above.append((above[-1][0], above.pop()[1] | below[1]))
            elif common:
                above.append((place[:common], below[1]))
        if place:
            above.append((place, places[place]))


def _narrowness(condition: Condition) -> tuple[int, int]:
    """Of conditions that the same decisions satisfy the one with the least is the narrowest."""
    return condition.width, -len(condition.text)


def _is_carried_by_few(values: int, all_seen: Sequence[int]) -> bool:
    """Whether all but one or two of the values that a condition has seen are those of a narrower one."""
    return any(
        narrower != values and not narrower & ~values and (values & ~narrower).bit_count() < DISTINCT
        for narrower in all_seen
    )


def _union(values: Iterable[tuple[Any, int]]) -> int:
    """The decisions on any of these values."""
    mask = 0
    for _, own in values:
        mask |= own
    return mask


def _behind(mask: int, marks: int) -> int:
    """How many of these decisions came after the newest of `marks`."""
    return (mask >> marks.bit_length()).bit_count()


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
