"""Strings that some patterns match and others do not: against a list of all short strings, asked one by one."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mew_lab.protocol.inclusion import Word, find, holds
from mew_lab.protocol.node import Meter, OverBudget
from mew_lab.protocol.pattern import compile_pattern
from mew_lab.protocol.strings import Glob, Literal, Negation, compile_string

from ..conftest import examples

slow_string: Any = runpy.run_path(str(Path(__file__).with_name("slow_matcher.py")))["slow_string"]

SHORT = ["".join(one) for length in range(6) for one in itertools.product("ab/", repeat=length)]
HOSTILE = ["".join(one) for length in range(6) for one in itertools.product("a./\\\n", repeat=length)]
PLENTY = 1_000_000


def words(texts: list[str]) -> list[Word]:
    compiled = [compile_string(one, key="") for one in texts]
    assert all(isinstance(one, Word) for one in compiled)
    return compiled  # type: ignore[return-value]


def found(inside: list[str], outside: list[str]) -> str | None:
    return find(words(inside), words(outside), meter=Meter(PLENTY))


def is_one(text: str, inside: list[str], outside: list[str]) -> bool:
    return all(slow_string(one, text) for one in inside) and not any(
        slow_string(one, text) for one in outside
    )


globs = st.text("ab/*?", max_size=5).filter(lambda one: not (len(one) > 2 and one[0] == one[-1] == "/"))
patterns = globs | globs.filter(bool).filter(lambda one: one[0] != "/").map(lambda one: "!" + one)


@pytest.mark.threat(20)
@settings(max_examples=examples(600), deadline=None)
@given(inside=st.lists(patterns, max_size=2), outside=st.lists(patterns, max_size=3))
@example(inside=["*"], outside=["?*", "**/**"])
@example(inside=["**a"], outside=["a**", "b**", "/**"])
@example(inside=[], outside=[])
def test_what_is_found_is_one_and_where_nothing_is_found_there_is_none(
    inside: list[str], outside: list[str]
) -> None:
    text = found(inside, outside)
    others = [one for one in SHORT if one and is_one(one, inside, outside)]
    if text is None:
        assert others == [] and not is_one("", inside, outside)
        return
    assert is_one(text, inside, outside)
    if text:
        assert not others or len(text) <= len(others[0])
    else:
        assert others == []


paths = st.text("a./*?", max_size=5) | st.text("a./*\\\n", max_size=4)
paths = paths.filter(lambda one: not (len(one) > 2 and one[0] == one[-1] == "/"))
path_patterns = paths | paths.filter(bool).filter(lambda one: one[0] != "/").map(lambda one: "!" + one)


@pytest.mark.threat(20)
@settings(max_examples=examples(600), deadline=None)
@given(
    inside=st.lists(path_patterns, max_size=2),
    outside=st.lists(path_patterns, max_size=3),
    guarded=st.sampled_from([("inside", "outside"), ("inside",), ("outside",)]),
)
@example(inside=["*"], outside=["**/**", "?*", "!**."], guarded=("inside", "outside"))
@example(inside=["!a/**"], outside=["!a*"], guarded=("inside", "outside"))
@example(inside=["**"], outside=["a**", "**/**", "!a/**"], guarded=("outside",))
def test_guarded_globs_are_searched_as_they_are_judged(
    inside: list[str], outside: list[str], guarded: tuple[str, ...]
) -> None:
    def all_of(texts: list[str], which: str) -> list[Word]:
        words = [compile_string(one, key="", paths=which in guarded) for one in texts]
        return [word for word in words if isinstance(word, Word)]

    text = find(all_of(inside, "inside"), all_of(outside, "outside"), meter=Meter(PLENTY))

    def fits(some: str) -> bool:
        return all(slow_string(one, some, paths="inside" in guarded) for one in inside) and not any(
            slow_string(one, some, paths="outside" in guarded) for one in outside
        )

    others = (one for one in HOSTILE if one and fits(one))
    if text is None:
        assert next(others, None) is None and not fits("")
        return
    assert fits(text)
    first = next(others, None)
    assert (first is None or len(text) <= len(first)) if text else first is None


@pytest.mark.parametrize(
    ("inside", "outside", "expected"),
    [
        (["abc"], [], "abc"),
        (["abc"], ["ab*"], None),
        (["a*"], ["a"], "ax"),
        (["*"], [], "x"),
        (["*"], ["**"], None),
        (["?*"], ["x*"], "y"),
        (["?"], ["x", "y", "z"], "a"),
        (["*/*"], [], "/"),
        (["a*", "*b"], [], "ab"),
        (["a*", "b*"], [], None),
        (["a**", "*b"], ["a*b"], None),
        ([""], [], ""),
        (["*"], ["?**", "/**"], ""),
        (["!*"], [], None),
        (["!a*"], [], "x"),
        (["a*"], ["!ab"], "ab"),
        (["a*"], ["!b*"], None),
        (["***"], ["a*"], "x"),
    ],
)
def test_the_shortest_is_told_and_a_readable_one(
    inside: list[str], outside: list[str], expected: str | None
) -> None:
    assert found(inside, outside) == expected


def test_a_character_that_no_pattern_names_is_found_when_all_readable_ones_are_named() -> None:
    named = "abcdefghijklmnopqrstuvwxyz0123456789"
    assert found(["?"], list(named)) == "\u0100"


def test_a_long_list_of_literals_is_no_burden() -> None:
    meter = Meter(PLENTY)
    some = Glob.of("read_*")
    assert find([some], [Literal(f"write_{at}") for at in range(1_000)], meter=meter) == "read_"
    assert PLENTY - meter.left < 5_000


@pytest.mark.threat(20)
@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("**" + "b**a**" * 150, "**" + "a**b**" * 170),
        ("**a**" + "?" * 40, "**a" + "?" * 30 + "*"),
        ("*" + "?" * 20, "*a" + "?" * 15),
        ("**", "x" * 900 + "*"),
    ],
)
def test_what_costs_too_much_is_given_up(inside: str, outside: str) -> None:
    meter = Meter(2_000)
    pair = (Glob.of(inside), Glob.of(outside))
    try:
        text = find(pair[:1], pair[1:], meter=meter)
    except OverBudget:
        assert meter.left < 0
    else:
        assert text is not None and pair[0].accepts(text, Meter()) and not pair[1].accepts(text, Meter())


def test_giving_up_is_possible() -> None:
    with pytest.raises(OverBudget):
        find([Glob.of("**" + "b**a**" * 150)], [Glob.of("**" + "a**b**" * 170)], meter=Meter(2_000))


def test_of_a_negation_the_other_side_is_asked() -> None:
    negation = compile_string("!a*", key="")
    assert isinstance(negation, Negation)
    assert find([negation], [negation], meter=Meter(PLENTY)) is None
    assert find([Literal("ab")], [negation], meter=Meter(PLENTY)) == "ab"


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("a*", "ab", True),
        ("a*", "b", False),
        ({"a": 1}, {"a": 1.0}, True),
        (1, True, False),
        (None, None, True),
    ],
)
def test_a_match_is_paid_for(pattern: Any, value: Any, expected: bool) -> None:
    meter = Meter(1_000)
    assert holds(compile_pattern(pattern), value, meter) is expected
    assert 980 < meter.left < 1_000


@pytest.mark.threat(6)
def test_a_long_text_costs_more_and_too_long_a_text_too_much() -> None:
    def cost(length: int) -> int:
        meter = Meter(PLENTY)
        holds(compile_pattern("*a*b*"), "x" * length, meter)
        return PLENTY - meter.left

    assert cost(100) < cost(1_000) < cost(10_000)
    with pytest.raises(OverBudget):
        holds(compile_pattern("*a*b*"), "x" * 1_000_000, Meter(1_000))
    with pytest.raises(OverBudget):
        holds(compile_pattern({"k": "*a*b*"}), {"k": "x" * 1_000_000}, Meter(1_000))
