"""Views without a browser: `browser(view)` is a `pages.Page` that shows it, `lab` a real space with a human in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# The small seat and log are shared with the browser tests, the envelopes with those of the tests of a lab.
sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
sys.path.insert(0, str(Path(__file__).parent))

from pages import Page

from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import close_all, up


@pytest.fixture(scope="session")
def node() -> str:
    """The path of Node, 20 or later."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node on PATH: the pure parts of the front ends are not tested here")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip("v\n").split(".")[0]) < 20:
        pytest.skip(f"node {version.strip()} is on PATH, and `node --test` needs 20 or later")
    return found


@pytest.fixture
def browser() -> Iterator[Callable[[Any], Page]]:
    views: list[Any] = []

    def make(view: Any) -> Page:
        views.append(view)
        return Page(view)

    yield make
    for view in views:
        view.close()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 0.0)  # tests/lab/test_gate.py has the real one
    monkeypatch.setattr("mew_lab.lab.decisions.cards.MOST_READING", 0.0)
    yield up("demo", journal=None)
    close_all()


@pytest.fixture
def page(browser: Callable[[Any], Page], view: Any) -> Page:
    """Shows the `view` of the test module."""
    page = browser(view)
    page.appear()
    return page
