"""The MCP conformance suite: installed by npm from the lock file beside this, and run; its checks as a count.

The released suite knows the revisions up to 2025-11-25. Its preview also knows 2026-07-28.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TIMED = "client-sse-retry-timing"  # its result tells how busy the machine is


@cache
def installed_suite(folder: Path) -> list[str]:
    """The command of the suite, installed by npm into `folder` from the lock file, with the Node that it needs."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on PATH: the conformance suite is not installed")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    modules = folder / "node_modules"
    node = modules / ".bin" / "node"
    if run.returncode or not node.exists():
        fail = pytest.fail if os.environ.get("CI") else pytest.skip
        fail(f"npm does not give the conformance suite with its Node: {run.stderr.strip()[-200:]}")
    return [str(node), str(modules / "@modelcontextprotocol/conformance/dist/index.js")]


def preview_of(suite: Sequence[str]) -> list[str]:
    """The command of the preview that is installed beside a suite."""
    node, script = suite
    return [node, str(Path(script).parents[3] / "conformance-of-both-eras" / "dist" / "index.js")]


def run_suite(words: Sequence[str], folder: Path, *, timeout: float = 200) -> Counter[tuple[str, str, str]]:
    """The checks of a run, of each scenario: its name, its result, how often."""
    folder.mkdir()
    run = subprocess.run([*words, "-o", str(folder)], capture_output=True, text=True, timeout=timeout)
    found: Counter[tuple[str, str, str]] = Counter()
    for path in folder.glob("*/checks.json"):
        scenario = re.sub(r"-[0-9T]+-[0-9T-]+Z$", "", path.parent.name)
        for check in json.loads(path.read_bytes()):
            status = "timed" if check["id"] == TIMED else check["status"]
            found[scenario, check["id"], status] += 1
    assert found, run.stdout + run.stderr
    return found
