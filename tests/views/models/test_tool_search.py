"""A few words find the tool that was meant, best first."""

from __future__ import annotations

from typing import Any

from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.views.tools.model import find_tools, words_of


def tool(target: str, about: str = "", **properties: Any) -> DiscoveredTool:
    participant, _, name = target.partition("/")
    return DiscoveredTool(participant, name, about, {"type": "object", "properties": properties}, {})


TOOLS = [
    tool("calendar/list_events", "Shows what a log of the day holds."),
    tool("files/search", "Finds text in files.", path={}, log={}),
    tool("git/git_log", "Shows the last commits.", repo_path={}, max_count={}),
    tool("git/git_show", "Shows one commit."),
    tool("logbook/write", "Writes a line."),
]


def names(query: str) -> list[str]:
    return [f"{one.participant}/{one.name}" for one in find_tools(TOOLS, query)]


def test_without_a_word_all_come_as_they_stand() -> None:
    assert find_tools(TOOLS, "  ") == TOOLS


def test_a_name_counts_more_than_a_participant_an_argument_or_a_description() -> None:
    assert names("log") == ["git/git_log", "logbook/write", "files/search", "calendar/list_events"]


def test_all_words_must_stand_somewhere_in_any_case() -> None:
    assert names("SHOWS commit") == ["git/git_log", "git/git_show"]
    assert names("git repo_path") == ["git/git_log"]
    assert names("git nothing") == []


def test_the_whole_target_finds_that_tool_first() -> None:
    assert names("git/git_show")[0] == "git/git_show"


def test_a_query_is_bounded() -> None:
    assert len(words_of("a " * 1000)) == 8
    assert len("".join(words_of("x" * 10_000))) == 200
