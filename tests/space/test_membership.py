"""Who is here: admission, the welcome, presence, and the two names of a participant."""

from __future__ import annotations

import pytest

from mew_lab.protocol.envelope import compact
from mew_lab.space.core import Space
from mew_lab.space.events import Joined, Noted

from .stage import START, Stage, Step

BASE = {"kind": "mcp/response"}


# --- the welcome ---


@pytest.mark.req("P-3.8.1-2", "P-5.2-9", "P-5.1-1")
def test_the_welcome_tells_what_is_enforced_to_the_capability() -> None:
    stage = Stage(bot=[{"kind": "chat", "payload": {"text": "hi*"}}, "mcp/proposal"])
    stage.leave("bot")
    told = stage.join("bot").said("system/welcome").payload["you"]["capabilities"]
    assert told == [{"kind": "chat", "payload": {"text": "hi*"}}, {"kind": "mcp/proposal"}, BASE]
    assert stage.send("bot", "chat", {"text": "hi there"}).accepted
    refused = stage.send("bot", "chat", {"text": "bye"})
    assert refused.error["your_capabilities"] == told


@pytest.mark.req("C-12", "P-4.1-3")
def test_everybody_holds_the_baseline_and_a_configuration_may_switch_it_off() -> None:
    response = {"kind": "mcp/response"}
    stage = Stage(bot=[])
    assert stage.held("bot") == [response]
    assert stage.send("bot", "mcp/response").accepted
    without = Stage(bot=[], baseline=())
    assert without.held("bot") == []
    assert not without.send("bot", "mcp/response").accepted


# --- admission ---


@pytest.mark.req("C-26")
@pytest.mark.threat(11)
@pytest.mark.parametrize(
    "id", ["alice", "ALICE", "client-1", "Client-1", "system", "gateway", "a b", "системa"]
)
def test_nobody_takes_an_id_that_is_or_was_anothers(id: str) -> None:
    stage = Stage(alice=[], ben=[], bot=[], absent=["bot"])
    stage.join("ben", as_="client-1")
    stage.leave("client-1")
    step = stage.join("bot", as_=id, on="c9")
    assert step.closed == {"c9": 4409}
    assert step.hearers == set()


@pytest.mark.req("C-26", "P-3.6.4-6", "P-3.6.4-1")
def test_an_id_once_used_stays_its_participants_for_the_life_of_the_space() -> None:
    stage = Stage(alice="*", bot=[])
    stage.join("bot", as_="client-1")
    stage.leave("client-1")
    stage.leave("bot")
    assert stage.enrol("alice", "*").closed == {}
    assert stage.grant("alice", "client-1", "chat").accepted
    assert stage.join("bot", as_="client-1").kinds("client-1") == ["system/welcome"]
    assert stage.send("client-1", "chat").accepted


@pytest.mark.req("P-7.2-1", "P-3-5")
def test_an_id_is_stable_from_the_welcome_to_the_leave() -> None:
    stage = Stage(alice=[], bot="*", absent=["bot"])
    welcome = stage.join("bot", as_="client-7").said("system/welcome")
    for kind in ("chat", "mcp/request", "stream/request"):
        assert stage.send("client-7", kind).said(kind).sender == welcome.payload["you"]["id"] == "client-7"
    assert stage.leave("client-7").said("system/presence").payload["participant"]["id"] == "client-7"


@pytest.mark.req("P-8.1-4")
def test_of_each_connection_it_is_known_whose_it_is_since_when_and_what_it_may_do() -> None:
    stage = Stage(bot=["chat"], absent=["bot"])
    stage.at(7)
    joined = stage.join("bot", as_="client-7", on="ws-123").record
    assert (joined.connection, joined.participant, joined.detail) == ("ws-123", "bot", "client-7")
    assert (joined.now, joined.via) == (stage.now, "websocket")
    assert stage.space.state.connections["ws-123"].runtime_id == "client-7"
    held = stage.space.state.members["bot"].capabilities
    assert held.patterns == ({"kind": "chat"}, {"kind": "mcp/response"})
    assert stage.send("ws-123", "chat").record.pattern == '{"kind":"chat"}'
    stage.leave("ws-123")
    assert stage.space.state.connections == {}


# --- two names ---


@pytest.mark.req("P-3.6.4-1", "P-3.6.4-2", "P-3.6.4-5")
def test_a_logical_name_in_to_becomes_the_runtime_id_in_its_place_and_nothing_else_changes() -> None:
    stage = Stage(alice="*", bot=[], absent=["bot"])
    stage.join("bot", as_="client-7")
    raw = (
        '{"protocol":"mew/v0.4", "id":"m-1", "ts":"2026-01-01T00:00:00Z", "from":"alice",'
        ' "to":["x","bot","alice"], "kind":"chat", "n":1.50, "payload":{"text":"é"}}'
    )
    step = stage.raw("alice", raw)
    told = step.said("chat")
    assert told.raw == raw.replace('["x","bot","alice"]', '["x","client-7","alice"]')
    assert "client-7" in step.told("chat")
    assert (step.record.received, step.record.raw) == (raw, told.raw)


@pytest.mark.req("P-3.6.4-2")
def test_a_name_that_is_itself_a_live_id_or_nobody_here_stays_as_it_was_written() -> None:
    stage = Stage(alice="*", bot=[], away=[], absent=["away"])
    stage.join("bot", as_="bot-2")
    assert stage.send("alice", "chat", to=["bot", "away", "gateway", "nobody"]).said("chat").to == (
        *("bot", "away", "gateway", "nobody"),
    )
    stage.leave("bot")
    assert stage.send("alice", "chat", to=["bot"]).said("chat").to == ("bot-2",)


@pytest.mark.req("P-3.6.4-3")
def test_the_to_of_a_capability_means_the_logical_name() -> None:
    stage = Stage(alice=[{"kind": "chat", "to": "bot"}], bot=[], absent=["bot"])
    stage.join("bot", as_="client-7")
    assert stage.send("alice", "chat", to=["client-7"]).accepted
    assert stage.send("alice", "chat", to=["bot"]).accepted
    assert not stage.send("alice", "chat", to=["alice"]).accepted
    assert not stage.send("alice", "chat").accepted


@pytest.mark.req("P-3.6.4-3", "P-4.1-3")
@pytest.mark.threat(13)
def test_a_capability_that_spares_somebody_spares_it_under_every_id_that_it_ever_had() -> None:
    stage = Stage(alice=[{"kind": "participant/*", "to": "!boss"}], boss="*", bot=[])
    stage.join("boss", as_="boss-7")
    assert stage.send("alice", "participant/pause", to=["bot"]).accepted
    for name in ("boss", "boss-7"):
        assert stage.send("alice", "participant/pause", to=[name]).error["error"] == "capability_violation"
    stage.leave("boss-7")
    assert stage.send("alice", "participant/pause", to=["boss-7"]).error["error"] == "capability_violation"
    assert stage.send("boss", "chat").accepted


# --- log sinks ---


def test_a_log_sink_hears_what_its_participant_hears_and_takes_no_id() -> None:
    stage = Stage(alice="*", bot=["chat"], absent=["bot"])
    attached = stage.sink("bot", on="log")
    assert attached.kinds("log") == ["system/welcome"]
    assert attached.said("system/presence").payload["participant"]["id"] == "bot"
    assert stage.join("bot").kinds("bot") == ["system/welcome"]
    said = stage.send("bot", "chat")
    assert said.hearers == {"alice", "bot", "log"}
    refused = stage.send("bot", "mcp/request")
    assert refused.hearers == {"bot"}
    stage.leave("bot")
    posted = stage.post("bot", "mcp/request")
    assert posted.told("system/error") == {"log"}


def test_a_log_sink_is_no_connection_and_counts_as_none() -> None:
    stage = Stage(bot=[])
    for n in range(7):
        stage.join("bot", as_=f"bot-{n}")
    assert stage.sink("bot", on="log").kinds("log") == ["system/welcome"]


def test_a_participant_is_here_until_its_last_connection_or_sink_of_that_id_is_gone() -> None:
    stage = Stage(alice=[], bot=[])
    assert "system/presence" not in stage.sink("bot", on="log").kinds("alice")
    assert stage.leave("bot").kinds("alice") == []
    assert stage.leave("log").kinds("alice") == ["system/presence"]


# --- one space, many connections ---


@pytest.mark.req("P-3.6-1", "P-3.6-3", "P-2.2-3", "P-3.6-4")
def test_each_space_has_its_own_members_rights_streams_and_rules() -> None:
    one = Stage(alice="*", bot=["chat"])
    other = Stage(alice=["chat"], bot=[])
    one.open("alice")
    one.grant("alice", "bot", "mcp/request")
    one.send("alice", "participant/pause", to=["bot"])
    assert other.streams() == [] and len(one.streams()) == 1
    assert other.held("bot") == [BASE]
    assert not other.send("bot", "chat").accepted and other.send("bot", "mcp/response").accepted
    assert not other.send("alice", "capability/grant").accepted


@pytest.mark.req("P-8.1-7")
def test_the_four_occasions_on_which_the_gateway_speaks_and_that_nobody_else_speaks_so() -> None:
    stage = Stage(alice=["*"], bot=["chat"], absent=["bot"])
    joined = stage.join("bot")
    assert joined.told("system/welcome") == {"bot"} and joined.told("system/presence") == {"alice"}
    assert joined.said("system/presence").payload["event"] == "join"
    for faulty in (
        stage.send("bot", "mcp/request", {"method": "tools/list"}),  # no right to it
        stage.send("bot", "chat", {"text": "x"}, protocol="mew/v0.3"),
        stage.send("bot", "chat", {"text": "x"}, to="alice"),
        stage.send("bot", "chat", {"text": "x"}, **{"from": "alice"}),
        stage.send("alice", "system/presence", {"event": "join", "participant": {"id": "ghost"}}),
    ):
        assert not faulty.accepted and len(faulty.hearers) == 1
        assert faulty.told("system/error") == faulty.hearers
    left = stage.leave("bot")
    assert (
        left.told("system/presence") == {"alice"} and left.said("system/presence").payload["event"] == "leave"
    )
    steps = (joined, left)
    assert {step.said("system/presence").sender for step in steps} == {"system:gateway"}


def test_a_welcome_is_written_as_compact_json_of_what_it_says() -> None:
    stage = Stage(owner="root", root="*", ann=[{"kind": "chat", "payload": {"text": 'ü"\\ \n'}}], bob=[])
    stage.step(Noted("journal_head", "root", "12 abc"))
    for n in range(3):
        stage.send("root", "stream/request", {"description": f'"{n}"'})
        stage.grant("root", "bob", [{"kind": "chat", "payload": {"text": f"{n}ß"}, "id": "x"}])
        stage.grant("root", "root", [{"kind": f"k{n}"}])
        for name in ("root", "ann", "bob"):
            stage.leave(name)
            welcome = stage.join(name).said("system/welcome")
            assert welcome.raw == compact(welcome.members)
            assert ("journal_head" in welcome.payload) is (name == "root")


@pytest.mark.ruling("R34")
@pytest.mark.extension("welcome_extension")
@pytest.mark.parametrize("edition", range(5))
def test_a_welcome_says_what_the_gateway_does_beyond_the_specification_from_edition_4_on(
    edition: int,
) -> None:
    space = Space("demo", epoch=1, participants={"bot": []}, limit=4096, edition=edition)
    welcome = Step(space.step(Joined("c1", "bot", "bot", "websocket"), START)).said("system/welcome")
    told = {
        "edition": 4,
        "own": ["mcp/withdraw", "chat/cancel"],
        "notes": 2048,
        "patterns": ["closed", "paths"],
        "message_bytes": 4096,
    }
    assert welcome.payload.get("x-mew-lab") == (told if edition >= 4 else None)
    assert welcome.raw == compact(welcome.members)
