"""What the MCP library logs of a peer reaches no terminal: neither of a bridge nor of a gate."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from mew_lab.bridge import library_log

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.threat(28)
@pytest.mark.timeout(120)
def test_a_noisy_server_and_odd_lists_print_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bridge.quiet_program"], cwd=ROOT, capture_output=True, timeout=110
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()[-3000:]
    faults = json.loads(done.stdout)
    assert all(len(fault) < 700 and fault.isprintable() for fault in faults)
    assert any("leaves out odd/t0, because of tools.0.inputSchema.properties" in fault for fault in faults)
    assert any("leaves out git/noise" in fault for fault in faults)


def test_a_warning_about_the_same_comes_rarely_and_counts_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(library_log.time, "monotonic", lambda: now)
    for _ in range(500):
        library_log.warn_rarely("this test", "it is odd")
    now += library_log.EVERY
    library_log.warn_rarely("this test", "it is odd")
    told = [record.getMessage() for record in caplog.records]
    assert told == ["it is odd", "it is odd (499 more like this were left out)"]


def test_a_logger_of_another_program_with_the_same_name_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    library_log.quiet_library()
    logging.getLogger("client").warning("mine")
    assert [record.getMessage() for record in caplog.records] == ["mine"]
