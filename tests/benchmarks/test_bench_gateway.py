"""The benchmark of the gateway runs, with counts too small to say anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_benchmark_prints_ours_beside_the_relay_and_its_mark() -> None:
    script = Path(__file__).with_name("bench_gateway.py")
    parts = ["many", "kernel", "life", "check"]
    done = subprocess.run(
        [sys.executable, str(script), "0.001", "1", *parts],
        capture_output=True,
        text=True,
        timeout=55,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "relay",
        "gateway on uvloop",
        "gateway on asyncio",
        "in one process over WebSocket",
        "in one process over memory",
        "start to first welcome" + lines[5][22:],
        "stop with 20 clients open" + lines[6][25:],
        "capability check",
    ]
    assert lines[1].endswith("≤ 1.0 × relay; beyond: 0.6 ×")
    assert done.stderr == ""
