"""The benchmark of the diagnosis runs, with counts too small to say anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_benchmark_prints_its_figures() -> None:
    script = Path(__file__).with_name("bench_diagnose.py")
    done = subprocess.run(
        [sys.executable, str(script), "60"], capture_output=True, text=True, timeout=60, check=True
    )
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert words[1:] == ["diagnose", "control", "growth", "memory"]
    assert done.stdout.splitlines()[0].endswith("messages, 0 findings")
