"""Where two JSON values differ."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.protocol.difference import ABSENT, Difference, differences


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
