"""Collects the facts about messages that follow from other messages, for filters that read them.

The ledger knows the state of each call, and the diagnosis what is wrong; this module only looks up what they say. The
index of a large log keeps the facts of all its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mew_lab.log.diagnose.diagnosis import judge_messages
from mew_lab.log.filter.fields import NO_FACTS, Facts
from mew_lab.log.filter.tree import FilterTree, references
from mew_lab.log.ledger_rows import ledger_columns
from mew_lab.space.events import Record

__all__ = ["FactKinds", "collect_facts", "facts_of"]


class FactKinds(NamedTuple):
    """Which facts a filter reads: states of the ledger, and findings of the diagnosis."""

    states: bool
    findings: bool


def facts_of(tree: FilterTree) -> FactKinds:
    """The facts that a filter reads."""
    names = {reference.field.name for reference in references(tree) if reference.field.needs_facts}
    findings = {name for name in names if name.startswith("diag.")}
    return FactKinds(bool(names - findings), bool(findings))


def collect_facts(
    records: Callable[[], Iterable[Record]], tree: FilterTree, *, first: int = 1
) -> Mapping[int, Facts]:
    """The facts that a filter reads, by the places of the messages' records; others have none.

    Args:
        records: Makes an iterable over the records. It is called once for the ledger and once for the diagnosis.
        first: The place of the first record.
    """
    kinds, facts = facts_of(tree), dict[int, Facts]()
    if kinds.states:
        for place, state, latency, decided_by in ledger_columns(records()):
            facts[place + first - 1] = Facts(state, latency, decided_by)
    if kinds.findings:
        for place, severity, rules in judge_messages(records())[0]:
            at = place + first - 1
            facts[at] = facts.get(at, NO_FACTS)._replace(severity=severity, rules=rules)
    return facts
