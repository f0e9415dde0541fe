"""One budget for a whole set of capabilities: it never changes an answer, and what may exceed it is told beforehand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mew_lab.protocol.cost import MOST, REFERENCE, compile_cost, steps
from mew_lab.protocol.envelope import FEW_VALUES, MAX_DEPTH, too_deep, values_in
from mew_lab.protocol.node import SET_BUDGET, Budget, OverBudget
from mew_lab.protocol.pattern import compile_pattern
from mew_lab.protocol.permit import CapabilitySet

from ..conftest import examples
from .samples import capability as sample_capability
from .samples import message_for, seeded, times
from .slow_matcher import slow_permit

pytestmark = [pytest.mark.threat(6, 7, 37), pytest.mark.ruling("R24")]

TEXT = st.text(alphabet="ab/", max_size=40)
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | TEXT,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from("abxy"), inner, max_size=4),
    max_leaves=60,
)
WORD = st.sampled_from(
    ["a", "*a*b*", "**a**b", "a*", "?*?*b", "!*a*", "!a", "/(a|b)*a(a|b){20}/", "/.*a.{20}b.*/", "*"]
)
KEYS = ["a", "x", "*", "?", "**", "$..*", "$..a", "$..[?@.a]", "$..[?@ == $.x]", "$..[?search(@,'a.*b')]"]
KEYS += ["$..*..*", "$..[0,1,-1]", "$..[?count(@..*) > 1]", "$.a[::2]", "$..[?@.a < @.b || !@.x]"]
PATTERN: st.SearchStrategy[Any] = st.recursive(
    WORD | st.integers(-2, 2) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2),
    max_leaves=4,
)
MEMBERS = st.dictionaries(st.sampled_from(KEYS), PATTERN, min_size=1, max_size=2)


@settings(max_examples=examples(300), deadline=None)
@given(MEMBERS, st.dictionaries(st.sampled_from("abxy"), VALUE, max_size=4))
@example({"$..[?@.a < @.b || !@.x]": 1}, {"a": [{"a": 1, "b": 2}, {"x": 1}]})
def test_no_message_of_a_size_costs_more_than_was_told_of_it(pattern: Any, payload: dict[str, Any]) -> None:
    compiled = compile_pattern(pattern)
    size = len(json.dumps(payload, separators=(",", ":")))
    meter = Budget(10**9)
    compiled.holds(payload, meter)
    assert 10**9 - meter.left <= steps(compiled, size)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(MEMBERS, min_size=1, max_size=30), st.dictionaries(st.sampled_from("abxy"), VALUE, max_size=4)
)
def test_a_set_costs_its_budget_and_no_more_however_many_bombs_it_holds(
    patterns: list[Any], payload: dict[str, Any]
) -> None:
    held = CapabilitySet([{"kind": "chat", "payload": one} for one in patterns])
    for budget in (50, 500, SET_BUDGET):
        meter = Budget(budget)
        verdict = held.permit("chat", (), payload, meter=meter)
        if verdict.exceeded:
            assert meter.left <= 0
            assert not verdict.allowed
        else:
            assert verdict.allowed is any(one.permits("chat", (), payload) for one in held.capabilities)


@pytest.mark.parametrize(
    ("held", "to", "payload"),
    [
        ({"payload": {"a": "*a*b*c*x"}}, (), {"a": "abc" * 9000}),
        ({"payload": {"**": "/(a|b){1,50}c/"}}, (), {"a": ["ab" * 200] * 20}),
        ({"to": ["*a*b*c*x"]}, ("abc" * 9000,), {}),
    ],
)
def test_the_reason_of_a_refusal_is_paid_from_the_same_budget(
    held: dict[str, Any], to: tuple[str, ...], payload: dict[str, Any]
) -> None:
    one = CapabilitySet([{"kind": "chat", **held}])
    alone = Budget(10**9)
    assert not one.capabilities[0].holds_body(to, payload, alone)
    judging = 10**9 - alone.left
    both = Budget(10**9)
    told = one.permit("chat", to, payload, meter=both).nearest
    assert "costs too much" not in told and 10**9 - both.left >= 2 * judging - 20
    short = Budget(10**9 - both.left - 1)
    verdict = one.permit("chat", to, payload, meter=short)
    assert not verdict.allowed and not verdict.exceeded  # that it is not permitted is certain
    assert "costs too much to find out" in verdict.nearest


def test_the_budget_changes_no_answer() -> None:
    """Compared with the slow matcher, over sets made at random."""
    r = seeded()
    compared = 0
    for _ in range(times(300)):
        capabilities = [sample_capability(r) for _ in range(r.randint(1, 6))]
        kind, to, payload = message_for(r, r.choice(capabilities))
        verdict = CapabilitySet(capabilities).permit(kind, to, payload)
        if not verdict.exceeded:
            compared += 1
            assert verdict.allowed is any(slow_permit(one, kind, to, payload) for one in capabilities)
    assert compared > times(300) // 2


def test_a_thousand_costly_capabilities_end_with_the_budget_of_one() -> None:
    held = CapabilitySet([{"kind": "chat", "payload": {"**": f"*a*b*{n}"}} for n in range(1000)])
    meter = Budget(SET_BUDGET)
    verdict = held.permit("chat", (), {"l": ["abab" * 50] * 400}, meter=meter)
    assert verdict.exceeded and not verdict.allowed
    assert -1000 < meter.left <= 0
    assert held.cost > SET_BUDGET


@pytest.mark.parametrize(
    ("held", "fits"),
    [
        ([{"kind": "chat", "payload": {"text": f"t{n}"}} for n in range(1000)], True),
        ([{"kind": "mcp/request", "payload": {"params": {"name": f"read_{n}*"}}} for n in range(1000)], True),
        ([{"kind": f"k{n}/*"} for n in range(1000)], True),
        ([{"kind": "mcp/request", "payload": {"$.params.name": f"a{n}*"}} for n in range(100)], True),
        ([{"kind": "mcp/request", "payload": {"**": f"a{n}*"}} for n in range(20)], True),
        ([{"kind": "chat", "payload": {"**": f"*a*{n}"}} for n in range(990)], False),
        ([{"kind": "chat", "payload": {"$..*..*..*": "x"}}], False),
        ([{"kind": "chat", "payload": {"**": {"**": {"**": "x"}}}}], False),
        ([{"kind": "chat", "payload": {"$..[?count($..*) > 0]": "x"}}], False),
        (
            [{"kind": "chat", "payload": {"t": f"/(a|b|c){{1,200}}(d|e){{1,200}}{n}/"}} for n in range(9)],
            False,
        ),
    ],
)
def test_what_a_set_may_cost_is_known_when_it_is_given(held: list[dict[str, Any]], fits: bool) -> None:
    assert (CapabilitySet(held).cost <= SET_BUDGET) is fits


@pytest.mark.parametrize("path", ["$" + "..*" * 10, "$" + "..*" * 80, "$..[?count(@" + "..*" * 40 + ") > 1]"])
def test_searches_within_searches_are_told_as_the_largest_bound_and_as_no_larger_number(path: str) -> None:
    assert steps(compile_pattern({path: "x"})) == MOST
    assert steps(compile_pattern({path: {path: {path: "x"}}})) == MOST


@pytest.mark.parametrize("name", ["match", "search"])
def test_a_function_of_a_path_costs_its_arguments_and_its_expression(name: str) -> None:
    def cost(test: str) -> int:
        return steps(compile_pattern({f"$.a[?{test}]": "x"}))

    values = REFERENCE // 2  # that the test is made for
    assert cost(f"{name}(@.b, 'a')") - cost("@.b == 'a'") >= values * (REFERENCE // Budget.FEW - 2)
    assert cost("length(@.b) == 1") - cost("@.b == 1") >= values * 2
    large = cost(f"{name}(@.b, '(a|b)*a(a|b){{20}}')")
    assert large > cost(f"{name}(@.b, 'a')") and large >= values * REFERENCE  # a step a character at least


def test_an_expression_pays_for_its_text_times_its_size() -> None:
    def cost(pattern: str, text: str) -> int:
        meter = Budget(10**12)
        compile_pattern(pattern).holds(text, meter)
        return 10**12 - meter.left

    tiny, small, large = "/(a|b)*c/", "/(a|b)*a(a|b){20}/", "/(a|b){1,200}c/"
    assert 1 < cost(tiny, "a" * 2000) < 100  # all of its states are kept
    assert cost(small, "a" * 2000) >= 2000
    assert 1.9 < cost(large, "a" * 2000) / cost(large, "a" * 1000) < 2.1
    assert cost(large, "a" * 1000) > 4 * cost(small, "a" * 1000)


def test_two_large_texts_are_not_compared_for_nothing() -> None:
    path = compile_pattern({"$.l[?@.a == $.x]": "no"})
    same = "s" * 100_000
    meter = Budget(10**9)
    path.holds({"x": same, "l": [{"a": same + ""} for _ in range(100)]}, meter)
    assert 10**9 - meter.left > 100 * 100_000 // Budget.COMPARED


def test_what_is_compiled_is_paid_for_by_its_size() -> None:
    assert compile_cost({"kind": "chat"}) < 50
    assert compile_cost({"kind": "/(.{100}){10}(.{100}){10}/"}) > 10_000
    assert compile_cost({"kind": "/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}/"}) < 1_000
    assert compile_cost({"kind": "/" + "\\pL" * 60 + "/"}) > 50_000
    assert compile_cost(["x"] * 1000) > 10_000


def test_over_budget_leaves_the_meter_with_nothing() -> None:
    meter = Budget(5)
    with pytest.raises(OverBudget):
        meter.spend(6)
    assert Budget().left == SET_BUDGET and REFERENCE == 1024


some_json = st.lists(st.text(alphabet='[]{}", a\\\n', max_size=40), max_size=40).map(json.dumps)


@settings(max_examples=examples(300), deadline=None)
@given(st.text(alphabet='[]{}", a\\', max_size=400), st.integers(0, 80))
def test_depth_is_told_as_one_bracket_after_the_other_tells_it(noise: str, deep: int) -> None:
    for text in (
        noise,
        "[" * deep + noise + "]" * deep,
        json.dumps([noise] * 30) + "[" * deep,
        "[],{}" * deep,
    ):
        depth, most, quoted, escaped = 0, 0, False, False
        for one in text:
            if quoted:
                quoted, escaped = escaped or one != '"', not escaped and one == "\\"
            elif one == '"':
                quoted = '"' in text[text.index(one) + 1 :]
            elif one in "[{":
                depth += 1
                most = max(most, depth)
            elif one in "]}":
                depth -= 1
        if _is_json(text):
            assert too_deep(text) is (most > MAX_DEPTH)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("depth", [63, 64, 65, 200])
@pytest.mark.parametrize("around", ["%s", '{"a":[[],{}],"b":"]]]]","c":%s}', "[" + "[]," * 100 + "%s]"])
def test_the_deepest_that_is_taken_is_64(depth: int, around: str) -> None:
    text = around % ("[" * depth + "]" * depth)
    assert too_deep(text) is (depth + (around != "%s") > MAX_DEPTH)


@given(some_json, st.text(alphabet='[]{}", a\\', max_size=200))
def test_what_is_too_deep_before_a_fault_is_found_whatever_follows(before: str, behind: str) -> None:
    assert too_deep(f"[{before},{'[' * 200}{behind}")  # a reader goes as far before it finds the fault


@pytest.mark.parametrize(("more", "deep"), [(0, False), (4, False), (5, True)])
def test_many_brackets_at_a_depth_are_no_depth(more: int, deep: bool) -> None:
    assert too_deep("[" * 60 + "[]," * 100 + "[" * more + "]" * more + "]" * 60) is deep


def test_values_are_counted_outside_of_texts() -> None:
    assert values_in("[" + "0," * (FEW_VALUES // 2) + "0]") == 0
    assert values_in("[" + "0," * 30_000 + "0]") == 30_001
    assert values_in(json.dumps({"csv": 'a,b,[c\\"\n' * 30_000})) <= 2
