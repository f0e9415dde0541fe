"""Do the tests of a row go red when a behaviour of participant, agent, SDK or UI that the row names is taken away?

`test_removal.py` asks this of the rows that bind the gateway. Here every row that some test claims is asked, and every
removal of `upper_removals.py` has to turn a marked test red that is green with the behaviour in place.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .report_requirements import read_report

pytestmark = pytest.mark.nightly

HERE = Path(__file__).resolve().parent
removals = runpy.run_path(str(HERE / "upper_removals.py"))

# Where tests run in a process in which a behaviour is missing, the quickest first. The black-box suite of
# tests/conformance is marked with nearly every row, and a browser has a process of its own.
FOLDERS = (
    "protocol",
    "ledger",
    "sdk",
    "agent",
    "log",
    "tools_agent",
    "bridge",
    "notebook",
    "lab",
    "views",
    "cli",
)
SHARES = 3  # processes at once; most tests that miss something wait for it


def rows() -> set[str]:
    """The rows that bind others than the gateway and that some test claims to show."""
    report = read_report()
    return {
        row.id
        for row in report.rows
        if row.binds not in ("gateway", "all") and report.shown.get(("req", row.id))
    }


def files() -> list[str]:
    shown = {test.split("::")[0] for row in rows() for test in read_report().shown["req", row]}
    mine = [(FOLDERS.index(folder), file) for file in shown if (folder := file.split("/")[1]) in FOLDERS]
    return [file for _, file in sorted(mine)]


def run(share: int, told: Path, tests: list[str]) -> dict[str, Any]:
    path = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "SHARE": f"{share}/{SHARES}", "TOLD": str(told), "PYTHONPATH": path}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "upper_removals",
        "--tb=native",
        "--timeout=10",
        "--hypothesis-profile=all",
    ]
    done = subprocess.run(
        [*command, *tests], cwd=HERE.parent, env=environment, capture_output=True, text=True, timeout=3000
    )
    assert told.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    return dict(json.loads(told.read_text()))


def test_every_row_has_a_behaviour_behind_it_that_is_taken_away_or_a_reason_why_none_is() -> None:
    behind = {row for one in removals["REMOVALS"] for row in one.rows.split()}
    assert behind | set(removals["WITHOUT"]) == rows()
    assert behind & set(removals["WITHOUT"]) == set()


def test_every_removal_finds_what_it_takes_away_and_puts_it_back() -> None:
    """So that a path that has moved is seen at once."""
    for one in (*removals["REMOVALS"], *removals["REMOVALS"]):
        with pytest.MonkeyPatch.context() as patch:
            one.remove(patch)


@pytest.mark.timeout(3600)
def test_a_row_marked_as_tested_goes_red_without_its_behaviour_and_is_green_with_it(tmp_path: Path) -> None:
    tests = files()  # not in the threads: Python 3.11 may fail where two parse at once
    with ThreadPoolExecutor(SHARES) as pool:
        found = list(pool.map(lambda n: run(n, tmp_path / f"{n}.json", tests), range(SHARES)))
    told = [one for share in found for one in share["told"]]
    assert len(told) == sum(len(one.rows.split()) for one in removals["REMOVALS"])
    green = [one for one in told if "failed" not in one["tests"].values()]
    assert [f"{one['row']} without: {one['without']}" for one in green] == []
    back = {test: outcome for share in found for test, outcome in share["back"].items()}
    assert {test for test, outcome in back.items() if outcome != "passed"} == set()
