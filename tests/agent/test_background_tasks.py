"""Background tasks of one agent: counted, ended together, their faults told."""

from __future__ import annotations

import asyncio

from mew_lab.agent.agent import BackgroundTasks

from .conftest import until


async def test_what_a_task_raises_is_told_and_it_is_counted_no_more() -> None:
    faults: list[Exception] = []
    tasks = BackgroundTasks(report=faults.append)

    async def fails() -> None:
        raise ValueError("x")

    tasks.begin(fails())
    assert len(tasks) == 1
    await until(lambda: not tasks)
    assert [str(fault) for fault in faults] == ["x"]


async def test_all_end_together_but_the_one_that_ends_them() -> None:
    tasks = BackgroundTasks(report=lambda fault: None)
    ended = asyncio.Event()

    async def ends() -> None:
        await tasks.end(within=5)
        ended.set()

    for _ in range(3):
        tasks.begin(asyncio.sleep(3600))
    tasks.begin(ends())
    await asyncio.wait_for(ended.wait(), 5)
    await until(lambda: not tasks)


async def test_a_task_that_does_not_end_is_not_waited_for_without_end() -> None:
    tasks = BackgroundTasks(report=lambda fault: None)
    go = asyncio.Event()

    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    tasks.begin(stubborn())
    await asyncio.sleep(0)
    await tasks.end(within=0.01)
    assert len(tasks) == 1
    go.set()
    await until(lambda: not tasks)
