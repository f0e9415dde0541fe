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


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker a core, at most four; none where modules or tests are named, which are a few, or output is wanted."""
    named = any(".py" in argument for argument in config.args)
    return 0 if named or config.option.capture == "no" else min(4, len(os.sched_getaffinity(0)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Who works beside others begins with what takes longest: the run that measures branches, then the browser's files."""
    if hasattr(config, "workerinput"):
        first = ("tests/test_coverage.py::", "tests/browser/")
        places = {start: place for place, start in enumerate(first)}
        items.sort(
            key=lambda item: next((n for start, n in places.items() if item.nodeid.startswith(start)), 2)
        )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where all is one process, the run that measures branches begins first: it takes a core that the tests leave idle."""
    runs = [item.module.Run for item in session.items if item.nodeid.startswith("tests/test_coverage.py::")]  # type: ignore[attr-defined]
    alone = not hasattr(session.config, "workerinput")
    if runs and alone and not session.config.option.collectonly:
        runs[0].begin()
        session.config.add_cleanup(runs[0].end)
