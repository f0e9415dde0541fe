"""Do the tests of the pure rooms take every branch of them?  Measured in a run of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.timeout(600)
def test_every_branch_of_protocol_and_space_is_taken_by_their_own_tests(tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "pytest", "-q", "tests/protocol", "tests/space"),
        "--ignore=tests/space/test_state_machine.py",  # it finds faults, but no branch that the others leave out
        *("--cov=mew_lab.protocol", "--cov=mew_lab.space", "--cov-branch", "--cov-fail-under=100"),
        "--cov-report=term-missing:skip-covered",
    ]
    environment = os.environ | {"COVERAGE_FILE": str(tmp_path / "coverage")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
