"""The tools of everybody as one participant may use them: found, judged before sending, and followed to the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.lab import Lab
from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.tools_agent.definition import AgentDefinition, ToolDefinition
from mew_lab.views.tools.model import ToolCatalog, find_tools, read_arguments
from mew_lab.views.tools.runs import ToolRun

from ...lab.looking import approve


class Opened:
    """A catalog of `seat`, and a thread's way to wait for it."""

    def __init__(self, lab: Lab, seat: str = "human") -> None:
        self.lab = lab
        self.catalog = ToolCatalog(lab.seats[seat].participant, following=lab.following)
        self.changed = threading.Condition()
        self.catalog.changed.add(self._note)
        self.run(self.catalog.open())

    def _note(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def run(self, work: Any) -> Any:
        return self.lab.loop.run(work, timeout=10, doing="a test")

    def until(self, probe: Callable[[], Any]) -> Any:
        end = time.monotonic() + 20
        with self.changed:
            while not (value := probe()):
                assert time.monotonic() < end, f"never: {self.catalog.listed} {self.catalog.runs.all}"
                self.changed.wait(0.1)
        return value

    def state(self, name: str) -> str:
        return next((one.state for one in self.catalog.listed.people if one.name == name), "absent")

    def ended(self, number: int) -> ToolRun:
        def probe() -> ToolRun | None:
            run = next(one for one in self.catalog.runs.all if one.number == number)
            return run if not run.waits and run.answer_seq >= 0 else None

        found: ToolRun = self.until(probe)
        return found


@pytest.fixture
def opened(lab: Lab, adding: Any) -> Iterator[Opened]:
    one = Opened(lab)
    one.until(lambda: one.catalog.tool("notebook/add"))
    yield one
    one.run(one.catalog.close())


def test_every_participants_tools_are_found_and_its_state_is_told(lab: Lab, opened: Opened) -> None:
    assert opened.state("notebook") == "ready"
    lab.join("bot", can="proposer")
    opened.until(lambda: opened.state("bot") == "none")
    before = opened.catalog.listed.version
    lab.leave("notebook")
    opened.until(lambda: opened.catalog.tool("notebook/add") is None)
    assert opened.state("notebook") == "absent" and opened.catalog.listed.version > before


def test_a_tool_that_is_added_later_is_found(lab: Lab, opened: Opened) -> None:
    @lab.tool
    def double(n: int) -> int:
        "Twice."
        return 2 * n

    found = opened.until(lambda: opened.catalog.tool("notebook/double"))
    assert found.description == "Twice."


@pytest.mark.req("T-11")
def test_arguments_are_judged_before_anything_is_sent(lab: Lab, opened: Opened) -> None:
    check = opened.catalog.check("notebook/add", '{"a": 1, "b": "two", "c": 3}')
    assert {fault.path: fault.message for fault in check.faults} == {
        ("b",): "must be an integer",
        ("c",): "is not known to this tool",
    }
    assert (check.may.call, check.may.propose) == (True, True)
    before = len(lab.log)
    with pytest.raises(MewError, match=r"Cannot call notebook/add: arguments\.b must be an integer"):
        opened.run(opened.catalog.start("notebook/add", '{"a": 1, "b": "two"}', propose=False))
    with pytest.raises(MewError, match="no longer known"):
        opened.run(opened.catalog.start("notebook/gone", "{}", propose=False))
    assert len(lab.log) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [("[1]", "JSON object"), ("{", "not valid JSON"), ('{"a": NaN}', "NaN is not a JSON number"), ('{"a": 1, "a": 2}', "given twice"), ("[" * 100_000, "not valid JSON")],
)  # fmt: skip
def test_what_is_no_object_of_json_is_refused(text: str, why: str) -> None:
    with pytest.raises(MewError, match=why):
        read_arguments(text)


def test_numbers_stay_exact() -> None:
    assert read_arguments('{"n": 12345678901234567890}') == {"n": 12345678901234567890}


@pytest.mark.req("T-11")
def test_a_call_is_followed_to_its_answer_and_to_its_rows(opened: Opened) -> None:
    run = opened.run(opened.catalog.start("notebook/add", '{"a": 2, "b": 3}', propose=False))
    assert (run.kind, run.state, run.waits) == ("mcp/request", "open", True)
    done = opened.ended(run.number)
    assert (done.state, done.by, done.error, done.has_result) == ("answered", "notebook", "", True)
    assert opened.catalog.runs.result(run.number)["content"] == [{"type": "text", "text": "5"}]
    assert 0 <= done.took < 20
    rows = {row.seq: row for row in opened.lab.rows.since(0, 1000)}
    assert (rows[done.seq].kind, rows[done.seq].id) == ("mcp/request", run.id)
    assert rows[done.answer_seq].kind == "mcp/response"


def test_a_proposal_waits_for_a_human_and_names_who_approved(lab: Lab) -> None:
    lab.join("bot", can="agent")

    @lab.tool
    def add(a: int, b: int) -> int:
        return a + b

    bot = Opened(lab, "bot")
    bot.until(lambda: bot.catalog.tool("notebook/add"))
    may = bot.catalog.check("notebook/add", '{"a": 2, "b": 3}').may
    assert (may.call, may.propose) == (False, True) and "tools/call" in may.why
    with pytest.raises(MewError, match="Cannot call notebook/add"):
        bot.run(bot.catalog.start("notebook/add", '{"a": 2, "b": 3}', propose=False))
    run = bot.run(bot.catalog.start("notebook/add", '{"a": 2, "b": 3}', propose=True))
    bot.until(lambda: lab.decisions.pending())
    approve(lab, run.id)
    done = bot.ended(run.number)
    assert (done.state, done.by, done.decided is not None) == ("answered", "human", True)
    assert done.answer_seq > done.seq > 0


def test_a_rejection_is_told_with_its_reason(opened: Opened, lab: Lab) -> None:
    bot = lab.join("bot", can="agent")
    catalog = Opened(lab, "bot")
    catalog.until(lambda: catalog.catalog.tool("notebook/add"))
    run = catalog.run(catalog.catalog.start("notebook/add", '{"a": 2, "b": 3}', propose=True))
    catalog.until(lambda: lab.decisions.pending())
    lab.reject(run.id, "unsafe")
    done = catalog.ended(run.number)
    assert (done.state, done.by) == ("rejected", "human") and "unsafe" in done.error
    assert bot.name == "bot"


def test_a_proposal_can_be_withdrawn_once(opened: Opened, lab: Lab) -> None:
    run = opened.run(opened.catalog.start("notebook/add", '{"a": 2, "b": 3}', propose=True))
    said = opened.run(opened.catalog.runs.stop(run.number))
    assert said == "The proposal of notebook/add is withdrawn."
    assert opened.ended(run.number).state == "withdrawn"
    with pytest.raises(MewError, match="ended already"):
        opened.run(opened.catalog.runs.stop(run.number))


@pytest.mark.req("T-5", "T-11")
def test_the_prompt_of_an_agents_tool_is_shown_with_what_is_missing_as_its_name(opened: Opened) -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    tool = ToolDefinition("add", "Adds.", parameters, "Add {a} to {b}.")
    opened.catalog.show_prompts("notebook", AgentDefinition("adder", tools=(tool,)))
    assert opened.catalog.check("notebook/add", '{"a": 20}').preview == "Add 20 to {b}."
    assert opened.catalog.check("notebook/add", '{"a": 20, "b": 22}').preview == "Add 20 to 22."


def test_a_filled_prompt_is_shown_and_its_fault_too(opened: Opened) -> None:
    opened.catalog.previews["notebook/add"] = lambda arguments: f"add {arguments['a']} to {{b}}"
    assert opened.catalog.check("notebook/add", '{"a": 1}').preview == "add 1 to {b}"
    assert opened.catalog.check("notebook/add", "{}").preview.startswith(
        "The prompt cannot be shown: KeyError"
    )


def test_a_participant_is_asked_again_when_told_to(opened: Opened, lab: Lab) -> None:
    assert opened.run(opened.catalog.ask_again("notebook")) == "1 of 1 listed their tools; known tools: 1."
    with pytest.raises(MewError, match="is not in the space"):
        opened.run(opened.catalog.ask_again("nobody"))


def test_closed_it_tells_nothing_more(opened: Opened, lab: Lab) -> None:
    heard: list[int] = []
    opened.run(opened.catalog.close())
    opened.catalog.changed.add(lambda: heard.append(1))
    version = opened.catalog.listed.version
    lab.join("bot", can="proposer")
    lab.leave("notebook")
    assert opened.catalog.listed.version == version and heard == []


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
