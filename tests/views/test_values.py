"""A value on a card: all of it, visible, folded when it is long, compared with what it was."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.lab.decisions.cards import folded, lines_of
from mew_lab.protocol.visible import visible
from mew_lab.views.approvals.model import argument, compare_lines, mark

TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)), max_size=60)


def test_what_is_short_stands_there_whole_and_equal_values_have_one_key() -> None:
    one, two, other = argument("a", '"x"'), argument("b", '"x"'), argument("a", '"y"')
    assert (one["name"], one["text"], "folded" in one) == ("a", '"x"', False)
    assert one["key"] == two["key"] != other["key"]


@pytest.mark.threat(16)
@pytest.mark.parametrize(
    ("pointer", "value", "routine"),
    [
        ("/payload/id", "i" * 200, True),
        ("/payload/id", "i" * 600, False),  # it is folded
        ("/payload/method", "tools/call", True),
        ("/payload/method", "m" * 39, False),  # the title cuts it
        ("/payload/jsonrpc", "2.0", True),
        ("/payload/jsonrpc", "1.0", False),
        ("/to", ["git"], True),
        ("/to", ["g" * 60], False),
        ("/payload/params/arguments/id", "i", False),
    ],
)
def test_threat_16_what_needs_no_reading_is_what_the_title_says_whole_and_the_requests_own_id(
    pointer: str, value: object, routine: bool
) -> None:
    assert argument(pointer, json.dumps(value))["routine"] is routine


@pytest.mark.threat(16)
@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("line\n" * 5000, "5000 lines"),
        ("x" * 600, "602 characters"),
        (list(range(300)), "300 items"),
        ({f"k{n}": n for n in range(300)}, "300 fields"),
    ],
)
def test_threat_16_what_is_folded_says_how_much_there_is(value: object, size: str) -> None:
    text = json.dumps(value)
    assert argument("a", text)["folded"] == size and folded([("a", text), ("b", "1")]) == {0}


def test_an_argument_is_held_against_that_of_the_last_call() -> None:
    last = {"a": '"x"', "b": '"a\\u202eb"'}
    assert mark("a", '"x"', last) == ["same", ""]
    assert mark("c", "1", last) == ["new", ""]
    assert mark("a", '"y"', last) == ["differs", '"x"']


def test_a_difference_is_told_line_by_line_and_what_is_equal_and_far_is_counted() -> None:
    was, now = "a\nb\nc\nd\ne\nf\nold", "a\nb\nc\nd\ne\nf\nnew"
    assert compare_lines(json.dumps(was), json.dumps(now)) == [
        [" ", '"a\\n'],
        ["…", "4 equal lines"],
        [" ", "f\\n"],
        ["-", 'old"'],
        ["+", 'new"'],
    ]
    assert compare_lines('"x"', "3") == [["-", '"x"'], ["+", "3"]]


@pytest.mark.threat(17)
@given(was=TEXT, now=TEXT)
def test_threat_17_a_difference_loses_nothing_of_the_new_value_and_hides_nothing(was: str, now: str) -> None:
    rows = compare_lines(json.dumps(was, ensure_ascii=False), json.dumps(now, ensure_ascii=False))
    assert all(text == visible(text) for _, text in rows)
    if not any(sign == "…" for sign, _ in rows):
        assert [text for sign, text in rows if sign != "-"] == lines_of(json.dumps(now, ensure_ascii=False))


@pytest.mark.threat(9)
def test_threat_09_what_is_too_long_to_compare_is_not_compared() -> None:
    began = time.process_time()
    assert compare_lines(json.dumps("ab\n" * 100_000), json.dumps("ba\n" * 100_000)) == []
    assert compare_lines(json.dumps("a" * 1000), json.dumps("b")) == []
    assert time.process_time() - began < 5
