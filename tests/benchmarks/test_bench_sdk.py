"""The benchmark of participants and agents runs, with counts too small to say anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_benchmark_prints_memory_beside_websocket_and_the_marks() -> None:
    script = Path(__file__).with_name("bench_sdk.py")
    done = subprocess.run(
        [sys.executable, str(script), "0.001", "1"], capture_output=True, text=True, timeout=55, check=True
    )
    lines = done.stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "request and answer over memory",
        "the same over WebSocket",
        "messages of two participants over memory",
        "the same over WebSocket",
        "a step of an agent beyond model and call",
        "3 agents over WebSocket answer at once",
        "heartbeats missed meanwhile",
    ]
    assert lines[4].endswith("≤ 5 ms") and lines[-1] == "heartbeats missed meanwhile, 0, 0"
    # On a busy machine it ends while a message of an agent is on its way, which is told.
    assert [line for line in done.stderr.splitlines() if "may be missing there" not in line] == []
