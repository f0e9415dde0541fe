"""Do the tests of the pure rooms take every branch of them?  Measured in a run of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.timeout(900)
def test_every_branch_of_protocol_and_space_is_taken_by_their_own_tests(tmp_path: Path) -> None:
    run = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-n0",
                "--hypothesis-profile=all",
                "tests/protocol",
                "tests/space",
            ),
            "--ignore=tests/space/test_state_machine.py",  # it takes no branch that the others leave out
            *("--cov=mew_lab.protocol", "--cov=mew_lab.space", "--cov-branch", "--cov-fail-under=100"),
            "--cov-report=term-missing:skip-covered",
        ],
        cwd=ROOT,
        env=os.environ | {"COVERAGE_FILE": str(tmp_path / "coverage")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-8000:]
