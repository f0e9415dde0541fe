"""The benchmark of large logs runs, with a journal too small to say anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MARKED = 19  # rows with a mark


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_benchmark_prints_ours_beside_the_others() -> None:
    script = Path(__file__).with_name("bench_instrument.py")
    done = subprocess.run(
        [sys.executable, str(script), "0.3"], capture_output=True, text=True, timeout=110, check=True
    )
    lines = done.stdout.splitlines()
    found = {line[:42].strip(): line.split(")")[1].split()[0] for line in lines if " found" in line}
    assert sum(" found" in line and " ≤ " in line for line in lines) == MARKED, done.stdout
    assert (
        found["first opening and filter"]
        == found["filter on columns"]
        == found["DuckDB read_json: kind and sender"]
        == found["pandas: kind and sender"]
        != "0"
    )
    assert found["filter on a payload path"] == found["DuckDB read_json: payload path"] != "0"
    assert found["text search"] == found["DuckDB read_json: text"]
    assert any("second opening and filter" in line and line.endswith("≥ 20") for line in lines)
