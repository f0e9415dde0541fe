"""The scheduler: a step when it is due, what follows from it, its end; and how far apart the starts of discovery are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from mew_lab.sdk.scheduler import KeyedScheduler, NextStep, Pace, StartSpacing

from .conftest import Hours, until


class Steps:
    """Steps that give what a test says; None at the end."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.gives: list[NextStep | Exception | None] = []
        self.settled = 0
        self.faults: list[Exception] = []

    async def step(self, name: str, failures: int) -> NextStep | None:
        self.taken.append((name, failures))
        given = self.gives.pop(0) if self.gives else None
        if isinstance(given, Exception):
            raise given
        return given

    def settle(self) -> None:
        self.settled += 1


@pytest.fixture
def hours() -> Hours:
    return Hours()


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
async def plans(hours: Hours, steps: Steps) -> AsyncIterator[KeyedScheduler]:
    made = KeyedScheduler(steps.step, wait=hours.wait, on_settled=steps.settle, on_fault=steps.faults.append)
    yield made
    await made.close()


async def test_a_new_plan_replaces_the_old_one_and_a_dropped_one_never_happens(
    plans: KeyedScheduler, hours: Hours, steps: Steps
) -> None:
    plans.schedule("git", 3.0)
    plans.schedule("git", 6.0, settled=True)
    plans.schedule("other", 1.0)
    assert len(plans) == 2 and plans.unsettled == {"other"}
    plans.cancel("other")
    plans.cancel("nobody")
    assert plans.unsettled == set()
    await hours.go(5.0)
    assert steps.taken == []
    await hours.go(1.0)
    assert steps.taken == [("git", 0)]


async def test_a_step_that_raises_ends_its_plan_and_is_told(
    plans: KeyedScheduler, hours: Hours, steps: Steps
) -> None:
    steps.gives = [ValueError("odd")]
    plans.schedule("git", 0.0)
    await until(lambda: "git" not in plans)
    assert plans.unsettled == set() and [str(one) for one in steps.faults] == ["odd"]


async def test_closing_ends_every_task(plans: KeyedScheduler, hours: Hours) -> None:
    before = asyncio.all_tasks()
    plans.schedule("a", 1.0)
    plans.schedule("b", 2.0)
    await hours.go(0.0)
    assert len(asyncio.all_tasks()) == len(before) + 2
    await plans.close()
    assert asyncio.all_tasks() == before and len(plans) == 0 and plans.unsettled == set()


# --- the starts of discovery ---


def spread(count: int, pace: Pace) -> list[float]:
    starts = StartSpacing()
    return [starts.next(0.0, pace, waiting=n) for n in range(count)]


@pytest.mark.req("S-L1-13")
def test_the_first_starts_at_once_and_the_gaps_grow_to_the_longest() -> None:
    assert spread(5, Pace(stagger=1.0, longest=3.0)) == [0, 1, 3, 6, 9]


@pytest.mark.req("S-L1-13")
def test_ten_start_within_the_wait_of_an_agent_and_of_fifty_no_two_are_together() -> None:
    assert spread(10, Pace())[-1] < 5.0
    starts = spread(50, Pace())
    assert starts[-1] > 100 and starts[-1] - starts[-2] == pytest.approx(3.0)
    assert all(later > earlier for earlier, later in pairwise(starts))


def test_a_start_after_a_pause_is_at_once_again() -> None:
    starts, pace = StartSpacing(), Pace(stagger=1.0)
    assert [starts.next(now, pace, waiting=9) for now in (0, 0, 0, 100, 100)] == [0, 1, 3, 0, 1]


@pytest.mark.threat(9)
def test_starts_used_up_by_who_left_do_not_put_off_the_others() -> None:
    starts, pace = StartSpacing(), Pace(stagger=1.0, longest=3.0)
    for _ in range(1000):
        starts.next(0.0, pace, waiting=1000)
    assert starts.next(0.0, pace, waiting=2) == 6.0
    assert starts.next(0.0, pace, waiting=0) == 0.0


def test_by_default_the_repetitions_are_those_of_the_specification() -> None:
    assert Pace().retries == (5.0, 10.0, 15.0)
