"""Options and markers that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the effects of tests/conversations anew")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of specifications and captures, where there is one."""
    place = os.environ.get("MEW_LAB_SHARED")
    if not place:
        if os.environ.get("CI"):
            pytest.fail("MEW_LAB_SHARED is not set")
        pytest.skip("MEW_LAB_SHARED names no folder of specifications and captures")
    return Path(place)
