"""The lines that a terminal shows, and the same as JSON."""

from __future__ import annotations

import json

from mew_lab.conformance.report import lines, summary, to_json
from mew_lab.conformance.suite import FAILED, PASSED, UNSEEN, Result

RESULTS = [
    Result("P-1", "§1", "MUST", "One thing", PASSED, "", ""),
    Result("P-20", "§2", "MUST NOT", "Another", FAILED, "it was\u202e otherwise", "human → x\nhuman ← y\x07"),
    Result("C-3", "R3", "DECISION", "A third", UNSEEN, "no way to see it", "no way to see it"),
]


def test_the_summary_counts_results_and_what_binds() -> None:
    assert summary(RESULTS) == (
        "3 rows: 1 passed, 1 failed, 1 not testable from outside; "
        "of 2 MUST and MUST NOT rows that can be seen, 1 passed"
    )


def test_failures_come_with_their_exchange_before_the_table() -> None:
    assert list(lines(RESULTS)) == [
        summary(RESULTS),
        "",
        "FAILED P-20 (§2, MUST NOT): Another",
        "  it was\\u202e otherwise",
        "    human → x",
        "    human ← y\\u0007",
        "",
        "P-1   passed  MUST      One thing",
        "P-20  FAILED  MUST NOT  Another",
        "C-3   -       DECISION  A third [no way to see it]",
    ]


def test_the_json_holds_every_field_of_every_row() -> None:
    assert [Result(**one) for one in json.loads(to_json(RESULTS))] == RESULTS
