"""Work that runs at once as a group: one that fails takes the others back, and they have ended when it is told."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

from mew_lab.sdk.group import run_all

PACKAGE = Path(__file__).resolve().parents[2] / "mew_lab"


async def test_the_results_come_in_the_order_of_the_work() -> None:
    async def work(n: int) -> int:
        for _ in range(5 - n):
            await asyncio.sleep(0)
        return n

    assert await run_all(work(n) for n in range(5)) == [0, 1, 2, 3, 4]
    assert await run_all([]) == []


async def test_a_failing_one_takes_the_others_back_and_is_raised_as_it_is() -> None:
    ended: list[str] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        await run_all([wait("a"), fail(), wait("b")])
    assert sorted(ended) == ["a", "b"]


async def test_a_cancelled_caller_takes_all_back() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(run_all([wait(), wait()]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


FUTURES = {"gateway/processes.py"}  # what is gathered there are futures that tasks of their own set


def test_the_package_gathers_only_what_cannot_fail_or_as_a_group() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_gather = isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.gather"
            if is_gather and all(word.arg != "return_exceptions" for word in node.keywords):
                found.append((path.relative_to(PACKAGE).as_posix(), ast.unparse(node)))
    bad = [
        (place, text)
        for place, text in found
        if place not in FUTURES and "self._quietly(" not in text  # which reports each fault
    ]
    assert bad == []
