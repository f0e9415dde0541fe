"""What a participant may send about its own messages, whatever it holds. Ruling R36."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mew_lab.log.replay import replay_records
from mew_lab.space.core import Space, resumption_note
from mew_lab.space.events import OWN_MESSAGE, Enrolled, Joined, Noted, Received, Record
from mew_lab.space.opening import opening_record
from mew_lab.space.snapshot import restore, snapshot
from mew_lab.space.state import CHATS, OWN_CHATS

from .stage import START, Stage, Step

pytestmark = [pytest.mark.ruling("R36")]
ENDS = [("mcp/withdraw", "mcp/proposal"), ("chat/cancel", "chat")]
TALK = ["chat", "mcp/proposal", "mcp/request", "reasoning/*"]


@pytest.mark.extension("own_messages")
@pytest.mark.parametrize(("end", "kind"), ENDS)
def test_everybody_ends_what_it_said_itself(end: str, kind: str) -> None:
    stage = Stage(human="*", bot=TALK)
    for id in ("a", "b"):
        stage.send("bot", kind, id=id)
    step = stage.send("bot", end, {"reason": "x" * 64}, to=["human"], correlation_id=["a", "b", "a"])
    assert step.told(end) == {"human", "bot"}
    assert (step.record.detail, step.record.pattern, step.record.grant) == (OWN_MESSAGE, "", "")
    assert stage.post("bot", end, correlation_id=["a"]).reply.status == 200, "open or not is not asked"
    assert {"kind": end} not in stage.held("bot")


@pytest.mark.parametrize(("end", "kind"), ENDS)
def test_it_is_the_same_participant_under_whatever_id_and_after_whatever_absence(end: str, kind: str) -> None:
    stage = Stage(bot=[kind], human=[])
    stage.send("bot", kind, id="a")
    stage.join("bot", as_="bot-2")
    assert stage.send("bot-2", end, correlation_id=["a"]).accepted
    stage.leave("bot")
    stage.leave("bot-2")
    stage.join("bot", as_="bot-3")
    assert stage.send("bot-3", end, correlation_id=["a"]).accepted


@pytest.mark.threat(11)
@pytest.mark.req("C-13")
@pytest.mark.parametrize(("end", "kind"), ENDS)
@pytest.mark.parametrize(
    "members",
    [
        {"correlation_id": ["theirs"]},
        {"correlation_id": ["mine", "theirs"]},
        {"correlation_id": ["nobody's"]},
        {"correlation_id": ["mine"] * 17},
        {"correlation_id": []},
        {},
        {"correlation_id": ["request"]},
        {"correlation_id": ["thought"]},
        {"correlation_id": ["grant"]},
        {"correlation_id": ["refused"]},
        {"correlation_id": ["mine"], "payload": {"reason": "x" * 65}},
        {"correlation_id": ["mine"], "payload": {"reason": 1}},
        {"correlation_id": ["mine"], "payload": {"reason": None}},
        {"correlation_id": ["mine"], "payload": {"reason": ["x"]}},
        {"correlation_id": ["mine"], "payload": {"reason": "x", "text": "y"}},
        {"correlation_id": ["mine"], "payload": {"": ""}},
        {"correlation_id": ["the other kind"]},
        {"correlation_id": ["elsewhere"]},
    ],
)
def test_nobody_ends_anything_else_nor_says_anything_with_it(
    end: str, kind: str, members: dict[str, Any]
) -> None:
    stage = Stage(human="*", bot=[*TALK, "capability/grant"], eve=TALK)
    other = "chat" if kind == "mcp/proposal" else "mcp/proposal"
    for speaker, said, id in (
        *(("bot", kind, "mine"), ("eve", kind, "theirs"), ("bot", "mcp/request", "request")),
        *(("bot", "reasoning/start", "thought"), ("bot", "stream/request", "refused"), ("bot", other, "the other kind")),
        *(("eve", kind, "elsewhere"), ("eve", "mcp/request", "elsewhere")),
    ):  # fmt: skip
        stage.send(speaker, said, id=id)
    payload = {"recipient": "eve", "capabilities": [{"kind": "chat"}]}
    stage.send("bot", "capability/grant", payload, id="grant")
    assert stage.send("bot", end, correlation_id=["mine"]).accepted
    members = {"payload": {}, **members}
    step = stage.send("bot", end, members.pop("payload"), **members)
    assert step.error["error"] == "capability_violation"
    assert step.hearers == {"bot"}


def test_an_id_of_two_is_nobodys_until_the_other_is_forgotten() -> None:
    stage = Stage(bot=TALK, eve=TALK)
    stage.send("bot", "chat", id="a")
    stage.send("eve", "chat", id="a")
    for name in ("bot", "eve"):
        assert not stage.send(name, "chat/cancel", correlation_id=["a"]).accepted
    stage.send("bot", "chat", id="b")
    stage.send("eve", "mcp/request", id="b")
    assert not stage.send("bot", "chat/cancel", correlation_id=["b"]).accepted, "another's handle"
    stage.send("bot", "mcp/proposal", id="p")
    stage.send("eve", "chat", id="p")
    assert stage.send("bot", "mcp/withdraw", correlation_id=["p"]).accepted, "a chat takes no handle"
    for n in range(OWN_CHATS):
        stage.send("eve", "chat", id=f"e{n}")
    assert stage.send("bot", "chat/cancel", correlation_id=["a"]).accepted


def test_of_each_a_thousand_chats_are_remembered_and_twenty_thousand_of_all() -> None:
    names = [f"b{n}" for n in range(CHATS // OWN_CHATS + 1)]
    stage = Stage(**{name: ["chat"] for name in names})

    def cancels(name: str, id: str) -> bool:
        return stage.send(name, "chat/cancel", correlation_id=[id]).accepted

    for n in range(OWN_CHATS + 1):
        stage.post("b0", "chat", id=f"b0-{n}")
    assert not cancels("b0", "b0-0")
    assert cancels("b0", "b0-1")
    stage.post("b0", "chat", id="b0-1")  # now the newest of its own
    for name in names[1:-1]:
        for n in range(OWN_CHATS):
            stage.post(name, "chat", id=f"{name}-{n}")
    assert cancels("b0", "b0-2") and cancels("b0", "b0-1")
    stage.post(names[-1], "chat", id="last")
    assert not cancels("b0", "b0-2")
    assert cancels("b0", "b0-3") and cancels("b0", "b0-1") and cancels(names[-1], "last")
    state = stage.space.state
    assert len(state.chats) == CHATS
    assert sorted(id for ids in state.chats_of.values() for id in ids) == sorted(state.chats)


@pytest.mark.ruling("R25")
def test_it_costs_no_use_and_what_it_does_not_allow_does() -> None:
    stage = Stage(human="*", bot=TALK)
    stage.send(
        "human",
        "capability/grant",
        {"recipient": "bot", "capabilities": [{"kind": "mcp/withdraw"}], "max_uses": 1},
        id="g",
    )
    stage.send("bot", "mcp/proposal", id="p")
    for _ in range(3):
        assert stage.send("bot", "mcp/withdraw", correlation_id=["p"]).record.grant == ""
    used = stage.send("bot", "mcp/withdraw", {"reason": "x" * 65}, correlation_id=["p"])
    assert (used.accepted, used.record.grant) == (True, "g")
    assert not stage.send("bot", "mcp/withdraw", {"reason": "x" * 65}, correlation_id=["p"]).accepted


@pytest.mark.parametrize(("end", "kind"), ENDS)
def test_it_cannot_be_taken_away(end: str, kind: str) -> None:
    stage = Stage(human="*", bot=[kind, end])
    stage.send("bot", kind, id="a")
    stage.revoke("human", recipient="bot", capabilities=[{"kind": "**"}])
    assert stage.held("bot") == []
    assert stage.send("bot", end, correlation_id=["a"]).accepted


def test_a_space_of_an_earlier_edition_does_as_it_did_until_it_is_resumed() -> None:
    space = Space("demo", epoch=1, edition=3)
    records = [opening_record(space, START)]

    def play(event: Any) -> Record:
        made = Step(space.step(event, START)).of(Record)
        records.extend(made)
        first: Record = made[0]
        return first

    cancel = Received('{"id":"x","kind":"chat/cancel","correlation_id":["a"]}', "c1")
    play(Enrolled("bot", ({"kind": "chat"},)))
    play(Joined("c1", "bot", "bot", "websocket"))
    play(Received('{"id":"a","kind":"chat"}', "c1"))
    assert play(cancel).code == "capability_violation"
    note = resumption_note("bot")
    play(Noted(note.event, note.participant, note.detail))
    assert play(cancel).verdict == "accepted", "what was said before is remembered, too"
    assert replay_records(records).events == 6


def test_a_snapshot_carries_what_is_remembered() -> None:
    stage = Stage(bot=TALK, eve=TALK)
    for name, kind, id in (("bot", "chat", "c"), ("bot", "mcp/proposal", "p"), ("eve", "chat", "e")):
        stage.send(name, kind, id=id)
    text = snapshot(stage.space)
    stage.space = Space("demo", epoch=1)
    restore(stage.space, text)
    assert snapshot(stage.space) == text
    assert stage.send("bot", "chat/cancel", correlation_id=["c"]).accepted
    assert stage.send("bot", "mcp/withdraw", correlation_id=["p"]).accepted
    assert not stage.send("bot", "chat/cancel", correlation_id=["e"]).accepted


# --- results that are kept for others ---

ASK = {"jsonrpc": "2.0", "id": 1, "method": "resources/read"} | {
    "params": {"uri": f"mew-result://git/{'0' * 32}"}
}


@pytest.mark.ruling("R43")
@pytest.mark.extension("kept_results")
def test_everybody_asks_for_a_kept_result_and_no_use_is_spent_on_that() -> None:
    stage = Stage(human="*", git=[], bot=[])
    step = stage.send("bot", "mcp/request", ASK, to=["git"])
    assert (step.told("mcp/request"), step.record.detail) == ({"human", "git", "bot"}, OWN_MESSAGE)
    grant = {"recipient": "bot", "capabilities": [{"kind": "mcp/request"}], "max_uses": 1}
    stage.send("human", "capability/grant", grant, id="g")
    for _ in range(3):
        assert stage.send("bot", "mcp/request", ASK, to=["git"]).record.grant == ""
    assert stage.send("bot", "mcp/request", {**ASK, "method": "tools/call"}, to=["git"]).record.grant == "g"
    stage.send("human", "participant/pause", to=["bot"])
    assert stage.send("bot", "mcp/request", ASK, to=["git"]).error["error"] == "paused"


@pytest.mark.ruling("R43")
def test_a_space_of_an_earlier_edition_lets_nobody_ask() -> None:
    space = Space("demo", epoch=1, edition=3)
    text = f'{{"id":"x","kind":"mcp/request","to":["bot"],"payload":{json.dumps(ASK)}}}'
    for event in (Enrolled("bot", ()), Joined("c1", "bot", "bot", "websocket")):
        space.step(event, START)
    assert Step(space.step(Received(text, "c1"), START)).of(Record)[0].code == "capability_violation"
