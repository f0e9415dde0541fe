"""A filter in the index of a journal selects what the predicate selects from its records."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

import mew_lab
from mew_lab.errors import FilterError, JournalError
from mew_lab.log.entries import is_message
from mew_lab.log.facts import Put, run_facts
from mew_lab.log.files import Files
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.indexed import select_places
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.predicate import needs_facts
from mew_lab.log.index import LogIndex
from mew_lab.log.journal import Journal
from mew_lab.log.line import write_line
from mew_lab.log.log import Log, open_log
from mew_lab.space.events import Record
from tests.log.filter_table import START, passing, random_filter, random_record, record
from tests.log.hostile import honest_lines, hostile_journal
from tests.log.stage import keep
from tests.log.test_filter import MEANT, RECORDS

from ..conftest import seeds

CLOCK = FilterClock(lambda: START)


def check(path: Path, dice: random.Random, filters: int) -> int:
    """Compares so many random filters; returns how many of them select something."""
    index = LogIndex(Files((path,)), keep=False).build()
    judged = 0
    for _ in range(filters):
        text = random_filter(dice, 2)
        tree = parse_filter(text, clock=CLOCK)
        if needs_facts(tree):
            index.write_facts()
        expected = [place for place, _ in passing(Files((path,)).read([]), tree)]
        assert select_places(index, tree).tolist() == expected, text
        judged += bool(expected)
    return judged


@pytest.fixture(params=[(5000, 1 << 18), (0, 1 << 18), (0, 3000), (0, 1)], ids=str)
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are read one by one, all at once, some at a time, and one at a time as if they were many."""
    few, block = request.param
    monkeypatch.setattr("mew_lab.log.filter.indexed.FEW", few)
    monkeypatch.setattr("mew_lab.log.filter.indexed.BLOCK", block)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", seeds(20))
def test_the_index_and_the_predicate_agree_on_random_messages(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    keep(
        [random_record(dice, seq)._replace(seq=seq) for seq in range(1, 101)],
        tmp_path / "j.jsonl",
        space="demo",
    )
    assert check(tmp_path / "j.jsonl", dice, 40) > 15


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", seeds(3))
def test_the_index_and_the_predicate_agree_on_hostile_lines(seed: int, tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").write_bytes(hostile_journal(seed))
    assert check(tmp_path / "j.jsonl", random.Random(seed), 40) > 10


def test_the_index_selects_what_the_rules_say(tmp_path: Path) -> None:
    keep(RECORDS, tmp_path / "j.jsonl", space="demo")
    index = LogIndex(Files((tmp_path / "j.jsonl",)), keep=False).build()
    seq_of = dict(index.query("SELECT place, seq FROM entries WHERE message"))
    clock = FilterClock(lambda: START.replace(minute=10))
    judged = 0
    for text, meant in MEANT:
        tree = parse_filter(text, clock=clock)
        if (
            "time" in text or "since" in text or needs_facts(tree)
        ):  # that table has a clock and facts of its own
            continue
        found = select_places(index, tree)
        judged += 1
        assert {seq_of[place] for place in found.tolist() if place in seq_of} == meant, text
    assert judged > 80


def test_a_message_that_was_refused_is_judged_as_the_log_reads_it(tmp_path: Path) -> None:
    """Of a key that stands twice, DuckDB takes the first one."""
    text = '{"kind":"x","payload":{"a":1,"a":2}}'
    keep(
        [record(1, text, verdict="refused"), record(2, {"kind": "x", "payload": {"a": 1}})],
        tmp_path / "j.jsonl",
        space="demo",
    )
    index = LogIndex(Files((tmp_path / "j.jsonl",)), keep=False).build()
    seqs = dict(index.query("SELECT place, seq FROM entries"))
    for value, seq in [(2, 1), (1, 2)]:
        found = select_places(index, parse_filter(f"payload.a == {value}"))
        assert [seqs[place] for place in found.tolist()] == [seq]


def test_a_filtered_log_with_an_index_is_that_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(RECORDS, tmp_path / "j.jsonl", space="demo")
    log = open_log(tmp_path / "j.jsonl")
    with monkeypatch.context() as large:
        large.setattr("mew_lab.log.files.LARGE", 1)
        by_index = open_log(tmp_path / "j.jsonl", index=False)
        assert len(by_index) == len(log)
    for text in [
        "kind ~ mcp/*",
        "payload.params.name == write_file",
        "typo",
        "not kind exists",
        "kind == none",
    ]:
        plain, indexed = log.filter(text), by_index.filter(text)
        assert len(indexed) == len(plain)
        assert [record.seq for record in indexed.records] == [record.seq for record in plain.records]
        assert indexed.df.equals(plain.df), text


@pytest.mark.usefixtures("blocks")
def test_a_text_search_reads_the_message_and_not_the_line_around_it(tmp_path: Path) -> None:
    keep(
        [record(n, {"kind": "x", "payload": {"t": "ab" * n}}) for n in range(1, 30)],
        tmp_path / "j.jsonl",
        space="demo",
    )
    assert (tmp_path / "j.jsonl").read_bytes().count(b'"}},"chain":"') == 29
    index = LogIndex(Files((tmp_path / "j.jsonl",)), keep=False).build()
    for text, meant in [
        ('"envelope"', 0),
        ('"\\"}},\\"chain"', 0),
        ('"}},"', 0),
        ('"{\\"kind"', 29),
        ('"\\"}}"', 29),
        ("bababababababa", 22),
    ]:
        found = select_places(index, parse_filter(text))
        assert len(found) == meant, text


FACT_FILTERS = [
    "state exists",
    "state == answered",
    "state in (waiting, open, fulfilled)",
    "latency exists",
    "latency >= 0",
    "decided_by exists or state == claimed",
    "diag.severity >= note",
    "diag.severity exists and state exists",
    "diag.rule has unanswered",
    "not diag.rule exists and kind ~ mcp/*",
    "payload.method exists and state exists",
    # Those that a message without facts passes, too.
    "not state exists",
    "state != waiting or latency < 1",
    "not latency >= 0",
    "not diag.severity >= note",
    "diag.rule has unanswered or not diag.severity >= warn",
    "diag.severity < error",
]


def places_by_predicate(path: Path, text: str, *, events: bool = True) -> list[int]:
    found = passing(Files((path,)).read([]), parse_filter(text, clock=CLOCK))
    return [place for place, record in found if events or is_message(record)]


def check_facts(path: Path, log: Log, dice: random.Random) -> int:
    """Compares the facts in the index of a log with those of the predicate; returns how many messages were selected."""
    found = 0
    for text in [*FACT_FILTERS, *(random_filter(dice, 2) for _ in range(3))]:
        try:
            places = list(log.filter(text).table(events=True)["place"])
        except FilterError:
            continue
        if "time" not in text and "since" not in text:  # that count from the end of the file
            assert places == places_by_predicate(path, text), text
            assert [*log.filter(text).df["place"]] == places_by_predicate(path, text, events=False), text
        found += len(places)
    return found


@pytest.mark.sampled
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.slow
def test_facts_are_right_at_every_stage_of_the_index(
    tmp_path: Path, seed: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the journal grows, in an index that was just built, and in one that is taken from its file."""
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1 if kept else 1 << 40)
    dice = random.Random(seed)
    lines = honest_lines(dice, 250)
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"")
    log = None
    found = 0
    for end in [*sorted(dice.sample(range(3, len(lines)), 3)), len(lines)]:
        path.write_bytes(b"\n".join(lines[:end]) + b"\n")
        if log is None or dice.random() < 0.4:
            log = open_log(path)
        found += check_facts(path, log, dice)
    assert found > 100
    again = open_log(path)
    assert (again.index.path is not None) == kept
    assert again.index.has_facts or not kept, "the facts stand in the file"
    check_facts(path, again, dice)


@pytest.mark.parametrize("seed", seeds(4))
def test_an_index_tells_the_number_of_messages_and_the_faults_and_the_file_is_not_read_for_it(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(hostile_journal(seed))
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)
    assert open_log(path).index.path is not None
    with path.open("ab") as file:
        file.write(write_line(RECORDS[0]._replace(seq=10**6)))
    read = open_log(path, index=False)
    assert len(read) > 10 and read.faults
    monkeypatch.delattr(Files, "read")
    log = open_log(path)
    assert (len(log), log.faults) == (len(read), read.faults)


def test_facts_of_hostile_lines_are_those_of_the_predicate(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(hostile_journal(3))
    assert check_facts(path, open_log(path), random.Random(3)) > 10


def test_a_finding_about_an_event_without_a_message_is_no_message(tmp_path: Path) -> None:
    """A paused participant sent data to a stream, which the gateway refused; and a message, which it refused, too."""
    path = tmp_path / "j.jsonl"
    journal = Journal(path, space="demo")
    chat = {"kind": "chat", "from": "helper", "id": "c1", "payload": {"text": "hello"}}
    journal.append(
        [
            record(1, None, verdict="refused", code="paused", participant="helper")._replace(event="data"),
            record(2, chat, verdict="refused", code="paused", participant="helper"),
        ]
    )
    journal.close()
    found = open_log(path).filter("diag.rule has sent-while-paused")
    places = places_by_predicate(path, found.text)
    assert len(places) == 2 and [*found.table(events=True)["place"]] == places
    assert [*found.df["place"]] == places[1:] and len(found) == 1


def test_facts_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"\n".join(honest_lines(random.Random(1), 100)) + b"\n")
    asked: list[str] = []

    def run(records: Iterable[Record], put: Put) -> None:
        asked.append("facts")
        run_facts(records, put)

    monkeypatch.setattr("mew_lab.log.index.run_facts", run)
    monkeypatch.setattr("mew_lab.log.child_process.COMMAND", (str(tmp_path / "none"),))
    for _ in range(2):
        log = open_log(path)
        for _ in range(2):
            assert len(log.filter("state exists")) > 0
            len(log.filter("latency > 1 and diag.severity >= warn"))
            log.diagnose()
            log.requests()
    assert asked == ["facts"]


def test_a_journal_that_is_cut_while_facts_are_computed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.jsonl"
    data = b"\n".join(honest_lines(random.Random(1), 100)) + b"\n"
    path.write_bytes(data)
    index = open_log(path).index

    def cut(records: Iterable[Record], put: Put) -> None:
        path.write_bytes(data[: len(data) // 2])
        for _ in records:
            pass

    monkeypatch.setattr("mew_lab.log.index.run_facts", cut)
    with pytest.raises(JournalError, match="was changed while it was read"):
        index.write_facts()
    assert not index.has_facts


# --- one way of counting places ---


def test_every_reader_counts_places_from_one(tmp_path: Path) -> None:
    shipped = Path(mew_lab.__file__).parent / "data/garden.jsonl"
    records = list(Files((shipped,)).read([]))
    places = [place for place, each in enumerate(records, 1) if is_message(each)]
    log = open_log(shipped)
    live = Log.live()
    for half in (records[:100], records[100:]):
        for each in half:
            live.observe(each)
        assert list(live.df["place"]) == [place for place in places if place <= len(live.records)]
    for frame in (log.df, log.head(10_000), log.table(), live.df, log.filter("").df, live.filter("").df):
        assert list(frame["place"]) == places
    assert list(log.table(events=True)["place"]) == list(range(1, len(records) + 1))
    assert list(log.index.rows()) == places
    assert log.index.record(1) == records[0] and log.index.record(len(records)) == records[-1]
    with pytest.raises(JournalError, match="no row 0"):
        log.index.record(0)
    assert list(log.filter("place 3..9").df["place"]) == [place for place in places if 3 <= place <= 9]
    for finding in log.diagnose():
        if finding.place:
            assert records[finding.place - 1].seq == finding.seq
    followed = log.follow(log[0]["id"]).frame
    by_place = log.df.set_index("place")["id"]
    assert list(by_place[followed["place"]]) == list(followed["id"])
