"""What is kept of a refused message: all of a short one, of a long one size, digest, code and beginning."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import JournalError, ReplayMismatch
from mew_lab.lab.rows import Rows
from mew_lab.log.journal import Journal
from mew_lab.log.log import Log, open_log
from mew_lab.log.replay import replay_records
from mew_lab.space.events import Enrolled, Event, Joined, Noted, Received, Record, outline

from ..conftest import examples
from .stage import Stage, observed, says

LONG = 4096  # R30: what is over 4 KiB
pytestmark = pytest.mark.ruling("R30")


def a_stage(*events: Event) -> Stage:
    return Stage().play(
        Enrolled("eve", ({"kind": "chat"},)),
        Joined("c1", "eve", "eve", "websocket"),
        *events,
    )


def refused(stage: Stage) -> list[Record]:
    return [one for one in stage.records if one.verdict == "refused"]


@pytest.mark.parametrize("size", [LONG - 1, LONG])
def test_a_refused_message_of_at_most_4_kib_is_kept_whole(size: int) -> None:
    text = says("mcp/request", "r-1", {"x": ""})
    text = says("mcp/request", "r-1", {"x": "a" * (size - len(text))})
    (record,) = refused(a_stage(Received(text, "c1")))
    assert len(text) == size and record.raw == text and outline(record) is None


def test_of_a_longer_one_size_digest_code_and_4_kib_are_kept() -> None:
    text = says("mcp/request", "r-1", {"x": "a" * LONG})
    (record,) = refused(a_stage(Received(text, "c1")))
    known = outline(record)
    assert known is not None and record.code == "capability_violation"
    assert (known.size, known.sha256) == (len(text), sha256(text.encode()).hexdigest())
    assert record.raw == text[:LONG]


@pytest.mark.parametrize("character", ["é", "語", "😀"])
def test_the_beginning_ends_with_a_whole_character(character: str) -> None:
    for shift in range(4):
        text = "x" * shift + character * LONG
        (record,) = refused(a_stage(Received(text, "c1")))
        assert record.raw is not None and text.startswith(record.raw)
        assert LONG - 4 < len(record.raw.encode()) <= LONG


def test_what_is_no_utf_8_is_kept_readable_with_the_digest_of_the_very_bytes() -> None:
    data = b"\xff{" * LONG
    (record,) = refused(a_stage(Received(data, None, "eve", "eve")))
    known = outline(record)
    assert known is not None and (known.size, known.sha256) == (len(data), sha256(data).hexdigest())
    assert record.raw is not None and record.raw.startswith("\\xff{")


def test_an_accepted_message_is_kept_whole_however_long() -> None:
    text = says("chat", "m-1", {"text": "a" * 100_000})
    stage = a_stage(Received(text, "c1"))
    assert json.loads(stage.records[-1].raw or "")["payload"] == {"text": "a" * 100_000}


def test_a_sender_that_is_refused_everything_grows_the_journal_by_little(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    text = says("mcp/request", "r-1", {"x": "\x01" * 100_000})
    journal.append(a_stage(*[Received(text, "c1")] * 20).records)
    assert journal.path.stat().st_size < 20 * 8 * LONG


def messages() -> st.SearchStrategy[str | bytes]:
    """Refused and accepted ones, short and long, with an id and without, readable and not."""
    filling = st.sampled_from(["", "a" * 5000, "é\x01" * 3000, '"\\' * 4000])
    kinds = st.sampled_from(["chat", "mcp/request", "system/welcome", ""])
    ids = st.sampled_from([{}, {"id": "m-1"}, {"id": "gw-0000000000000007-1"}, {"id": 3}])
    sender = st.sampled_from([{}, {"from": "eve"}, {"from": "bob"}])

    def message(kind: str, id: dict[str, object], who: dict[str, str], text: str, cut: bool) -> str:
        whole = json.dumps({"kind": kind, **id, **who, "payload": {"text": text}})
        return whole[:-1] if cut else whole

    built = st.builds(message, kinds, ids, sender, filling, st.booleans())
    return built | built.map(lambda text: text.encode() + b"\xfe") | st.just("\ud800" * 5000)


EVENTS = st.lists(
    st.tuples(messages(), st.sampled_from(["c1", None])).map(
        lambda one: Received(one[0], one[1], "eve", "eve")
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(60))
@given(EVENTS)
def test_what_follows_such_refusals_replays_to_the_letter(events: list[Event]) -> None:
    stage = a_stage(*events, Received(says("chat", "last"), "c1"))
    done = replay_records(stage.records)
    assert done.unknown == sum(outline(one) is not None for one in stage.records)
    assert (done.space.state.messages, done.space.state.records) == (
        stage.space.state.messages,
        stage.space.state.records,
    )
    after = Noted("x", "", ""), Received('{"kind":"chat"}', "c1")
    assert [done.space.step(one, stage.now) for one in after] == [
        stage.space.step(one, stage.now) for one in after
    ]


@settings(max_examples=examples(30))
@given(EVENTS)
def test_a_journal_on_disk_replays_alike(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event]
) -> None:
    path = tmp_path_factory.mktemp("kept") / "j.jsonl"
    stage = a_stage(*events, Received(says("chat", "last"), "c1"))
    journal = Journal(path)
    journal.append(stage.records)
    assert replay_records(open_log(path).records).unknown == sum(
        outline(one) is not None for one in stage.records
    )


def a_kept_refusal() -> list[Record]:
    return a_stage(Received('{"kind":"mcp/request","x":"' + "a" * 9000 + '"}', "c1")).records


def test_a_replay_says_how_many_it_could_not_judge() -> None:
    assert "1 refused message was not checked again" in str(replay_records(a_kept_refusal()))


@pytest.mark.parametrize("change", [{"messages": 9}, {"messages": -1}, {"size": "x"}, {"sha256": None}])
def test_a_counter_that_no_step_could_have_brought_about_is_no_replay(change: dict[str, object]) -> None:
    records = a_kept_refusal()
    at = next(n for n, one in enumerate(records) if outline(one))
    records[at] = records[at]._replace(detail=json.dumps({**json.loads(records[at].detail), **change}))
    with pytest.raises((JournalError, ReplayMismatch)):
        replay_records(records)


@pytest.mark.parametrize("key", ["id", "to", "from", "ts"])
def test_the_error_behind_it_must_bear_the_id_that_was_its_turn(key: str) -> None:
    records = a_kept_refusal()
    said = json.loads(records[-1].raw or "")
    records[-1] = records[-1]._replace(raw=json.dumps({**said, key: "other"}))
    with pytest.raises(ReplayMismatch):
        replay_records(records)


def test_the_analyses_say_not_known_and_count(tmp_path: Path) -> None:
    records = a_kept_refusal()
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(records)
    log = open_log(journal.path)
    assert len(log.faults) == 1 and "1 refused message is not known" in log.faults[0]
    row = log.df[log.df.verdict == "refused"].iloc[0]
    assert row["what"].startswith("not known") and row["size"] == 9029 and row["kind"] == ""
    (record,) = [one for one in records if outline(one)]
    told = str(observed(records).audit(record.seq))
    assert "refused with capability_violation" in told and "not known" in told
    with pytest.raises(JournalError, match="Of 1 refused ones only the beginning is kept"):
        observed(records).audit("nothing")
    live = Log.live()
    rows = Rows(lambda: ("demo", 1))
    for one in records:
        live.observe(one)
        rows.observe(one)
    assert live.faults == log.faults
    (shown,) = [one for one in rows.since(0, 100) if one.verdict == "refused"]
    assert shown.what.startswith("not known")
