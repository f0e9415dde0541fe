"""What participants can make a journal keep is bounded: a share each, and a floor of free space."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import JournalError, NotAdmitted
from mew_lab.gateway import hosted_space
from mew_lab.gateway.config import LimitsConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.shares import JournalLimits, Room, Share, journal_bytes, payer
from mew_lab.log.journal import Journal
from mew_lab.log.line import write_line
from mew_lab.log.replay import replay_records
from mew_lab.space.events import Record

from ..conftest import examples
from .fakes import START, Disk, Listener, Scene

MIB = 1024 * 1024
pytestmark = [pytest.mark.threat(37), pytest.mark.ruling("R31")]


class Talk(Scene):
    """Three who chat; the space is ada's."""

    def __init__(self, tape: Any, **limits: Any) -> None:
        super().__init__(
            dict.fromkeys(("ada", "bob", "eve"), ("chat",)), tape=tape, owner="ada", limits=limits
        )

    def chat(self, who: str, id: str, size: int = 10) -> None:
        self.say(who, "chat", {"text": "a" * size}, id=id)

    def notes(self, event: str) -> list[dict[str, Any]]:
        return [json.loads(one.detail) for one in self.events(event)]


SMALL = {"journal_bytes_per_second": 100_000, "journal_burst": MIB, "journal_bytes": 20 * MIB}


@pytest.mark.extension("journal_limits")
def test_above_its_share_only_that_participant_is_refused() -> None:
    scene = Talk(Disk(), **SMALL)
    for n in range(20):
        scene.chat("eve", f"e-{n}", 200_000)
        scene.chat("bob", f"b-{n}")
    passed = [id for id in scene.peers["ada"].chats() if id.startswith("e-")]
    assert 0 < len(passed) <= 6
    assert scene.peers["eve"].errors() == ["limit_exceeded"] * (20 - len(passed))
    assert [id for id in scene.peers["ada"].chats() if id.startswith("b-")] == [f"b-{n}" for n in range(20)]
    assert scene.peers["bob"].errors() == []
    (told, *_) = [one["payload"] for one in scene.peers["eve"].heard if one["kind"] == "system/error"]
    assert "100000 bytes a second" in told["message"]
    refused = [one["correlation_id"][0] for one in scene.peers["eve"].heard if one["kind"] == "system/error"]
    assert sorted(refused + passed) == sorted(f"e-{n}" for n in range(20))


def test_the_share_of_a_second_comes_back_with_time() -> None:
    scene = Talk(Disk(), **SMALL)
    for n in range(20):
        scene.chat("eve", f"e-{n}", 200_000)
    before = len(scene.peers["ada"].chats())
    scene.now += timedelta(seconds=30)
    scene.chat("eve", "later", 200_000)
    assert scene.peers["ada"].chats()[before:] == ["later"]
    (note,) = scene.notes("over_share")
    assert note["messages"] == 20 - before and note["bytes"] > note["messages"] * 200_000


def test_the_share_in_all_does_not_come_back() -> None:
    scene = Talk(Disk(), **SMALL)
    for n in range(200):
        scene.chat("eve", f"e-{n}", 200_000)
        scene.now += timedelta(seconds=60)
    assert len(scene.peers["ada"].chats()) in (52, 53)  # twenty MiB of received and delivered text
    (*_, last) = [one["payload"] for one in scene.peers["eve"].heard if one["kind"] == "system/error"]
    assert "prune" in last["message"] and last["error"] == "limit_exceeded"
    assert sum(one["messages"] for one in scene.notes("over_share")) > 100


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_one_sends_the_journal_grows_by_its_share_at_most(seed: int) -> None:
    """Messages accepted and refused, frames, joins and posts, over minutes: and a replay holds all the same."""
    random = Random(seed)
    scene = Talk(Disk(), **{**SMALL, "journal_bytes": 3 * MIB})
    start = scene.now
    before = sum(len(write_line(one)) for one in scene.tape.records)
    largest = 0
    for n in range(random.randrange(20, 120)):
        size = random.choice([0, 100, 5000, 300_000])
        largest = max(largest, size)
        match random.randrange(6):
            case 0 | 1:
                scene.chat("eve", f"e-{n}", size)
            case 2:
                text = json.dumps({"kind": "mcp/request", "payload": {"x": "b" * size}})
                scene.hear("eve", text)
            case 3:
                scene.hear("eve", b"#stream-9#" + bytes(size))
            case 4:
                text = json.dumps({"id": f"h-{n}", "kind": "chat", "payload": {"text": "a" * size}})
                scene.gateway.post("demo", "eve", text)
            case 5:
                try:
                    name = scene.gateway.admit(
                        "demo", "eve", Listener(), runtime_id=f"eve-{n}", via="websocket"
                    )
                    scene.gateway.leave("demo", name, "x")
                except NotAdmitted as fault:
                    assert fault.close_code == 1013
        scene.now += timedelta(seconds=random.choice([0, 0, 0, 1]))
        seconds = (scene.now - start).total_seconds()
        grown = sum(len(write_line(one)) for one in scene.tape.records) - before
        # A message that still is within the share may go beyond it, with its text twice.
        assert grown <= min(MIB + seconds * 100_000, 3 * MIB) + 2 * largest + 20_000
    assert replay_records(scene.tape.records).space.state.messages >= 3


def test_frames_that_are_passed_on_cost_nothing() -> None:
    scene = Talk(Disk(), **SMALL)
    scene.gateway.enrol("demo", "eve", [{"kind": "stream/*"}])
    request = json.dumps({"id": "s", "kind": "stream/request", "payload": {"direction": "upload"}})
    scene.hear("eve", request)
    heard: list[object] = []
    scene.peers["bob"].put = heard.append  # type: ignore[method-assign, assignment]
    for _ in range(100):
        scene.hear("eve", b"#stream-1#" + bytes(500_000))
    assert len(heard) == 100


def test_a_seat_of_this_process_has_no_share() -> None:
    scene = Talk(Disk(), **SMALL)
    local = Listener()
    scene.of["eve"] = scene.gateway.admit("demo", "eve", local, runtime_id="here", via="memory")
    for n in range(20):
        scene.chat("eve", f"e-{n}", 200_000)
    assert len(scene.peers["ada"].chats()) == 20


def test_over_http_it_is_429() -> None:
    scene = Talk(Disk(), **SMALL)
    text = json.dumps({"kind": "chat", "payload": {"text": "a" * 600_000}})
    replies = [scene.gateway.post("demo", "eve", text).status for _ in range(5)]
    assert replies[0] == 200 and replies[-1] == 429


def test_without_a_journal_there_is_no_share() -> None:
    gateway = Gateway(clock=lambda: START, new_epoch=lambda: 5)
    config = {"name": "demo", "participants": {"eve": {"capabilities": [{"kind": "chat"}]}}, "limits": SMALL}
    gateway.add_space(SpaceConfig.model_validate(config))
    eve = Listener()
    name = gateway.admit("demo", "eve", eve, via="websocket")
    for n in range(10):
        gateway.receive(
            "demo", name, json.dumps({"id": f"{n}", "kind": "chat", "payload": {"t": "a" * 500_000}})
        )
    assert len(eve.chats()) == 10


# --- the floor ---


def test_at_the_floor_messages_are_refused_and_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Disk()

    def make_room(free: Callable[[], int], floor: int) -> Room:
        return Room(free, floor, clock=lambda: (scenes[0].now if scenes else START).timestamp())

    monkeypatch.setattr(hosted_space, "Room", make_room)
    scenes: list[Talk] = []
    scenes.append(scene := Talk(tape, journal_floor=1000))
    scene.chat("bob", "b-0")
    tape.free = 999
    scene.now += timedelta(seconds=2)
    kept = len(tape.records)
    for n in range(1, 6):
        scene.chat("bob", f"b-{n}")
        scene.hear("eve", '{"kind":"mcp/request"}')
    assert len(tape.records) == kept
    assert scene.peers["bob"].errors() == ["journal_unavailable"] * 5 == scene.peers["eve"].errors()
    with pytest.raises(NotAdmitted) as none:
        scene.gateway.admit("demo", "bob", Listener(), runtime_id="b2", via="websocket")
    assert none.value.close_code == 1013
    scene.gateway.leave("demo", scene.of["eve"], "gone")  # has happened: it is told, and written
    assert tape.records[kept].event == "left"
    tape.free = 1000
    scene.now += timedelta(seconds=2)
    scene.chat("bob", "b-6")
    assert scene.peers["ada"].chats() == ["b-0", "b-6"]
    assert scene.notes("unrecorded") == [{"accepted": 5, "refused": 5}]
    assert replay_records(tape.records)


def test_what_a_full_disk_turned_away_is_counted_too() -> None:
    scene = Talk(Disk())
    scene.tape.full = True
    scene.chat("bob", "b-1")
    scene.tape.full = False
    scene.chat("bob", "b-2")
    assert scene.notes("unrecorded") == [{"accepted": 1, "refused": 0}]


def test_the_disk_is_asked_once_a_second_or_after_16_mib() -> None:
    asked: list[float] = []
    now = 0.0

    def free() -> int:
        asked.append(now)
        return 10**12

    room = Room(free, 1, clock=lambda: now)
    for _ in range(1000):
        room.low(1000)
    assert asked == [0.0]
    now = 1.0
    room.low(1000)
    assert asked == [0.0, 1.0]
    for _ in range(17):
        room.low(MIB)
    assert len(asked) == 3


def test_a_real_disk_at_its_floor(tmp_path: Path) -> None:
    """The floor is above what any disk has free: the space opens, and takes no message."""
    journal = Journal(tmp_path / "j.jsonl")
    gateway = Gateway(new_epoch=lambda: 5)
    config = {"name": "demo", "participants": {"eve": {}}, "limits": {"journal_floor": 1 << 62}}
    with pytest.raises(JournalError, match="journal_floor"):
        gateway.add_space(SpaceConfig.model_validate(config), journal=journal)


# --- the parts ---


def test_the_defaults_are_those_that_the_configuration_tells() -> None:
    limits = LimitsConfig().of_journal
    assert limits == JournalLimits(
        bytes_per_second=2 * MIB, burst=64 * MIB, total=4096 * MIB, floor=128 * MIB
    )
    given = LimitsConfig(
        journal_bytes=MIB, journal_burst=2 * MIB, journal_floor=0, journal_bytes_per_second=1
    )
    assert given.of_journal == JournalLimits(bytes_per_second=1, burst=2 * MIB, total=MIB, floor=0)


def test_one_message_never_costs_more_than_what_is_taken_at_once() -> None:
    share = Share(JournalLimits(bytes_per_second=100, burst=1000), START)
    share.charge(10**9)
    assert share.exceeded(START + timedelta(seconds=9))
    assert not share.exceeded(START + timedelta(seconds=11))


@given(st.text(), st.text(alphabet='"\\ \n\u00e9', max_size=500))
def test_the_bytes_that_are_counted_are_about_those_of_the_line(one: str, other: str) -> None:
    record = Record(
        1, START, "received", "demo", "eve", "c1", verdict="accepted", received=one, raw=json.dumps(other)
    )
    real = len(write_line(record)) + 75
    assert real <= 6 * journal_bytes([record]) and journal_bytes([record]) <= real + 400


def test_the_hosts_own_events_have_no_payer() -> None:
    from mew_lab.space.events import Enrolled, Joined, Left, Noted, Received

    state = Gateway().add_space(SpaceConfig(name="demo")).state
    assert payer(Received("x", None, "eve"), state) == "eve"
    for event in (Enrolled("eve", ()), Left("c1"), Noted("x", "eve", ""), Joined("c1", "eve", "eve", "log")):
        assert payer(event, state) == ""


@pytest.mark.extension("journal_head")
def test_the_owners_welcome_tells_the_head_of_the_journal_and_nobody_elses(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    scene = Talk(journal)
    heads = {name: peer.heard[0]["payload"].get("journal_head") for name, peer in scene.peers.items()}
    assert heads["bob"] is heads["eve"] is None
    lines = journal.path.read_bytes().splitlines()
    place = next(n for n, line in enumerate(lines) if b'"event":"journal_head"' in line)
    assert f'"chain":"{heads["ada"]}"' in lines[place - 1].decode()
    from mew_lab.log.replay import replay

    assert replay(journal.path).unknown == 0


@pytest.mark.ruling("R42")
def test_a_note_counts_to_the_share_of_its_participant_and_needs_room_in_the_journal() -> None:
    tape = Disk()
    scene = Talk(tape, **SMALL)
    scene.gateway.enrol("demo", "eve", [{"kind": "*"}])
    note = json.dumps({"about": "resolution", "request": "q", "to": ["bob"], "happened": True})
    assert scene.gateway.report("demo", "eve", note).status == 200
    for _ in range(5):
        scene.gateway.post("demo", "eve", json.dumps({"kind": "chat", "payload": {"text": "a" * 600_000}}))
    assert scene.gateway.report("demo", "eve", note).status == 429
    assert scene.gateway.report("demo", "eve", note, via="memory").status == 200
    tape.full = True
    assert scene.gateway.report("demo", "eve", note, via="memory").status == 503
    assert len(scene.notes("reported")) == 2
