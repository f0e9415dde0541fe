"""The names of tools for MCP clients: readable, and never the same for two tools."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.bridge.offers import RESULT, WITHDRAW, OfferedTool, OfferedTools, offered_name
from mew_lab.protocol.difference import are_equal
from mew_lab.sdk.discovery import DiscoveredTool

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


SOME = st.integers(0, 2)
TOOLS = st.lists(
    st.builds(
        lambda participant, name, text, schema, hint, asks: OfferedTool(
            offered_name(participant, name),
            DiscoveredTool(participant, name, "d" * text, {"n": schema}, {"readOnlyHint": hint}),
            asks,
        ),
        st.sampled_from("pq"), st.sampled_from("ab"), SOME, SOME | st.just(True) | st.just(1.0), SOME, st.booleans(),
    ),
    max_size=3,
)  # fmt: skip


@given(TOOLS, st.just([]) | TOOLS, st.data())
def test_a_client_sees_a_difference_exactly_where_it_is_told_another_list(
    first: list[OfferedTool], second: list[OfferedTool], data: st.DataObject
) -> None:
    tools = OfferedTools()
    tools.put(first)
    before = [tool.described() for tool in tools]
    now = list(second)
    for tool in first:  # with the same description as before, or one that is equal
        copy = tool._replace(tool=DiscoveredTool(*tool.tool))
        now.append(data.draw(st.sampled_from([tool, copy, tool._replace(asks=not tool.asks)])))
    assert tools.put(now) == (not are_equal(before, [tool.described() for tool in tools]))
    again = [tool._replace(tool=DiscoveredTool(*tool.tool)) for tool in now]
    assert not tools.put(now) and not tools.put(again)


def test_tools_that_are_the_same_as_before_are_not_described() -> None:
    described: list[str] = []

    class Noting(OfferedTool):
        def described(self) -> dict[str, Any]:
            described.append(self.name)
            return super().described()

    known = [DiscoveredTool("p", f"t{number}", "", {}, {}) for number in range(500)]
    tools = OfferedTools()
    tools.put(Noting(tool.name, tool, True) for tool in known)
    assert not tools.put(Noting(tool.name, tool, True) for tool in known) and described == []
    assert tools.put(Noting(tool.name, tool, False) for tool in known) and described


def test_no_tool_can_take_a_name_by_calling_itself_so() -> None:
    hashed = offered_name("a_b", "c")
    assert hashed.startswith("a_b_c--")
    participant, _, tool = hashed.partition("_")
    assert offered_name(participant, tool) != hashed
    assert offered_name("proposal", "result") != RESULT
    assert offered_name("proposal", "withdraw") != WITHDRAW
