"""A gateway that is killed at any moment has written down everything that anybody received, and can be read."""

from __future__ import annotations

import asyncio
import random
import secrets

import pytest

from mew_lab.log.reading import read_journal

from .conftest import Ear, Serve, Served, chat

PEOPLE = ("ada", "bob", "cyd")
WINDOW = 50  # messages of one sender beyond those that it has heard
MOST = 400  # messages that an ear hears before the kill


async def speak(ear: Ear, name: str) -> None:
    """Keeps some messages on their way, for as long as the connection is there."""
    said = 0
    while not ear.gone.is_set():
        if said < len(ear.texts) + WINDOW:
            ear.say(*(chat(said + n, sender=name) for n in range(5)))
            said += 5
        await asyncio.sleep(0)


async def killed_at(served: Served, moment: int) -> list[Ear]:
    """Runs a load until the first ear has heard so many messages, kills; what all of them received."""
    ears = [await served.join(name) for name in PEOPLE]
    talking = [asyncio.create_task(speak(ear, name)) for ear, name in zip(ears, PEOPLE, strict=True)]
    try:
        async with asyncio.timeout(30):
            while len(ears[0].texts) < moment:  # noqa: ASYNC110  an event would come later
                await asyncio.sleep(0)
        await served.kill()
        async with asyncio.timeout(10):  # what was on its way is received still
            for ear in ears:
                await ear.gone.wait()
    finally:
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)
    return ears


def check(served: Served, ears: list[Ear]) -> None:
    reading = read_journal(served.journal)
    journaled = {record.raw for record in reading if record.raw is not None}
    assert reading.unreadable == 0  # a torn last line is no unreadable one
    for ear in ears:
        assert [text for text in ear.texts if text not in journaled] == []
    assert sum(len(ear.texts) for ear in ears) > 0


async def kills(serve: Serve, times: int, *, seed: int) -> None:
    dice = random.Random(seed)
    heard = []
    for _ in range(times):
        moment = dice.randint(1, MOST)
        served = await serve(*PEOPLE)
        ears = await killed_at(served, moment)
        check(served, ears)
        heard.append(len(ears[0].texts))
    print(f"\nseed {seed}: {times} kills, after {min(heard)} to {max(heard)} messages; nothing is missing")


@pytest.mark.threat(9)
@pytest.mark.timeout(240)
@pytest.mark.slow
async def test_what_a_peer_received_before_a_kill_stands_in_the_journal(serve: Serve) -> None:
    await kills(serve, 5, seed=secrets.randbits(32))


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_what_a_peer_received_before_any_of_200_kills_stands_in_the_journal(serve: Serve) -> None:
    await kills(serve, 200, seed=secrets.randbits(32))


async def test_a_gateway_that_was_killed_can_be_started_again_in_its_folder(serve: Serve) -> None:
    served = await serve(*PEOPLE)
    check(served, await killed_at(served, 50))
    again = await Served.start(served.folder, PEOPLE, journal="again.jsonl")
    try:
        ear = await again.join("ada")
        ear.say(chat(1))
        await ear.wait(2)
    finally:
        assert await again.end() == ""
