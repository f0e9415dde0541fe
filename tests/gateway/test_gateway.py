"""A gateway records before it delivers, and what it cannot record never was."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from mew_lab.errors import JournalError, NotAdmitted
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.delivery import Frame
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.log.replay import replay_records
from mew_lab.transport.link import LinkClosed

from .fakes import Listener, Tape

START = datetime(2026, 1, 1, tzinfo=UTC)


def a_gateway(**participants: list[dict[str, object]]) -> tuple[Gateway, Tape]:
    tape = Tape()
    ticks = iter(range(1_000_000))
    gateway = Gateway(clock=lambda: START + timedelta(milliseconds=next(ticks)), new_epoch=lambda: 5)
    config = {
        "name": "demo",
        "participants": {name: {"capabilities": can} for name, can in participants.items()},
    }
    gateway.add_space(SpaceConfig.model_validate(config), journal=tape)
    return gateway, tape


CHAT: list[dict[str, object]] = [{"kind": "chat"}]
HELLO = '{"id":"m1","kind":"chat","payload":{"text":"hello"}}'


@pytest.mark.req("P-3.8.1-1", "P-3.7-5", "P-5.2-4", "P-5.2-5")
def test_the_welcome_is_the_first_thing_a_connection_hears() -> None:
    gateway, _ = a_gateway(alice=CHAT, bob=CHAT)
    alice, bob = Listener(), Listener()
    gateway.admit("demo", "alice", alice)
    gateway.admit("demo", "bob", bob)
    assert alice.kinds == ["system/welcome", "system/presence"]
    assert bob.kinds == ["system/welcome"]


@pytest.mark.req("P-3.6.8-5")
def test_nothing_is_delivered_that_was_not_recorded_first() -> None:
    gateway, tape = a_gateway(alice=CHAT, bob=CHAT)
    peers = [Listener(tape), Listener(tape)]
    names = [gateway.admit("demo", who, peer) for who, peer in zip(("alice", "bob"), peers, strict=True)]
    gateway.receive("demo", names[0], HELLO)
    gateway.receive("demo", names[0], '{"kind":"mcp/request"}')
    gateway.leave("demo", names[0])
    assert [peer.unrecorded for peer in peers] == [[], []]
    assert "chat" in peers[1].kinds
    assert [record.seq for record in tape.records] == list(range(len(tape.records)))


def test_a_message_that_cannot_be_recorded_is_refused_and_never_was() -> None:
    gateway, tape = a_gateway(alice=[{"kind": "mcp/proposal"}], bob=CHAT)
    alice, bob = Listener(), Listener()
    connection = gateway.admit("demo", "alice", alice)
    gateway.admit("demo", "bob", bob)
    proposal = '{"id":"p1","kind":"mcp/proposal","payload":{"method":"tools/list"}}'
    tape.full = True
    gateway.receive("demo", connection, proposal)
    assert alice.heard[-1]["payload"]["error"] == "journal_unavailable"
    assert alice.heard[-1]["correlation_id"] == ["p1"]
    assert bob.kinds == ["system/welcome"]
    tape.full = False
    gateway.receive("demo", connection, proposal)  # the same id again: it was never taken
    assert bob.kinds == ["system/welcome", "mcp/proposal"]


def test_a_post_that_cannot_be_recorded_is_answered_503() -> None:
    gateway, tape = a_gateway(alice=CHAT)
    tape.full = True
    reply = gateway.post("demo", "alice", HELLO)
    assert (reply.status, reply.body["error"]) == (503, "journal_unavailable")
    tape.full = False
    assert gateway.post("demo", "alice", HELLO).status == 200


def test_nobody_is_admitted_while_the_journal_cannot_be_written() -> None:
    gateway, tape = a_gateway(alice=CHAT)
    tape.full = True
    with pytest.raises(NotAdmitted, match="cannot write its journal") as caught:
        gateway.admit("demo", "alice", Listener())
    assert caught.value.close_code == 1013
    assert gateway.connections() == 0
    with pytest.raises(JournalError):
        gateway.enrol("demo", "carol", CHAT)
    tape.full = False
    gateway.admit("demo", "alice", Listener())
    assert gateway.connections("demo") == 1


def test_a_leave_is_told_once_the_journal_can_be_written_again() -> None:
    gateway, tape = a_gateway(alice=CHAT, bob=CHAT)
    bob = Listener(tape)
    connection = gateway.admit("demo", "alice", Listener())
    gateway.admit("demo", "bob", bob)
    tape.full = True
    gateway.leave("demo", connection, "gone")
    assert gateway.connections() == 1 and bob.kinds == ["system/welcome"]
    tape.full = False
    gateway.note("demo", "decided", participant="bob", detail="{}")
    assert bob.kinds == ["system/welcome", "system/presence"]
    assert bob.unrecorded == []
    assert [one.event for one in tape.records][-3:] == ["left", "sent", "decided"]


def test_time_never_runs_backwards_for_a_space() -> None:
    times = iter([START, START + timedelta(seconds=5), START, START - timedelta(days=1)])
    tape, last = Tape(), [START]

    def clock() -> datetime:
        last[0] = next(times, last[0])
        return last[0]

    gateway = Gateway(clock=clock)
    gateway.add_space(
        SpaceConfig.model_validate({"name": "demo", "participants": {"a": {}, "b": {}}}), journal=tape
    )
    for _ in range(3):
        gateway.note("demo", "decided", participant="a", detail="")
    moments = [record.now for record in tape.records]
    assert moments == sorted(moments) and len(moments) == 6


@pytest.mark.req("P-3.6-1", "P-3.6-2", "P-3.6-3")
def test_two_spaces_of_one_gateway_hear_nothing_of_each_other() -> None:
    gateway = Gateway()
    for space in ("one", "two"):
        config = {"name": space, "participants": {"alice": {"capabilities": CHAT}}}
        gateway.add_space(SpaceConfig.model_validate(config))
    first, second = Listener(), Listener()
    connection = gateway.admit("one", "alice", first)
    gateway.admit("two", "alice", second)
    gateway.receive("one", connection, HELLO)
    assert first.kinds == ["system/welcome", "chat"]
    assert second.kinds == ["system/welcome"]
    with pytest.raises(ValueError, match="runs in this gateway already"):
        gateway.add_space(SpaceConfig(name="one"))


def test_a_message_that_comes_while_another_is_delivered_waits_its_turn() -> None:
    gateway, _ = a_gateway(alice=CHAT, bob=CHAT)

    class Echo(Listener):
        def put(self, frame: Frame) -> None:
            super().put(frame)
            if self.heard[-1]["kind"] == "chat" and len(self.kinds) < 4:
                gateway.receive("demo", self.name, '{"kind":"chat","payload":{"text":"echo"}}')

    echo, bob = Echo(), Listener()
    echo.name = gateway.admit("demo", "alice", echo)  # type: ignore[attr-defined]
    connection = gateway.admit("demo", "bob", bob)
    gateway.receive("demo", connection, HELLO)
    texts = [one["payload"]["text"] for one in bob.heard if one["kind"] == "chat"]
    assert texts == ["hello", "echo"]


async def test_closing_tells_every_connection() -> None:
    gateway, _ = a_gateway(alice=CHAT)
    link = attach(gateway, "demo", "alice")
    assert json.loads(await link.receive())["kind"] == "system/welcome"  # type: ignore[arg-type]
    gateway.close()
    with pytest.raises(LinkClosed) as caught:
        await link.receive()
    assert caught.value.code == 1012
    assert gateway.spaces == ()


async def test_a_link_that_closes_leaves_the_space() -> None:
    gateway, tape = a_gateway(alice=CHAT, bob=CHAT)
    bob = Listener()
    gateway.admit("demo", "bob", bob)
    link = attach(gateway, "demo", "alice")
    await link.receive()
    await link.send(HELLO)
    assert json.loads(await link.receive())["payload"] == {"text": "hello"}  # type: ignore[arg-type]
    await link.close(1000, "good night")
    left = asyncio.Event()
    gateway.observe = lambda record: left.set() if record.event == "left" else None
    async with asyncio.timeout(10):
        await left.wait()
    assert bob.heard[-1]["payload"]["event"] == "leave"
    assert tape.records[-2].detail == "good night"


def test_a_dead_connection_gives_way_to_its_successor() -> None:
    gateway, _ = a_gateway(alice=CHAT)
    first, second = Listener(), Listener()
    gateway.admit("demo", "alice", first)
    with pytest.raises(NotAdmitted, match="is taken") as caught:
        gateway.admit("demo", "alice", second)
    assert caught.value.close_code == 4409
    assert gateway.holder("demo", "alice") is first
    gateway.replace("demo", "alice")
    assert first.closed is not None and first.closed[0] == 4409
    gateway.admit("demo", "alice", second)
    assert gateway.holder("demo", "alice") is second


def test_a_space_goes_on_where_its_journal_ends() -> None:
    gateway, tape = a_gateway(alice=[{"kind": "*"}], bob=CHAT)
    one = gateway.admit("demo", "alice", Listener())
    grant = {"recipient": "bob", "capabilities": [{"kind": "mcp/request"}]}
    text = json.dumps({"id": "g-1", "kind": "capability/grant", "payload": grant})
    gateway.receive("demo", one, text)
    again = replay_records(tape.records)

    other = Gateway(clock=lambda: START)  # a wall clock that went backwards meanwhile
    other.resume_space(again.space, since=again.last, connections=again.connections, journal=tape)
    assert [record.event for record in tape.records[-3:]] == ["resumed", "left", "sent"]
    bob = Listener()
    name = other.admit("demo", "bob", bob)
    assert name != one
    other.receive("demo", name, '{"kind":"mcp/request","payload":{"method":"tools/list"}}')
    other.receive("demo", name, text.replace("mcp/request", "chat"))
    assert tape.records[-3].grant == "g-1"
    assert tape.records[-2].code == "capability_violation"
    ids = [json.loads(record.raw)["id"] for record in tape.records if record.event == "sent" and record.raw]
    assert len(ids) == len(set(ids))
    moments = [record.now for record in tape.records]
    assert moments == sorted(moments)
    assert [record.seq for record in tape.records] == list(range(len(tape.records)))
    assert replay_records(tape.records).unwritten == ()
    assert other.history("demo", "bob", after=START) is None, "what was before is not at hand"
    with pytest.raises(ValueError, match="runs in this gateway already"):
        other.resume_space(again.space, since=again.last, connections=0)
