"""Collects the facts about messages that follow from other messages, for filters that read them.

The ledger knows the state of each call; this module only looks up what it says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mew_lab.log.filter.fields import NO_FACTS, SEVERITIES, Facts
from mew_lab.log.ledger_rows import ledger_columns
from mew_lab.space.events import Record

__all__ = ["DiagnosedMessage", "collect_facts"]


class DiagnosedMessage(NamedTuple):
    """One finding of the diagnosis about one message: `place` counts all records of the log from 1."""

    place: int
    severity: str
    rule: str


def collect_facts(
    records: Iterable[Record], findings: Iterable[DiagnosedMessage] = ()
) -> Mapping[int, Facts]:
    """The facts about the messages by the places of their records, counted from 1; others have none."""
    facts: dict[int, Facts] = {
        state.place: Facts(state.state, state.latency, state.decided_by) for state in ledger_columns(records)
    }
    of_place: defaultdict[int, list[DiagnosedMessage]] = defaultdict(list)
    for finding in findings:
        of_place[finding.place].append(finding)
    for place, several in of_place.items():
        severity = max((finding.severity for finding in several), key=SEVERITIES.index)
        rules = tuple(dict.fromkeys(finding.rule for finding in several))
        facts[place] = facts.get(place, NO_FACTS)._replace(severity=severity, rules=rules)
    return facts
