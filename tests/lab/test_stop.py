"""One stop for everything that a lab sets going, and the way on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.errors import MewError, NotApproved, OutcomeUnknown
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import close_all, connect, up
from mew_lab.ledger.unknown_calls import has_effect

from ..waiting import eventually


class Room:
    """A lab with a tool that never ends, a proposer that is an agent, and one that controls others."""

    def __init__(self) -> None:
        self.lab = up(journal=None)
        self.git = self.lab.join("git", can="tool")
        self.git.participant.register_method("tools/call", self._run)
        self.coder = self.lab.join("coder", can="agent")
        self.carol = self.lab.join("carol", can="human")
        self.running = 0

    async def _run(self, params: Any) -> dict[str, Any]:
        self.running += 1
        await asyncio.Event().wait()
        return {}

    def click(self) -> str:
        """Approves the first open card by a click in a view that shows it."""
        decisions = self.lab.decisions
        for card in decisions.pending():
            decisions.record_shown(card.id, view="v", digest=card.digest)
            click = decisions.click("v")
            return decisions.decide(card.id, digest=card.digest, decision="approve", click=click).result(20)
        return ""

    def type(self) -> str:
        """Approves the first open card by a typed id, after the whole of it was shown."""
        for card in self.lab.decisions.pending():
            with contextlib.suppress(NotApproved):
                self.lab.approve(card.id)
            return str(self.lab.approve(card.id))
        return ""

    def sent(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.lab.log if one.get("kind") == kind]


@pytest.fixture
def room() -> Room:
    return Room()


def requests(lab: Lab) -> list[dict[str, Any]]:
    """The requests of this lab that may have an effect, in the order of the space."""
    found = [one for one in lab.log if one.get("kind") == "mcp/request"]
    return [one for one in found if has_effect(one["payload"].get("method", "")) and one["from"] in lab.seats]


def test_a_stop_acts_in_its_order_and_says_what_was_seen(room: Room) -> None:
    lab = room.lab
    lab.decide = Policy("careful", lambda card: None)
    own, proposed = lab.call("git/push"), room.coder.propose("git/pull")
    eventually(lambda: room.running and lab.proposals())
    report = lab.stop()
    assert [what for what, _ in report] == [
        "rules", "policy", "cards", "call git/push", "agent coder",
    ]  # fmt: skip
    seen = dict(report)
    assert seen["policy"] == "“careful” decides nothing"
    assert seen["cards"].startswith("1 open proposal cannot be approved")
    assert (
        seen["call git/push"].startswith("asked to stop by human; ") and "not known" in seen["call git/push"]
    )
    assert seen["agent coder"] == "coder is paused until it is resumed"
    assert str(report).startswith("Stopped by human at ")
    kinds = [
        one["kind"]
        for one in lab.log
        if one["kind"] == "participant/pause" or one["payload"].get("method") == "notifications/cancelled"
    ]
    assert kinds == ["mcp/request", "participant/pause"]
    with pytest.raises(OutcomeUnknown):
        own.result(timeout=10)
    assert proposed.state == "open"


@pytest.mark.parametrize("how", ["click", "type"])
def test_while_stopped_nothing_is_approved_and_the_sentence_says_since_when_by_whom_and_what_helps(
    room: Room, how: str
) -> None:
    room.carol.propose("git/pull")
    eventually(room.lab.proposals)
    stopped = str(room.lab.stop()).split("\n", 1)[0]
    with pytest.raises(NotApproved) as told:
        getattr(room, how)()
    assert told.value.code == "stopped"
    assert f"not approved, because this lab was s{stopped[1:]}; lab.go()" in str(told.value)
    assert not requests(room.lab)


def test_while_stopped_a_card_is_rejected_and_a_proposal_withdrawn_and_a_call_cancelled(room: Room) -> None:
    lab, carol = room.lab, room.carol
    lab.stop()
    first, second = carol.propose("git/pull"), carol.propose("git/pull")
    eventually(lambda: len(lab.proposals()) == 2)
    assert str(lab.reject(first.id)).startswith("Rejected")
    assert str(lab.withdraw(second.id))
    eventually(lambda: (first.state, second.state) == ("rejected", "withdrawn"))


def test_while_stopped_no_seat_of_the_lab_calls_and_reading_still_works(room: Room) -> None:
    lab = room.lab
    lab.stop()
    payload = {"method": "tools/call", "params": {"name": "push", "arguments": {}}}
    for act in (
        lambda: lab.call("git/push"),
        lambda: room.carol.call("git/push"),
        lambda: lab.send("mcp/request", payload, to="git"),
    ):
        with pytest.raises(MewError, match=r"this lab was stopped by human at .*lab\.go\(\)"):
            act()
    assert lab.tools("git") is not None and str(lab.chat("still here"))
    assert not requests(lab)


def test_a_policy_decides_nothing_while_stopped_and_what_has_come_meanwhile_once_gone_on(room: Room) -> None:
    lab = room.lab
    lab.stop()
    lab.decide = Policy.approve()
    pending = room.carol.propose("git/pull")
    eventually(lab.proposals)
    assert pending.state == "open" and not requests(lab)
    listed = lab.go()
    assert dict(listed)["policy"].startswith("“approve” decides again")
    assert pending.state == "open", "the list comes before anything is undone"
    assert str(lab.go()).startswith("Going on; stopped by human at ")
    eventually(lambda: pending.state == "fulfilled")


def test_going_on_resumes_the_agents_that_the_stop_has_paused_and_no_others(room: Room) -> None:
    lab = room.lab
    lab.join("other", can="agent")
    room.carol.run(room.carol.participant.controls.pause("other"))
    lab.call("git/push")
    eventually(lambda: room.running)
    lab.stop()
    assert {"agent coder": "resumed", "calls": "1 cancelled call not made again"}.items() <= dict(
        lab.go()
    ).items()
    lab.go()
    assert [one["to"] for one in room.sent("participant/resume")] == [["coder"]]
    assert len(requests(lab)) == 1
    assert "not stopped" in str(lab.go())
    assert room.carol.participant.client.state == "ready" and str(lab.call("git/push"))


@pytest.mark.parametrize("by", ["human", "carol"])
def test_a_pause_that_was_there_has_no_end_while_the_lab_is_stopped_and_its_own_again_after(
    room: Room, by: str
) -> None:
    lab = room.lab
    lab.seat(by).run(lab.seat(by).participant.controls.pause("coder", timeout_seconds=300))
    eventually(lambda: f"paused by {by} until " in repr(lab.of("coder")))
    until = repr(lab.of("coder")).rpartition(" ")[2].rstrip(">")
    assert dict(lab.stop())["agent coder"] == "coder is paused until it is resumed"
    assert repr(lab.of("coder")).endswith("paused by human>")
    assert dict(lab.stop())["agents"] == "none was running"
    assert dict(lab.go())["agent coder"] == f"paused until {until}, as before"
    assert dict(lab.go())["agent coder"].startswith("coder is paused until ")
    ends = [one["payload"].get("timeout_seconds") for one in room.sent("participant/pause")]
    assert ends[:2] == [300, None] and 280 < ends[2] <= 300
    assert "paused by human until " in repr(lab.of("coder")) and not room.sent("participant/resume")


def test_a_pause_that_would_have_ended_while_the_lab_was_stopped_is_lifted_after(room: Room) -> None:
    lab = room.lab
    lab.me.run(lab.me.participant.controls.pause("coder", timeout_seconds=0.5))
    end = time.time() + 0.5
    lab.stop()
    eventually(lambda: time.time() > end)
    assert repr(lab.of("coder")).endswith("paused by human>")
    assert dict(lab.go())["agent coder"] == "resumed"
    assert dict(lab.go())["agent coder"] == "coder may send again"
    assert repr(lab.of("coder")).endswith("here>")


def test_what_was_seen_of_many_alike_is_one_line_that_names_them(room: Room) -> None:
    lab = room.lab
    names = [lab.join(f"worker-{n:02}", can="agent").name for n in range(15)]
    rows = dict(lab.stop())
    assert rows["16 agents"].startswith("each is paused until it is resumed (coder, worker-00, worker-01, ")
    assert dict(lab.go())["16 agents"].startswith("each resumed (coder, worker-00, ")
    assert dict(lab.go())["16 agents"].startswith("each may send again (coder, worker-00, ")
    assert not any(name in what for what in rows for name in names)


def test_a_second_stop_takes_what_has_come_since_and_keeps_when_it_began(room: Room) -> None:
    lab = room.lab
    lab.enrol("reviewer", can="human")
    elsewhere = connect(lab.url, space=lab.space, token_file=lab.token_file("reviewer"), name="elsewhere")
    first = lab.stop()
    elsewhere.call("git/push")
    eventually(lambda: room.running)
    second = lab.stop()
    assert first.title == second.title and dict(second)["call git/push"].startswith("asked to stop by ")
    assert dict(lab.go())["calls"] == "1 cancelled call not made again"


@pytest.mark.parametrize("stopped", ["before the break", "during it"])
@pytest.mark.parametrize("first", ["the lab", "the agent"])
def test_an_agent_of_a_gateway_that_was_started_anew_is_paused_while_the_lab_is_stopped(
    tmp_path: Path, stopped: str, first: str
) -> None:
    """The new gateway knows nothing of the pause, and the agent may be there before the lab is, or after."""
    everything = {"capabilities": [{"kind": "*"}]}
    members = {"human": everything, "reviewer": everything}
    file = tmp_path / "space.yaml"
    file.write_text(json.dumps({"space": {"id": "desk", "owner": "human"}, "participants": members}))
    lab = up(file, journal=None)
    lab.join("coder", can="agent")
    elsewhere = connect(lab.url, space="desk", token_file=lab.token_file("reviewer"), name="elsewhere")
    client = elsewhere.me.participant.client
    if stopped == "before the break":
        assert dict(elsewhere.stop())["agent coder"] == "coder is paused until it is resumed"
    port = urlsplit(lab.url).port
    lab.down()
    eventually(lambda: client.state == "connecting")
    if stopped == "during it":
        assert dict(elsewhere.stop())["agents"] == "not connected; those that are there then are paused"
    again = up(file, journal=None, port=port)
    if first == "the lab":
        eventually(lambda: client.state == "ready", within=40)
    again.join("coder", can="agent")
    eventually(lambda: "paused by reviewer" in repr(again.of("coder")), within=40)
    assert dict(elsewhere.go())["agent coder"] == "resumed"
    assert dict(elsewhere.go())["agent coder"] == "coder may send again"
    assert "paused" not in repr(again.of("coder"))


def test_who_leaves_a_space_elsewhere_is_told_which_agents_stay_paused(room: Room) -> None:
    lab = room.lab
    lab.enrol("reviewer", can="human")
    elsewhere = connect(lab.url, space=lab.space, token_file=lab.token_file("reviewer"), name="elsewhere")
    elsewhere.stop()
    assert "; still paused by you: coder: lab.of(NAME).resume()" in str(elsewhere.down())
    assert "paused by reviewer" in repr(lab.of("coder"))
    lab.of("coder").pause()
    assert "still paused" not in str(lab.down()), "the space ends with it"


def test_an_agent_that_joins_while_the_lab_is_stopped_is_paused_and_others_are_not(room: Room) -> None:
    lab = room.lab
    lab.stop()
    lab.join("late", can="agent")
    lab.join("clock", can="tool")
    eventually(lambda: ["late"] in [one["to"] for one in room.sent("participant/pause")])
    lab.enrol("eve", can="agent")
    connect(lab.url, space=lab.space, token_file=lab.token_file("eve"), name="elsewhere")
    eventually(lambda: ["eve"] in [one["to"] for one in room.sent("participant/pause")])
    assert {"agent coder", "agent late", "agent eve"} == {
        what for what, _ in lab.go() if what.startswith("agent ")
    }
    lab.go()
    lab.join("later", can="agent")
    eventually(
        lambda: sorted(one["to"][0] for one in room.sent("participant/resume")) == ["coder", "eve", "late"]
    )
    assert str(lab.chat("all who pause have done so by now"))
    assert sorted(one["to"][0] for one in room.sent("participant/pause")) == ["coder", "eve", "late"]


def test_the_log_has_a_record_of_a_stop_and_of_going_on(room: Room) -> None:
    lab = room.lab
    lab.call("git/push")
    eventually(lambda: room.running)
    lab.stop()
    lab.go()
    lab.go()
    found = [
        (record.event, record.participant, json.loads(record.detail))
        for record in lab.log.records
        if record.event in ("stopped", "gone_on")
    ]
    [request] = requests(lab)
    assert found == [
        ("stopped", "human", {"cancelled": [request["id"]], "pausing": ["coder"], "foreign": 0}),
        ("gone_on", "human", {"resumed": ["coder"]}),
    ]


def test_who_may_not_pause_is_told_of_whom_and_why(room: Room) -> None:
    lab = room.lab
    lab.enrol("reviewer", can=[{"kind": "chat"}, {"kind": "mcp/*"}])
    elsewhere = connect(lab.url, space=lab.space, token_file=lab.token_file("reviewer"), name="elsewhere")
    report = elsewhere.stop()
    assert report.title.startswith("Stopped by reviewer at ")
    seen = dict(report)
    assert seen["agent coder"].startswith("not done: ") and "participant/pause" in seen["agent coder"]
    elsewhere.go()
    assert "agent coder" not in dict(elsewhere.go()), "it was not paused, so it is not resumed"


def test_a_stop_is_of_its_lab_alone(room: Room) -> None:
    lab = room.lab
    lab.enrol("dana", can="human")
    other = connect(lab.url, space=lab.space, token_file=lab.token_file("dana"), name="other")
    pending = room.coder.propose("git/pull")
    eventually(other.proposals)
    lab.stop()
    with contextlib.suppress(NotApproved):
        other.approve(pending.id)
    assert str(other.approve(pending.id)).startswith("Approved")


@pytest.mark.timeout(120)
def test_a_stop_takes_at_most_a_second_in_a_flood(room: Room) -> None:
    lab, over = room.lab, []

    async def flood(name: str) -> None:
        participant = lab.seats[name].participant
        while not over:
            with contextlib.suppress(MewError):
                participant.client.post({"kind": "chat", "payload": {"text": "x" * 200}})
            await asyncio.sleep(0)

    for _ in range(20):
        lab.call("git/push")
    floods = [lab.loop.submit(flood(name)) for name in ("coder", "carol", "git")]
    eventually(lambda: len(lab.log) > 300)
    began = time.monotonic()
    lab.stop()
    took = time.monotonic() - began
    over.append(True)
    for one in floods:
        one.result(20)
    assert took < 1.0
    with pytest.raises(MewError):
        lab.call("git/push")


def test_an_approval_that_is_on_its_way_leaves_before_the_stop_says_so_and_its_call_is_cancelled(
    room: Room,
) -> None:
    lab = room.lab
    pending = room.carol.propose("git/pull", text=["x" * 50] * 8_000)  # takes a while to be made a request
    eventually(lambda: [card for card in lab.decisions.pending() if card.is_read])
    deciding = threading.Event()
    lab.decisions.subscribe(lambda card: deciding.set() if card.state == "deciding" else None)
    with ThreadPoolExecutor(1) as pool:
        approval = pool.submit(room.type)
        assert deciding.wait(30)
        report = lab.stop()
        last = len(lab.log)
        with contextlib.suppress(MewError):
            approval.result(30)
    assert "approvals on their way" not in dict(report)
    lab.chat("all that was sent before has come")
    assert not [one for one in list(lab.log)[last:] if one.get("kind") == "mcp/request"]
    if requests(lab):  # else the stop came before it
        assert "call git/pull" in dict(report)
        # Cancelled before it began, which is known; or while it ran, which is not.
        assert eventually(lambda: pending.done and pending.state) in ("failed", "unknown")


ACTS = ("propose", "call", "carol calls", "click", "type", "policy", "no policy")


@pytest.mark.timeout(300)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.lists(st.sampled_from(ACTS), min_size=1, max_size=10),
    after=st.lists(st.sampled_from(ACTS), min_size=1, max_size=8),
)
def test_no_request_of_a_lab_leaves_after_its_stop_says_so(before: list[str], after: list[str]) -> None:
    with down_afterwards():
        room = Room()
        lab = room.lab
        acts: dict[str, Callable[[], Any]] = {
            "propose": lambda: room.carol.propose("git/pull"),
            "call": lambda: lab.call("git/push"),
            "carol calls": lambda: room.carol.call("git/push"),
            "click": room.click,
            "type": room.type,
            "policy": lambda: setattr(lab, "decide", Policy.approve()),
            "no policy": lambda: setattr(lab, "decide", None),
        }

        def act(name: str) -> None:
            with contextlib.suppress(MewError):  # refused, or another one was faster
                acts[name]()

        with ThreadPoolExecutor(8) as pool:
            done = [pool.submit(act, name) for name in before]
            report = lab.stop()
            assert "approvals on their way" not in dict(report)
            last = len(lab.log)
            done += [pool.submit(act, name) for name in after]
            for one in done:
                one.result(30)
        lab.chat("all that was sent before has come")
        sent = {json.dumps(one, sort_keys=True) for one in requests(lab)}
        late = [one for one in list(lab.log)[last:] if json.dumps(one, sort_keys=True) in sent]
        assert not late


@contextlib.contextmanager
def down_afterwards() -> Iterator[None]:
    try:
        yield
    finally:
        close_all()
