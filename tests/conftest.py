"""Options and markers that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the effects of tests/conversations anew")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of specifications and captures, where MEW_LAB_SHARED names one; `.ci/run` does when there is one."""
    place = os.environ.get("MEW_LAB_SHARED")
    if not place:
        pytest.skip("MEW_LAB_SHARED names no folder of specifications and captures")
    if not (Path(place) / "captures").is_dir():
        pytest.fail(f"MEW_LAB_SHARED is {place}, which has no captures", pytrace=False)
    return Path(place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """The run that measures branches takes more than a minute on a core that the tests leave idle: it begins first."""
    runs = [item.module.Run for item in session.items if item.nodeid.startswith("tests/test_coverage.py::")]  # type: ignore[attr-defined]
    if runs and not session.config.option.collectonly:
        runs[0].begin()
        session.config.add_cleanup(runs[0].end)
