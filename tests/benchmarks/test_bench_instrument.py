"""The benchmark of large logs runs, with a journal too small to say anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(120)
def test_the_benchmark_prints_ours_beside_the_others() -> None:
    script = Path(__file__).with_name("bench_instrument.py")
    done = subprocess.run(
        [sys.executable, str(script), "0.3"], capture_output=True, text=True, timeout=110, check=True
    )
    lines = done.stdout.splitlines()
    assert next(line for line in lines if line.startswith("index")).endswith("≤ 500 MiB")
    found = {line[:40].strip(): line.split(")")[1].split()[0] for line in lines if " found" in line}
    assert (
        found["filter on columns"]
        == found["DuckDB read_json: kind and sender"]
        == found["pandas: kind and sender"]
    )
    assert found["filter on a payload path"] == found["DuckDB read_json: payload path"] != "0"
    assert any(line.endswith("(mark: 1.3)") for line in lines)
