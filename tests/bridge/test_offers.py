"""The names of tools for MCP clients: readable, and never the same for two tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.bridge.offers import RESULT, WITHDRAW, offered_name

# Names that are made to collide: the characters of the readable form, of the separator and of the hash.
HOSTILE = st.text(st.sampled_from("ab_-.0f/é "), min_size=1, max_size=70)
PARTICIPANTS = HOSTILE.map(lambda name: name.replace("/", ""))


@pytest.mark.parametrize(
    ("participant", "tool", "name"),
    [
        ("git", "git_log", "git_git_log"),
        ("my-git", "log", "my-git_log"),
        ("calc", "a-b_c", "calc_a-b_c"),
    ],
)
def test_a_usual_name_is_readable(participant: str, tool: str, name: str) -> None:
    assert offered_name(participant, tool) == name


@given(PARTICIPANTS, HOSTILE, PARTICIPANTS, HOSTILE)
def test_two_tools_never_have_one_name(first: str, one: str, second: str, other: str) -> None:
    names = offered_name(first, one), offered_name(second, other)
    assert (names[0] == names[1]) == ((first, one) == (second, other))
    for name in names:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) and name not in (RESULT, WITHDRAW)


def test_no_tool_can_take_a_name_by_calling_itself_so() -> None:
    hashed = offered_name("a_b", "c")
    assert hashed.startswith("a_b_c--")
    participant, _, tool = hashed.partition("_")
    assert offered_name(participant, tool) != hashed
    assert offered_name("proposal", "result") != RESULT
    assert offered_name("proposal", "withdraw") != WITHDRAW
