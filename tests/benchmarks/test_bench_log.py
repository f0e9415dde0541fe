"""The benchmark of the log runs, with counts too small to say anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_benchmark_prints_each_figure_beside_its_mark() -> None:
    script = Path(__file__).with_name("bench_log.py")
    done = subprocess.run(
        [sys.executable, str(script), "300", "1"], capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert next(line for line in lines if line.startswith("append")).endswith("CPU a delivery")
    assert len([line for line in lines if "control" in line]) >= 4
