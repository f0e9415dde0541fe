"""What the transcripts do not show: limits, host faults, and plans that are dropped."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest

from mew_lab.space import state as state_module
from mew_lab.space.core import Space
from mew_lab.space.events import Close, Deliver, Enrolled, Joined, Received, Record, Reply
from mew_lab.space.state import is_participant_id

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_space(**capabilities: list[dict[str, object]]) -> Space:
    space = Space("demo", epoch=7, participants=capabilities)
    for name in capabilities:
        space.step(Joined(f"c-{name}", name, name, "memory"), NOW)
    return space


def delivered(space: Space, event: object) -> list[Deliver]:
    return [effect for effect in space.step(event, NOW) if isinstance(effect, Deliver)]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "A9", "a.b_c-d", "x" * 64, "systems"])
def test_a_participant_may_be_called_so(name: str) -> None:
    assert is_participant_id(name)


@pytest.mark.threat(11, 27)
@pytest.mark.parametrize(
    "name",
    [
        "",
        "-a",
        "a b",
        "a/b",
        "../x",
        "é",
        "x" * 65,
        "gateway",
        "Gateway",
        "SYSTEM",
        "system:gateway",
        "a\n",
        "a\0",
    ],
)
def test_nobody_can_be_called_so(name: str) -> None:
    assert not is_participant_id(name)
    with pytest.raises(ValueError, match="cannot be a participant id"):
        Space("demo", epoch=1).step(Enrolled(name, ()), NOW)


def test_names_are_unique_whatever_their_case() -> None:
    space = a_space(Alice=[])
    with pytest.raises(ValueError, match="belongs to participant 'Alice'"):
        space.step(Enrolled("alice", ()), NOW)


def test_an_impossible_enrolment_leaves_no_trace() -> None:
    space = a_space(alice=[{"kind": "chat"}])
    before = (dict(space.state.members), space.state.records, space.state.messages)
    with pytest.raises(ValueError, match="cannot be"):
        space.step(Enrolled("gateway", ()), NOW)
    assert (dict(space.state.members), space.state.records, space.state.messages) == before


def test_a_participant_has_at_most_eight_connections() -> None:
    space = Space("demo", epoch=1, participants={"agent": []})
    for n in range(8):
        space.step(Joined(f"c{n}", "agent", f"run-{n}", "websocket"), NOW)
    *_, last = space.step(Joined("c8", "agent", "run-8", "websocket"), NOW)
    assert isinstance(last, Close) and last.code == 4409 and "limit_exceeded" in last.reason


def test_the_newest_connection_is_meant_by_a_logical_name() -> None:
    space = Space("demo", epoch=1, participants={"agent": [{"kind": "chat"}]})
    for n in range(2):
        space.step(Joined(f"c{n}", "agent", f"run-{n}", "websocket"), NOW)
    [deliver] = delivered(space, Received('{"kind":"chat","to":["agent"]}', "c0"))
    assert deliver.envelope.to == ("run-1",)


def test_a_plan_that_is_dropped_never_was() -> None:
    space = a_space(alice=[{"kind": "mcp/proposal"}])
    message = Received('{"id":"p1","kind":"mcp/proposal","payload":{"method":"tools/list"}}', "c-alice")
    first = space.plan(message, NOW)
    again = space.plan(message, NOW)
    assert first.effects == again.effects
    again.commit()
    refused = [one for one in space.step(message, NOW) if isinstance(one, Record)]
    assert refused[0].code == "duplicate_id"


@pytest.mark.req("P-3-3")
def test_the_oldest_handles_are_forgotten_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "MAX_HANDLES", 2)
    space = a_space(alice=[{"kind": "mcp/proposal"}])

    def codes(id: str) -> str:
        text = json.dumps({"id": id, "kind": "mcp/proposal", "payload": {"method": "x"}})
        return next(one.code for one in space.step(Received(text, "c-alice"), NOW) if isinstance(one, Record))

    assert [codes("a"), codes("b"), codes("c")] == ["", "", ""]
    assert [codes("c"), codes("b")] == ["duplicate_id", "duplicate_id"]
    assert codes("a") == ""


def test_a_handle_of_another_participant_is_refused_for_ever() -> None:
    space = a_space(alice=[{"kind": "mcp/proposal"}], bob=[{"kind": "mcp/proposal"}])
    text = '{"id":"p1","kind":"mcp/proposal","payload":{"method":"x"}}'
    assert len(delivered(space, Received(text, "c-alice"))) == 1
    [error] = delivered(space, Received(text, "c-bob"))
    assert error.envelope.payload["error"] == "duplicate_id" and error.connections == ("c-bob",)


def test_bytes_are_read_like_text() -> None:
    space = a_space(alice=[{"kind": "chat"}])
    [deliver] = delivered(space, Received(b'{"kind":"chat","payload":{"text":"\xc3\xa9"}}', "c-alice"))
    assert deliver.envelope.payload == {"text": "é"}
    [error] = delivered(space, Received(b"\xff", "c-alice"))
    assert error.envelope.payload["code"] == "invalid_json"


def test_of_a_text_that_is_too_large_only_size_and_digest_are_kept() -> None:
    space = Space("demo", epoch=1, participants={"alice": [{"kind": "chat"}]}, limit=1024)
    text = '{"kind":"chat","payload":{"text":"' + "é" * 600 + '"}}'
    record, reply = space.step(Received(text, None, "alice", "alice"), NOW)
    assert isinstance(record, Record) and isinstance(reply, Reply)
    assert (record.event, record.code, record.raw, reply.status) == (
        "oversize",
        "message_too_large",
        None,
        413,
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert json.loads(record.detail) == {"size": len(text.encode()), "sha256": digest}


def test_a_post_into_an_empty_space_is_kept_though_nobody_hears_it() -> None:
    space = Space("demo", epoch=1, participants={"alice": [{"kind": "chat"}]})
    effects = space.step(Received('{"kind":"chat"}', None, "alice", "alice"), NOW)
    assert [type(effect) for effect in effects] == [Record, Reply]


@pytest.mark.req("P-3.6-3", "P-2.2-3")
def test_spaces_share_nothing() -> None:
    one, other = a_space(alice=[{"kind": "chat"}]), a_space(alice=[])
    assert delivered(one, Received('{"kind":"chat"}', "c-alice"))[0].envelope.kind == "chat"
    assert delivered(other, Received('{"kind":"chat"}', "c-alice"))[0].envelope.kind == "system/error"


@pytest.mark.req("P-4.1-8", "P-4.1-1", "P-7.1-1")
@pytest.mark.threat(10, 11)
@pytest.mark.parametrize("sender", ["bob", "Alice", "alice ", "аlice", "system:gateway", "gateway", ""])
@pytest.mark.parametrize("kind", ["chat", "mcp/request", "capability/grant"])
def test_a_foreign_from_is_refused_for_every_kind(sender: str, kind: str) -> None:
    space = a_space(alice=[{"kind": "*"}], bob=[{"kind": "*"}])
    text = json.dumps({"kind": kind, "from": sender, "payload": {}})
    [error] = delivered(space, Received(text, "c-alice"))
    assert error.connections == ("c-alice",)
    assert error.envelope.payload["error"] == "identity_mismatch"
