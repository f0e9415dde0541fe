"""Ten minutes of everything: memory does not grow."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import count
from typing import NamedTuple

import httpx
import pytest

from .conftest import Serve, Served, chat, until

SECONDS = 600.0
SETTLED = 0.3  # of the time: until then rings and caches fill
PER_SECOND = 400
MEGABYTE = 1024 * 1024


class Sample(NamedTuple):
    at: float
    memory: int


def slope(samples: list[Sample]) -> float:
    """Bytes a second, by least squares."""
    at = sum(one.at for one in samples) / len(samples)
    memory = sum(one.memory for one in samples) / len(samples)
    above = sum((one.at - at) * (one.memory - memory) for one in samples)
    return above / sum((one.at - at) ** 2 for one in samples)


async def talk(served: Served, name: str) -> None:
    ear = await served.join(name)
    for n in count():
        ear.say(chat(n, size=400))
        if n % 50 == 0:  # a refusal, a frame of no stream, a message that is none
            ear.say('{"kind":"system/presence"}', "#nothing#data", "{")
        ear.texts.clear()
        ear.times.clear()
        await asyncio.sleep(3 / PER_SECOND)


async def come_and_go(served: Served, name: str) -> None:
    while True:
        ear = await served.join(name)
        await until(lambda: len(ear.texts) > 20)  # noqa: B023
        ear.transport.abort()
        await ear.gone.wait()


async def poll(served: Served, name: str) -> None:
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{served.port}", headers=served.bearer(name), trust_env=False
    ) as client:
        since = {}
        while True:
            answer = await client.get(f"/participants/{name}/messages", params={"limit": 500, **since})
            if answer.status_code == 410:
                since = {}
                continue
            since = {"since": answer.json()["next"]}
            posted = await client.post(f"/participants/{name}/messages", json=json.loads(chat(0)))
            assert posted.status_code == 200
            await asyncio.sleep(0.2)


@pytest.mark.soak
@pytest.mark.threat(9)
@pytest.mark.timeout(SECONDS + 120)
async def test_ten_minutes_leave_the_memory_as_it_was(serve: Serve) -> None:
    served = await serve("ada", "bob", "cyd", "dan", "eve")
    began, samples = time.monotonic(), list[Sample]()

    async def watch() -> None:
        while (at := time.monotonic() - began) < SECONDS:
            samples.append(Sample(at, served.memory()))
            await asyncio.sleep(SECONDS / 200)

    busy = [
        *(asyncio.create_task(talk(served, name)) for name in ("ada", "bob", "cyd")),
        asyncio.create_task(come_and_go(served, "dan")),
        asyncio.create_task(poll(served, "eve")),
    ]
    watching = asyncio.create_task(watch())
    await asyncio.wait({watching, *busy}, return_when=asyncio.FIRST_COMPLETED)
    for task in busy:
        assert not task.done() or task.result() is not None, "somebody stopped"
        task.cancel()
    await watching
    await asyncio.gather(*busy, return_exceptions=True)
    settled = [one for one in samples if one.at > SECONDS * SETTLED]
    grown = slope(settled) * SECONDS
    print(
        f"\nmemory {samples[0].memory / MEGABYTE:.0f} MiB at first, {settled[0].memory / MEGABYTE:.0f} when settled, "
        f"{settled[-1].memory / MEGABYTE:.0f} at the end: {grown / MEGABYTE:+.1f} MiB in {SECONDS / 60:g} minutes; "
        f"journal {served.journal.stat().st_size / MEGABYTE:.0f} MiB"
    )
    assert grown < 8 * MEGABYTE
