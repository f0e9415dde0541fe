"""The table of capabilities: its rows are those that were asked for, and what shows them exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import mission
from .report_requirements import DIVERGENCES, HERE

ROWS = [(section, words, shown) for section, rows in mission.TABLE.items() for words, shown in rows.items()]


def test_the_rows_are_those_of_the_table_with_its_words(shared: Path) -> None:
    section, asked = "", []
    for line in (shared / "mission-table.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"\*(.+)\*|## (.+)", line):
            section = heading[1] or heading[2]
        elif (row := re.fullmatch(r"\| (.+?) \| (.+) \| .+ \|", line)) and row[1] != "capability":
            asked.append((section, row[1]))
    assert len(asked) == 220
    assert [(section, words) for section, words, _ in ROWS] == asked


def test_each_row_is_shown_by_tests_or_is_a_recorded_divergence() -> None:
    recorded = {one.row for one in DIVERGENCES}
    assert [
        words for _, words, shown in ROWS if not shown or (isinstance(shown, str) and shown not in recorded)
    ] == []


NAMED = sorted({test for _, _, shown in ROWS for test in mission.tests_of(shown)})


def test_each_test_that_is_named_stands_in_its_file() -> None:
    texts = {
        name: (HERE.parent / name).read_text(encoding="utf-8")
        for name in {one.partition("::")[0] for one in NAMED}
    }
    missing = []
    for one in NAMED:
        name, _, test = one.partition("::")
        if not all(
            re.search(rf"^ *(async )?(def|class) {part}\b", texts[name], re.M)
            for part in test.partition("[")[0].split("::")
            if part
        ):
            missing.append(one)
    assert missing == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_pytest_finds_each_of_them_with_its_case() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", "", *NAMED]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout[-5000:]


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ({"tests/a.py::test_x": "passed", "tests/a.py::test_y[1]": "passed"}, "Y"),
        (
            {
                "tests/a.py::test_x": "passed",
                "tests/a.py::test_y[1]": "passed",
                "tests/a.py::test_y[2]": "failed",
            },
            "no",
        ),
        ({"tests/a.py::test_x": "passed", "tests/a.py::test_y[1]": "skipped"}, "no"),
        ({"tests/a.py::test_x": "passed", "tests/a.py::test_yes": "passed"}, "no"),
        ({}, "no"),
    ],
)
def test_a_row_is_shown_where_all_its_tests_ran_and_passed(outcomes: dict[str, str], told: str) -> None:
    assert mission.verdict(("a.py::test_x", "a.py::test_y"), outcomes) == told


def test_a_divergence_stands_where_the_tests_that_pin_it_passed() -> None:
    assert mission.verdict("of no record", {}) == "no"
    row = DIVERGENCES[0].row
    pins = mission.tests_of(row)
    assert pins and mission.verdict(row, dict.fromkeys(pins, "passed")) == "divergence"
    assert mission.verdict(row, dict.fromkeys(pins, "failed")) == "no"


def test_the_table_is_printed_with_its_counts() -> None:
    outcomes = {test: "passed" for _, _, shown in ROWS for test in mission.tests_of(shown)}
    lines = list(mission.lines_of_table(outcomes))
    apart = sum(isinstance(shown, str) for _, _, shown in ROWS)
    assert lines[-1] == f"{len(ROWS)} rows, {len(ROWS) - apart} Y, {apart} divergence, 0 no"
    assert [
        line.split(" | ")[0][2:] for line in lines if line.startswith("| ") and "| shown by |" not in line
    ] == [words for _, words, _ in ROWS]
