"""Our turns, logged as the TypeScript gateway would have: keys, order and words of its captures, and no token."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from mew_lab.log.peer_files import DECISIONS, HISTORY, JournalLines, PeerFiles
from mew_lab.log.peers import merge_decisions
from mew_lab.log.reading import read_journal
from mew_lab.protocol.token import Token, forget
from mew_lab.space.core import Space
from mew_lab.space.events import Enrolled, Event, Joined, Left, Noted, Received, Record, outline
from mew_lab.space.opening import opening_record

from ..captures.divergences import CAPTURES
from ..captures.session import read, steps
from .sessions import session

NOW = datetime(2026, 1, 1, 12, 30, 0, 125_000, tzinfo=UTC)
STAMP = "2026-01-01T12:30:00.125Z"
ANY = [{"kind": "*"}]
BASELINE = {"kind": "mcp/response"}


class Kept:
    """A space of which the peers' files are written."""

    def __init__(self, **participants: list[dict[str, Any]]) -> None:
        self.space = Space("demo", epoch=1, participants=participants)
        self.history: list[str] = []
        self.decisions: list[str] = []
        self.files = PeerFiles()

    def step(self, event: Event) -> None:
        turn = self.space.plan(event, NOW)
        lines = self.files.lines(self.space, turn)
        self.history += lines.history
        self.decisions += lines.decisions
        turn.commit()

    def join(self, name: str, *, id: str = "", via: str = "websocket") -> None:
        self.step(Joined(f"c-{name}", name, id or name, via))

    def send(self, name: str, **members: Any) -> None:
        self.step(Received(json.dumps(members), f"c-{name}"))

    def post(self, name: str, **members: Any) -> None:
        self.step(Received(json.dumps(members), None, name, name))

    def said(self, start: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.history[start:]]


def written_as(lines: list[str]) -> list[tuple[Any, ...]]:
    """What scripts in the field rely on: event, and the keys in their order."""
    return [shape(json.loads(line)) for line in lines]


def shape(line: dict[str, Any]) -> tuple[Any, ...]:
    ways = ("event", "direction", "transport", "result", "matched_source")
    said = [line[way] for way in ways if way in line]
    return (*said, tuple(line), tuple(line.get("metadata", {})))


@pytest.fixture
def kept() -> Kept:
    """A session of everything that a capture may hold."""
    one = Kept(anna=ANY, bert=[{"kind": "chat"}], lazy=[{"kind": "chat"}])
    one.join("lazy", via="log")
    one.join("anna", id="anna-1")
    one.join("bert")
    one.send("anna", id="m1", kind="chat", payload={"text": "hi"})
    one.send("anna", id="m2", kind="chat", correlation_id="m1", payload={"text": "more"})
    one.post("bert", id="m3", kind="chat", payload={"text": "by http"})
    one.post("bert", id="m4", kind="chat", correlation_id=["m3"], payload={"text": "by http"})
    one.send("bert", id="m5", kind="mcp/request", correlation_id=["m4"], payload={})
    one.post("lazy", id="m6", kind="space/kick", payload={})
    one.send("anna", id="s1", kind="stream/request", payload={"direction": "upload"})
    return one


def test_each_line_is_made_as_lines_of_the_captures_are(kept: Kept, shared: Path) -> None:
    for lines, name in ((kept.history, HISTORY), (kept.decisions, DECISIONS)):
        known = set()
        for path in (shared / "captures").glob(f"*/{name}"):
            known |= set(written_as(path.read_text().splitlines()))
        ours = set(written_as(lines))
        # Of these the field has no capture, only its description: refused by HTTP, and refused there for want of a right.
        described = {one for one in ours if one[0] == "rejected" or one[:2] == ("capability_check", "denied")}
        assert ours - described <= known


def test_a_message_is_a_line_when_it_comes_and_one_for_each_receiver(kept: Kept) -> None:
    envelope = kept.said()[-1]  # of the stream/open, the last of all
    assert envelope["envelope"]["kind"] == "stream/open"
    lines = [one for one in kept.said() if one.get("id") == "m1"]
    assert [(one["event"], one["participant"]) for one in lines] == [
        ("received", "anna-1"),
        ("delivered", "anna-1"),
        ("delivered", "bert"),
        ("delivered", "lazy"),
    ]
    for one in lines:
        assert (one["timestamp"], one["space_id"], one["transport"]) == (STAMP, "demo", "websocket")
        assert one["envelope"]["from"] == "anna-1" and one["envelope"]["payload"] == {"text": "hi"}
    assert "metadata" not in lines[0]
    assert lines[1]["metadata"] == {"source_participant": "anna-1"}
    text = json.dumps(lines[0]["envelope"], separators=(",", ":"))
    assert kept.history[[json.loads(line).get("id") for line in kept.history].index("m1")] == (
        f'{{"timestamp":"{STAMP}","event":"received","id":"m1","envelope":{text},'
        '"participant":"anna-1","space_id":"demo","direction":"inbound","transport":"websocket"}'
    )


@pytest.mark.threat(1)
def test_a_join_is_told_without_its_token_and_a_log_sink_joins_virtually(kept: Kept) -> None:
    welcome, join = kept.said()[:2]
    assert (welcome["transport"], welcome["participant"]) == ("virtual", "lazy")
    assert welcome["metadata"] == {"type": "system/welcome", "auto_connect": True}
    assert join == {
        "timestamp": STAMP,
        "event": "received",
        "envelope": {
            "type": "join",
            "space": "demo",
            "token": "tok_…",
            "participantId": "anna-1",
            "capabilities": [],
        },
        "participant": "anna-1",
        "space_id": "demo",
        "direction": "inbound",
        "transport": "websocket",
    }


def test_what_the_gateway_says_is_told_with_what_it_is_about(kept: Kept) -> None:
    about = {
        one["envelope"].get("kind"): one.get("metadata") for one in kept.said() if one["event"] == "delivered"
    }
    assert about["system/presence"] == {"type": "system/presence", "source_participant": "bert"}
    assert about["stream/open"] == {
        "type": "stream/open",
        "source_participant": "anna-1",
        "stream_id": "stream-1",
    }
    assert about["system/error"] == {"reason": "capability_violation", "source_envelope": "m6"}


def test_a_refusal_is_told_by_either_way_and_once(kept: Kept) -> None:
    rejected = [one for one in kept.said() if one["event"] == "rejected"]
    assert [(one["id"], one["transport"], one["metadata"]) for one in rejected] == [
        ("m5", "websocket", {"reason": "capability_violation"}),
        ("m6", "http", {"reason": "capability_violation"}),
    ]
    assert not [one for one in kept.said() if one["event"] == "delivered" and one["id"] in ("m5", "m6")]


def test_a_decision_tells_what_was_asked_what_matched_and_what_was_held(kept: Kept) -> None:
    first, *_, denied, by_http, _ = (json.loads(line) for line in kept.decisions)
    assert first == {
        "timestamp": STAMP,
        "event": "capability_check",
        "envelope_id": "m1",
        "participant": "anna-1",
        "space_id": "demo",
        "result": "allowed",
        "required_capability": "chat",
        "matched_capability": {"kind": "*"},
        "matched_source": "static",
        "granted_capabilities": [{"kind": "*"}, BASELINE],
        "metadata": {"source": "websocket", "transport": "websocket"},
    }
    assert (denied["result"], denied["required_capability"]) == ("denied", "mcp/request")
    assert denied["metadata"] == {"source": "websocket", "transport": "websocket", "correlation_id": ["m4"]}
    assert by_http["metadata"] == {"source": "http_api", "transport": "http"}
    assert by_http["granted_capabilities"] == [{"kind": "chat"}, BASELINE]


def test_what_came_by_a_grant_is_dynamic_and_rights_are_those_of_the_moment() -> None:
    one = Kept(anna=ANY, bert=[{"kind": "chat"}])
    one.join("anna")
    one.join("bert")
    payload = {"recipient": "bert", "capabilities": [{"kind": "mcp/request"}]}
    one.send("anna", id="g1", kind="capability/grant", payload=payload)
    one.send("bert", id="m1", kind="mcp/request", payload={"method": "x"})
    one.send("anna", id="r1", kind="capability/revoke", payload={"recipient": "bert", "grant_id": "g1"})
    checked = {line["envelope_id"]: line for line in map(json.loads, one.decisions)}
    assert checked["m1"]["matched_source"] == "dynamic"
    assert checked["m1"]["granted_capabilities"] == [{"kind": "chat"}, BASELINE, {"kind": "mcp/request"}]


@pytest.mark.threat(1)
@pytest.mark.req("P-3.6.6-4")
def test_an_invitation_shows_no_token() -> None:
    one = Kept(anna=ANY)
    one.join("anna")
    one.send(
        "anna", id="i1", kind="space/invite", payload={"participant_id": "dora", "initial_capabilities": []}
    )
    (ack,) = (line for line in one.said() if line["envelope"].get("kind") == "space/invite-ack")
    assert ack["envelope"]["payload"]["token"] == "<token>"
    assert ack["metadata"] == {"type": "space/invite-ack", "invited_participant": "dora", "status": "created"}
    canary = Token("canary-secret-4321")
    one.send("anna", id="m1", kind="chat", payload={"text": canary.reveal()})
    one.send("anna", id="m2", kind="system/x", payload={"text": canary.reveal()})
    assert canary.reveal() not in "".join(one.history + one.decisions)
    assert '"text":"tok_…4321"' in one.history[-2]
    escaped = canary.reveal().replace("c", "\\u0063")
    before = len(one.history)
    for kind in ("chat", "system/x"):
        one.step(
            Received(f'{{"kind":"{kind}","id":"{kind}","payload":{{"{escaped}":"{escaped}"}}}}', "c-anna")
        )
    assert canary.reveal() not in "".join(one.history + one.decisions)
    assert sum("tok_…4321" in line for line in one.history[before:]) == 3  # received, delivered; refused
    forget(canary)


@pytest.mark.parametrize(
    "text", ["no json", "[1]", '{"kind":"chat","id":"\\ud800"}', '{"a":NaN}', b"\xff", "[" * 5000]
)
def test_what_could_not_be_read_is_left_to_our_own_journal(text: str | bytes) -> None:
    one = Kept(anna=ANY)
    one.join("anna")
    before = len(one.history)
    one.step(Received(text, "c-anna"))
    assert [line["envelope"].get("kind") for line in one.said(before)] == ["system/error"]
    assert one.decisions == []


def test_what_has_no_line_in_the_field_has_none_here() -> None:
    one = Kept(anna=ANY)
    one.step(Noted("decided", "anna", "something"))
    one.step(Joined("c9", "nobody", "nobody", "websocket"))
    one.step(Left("c9"))
    assert one.history == one.decisions == []


def test_who_has_left_hears_nothing() -> None:
    one = Kept(anna=ANY, bert=ANY)
    one.join("anna")
    one.join("bert")
    before = len(one.history)
    one.step(Left("c-bert", "gone"))
    assert [line["participant"] for line in one.said(before)] == ["anna"]


@pytest.mark.parametrize(("history", "decisions"), [(False, False), (True, False), (False, True)])
def test_either_file_may_be_switched_off(history: bool, decisions: bool) -> None:
    space = Space("demo", epoch=1, participants={"anna": ANY})
    turn = space.plan(Received('{"kind":"chat"}', None, "anna", "anna"), NOW)
    lines = PeerFiles(history=history, decisions=decisions).lines(space, turn)
    told = [[json.loads(line)["event"] for line in some] for some in lines]
    assert told == [["received"] * history, ["capability_check"] * decisions]


def test_what_is_written_is_read_back_as_what_happened(kept: Kept, tmp_path: Path) -> None:
    for name, lines in ((HISTORY, kept.history), (DECISIONS, kept.decisions)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    records = list(merge_decisions(read_journal(tmp_path / HISTORY), read_journal(tmp_path / DECISIONS)))
    assert [one for one in records if one.event == "unreadable"] == []

    def told(record: Record) -> tuple[str, str, str, str]:
        return (
            json.loads(record.raw or "{}").get("id", ""),
            record.verdict,
            record.participant,
            record.pattern,
        )

    assert [told(one) for one in records if one.event == "received"] == [
        ("m1", "accepted", "anna-1", '{"kind":"*"}'),
        ("m2", "accepted", "anna-1", '{"kind":"*"}'),
        ("m3", "accepted", "bert", '{"kind":"chat"}'),
        ("m4", "accepted", "bert", '{"kind":"chat"}'),
        ("m5", "refused", "bert", ""),
        ("m6", "refused", "lazy", ""),
        ("s1", "accepted", "anna-1", '{"kind":"*"}'),
    ]
    assert [one.detail for one in records if one.event == "joined"] == ["anna-1", "bert"]


# --- from a journal ----------------------------------------------------------------------------------------------


class Live:
    """A session of which the lines are made while it runs, and which is journaled by files of a few records."""

    def __init__(self, folder: Path, *, epoch: int = 1) -> None:
        self.space = Space("demo", epoch=epoch)
        self.journal = Journal(folder / "journal.jsonl", rotate_at=50_000)
        self.journal.append([opening_record(self.space, NOW)])
        self.now = NOW
        self.made = PeerFiles()
        self.history: list[str] = []
        self.decisions: list[str] = []

    def step(self, event: Event) -> None:
        self.now += timedelta(microseconds=(self.now.microsecond * 7919 + 13) % 900_000 + 1)
        turn = self.space.plan(event, self.now)
        self.journal.append([effect for effect in turn.effects if type(effect) is Record])
        lines = self.made.lines(self.space, turn)
        self.history += lines.history
        self.decisions += lines.decisions
        turn.commit()


def replayed(path: Path, *, after: int = 0) -> tuple[list[str], list[str]]:
    maker = JournalLines("the journal", after=after)
    history: list[str] = []
    decisions: list[str] = []
    for record in open_log(path).records:
        lines = maker.take(record)
        history += lines.history
        decisions += lines.decisions
    assert maker.between
    return history, decisions


@pytest.mark.parametrize("seed", range(4))
def test_a_journal_gives_the_lines_that_were_made_while_it_was_written(tmp_path: Path, seed: int) -> None:
    live = Live(tmp_path, epoch=seed)
    for event in session(live.space, seed, 300):
        live.step(event)
    live.journal.close()
    first = live.journal.paths[0]
    assert len(live.journal.paths) > 2 and len(live.history) > 300 and len(live.decisions) > 50
    records = list(open_log(first).records)
    assert any(outline(record) is not None for record in records)  # of which the beginning is kept
    history, decisions = replayed(first)
    for line, other in zip(live.history, history, strict=True):
        assert line == other
    assert decisions == live.decisions


@pytest.mark.parametrize("seed", range(2))
def test_from_any_event_on_the_lines_are_those_of_the_whole(tmp_path: Path, seed: int) -> None:
    live = Live(tmp_path, epoch=seed)
    ends = []
    for event in session(live.space, seed, 120):
        live.step(event)
        ends.append((live.space.state.records, len(live.history), len(live.decisions)))
    live.journal.close()
    for after, history, decisions in ends[:: 120 // 8]:
        found = replayed(live.journal.paths[0], after=after)
        assert found == (live.history[history:], live.decisions[decisions:])


def test_what_a_killed_gateway_left_half_written_gives_no_line(tmp_path: Path) -> None:
    live = Live(tmp_path)
    live.step(Enrolled("anna", tuple(ANY)))
    live.step(Joined("c1", "anna", "anna", "websocket"))
    before = len(live.history)
    live.step(Received('{"kind":"unheard/of"}', "c1"))
    live.step(Received('{"kind":"system/x"}', "c1"))  # refused: two records
    live.journal.close()
    (path,) = live.journal.paths
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    maker = JournalLines("the journal")
    taken = [maker.take(record) for record in open_log(path).records]
    assert not maker.between
    assert sum(len(one.history) for one in taken) == before + 2


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.req("P-8.1-8")
def test_a_captured_session_gives_the_peers_lines_but_for_what_is_recorded(name: str, shared: Path) -> None:
    """Line by line: who was told what, in which words, with which metadata; times and ids of the gateways' own aside."""
    theirs = read(shared / "captures" / name)
    session, ours = steps(theirs)
    maker = JournalLines(name)
    made = [maker.take(record) for record in ours.records]
    history = [json.loads(line) for one in made for line in one.history]
    told = [one for step in session for one in step.ours]
    delivered = [(one["participant"], one["envelope"]) for one in history if one["event"] == "delivered"]
    assert delivered == [(one.receiver, one.members) for one in told]
    came = [json.loads(line.text) for line in theirs if line.event == "received"]
    received = [one["envelope"] for one in history if one["event"] in ("received", "rejected")]
    for envelope, line in zip(received, came, strict=True):
        if line.get("type") == "join":
            assert envelope == {**line, "token": "tok_…", "capabilities": [], "space": "capture"}
        else:
            assert {key: envelope[key] for key in line if key != "correlation_id"} == {
                key: value for key, value in line.items() if key != "correlation_id"
            }
    known = {
        shape(json.loads(line)) for line in (shared / "captures" / name / HISTORY).read_text().splitlines()
    }
    ways = {(one[0], one[1], one[2]) for one in known}
    assert {(one["event"], one["direction"], one["transport"]) for one in history} <= ways | {
        ("rejected", "inbound", "websocket"),
        ("received", "inbound", "http"),
        ("received", "inbound", "websocket"),
    }
