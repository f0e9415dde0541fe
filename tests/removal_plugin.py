"""A plugin of pytest that takes away what stands behind rows, and looks which of their tests notice it.

    REMOVALS=upper ROWS="P-3-10 S-CH-1" TOLD=told.json python -m pytest -n0 -p removal_plugin tests/sdk tests/agent

runs, for each removal, the tests marked with its rows without the behaviour, until one of each row's is red; then,
with everything back in place, those that were red once more. It writes what became of them. SHARE=0/4 takes every
fourth removal; REMOVALS=gateway takes those of `removals.py`.
"""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from removals import PARTS, part_behind
from report_requirements import read_report
from upper_removals import REMOVALS, Removal


@functools.cache
def gateway_removals() -> list[Removal]:
    """Each part of the gateway, with the rows behind which it stands and that some test claims to show."""
    rows: dict[str, list[str]] = defaultdict(list)
    report = read_report()
    for row in report.rows:
        if row.binds in ("gateway", "all") and report.shown.get(("req", row.id)):
            rows[part_behind(row.id) or ""].append(row.id)
    return [Removal(" ".join(rows[part]), part, remove) for part, remove in PARTS.items() if rows[part]]


def rows_of(item: pytest.Item) -> set[str]:
    return {row for mark in item.iter_markers("req") for row in mark.args}


def chosen() -> list[tuple[Removal, list[str]]]:
    """The removals of this process and their rows: all of a kind, or those that SHARE and ROWS name."""
    removals = REMOVALS if os.environ["REMOVALS"] == "upper" else gateway_removals()
    share, of = map(int, os.environ.get("SHARE", "0/1").split("/"))
    only = os.environ.get("ROWS", "").split()
    found = [(one, [row for row in one.rows.split() if not only or row in only]) for one in removals]
    return [(one, rows) for one, rows in found if rows][share::of]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = {row for _, rows in chosen() for row in rows}
    items[:] = [one for one in items if rows_of(one) & wanted]


_outcomes: dict[str, str] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if report.when == "call" or report.failed:
        _outcomes[item.nodeid] = report.outcome
    return report


def _run(item: Any) -> str:
    _outcomes.pop(item.nodeid, None)
    item._initrequest()
    item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
    return _outcomes.get(item.nodeid, "not run")


def pytest_runtestloop(session: pytest.Session) -> bool:
    """For each removal: the tests of its rows without the behaviour, until one of each row's is red; then those with it."""
    by_row: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in session.items:
        for row in rows_of(item):
            by_row[row].append(item)
    told: list[dict[str, Any]] = []
    red: dict[str, pytest.Item] = {}
    for removal, rows in chosen():
        seen: dict[str, str] = {}
        with pytest.MonkeyPatch.context() as patch:
            removal.remove(patch)
            for row in rows:
                became: dict[str, str] = {}
                for item in by_row[row]:
                    if item.nodeid not in seen:
                        seen[item.nodeid] = _run(item)
                    became[item.nodeid] = seen[item.nodeid]
                    if seen[item.nodeid] == "failed":
                        red[item.nodeid] = item
                        break
                told.append({"row": row, "without": removal.what, "tests": became})
    back = {name: _run(item) for name, item in red.items()}
    Path(os.environ["TOLD"]).write_text(json.dumps({"told": told, "back": back}))
    return True
