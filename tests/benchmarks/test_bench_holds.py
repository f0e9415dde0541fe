"""The benchmark of hostile holders runs, small; what their messages cost is counted in steps, not in time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.threat(37), pytest.mark.ruling("R24")]


def test_each_holder_is_told_with_its_hold_and_the_mark() -> None:
    script = Path(__file__).with_name("bench_holds.py")
    done = subprocess.run(
        [sys.executable, str(script), "--seconds", "4"],
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
        env={**os.environ, "SCALE": "0.1"},
    )
    head, *lines = done.stdout.splitlines()
    assert head.endswith("mark ≤ 50 ms")
    assert len(lines) >= 15 and ">" not in done.stdout, done.stdout
    steps = [int(line.split()[6]) for line in lines]
    assert max(steps) <= 120_000 + 12_000  # the budget of a turn, and what one last step may cost
    assert done.stderr == ""
