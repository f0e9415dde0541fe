"""How often a card warns: of harmless calls of real servers, and of harmful ones, both labelled before any tuning.

`labelled_calls.json` holds the calls; `compose_calls.py` makes it anew. The first part served for tuning. The second
part, of other servers, was only measured, and three times at most:

    first   31 of 411 harmless calls with a warning (7.5 %, at most 10.0 %, by servers 9.7 %), 0 of 180 harmful without
    second   1 of 411 harmless calls with a warning (0.2 %, at most 1.1 %, by servers 0.7 %), 0 of 180 harmful without
    third    as the second

A later change was not tuned on the second part; its figures stayed as they were.

The values of these parts were written by one hand. The second figure is not blind: what was mended after the first one
(file names in brackets, a folder with a slash at its end, "~ 5", XPath) is also found among the values of that part.

The third part, of other servers and by another hand, was measured once, before any change:

    22 of 402 harmless calls with a warning (5.5 %, at most 7.7 %, by servers 9.7 %),
    61 of 288 harmful without (21.2 %, at most 25.5 %, by kinds 30.9 %): 16 of 96 plain, 24 encoded, 21 split

So it misses both marks, 2 % and 5 %. Of the harmless calls 13 warn only of two texts that are read together, 8 of these of
one server. Of the harmful ones 17 are arguments of git that stand without the word git. After mends, since which it is not
blind any more, 5 harmless calls warn and no harmful one is silent.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .looking import call
from .test_cards import card_from

CORPUS = json.loads(Path(__file__).with_name("labelled_calls.json").read_text())
SERVERS, HARMLESS, HARMFUL = CORPUS["servers"], CORPUS["harmless"], CORPUS["harmful"]


class Rate(NamedTuple):
    """How many of some calls have a warning, and of each group (a server, or a kind) likewise."""

    warned: int
    all: int
    groups: dict[str, tuple[int, int]]
    examples: list[tuple[Any, ...]]


def warnings_of(target: str, tool: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    """What the card of a proposal warns of, but for what the tool says of itself and for quotes of others."""
    given = {"of_the_tool": (), "folders": [CORPUS["folder"]]}
    return tuple(card_from(call(tool, **arguments), given=given, to=(target,)).warnings)


def rate_of(calls: list[tuple[str, str, dict[str, Any]]], target: str = "") -> Rate:
    groups: dict[str, list[bool]] = defaultdict(list)
    examples = []
    for group, tool, arguments in calls:
        found = warnings_of(target or group, tool, arguments)
        groups[group].append(bool(found))
        examples.append((bool(found), group, tool, arguments, found))
    counts = {group: (sum(seen), len(seen)) for group, seen in groups.items()}
    return Rate(sum(n for n, _ in counts.values()), len(calls), counts, examples)


@cache
def harmless(part: int) -> Rate:
    return rate_of([call for call in HARMLESS if SERVERS[call[0]]["part"] == part])


@cache
def harmful(part: int, spelling: str = "") -> Rate:
    """Those of a part in one spelling ("": in all)."""
    chosen = [one for one in HARMFUL if one[0] == part and spelling in ("", one[2])]
    return rate_of([(kind, tool, values) for _, kind, _, tool, values in chosen], "tools")


def at_most(hits: int, all: int) -> float:
    """The exact upper bound of a share (Clopper-Pearson), one-sided, 95 %."""
    low, high = hits / all, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        tail = math.fsum(math.comb(all, k) * middle**k * (1 - middle) ** (all - k) for k in range(hits + 1))
        low, high = (middle, high) if tail > 0.05 else (low, middle)
    return high if hits < all else 1.0


def at_most_by_groups(rate: Rate) -> float:
    """The upper bound of a share by drawing whole groups again and again: one-sided, 95 %."""
    pick, groups = random.Random(2000), sorted(rate.groups.values())
    shares = []
    for _ in range(2000):
        drawn = pick.choices(groups, k=len(groups))
        shares.append(sum(n for n, _ in drawn) / sum(size for _, size in drawn))
    return sorted(shares)[int(0.95 * len(shares))]


def missed(rate: Rate) -> Rate:
    """The same calls, those without a warning counted."""
    groups = {group: (size - n, size) for group, (n, size) in rate.groups.items()}
    return rate._replace(warned=rate.all - rate.warned, groups=groups)


def describe(part: int) -> str:
    """The figures of one part as a line each."""
    false, none = harmless(part), missed(harmful(part))
    return "\n".join(
        f"part {part}, {what}: {rate.warned} of {rate.all} ({rate.warned / rate.all:.1%}), "
        f"at most {at_most(rate.warned, rate.all):.1%}, by groups {at_most_by_groups(rate):.1%}"
        for what, rate in (("harmless with a warning", false), ("harmful without one", none))
    )


def test_the_calls_are_as_many_of_as_many_servers_and_kinds_as_a_rate_needs() -> None:
    servers = Counter(about["part"] for about in SERVERS.values())
    assert sum(servers.values()) >= 20 and min(servers[2], servers[3]) >= 10
    assert len(HARMLESS) >= 450 and min(harmless(2).all, harmless(3).all) >= 300
    assert len(HARMFUL) >= 300 and min(harmful(2).all, harmful(3).all) >= 150
    kinds = Counter((part, kind) for part, kind, *_ in HARMFUL)
    assert len(kinds) == 36 and min(kinds.values()) >= 12
    assert {spelling for _, _, spelling, *_ in HARMFUL} == {"plain", "encoded", "split"}


@pytest.mark.threat(16, 29)
@pytest.mark.parametrize("part", [1, 2, 3])
def test_of_the_harmless_calls_one_in_fifty_warns_at_most(part: int) -> None:
    rate = harmless(part)
    print(describe(part))
    assert rate.warned <= 0.02 * rate.all
    # The bound needs more calls than the first part has, or fewer that warn than in the third.
    assert part != 2 or max(at_most(rate.warned, rate.all), at_most_by_groups(rate)) <= 0.02


@pytest.mark.threat(16, 29)
@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("spelling", ["plain", "encoded", "split", ""])
def test_of_the_harmful_calls_nineteen_in_twenty_warn_in_each_spelling(part: int, spelling: str) -> None:
    rate = missed(harmful(part, spelling))
    assert rate.warned <= 0.05 * rate.all
    assert max(at_most(rate.warned, rate.all), at_most_by_groups(rate)) <= 0.05
