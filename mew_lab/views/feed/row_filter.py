"""Evaluates a filter of the log's language over the rows of the feed, in steps, for what the page cannot do itself.

The page evaluates words and short forms such as `from:bot`. For everything else it asks the kernel, at each keystroke
anew; a new filter of a view takes the place of the one before, which then does no further step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.rows import Rows
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.complete import FilterSamples, complete_filter, write_value
from mew_lab.log.filter.fields import FIELDS, NO_FACTS, Facts
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.predicate import compile_predicate
from mew_lab.log.filter.tree import references
from mew_lab.log.ledger_rows import MessageStates
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.views.feed.findings import RowFindings

__all__ = ["EXPRESSION_FIELDS", "FilterStep", "RowFilter", "condition_of", "suggest_filters"]

EXPRESSION_FIELDS = tuple(FIELDS)
MOST_FACTS = 40_000
MOST_SUGGESTED = 12
SAMPLED = 500  # newest messages whose values are suggested


class FilterStep(NamedTuple):
    """The result of one step: the rows that pass, and those that may have passed before and do not now.

    `done` tells whether all rows are judged.
    """

    passed: list[int]
    failed: list[int]
    done: bool


class RowFilter:
    """A filter over the rows of a feed. Later steps judge the rows that have arrived, and those whose call has changed.

    Args:
        oldest: The first row that a view may hold.
        zone: The seconds by which the clock of the reader is ahead of UTC.
        findings: The diagnosis of the rows; None where there is none.

    Raises:
        FilterError: the text is no filter.
    """

    def __init__(
        self,
        source: Rows,
        text: str,
        *,
        oldest: int,
        now: Callable[[], datetime],
        zone: int,
        findings: RowFindings | None = None,
    ) -> None:
        tree = parse_filter(text, clock=FilterClock(now, timezone(timedelta(seconds=zone))))
        facts = {each.field.name for each in references(tree) if each.field.needs_facts}
        diagnosed = {name for name in facts if name.startswith("diag.")}
        if diagnosed and findings is None:
            raise MewError(
                "The messages here have no diagnosis, so diag.severity and diag.rule are not known."
            )
        self._source = source
        self._findings = findings if diagnosed else None
        self._predicate = compile_predicate(tree)
        self._states = MessageStates() if facts - diagnosed else None
        self._observed = oldest - 1
        self._places: list[int] = []  # the row of each record that the ledger has observed
        self._facts: BoundedDict[int, Facts] = BoundedDict(MOST_FACTS)
        self._changed: set[int] = set()  # rows that may pass or fail now, and did not before
        self._oldest = oldest
        self._low = self._high = source.last_seq  # the rows behind the one, up to the other, are judged

    def step(self, most: int, diagnosed: Iterable[int] = ()) -> FilterStep:
        """Judges about `most` further rows, the newest first, and those whose findings have changed."""
        if self._findings is not None:
            self._changed.update(diagnosed)
        if self._states is not None:
            if not self._observe(self._states, most):
                return FilterStep([], [], False)
            self._changed.update(self._take_states(self._states))
        changed, self._changed = sorted(self._changed), set()
        passed: list[int] = []
        failed: list[int] = []
        for seq in changed:
            if self._low < seq <= self._high:
                (passed if self._passes(seq) else failed).append(seq)
        newer = self._source.numbers(self._high, most)
        passed += filter(self._passes, newer)
        self._high = newer[-1] if newer else self._high
        after = max(self._oldest - 1, self._source.back(self._low, most))
        older = [seq for seq in self._source.numbers(after, most) if seq <= self._low]
        passed += filter(self._passes, older)
        self._low = older[0] - 1 if older else self._oldest - 1
        return FilterStep(sorted(set(passed)), failed, len(newer) < most and self._low < self._oldest)

    def _passes(self, seq: int) -> bool:
        record = self._source.record(seq)
        if record is None:
            return False
        entry = RecordedEntry(record, seq=seq)
        facts = self._facts.get(seq) or NO_FACTS
        return self._predicate(entry, self._findings.add_to(facts, seq) if self._findings else facts)

    def _observe(self, states: MessageStates, most: int) -> bool:
        """Passes further rows to the ledger; states whether it has all now."""
        rows = self._source.numbers(self._observed, most)
        for seq in rows:
            if (record := self._source.record(seq)) is not None:
                states.observe(record)
                self._places.append(seq)
        self._observed = rows[-1] if rows else self._observed
        return len(rows) < most

    def _take_states(self, states: MessageStates) -> list[int]:
        changed = []
        for state in states.take():
            seq = self._places[state.place - 1]
            self._facts[seq] = Facts(state.state, state.latency, state.decided_by)
            changed.append(seq)
        return changed


def suggest_filters(source: Rows, text: str) -> list[str]:
    """What may complete a filter: whole texts, with values of the newest messages."""
    newest = source.numbers(source.back(source.last_seq, SAMPLED), SAMPLED)
    records = [source.record(seq) for seq in newest]
    found = complete_filter(text, FilterSamples([record for record in records if record is not None]))
    before = text[: len(text) - len(found.fragment)]
    texts = [before + each.text for each in found.completions if each.text != found.fragment]
    return texts[:MOST_SUGGESTED]


def condition_of(source: Rows, seq: int, column: str, findings: RowFindings | None = None) -> str:
    """The condition that the messages satisfy which have in a column what the message in a row has.

    Raises:
        MewError: the row is no longer held, or the column has no such condition.
    """
    record = source.record(seq)
    if record is None:
        raise MewError("That row is no longer held in this view; lab.log has it.")
    entry = RecordedEntry(record, seq=seq)
    if column in ("time", "elapsed"):
        return f"time >= {record.now.astimezone(UTC).isoformat().replace('+00:00', 'Z')}"
    if column == "follows":
        return f"correlation_id == {write_value(entry.id)}"
    if column == "finding":
        rules = dict.fromkeys(finding.rule for finding in findings.get(seq)) if findings else {}
        return " and ".join(f"diag.rule == {write_value(rule)}" for rule in rules) or "not diag.rule exists"
    if column == "took":
        raise MewError("A duration is no filter by itself: write latency > 2s.")
    names = {"route": ("from", "to"), "verdict": ("verdict", "code")}.get(column, (column,))
    if column == "what":
        names = next((each,) for each in ("tool", "method", "kind") if each == "kind" or _values(entry, each))
    if not all(name in FIELDS for name in names):
        raise MewError(f"The column {column[:40]!r} is no field of a filter.")
    conditions = []
    for name in names:
        values = _values(entry, name)
        conditions += [f"{name} == {write_value(value)}" for value in values]
        if not values and name != "code":
            conditions.append(f"not {name} exists")
    return " and ".join(conditions)


def _values(entry: RecordedEntry, name: str) -> list[str | int]:
    value = FIELDS[name].value(entry, NO_FACTS)
    values = list(value) if isinstance(value, tuple) else [value]
    return [each for each in values if each != ""]
