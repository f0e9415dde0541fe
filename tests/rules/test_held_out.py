"""What rules do on histories that the learner was not tuned on: how much they cover, and what no attack gets from them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import pytest

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import read_strict
from mew_lab.rules.approvals import Approvals
from mew_lab.rules.backtests import asked_of
from mew_lab.rules.conditions import Anything, Between, TextOf
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.judgements import judge
from mew_lab.rules.learner import Candidate, learn

from ..conftest import examples
from .__main__ import life_of
from .held_out import HELD_OUT
from .simulation import Person
from .test_never import PROTECTED, by_its_card

TAUGHT = 400


@dataclass(frozen=True)
class Learned:
    """A rule of a history, what was approved in that history, and one call that the rule approves."""

    candidate: Candidate
    approvals: Approvals
    call: AskedCall
    now: float

    def approves(self, call: AskedCall) -> bool:
        return bool(judge(self.candidate.rule, call, self.approvals, now=self.now))


@cache
def learned() -> tuple[Learned, ...]:
    """The rules of a history of each kind, of which all decisions are a person's, with slips."""
    found = []
    for seed, kind in enumerate(HELD_OUT.kinds):
        person, source = Person(Random(seed), offer=lambda decided: ()), HELD_OUT.history(kind, seed)
        for _ in range(TAUGHT):
            person.take(next(source))
        now = person.decided[-1].t + 1e5
        for candidate in learn(person.decided):
            one: DecidedCall = candidate.approved[-1]
            found.append(
                Learned(candidate, person.approvals, replace(asked_of(one), arguments=one.arguments), now)
            )
    assert len(found) > 15
    return tuple(found)


Attack = Callable[[Learned, Random], AskedCall | None]


def _changed(one: Learned, name: str, value: Any) -> AskedCall:
    return replace(one.call, arguments={**one.call.arguments, name: value})


def _text(one: Learned, dice: Random, *, with_slash: bool = False) -> tuple[str, str] | None:
    """An argument with a text, and the text; none of which any text was approved."""
    texts = [
        (name, value)
        for name, value in one.call.arguments.items()
        if isinstance(value, str) and (not with_slash or "/" in value.split("://")[-1])
    ]
    return dice.choice(texts) if texts else None


def upwards(one: Learned, dice: Random) -> AskedCall | None:
    if (found := _text(one, dice, with_slash=True)) is None:
        return None
    name, value = found
    folder, _, file = value.rpartition("/")
    up = dice.choice(
        (
            "..",
            "..",
            ".. ",
            "%2e%2e",
            ".%2E",
            "%252e%252e",
            "．．",
            "..\u200b",
            "․․",
            "...",
            ".",
            "~1",
            "LEGAL~1",
        )
    )
    slash = dice.choice(("/", "/", "\\", "//", "∕", "%2f", "/\n/"))
    form = dice.choice(
        ("{folder}/{up}{slash}{file}", "{up}{slash}{value}", "{folder}/x/{up}{slash}{up}{slash}etc/{file}")
    )
    return _changed(one, name, form.format(folder=folder, file=file, value=value, up=up, slash=slash))


LOOKALIKES = str.maketrans("aceopsxyi", "асеорѕхуі")


def look_alike(one: Learned, dice: Random) -> AskedCall | None:
    if (found := _text(one, dice, with_slash=True)) is None:
        return None
    name, value = found
    folder, _, file = value.rpartition("/")
    other = dice.choice(
        (
            folder.translate(LOOKALIKES),
            f"{folder}\u200b",
            f"{folder[:-1]}\u202e{folder[-1:]}",
            "".join(chr(ord(c) + 0xFEE0) if c.isalnum() else c for c in folder),
            f"{folder}\u0301",
            f"{folder}\u00a0",
        )
    )
    return None if other == folder else _changed(one, name, f"{other}/{file}")


def protected(one: Learned, dice: Random) -> AskedCall | None:
    if (found := _text(one, dice)) is None:
        return None
    name, value = found
    file = dice.choice(PROTECTED)
    file = dice.choice(
        (
            file,
            file.upper(),
            "".join(f"%{ord(c):02x}" for c in file),
            "\u200b".join(file),
            file.replace("/", "\\"),
        )
    )
    forms = (
        f"{value.rpartition('/')[0]}/{file}",
        file,
        f"{value} {file}",
        f"{value}\n{file}",
        f"{value}; cat '{file}'",
    )
    return _changed(one, name, dice.choice(forms))


def other_arguments(one: Learned, dice: Random) -> AskedCall | None:
    arguments = dict(one.call.arguments)
    name = dice.choice(sorted(arguments))
    value = arguments.pop(name)
    form = dice.randrange(4)
    if form == 0:
        return replace(one.call, arguments=arguments)
    if form == 1:
        return replace(
            one.call, arguments={**arguments, dice.choice((name.upper(), f"{name} ", f"{name}\u200b")): value}
        )
    if form == 2:
        more = dice.choice(("recursive", "sudo", "cwd", "", "__proto__", "constructor", "\x00"))
        return replace(
            one.call, arguments={**arguments, name: value, more: dice.choice((True, None, "", {}, 1))}
        )
    return _changed(one, name, dice.choice(([value], {"$ne": value}, {name: value}, [value, value], None)))


def edge(one: Learned, dice: Random) -> AskedCall | None:
    ranges = [(n, c) for n, c in one.candidate.rule.arguments.items() if isinstance(c, Between)]
    if not ranges:
        return None
    name, condition = dice.choice(ranges)
    low, high = condition.low, condition.high
    outside = (
        math.nextafter(high, math.inf),
        math.nextafter(low, -math.inf),
        high + 1,
        low - 1,
        -high - 1,
        2**63,
        1e308,
    )
    return _changed(
        one, name, dice.choice((*outside, math.inf, math.nan, str(high), True, None, 10**400, f"{high}e3"))
    )


def other_party(one: Learned, dice: Random) -> AskedCall | None:
    name = dice.choice(("proposer", "target", "tool"))
    was: str = getattr(one.call, name)
    other = dice.choice(
        (
            was.upper(),
            f"{was} ",
            f"{was}\u200b",
            was.translate(LOOKALIKES),
            f"x{was}",
            "",
            was[:-1],
            f"{was}/..",
        )
    )
    return None if other == was else replace(one.call, **{name: other})


def other_card(one: Learned, dice: Random) -> AskedCall | None:
    worse = by_its_card(dice)
    members = ("warnings", "after_unknown", "has_options", "rejected")
    hints = worse.hints if "destructive" in worse.hints else one.call.hints
    return replace(one.call, hints=hints, **{name: getattr(worse, name) for name in members})


def long(one: Learned, dice: Random) -> AskedCall | None:
    lengths = [(n, c) for n, c in one.candidate.rule.arguments.items() if isinstance(c, TextOf)]
    if not lengths:
        return None
    name, condition = dice.choice(lengths)
    return _changed(
        one,
        name,
        dice.choice(("a" * (condition.most + 1), "a\x00", "\u202ea", "../a b", "/etc/a b ", "~", "$HOME")),
    )


ATTACKS: tuple[Attack, ...] = (
    *(upwards, look_alike, protected, other_arguments, edge, other_party, other_card, long),
)


def attacks(count: int) -> Iterator[tuple[str, Learned, AskedCall]]:
    dice, made = Random(count), 0
    while made < count:
        attack, one = dice.choice(ATTACKS), dice.choice(learned())
        call = attack(one, dice)
        if call is not None and call != one.call:
            made += 1
            yield attack.__name__, one, call


def check_attacks(count: int) -> None:
    said: Counter[str] = Counter()
    for name, one, call in attacks(count):
        assert not one.approves(call), (name, call, one.candidate.rule.text)
        said[name] += 1
    assert min(said[attack.__name__] for attack in ATTACKS) >= count / 200, said


def test_no_attack_gets_what_a_learned_rule_does_not_say() -> None:
    """Each attack changes one thing of a call that its rule would approve."""
    approved = [one for one in learned() if one.approves(one.call)]
    assert len(approved) == len(learned()), "the calls that are changed would pass as they are"
    check_attacks(examples(4000))


@pytest.mark.nightly
def test_of_100_000_attacks_on_learned_rules_none_succeeds() -> None:
    check_attacks(100_000)


def test_a_key_that_stands_twice_never_reaches_a_rule() -> None:
    """Of a call with a key twice no reader knows which value its target takes."""
    for one in learned():
        for name in one.call.arguments:
            written = json.dumps(dict(one.call.arguments))
            for twice in (
                f"{{{json.dumps(name)}: null, {written[1:]}",
                f"{written[:-1]}, {json.dumps(name)}: null}}",
            ):
                with pytest.raises(ProtocolError):
                    read_strict(twice)


def test_a_flood_of_calls_that_a_rule_approves_is_cut_at_its_rate() -> None:
    for one in learned():
        used: list[float] = []
        for n in range(200):
            if judge(one.candidate.rule, one.call, one.approvals, now=one.now + n, used=used):
                used.append(one.now + n)
        assert len(used) == one.candidate.rule.an_hour <= 30


def test_any_text_is_learned_for_tools_that_only_read() -> None:
    wide = [
        one
        for one in learned()
        if any(isinstance(c, Anything) for c in one.candidate.rule.arguments.values())
    ]
    assert wide and all("read-only" in one.call.hints for one in wide)


# --- marks, small; `python -m tests.rules --held-out` prints them whole ---


@pytest.mark.slow
def test_rules_cover_much_and_approve_little_that_is_wrong() -> None:
    """Two lives of each kind: bounds for the marks of so few, not the marks."""
    outcomes = [life_of(HELD_OUT, seed) for seed in range(2 * len(HELD_OUT.kinds))]
    late = [one.part(1000, 1200) for one in outcomes if one.kind in HELD_OUT.expressible]
    assert sum(one.covered for one in late) >= 0.6 * sum(one.deserving for one in late)
    wrong, automatic = sum(one.wrong for one in outcomes), sum(one.automatic for one in outcomes)
    assert automatic > 2000 and wrong <= 0.015 * automatic, (wrong, automatic)
