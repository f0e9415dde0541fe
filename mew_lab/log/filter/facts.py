"""Collects the facts about messages that follow from other messages, for filters that read them.

The ledger knows the state of each call, and the diagnosis what is wrong; this module only looks up what they say. The
index of a log keeps the facts of all its messages; without an index, the records are read again for each filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from mew_lab.log.diagnose.diagnosis import judge_messages
from mew_lab.log.fact_pass import LEDGER, RULES, STATES
from mew_lab.log.filter.fields import NO_FACTS, Facts
from mew_lab.log.filter.tree import FilterTree, references
from mew_lab.log.ledger_rows import ledger_columns
from mew_lab.space.events import Record

if TYPE_CHECKING:
    from mew_lab.log.index import LogIndex

__all__ = ["collect_facts", "write_facts"]


def collect_facts(records: Callable[[], Iterable[Record]], tree: FilterTree) -> Mapping[int, Facts]:
    """The facts that a filter reads, by the places of the messages' records, from 1; others have none.

    Args:
        records: Makes an iterable over the records. It is called once for the ledger and once for the diagnosis.
    """
    facts: dict[int, Facts] = {}
    if _reads_states(tree):
        for place, state, latency, decided_by in ledger_columns(records()):
            facts[place] = Facts(state, latency, decided_by)
    if _reads_findings(tree):
        for place, severity, rules in judge_messages(records())[0]:
            facts[place] = facts.get(place, NO_FACTS)._replace(severity=severity, rules=rules)
    return facts


def write_facts(index: LogIndex, tree: FilterTree) -> None:
    """Writes the facts that a filter reads into an index, where they are not in it; that reads the whole log."""
    if _reads_states(tree):
        index.write_facts(LEDGER if index.is_large else STATES)
    if _reads_findings(tree):
        index.write_facts(RULES)


def _reads_findings(tree: FilterTree) -> bool:
    return any(reference.field.name.startswith("diag.") for reference in references(tree))


def _reads_states(tree: FilterTree) -> bool:
    return any(
        reference.field.needs_facts and not reference.field.name.startswith("diag.")
        for reference in references(tree)
    )
