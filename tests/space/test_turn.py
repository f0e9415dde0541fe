"""One step is planned whole, then done whole; what the gateway says has ids of its own and an order."""

from __future__ import annotations

import json

import pytest

from mew_lab.protocol.text import timestamp
from mew_lab.space.core import RULES
from mew_lab.space.events import Deliver, Received, Record

from .stage import START, Stage


@pytest.mark.req("P-3-4")
def test_timestamps_are_rfc_3339_in_utc_with_milliseconds() -> None:
    assert timestamp(START.replace(microsecond=7999)) == "2026-01-01T00:00:00.007Z"


@pytest.mark.req("P-3-3", "P-3-4", "P-3-2", "P-4.1-9", "C-4", "P-3-9")
def test_everything_that_the_gateway_says_is_a_whole_envelope_under_a_fresh_id() -> None:
    stage = Stage(alice="*", bot=["chat"])
    said = [
        one.envelope
        for step in (
            stage.join("bot", as_="bot-2"),
            stage.grant("alice", "bot", "mcp/request"),
            stage.send("bot", "space/kick", {}),
            stage.send("alice", "space/invite", {"participant_id": "new"}),
            stage.send("alice", "stream/request", {}),
            stage.leave("alice"),
        )
        for one in step.of(Deliver)
        if one.envelope.sender != "alice"
    ]
    kinds = {
        "system/welcome",
        "system/presence",
        "system/error",
        "space/invite-ack",
        "stream/open",
        "stream/close",
    }
    assert {one.kind for one in said} == kinds
    for one in said:
        assert (one.members["protocol"], one.sender) == ("mew/v0.4", "system:gateway")
        assert one.ts == "2026-01-01T00:00:00.000Z"
        assert isinstance(one.members.get("correlation_id", []), list)
        assert one.id.startswith("gw-0000000000000001-")
        assert one.raw == json.dumps(one.members, separators=(",", ":"), ensure_ascii=False)
    assert len({one.id for one in said}) == len(said)


def test_lines_of_the_journal_are_numbered_and_come_before_what_they_speak_of() -> None:
    stage = Stage(alice="*", bot=[])
    step = stage.grant("alice", "bot", "chat")
    recorded: list[str | None] = []
    for effect in step.effects:
        if isinstance(effect, Record):
            recorded.append(effect.raw)
        else:
            assert effect.envelope.raw in recorded
    seqs = [one.seq for one in step.of(Record)]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


@pytest.mark.parametrize("kind", sorted(RULES))
def test_a_plan_that_is_dropped_never_was_whatever_the_rule(kind: str) -> None:
    """What a full disk refuses leaves no trace: planned again, it says the same; done, it is done once."""
    stage = Stage(alice="*", bot=["chat"])
    stream = stage.open("alice")
    stage.grant("alice", "bot", "mcp/request", id="g1")
    payload = {
        "recipient": "bot",
        "capabilities": [{"kind": "mcp/request"}],
        "participant_id": "bot",
        "stream_id": stream,
        "new_owner": "bot",
    }
    if kind == "space/invite":
        payload["participant_id"] = "new"
    if kind == "stream/open":
        del payload["stream_id"]
    message = Received(json.dumps({"id": "x", "kind": kind, "to": ["bot"], "payload": payload}), "alice")
    before = stage.streams(), stage.held("bot")
    first = stage.space.plan(message, stage.now)
    assert (stage.streams(), stage.held("bot")) == before
    again = stage.space.plan(message, stage.now)
    assert [type(one) for one in again.effects] == [type(one) for one in first.effects]
    assert again.effects[0].verdict == "accepted"  # type: ignore[union-attr]


def test_a_plan_drops_what_was_refused_too() -> None:
    stage = Stage(bot=[])
    plan = stage.space.plan(Received('{"kind":"chat"}', "bot"), stage.now)
    assert plan.effects == stage.raw("bot", '{"kind":"chat"}').effects
