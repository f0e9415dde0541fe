"""Everything that happens together is written together, and before anybody sleeps."""

from __future__ import annotations

import asyncio

import pytest

from mew_lab.gateway.coalescer import WriteCoalescer

from .fakes import turn


class Told:
    """A writer that counts."""

    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


async def at_once() -> str:
    return "at once"


async def test_writers_are_flushed_together_at_the_end_of_the_turn() -> None:
    burst, writers = WriteCoalescer(), [Told(), Told()]
    for writer in writers:
        burst.add(writer)
    assert [writer.flushed for writer in writers] == [0, 0]
    await turn()
    assert [writer.flushed for writer in writers] == [1, 1]
    await turn()
    assert [writer.flushed for writer in writers] == [1, 1]


async def test_while_a_batch_is_handled_nothing_is_written() -> None:
    burst, writer = WriteCoalescer(), Told()
    burst.hold()
    burst.add(writer)
    assert await burst.before_waiting(at_once()) == "at once"
    assert writer.flushed == 0
    burst.flush()
    assert writer.flushed == 1


async def test_before_the_loop_sleeps_everything_is_written() -> None:
    burst, writer = WriteCoalescer(), Told()
    later: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def coming() -> str:
        return f"{await later} and {await turn()}"

    waiting = asyncio.ensure_future(_awaited(burst, coming(), writer))
    await turn()
    assert writer.flushed == 1
    later.set_result("later")
    assert await waiting == "later and None"
    burst.add(writer)  # the batch is over: a turn is enough again
    await turn()
    assert writer.flushed == 2


async def _awaited(burst: WriteCoalescer, coming: object, writer: Told) -> object:
    burst.hold()
    burst.add(writer)
    return await burst.before_waiting(coming)  # type: ignore[arg-type]


async def test_a_cancelled_wait_reaches_what_was_waited_for() -> None:
    burst = WriteCoalescer()
    cleaned: list[str] = []

    async def coming() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append("yes")

    waiting = asyncio.ensure_future(_awaited(burst, coming(), Told()))
    await turn()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert cleaned == ["yes"]


async def test_a_fault_before_or_after_waiting_comes_through_and_everything_is_written() -> None:
    burst = WriteCoalescer()

    async def fails(turns: int) -> None:
        for _ in range(turns):
            await turn()
        raise ValueError("fault")

    for turns in (0, 2):
        writer = Told()
        with pytest.raises(ValueError, match="fault"):
            await _awaited(burst, fails(turns), writer)
        assert writer.flushed == 1
