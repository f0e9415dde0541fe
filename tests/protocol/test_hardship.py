"""Matching under hardship: what costs too much, and what is missing or of another type, is never permitted.

Costs are compared with a control of the same run, or counted in steps; milliseconds are printed beside the mark.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.protocol.node import BUDGET, Meter, OverBudget
from mew_lab.protocol.pattern import compile_pattern
from mew_lab.protocol.permit import CapabilitySet, permit

MARK_MS = 10
ABSENT: Any = object()


def best(call: Callable[[], object], *, of: int = 7) -> float:
    """The shortest of some runs in seconds: what else runs on the machine only makes runs longer."""
    took = []
    for _ in range(of):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return min(took)


# Expressions (threat 6)

BACKTRACKING = [
    "/(a+)+$/",
    "/(a|aa)+/",
    "/(a|a)*b/",
    "/(.*)*b/",
    "/(a*)*(a*)*c/",
    "/([a-z]+)*[0-9]/",
    "/(x+x+)+y/",
    "/a{0,50}a{0,50}a{0,50}b/",
]


@pytest.mark.threat(6)
@pytest.mark.parametrize("pattern", BACKTRACKING)
def test_an_expression_made_to_backtrack_costs_as_much_a_character_as_any(pattern: str) -> None:
    """An engine that backtracks needs a year for the shortest of these texts."""
    compiled = compile_pattern(pattern)
    texts = ["a" * length + "!" for length in (25_000, 100_000)]
    assert not any(compiled.matches(text) for text in texts)
    short, long = (best(lambda text=text: compiled.matches(text)) for text in texts)
    print(
        f"{pattern}: 10⁵ characters in {long * 1e3:.2f} ms (mark: {MARK_MS} ms), a quarter in {short * 1e3:.2f} ms"
    )
    assert long < 16 * short + 0.005  # linear is four; sixteen would be quadratic


@pytest.mark.threat(6)
@pytest.mark.parametrize("pattern", BACKTRACKING)
def test_an_expression_pays_for_its_text(pattern: str) -> None:
    compiled = compile_pattern(pattern)

    def steps(length: int) -> int:
        meter = Meter(10**9)
        compiled.holds("a" * length + "!", meter)
        return 10**9 - meter.left

    assert steps(400_000) <= 4 * steps(100_000) + 4
    assert steps(10**6) > 10


@pytest.mark.threat(6)
def test_a_glob_made_to_backtrack_costs_as_much_a_character_as_any() -> None:
    for pattern in ("*a*a*a*a*a*a*a*a*b", "**a**a**a**a**a**b", "?*?*?*?*?*?*b", "a*" * 400 + "b"):
        compiled = compile_pattern(pattern)
        texts = ("a" * length + "!" for length in (5_000, 20_000))
        short, long = (best(lambda text=text, one=compiled: one.matches(text)) for text in texts)
        print(f"{pattern[:20]}: 2·10⁴ characters in {long * 1e3:.2f} ms (mark: {MARK_MS} ms)")
        assert long < 16 * short + 0.005


# Paths and searches (threat 7)


def wide(size: int) -> dict[str, Any]:
    return {"a": [{str(at): at for at in range(size)} for _ in range(size)]}


def deep(depth: int) -> dict[str, Any]:
    made: Any = "x"
    for _ in range(depth):
        made = {"a": made, "b": [1]}
    return {"a": made}


BOMBS = [
    {"$..*..*": "no"},
    {"$..*..*..*..*": "no"},
    {"$" + "..*" * 80: "no"},
    {"$.a" + "[0,0,0,0]" * 20 + "..*": "no"},
    {"$..[?@..a && @..b]..[?count($..*) > 0]": "no"},
    {"$..[?@ == $]": "no"},
    {"$..[?search(@, '(a+)+b')]": "no"},
    {"**": {"**": {"**": {"**": "no"}}}},
    {"**": {"*": {"$..*": "no"}}},
    {"**": [f"no{at}*" for at in range(200)]},
]


@pytest.mark.threat(7)
@pytest.mark.parametrize("document", [wide, deep], ids=["wide", "deep"])
@pytest.mark.parametrize("pattern", BOMBS, ids=lambda one: str(one)[:50])
def test_a_bomb_costs_its_budget_however_large_the_document(pattern: dict[str, Any], document: Any) -> None:
    compiled = compile_pattern(pattern)
    sizes = (60, 240) if document is wide else (15, 60)
    costs = []
    for value in map(document, sizes):
        meter = Meter()
        began = time.perf_counter()
        try:
            assert compiled.holds(value, meter) is False
        except OverBudget:
            assert meter.left < 0
        print(
            f"{(time.perf_counter() - began) * 1e3:.2f} ms (mark: {MARK_MS} ms), {BUDGET - meter.left} steps"
        )
        costs.append(BUDGET - meter.left)
        assert compiled.matches(value) is False
        assert not permit([{"kind": "chat", "payload": pattern}], "chat", payload=value).allowed
    # A step may be refused that costs some; none is taken beyond the budget.
    assert max(costs) <= BUDGET + 400


@pytest.mark.threat(7)
def test_many_bombs_in_one_set_cost_their_budgets_and_no_more() -> None:
    """The control is the same set over a small document: there it is within its budget."""
    chosen = CapabilitySet([{"kind": "chat", "payload": bomb} for bomb in BOMBS])
    assert not chosen.permit("chat", (), deep(2)).allowed
    assert not chosen.permit("chat", (), wide(240)).allowed
    assert chosen.permit("chat", (), {"a": {"b": {"c": {"d": "no"}}}}).allowed


# What is missing, or of another type (threat 21)

ANY_OF_TYPE: dict[str, list[Any]] = {
    "string": ["", "a", "1", "true", "null", "x/y"],
    "number": [0, 1, -1, 0.5, 1.0, 10**30],
    "boolean": [True, False],
    "null": [None],
    "array": [[], ["a"], [1], [None], [{}], [[]], [{"k": "a"}]],
    "object": [{}, {"k": "a"}, {"0": "a"}],
    "nothing": [ABSENT],
}

# Patterns, and the one type of value that can match them at all.
OF_TYPE: list[tuple[Any, str]] = [
    ("a", "string"),
    ("1", "string"),
    ("true", "string"),
    ("null", "string"),
    ("", "string"),
    ("*", "string"),
    ("**", "string"),
    ("?*", "string"),
    ("!zzz", "string"),
    ("!*zzz*", "string"),
    ("/.*/", "string"),
    ("/(?s).*/", "string"),
    (["a", "*"], "string"),
    (["!a", "a"], "string"),
    (0, "number"),
    (1, "number"),
    (1.0, "number"),
    (0.5, "number"),
    (True, "boolean"),
    (False, "boolean"),
    ([True, False], "boolean"),
    (None, "null"),
    ({}, "object"),
    ({"k": "*"}, "object"),
    ({"*": "*"}, "object"),
    ({"**": "*"}, "object"),
    ({"$.k": "*"}, "object"),
    ({"$..*": "!zzz"}, "object"),
    ({"$": {}}, "object"),
    ([], "no type"),
    ("!*", "no type"),
    ("!**", "no type"),
]

CROSSED = [
    pytest.param(pattern, name, value, id=f"{pattern!r}-{name}-{at}")
    for pattern, of_type in OF_TYPE
    for name, values in ANY_OF_TYPE.items()
    if name != of_type
    for at, value in enumerate(values)
]


def body(value: Any, *, depth: int) -> dict[str, Any]:
    """A payload with `value` at `x`, some objects deep."""
    made = {} if value is ABSENT else {"x": value}
    for _ in range(depth):
        made = {"p": made}
    return made


@pytest.mark.threat(21)
def test_what_is_absent_or_of_another_type_is_never_permitted() -> None:
    assert len(CROSSED) > 500
    permitted = []
    for one in CROSSED:
        pattern, _, value = one.values
        for depth in (0, 1, 3):
            asked = {"kind": "chat", "payload": body(pattern, depth=depth)}
            payload = body(value, depth=depth)
            if permit([asked], "chat", payload=payload).allowed:
                permitted.append((asked, payload))
    assert permitted == []


@pytest.mark.threat(21)
@pytest.mark.parametrize(("pattern", "of_type"), OF_TYPE, ids=str)
def test_each_of_these_patterns_can_match_something_of_its_type(pattern: Any, of_type: str) -> None:
    """Else the test above would show nothing."""
    matched = [value for value in ANY_OF_TYPE.get(of_type, []) if compile_pattern(pattern).matches(value)]
    assert bool(matched) is (of_type != "no type")


@pytest.mark.threat(21)
@pytest.mark.parametrize(
    "payload",
    [None, {}, {"p": {}}, {"p": None}, {"p": []}, {"p": [{"x": "b"}]}, {"p": "x"}, {"x": "b"}, {"p": {"p": {"x": "b"}}}],
    ids=str,
)  # fmt: skip
def test_a_negation_needs_its_place_to_be_there(payload: dict[str, Any] | None) -> None:
    asked = {"kind": "chat", "payload": {"p": {"x": "!a"}}}
    assert not permit([asked], "chat", payload=payload).allowed
    assert permit([asked], "chat", payload={"p": {"x": "b"}}).allowed


@pytest.mark.threat(21)
@pytest.mark.parametrize("to", [[], ["a"], ["b", "a"], ["a", "a"]], ids=str)
def test_a_negated_addressee_is_neither_reached_among_others_nor_by_a_broadcast(to: list[str]) -> None:
    assert not permit([{"kind": "chat", "to": "!a"}], "chat", to=to).allowed
    assert permit([{"kind": "chat", "to": "!a"}], "chat", to=["b", "c"]).allowed
