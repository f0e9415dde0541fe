"""A test that hangs ends, wherever its time-out meets it; where nothing is missing, a test that is skipped has failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

IN_A_CALLBACK = """
import asyncio, time

async def test_it():
    asyncio.get_running_loop().call_soon(time.sleep, 2)
    await asyncio.get_running_loop().create_future()
"""
IN_THE_TEARDOWN = """
import asyncio, conftest

conftest.TEARDOWN = 1.0

async def stay():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def test_it():
    task = asyncio.create_task(stay())
    await asyncio.sleep(0)
    assert False
"""

SKIPPED = """
import pytest

def test_it():
    pytest.skip("this machine has no moon")

@pytest.fixture
def moon():
    pytest.skip("no moon")

def test_by_a_fixture(moon):
    pass

def test_without_a_program():
    pytest.skip("no node on PATH")

@pytest.mark.xfail
def test_known():
    assert False
"""


@pytest.mark.slow
def test_where_nothing_is_missing_only_a_program_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_hangs.py").write_text(SKIPPED)
    monkeypatch.delenv("MEW_LAB_PINNED", raising=False)
    assert "3 skipped, 1 xfailed" in run(tmp_path)
    monkeypatch.setenv("MEW_LAB_PINNED", "1")
    monkeypatch.setenv("MEW_LAB_SHARED", str(tmp_path))
    assert "1 failed, 1 skipped, 1 xfailed, 1 error" in run(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("source", [IN_A_CALLBACK, IN_THE_TEARDOWN], ids=["callback", "teardown"])
def test_a_test_that_hangs_ends_all_the_same(tmp_path: Path, source: str) -> None:
    (tmp_path / "test_hangs.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    assert "1 failed" in run(tmp_path)


def run(folder: Path) -> str:
    """What pytest prints of `test_hangs.py`, with the hooks of these tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "--timeout=2", "test_hangs.py"]
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    return ran.stdout + ran.stderr
