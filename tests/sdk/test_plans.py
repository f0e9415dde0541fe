"""Plans: a step when it is due, what follows from it, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mew_lab.sdk.plans import Next, Plans

from .conftest import Hours, until


class Steps:
    """Steps that give what a test says; None at the end."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.gives: list[Next | Exception | None] = []
        self.settled = 0
        self.faults: list[Exception] = []

    async def step(self, name: str, failures: int) -> Next | None:
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
async def plans(hours: Hours, steps: Steps) -> AsyncIterator[Plans]:
    made = Plans(steps.step, wait=hours.wait, on_settled=steps.settle, on_fault=steps.faults.append)
    yield made
    await made.close()


async def test_a_step_is_taken_when_it_is_due_and_the_next_after_that(
    plans: Plans, hours: Hours, steps: Steps
) -> None:
    steps.gives = [Next(5.0, 1, settled=False), Next(300.0)]
    plans.make("git", 3.0)
    await hours.go(2.9)
    assert steps.taken == [] and plans.unsettled == {"git"}
    await hours.go(0.1)
    assert steps.taken == [("git", 0)] and plans.unsettled == {"git"}
    await hours.go(5.0)
    assert steps.taken == [("git", 0), ("git", 1)] and plans.unsettled == set()
    assert "git" in plans and steps.settled == 1
    await hours.go(300.0)
    assert steps.taken[2:] == [("git", 0)] and "git" not in plans


async def test_a_new_plan_replaces_the_old_one_and_a_dropped_one_never_happens(
    plans: Plans, hours: Hours, steps: Steps
) -> None:
    plans.make("git", 3.0)
    plans.make("git", 6.0, settled=True)
    plans.make("other", 1.0)
    assert len(plans) == 2 and plans.unsettled == {"other"}
    plans.drop("other")
    plans.drop("nobody")
    assert plans.unsettled == set()
    await hours.go(5.0)
    assert steps.taken == []
    await hours.go(1.0)
    assert steps.taken == [("git", 0)]


async def test_a_step_that_raises_ends_its_plan_and_is_told(plans: Plans, hours: Hours, steps: Steps) -> None:
    steps.gives = [ValueError("odd")]
    plans.make("git", 0.0)
    await until(lambda: "git" not in plans)
    assert plans.unsettled == set() and [str(one) for one in steps.faults] == ["odd"]


async def test_closing_ends_every_task(plans: Plans, hours: Hours) -> None:
    before = asyncio.all_tasks()
    plans.make("a", 1.0)
    plans.make("b", 2.0)
    await hours.go(0.0)
    assert len(asyncio.all_tasks()) == len(before) + 2
    await plans.close()
    assert asyncio.all_tasks() == before and len(plans) == 0 and plans.unsettled == set()
