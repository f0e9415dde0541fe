"""A journal is enough to do it all again, and to see where somebody did otherwise."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import JournalError, ReplayMismatch
from mew_lab.log.journal import Journal, read_journal
from mew_lab.log.replay import event_of, replay, replay_records
from mew_lab.space.events import (
    Enrolled,
    Event,
    FrameReceived,
    Joined,
    Left,
    Limited,
    Noted,
    Oversize,
    Received,
    Record,
)
from mew_lab.space.state import UNBOUNDED, SpaceLimits

from ..conftest import examples
from .stage import START, Stage, says

CONVERSATIONS = Path(__file__).parent.parent / "conversations"
ANYTHING = ({"kind": "*"},)


def a_session(**settings: Any) -> Stage:
    """Something of everything that a space without grants and streams knows."""
    return Stage(**settings).play(
        Enrolled("anna", ANYTHING),
        Enrolled("bert", ({"kind": "chat"},)),
        Joined("c1", "anna", "anna", "memory"),
        Joined("c2", "bert", "client-17", "websocket"),
        Joined("c3", "bert", "anna", "websocket"),
        Joined("c4", "nobody", "nobody", "websocket"),
        Joined("c5", "anna", "a b", "websocket"),
        Received('{"kind":"chat","payload":{"text":"hi"}}', "c1"),
        Received('{"protocol":"mew/v0.4","id":"m-1","ts":"t","from":"client-17","kind":"chat"}', "c2"),
        Received('{"kind":"chat","to":["bert"],"correlation_id":"m-1"}', "c1"),
        Received('{"kind":"mcp/request","id":"r-1"}', "c1"),
        Received('{"kind":"mcp/request","id":"r-1"}', "c1"),
        Received('{"kind":"mcp/request"}', "c2"),
        Received('{"kind":"chat","from":"anna"}', "c2"),
        Received('{"kind":"system/welcome"}', "c1"),
        Received("{broken\n", "c2"),
        Received("\ud800", "c2"),
        Received('{"kind":"chat"}', None, "bert", "bert"),
        Received('{"kind":"chat"}', None, "bert", "client-17"),
        Received("[]", None, "bert", "client-17"),
        FrameReceived("c2", b"#stream-9#data", False),
        FrameReceived("c2", b"no frame", False),
        Oversize("c2", 5_000_000, "ab" * 32),
        Limited("c1", 40),
        Noted("decided", "anna", '{"proposal":"p-1"}'),
        Enrolled("bert", ANYTHING),
        Left("c2", "went \ud800 away"),
        Left("c2"),
        Joined("c6", "bert", "client-17", "websocket"),
        Left("c1"),
    )


GRANT = {"recipient": "bert", "capabilities": [{"kind": "mcp/request"}, {"kind": "capability/grant"}]}


def a_governed_session() -> Stage:
    """Grants that rest on each other, an invitation, a kick, a pause, streams and a log sink."""
    return Stage(owner="anna").play(
        Enrolled("anna", ANYTHING),
        *(Enrolled(name, ({"kind": "chat"},)) for name in ("bert", "cora")),
        Joined("c1", "anna", "anna", "memory"),
        Joined("c2", "bert", "client-17", "websocket"),
        Joined("c3", "cora", "cora", "log"),
        Received(says("capability/grant", "g-1", GRANT), "c1"),
        Received(says("capability/grant", "g-1", GRANT), "c1"),
        Received(says("mcp/request", "r-1"), "c2"),
        Received(
            says("capability/grant", "g-2", {"recipient": "cora", "capabilities": [{"kind": "mcp/request"}]}),
            "c2",
        ),
        Received(says("mcp/request", "r-2"), None, "cora", "cora"),
        Received(says("capability/revoke", "v-1", {"grant_id": "g-1"}), "c1"),
        Received(says("mcp/request", "r-3"), None, "cora", "cora"),
        Received(says("space/invite", "i-1", {"participant_id": "dora", "email": "d@example.org"}), "c1"),
        Received(says("space/invite", "i-2", {"participant_id": "dora"}), "c1"),
        Received(says("space/invite", "i-3", {"participant_id": "emil"}), None, "anna", "anna"),
        Joined("c4", "dora", "dora", "websocket"),
        Received(says("space/kick", "k-1", {"participant_id": "dora", "reason": "enough"}), "c1"),
        Received(says("chat", "m-1"), "c4"),
        Left("c4", "kicked"),
        Joined("c5", "dora", "dora", "websocket"),
        Received(says("participant/pause", "p-1", {"timeout_seconds": 0.02}, to=["bert"]), "c1"),
        Received(says("chat", "m-2"), "c2"),
        FrameReceived("c2", b"#stream-1#x", False),
        Received(says("participant/status", "s-1"), "c2"),
        Received(says("chat", "m-3"), "c2"),
        Received(says("participant/pause", "p-2", to=["bert"]), "c1"),
        Received(says("participant/resume", "p-3", to=["bert"]), "c1"),
        Received(says("stream/request", "q-1", {"direction": "upload"}), "c1"),
        FrameReceived("c1", b"#stream-1#data", False),
        FrameReceived("c2", b"#stream-1#data", False),
        Received(
            says("stream/grant-write", "w-1", {"stream_id": "stream-1", "participant_id": "bert"}), "c1"
        ),
        FrameReceived("c2", b"#stream-1#data", True),
        *[FrameReceived("c2", b"#stream-9#" + bytes(n), False) for n in range(15)],
        Received(
            says("stream/transfer-ownership", "t-1", {"stream_id": "stream-1", "new_owner": "bert"}), "c1"
        ),
        Left("c2"),
        Received(says("participant/shutdown", "d-1", to=["cora"]), "c1"),
        Received(says("chat", "m-4"), None, "cora", "cora"),
        Oversize(None, 5_000_000, "ab" * 32, "cora", "cora"),
        Enrolled("bert", ()),
    )


@pytest.fixture(scope="module")
def transcripts() -> Any:
    """What reads the transcripts of tests/conversations."""
    where = Path(__file__).parent.parent / "space" / "test_conversations.py"
    spec = importlib.util.spec_from_file_location("transcripts", where)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(path: Path, records: Iterable[Record], *, rotate_at: int = 1 << 20) -> Path:
    journal = Journal(path, rotate_at=rotate_at)
    for record in records:
        journal.append([record])
    journal.close()
    return path


def test_a_journal_replays_without_a_difference(tmp_path: Path) -> None:
    stage = a_session()
    again = replay(written(tmp_path / "j.jsonl", stage.records))
    assert str(again) == "29 events, no difference"
    assert again.last == stage.now
    assert (again.unwritten, again.void) == ((), frozenset())
    one, other = stage.space.state, again.space.state
    assert (one.records, one.messages) == (other.records, other.messages)
    assert one.connections == other.connections
    assert one.handles == other.handles
    assert one.runtime_owners == other.runtime_owners
    # and both go on alike
    chat = Received('{"kind":"chat"}', "c6")
    assert stage.space.step(chat, stage.now) == again.space.step(chat, stage.now)


def test_what_a_fresh_space_sent_otherwise_is_told_in_a_sentence() -> None:
    records = a_session().records
    at = next(n for n, one in enumerate(records) if one.event == "sent" and "join" in (one.raw or ""))
    forged = records[at]._replace(raw=(records[at].raw or "").replace('"join"', '"leave"'))
    with pytest.raises(ReplayMismatch) as caught:
        replay_records([*records[:at], forged, *records[at + 1 :]], name="j.jsonl")
    fault = caught.value
    assert (fault.index, fault.expected, fault.actual) == (records[at].seq, forged, records[at])
    assert str(fault) == (
        '#5 of j.jsonl (sent "system/presence") differs in raw: it says '
        r'…"ce\",\"payload\":{\"event\":\"leave\",\"participant\":{\"id\":\"anna\",\"capabilities\":[{\"kind…", '
        "a fresh space "
        r'…"ce\",\"payload\":{\"event\":\"join\",\"participant\":{\"id\":\"anna\",\"capabilities\":[{\"kind\"…"'
    )


CHANGES: dict[str, Any] = {
    "seq": 99,
    "now": START - timedelta(days=1),
    "space": "other",
    "participant": "eve",
    "connection": "c99",
    "via": "carrier pigeon",
    "verdict": "seen",
    "code": "none",
    "pattern": "{}",
    "to": ("c99",),
    "grant": "g-1",
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_field_of_any_record_that_the_space_made_is_found(field: str) -> None:
    records = a_session().records
    for at, record in enumerate(records):
        if record.event == "sent" and getattr(record, field) != CHANGES[field]:
            forged = record._replace(**{field: CHANGES[field]})
            with pytest.raises(ReplayMismatch) as caught:
                replay_records([*records[:at], forged, *records[at + 1 :]])
            assert caught.value.actual == record
            assert f" differs in {field}: " in str(caught.value)


def test_a_verdict_that_the_space_does_not_reach_is_found() -> None:
    records = a_session().records
    for at, record in enumerate(records):
        if record.verdict in ("accepted", "refused"):
            other = "refused" if record.verdict == "accepted" else "accepted"
            with pytest.raises(ReplayMismatch):
                replay_records([*records[:at], record._replace(verdict=other), *records[at + 1 :]])


def test_a_record_that_is_missing_is_found() -> None:
    """All but notes, which cause nothing, and what nobody would know of: the end."""
    records = a_session().records
    for at in range(1, len(records) - 1):
        with pytest.raises((ReplayMismatch, JournalError)):
            replay_records([*records[:at], *records[at + 1 :]])


def test_a_record_that_nothing_caused_is_found() -> None:
    records = a_session().records
    greeting = next(one for one in records if one.event == "sent")
    for stray, told in (
        (greeting, '(sent "system/welcome")'),
        (Record(1, START, "left", "demo", "anna", "c77"), "(left)"),
        (Record(1, START, "lapsed", "demo", "anna", detail="bert"), "(lapsed)"),
    ):
        with pytest.raises(ReplayMismatch) as caught:
            replay_records([records[0], stray])
        assert (caught.value.expected, caught.value.actual) == (stray, None)
        assert f"{told} is nothing that a fresh space would record" in str(caught.value)


def test_a_journal_in_several_files_replays_from_the_first(tmp_path: Path) -> None:
    path = written(tmp_path / "j.jsonl", a_session().records, rotate_at=2000)
    assert len(list(tmp_path.iterdir())) > 3
    with pytest.raises(JournalError, match=r'it continues "j-2\.jsonl"; name the first file'):
        replay(tmp_path / "j-3.jsonl")
    assert str(replay(path)) == "29 events, no difference"


def test_each_epoch_of_a_file_is_a_space_of_its_own(tmp_path: Path) -> None:
    second = Stage(epoch=8, limit=2048, baseline=()).play(
        Enrolled("anna", ANYTHING), Joined("c1", "anna", "anna", "memory"), Received("x" * 3000, "c1")
    )
    path = written(tmp_path / "j.jsonl", [*a_session().records, *second.records])
    again = replay(path)
    assert str(again) == "32 events, no difference"
    assert (again.space.epoch, again.space.limit, again.space.state.baseline) == (8, 2048, ())
    assert list(again.space.state.connections) == ["c1"]


def test_an_opening_in_the_middle_of_an_event_is_found() -> None:
    first = a_session().records
    with pytest.raises(ReplayMismatch):
        replay_records([*first[:-1], *Stage(epoch=8).records])


def test_records_that_a_killed_gateway_did_not_write_are_foretold(tmp_path: Path) -> None:
    records = a_session().records
    assert [one.event for one in records[-2:]] == ["left", "sent"]
    again = replay_records(records[:-1])
    assert again.unwritten == (records[-1],)
    assert str(again) == (
        "29 events, no difference; the last one's records end 1 short, as when its gateway was killed"
    )
    path = written(tmp_path / "j.jsonl", records)
    path.write_bytes(path.read_bytes()[:-40])
    assert replay(path).unwritten == (records[-1],)


@pytest.mark.threat(32)
def test_a_line_that_cannot_be_read_ends_the_replay(tmp_path: Path) -> None:
    path = written(tmp_path / "j.jsonl", a_session().records)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"{}\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match="line 3 is not a whole record"):
        replay(path)


@pytest.mark.threat(32)
@pytest.mark.parametrize(
    ("event", "detail"),
    [
        ("enrolled", "{"),
        ("enrolled", "3"),
        ("enrolled", "[3]"),
        ("enrolled", '[{"kind":"chat","paylod":{}}]'),
        ("enrolled", "[" * 100_000),
        ("frame", "[]"),
        ("frame", '{"stream_id":"s"}'),
        ("frame", '{"stream_id":"s","size":-1}'),
        ("frame", '{"stream_id":"s","size":1e300}'),
        ("oversize", "{}"),
        ("limited", "null"),
        ("received", ""),
    ],
)
def test_a_record_that_does_not_tell_its_event_is_reported(event: str, detail: str) -> None:
    record = Record(3, START, event, "demo", "anna", "c1", detail=detail)
    with pytest.raises(JournalError, match=f"cannot be replayed at #3: its {event} cannot be read"):
        replay_records([*Stage().records, record])


def test_what_cannot_be_replayed_says_why(tmp_path: Path) -> None:
    seen = Record(0, START, "opened", "demo", detail='{"format":1,"epoch":null,"vantage":"participant"}')
    with pytest.raises(JournalError, match="recorded by a participant"):
        replay_records([seen])
    with pytest.raises(JournalError, match="does not begin with the opening of a space"):
        replay_records(a_session().records[1:])
    with pytest.raises(JournalError, match="it holds no record"):
        replay_records([])
    for detail in (
        "",
        "[]",
        "{}",
        '{"epoch":null}',
        '{"epoch":1,"message_bytes":"2"}',
        '{"epoch":1,"baseline":4}',
    ):
        with pytest.raises(JournalError, match="this is no space's first record"):
            replay_records([Record(0, START, "opened", "demo", detail=detail)])
    with pytest.raises(JournalError, match=r"nowhere\.jsonl"):
        replay(tmp_path / "nowhere.jsonl")


def test_a_journal_of_before_replays_too() -> None:
    """Its first line told the epoch alone; all spaces were alike otherwise."""
    records = a_session(edition=0, limits=SpaceLimits(**UNBOUNDED)).records
    older = records[0]._replace(detail='{"format":1,"epoch":7,"vantage":"gateway"}')
    assert replay_records([older, *records[1:]]).events == 29


def test_whoever_watches_sees_every_record_that_held(tmp_path: Path) -> None:
    path = written(tmp_path / "j.jsonl", a_session().records)
    seen: list[Record] = []
    replay(path, observe=seen.append)
    assert seen == list(read_journal(path))


def test_grants_invitations_pauses_and_streams_replay_too(tmp_path: Path) -> None:
    stage = a_governed_session()
    events = [one.event for one in stage.records]
    assert {"lapsed", "frame", "oversize"} <= set(events)
    said = "".join(one.raw or "" for one in stage.records)
    for kind in ("space/invite-ack", "stream/open", "stream/ownership-transferred", "stream/close", "paused"):
        assert f'"{kind}"' in said, kind
    again = replay(written(tmp_path / "j.jsonl", stage.records))
    assert (again.unwritten, again.void) == ((), {"dora"})
    one, other = stage.space.state, again.space.state
    assert {
        name: (member.rights.texts, member.rights.grants, member.pause)
        for name, member in one.members.items()
    } == {
        name: (member.rights.texts, member.rights.grants, member.pause)
        for name, member in other.members.items()
    }
    assert (one.streams, one.streams_opened, one.grants, one.invites) == (
        other.streams, other.streams_opened, other.grants, other.invites
    )  # fmt: skip
    assert (one.lasting, one.aliases, one.refused_frames) == (
        other.lasting,
        other.aliases,
        other.refused_frames,
    )


@pytest.mark.parametrize("head", range(5))
@pytest.mark.parametrize("tail", range(62, 67))
def test_a_refused_frame_of_any_bytes_replays(head: int, tail: int) -> None:
    """Its record quotes the first bytes as text, cut; the replay needs no others."""
    joined = [Enrolled("anna", ANYTHING), Joined("c1", "anna", "anna", "memory")]
    for data in (b"#" + b"a" * head + b"\xff" * tail, b"#" + b"\\" * head + b"\xfe#" * tail):
        assert replay_records(Stage().play(*joined, FrameReceived("c1", data, False)).records).events == 3


@pytest.mark.parametrize("path", sorted(CONVERSATIONS.glob("*.txt")), ids=lambda path: path.stem)
def test_every_transcript_replays(path: Path, transcripts: Any) -> None:
    text = path.read_text(encoding="utf-8")
    owner = re.match(r"# owner (\S+)", text)
    stage = Stage(owner=owner[1] if owner else "")
    for above, _ in transcripts.steps(text):
        for line in above:
            if not line.startswith(("#", "at ")):
                stage.play(transcripts.read_event(line))
    again = replay_records(stage.records)
    assert (again.unwritten, again.space.state.records) == ((), stage.space.state.records)


def test_a_token_that_was_minted_anew_is_not_void() -> None:
    stage = a_governed_session().play(
        Received(says("space/invite", "i-9", {"participant_id": "dora"}), "c1"),
    )
    assert replay_records(stage.records).void == frozenset()


# --- any session ---

TEXTS = st.sampled_from(
    [
        '{"kind":"chat"}',
        '{"kind":"chat","to":["anna","bert"]}',
        '{"kind":"mcp/request","id":"r-1"}',
        '{"kind":"mcp/proposal","id":"r-1","correlation_id":"r-0"}',
        '{"kind":"chat","from":"anna"}',
        '{"kind":"system/error"}',
        '{"kind":"capability/grant"}',
        "[]",
        "",
        "\udcff",
        says("capability/grant", "g-1", GRANT),
        says("capability/grant", "g-2", {"recipient": "cora", "capabilities": [{"kind": "mcp/request"}]}),
        says("capability/revoke", "v-1", {"grant_id": "g-1"}),
        says("capability/revoke", "v-2", {"recipient": "bert", "capabilities": [{"kind": "*"}]}),
        says("space/invite", "i-1", {"participant_id": "dora"}),
        says("space/kick", "k-1", {"participant_id": "dora"}),
        says("space/kick", "k-2", {"participant_id": "client-1"}),
        says("participant/pause", "p-1", {"timeout_seconds": 0.03}, to=["bert"]),
        says("participant/resume", "p-2", to=["bert"]),
        says("participant/shutdown", "p-3", to=["bert"]),
        says("stream/request", "q-1", {"direction": "upload"}),
        says("stream/request", "q-2", {"target": ["bert"]}),
        says("stream/grant-write", "w-1", {"stream_id": "stream-1", "participant_id": "bert"}),
        says("stream/close", "w-2", {"stream_id": "stream-1"}),
    ]
)
NAMES = st.sampled_from(["anna", "bert", "cora", "dora"])
RUNTIME = st.sampled_from(["anna", "bert", "client-1", "client-2", "a b", ""])
LINKS = st.sampled_from(["c1", "c2", "c3", "c4"])
FRAMES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"#s#d", b"#stream-1#data", b"#stream-1", b"#", b"##", b"#\\xff", b"#\xff"]),
    st.builds(lambda head, n: b"#" + head + b"\xff" * n, st.binary(max_size=3), st.integers(60, 70)),
    st.builds(lambda n, tail: b"#" + b"a" * n + tail, st.integers(250, 260), st.binary(max_size=9)),
)
EVENTS = st.one_of(
    st.builds(Enrolled, NAMES, st.sampled_from([ANYTHING, (), ({"kind": "chat"},)])),
    st.builds(Joined, LINKS, NAMES, RUNTIME, st.sampled_from(["memory", "websocket", "log"])),
    st.builds(Left, LINKS, st.text(st.characters(exclude_categories=()), max_size=3)),
    st.builds(Received, TEXTS, LINKS),
    st.builds(Received, TEXTS, st.none(), NAMES, RUNTIME),
    st.builds(FrameReceived, LINKS, FRAMES, st.booleans()),
    st.builds(Oversize, LINKS, st.integers(0, 9), st.just("ab")),
    st.builds(Limited, LINKS, st.integers(1, 9)),
    st.builds(Noted, st.just("decided"), NAMES, st.text(max_size=3)),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_any_session_replays_from_its_file(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event]
) -> None:
    stage = Stage(owner="anna").play(Enrolled("anna", ANYTHING), Joined("c1", "anna", "anna", "memory"))
    names = {"c1"}
    for event in events:
        if isinstance(event, Joined):
            if event.connection in names:
                continue  # a gateway gives each connection a name of its own
            names.add(event.connection)
        with suppress(ValueError):  # an enrolment that cannot be is the host's fault, and no event
            stage.play(event)
    path = written(tmp_path_factory.mktemp("any") / "j.jsonl", stage.records)
    again = replay(path)
    assert (again.unwritten, again.space.state.connections) == ((), stage.space.state.connections)


def test_an_event_is_told_in_full_by_its_record() -> None:
    """What replay makes of a record is the event that was, but for bytes that were not kept."""
    for event in (
        Enrolled("anna", ({"kind": "chat"},)),
        Joined("c1", "anna", "client-1", "memory"),
        Noted("decided", "anna", "approve"),
        Oversize(None, 5, "ab", "anna", "client-1"),
        Limited("c1", 3),
        Left("c1", "gone"),
    ):
        stage = Stage().play(Enrolled("anna", ({"kind": "chat"},)))
        if not isinstance(event, Enrolled | Joined):
            stage.play(Joined("c1", "anna", "client-1", "memory"))
        before = len(stage.records)
        stage.play(event)
        assert event_of(stage.records[before]) == event
