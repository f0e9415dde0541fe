"""The report on requirements: what it finds, and that no test names a row that does not exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import report_requirements as requirements

HERE = Path(__file__).resolve().parent


def test_no_test_names_a_row_that_does_not_exist() -> None:
    assert requirements.read_report().unknown == ()


def test_the_table_has_every_row_once() -> None:
    ids = [row.id for row in requirements.read_rows()]
    assert len(ids) == len(set(ids)) == 516


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        (
            '@pytest.mark.req("A-1", "A-2")\ndef test_x(): ...',
            [("A-1", "m.py::test_x"), ("A-2", "m.py::test_x")],
        ),
        ('@pytest.mark.req("A-1")\nclass TestX:\n  def test_y(self): ...', [("A-1", "m.py::TestX")]),
        ('pytestmark = pytest.mark.req("A-1")', [("A-1", "m.py")]),
        ('pytestmark = [pytest.mark.req("A-1")]', [("A-1", "m.py")]),
        ("@pytest.mark.threat(3)\nasync def test_x(): ...", [(3, "m.py::test_x")]),
        (
            '@pytest.mark.parametrize("a", [pytest.param(1, marks=pytest.mark.trap("T-4"))])\ndef test_x(a): ...',
            [("T-4", "m.py::test_x")],
        ),
        ('@pytest.mark.slow\ndef test_x():\n  other.req("A-1")', []),
    ],
)
def test_marks_are_found_wherever_pytest_would(source: str, rows: list[tuple[str | int, str]]) -> None:
    found = requirements.marks_in(source, name="m.py")
    assert [(mark.row, mark.test) for mark in found] == rows


def test_figures_count_rows_and_not_marks() -> None:
    rows = [
        requirements.Row("A-1", "s", "MUST", "gateway", "one"),
        requirements.Row("A-2", "s", "MUST", "gateway", "two"),
        requirements.Row("A-3", "s", "MAY", "agent", "three"),
    ]
    marks = [
        requirements.Mark("req", "A-1", "t1"),
        requirements.Mark("req", "A-1", "t1"),
        requirements.Mark("req", "A-1", "t2"),
        requirements.Mark("req", "A-9", "t2"),
        requirements.Mark("trap", "T-28", "t2"),
    ]
    found = requirements.report(rows, marks)
    assert found.figure() == (1, 3)
    assert found.figure("gateway") == (1, 2)
    assert found.figure("agent") == (0, 1)
    assert found.shown == {("req", "A-1"): ("t1", "t2")}
    assert [mark.row for mark in found.unknown] == ["A-9", "T-28"]
    assert [line.split()[0] for line in requirements.lines_of_missing(found)] == ["A-2", "A-3"]


def test_the_report_is_printed_by_one_command() -> None:
    command = [sys.executable, "tests/report_requirements.py", "--short"]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True)
    shown, of = requirements.read_report().figure()
    assert done.stdout.splitlines()[0] == f"requirements  {shown:>3} of {of} rows have a test"


@pytest.mark.req("P-RL-1")
def test_the_key_words_are_read_as_rfc_2119_has_them(shared: Path) -> None:
    """Only upper-case words bind: a MUST that is not marked as implied stands in its section in capitals."""
    text = (shared / "specs" / "protocol-v0.4.txt").read_text(encoding="utf-8")
    heads = list(re.finditer(r"^(\d+(?:\.\d+)+|\d+(?=\. [^\n]+\n\n)) ?\.? ?[A-Z]", text, re.MULTILINE))
    sections: dict[str, str] = {}
    for head, end in zip(heads, [head.start() for head in heads[1:]] + [len(text)], strict=True):
        sections[head[1]] = sections.get(head[1], "") + text[head.start() : end]
    musts = 0
    for row in requirements.read_rows():
        word, implied, _ = row.level.partition("(implied)")
        assert word in {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "DECISION"}
        section = re.match(r"003 §([\d.]+)", row.source)
        if word.startswith("MUST") and not implied and section is not None:
            musts += 1
            assert re.search(r"\bMUST\b", sections[section[1]]), row.id
    assert musts > 40


def test_no_row_that_binds_the_gateway_is_open() -> None:
    found = requirements.read_report()
    assert [row.id for row in found.open if row.binds in requirements.OURS] == []


def test_a_recorded_divergence_counts_apart_and_only_where_a_test_pins_it() -> None:
    recorded = requirements.DIVERGENCES[0].row
    rows = [
        requirements.Row(recorded, "s", "MAY", "gateway", "one"),
        requirements.Row("A-2", "s", "MUST", "all", "two"),
        requirements.Row("A-3", "s", "MUST", "agent", "three"),
    ]
    found = requirements.report(rows, [requirements.Mark("req", "A-2", "t1")])
    assert [row.id for row in found.open] == [recorded, "A-3"]
    assert (
        "2 rows of 3 bind the gateway: 1 tested, 0 recorded divergences, 1 open"
        in requirements.lines_of_figures(found)
    )
    pinned = [requirements.Mark("divergence", recorded, "t2"), requirements.Mark("divergence", "A-2", "t3")]
    found = requirements.report(rows, pinned)
    assert [row.id for row in found.open] == ["A-2", "A-3"]
    assert [mark.row for mark in found.unknown] == ["A-2"]
    assert (
        "2 rows of 3 bind the gateway: 0 tested, 1 recorded divergences, 1 open"
        in requirements.lines_of_figures(found)
    )
