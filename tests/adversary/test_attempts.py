"""Programs that try to refute a promise from outside: each must reach its point, and find that the promise holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ATTEMPTS = sorted(path for path in HERE.glob("[0-9]*.py"))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda path: path.stem)
def test_the_promise_holds(attempt: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(attempt)],
        capture_output=True,
        text=True,
        timeout=220,
        env={**os.environ, "SCALE": "0.15"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert lines, "the attempt gave no verdict"
    assert [line for line in lines if not line.startswith("[HELD ]")] == []
