"""The lines that a terminal shows, and the same as JSON."""

from __future__ import annotations

import json

from mew_lab.conformance.report import by_group, lines, summary, to_json
from mew_lab.conformance.suite import FAILED, NOT_OFFERED, PASSED, UNSEEN, Result, decides
from mew_lab.conformance.table import by_level, to_frame

RESULTS = [
    Result("P-1", "§1", "MUST", "One thing", PASSED, "", "", "MUST"),
    Result(
        "P-20",
        "§2",
        "MUST NOT",
        "Another",
        FAILED,
        "it was\u202e otherwise",
        "human → x\nhuman ← y\x07",
        "MUST",
    ),
    Result("P-3", "§3", "MAY", "A freedom", NOT_OFFERED, "nobody did", "human → z", "MAY"),
    Result("C-3", "R3", "DECISION", "A third", UNSEEN, "no way to see it", "no way to see it", "ruling"),
    Result("C-4", "R4", "DECISION", "A fourth", FAILED, "done otherwise", "", "ruling"),
]


def test_the_summary_counts_the_rows_of_the_specification_and_names_the_rulings_apart() -> None:
    assert summary(RESULTS) == (
        "3 rows of the specification: 1 passed, 1 failed, 1 not offered, 0 not testable from outside; "
        "beside them 2 rulings of this project"
    )
    assert summary(RESULTS[:1]) == (
        "1 row of the specification: 1 passed, 0 failed, 0 not offered, 0 not testable from outside"
    )


def test_the_figures_of_each_level_stand_apart() -> None:
    counts = by_group(RESULTS)
    assert list(counts) == ["MUST", "MAY", "ruling"]
    assert counts["MUST"] == {PASSED: 1, FAILED: 1, NOT_OFFERED: 0, UNSEEN: 0}
    assert counts["ruling"] == {PASSED: 0, FAILED: 1, NOT_OFFERED: 0, UNSEEN: 1}
    frame = by_level(to_frame(RESULTS))
    assert frame.to_dict(orient="index") == counts
    assert frame.index.name == "level"


def test_only_a_row_of_the_specification_decides() -> None:
    assert [one.id for one in RESULTS if decides(one)] == ["P-20"]


def test_failures_come_with_their_exchange_before_the_table() -> None:
    assert list(lines(RESULTS)) == [
        summary(RESULTS),
        "  MUST    1 passed, 1 failed",
        "  MAY     1 not offered",
        "  ruling  1 differs, 1 not testable from outside",
        "",
        "FAILED P-20 (§2, MUST NOT): Another",
        "  it was\\u202e otherwise",
        "    human → x",
        "    human ← y\\u0007",
        "",
        "not offered: P-3 (§3, MAY): A freedom",
        "  nobody did",
        "    human → z",
        "",
        "P-1   passed       MUST      One thing",
        "P-20  FAILED       MUST NOT  Another",
        "P-3   not offered  MAY       A freedom",
        "",
        "2 rulings of this project, which bind no other gateway and do not decide the exit status:",
        "",
        "differs: C-4 (R4, DECISION): A fourth",
        "  done otherwise",
        "",
        "C-3   -            DECISION  A third [no way to see it]",
        "C-4   differs      DECISION  A fourth",
    ]


def test_the_json_holds_every_field_of_every_row() -> None:
    assert [Result(**one) for one in json.loads(to_json(RESULTS))] == RESULTS
