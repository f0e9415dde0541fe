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
    """Who works beside others begins with what takes longest: the browser's files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith("tests/browser/"))
