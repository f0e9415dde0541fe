"""The predicate and the SQL of a filter select the same messages; of the index, test_filter_index says so."""

from __future__ import annotations

import random

import pytest

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.predicate import compile_predicate
from mew_lab.log.filter.sql import compile_sql
from tests.log.filter_table import (
    START,
    make_entries,
    random_facts,
    random_filter,
    random_record,
    reads_columns,
)

from ..conftest import seeds

CLOCK = FilterClock(lambda: START)


def check(seed: int, filters: int, records: int = 120) -> int:
    """Compares the SQL of so many random filters on columns; returns how many select some messages and not others."""
    dice = random.Random(seed)
    made = [random_record(dice, seq) for seq in range(1, records + 1)]
    facts = [random_facts(dice) for _ in made]
    entries = [RecordedEntry(each, place) for place, each in enumerate(made, 1)]
    database = make_entries(made, facts, empty=dice.random() < 0.5)
    some = compared = 0
    while compared < filters:
        text = random_filter(dice)
        tree = parse_filter(text, clock=CLOCK)
        if not reads_columns(tree):
            continue
        predicate, sql = compile_predicate(tree), compile_sql(tree)
        expected = {entry.place for entry, fact in zip(entries, facts, strict=True) if predicate(entry, fact)}
        rows = database.execute(f"SELECT place FROM entries WHERE {sql.where}", sql.parameters).fetchall()
        assert {place for (place,) in rows} == expected, (seed, text)
        compared += 1
        some += 0 < len(expected) < len(entries)
    return some


@pytest.mark.parametrize("seed", seeds(5))
def test_the_predicate_and_the_sql_agree(seed: int) -> None:
    assert check(seed, 60) > 15, "the filters select nothing, or everything"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(100, 150))
def test_the_predicate_and_the_sql_agree_on_ten_thousand_filters(seed: int) -> None:
    assert check(seed, 200) > 50
