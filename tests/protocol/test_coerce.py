"""A member of another type than the specification gives it counts as absent, whatever it is; nothing raises."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from mew_lab.protocol.coerce import (
    is_number,
    json_of,
    line_of,
    list_of,
    mapping_of,
    member,
    text_of,
    texts_of,
)

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1.5,
    float("nan"),
    "",
    "a",
    "a\u202eb",
    [],
    ["a", 1],
    {},
    {"a": 1},
    b"a",
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_each_reader_takes_its_own_type_and_nothing_else(value: Any) -> None:
    assert text_of(value) == (value if isinstance(value, str) else "")
    assert list_of(value) == (value if isinstance(value, list) else [])
    assert mapping_of(value) == (value if isinstance(value, dict) else {})
    assert texts_of(value) == (("a",) if value == ["a", 1] else ())
    assert is_number(value) is (type(value) in (int, float))
    assert line_of(value, 2) == {"a": "a", "a\u202eb": "a…"}.get(value if isinstance(value, str) else "", "")
    assert member(value, "a") == (1 if value == {"a": 1} else None)


def test_a_member_is_found_through_objects_alone() -> None:
    payload = MappingProxyType({"error": {"data": {"code": "x"}}, "list": [{"code": "y"}]})
    assert member(payload, "error", "data", "code") == "x"
    assert member(payload, "error", "data", "code", "more") is None
    assert member(payload, "list", "code") is None
    assert member(payload, "nothing", "code") is None
    assert member(payload) is payload


def test_a_text_is_cut_where_a_limit_is_given() -> None:
    assert (text_of("abc", 2), text_of("abc"), text_of(7, 2)) == ("ab", "abc", "")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff", "{'a': 1}", b"\x00"], ids=range(6))
def test_a_text_that_is_no_json_has_no_value(text: str | bytes) -> None:
    assert json_of(text) is None and json_of(text, text) is text
    assert json_of(b'{"a": [1, null]}') == json_of('{"a": [1, null]}', text) == {"a": [1, None]}
