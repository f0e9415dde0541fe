"""Evaluates a filter in the index of a log, where its columns and the JSON of the messages suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.fields import NO_FACTS
from mew_lab.log.filter.predicate import compile_predicate, needs_facts
from mew_lab.log.filter.sql import compile_sql
from mew_lab.log.filter.tree import FilterTree

if TYPE_CHECKING:
    from mew_lab.log.index import LogIndex

__all__ = ["select_places"]

MOST_RECHECKED = 20_000  # rows that the predicate judges; more are read faster from the journal


def select_places(index: LogIndex, tree: FilterTree) -> list[int] | None:
    """The places of the rows that pass a filter, in their order, those of events included.

    None where the index does not have what the filter reads: the exact text, facts from the ledger, descriptions.
    """
    sql = compile_sql(tree)
    known = {str(row[0]) for row in index.query("DESCRIBE entries")}
    if sql.reads_exact_text or not sql.columns <= known or (sql.reads_text and needs_facts(tree)):
        return None
    doubtful: set[int] = set()
    if sql.reads_text:
        ((count,),) = index.query(f"SELECT count(*) FROM entries WHERE message AND {sql.recheck}")
        if count > MOST_RECHECKED:
            return None
        doubtful.update(index.rows(sql.recheck).tolist())
    found = set(index.rows(sql.where, sql.parameters, texts=sql.reads_text, events=True).tolist()) - doubtful
    predicate = compile_predicate(tree)
    found.update(
        place for place in doubtful if predicate(RecordedEntry(index.record(place), place), NO_FACTS)
    )
    return sorted(found)
