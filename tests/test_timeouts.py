"""A test that hangs ends, wherever its time-out meets it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HANGS = """
import asyncio, time

async def test_it():
    asyncio.get_running_loop().call_soon(time.sleep, 2)
    await asyncio.get_running_loop().create_future()
"""


@pytest.mark.slow
def test_a_time_out_within_a_callback_ends_the_test_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "--timeout=1", "test_hangs.py"]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert "1 failed" in ran.stdout, ran.stdout + ran.stderr
