"""Labs for tests: each in a folder of its own, all of them down afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import close_all, up


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEW_LAB_DECIDE", raising=False)
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 0.0)  # test_gate.py has the real one
    monkeypatch.setattr("mew_lab.lab.decisions.cards.MOST_READING", 0.0)
    yield
    close_all()


@pytest.fixture
def lab() -> Lab:
    return up()


@pytest.fixture
def adding(lab: Lab) -> Callable[[int, int], Any]:
    """A tool `notebook/add` in the lab's space."""

    @lab.tool
    def add(a: int, b: int) -> int:
        "Sum of two numbers."
        return a + b

    return add  # type: ignore[no-any-return]
