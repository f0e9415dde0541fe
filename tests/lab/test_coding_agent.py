"""A lab starts a coding agent that speaks ACP: it is a participant, and its questions are among the approvals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.lab import Lab

from ..waiting import alive, eventually

AGENT = ["python", str(Path(__file__).parents[1] / "bridge" / "acp_agent.py")]
QUESTION = {
    "toolCall": {"toolCallId": "t", "title": "mkdir shed", "rawInput": {"command": "mkdir shed"}},
    "options": [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "once", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ],
}


def test_what_you_write_to_it_is_its_prompt_and_its_question_is_a_proposal(lab: Lab) -> None:
    seat = lab.coding_agent(AGENT, "coder", mode="default")
    assert "asks by its own rules: mode default" in repr(seat)
    asked = lab.ask("coder", f"ask {json.dumps(QUESTION)}")
    [proposal] = eventually(lambda: lab.proposals() or None)
    assert "mkdir shed" in str(proposal)
    lab.approve(proposal)
    assert json.loads(str(asked.result(timeout=20))) == {"outcome": "selected", "optionId": "once"}
    asked = lab.ask("coder", f"ask {json.dumps(QUESTION)}")
    [proposal] = eventually(lambda: lab.proposals() or None)
    lab.reject(proposal)
    assert json.loads(str(asked.result(timeout=20))) == {"outcome": "selected", "optionId": "no"}


def test_a_change_of_mode_that_somebody_proposes_is_a_card_that_says_what_it_means(lab: Lab) -> None:
    seat = lab.coding_agent(AGENT, "coder", mode="default")
    other = lab.join("helper")
    other.propose("coder/set_mode", {"mode": "yolo"})
    [proposal] = eventually(lambda: lab.proposals() or None)
    text = str(proposal)
    assert "! mode yolo is not known to ask" in text
    assert "mode: default now, yolo after; in its words: “Yolo”" in text
    lab.approve(proposal)
    eventually(lambda: seat.bridge.mode == "yolo")
    other.propose("coder/set_mode", {"mode": "default"})
    [proposal] = eventually(lambda: lab.proposals() or None)
    assert "mode: yolo now, default after" in str(proposal)


def test_a_change_of_an_option_that_somebody_proposes_says_what_is_now_and_what_after(lab: Lab) -> None:
    seat = lab.coding_agent([*AGENT, "config"], "coder", mode="default")
    lab.join("helper").propose("coder/set_config_option", {"option": "model", "value": "large"})
    [proposal] = eventually(lambda: lab.proposals() or None)
    assert "option model: small now, large after; in its words: “Large”" in str(proposal)
    assert "! " not in str(proposal)
    lab.approve(proposal)
    eventually(lambda: seat.bridge.config == {"model": "large"})


def test_the_foot_of_its_card_says_in_which_mode_it_asks(lab: Lab) -> None:
    lab.coding_agent(AGENT, "coder", mode="default")
    lab.ask("coder", f"ask {json.dumps(QUESTION)}")
    [proposal] = eventually(lambda: lab.proposals() or None)
    assert (
        "coder asks by its own rules: mode default; what it does not ask about runs with your rights"
        in str(proposal)
    )
    lab.reject(proposal)


def test_a_write_is_a_card_with_its_difference_and_without_a_warning(lab: Lab, tmp_path: Path) -> None:
    """A usual write warns of nothing, else nobody would read the warnings that matter."""
    (tmp_path / "plan.txt").write_text("beans\npeas\n")
    lab.coding_agent(AGENT, "coder", cwd=tmp_path, files=tmp_path)
    params = {"path": str(tmp_path / "plan.txt"), "content": "beans\nleeks\n"}
    asked = lab.ask("coder", f"client fs/write_text_file {json.dumps(params)}")
    [proposal] = eventually(lambda: lab.proposals() or None)
    text = str(proposal)
    assert "! " not in text and "plan.txt" in text and "leeks" in text
    lab.approve(proposal)
    assert str(asked.result(timeout=20)) == "{}"
    assert (tmp_path / "plan.txt").read_text() == "beans\nleeks\n"


def test_it_is_cancelled_and_leaves_with_its_process(lab: Lab) -> None:
    seat = lab.coding_agent([*AGENT, "sessions"], "coder")
    assert [row[0] for row in seat.sessions()] == ["old"]
    lab.ask("coder", "wait")
    eventually(lambda: seat.bridge.busy)
    assert "cancelled" in str(seat.cancel())
    eventually(lambda: not seat.bridge.busy)
    pid = seat.bridge.pid
    lab.leave("coder")
    assert not alive(pid) and "coder" not in lab.seats


def test_going_down_ends_its_process(lab: Lab) -> None:
    pid = lab.coding_agent(AGENT, "coder").bridge.pid
    lab.down()
    assert not alive(pid)


def test_a_name_that_is_taken_starts_nothing(lab: Lab) -> None:
    lab.join("coder")
    with pytest.raises(MewError, match="already exists"):
        lab.coding_agent(AGENT, "coder")


def test_it_uses_the_tools_of_the_space_by_a_gate_that_ends_with_it(lab: Lab) -> None:
    @lab.tool
    def water() -> str:
        "Waters the beans."
        return "watered"

    seat = lab.coding_agent([*AGENT, "http"], "coder", tools=True)
    gate = seat.gate
    assert gate is not None
    asked = lab.ask("coder", "use water")
    [proposal] = eventually(lambda: lab.proposals() or None)
    lab.approve(proposal)
    assert str(asked.result(timeout=40)) == "watered"
    token = gate.token_file.read_text().strip()
    lab.leave("coder")
    assert "coder-tools" not in lab.seats and not gate.token_file.exists()
    assert not any(token in str(record.raw) for record in lab.log.held)


def test_what_was_said_before_in_its_session_is_listed_and_nothing_of_it_is_sent(lab: Lab) -> None:
    seat = lab.coding_agent(AGENT, "coder", session="old")
    assert [tuple(row) for row in seat.history][:2] == [("user", "What is here?"), ("agent", "A garden.")]
    assert "<b>\\u202e" in str(seat.history)
    assert "garden" not in lab.log.df.to_string()
    assert len(lab.coding_agent(AGENT, "other").history) == 0
