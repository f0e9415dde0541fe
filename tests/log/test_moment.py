"""The state of a space at any point of its log is the one that a full replay has there, and reads as it happened."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mew_lab.errors import JournalError, NoSuchName
from mew_lab.log.journal import Journal
from mew_lab.log.log import Log, open_log
from mew_lab.log.moment import Moment
from mew_lab.log.prune import prune
from mew_lab.log.replay import Player
from mew_lab.log.sidecar import has_index
from mew_lab.log.state_history import StateHistory
from mew_lab.space.core import Space
from mew_lab.space.events import Enrolled, Joined, Left, Received
from mew_lab.space.snapshot import snapshot

from .stage import START, Stage, branch_of, hostile, keep, observed, says

# What no record tells in a few steps; the documentation of StateReplay names these.
LEFT_OUT = ("handles", "handles_of", "chats", "chats_of", "refused_frames", "messages", "records")


def state_of(space: Space) -> dict[str, Any]:
    state = json.loads(snapshot(space))
    return {name: value for name, value in state.items() if name not in LEFT_OUT}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(6))
def test_each_moment_of_a_hostile_session_is_that_of_a_full_replay(seed: int, tmp_path: Path) -> None:
    stage = hostile(seed, 400)
    path = keep(stage.records, tmp_path / "j.jsonl", rotate_at=200_000)
    player, expected = Player("whole"), {}
    places = set(Random(seed).sample(range(1, len(stage.records)), 40)) | {len(stage.records) - 1}
    for record in stage.records:
        player.take(record)
        if record.seq in places:
            expected[record.seq] = state_of(player.space)
    assert any(state["ends"] for state in expected.values() if len(state["ends"]) > 1), "grants that end"
    by_lines, by_records = StateHistory(every=50), StateHistory(every=7)
    by_lines.read_files(Journal.resume(path).paths)
    by_records.read_records(stage.records)
    for seq, state in expected.items():
        assert state_of(by_lines.restore(seq)) == state, seq
        assert state_of(by_records.restore(seq)) == state, seq


@pytest.mark.parametrize("seed", range(4))
def test_each_moment_of_a_branch_is_that_of_a_full_replay(seed: int, tmp_path: Path) -> None:
    stage = hostile(seed, 300)
    until = Random(seed).randrange(60, len(stage.records))
    path = branch_of(stage, tmp_path, seed=seed, until=until, events=210)
    player, expected = Player("whole"), {}
    records = list(open_log(path).records)
    places = {record.seq for record in Random(seed).sample([one for one in records if one.seq], 30)}
    for record in records:
        player.take(record)
        if record.seq in places:
            expected[record.seq] = state_of(player.space)
    by_lines, by_records = StateHistory(every=50), StateHistory(every=7)
    by_lines.read_files(Journal.resume(path).paths)
    by_records.read_records(records)
    for seq, state in expected.items():
        assert state_of(by_lines.restore(seq)) == state, seq
        assert state_of(by_records.restore(seq)) == state, seq
    first = min(record.seq for record in records if record.seq)
    with pytest.raises(JournalError, match=f"begins with a snapshot behind #{first - 1}"):
        open_log(path).at(first - 2)


@pytest.fixture
def stage() -> Stage:
    return Stage(owner="anna").play(
        Enrolled("anna", ({"kind": "*"},)),
        Enrolled("bert", ({"kind": "chat"}, {"kind": "stream/request"})),
        Joined("c1", "anna", "anna", "memory"),
        Joined("c2", "bert", "bert-7", "websocket"),
        Received(
            says(
                "capability/grant",
                "g-1",
                {"recipient": "bert", "capabilities": [{"kind": "mcp/*"}], "max_uses": 5},
            ),
            "c1",
        ),
        Received(
            says("mcp/proposal", "p-1", {"method": "tools/call", "params": {"name": "f"}}, to=["anna"]), "c2"
        ),
        Received(says("mcp/proposal", "p-2", {"method": "tools/list"}), "c2"),
        Received(says("participant/pause", "u-1", {"timeout_seconds": 60}, to=["bert"]), "c1"),
    )


def at(stage: Stage, seq: int | None = None) -> Moment:
    log = observed(stage.records, space="demo")
    return log.at(stage.records[-1].seq if seq is None else seq)


def test_a_moment_shows_what_stood_then(stage: Stage) -> None:
    moment = at(stage)
    assert [(one.participant, one.ids, one.paused) for one in moment.members] == [
        ("anna", ("anna",), False),
        ("bert", ("bert-7",), True),
    ]
    granted = [one for one in moment.rights if one.grant]
    assert [tuple(one) for one in granted] == [("bert", '{"kind":"mcp/*"}', "g-1", "anna", None, 3)]
    assert [(one.participant, one.pattern) for one in moment.rights if not one.grant] == [
        ("anna", '{"kind":"*"}'),
        ("anna", '{"kind":"mcp/response"}'),
        ("bert", '{"kind":"chat"}'),
        ("bert", '{"kind":"stream/request"}'),
        ("bert", '{"kind":"mcp/response"}'),
    ]
    assert [tuple(one) for one in moment.grants] == [
        ("g-1", "anna", "bert", ('{"kind":"mcp/*"}',), None, 3, 5)
    ]
    assert [(one.participant, one.by, one.until) for one in moment.pauses] == [
        ("bert", "anna", stage.now + timedelta(seconds=60))
    ]
    assert [tuple(one) for one in moment.connections] == [
        ("c1", "anna", "anna", "memory"),
        ("c2", "bert", "bert-7", "websocket"),
    ]
    assert [(one.id, one.proposer, one.to, one.method, one.tool) for one in moment.proposals] == [
        ("p-1", "bert-7", ("anna",), "tools/call", "f"),
        ("p-2", "bert-7", (), "tools/list", ""),
    ]
    assert (moment.owner, moment.now, moment.streams) == ("anna", stage.now, ())


def test_an_earlier_moment_shows_nothing_of_later(stage: Stage) -> None:
    before = next(record.seq for record in stage.records if '"g-1"' in (record.raw or "")) - 1
    moment = at(stage, before)
    assert not [one for one in moment.rights if one.grant]
    assert (moment.grants, moment.pauses, moment.proposals) == ((), (), ())
    first = at(stage, 0)
    assert (first.members, first.now) == ((), START)


def test_a_proposal_is_open_until_it_is_fulfilled_or_withdrawn(stage: Stage) -> None:
    def open_now() -> list[tuple[str, int]]:
        return [(one.id, one.rejected) for one in at(stage).proposals]

    stage.play(Received(says("mcp/reject", "j-1", {"reason": "busy"}, correlation_id=["p-1"]), "c1"))
    assert open_now() == [("p-1", 1), ("p-2", 0)], "a rejected one still stands"
    call = {"method": "tools/call", "params": {"name": "f"}}
    stage.play(Received(says("mcp/request", "q-1", call, to=["bert"], correlation_id=["p-1"]), "c1"))
    assert open_now() == [("p-1", 1), ("p-2", 0)], "a request to another is no fulfilment"
    stage.play(Received(says("mcp/request", "q-2", call, to=["anna"], correlation_id=["p-1"]), "c1"))
    assert open_now() == [("p-2", 0)]
    stage.play(Received(says("mcp/withdraw", "w-1", {}, correlation_id=["p-2"]), "c2"))
    assert open_now() == []


def test_streams_and_their_writers_are_shown(stage: Stage) -> None:
    stage.play(
        Received(says("participant/resume", "u-2", {}, to=["bert"]), "c1"),
        Received(says("stream/request", "s-1", {"direction": "upload", "target": ["anna"]}), "c2"),
    )
    (stream,) = at(stage).streams
    assert stream[:4] == ("stream-1", "bert-7", ("bert-7",), ("anna",))
    assert at(stage).pauses == ()
    stage.play(Left("c2", "gone"))
    assert (at(stage).streams, at(stage).connections[1:]) == ((), ())


def test_tables_have_their_columns_also_when_empty(stage: Stage) -> None:
    moment = at(stage, 0)
    for part, columns in {
        "members": ["participant", "ids", "rights", "inviter", "paused", "shut_down", "removed"],
        "rights": ["participant", "pattern", "grant", "giver", "expires_at", "uses"],
        "grants": ["grant", "giver", "participant", "patterns", "expires_at", "uses", "max_uses"],
        "proposals": ["seq", "time", "id", "proposer", "to", "method", "tool", "rejected"],
        "streams": ["stream", "owner", "writers", "target", "created"],
        "pauses": ["participant", "until", "by"],
        "connections": ["connection", "participant", "id", "via"],
    }.items():
        frame = moment.frame(part)
        assert (list(frame.columns), len(frame)) == (columns, 0)
    assert list(at(stage).frame("connections")["id"]) == ["anna", "bert-7"]
    with pytest.raises(NoSuchName, match="no part 'agents'; it has members, rights"):
        moment.frame("agents")


def test_a_cell_shows_it_as_text_and_as_tables_without_markup_of_a_peer() -> None:
    stage = Stage(owner="anna").play(
        Enrolled("anna", ({"kind": "*", "description": "<img src=x>\u202e"},)),
        Joined("c1", "anna", "anna", "memory"),
    )
    moment = at(stage)
    assert repr(moment) == (
        f"<Moment of demo behind #{moment.seq}, 2026-11-21 22:40:01.137456Z: 1 participant, 2 rights, 0 grants, "
        "0 streams, 0 pauses, 1 connection>"
    )
    page = moment._repr_html_()
    assert "<img" not in page and "\u202e" not in page
    assert "<td>anna</td>" in page


def test_a_log_that_grows_has_its_newest_moment(stage: Stage, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    log = Log.live(space="demo", journal=journal, max_records=1)
    for record in stage.records:
        journal.append([record])
        log.observe(record)
    assert log.at(stage.records[-1].seq).pauses
    more = len(stage.records)
    stage.play(Received(says("participant/resume", "u-2", {}, to=["bert"]), "c1"))
    for record in stage.records[more:]:
        journal.append([record])
        log.observe(record)
    assert not log.at(stage.records[-1].seq).pauses
    assert log.at(more - 1).pauses
    journal.close()


def test_a_pruned_journal_has_the_moments_that_are_left(tmp_path: Path) -> None:
    stage = hostile(3, 300)
    path = keep(stage.records, tmp_path / "j.jsonl", rotate_at=60_000)
    whole = StateHistory()
    whole.read_records(stage.records)
    deleted = None
    for files in range(1, 9):  # a cut within the records of one event is refused
        try:
            deleted = prune(path, keep=files, agree=lambda pruned: True)
            break
        except JournalError:
            continue
    assert deleted is not None
    left = open_log(path)
    last = stage.records[-1].seq
    history = StateHistory()
    history.read_files(left.source.paths if left.source else ())
    assert state_of(history.restore(last)) == state_of(whole.restore(last))
    with pytest.raises(JournalError, match=r"has no record #1: .* begins with a snapshot behind #\d+"):
        left.at(1)


def test_what_is_no_moment_is_said(stage: Stage, tmp_path: Path) -> None:
    log = observed(stage.records, space="demo")
    for nothing in (-1, 10**6):
        with pytest.raises(
            JournalError, match=f"has no record #{nothing}: its last one is #{len(stage.records) - 1}"
        ):
            log.at(nothing)
    with pytest.raises(JournalError, match="named by its number, such as '#13', not by 'm-1'"):
        log.at("m-1")  # type: ignore[arg-type]
    with pytest.raises(JournalError, match="does not begin with the opening of a space"):
        behind = observed(stage.records[1:], space="demo")
        behind.at(3)


def test_a_journal_that_was_changed_is_known_up_to_the_change(stage: Stage, tmp_path: Path) -> None:
    records = list(stage.records)
    changed = next(n for n, record in enumerate(records) if '"g-1"' in (record.raw or ""))
    records[changed] = records[changed]._replace(raw=(records[changed].raw or "").replace("mcp/*", "chat"))
    log = open_log(keep(records, tmp_path / "j.jsonl"))
    assert len(log.at(changed - 1).members) == 2
    for seq in (changed, changed + 3):
        with pytest.raises(JournalError, match=f"the state of the space at #{seq} is not known, because #"):
            log.at(seq)


def test_a_line_that_cannot_be_read_ends_what_is_known(stage: Stage, tmp_path: Path) -> None:
    path = keep(stage.records, tmp_path / "j.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"\n", b'{"seq":4,broken\n', *lines[4:], b'{"seq":']))
    log = open_log(path)
    assert log.at(3).seq == 3
    with pytest.raises(JournalError, match="cannot be read"):
        log.at(4)


def test_several_spaces_in_one_folder_have_no_one_moment(stage: Stage, tmp_path: Path) -> None:
    keep(stage.records, tmp_path / "a.jsonl")
    keep(stage.records, tmp_path / "b.jsonl")
    with pytest.raises(JournalError, match="holds 2 spaces or runs of one"):
        open_log(tmp_path).at(3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_moments_by_the_index_are_those_without(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = hostile(seed, 250)
    path = keep(stage.records, tmp_path / "j.jsonl", rotate_at=120_000)
    history = StateHistory()
    history.read_records(stage.records)
    monkeypatch.setattr("mew_lab.log.files.LARGE", 0)
    assert len(open_log(path).df) > 50
    assert has_index(path)
    log = open_log(path)

    def never(*_: object) -> None:
        pytest.fail("all lines were read")

    monkeypatch.setattr("mew_lab.log.state_replay.StateReplay.take_line", never)
    places = Random(seed).sample(range(1, len(stage.records)), 30)
    for seq in places:
        moment, space = log.at(seq), history.restore(seq)
        assert [one.participant for one in moment.members] == list(space.state.members)
        assert [(one.participant, one.pattern, one.grant, one.uses) for one in moment.rights] == [
            (
                member.name,
                held.capability.text,
                held.grant,
                space.state.ends[held.grant].uses if held.grant in space.state.ends else None,
            )
            for member in space.state.members.values()
            for held in member.rights.held
        ]
        assert [one.stream for one in moment.streams] == list(space.state.streams)
        assert {one.connection for one in moment.connections} == {
            *space.state.connections,
            *space.state.sinks,
        }
