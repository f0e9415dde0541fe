"""Servers and clients of the field for tests: each package of npm, or of PyPI, is installed alone, once in a run.

The environment variable MEW_LAB_SERVERS names a folder that keeps them for the next run.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

NPM = {
    "@brave/brave-search-mcp-server": "2.1.4",
    "@eslint/mcp": "0.3.13",
    "@modelcontextprotocol/server-basic-vanillajs": "2.0.3",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "@modelcontextprotocol/server-pdf": "2.0.4",
    "@modelcontextprotocol/server-sequential-thinking": "2026.8.31",
    "@modelcontextprotocol/server-system-monitor": "2.0.3",
    "@modelcontextprotocol/server-video-resource": "2.0.3",
    "@notionhq/notion-mcp-server": "2.5.2",
    "@playwright/mcp": "0.0.83",
    "@softeria/ms-365-mcp-server": "0.155.0",
    "@upstash/context7-mcp": "4.1.1",
    "@zereight/mcp-gitlab": "2.1.64",
    "chrome-devtools-mcp": "1.11.0",
    "mcp-server-kubernetes": "4.1.7",
    "mongodb-mcp-server": "3.0.4",
    "tavily-mcp": "0.2.22",
}
PYPI = {
    "excel-mcp-server": "2.2.2",
    "markitdown-mcp": "0.0.1a8",
    "mcp-server-fetch": "2026.10.24",
    "mcp-server-git": "2026.10.19",
    "mcp-server-time": "2026.10.19",
}
INSTALL = 600.0  # seconds


@cache
def _folder() -> Path:
    named = os.environ.get("MEW_LAB_SERVERS")
    folder = Path(named) if named else Path(tempfile.mkdtemp(prefix="mew_lab-servers-"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def npm_server(package: str) -> list[str]:
    """The command of a server of npm."""
    node = shutil.which("node")
    if node is None:
        pytest.skip(f"no node on PATH: {package} cannot run")
    root = npm_package(f"{package}@{NPM[package]}") / package
    programs = json.loads((root / "package.json").read_text())["bin"]
    return [node, str(root / (programs if isinstance(programs, str) else next(iter(programs.values()))))]


def npm_package(exact: str, *, scripts: bool = False) -> Path:
    """The folder `node_modules` with this package in it; with `scripts`, those of its installation have run."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"no npm on PATH: {exact} is not installed")
    options = ["--no-audit", "--no-fund", "--silent"]
    commands = [[npm, "install", "--ignore-scripts", *options, exact]]
    return (
        _installed(exact, [*commands, [npm, "rebuild", "--silent"]] if scripts else commands) / "node_modules"
    )


@cache
def python_server(package: str) -> list[str]:
    """The command of a server of PyPI, in an environment of its own: its `mcp` is another than ours."""
    return [str(python_package(f"{package}=={PYPI[package]}") / package)]


def python_package(exact: str, *more: str) -> Path:
    """The folder of programs of an environment that has this package, `python` among them; `more` are requirements
    that the package leaves open."""
    python = str(Path("environment", "bin", "python"))
    commands = [
        [sys.executable, "-m", "venv", "environment"],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", exact, *more],
    ]
    return _installed(exact, commands) / "environment" / "bin"


def command_of(package: str) -> list[str]:
    """The command of a server of either."""
    return npm_server(package) if package in NPM else python_server(package)


def _installed(exact: str, commands: Sequence[Sequence[str]]) -> Path:
    """The folder of a package. What did not come whole is fetched again."""
    place = _folder() / exact.replace("/", "+")
    with (_folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / ".whole").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            for words in commands:
                _run(words, place, exact)
            (place / ".whole").touch()
    return place


def _run(words: Sequence[str], place: Path, what: str) -> None:
    try:
        run = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=INSTALL)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} did not come within {INSTALL:g} s")
    if run.returncode:
        pytest.skip(f"{what} cannot be installed: {run.stderr.strip()[-200:]}")
