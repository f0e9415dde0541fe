"""The benchmark of hostile holders runs, small; what their messages cost is counted in steps, not in time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .bench_holds import ATTEMPTS, LAB

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.threat(37), pytest.mark.ruling("R24")]


def rows_of(*names: str) -> tuple[str, list[str]]:
    """The head and the rows that the benchmark prints, small."""
    script = Path(__file__).with_name("bench_holds.py")
    done = subprocess.run(
        [sys.executable, str(script), "--seconds", "4", *names],
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
        env={**os.environ, "SCALE": "0.1"},
    )
    assert done.stderr == ""
    head, *rows = done.stdout.splitlines()
    assert head.endswith("mark ≤ 50 ms")
    return head, rows


def test_each_holder_is_told_with_its_hold_and_the_mark() -> None:
    _, rows = rows_of(*ATTEMPTS)
    assert len(rows) == len(ATTEMPTS) >= 15 and ">" not in "".join(rows), rows
    steps = [int(row.split()[6]) for row in rows]
    assert max(steps) <= 120_000 + 12_000  # the budget of a turn, and what one last step may cost


@pytest.mark.threat(54)
def test_each_holder_of_a_lab_is_told_with_what_the_person_waited() -> None:
    head, rows = rows_of(*LAB)
    assert head.split()[:3] == ["in", "a", "lab"] and "idle loop" in head
    assert [row.split()[0] for row in rows] == list(LAB)
    for row in rows:
        busy, held, idle, share, chat, unread = map(float, row.split()[1:])
        assert min(busy, held, idle, chat) > 0 and 0 < share <= 1 and unread >= 0
