"""JSONPath: agrees with its library where that is right, is bounded where that is not."""

from __future__ import annotations

import json
from typing import Any

import jsonpath_rfc9535
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.protocol.jsonpath import JSONPath, descendants, equal
from mew_lab.protocol.node import Meter, OverBudget

from ..conftest import examples

DOCUMENT: dict[str, Any] = {
    "a": [1, 2.0, "x", {"b": "x", "c": None}, [True, "xy"]],
    "b": {"a": "x", "c": [], "d": {"e": "A.z"}},
    "n": 2,
}


def select(path: str, value: Any = DOCUMENT) -> list[Any]:
    return list(JSONPath.of(path, key="k").select(value, Meter()))


@pytest.mark.req("P-4.2-2")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", [DOCUMENT]),
        ("$.n", [2]),
        ("$['n','n']", [2, 2]),
        ("$.a.n", []),
        ("$.n.a", []),
        ("$.a[0]", [1]),
        ("$.a[-5]", [1]),
        ("$.a[-6]", []),
        ("$.a[5]", []),
        ("$.b[0]", []),
        ("$.a[1:3]", [2.0, "x"]),
        ("$.a[::-2]", [[True, "xy"], "x", 1]),
        ("$.a[::0]", []),
        ("$.b[0:1]", []),
        ("$.b.*", ["x", [], {"e": "A.z"}]),
        ("$.n.*", []),
        ("$..c", [None, []]),
        ("$..d..*", ["A.z"]),
        ("$.a[?@.c]", [{"b": "x", "c": None}]),
        ("$.a[?!@.c]", [1, 2.0, "x", [True, "xy"]]),
        ("$.a[?@ == $.n]", [2.0]),
        ("$.a[?@ != 2]", [1, "x", {"b": "x", "c": None}, [True, "xy"]]),
        ("$.a[?@ < 2]", [1]),
        ("$.a[?@ <= 2]", [1, 2.0]),
        ("$.a[?@ > 1]", [2.0]),
        ("$.a[?@ >= 1]", [1, 2.0]),
        ("$.a[?@ > 'w']", ["x"]),
        ("$.a[?@ == 1 || @ == 'x']", [1, "x"]),
        ("$.a[?@ >= 1 && @ < 2]", [1]),
        ("$.a[?@.zzz == @.yyy]", [1, 2.0, "x", {"b": "x", "c": None}, [True, "xy"]]),
        ("$.a[?@.c == null]", [{"b": "x", "c": None}]),
        ("$.a[?@[0] == true]", [[True, "xy"]]),
        ("$.a[?@[0] == 1]", []),
        ("$.a[?length(@) == 2]", [{"b": "x", "c": None}, [True, "xy"]]),
        ("$.a[?length(@) == length(@.zzz)]", [1, 2.0]),
        ("$.a[?count(@.*) == 2]", [{"b": "x", "c": None}, [True, "xy"]]),
        ("$.a[?value(@..b) == 'x']", [{"b": "x", "c": None}]),
        ("$.a[?value(@.*) == value(@.zzz)]", [1, 2.0, "x", {"b": "x", "c": None}, [True, "xy"]]),
        ("$.a[?match(@.b, 'x')]", [{"b": "x", "c": None}]),
        ("$.a[?match(@[1], 'x')]", []),
        ("$.a[?search(@[1], 'y')]", [[True, "xy"]]),
        ("$.b.d[?match(@, '\\\\p{Lu}\\\\.[.z]')]", ["A.z"]),
        ("$.b.d[?match(@, '...')]", ["A.z"]),
        ("$[?@.d[?match(@, 'A.*')]].a", ["x"]),
    ],
)
def test_a_path_selects(path: str, expected: list[Any]) -> None:
    assert select(path) == expected


def test_a_dot_in_match_is_no_line_end() -> None:
    # RFC 9485: `.` stands for any character but a line feed and a carriage return.
    assert select("$[?match(@, 'a.b')]", {"x": "a\rb", "y": "a\nb", "z": "a-b"}) == ["a-b"]
    assert select("$[?search(@, 'b')]", {"x": "a\nb\nc"}) == ["a\nb\nc"]


@pytest.mark.parametrize(
    "path",
    [
        "$.",
        "$a",
        "a",
        "$[?count(@.*)]",
        "$[?nope(@)]",
        "$[?true]",
        "$" + "[" * 250,
        "$[?" + "(" * 250,
        "$[99999999999999999999]",
    ],
)
def test_what_is_no_path_is_refused_when_it_is_set(path: str) -> None:
    with pytest.raises(ConfigError, match="no JSONPath") as fault:
        JSONPath.of(path, key="payload.x")
    assert fault.value.key == "payload.x"


@pytest.mark.threat(6)
@pytest.mark.parametrize("path", ["$[?match(@, $.re)]", "$[?search(@.a, @.b)]", "$[?@.a[?match(@, $.re)]]"])
def test_an_expression_from_the_message_is_refused_when_the_path_is_set(path: str) -> None:
    with pytest.raises(ConfigError, match="written out"):
        JSONPath.of(path, key="x")


def test_an_expression_that_the_engine_refuses_is_refused_when_the_path_is_set() -> None:
    with pytest.raises(ConfigError, match="google-re2"):
        JSONPath.of("$[?match(@, '(')]", key="x")


steps = st.sampled_from(
    [".a", ".b", ".*", "..a", "..*", "[0]", "[-1]", "[0:2]", "[::-1]", "['a','b']", "[*,0]", "..[0]"]
)
tests = st.sampled_from(
    [
        "@.a",
        "@.a == 1",
        "@.a != @.b",
        "@ >= 'a'",
        "!@.b",
        "length(@) > 1",
        "count(@.*) == 2",
        "@.a && (@.b || @..a)",
        "match(@.a, 'a.*')",
        "value(@..a) == 1",
    ]
)
paths = st.lists(steps | tests.map(lambda test: f"[?{test}]"), max_size=4).map(
    lambda parts: "$" + "".join(parts)
)


def trees(leaves: list[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        ),
        max_leaves=12,
    )


# Within an array or an object the library takes true for 1, which RFC 9535 does not (2.3.5.2.2): never both of them.
values = trees([0, 1, 1.0, None, "a", "ab", ""]) | trees([True, False, None, "a", "ab", ""])


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (1.0, True)])
def test_a_boolean_is_no_number_however_deep_it_lies(one: float, other: bool) -> None:
    for around in ("%s", '{"a":%s}', '[["x",%s]]'):
        left, right = (json.loads(around % json.dumps(value)) for value in (one, other))
        pair = {"a": left, "b": right}
        assert select("$[?@.a != @.b]", [pair]) == [pair]
        assert select("$[?@.a == @.b]", [pair]) == []


@pytest.mark.req("P-4.2-2")
@settings(max_examples=examples(1000), deadline=None)
@given(path=paths, value=values)
def test_the_bounded_walk_selects_what_the_library_selects(path: str, value: Any) -> None:
    assert select(path, value) == jsonpath_rfc9535.find(path, value).values()


@pytest.mark.threat(7)
@settings(max_examples=examples(500), deadline=None)
@given(text=st.text("$.[]*?@!=<&|()'a0:-, \\", max_size=20))
def test_any_text_is_a_path_or_a_fault_of_ours(text: str) -> None:
    try:
        path = JSONPath.of("$" + text, key="x")
    except ConfigError:
        return
    assert isinstance(list(path.select(DOCUMENT, Meter())), list)


@pytest.mark.threat(7)
@pytest.mark.parametrize(
    "path", ["$..*..*", "$.a[::2]", "$.a[*]", "$.a[?@ == 1]", "$[?@ == $.a]", "$.a[?count($.a[*]) == 1]"]
)
def test_every_step_is_counted(path: str) -> None:
    with pytest.raises(OverBudget):
        select(path, {"a": list(range(30_000))})


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ([1, {"a": [0]}], [1.0, {"a": [0]}], True),
        ([1], [True], False),
        ([1], [1, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": {"b": True}}, {"a": {"b": 1}}, False),
        ([], {}, False),
        ("a", "a", True),
        (None, None, True),
        (None, False, False),
    ],
)
def test_values_are_equal_as_json_has_it(left: Any, right: Any, expected: bool) -> None:
    assert equal(left, right, Meter()) is expected


def test_descendants_are_all_values_below_parents_first() -> None:
    assert list(descendants({"a": [1, [2]], "b": {}}, Meter())) == [[1, [2]], 1, [2], 2, {}]
    assert list(descendants("x", Meter(), itself=True)) == ["x"]
