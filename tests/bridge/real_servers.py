"""Servers of the field for tests: from npm, or from PyPI in an environment of their own, each installed once in a run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

NPM_VERSION = "2026.8.31"
INSTALL = 240.0  # seconds


@cache
def npm_server(name: str, folder: Path, version: str = NPM_VERSION) -> list[str]:
    """The command of `@modelcontextprotocol/NAME`, installed by npm below `folder`."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip(f"no npm and node on PATH: {name} is not installed")
    place = folder / name
    place.mkdir()
    package = f"@modelcontextprotocol/{name}"
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    _install([npm, "install", *options, f"{package}@{version}"], place, name)
    return [node, str(place / "node_modules" / package / "dist" / "index.js")]


@cache
def python_servers(folder: Path) -> Path:
    """The Python of an environment with servers of PyPI, below `folder`: their `mcp` is another than ours."""
    place = folder / "servers"
    python = place / "bin" / "python"
    _install([sys.executable, "-m", "venv", str(place)], folder, "a Python environment")
    packages = ["mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19", "mcp-server-fetch==2026.10.24"]
    _install([str(python), "-m", "pip", "install", "--quiet", *packages], folder, "the servers of PyPI")
    return python


def _install(words: Sequence[str], folder: Path, what: str) -> None:
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=INSTALL)
    if run.returncode:
        pytest.skip(f"{what} cannot be installed: {run.stderr.strip()[-200:]}")
