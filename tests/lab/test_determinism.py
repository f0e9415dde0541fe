"""A seed makes lessons the same every time; without one nothing repeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mew_lab.lab.determinism import source


def test_a_seed_gives_the_same_times_and_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEW_LAB_SEED", "7")
    first, again, other = source("bot"), source("bot"), source("git")
    assert [first.new_id(), first.new_id()] == [again.new_id(), again.new_id()]
    assert first.new_epoch() == again.new_epoch() != other.new_epoch()
    assert other.new_id() != source("bot").new_id()
    times = [first.clock() for _ in range(3)]
    assert times == [again.clock() for _ in range(3)]
    assert times[2] - times[0] == timedelta(milliseconds=2)


def test_without_a_seed_nothing_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEW_LAB_SEED", raising=False)
    one = source("bot")
    assert one.new_id() != one.new_id() and one.new_epoch() != source("bot").new_epoch()
    assert abs(one.clock() - datetime.now(UTC)) < timedelta(minutes=1)
