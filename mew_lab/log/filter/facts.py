"""Collects the facts about messages that follow from other messages, for filters that read them.

The ledger knows the state of each call; this module only looks up what it says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from mew_lab.log.diagnose.diagnosis import MessageFinding, fact_columns
from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.filter.fields import NO_FACTS, Facts
from mew_lab.log.filter.tree import FilterTree, references
from mew_lab.log.ledger_rows import MessageState, ledger_columns
from mew_lab.space.events import Record

__all__ = ["collect_facts"]


def collect_facts(records: Callable[[], Iterable[Record]], tree: FilterTree) -> Mapping[int, Facts]:
    """The facts that a filter reads, by the places of the messages' records, counted from 1; others have none.

    Args:
        records: Makes an iterable over the records, which is read once.
    """
    states: Iterable[MessageState]
    findings: Iterable[MessageFinding] = ()
    if any(reference.field.name.startswith("diag.") for reference in references(tree)):
        states, findings = fact_columns(records())
    else:
        states = ledger_columns(records())
    facts = {state.place: Facts(state.state, state.latency, state.decided_by) for state in states}
    found: defaultdict[int, list[MessageFinding]] = defaultdict(list)
    for finding in findings:
        found[finding.place].append(finding)
    for place, findings in found.items():
        severity = max((finding.severity for finding in findings), key=SEVERITIES.index)
        rules = tuple(dict.fromkeys(finding.rule for finding in findings))
        facts[place] = facts.get(place, NO_FACTS)._replace(severity=severity, rules=rules)
    return facts
