"""The gateway's timer for grants that end: it tells the holder, once, and before any message is judged by what is over."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mew_lab.gateway.gateway import Gateway
from mew_lab.log.line import read_line, write_line
from mew_lab.log.replay import replay_records

from ..waiting import until
from .fakes import START, Listener, Scene

pytestmark = [pytest.mark.ruling("R25"), pytest.mark.threat(38)]


class Stage(Scene):
    """ann may do all, bob nothing."""

    def __init__(self, *, wall: bool = False) -> None:
        super().__init__({"ann": "*", "bob": ()}, wall=wall)
        self.bob = self.peers["bob"]

    def grant(self, id: str, **end: Any) -> None:
        rights = {"recipient": "bob", "capabilities": [{"kind": "chat"}], **end}
        self.say("ann", "capability/grant", rights, id=id)

    def chat(self, who: str = "bob") -> str:
        self.say(who, "chat", {})
        return next(one.code or one.verdict for one in reversed(self.events("received")))


async def test_the_holder_is_told_when_the_time_is_over_though_nobody_says_anything() -> None:
    stage = Stage(wall=True)
    stage.grant("g1", expires_at=(datetime.now(UTC) + timedelta(seconds=0.15)).isoformat())
    assert stage.bob.kinds[-2:] == ["capability/grant", "system/welcome"]
    heard = len(stage.bob.kinds)
    await until(lambda: stage.events("grant_ended"))
    assert stage.bob.kinds[heard:] == ["system/welcome"]
    [ended] = stage.events("grant_ended")
    assert json.loads(ended.detail) == ["g1"]
    assert stage.chat() == "capability_violation"
    again = replay_records(stage.tape.records)
    assert again.unwritten == () and again.space.state.ends == {}
    assert all(read_line(write_line(one)) == one for one in stage.tape.records)


async def test_a_message_that_comes_before_the_timer_is_judged_after_the_end() -> None:
    stage = Stage()
    stage.grant("g1", expires_at="2026-01-01T00:00:10Z")
    assert stage.chat() == "accepted"
    stage.now += timedelta(seconds=10)
    heard = len(stage.bob.kinds)
    assert stage.chat() == "capability_violation"
    assert stage.bob.kinds[heard:] == ["system/welcome", "system/error"]
    assert len(stage.events("grant_ended")) == 1
    replay_records(stage.tape.records)


def test_without_a_loop_the_next_message_sees_to_it() -> None:
    stage = Stage()
    stage.grant("g1", expires_at="2026-01-01T00:00:10Z")
    stage.now += timedelta(seconds=10)
    stage.chat("ann")
    assert len(stage.events("grant_ended")) == 1


async def test_ends_in_any_order_come_in_theirs_and_one_that_was_revoked_never() -> None:
    stage = Stage(wall=True)
    now = datetime.now(UTC)
    for id, seconds in (("late", 0.3), ("soon", 0.1), ("never", 0.2), ("far", 3600)):
        stage.grant(id, expires_at=(now + timedelta(seconds=seconds)).isoformat())
    stage.hear("ann", '{"kind":"capability/revoke","payload":{"grant_id":"never"}}')
    await until(lambda: len(stage.events("grant_ended")) == 2)
    assert [json.loads(one.detail) for one in stage.events("grant_ended")] == [["soon"], ["late"]]
    assert stage.chat() == "accepted"
    stage.gateway.close()


async def test_a_clock_that_goes_back_brings_no_grant_back() -> None:
    stage = Stage()
    stage.grant("g1", expires_at="2026-01-01T00:00:10Z")
    stage.now += timedelta(seconds=10)
    assert stage.chat() == "capability_violation"
    stage.now = START
    assert stage.chat() == "capability_violation"


async def test_a_space_that_goes_on_ends_what_was_over_meanwhile_and_keeps_the_uses_that_are_left() -> None:
    stage = Stage()
    stage.grant("time", expires_at="2026-01-01T00:00:10Z")
    stage.hear("ann", json.dumps({"id": "uses", "kind": "capability/grant", "payload": {
        "recipient": "bob", "capabilities": [{"kind": "mcp/request"}], "max_uses": 2}}))  # fmt: skip
    stage.hear("bob", '{"kind":"mcp/request","payload":{}}')
    again = replay_records(stage.tape.records)
    assert again.space.state.ends == replay_records(stage.tape.records).space.state.ends
    stage.gateway = Gateway(clock=lambda: stage.now)
    stage.now += timedelta(hours=1)
    stage.gateway.resume_space(
        again.space, since=again.last, connections=again.connections, journal=stage.tape
    )
    await until(lambda: stage.events("grant_ended"))
    bob = Listener()
    stage.of["bob"] = stage.gateway.admit("demo", "bob", bob)
    assert stage.chat() == "capability_violation"
    ask = '{"kind":"mcp/request","payload":{}}'
    stage.hear("bob", ask)
    stage.hear("bob", ask)
    received = [one for one in stage.tape.records if one.event == "received"][-2:]
    assert [one.code or one.grant for one in received] == ["uses", "capability_violation"]
    assert replay_records(stage.tape.records).unwritten == ()


async def test_an_end_that_the_journal_cannot_take_is_an_end_all_the_same() -> None:
    stage = Stage()
    stage.grant("g1", expires_at="2026-01-01T00:00:10Z")
    stage.tape.full = True
    stage.now += timedelta(seconds=10)
    stage.chat()
    assert not stage.events("grant_ended")
    stage.tape.full = False
    assert stage.chat() == "capability_violation"
    assert [one.event for one in stage.tape.records].count("grant_ended") == 1
    replay_records(stage.tape.records)
