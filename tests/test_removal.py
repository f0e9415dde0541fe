"""Do the tests of a row go red when what the row says is taken away, and are they green with it?

Every row that some test claims is asked: those that bind the gateway without the part that `removals.ROWS` names, the
others without a behaviour of participant, agent, SDK or UI that `upper_removals.py` names. The black-box suite of
tests/conformance is marked with nearly every row, and is left out: a row has to have a test that is about it.
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
gateway = runpy.run_path(str(HERE / "removals.py"))
upper = runpy.run_path(str(HERE / "upper_removals.py"))

# Where tests run in a process in which something is missing, the quickest first; a browser has a process of its own.
FOLDERS = {
    "gateway": ("space", "protocol", "log", "gateway", "sdk"),
    "upper": tuple("protocol ledger sdk agent log tools_agent bridge notebook lab views cli".split()),
}
SHARES = 3  # processes at once; most tests that miss something wait for it


def rows(kind: str) -> set[str]:
    """The rows that bind the gateway, or others, and that some test claims to show."""
    report = read_report()
    return {
        row.id
        for row in report.rows
        if (row.binds in ("gateway", "all")) == (kind == "gateway") and report.shown.get(("req", row.id))
    }


def asked(kind: str) -> set[str]:
    """Those of them behind which something stands that can be taken away."""
    return rows(kind) - set(gateway["NOT_OURS"] if kind == "gateway" else upper["WITHOUT"])


def files(kind: str) -> list[str]:
    folders = FOLDERS[kind]
    shown = {test.split("::")[0] for row in rows(kind) for test in read_report().shown["req", row]}
    mine = [(folders.index(folder), file) for file in shown if (folder := file.split("/")[1]) in folders]
    return [file for _, file in sorted(mine)]


def run(kind: str, share: int, told: Path, tests: list[str]) -> dict[str, Any]:
    path = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "REMOVALS": kind,
        "SHARE": f"{share}/{SHARES}",
        "TOLD": str(told),
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = "-q -n0 -p removal_plugin --tb=native --timeout=10 --hypothesis-profile=all".split()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=HERE.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert told.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    return dict(json.loads(told.read_text()))


def test_every_row_that_binds_the_gateway_has_a_part_behind_it_and_every_part_some_row() -> None:
    without = {row for row in rows("gateway") if not gateway["part_behind"](row)}
    assert without == gateway["NOT_OURS"] & rows("gateway")
    assert {part for _, part in gateway["ROWS"]} == set(gateway["PARTS"])


def test_every_other_row_has_a_behaviour_behind_it_that_is_taken_away_or_a_reason_why_none_is() -> None:
    behind = {row for one in upper["REMOVALS"] for row in one.rows.split()}
    assert behind | set(upper["WITHOUT"]) == rows("upper")
    assert behind & set(upper["WITHOUT"]) == set()


def test_every_removal_finds_what_it_takes_away_and_puts_it_back() -> None:
    """So that a path that has moved is seen at once."""
    for remove in 2 * [*gateway["PARTS"].values(), *(one.remove for one in upper["REMOVALS"])]:
        with pytest.MonkeyPatch.context() as patch:
            remove(patch)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", FOLDERS)
def test_a_row_marked_as_tested_goes_red_without_what_it_says_and_is_green_with_it(
    kind: str, tmp_path: Path
) -> None:
    tests = files(kind)  # not in the threads: Python 3.11 may fail where two parse at once
    with ThreadPoolExecutor(SHARES) as pool:
        found = list(pool.map(lambda n: run(kind, n, tmp_path / f"{n}.json", tests), range(SHARES)))
    told = [one for share in found for one in share["told"]]
    assert {one["row"] for one in told} == asked(kind)
    green = [one for one in told if "failed" not in one["tests"].values()]
    assert [f"{one['row']} without: {one['without']}" for one in green] == []
    back = {test: outcome for share in found for test, outcome in share["back"].items()}
    assert {test for test, outcome in back.items() if outcome != "passed"} == set()
