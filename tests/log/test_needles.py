"""The texts that a filter needs in the line of each message that passes."""

from __future__ import annotations

import pytest

from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.needles import needles_of
from tests.log.filter_table import START

CLOCK = FilterClock(lambda: START)

NEEDED = [
    ("kind == chat", [{b'"chat'}]),
    ('kind == chat and from == "bob"', [{b'"chat'}, {b'"bob'}]),
    ('from in (alice, "bob")', [{b'"alice', b'"bob'}]),
    ("kind == chat or to == bob", [{b'"chat', b'"bob'}]),
    ('kind ~ "mcp/*"', [{b"mcp/"}]),
    ('payload.text ~ "*one?two three*"', [{b"two three"}, {b'"text'}]),
    ("payload.params.name == x", [{b'"params'}, {b'"name'}, {b'"x'}]),
    ("payload.number > 5", [{b'"number'}]),
    ("payload.list[0].name exists", [{b'"list'}, {b'"name'}]),
    ('id == "a\\"bcd"', [{b"bcd"}]),
    ('id == "\u00e9tude"', [{b"tude"}]),
    ("kind == chat or size > 3", []),
    ("not kind == chat", []),
    ("payload.name != x", []),
    ("typo", []),
    ("latency > 2s", []),
    ("verdict == accepted", []),
    ('kind == ""', []),
    ("", []),
]


@pytest.mark.parametrize(("text", "meant"), NEEDED)
def test_a_filter_needs_these_texts(text: str, meant: list[set[bytes]]) -> None:
    found = needles_of(parse_filter(text, clock=CLOCK))
    assert sorted(sorted(needle.texts) for needle in found) == sorted(map(sorted, meant))
