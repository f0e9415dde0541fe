"""The findings about the rows of a feed: those of the diagnosis of the same log, found in steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from mew_lab.lab.rows import Rows
from mew_lab.log.diagnose.diagnosis import DiagnosisPass, diagnose
from mew_lab.log.entries import number_after
from mew_lab.log.log import Log
from mew_lab.space.events import Record
from mew_lab.views.feed.findings import LiveFindings, rank_of

from ...log.planted import FAULTS, Conversation, Expected, converse

Found = dict[int, list[str]]


class Space:
    """The log and the rows of a live space, without the space."""

    def __init__(self, *, keep: int = 200_000, capacity: int = 20_000, ring: int = 20_000) -> None:
        self.log = Log.live(max_records=keep)
        self.rows = Rows(lambda: ("demo", 2), capacity=capacity)
        self.ended = False
        self.findings = LiveFindings(self.log, self.rows, ring=ring, ended=lambda: self.ended)

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            self.log.observe(record)
            self.rows.observe(record)

    def settle(self, most: int = 500) -> None:
        for _ in range(10_000):
            if self.findings.step(most):
                return
        raise AssertionError("it is never done")

    def found(self) -> Found:
        rows = range(1, self.rows.last_seq + 1)
        return {
            row: sorted(one.rule for one in self.findings.get(row)) for row in rows if self.findings.get(row)
        }


def expected_of(records: Sequence[Record]) -> Found:
    """What the diagnosis of the whole log finds about each message, by its number."""
    rows, last = dict[int, int](), 0
    for place, record in enumerate(records, 1):
        if record.raw is not None:
            rows[place] = last = number_after(record, last)
    found: Found = {}
    for one in diagnose(records):
        if one.place in rows:
            found.setdefault(rows[one.place], []).append(one.rule)
    return {row: sorted(rules) for row, rules in found.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_rows_have_the_findings_of_the_diagnosis(fault: Callable[[Conversation], list[Expected]]) -> None:
    for seed in range(2):
        records, _ = converse(seed, 25, fault)
        space = Space()
        for start in range(0, len(records), 7):  # some at a time, as they arrive
            space.take(records[start : start + 7])
            space.findings.step(3)
        space.settle()
        space.ended = True
        space.settle()
        assert space.found() == expected_of(records), seed


def test_what_is_left_open_is_no_finding_while_the_space_runs() -> None:
    unanswered = next(fault for fault in FAULTS if fault.__name__ == "unanswered")
    records, _ = converse(1, 10, unanswered)
    space = Space()
    space.take(records)
    space.settle()
    assert space.found() == {}
    space.ended = True
    space.settle()
    space.settle()  # the end is told once
    assert list(space.found().values()) == [["unanswered-request"]]
    [row] = space.findings.take()
    assert rank_of(space.findings.get(row)) == 2 and space.findings.take() == []


def test_each_message_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    observe = DiagnosisPass.observe
    monkeypatch.setattr(
        DiagnosisPass, "observe", lambda self, record: (judged.append(record.seq), observe(self, record))
    )
    records, _ = converse(3, 60)
    space = Space()
    space.take(records[:100])
    assert judged == []  # nobody has looked
    space.settle()
    for record in records[100:]:
        space.take([record])
        space.settle(50)
    assert judged == [record.seq for record in records]


def test_a_long_session_is_judged_from_the_oldest_row_of_a_view_on() -> None:
    fault = next(fault for fault in FAULTS if fault.__name__ == "withdrawn_by_another")
    clean, _ = converse(5, 200)
    space = Space(ring=200)
    space.take(clean)
    space.settle()
    assert not [row for row in space.found() if rank_of(space.findings.get(row)) > 2], space.found()
    # The view was away for longer than it holds rows: it begins anew, and numbers the rows rightly.
    more, _ = converse(6, 100, fault)
    last = clean[-1]
    later = [
        record._replace(seq=last.seq + n, now=last.now + timedelta(seconds=n))
        for n, record in enumerate(more, 1)
    ]
    space.take(later)
    space.settle()
    marked = [row for row, rules in space.found().items() if "foreign-withdraw" in rules]
    withdraws = [
        row.seq for row in space.rows.since(0, 100_000) if row.kind == "mcp/withdraw" and row.sender != "dan"
    ]
    assert set(marked) <= set(withdraws)


def test_records_without_a_message_and_gaps_between_their_numbers_hide_no_row() -> None:
    fault = next(fault for fault in FAULTS if fault.__name__ == "failing")
    records: list[Record] = []
    for seed in range(30):
        for record in converse(seed, 1, fault)[0]:
            newest = records[-1].seq if records else 0
            event = record._replace(seq=newest + 1, event="connected", raw=None)
            records += [event._replace(seq=newest + n) for n in range(1, 41)]
            records.append(record._replace(seq=newest + 41 + 1000 * (seed % 3)))
    space = Space(ring=40)
    space.take(records)
    space.settle(30)  # some steps see no message
    shown = {row.seq for row in space.rows.since(0, 10_000)[-40:]}
    wanted = {row: rules for row, rules in expected_of(records).items() if row in shown}
    found = {seq for seq in shown if space.findings.get(seq)}
    assert wanted and found == wanted.keys()


def test_records_that_are_no_longer_held_do_not_shift_the_rows() -> None:
    fault = next(fault for fault in FAULTS if fault.__name__ == "failing")
    clean, (last, _) = converse(8, 900)[0], converse(9, 1, fault)
    records = [*clean, *(record._replace(seq=clean[-1].seq + n) for n, record in enumerate(last, 1))]
    space = Space(keep=50, capacity=50)
    space.take(records[:60])
    space.settle(20)
    space.take(records[60:])  # more than is held in memory
    space.settle(20)
    rows = {row.seq: row for row in space.rows.since(0, 100_000)}
    failed = [seq for seq, rules in space.found().items() if "failed-call" in rules]
    assert failed and all(rows[seq].failed for seq in failed), (failed, sorted(rows)[:3])


def test_what_is_kept_is_bounded() -> None:
    fault = next(fault for fault in FAULTS if fault.__name__ == "failing")
    space = Space(ring=5)
    records: list[Record] = []
    for seed in range(30):
        records += converse(seed, 1, fault)[0]
    for n, record in enumerate(records, 1):
        space.take([record._replace(seq=n)])
        space.settle()
    found = space.findings.between(1, space.rows.last_seq)
    assert len(found) == 5 and found[0] > 100
