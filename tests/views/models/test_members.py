"""The roster's model tells who is here, held back or gone, and what each says of itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from rooms import Watch

from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.protocol.permit import PROFILES
from mew_lab.views.roster.model import MemberRow, RosterModel, summarize


class Room:
    """A lab with an agent and a helper, and the model that follows it."""

    def __init__(self, lab: Lab, **seats: str) -> None:
        self.lab = lab
        for name, can in seats.items():
            lab.join(name, can=can)
        self.members = RosterModel(lab)
        self.until = Watch(lab, self.members).until

    def of(self, name: str) -> MemberRow:
        found = self.members.find(name)
        assert found is not None
        return found

    def send(self, kind: str, payload: Any, *, to: str, as_id: str | None = None) -> None:
        self.lab.send(kind, payload, to=[to], as_id=as_id)

    def presence(self, name: str, expected: str) -> None:
        self.until(lambda: (found := self.members.find(name)) and found.presence == expected)


@pytest.fixture
def room(lab: Lab) -> Room:
    return Room(lab, agent="agent", helper="proposer")


def test_who_was_here_before_is_shown_with_what_it_is_and_may_do(room: Room) -> None:
    room.until(lambda: [one.name for one in room.members.rows] == ["human", "agent", "helper"])
    human, agent, _ = room.members.rows
    assert (human.you, human.what, human.presence) == (True, "you", "here")
    assert (agent.you, agent.what, agent.ids) == (False, "seat", ("agent",))
    held = [json.loads(one) for one in agent.patterns]
    assert held == [*PROFILES["agent"]]
    assert room.until(lambda: room.of("agent").since)


def test_who_comes_and_goes_keeps_its_place(room: Room) -> None:
    room.lab.join("reader", can="observer")
    room.presence("reader", "here")
    room.lab.leave("agent")
    room.presence("agent", "left")
    assert [one.name for one in room.members.rows] == ["human", "agent", "helper", "reader"]


def test_eight_agents_that_are_here_have_eight_colours_and_each_keeps_its_own(room: Room) -> None:
    names = [f"worker-{n}" for n in range(6)]
    for name in names:
        room.lab.join(name, can="agent")
    present = ["agent", "helper", *names]
    room.until(lambda: all(room.members.find(name) for name in present))
    colours = {name: room.of(name).hue for name in present}
    assert sorted(colours.values()) == [*range(8)]
    room.lab.leave("worker-3")
    room.presence("worker-3", "left")
    room.lab.join("newcomer", can="agent")  # it gets the colour that nobody here has
    room.presence("newcomer", "here")
    assert room.of("newcomer").hue == colours["worker-3"]
    for n in range(9):  # more than there are colours: each still has one
        room.lab.join(f"late-{n}", can="agent")
        room.presence(f"late-{n}", "here")
        assert room.of(f"late-{n}").hue in range(8)
    assert {name: room.of(name).hue for name in colours} == colours


def test_a_pause_says_by_whom_why_and_until_when_and_ends_by_itself(room: Room) -> None:
    room.send("participant/pause", {"timeout_seconds": 0.4, "reason": "lunch"}, to="agent")
    room.presence("agent", "paused")
    paused = room.of("agent").paused
    assert paused is not None and paused.since is not None and paused.until is not None
    assert (paused.by, paused.reason) == ("human", "lunch")
    assert paused.until - paused.since == pytest.approx(0.4, abs=0.05)
    room.presence("agent", "here")
    assert room.of("agent").paused is None


def test_a_pause_without_end_lasts_until_somebody_resumes(room: Room) -> None:
    room.send("participant/pause", {}, to="agent")
    room.presence("agent", "paused")
    assert room.of("agent").paused is not None and room.of("agent").paused.until is None  # type: ignore[union-attr]
    assert "resume" not in room.of("agent").against
    room.send("participant/resume", {}, to="agent")
    room.presence("agent", "here")
    assert room.of("agent").against["resume"] == "It is not paused."


def test_a_shutdown_and_a_removal_are_told_apart_from_leaving(room: Room) -> None:
    room.send("participant/shutdown", {}, to="agent")
    room.presence("agent", "shut down")
    room.lab.enrol("human", can="admin")
    room.send("space/kick", {"participant_id": "helper"}, to="helper")
    room.presence("helper", "removed")


def test_who_is_invited_has_not_come_yet(room: Room) -> None:
    room.lab.enrol("reviewer", can="observer")
    room.lab.chat("anybody there?")
    room.lab.loop.call(room.members.refresh)
    room.presence("reviewer", "invited")
    assert room.of("reviewer").ids == ()


def test_the_last_status_of_each_is_kept_with_its_figures(room: Room) -> None:
    told = {
        "messages_in_context": 14,
        "tokens": 7200,
        "max_tokens": 8000,
        "status": "near_limit",
        "latency_ms": 12.5,
    }
    room.send("participant/status", {"messages_in_context": 1}, to="human", as_id="agent")
    room.send("participant/status", told | {"queue_depth": 3, "mood": "calm"}, to="human", as_id="agent")
    room.until(lambda: (one := room.members.find("agent")) and one.status and one.status.tokens == 7200)
    status = room.of("agent").status
    assert status is not None
    assert (status.messages, status.max_tokens, status.status, status.latency_ms) == (
        14,
        8000,
        "near_limit",
        12.5,
    )
    assert (status.usage, status.near_limit) == (0.9, True)
    assert dict(status.more) == {"queue_depth": "3", "mood": "calm"}


@pytest.mark.parametrize(
    "payload",
    [
        {"messages_in_context": -1, "tokens": True, "max_tokens": 0},
        {"messages_in_context": "many", "tokens": 1e300, "max_tokens": [1]},
        {"messages_in_context": 1, "status": {"a": 1}, "latency_ms": None},
    ],
)  # fmt: skip
def test_figures_that_are_none_are_not_shown(room: Room, payload: dict[str, Any]) -> None:
    client = room.lab.seats["agent"].participant.client
    room.lab.loop.call(
        lambda: client.post({"kind": "participant/status", "payload": payload | {"mark": "x"}})
    )
    room.until(lambda: (one := room.members.find("agent")) and one.status and one.status.more)
    status = room.of("agent").status
    assert status is not None and status.usage is None and not status.near_limit
    assert status.tokens is None and status.status == "" and status.latency_ms is None


def test_a_grant_changes_what_is_said_of_its_holder(room: Room) -> None:
    room.lab.loop.submit(room.lab.granting.grant("helper", [{"kind": "stream/request"}])).result(10)
    room.until(lambda: "open streams" in room.of("helper").sentence)
    assert '{"kind":"stream/request"}' in room.of("helper").patterns


def test_rows_change_only_when_something_is_different(room: Room) -> None:
    room.until(lambda: room.members.rows)
    room.lab.loop.call(room.members.refresh)
    before = room.members.rows
    told: list[int] = []
    room.members.changed.add(lambda: told.append(1))
    room.lab.loop.call(room.members.refresh)
    assert room.members.rows is before and told == []


def test_of_a_space_that_runs_elsewhere_it_tells_what_is_heard(lab: Lab) -> None:
    lab.join("agent", can="agent")
    lab.enrol("visitor", can="human")
    far = connect(lab.url, space=lab.space, token_file=lab.token_file("visitor"), name="far")
    room = Room(far)
    room.until(lambda: {one.name for one in room.members.rows} == {"visitor", "human", "agent"})
    assert room.of("visitor").you and room.of("agent").what == "elsewhere"
    far.send("participant/pause", {"timeout_seconds": 60, "reason": "tea"}, to=["agent"])
    room.presence("agent", "paused")
    assert room.of("agent").paused[:2] == ("visitor", "tea")  # type: ignore[index]
    far.send("participant/resume", {}, to=["agent"])
    room.presence("agent", "here")
    lab.leave("agent")
    room.presence("agent", "left")
    assert "chat" in room.of("agent").sentence


def test_kinds_follow_from_what_a_participant_may_send(room: Room) -> None:
    for name, can in (("git", "tool"), ("eye", "observer"), ("boss", "human"), ("root", "admin")):
        room.lab.join(name, can=can)
    room.presence("root", "here")
    kinds = {row.name: row.kind for row in room.members.rows}
    assert kinds == {
        "human": "you", "agent": "agent", "helper": "agent", "git": "tools", "eye": "other", "boss": "other",
        "root": "other",
    }  # fmt: skip


def test_the_state_tells_who_thinks_who_waits_and_who_failed(room: Room) -> None:
    @room.lab.tool
    def water(bed: str) -> str:
        if bed == "east":
            raise KeyError(bed)
        return bed

    def states() -> dict[str, str]:
        return {row.name: row.doing.state for row in room.members.rows}

    started = room.lab.send("reasoning/start", {"message": "a plan"}, as_id="agent")
    room.until(lambda: states()["agent"] == "thinking")
    assert abs(room.of("agent").doing.since - room.of("agent").since) < 60  # type: ignore[operator]
    pending = room.lab.seats["agent"].propose("notebook/water", bed="east")
    room.until(lambda: states()["agent"] == "waiting")
    assert room.of("agent").doing.about == "water"
    room.lab.approve(room.lab.proposals()[0])
    room.until(lambda: states()["agent"] == "thinking")
    room.lab.send("reasoning/conclusion", {"message": "done"}, as_id="agent", context=started.id)
    room.until(
        lambda: states() == {"human": "idle", "agent": "failed", "helper": "idle", "notebook": "failed"}
    )
    assert room.of("agent").doing.about.startswith("water: “")
    assert pending.state

    room.lab.seats["agent"].propose("notebook/water", bed="west")
    room.until(lambda: states()["agent"] == "waiting")
    room.lab.reject(room.lab.proposals()[0])
    room.until(lambda: states()["agent"] != "waiting")
    room.lab.call("notebook/water", bed="west").result(10)
    room.until(lambda: states()["notebook"] == "idle")


def test_permissions_are_a_few_words(room: Room) -> None:
    assert summarize(room.of("agent").patterns) == ("Propose", "Chat", "Reason", "Stream", "Answer calls")
    assert summarize(room.of("human").patterns)[:2] == ("Call tools", "Propose")
    narrow = '{"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"git_log"}}}'
    assert summarize((narrow,)) == ("Call some tools",)
    assert summarize(('{"kind":"mcp/request","payload":{"method":"tools/list"}}',)) == ()
    assert summarize(('{"kind":"*"}',))[-1] == "Answer calls" and summarize(()) == ()
