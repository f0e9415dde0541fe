"""Do the tests of a row go red when the part that does what the row says is taken away?

Thirty rows of those that bind the gateway are drawn by a seed, which is printed and which MEW_LAB_SEED gives. For
each, the tests that are marked with it run in a process of their own without the part that `removals.ROWS` names.
The black-box suite of tests/conformance is marked with nearly every row and is left out: a row has to have a test
that is about it.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import secrets
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from .report_requirements import read_report

pytestmark = pytest.mark.nightly

HERE = Path(__file__).resolve().parent
removals = runpy.run_path(str(HERE / "removals.py"))

# Where tests run in the process in which the part is missing, the quickest first.
FOLDERS = ("space", "protocol", "log", "gateway", "sdk")


def rows() -> list[str]:
    """The rows that bind the gateway and that some test claims to show."""
    found = read_report()
    return [
        row.id for row in found.rows if row.binds in ("gateway", "all") and found.shown.get(("req", row.id))
    ]


def files_of(wanted: list[str]) -> list[str]:
    shown = read_report().shown
    files = {test.split("::")[0] for row in wanted for test in shown["req", row]}
    mine = [(FOLDERS.index(folder), file) for file in files if (folder := file.split("/")[1]) in FOLDERS]
    return [file for _, file in sorted(mine)]


def run(part: str | None, wanted: list[str], told: Path, *, patience: int = 20) -> dict[str, dict[str, str]]:
    """What becomes of the tests of these rows without the part: row -> test -> outcome.

    Without its part a test may wait for what never comes: each ends after `patience` seconds.
    """
    environment = {**os.environ, "ROWS": " ".join(wanted), "TOLD": str(told), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    )
    if part:
        environment["REMOVED"] = part
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "removals",
        "--tb=no",
        f"--timeout={patience}",
        "--hypothesis-profile=all",
    ]
    command += files_of(wanted)
    done = subprocess.run(
        command, cwd=HERE.parent, env=environment, capture_output=True, text=True, timeout=900
    )
    assert told.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    return dict(json.loads(told.read_text()))


def still_green(drawn: list[str], folder: Path) -> list[str]:
    """The rows whose tests do not notice that their part is missing."""
    by_part: dict[str, list[str]] = defaultdict(list)
    for row in drawn:
        by_part[removals["part_behind"](row)].append(row)
    green = []
    for n, (part, wanted) in enumerate(sorted(by_part.items())):
        told = run(part, wanted, folder / f"{n}.json")
        for row in wanted:
            outcomes = told.get(row, {})
            noticed = "failed" in outcomes.values()
            print(f"{row:<12} without {part:<26} {len(outcomes):>3} tests {'red' if noticed else 'GREEN'}")
            if not noticed:
                green.append(f"{row} without {part}")
    return green


def test_every_row_that_binds_the_gateway_has_a_part_behind_it() -> None:
    without = [row for row in rows() if not removals["part_behind"](row)]
    assert set(without) == removals["NOT_OURS"] & set(rows())


def test_every_part_stands_behind_some_row() -> None:
    """So that a row of the table that is a misprint is seen."""
    named = {part for _, part in removals["ROWS"]}
    assert named <= set(removals["PARTS"])


@pytest.mark.timeout(3600)
def test_a_row_marked_as_tested_goes_red_without_its_part(tmp_path: Path) -> None:
    seed = int(os.environ.get("MEW_LAB_SEED") or secrets.randbelow(2**32))
    print(f"\nMEW_LAB_SEED={seed}")
    drawn = random.Random(seed).sample([row for row in rows() if removals["part_behind"](row)], 30)
    assert still_green(drawn, tmp_path) == []


@pytest.mark.timeout(600)
def test_with_every_part_in_place_the_same_tests_are_green(tmp_path: Path) -> None:
    """Else red would say nothing."""
    wanted = [row for row in rows() if removals["part_behind"](row)]
    told = run(None, wanted, tmp_path / "told.json", patience=120)
    outcomes = {(row, test): outcome for row, tests in told.items() for test, outcome in tests.items()}
    assert {shown: it for shown, it in outcomes.items() if it not in ("passed", "skipped")} == {}
