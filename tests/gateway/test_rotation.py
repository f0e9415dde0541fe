"""All messages of one turn of the loop share one slice, and many connections are no more than one."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from mew_lab.gateway.rotation import SLICE, Rotation

pytestmark = [pytest.mark.threat(9, 37), pytest.mark.ruling("R24")]


class Clock:
    """Time that passes only where it is said to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = loop.time()
        loop.time = lambda: self.now  # type: ignore[method-assign]


async def converse(
    rotation: Rotation, clock: Clock, name: str, messages: int, cost: float, log: list[str]
) -> None:
    """A connection with so many messages waiting, each of which holds the loop for `cost` seconds."""
    for _ in range(messages):
        if rotation.over:
            await rotation.wait(name)
        clock.now += cost
        rotation.spend(cost)
        log.append(name)


async def turns_of(rotation: Rotation, clock: Clock, *senders: tuple[str, int, float]) -> list[list[str]]:
    """What was handled in each turn of the loop."""
    log: list[str] = []
    found: list[list[str]] = []
    tasks = [asyncio.ensure_future(converse(rotation, clock, *one, log)) for one in senders]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        if log:
            found.append(log.copy())
            log.clear()
    return found


async def test_eight_connections_with_long_messages_have_one_of_them_handled_a_turn() -> None:
    rotation, clock = Rotation(), Clock(asyncio.get_running_loop())
    found = await turns_of(rotation, clock, *[("mallory", 3, 0.035)] * 8)
    assert max(map(len, found)) == 1 and sum(map(len, found)) == 24


async def test_who_was_served_least_recently_is_next_however_many_wait() -> None:
    rotation, clock = Rotation(), Clock(asyncio.get_running_loop())
    found = await turns_of(rotation, clock, *[("mallory", 5, 0.035)] * 8, ("victim", 5, 0.0001))
    order = [name for turn in found for name in turn]
    assert Counter(order) == {"mallory": 40, "victim": 5}
    assert order.index("victim") <= 2
    assert [name for name in order[:15] if name == "victim"] == ["victim"] * 5


async def test_short_messages_share_a_turn_and_nobody_waits_for_ever() -> None:
    rotation, clock = Rotation(), Clock(asyncio.get_running_loop())
    found = await turns_of(rotation, clock, *[(f"p{n}", 40, SLICE / 20) for n in range(7)])
    assert sum(map(len, found)) == 280
    assert max(map(len, found)) <= 22
    assert not rotation.over


async def test_who_goes_away_while_it_waits_holds_nobody_up() -> None:
    rotation, clock = Rotation(), Clock(asyncio.get_running_loop())
    assert not rotation.over
    rotation.spend(1)
    assert rotation.over
    for at in range(3):
        gone = [asyncio.ensure_future(rotation.wait(f"gone{n}")) for n in range(5)]
        for _ in range(at):
            await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        await turns_of(rotation, clock, ("victim", 3, 0.0))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not rotation.over
