"""Why a payload missed: true, short, and with nothing invisible in it."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.protocol.miss import QUOTED, Miss, miss, quote
from mew_lab.protocol.node import Meter
from mew_lab.protocol.pattern import compile_pattern


def why(pattern: Any, value: Any) -> Miss:
    return miss(compile_pattern(pattern), value, path="payload", meter=Meter())


@pytest.mark.parametrize(
    ("pattern", "value", "matched", "sentence"),
    [
        ({"a": "x"}, {"a": "y"}, 0, 'wants payload.a "x", got "y"'),
        ({"a": "x"}, {}, 0, 'wants payload.a "x", got nothing'),
        ({"a": "x", "b": "y"}, {"a": "x", "b": "z"}, 1, 'wants payload.b "y", got "z"'),
        (
            {"a": "x", "b": {"c": "y", "d": 1}},
            {"a": "x", "b": {"c": "y", "d": 2}},
            2,
            "wants payload.b.d 1, got 2",
        ),
        ({"a": {"b": "x"}}, {"a": "y"}, 0, 'wants payload.a to be an object, got "y"'),
        ({"a": {"b": "x"}}, {}, 0, "wants payload.a an object, got nothing"),
        ({"a": "x"}, {"a": ["x"]}, 0, 'wants payload.a "x", got an array'),
        ({"a": "x"}, {"a": {}}, 0, 'wants payload.a "x", got {}'),
        ({"a": "x"}, {"a": {"b": 1}}, 0, 'wants payload.a "x", got an object'),
        ({"a": "x"}, {"a": None}, 0, 'wants payload.a "x", got null'),
        ({"a": 1}, {"a": True}, 0, "wants payload.a 1, got true"),
        ({"a": None}, {"a": 0.5}, 0, "wants payload.a null, got 0.5"),
        ({"a": ["x", "y*"]}, {"a": "z"}, 0, 'wants payload.a one of "x", "y*", got "z"'),
        ({"a": ["b", "c", "d", "e"]}, {"a": "z"}, 0, 'wants payload.a one of "b", "c", "d", …, got "z"'),
        ({"a": [{"b": 1}, 2]}, {"a": "z"}, 0, 'wants payload.a one of an object, 2, got "z"'),
        ({"a": []}, {"a": "z"}, 0, 'wants payload.a one of nothing, got "z"'),
        ({"a*": "x"}, {"ab": "y"}, 0, 'wants "x" at a* in payload, found none'),
        ({"b": {"$..c": "!x"}}, {"b": {}}, 0, 'wants "!x" at $..c in payload.b, found none'),
        ({"a": "x", "b": "y"}, {"b": "y"}, 1, 'wants payload.a "x", got nothing'),
        ({"a": "x"}, [], 0, "wants payload to be an object, got an array"),
    ],
)
def test_the_first_member_at_fault_is_named(pattern: Any, value: Any, matched: int, sentence: str) -> None:
    assert why(pattern, value) == Miss(matched, sentence)


def test_a_search_that_costs_too_much_is_not_explained() -> None:
    assert why({"**": "x"}, {"a": [0] * 20_000}) == Miss(
        0, "cannot tell whether payload matches: it costs too much to find out"
    )


@pytest.mark.threat(17)
@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("plain words", '"plain words"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("a\nb\tc", '"a\\nb\\tc"'),
        ("\x1b[31m", '"\\u001b[31m"'),
        ("a\u202eb", '"a\\u202eb"'),
        ("a\u200bb", '"a\\u200bb"'),
        ("\ud800", '"\\ud800"'),
        ("\U000e0041", '"\\udb40\\udc41"'),
        ("Grüße 你好", '"Grüße 你好"'),
        ("x" * QUOTED, '"' + "x" * QUOTED + '"'),
        ("x" * (QUOTED + 1), '"' + "x" * QUOTED + '…"'),
        (10**100, "a very large number"),
        (True, "true"),
    ],
)
def test_values_are_quoted_short_and_visible(value: Any, quoted: str) -> None:
    assert quote(value) == quoted


@pytest.mark.threat(17)
def test_names_from_a_pattern_are_made_visible_too() -> None:
    assert why({"a\u202e": {"b": 1}}, {}).sentence == "wants payload.a\\u202e an object, got nothing"
