"""An agent file in a lab: seated by one verb, called by others, tested as it is served, read again, and gone again."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest

import mew_lab
from mew_lab.agent.models import ScriptedModel
from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.tools_agent_seat import ToolsAgentSeat, replay_call, run_tool
from mew_lab.log.log import open_log
from mew_lab.protocol.token import Token, forget
from mew_lab.settings.documents import write_yaml
from mew_lab.tools_agent.agent_file import read_agent_file, write_first_file

ODD = str(Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py")
TOOL = {
    "name": "change",
    "description": "Changes something.",
    "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
    "prompt": "Please change {what}.",
}
SCRIPT = [
    {"when": "change {what}", "replies": [
        {"call": "odd/change", "why": "I change it."}, {"say": "{what}: {observation}"},
    ]},
]  # fmt: skip


def document(**more: Any) -> dict[str, Any]:
    server = {"command": sys.executable, "args": [ODD], "serverToolDefaults": {"permissionRequired": False}}
    metadata = {"name": "Work shop", "mode": "tools", "tools": [TOOL], **more.pop("metadata", {})}
    return {"metadata": metadata, "settings": {"model": "offline"}, "mcpServers": {"odd": server}, **more}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[mew_lab.Lab]:
    monkeypatch.chdir(tmp_path)
    made = mew_lab.up("tools-agents-test", journal=None)
    yield made
    made.down()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.yaml"
    path.write_text(write_yaml(document()), encoding="utf-8")
    return path


def model() -> ScriptedModel:
    return ScriptedModel(SCRIPT)


def test_an_agent_file_is_seated_with_its_servers_and_called_by_everybody(
    lab: mew_lab.Lab, file: Path
) -> None:
    seat = lab.tools_agent(file, model=model())
    assert isinstance(seat, ToolsAgentSeat) and seat.name == "Work-shop" and seat.servers == ("odd",)
    assert [row.tool for row in lab.tools("Work-shop")] == ["Work-shop/change"]
    assert lab.call("Work-shop/change", what="the oil").result(timeout=30).text == "the oil: changed"
    visitor = lab.join("visitor", can=[{"kind": "mcp/request"}])
    assert visitor.call("Work-shop/change", what="a lamp").result(timeout=30).text == "a lamp: changed"


def test_a_test_shows_the_history_and_the_answer_of_the_call(lab: mew_lab.Lab, file: Path) -> None:
    seat = lab.tools_agent(file, model=model())
    run = seat.test("change", what="the oil")
    (row,) = run
    assert (row.tool, row.arguments, row.answer) == ("odd/change", "{}", "changed")
    assert run.note == "the oil: changed" and row.message in lab.log.df.id.to_list()
    assert run.execution.prompt == "Please change the oil." and run.execution.turns == (run.note,)
    wrong = seat.test("change")
    assert wrong.note.startswith("Error: Invalid arguments for change: ") and not wrong.rows
    with pytest.raises(ConfigError, match="Unknown tool: other"):
        seat.test("other")
    history = seat.history()
    assert [(row.tool, row.state, row.calls) for row in history] == [
        ("change", "answered", "odd/change"), ("change", "error", ""),
    ]  # fmt: skip
    assert pandas.DataFrame(history).context[0] == run.execution.context


def test_a_call_of_the_log_is_made_again_and_a_change_of_its_tool_is_told(
    lab: mew_lab.Lab, file: Path, tmp_path: Path
) -> None:
    seat = lab.tools_agent(file, model=model())
    lab.call("Work-shop/change", what="the oil").result(timeout=30)
    request = seat.history()[0].request
    again = seat.replay(request)
    assert again.execution.arguments == {"what": "the oil"} and again.recorded.caller == "human"
    assert again.note.startswith("the oil: changed\nThe tool is the same as then: hash ")
    assert again.note.endswith("The answer then: the oil: changed")
    # From a saved log, with the file as it is now.
    lab.save(tmp_path / "then.jsonl")
    changed = document(metadata={"version": "2.0.0", "tools": [{**TOOL, "prompt": "Do change {what}."}]})
    file.write_text(write_yaml(changed), encoding="utf-8")
    later = replay_call(
        lab.loop,
        read_agent_file(file),
        open_log(tmp_path / "then.jsonl"),
        request,
        folder=tmp_path,
        model=model(),
    )
    assert later.execution.prompt == "Do change the oil."
    assert re.search(
        r"has changed since: version 0.0.0, hash (\w+) then, version 2.0.0, hash (?!\1)\w+ now", later.note
    )


def test_a_secret_is_masked_in_the_answer_of_then(lab: mew_lab.Lab, file: Path) -> None:
    seat = lab.tools_agent(file, model=model())
    said = "a lamp of the year 1911"
    lab.call("Work-shop/change", what=said).result(timeout=30)
    secret = Token(said)  # it is known as a secret only now
    try:
        note = seat.replay(seat.history()[0].request).note
    finally:
        forget(secret)
    assert "The answer then: " in note and said not in note


def test_what_cannot_be_made_again_is_told(lab: mew_lab.Lab, file: Path) -> None:
    seat = lab.tools_agent(file, model=model())
    (row,) = seat.test("change", what="x")
    welcome = lab.log.df[lab.log.df.kind == "system/welcome"].id.iloc[0]
    for id, words in {
        welcome: "no request",
        "none\u202e": r"no request none\\u202e",
        row.message: "was a call of odd/change, not of Work-shop",
    }.items():
        with pytest.raises(ConfigError, match=words):
            seat.replay(id)
    proposal = lab.join("bot", can="proposer").call("Work-shop/change", what="a lamp")
    with pytest.raises(ConfigError, match="is a proposal, and nobody approved it"):
        seat.replay(proposal.id)
    lab.approve(proposal, digest=lab.decisions.pending()[0].digest)
    proposal.result(timeout=30)
    with pytest.raises(ConfigError, match="is a proposal, and it was approved by the request ") as fault:
        seat.replay(proposal.id)
    request = str(fault.value).split("the request ")[1].split(";")[0]
    assert seat.replay(request).note.startswith("a lamp: changed")


def test_a_file_is_tested_without_a_space_of_its_own_as_it_is_served(lab: mew_lab.Lab, file: Path) -> None:
    agent = read_agent_file(file)
    run = run_tool(lab.loop, agent, "change", {"what": "the oil"}, folder=file.parent, model=model())
    assert run.note == "the oil: changed" and [row.tool for row in run] == ["odd/change"]
    assert "odd" not in lab.seats


def test_the_file_is_read_again_when_the_cell_runs_again(lab: mew_lab.Lab, file: Path) -> None:
    seat = lab.tools_agent(file, model=model())
    file.write_text(write_yaml(document(metadata={"tools": [TOOL, {**TOOL, "name": "mend"}]})))
    assert lab.tools_agent(file) is seat
    assert [row.tool for row in lab.tools("Work-shop")] == ["Work-shop/change", "Work-shop/mend"]
    file.write_text("metadata: {name: ")
    with pytest.raises(ConfigError, match="line 1"):
        seat.reload()
    assert lab.call("Work-shop/mend", what="x").result(timeout=30).text == "x: changed"


def test_when_the_agent_leaves_so_do_the_servers_that_it_brought(lab: mew_lab.Lab, file: Path) -> None:
    lab.tools_agent(file, model=model())
    lab.leave("Work-shop")
    assert set(lab.seats) == {"human"}
    lab.bridge("odd", [sys.executable, ODD])
    seat = lab.tools_agent(file, model=model(), name="second")
    assert seat.servers == ()  # the participant of that name takes its place
    assert seat.test("change", what="x").note == "x: changed"
    lab.leave("second")
    assert set(lab.seats) == {"human", "odd"}


def test_it_may_call_its_own_servers_and_only_propose_to_others(lab: mew_lab.Lab, file: Path) -> None:
    @lab.tool
    def erase() -> str:
        """Erases everything."""
        return "erased"

    asks = [{"when": "change", "replies": [{"call": "notebook/erase"}, {"say": "It says: {observation}"}]}]
    seat = lab.tools_agent(file, model=ScriptedModel(asks))
    run = seat.test("change", what="x")
    assert "not permitted to request that" in run.note or "there is no tool notebook/erase" in run.note


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"mode": "interactive"}}, "only an agent of mode tools"),
        ({"supervisors": [{"name": "guard"}]}, "supervisors"),
        ({"mcpServers": {"bad": {"command": sys.executable, "args": [ODD, "exit"]}}}, "bad"),
        ({"mcpServers": {"s": {"command": "x", "env": {"A": "${NOT_SET_HERE}"}}}}, "NOT_SET_HERE"),
    ],
)
def test_an_agent_that_cannot_be_seated_leaves_nothing(
    lab: mew_lab.Lab, file: Path, change: dict[str, Any], words: str
) -> None:
    file.write_text(write_yaml(document(**change)))
    with pytest.raises(MewError, match=words):
        lab.tools_agent(file, model=model())
    assert set(lab.seats) == {"human"}
    file.write_text(write_yaml(document()))
    assert lab.tools_agent(file, model=model()).test("change", what="x").note == "x: changed"


def test_a_new_file_is_an_agent_without_faults_and_replaces_none(tmp_path: Path) -> None:
    agent = write_first_file(tmp_path / "word book.yaml")
    assert (agent.name, agent.mode, [tool.name for tool in agent.tools]) == (
        "word book",
        "tools",
        ["explain"],
    )
    with pytest.raises(ConfigError, match="is there already"):
        write_first_file(tmp_path / "word book.yaml")
