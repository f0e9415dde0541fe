"""The names of tools for MCP clients: readable, short enough for a client's prefix, and never the same for two tools."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.bridge import offers
from mew_lab.bridge.offers import RESULT, WITHDRAW, OfferedTools, offered_name
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.text import MAX_CLIENT_NAME
from mew_lab.sdk.discovery import DiscoveredTool

# Names that are made to collide: the characters of the readable form, of the separator and of the hash.
HOSTILE = st.text(st.sampled_from("ab_-.0f/é "), min_size=1, max_size=70)
PARTICIPANTS = HOSTILE.map(lambda name: name.replace("/", ""))
# Of names without their participant, and of those with one: each may be what the other is read as.
ALIKE = st.sampled_from(
    ["git", "git_log", "log", "calc", "calc_add", "add", "git_calc_add", RESULT, "x" * 45]
)


def tool(participant: str, name: str, description: str = "") -> DiscoveredTool:
    return DiscoveredTool(participant, name, description, {"type": "object"}, {})


def targets(tools: OfferedTools) -> dict[str, str]:
    return {name: offered.target for name, offered in tools.now.items()}


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


def test_a_long_name_says_its_participant_and_fits_behind_the_prefix_of_a_client() -> None:
    name = offered_name("github-enterprise", "add_pull_request_review_comment_to_pending_review")
    assert re.fullmatch(r"github-e_add_pull_request_review_co-[0-9a-f]{8}", name)
    assert len(f"mcp__a-server-of-a-team__{name}") > 64 >= len(f"mcp__demo__{name}")
    assert len(name) == MAX_CLIENT_NAME == 44


@given(PARTICIPANTS, HOSTILE, PARTICIPANTS, HOSTILE)
def test_two_tools_never_have_one_name(first: str, one: str, second: str, other: str) -> None:
    names = offered_name(first, one), offered_name(second, other)
    assert (names[0] == names[1]) == ((first, one) == (second, other))
    for name in names:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,44}", name) and name not in (RESULT, WITHDRAW)


SOME = st.integers(0, 2)
TOOLS = st.lists(
    st.builds(
        lambda participant, name, text, schema, hint, asks: (
            DiscoveredTool(participant, name, "d" * text, {"n": schema}, {"readOnlyHint": hint}),
            asks,
        ),
        st.sampled_from("pq"), st.sampled_from("ab"), SOME, SOME | st.just(True) | st.just(1.0), SOME, st.booleans(),
    ),
    max_size=3,
)  # fmt: skip


@given(TOOLS, st.just([]) | TOOLS, st.data())
def test_a_client_sees_a_difference_exactly_where_it_is_told_another_list(
    first: list[tuple[DiscoveredTool, bool]], second: list[tuple[DiscoveredTool, bool]], data: st.DataObject
) -> None:
    tools = OfferedTools()
    tools.put(first)
    tools.note_listed(tools.now)
    before = [tool.described() for tool in tools]
    now = list(second)
    for tool, asks in first:  # with the same description as before, or one that is equal
        now.append(
            data.draw(st.sampled_from([(tool, asks), (DiscoveredTool(*tool), asks), (tool, not asks)]))
        )
    tools.put(now)
    assert tools.take_change() == (not are_equal(before, [tool.described() for tool in tools]))
    for same in (now, [(DiscoveredTool(*tool), asks) for tool, asks in now]):
        tools.put(same)
        assert not tools.take_change()


def test_tools_that_are_the_same_as_before_are_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []

    def note(tool: offers.OfferedTool) -> dict[str, Any]:
        described.append(tool.name)
        return {"name": tool.name, "asks": tool.asks}

    monkeypatch.setattr(offers.OfferedTool, "described", note)
    known = [DiscoveredTool("p", f"t{number}", "", {}, {}) for number in range(500)]
    tools = OfferedTools()
    tools.put((tool, True) for tool in known)
    tools.note_listed(tools.now)
    tools.put((tool, True) for tool in known)
    assert not tools.take_change() and described == []
    tools.put((tool, False) for tool in known)
    assert tools.take_change() and described


def test_no_tool_can_take_a_name_by_calling_itself_so() -> None:
    hashed = offered_name("a_b", "c")
    assert re.fullmatch(r"a_b_c-[0-9a-f]{8}", hashed)
    participant, _, name = hashed.partition("_")
    assert offered_name(participant, name) != hashed
    assert offered_name("proposal", "result") != RESULT
    assert offered_name("proposal", "withdraw") != WITHDRAW


def test_one_participant_may_have_its_names_without_itself() -> None:
    tools = OfferedTools(bare="git")
    tools.put([(tool("git", "git_log"), False), (tool("calc", "git_log"), False)])
    assert targets(tools) == {"git_log": "git/git_log", "calc_git_log": "calc/git_log"}


@given(st.lists(st.lists(st.tuples(ALIKE, ALIKE), max_size=8), max_size=6), ALIKE)
def test_a_name_means_one_tool_for_the_whole_life_of_a_gate(
    lists: list[list[tuple[str, str]]], bare: str
) -> None:
    tools, meant = OfferedTools(bare=bare), dict[str, str]()
    for pairs in lists:
        tools.put([(tool(*pair), False) for pair in dict.fromkeys(pairs)])
        assert sorted(targets(tools).values()) == sorted({f"{who}/{name}" for who, name in pairs})
        for name, target in targets(tools).items():
            assert meant.setdefault(name, target) == target
            assert len(name) <= MAX_CLIENT_NAME and name not in (RESULT, WITHDRAW)


def test_a_bare_name_takes_no_name_of_another() -> None:
    tools = OfferedTools(bare="git")
    tools.put([(tool("git", "calc_add"), False), (tool("calc", "add"), False)])
    assert targets(tools)["calc_add"] == "calc/add" and "git/calc_add" in targets(tools).values()
    # It keeps a bare name that it had before another came whose tool would read so.
    tools = OfferedTools(bare="git")
    tools.put([(tool("git", "calc_add"), False)])
    tools.put([(tool("git", "calc_add"), False), (tool("calc", "add"), False)])
    assert targets(tools)["calc_add"] == "git/calc_add" and "calc/add" in targets(tools).values()


def test_a_tool_that_found_the_hash_of_another_gets_neither_its_name_nor_its_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offers, "client_names", lambda *names, bare: ("files_read-0badc0de",))
    reports: list[str] = []
    tools = OfferedTools(report=lambda who, text: reports.append(text))
    tools.put([(tool("files-of-ann", "read"), False)])
    tools.put([(tool("files-of-ann", "read"), False), (tool("a-thief", "read"), False)])
    assert targets(tools) == {"files_read-0badc0de": "files-of-ann/read"}
    for _ in range(2):  # nor later, when it is alone
        tools.put([(tool("a-thief", "read"), False)])
        assert targets(tools) == {}
    assert reports[0] == (
        "MCP clients are not offered a-thief/read, because its name for them is that of files-of-ann/read"
    )


def test_clients_are_told_once_of_a_change_and_never_before_a_first_list() -> None:
    tools = OfferedTools()
    tools.put([(tool("calc", "add"), False)])
    assert not tools.take_change()
    first = tools.now
    tools.put([(tool("calc", "add", "another"), False)])
    tools.note_listed(first)
    assert tools.take_change() and not tools.take_change()
    tools.note_listed(first)  # of a second client, whose answer was on its way
    assert tools.take_change() and not tools.take_change()
    tools.put([(tool("git", "log"), False), (tool("calc", "add", "another"), False)])
    assert tools.take_change()
    tools.put([(tool("calc", "add", "another"), False), (tool("git", "log"), False)])
    assert not tools.take_change()


def test_a_client_that_got_an_earlier_list_is_told_once() -> None:
    tools = OfferedTools()
    tools.put([(tool("calc", "add"), False)])
    tools.note_listed(tools.now, is_other=True)
    tools.note_listed(tools.now)
    assert tools.take_change() and not tools.take_change()
