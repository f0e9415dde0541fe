"""Grants that end by themselves end although the process that gave them was killed. Ruling R25."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mew_lab.lab.labs import up
from mew_lab.log.replay import replay

from .conftest import ENVIRONMENT

KERNEL = """
import mew_lab, os, signal
lab = mew_lab.up("demo", journal="j.jsonl", port=None)
for name in ("bot", "eve"):
    lab.enrol(name, can="proposer")
def grant(method, **end):
    pattern = {"kind": "mcp/request", "to": "eve", "payload": {"method": method}}
    lab.loop.run(lab.granting.grant("bot", [pattern], **end), timeout=10, doing="granting")
grant("zz/moment", minutes=0.005)
grant("zz/twice", uses=2)
grant("zz/hour", minutes=60)
bot = lab.join("bot", can="proposer")
bot.send("mcp/request", {"method": "zz/twice"}, to="eve")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.ruling("R25")
@pytest.mark.threat(38)
@pytest.mark.timeout(120)
def test_a_kill_and_a_resume_end_what_is_over_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KERNEL], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == -9, done.stderr
    while time.time() < (tmp_path / "j.jsonl").stat().st_mtime + 0.4:  # then the moment is over
        time.sleep(0.02)
    monkeypatch.chdir(tmp_path)
    lab = up(resume=tmp_path / "j.jsonl", port=None)
    try:
        bot = lab.join("bot", can="proposer")

        def held() -> set[str]:
            asked = [one["payload"]["method"] for one in bot.capabilities if one["kind"] == "mcp/request"]
            return {one for one in asked if one.startswith("zz/")}

        assert held() == {"zz/twice", "zz/hour"}
        bot.send("mcp/request", {"method": "zz/twice"}, to="eve")
        bot.send("mcp/request", {"method": "zz/hour"}, to="eve")
        deadline = time.monotonic() + 10
        while held() != {"zz/hour"}:
            assert time.monotonic() < deadline, "its two uses are over"
            time.sleep(0.01)
    finally:
        lab.down()
    assert replay(tmp_path / "j.jsonl").unwritten == ()
