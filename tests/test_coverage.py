"""Do the tests of the pure rooms take every branch of them?  Measured in a run of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


class Run:
    """The measuring run, a process of its own that `begin` starts once."""

    process: subprocess.Popen[str] | None = None

    @classmethod
    def begin(cls) -> subprocess.Popen[str]:
        if cls.process is None:
            command = [
                *(sys.executable, "-m", "pytest", "-q", "-n0", "tests/protocol", "tests/space"),
                "--ignore=tests/space/test_state_machine.py",  # it takes no branch that the others leave out
                *("--cov=mew_lab.protocol", "--cov=mew_lab.space", "--cov-branch", "--cov-fail-under=100"),
                "--cov-report=term-missing:skip-covered",
            ]
            environment = os.environ | {"COVERAGE_FILE": str(Path(tempfile.mkdtemp()) / "coverage")}
            cls.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return cls.process

    @classmethod
    def end(cls) -> None:
        if cls.process is not None and cls.process.poll() is None:
            cls.process.kill()
            cls.process.wait(10)


@pytest.mark.timeout(600)
def test_every_branch_of_protocol_and_space_is_taken_by_their_own_tests() -> None:
    process = Run.begin()
    said, _ = process.communicate()
    assert process.returncode == 0, said[-8000:]
