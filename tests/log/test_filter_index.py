"""A filter in the index of a journal selects what the predicate selects from its records."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mew_lab.log.files import Files
from mew_lab.log.filter.filtered import FilteredLog, filter_records
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.indexed import select_places
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.index import LogIndex
from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from tests.log.filter_table import START, random_filter, random_record, record
from tests.log.hostile import hostile_journal
from tests.log.test_filter import MEANT, RECORDS

CLOCK = FilterClock(lambda: START)


def check(path: Path, dice: random.Random, filters: int) -> int:
    """Compares so many random filters; returns how many of them the index judged."""
    index = LogIndex(Files((path,)), keep=False).build()
    judged = 0
    for _ in range(filters):
        text = random_filter(dice, 2)
        tree = parse_filter(text, clock=CLOCK)
        found = select_places(index, tree)
        if found is not None:
            expected = [place for place, _ in filter_records(lambda: Files((path,)).read([]), tree)]
            assert found.tolist() == expected, text
            judged += 1
    return judged


@pytest.fixture(params=[(5000, 1 << 18), (0, 1 << 18), (0, 3000), (0, 1)], ids=str)
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are read one by one, all at once, some at a time, and one at a time as if they were many."""
    few, block = request.param
    monkeypatch.setattr("mew_lab.log.filter.indexed.FEW", few)
    monkeypatch.setattr("mew_lab.log.filter.indexed.BLOCK", block)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(3))
def test_the_index_and_the_predicate_agree_on_random_messages(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append([random_record(dice, seq)._replace(seq=seq) for seq in range(1, 101)])
    journal.close()
    assert check(tmp_path / "j.jsonl", dice, 40) > 25


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(3))
def test_the_index_and_the_predicate_agree_on_hostile_lines(seed: int, tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").write_bytes(hostile_journal(seed))
    assert check(tmp_path / "j.jsonl", random.Random(seed), 40) > 25


def test_the_index_selects_what_the_rules_say(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append(RECORDS)
    journal.close()
    index = LogIndex(Files((tmp_path / "j.jsonl",)), keep=False).build()
    seq_of = dict(index.query("SELECT place, seq FROM entries WHERE message"))
    clock = FilterClock(lambda: START.replace(minute=10))
    judged = 0
    for text, meant in MEANT:
        if "time" in text or "since" in text:  # that table has a clock of its own
            continue
        found = select_places(index, parse_filter(text, clock=clock))
        if found is not None:
            judged += 1
            assert {seq_of[place] for place in found.tolist() if place in seq_of} == meant, text
    assert judged > 80


def test_what_the_index_does_not_have_is_left_to_the_predicate(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append(RECORDS)
    journal.close()
    index = LogIndex(Files((tmp_path / "j.jsonl",)), keep=False).build()
    for text in ["state == open", "kind == chat or latency > 2", "diag.rule exists"]:
        assert select_places(index, parse_filter(text)) is None
    for text in ["typo", "text has typo", "what ~ *", "kind == chat"]:
        assert select_places(index, parse_filter(text)) is not None


def test_a_message_that_was_refused_is_judged_as_the_log_reads_it(tmp_path: Path) -> None:
    """Of a key that stands twice, DuckDB takes the first one."""
    text = '{"kind":"x","payload":{"a":1,"a":2}}'
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append([record(1, text, verdict="refused"), record(2, {"kind": "x", "payload": {"a": 1}})])
    journal.close()
    index = LogIndex(Files((tmp_path / "j.jsonl",)), keep=False).build()
    seqs = dict(index.query("SELECT place, seq FROM entries"))
    for value, seq in [(2, 1), (1, 2)]:
        found = select_places(index, parse_filter(f"payload.a == {value}"))
        assert found is not None and [seqs[place] for place in found.tolist()] == [seq]


def test_a_filtered_log_with_an_index_is_that_without(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append(RECORDS)
    journal.close()
    log = open_log(tmp_path / "j.jsonl")
    index = LogIndex(Files((tmp_path / "j.jsonl",)), keep=False).build()
    for text in [
        "kind ~ mcp/*",
        "payload.params.name == write_file",
        "typo",
        "not kind exists",
        "kind == nothing",
    ]:
        plain = log.filter(text)
        indexed = FilteredLog(text, lambda: log.records, index=lambda: index)
        assert len(indexed) == len(plain)
        assert [record.seq for record in indexed.records] == [record.seq for record in plain.records]
        assert list(indexed.df.columns) == list(plain.df.columns)
        for name in ("place", "seq", "time", "from", "to", "kind", "what", "id", "raw", "payload"):
            assert list(indexed.df[name]) == list(plain.df[name]), (text, name)
