"""The predicate and the SQL of a filter select the same messages."""

from __future__ import annotations

import random

import pytest

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.predicate import compile_predicate
from mew_lab.log.filter.sql import compile_sql
from tests.log.filter_table import START, make_entries, random_facts, random_filter, random_record

CLOCK = FilterClock(lambda: START)


def check(seed: int, filters: int, records: int = 120) -> tuple[int, int]:
    dice = random.Random(seed)
    made = [random_record(dice, seq) for seq in range(1, records + 1)]
    facts = [random_facts(dice) for _ in made]
    entries = [RecordedEntry(each) for each in made]
    database = make_entries(made, facts, empty=dice.random() < 0.5)
    some = judged = 0
    for _ in range(filters):
        text = random_filter(dice)
        tree = parse_filter(text, clock=CLOCK)
        predicate, sql = compile_predicate(tree), compile_sql(tree)
        expected = {
            place
            for place, (entry, fact) in enumerate(zip(entries, facts, strict=True))
            if predicate(entry, fact)
        }
        rows = database.execute(
            f"SELECT place, ({sql.where}), ({sql.recheck}) FROM entries", sql.parameters
        ).fetchall()
        doubtful = {place for place, _, recheck in rows if recheck}
        found = {place for place, passes, _ in rows if passes}
        assert found - doubtful == expected - doubtful, (seed, text)
        judged += len(rows) - len(doubtful)
        some += 0 < len(expected) < len(entries)
    return some, judged


@pytest.mark.parametrize("seed", range(10))
def test_the_predicate_and_the_sql_agree(seed: int) -> None:
    some, judged = check(seed, 100)
    assert some > 30 and judged > 5000, "the filters select nothing, or everything"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 145))
def test_the_predicate_and_the_sql_agree_on_ten_thousand_filters(seed: int) -> None:
    some, judged = check(seed, 200)
    assert some > 60 and judged > 10_000
