"""The memory link beyond the contract: what the gateway's end needs."""

from __future__ import annotations

import asyncio

import pytest

from mew_lab.transport.link import LinkClosed
from mew_lab.transport.memory import HIGH_WATER, pair


async def test_putting_needs_no_task_and_never_waits() -> None:
    near, far = pair()
    before = asyncio.all_tasks()
    for n in range(HIGH_WATER * 3):
        near.put(str(n))
    assert asyncio.all_tasks() == before
    assert [await far.receive() for _ in range(HIGH_WATER * 3)] == [str(n) for n in range(HIGH_WATER * 3)]


async def test_unread_counts_what_the_other_end_has_not_taken() -> None:
    near, far = pair()
    near.put("four")
    near.put(b"sixsix")
    assert (near.unread, far.unread) == (10, 0)
    await far.receive()
    assert near.unread == 6


async def test_shutting_with_drop_throws_away_what_is_unread() -> None:
    near, far = pair()
    near.put("never seen")
    near.shut(4403, "kicked", drop=True)
    assert near.unread == 0
    with pytest.raises(LinkClosed) as closed:
        await far.receive()
    assert closed.value.code == 4403


async def test_putting_after_a_close_says_how_it_was_closed() -> None:
    near, far = pair()
    far.shut(1000, "bye")
    with pytest.raises(LinkClosed) as closed:
        near.put("x")
    assert closed.value.reason == "bye"


async def test_a_sender_that_waits_is_released_by_a_close() -> None:
    near, far = pair()
    for _ in range(HIGH_WATER):
        near.put("x")
    sending = asyncio.ensure_future(near.send("x"))
    await asyncio.sleep(0)
    assert not sending.done()
    far.shut(1000, "")
    with pytest.raises(LinkClosed):
        await sending


async def test_one_cancelled_sender_takes_no_other_along() -> None:
    near, far = pair()
    for _ in range(HIGH_WATER):
        near.put("x")
    first, second = (asyncio.ensure_future(near.send(text)) for text in ("first", "second"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    got = [await far.receive() for _ in range(HIGH_WATER)]
    await second
    assert got == ["x"] * HIGH_WATER
    assert await far.receive() == "second"


async def test_a_second_receiver_is_told_so() -> None:
    near, far = pair()
    waiting = asyncio.ensure_future(far.receive())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another task"):
        await far.receive()
    near.put("x")
    assert await waiting == "x"
