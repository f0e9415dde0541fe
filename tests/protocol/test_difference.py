"""Where two JSON values differ."""

from __future__ import annotations

import ast
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mew_lab.protocol.difference import ABSENT, Difference, are_equal, differences, equality_key
from mew_lab.protocol.json_schema import Validator
from mew_lab.protocol.jsonpath import equal
from mew_lab.protocol.node import Budget


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ({}, {}, []),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}}, [("a.b[1].c", 2, 3)]),
        ({"a": 1}, {"b": 1}, [("a", 1, ABSENT), ("b", ABSENT, 1)]),
        ([1], [1, 2], [("[1]", ABSENT, 2)]),
        (1, 1.0, []),
        (0, False, [("", 0, False)]),
        (None, ABSENT, [("", None, ABSENT)]),
        ({"a": []}, {"a": {}}, [("a", [], {})]),
        ("1", 1, [("", "1", 1)]),
    ],
)
def test_every_place_is_named(left: Any, right: Any, found: list[Any]) -> None:
    assert differences(left, right) == tuple(Difference(*one) for one in found)


def test_there_are_at_most_a_hundred() -> None:
    assert len(differences(list(range(1000)), [])) == 100


def test_absent_is_no_null() -> None:
    assert repr(ABSENT) == "absent" and ABSENT is not None


NUMBERS = st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, 2**63]) | st.integers(-3, 3)
SCALARS = st.none() | st.booleans() | NUMBERS | NUMBERS.map(float) | st.sampled_from(["", "1", "a", "é", "é"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
)


def meant(value: Any) -> Any:
    """What a JSON value means: numbers as exact fractions, a boolean as no number, members in no order."""
    if isinstance(value, dict):
        return "object", frozenset((key, meant(item)) for key, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(meant, value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "number", Fraction(value)
    return type(value).__name__, value


def test_a_key_takes_values_of_any_depth_and_size() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    keys = [
        deep,
        [deep],
        "\ud800",
        10**5000,
        10**5000 + 1,
        1.5,
        "1.5",
        ["a", "b"],
        ["ab"],
        {"a": "b"},
        ["a:b"],
    ]
    assert len(set(map(equality_key, keys))) == len(keys)


@given(left=VALUES, right=VALUES)
@example(left=1, right=True)
@example(left=0.0, right=False)
@example(left=[1.0], right=[1])
@example(left=2**53 + 1, right=float(2**53))
@example(left={"a": None}, right={})
def test_there_is_one_comparison_of_json(left: Any, right: Any) -> None:
    for one, other in ((left, right), (left, json.loads(json.dumps(left))), (right, left)):
        same = meant(one) == meant(other)
        assert are_equal(one, other) is same
        assert (differences(one, other) == ()) is same
        assert (equality_key(one) == equality_key(other)) is same
        assert equal(one, other, Budget(100_000)) is same
        assert (Validator({"const": one}).validate(other).violations == ()) is same


JSON_NAMES = {
    *(
        "arguments",
        "payload",
        "params",
        "annotations",
        "input_schema",
        "schema",
        "structured",
        "proposed",
        "approved",
    ),
    *("structuredContent", "inputSchema", "described", "entries"),
}
PACKAGE = Path(__file__).resolve().parents[2] / "mew_lab"


def json_comparisons(text: str) -> list[str]:
    """The comparisons by `==` or `!=` of two values that are named like JSON of a message."""

    def name_of(node: ast.AST) -> str:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            return str(node.args[0].value) if node.args and isinstance(node.args[0], ast.Constant) else ""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return str(node.slice.value)
        return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""

    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            continue
        sides = [node.left, *node.comparators]
        parts = [part for side in sides for part in (side.elts if isinstance(side, ast.Tuple) else [side])]
        is_constant = any(isinstance(side, ast.Constant | ast.Dict | ast.List) for side in sides)
        names = {name_of(part) for part in parts}
        if not is_constant and names & JSON_NAMES and "digest" not in names:
            found.append(ast.unparse(node))
    return found


def test_no_module_compares_json_of_messages_by_the_equality_of_python() -> None:
    assert json_comparisons("edited = approved != proposed") == ["approved != proposed"]
    assert json_comparisons("a.get(name) == (description, schema)") == [
        "a.get(name) == (description, schema)"
    ]
    assert json_comparisons("method == 'x' and len(params) == 2 and are_equal(params, given)") == []
    found = {
        str(path.relative_to(PACKAGE)): compared
        for path in PACKAGE.rglob("*.py")
        if (compared := json_comparisons(path.read_text()))
    }
    assert found == {}
