"""An agent held from ordinary code: seated, asked, steered, looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mew_lab
from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.agent_seat import AgentSeat, as_agent_seat
from mew_lab.lab.decisions.policies import Policy

from .looking import click


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[mew_lab.Lab]:
    monkeypatch.chdir(tmp_path)
    made = mew_lab.up("agents-test", journal=None)
    yield made
    made.down()


@pytest.fixture
def helper(lab: mew_lab.Lab) -> AgentSeat:
    @lab.tool
    def weather_of(city: str) -> str:
        """The weather of a city."""
        return f"{city}: 22 degrees"

    return lab.agent("helper", model="offline")


def waiting(lab: mew_lab.Lab) -> list[tuple[Any, ...]]:
    """The proposals, once there are some; fails after ten seconds."""
    deadline = time.monotonic() + 10
    while not (rows := list(lab.proposals())):
        assert time.monotonic() < deadline, "nothing was proposed"
        time.sleep(0.01)
    return rows


def test_an_agent_is_asked_and_its_answer_awaited(lab: mew_lab.Lab, helper: AgentSeat) -> None:
    lab.decide = Policy.approve()
    answer = lab.ask("helper", "What is the weather in Tokyo?")
    assert answer.kind == "chat"
    assert "22 degrees" in str(answer.result(timeout=30))
    assert answer.by == "helper"
    assert [row[3] for row in lab.history()] == ["approved"]


def test_an_agent_goes_on_with_what_came_of_an_edited_proposal_and_does_not_answer_the_note(
    lab: mew_lab.Lab, helper: AgentSeat
) -> None:
    answer = lab.ask("helper", "What is the weather in Tokyo?")
    id = waiting(lab)[0][0]
    edit = lab.loop.call(lambda: lab.decisions.editing.review(id, [{"index": 0, "text": "Osaka"}]))
    click(lab, id, edit.digest)
    assert "Osaka: 22 degrees" in str(answer.result(timeout=30))
    again = lab.ask("helper", "What is the weather in Kyoto?")
    lab.reject(waiting(lab)[0][0])
    again.result(timeout=30)
    told = [one for one in lab.log if one["kind"] == "chat"]
    assert sum(one["from"] == "human" for one in told) == 3
    assert sum(one["from"] == "helper" for one in told) == 2, "one answer a question"


def test_an_agent_may_only_propose_unless_more_is_given(lab: mew_lab.Lab, helper: AgentSeat) -> None:
    answer = lab.ask("helper", "What is the weather in Tokyo?")
    rows = waiting(lab)
    assert [(row[1], row[2]) for row in rows] == [("helper", "notebook")]
    lab.reject(rows[0][0], "unsafe")
    assert "22 degrees" not in str(answer.result(timeout=30))


def test_it_stops_starts_and_tells_how_it_fares(lab: mew_lab.Lab, helper: AgentSeat) -> None:
    facts = dict(helper.status())
    assert facts["state"] == "ready" and facts["may"] == "propose calls" and facts["working on"] == 0
    assert [row[:2] for row in lab.agents()] == [("helper", "ready")]
    assert "stopped" in str(helper.stop())
    assert dict(helper.status())["state"] == "disconnected"
    assert "ready" in str(helper.start())
    lab.decide = Policy.approve()
    assert "22 degrees" in str(lab.ask("helper", "What is the weather in Tokyo?").result(timeout=30))


def test_options_are_set_while_it_runs_and_bad_ones_change_nothing(
    lab: mew_lab.Lab, helper: AgentSeat
) -> None:
    helper.configure(system_prompt="Be brief.")
    assert helper.options.system_prompt == "Be brief."
    with pytest.raises(ConfigError, match="max_iterations"):
        helper.configure(system_prompt="x", max_iteration=3)
    assert helper.options.system_prompt == "Be brief."


def test_what_cannot_be_leaves_nobody_behind(lab: mew_lab.Lab) -> None:
    with pytest.raises(ConfigError):
        lab.agent("helper", model="offline", max_iterations=0)
    with pytest.raises(ConfigError, match="model"):
        lab.agent("helper", base_url="http://127.0.0.1:1/v1")
    assert "helper" not in lab.seats
    lab.agent("helper", model="offline")
    with pytest.raises(MewError, match="already exists"):
        lab.agent("helper", model="offline")
    lab.leave("helper")
    assert "helper" not in lab.seats and not lab.agents()


def test_a_model_of_a_word_ends_with_its_agent_and_a_given_one_is_its_givers(lab: mew_lab.Lab) -> None:
    given = mew_lab.OfflineModel()
    assert not lab.agent("first", model=given).agent.owns_model
    assert lab.agent("second").agent.owns_model


def test_a_seat_that_is_no_agent_is_called_so(lab: mew_lab.Lab) -> None:
    lab.join("bot")
    with pytest.raises(MewError, match="seats an agent"):
        as_agent_seat(lab.seat("bot"))


def test_a_request_that_has_not_ended_is_not_called_cancelled(
    lab: mew_lab.Lab, helper: AgentSeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.ask("helper", "What is the weather in Tokyo?")
    waiting(lab)
    monkeypatch.setattr("mew_lab.agent.agent.ENDS_WITHIN", 0.0)
    assert str(helper.cancel()) == "helper: 0 requests cancelled, 1 still ending"


def test_cancelling_takes_its_proposal_back(lab: mew_lab.Lab, helper: AgentSeat) -> None:
    answer = lab.ask("helper", "What is the weather in Tokyo?")
    waiting(lab)
    assert "1 request cancelled" in str(helper.cancel())
    assert list(lab.proposals()) == []
    assert answer.result(timeout=30) == "Stopped: cancelled."
