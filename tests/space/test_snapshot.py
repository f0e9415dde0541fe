"""A space that is made again from its snapshot goes on like the one that was written down."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import ProtocolError
from mew_lab.space.core import Space
from mew_lab.space.events import Enrolled, Event, FrameReceived, GrantEnded, Joined, Left, Noted, Received
from mew_lab.space.opening import opening_record, reopen
from mew_lab.space.snapshot import restore, snapshot

from ..conftest import examples

pytestmark = pytest.mark.ruling("R31")
START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("ada", "bob", "cyd")
KINDS = (
    "chat",
    "mcp/request",
    "mcp/proposal",
    "capability/grant",
    "stream/*",
    "space/invite",
    "participant/pause",
)


def an_event(random: Random, n: int) -> Event:
    who, other = random.choice(NAMES), random.choice(NAMES)
    connection = random.choice([f"c{random.randrange(n + 3)}", None])

    def says(kind: str, payload: object = None, **members: object) -> Event:
        id = f"{random.choice('xyz')}-{random.randrange(40)}"
        text = json.dumps({"id": id, "kind": kind, **members, "payload": payload or {}})
        return Received(text, connection, who, who)

    can = [{"kind": random.choice(KINDS)}, {"kind": "chat", "payload": {"n": [1, "!a", "**"]}}]
    stream = f"stream-{random.randrange(1, 6)}"
    match random.randrange(15):
        case 0:
            return Enrolled(who, tuple(can))
        case 1 | 2:
            via = random.choice(["websocket", "memory", "log"])
            return Joined(f"c{n + 3}", who, random.choice([who, f"{who}-{n}", other]), via)
        case 3:
            return Joined(f"c{n + 3}", who, f"{who}-{n}", "websocket")
        case 4:
            return Left(f"c{random.randrange(n + 3)}", "gone")
        case 5 | 6:
            ends = [{}, {"max_uses": 2}, {"expires_at": "2026-01-01T00:00:20Z"}]
            given = {"recipient": other, "capabilities": can[: random.randrange(1, 3)], **random.choice(ends)}
            return says("capability/grant", given)
        case 7:
            return says("capability/revoke", {"recipient": other, "capabilities": can[:1]})
        case 8:
            return says(
                "space/invite", {"participant_id": f"new-{random.randrange(5)}", "initial_capabilities": can}
            )
        case 9:
            return says("space/kick", {"participant_id": other, "reason": "x"})
        case 10:
            return says("participant/pause", {"timeout_seconds": random.choice([0.05, 3600])}, to=[other])
        case 11:
            return says(
                "stream/request", {"direction": "upload", "description": "d", "x": [1.5, None, {"y": "z"}]}
            )
        case 12:
            return FrameReceived(f"c{random.randrange(n + 3)}", f"#{stream}#data".encode(), False)
        case 13:
            return GrantEnded()
        case _:
            kind = random.choice(
                ["chat", "stream/grant-write", "participant/shutdown", "mcp/request", "bad kind"]
            )
            return says(kind, {"stream_id": stream, "participant_id": other}, to=[other])


def a_space(random: Random, events: int) -> tuple[Space, datetime]:
    space, now = Space("demo", epoch=7, owner="ada"), START
    for name in NAMES:
        space.step(Enrolled(name, ({"kind": "*"},) if name == "ada" else ({"kind": "chat"},)), now)
    for n, name in enumerate(NAMES):
        space.step(Joined(f"c{n}", name, name, "websocket"), now)
    for n in range(events):
        now += timedelta(milliseconds=random.choice([1, 40, 2000]))
        try:
            space.step(an_event(random, n), now)
        except ValueError:  # the host's own fault: a name that is taken
            continue
    return space, now


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 150))
def test_it_goes_on_to_the_letter(seed: int, events: int) -> None:
    random = Random(seed)
    space, now = a_space(random, events)
    again = reopen(opening_record(space, START))
    text = snapshot(space)
    restore(again, text)
    assert snapshot(again) == text
    for n in range(events, events + 60):
        now += timedelta(milliseconds=random.choice([1, 40, 2000]))
        event = an_event(random, n)
        try:
            expected = space.step(event, now)
        except ValueError:
            continue
        assert again.step(event, now) == expected
    assert snapshot(again) == snapshot(space)


def test_everything_that_a_space_remembers_stands_in_it() -> None:
    space, _ = a_space(Random(1), 100)
    told = json.loads(snapshot(space))
    assert told.keys() | {"owner", "limits", "baseline", "message_bytes"} == vars(space.state).keys()


def test_what_journals_hold_does_not_follow_the_names_of_classes() -> None:
    # These names stand in journals that were written before; classes may be called otherwise since.
    names = {"dict", "ordered", "counter", "list", "tuple", "time", "rights", "member", "End", "Held"}
    names |= {"Connection", "Handle", "Pause", "Sender", "SpaceLimits", "Stream"}
    kinds: set[str] = set()

    def collect(value: object) -> None:
        if isinstance(value, list) and value:
            if isinstance(value[0], str):
                kinds.add(value[0])
            for part in value[1:]:
                collect(part)
        elif isinstance(value, dict):
            for part in value.values():
                collect(part)

    for seed in range(12):
        space, _ = a_space(Random(seed), 150)
        for part in json.loads(snapshot(space)).values():
            collect(part)
    assert {"Connection", "Pause", "Stream", "Handle", "End", "Held"} <= kinds
    assert {kind for kind in kinds if kind[:1].isupper()} <= names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"unknown":1}',
        '{"members":1}',
        '{"members":["dict",["x",["member",1]]]}',
        '{"members":["eval","1"]}',
        '{"messages":"1"}',
        '{"owner":"eve"}',
        '{"streams":["dict",["a",["Stream",1]]]}',
        '{"members":["dict",["x",["rights",{"":{"paylod":1}}]]]}',
        "[" * 5000,
    ],
)
def test_what_is_no_snapshot_is_refused_and_changes_nothing(text: str) -> None:
    space, _ = a_space(Random(2), 30)
    before = snapshot(space)
    with pytest.raises(ProtocolError, match="no snapshot"):
        restore(space, text)
    assert snapshot(space) == before


def test_a_note_is_remembered_as_little_as_before() -> None:
    space, now = a_space(Random(3), 5)
    before = json.loads(snapshot(space))
    space.step(Noted("x", "ada", "y"), now)
    after = json.loads(snapshot(space))
    assert {key for key in before if before[key] != after[key]} == {"records"}


def test_what_cannot_be_written_down_is_a_fault_and_is_not_left_out() -> None:
    space, _ = a_space(Random(4), 5)
    space.state.journal_head = b"head"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="a bytes cannot stand in a snapshot"):
        snapshot(space)
