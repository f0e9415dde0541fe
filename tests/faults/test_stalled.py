"""A reader that stops reading is cut and named; the others do not notice."""

from __future__ import annotations

import asyncio
import time

import pytest

from mew_lab.log.reading import read_journal

from .conftest import Ear, Serve, Served, chat, until

HEALTHY = [f"p{n}" for n in range(20)]
PER_SECOND = 500
SIZE = 4096  # characters of a text
MEGABYTE = 1024 * 1024


async def paced(ear: Ear, count: int, *, first: int = 0) -> list[float]:
    """Says so many messages at the rate; when each was said."""
    began, said = time.monotonic(), list[float]()
    while len(said) < count:
        due = min(count, int((time.monotonic() - began) * PER_SECOND) + 1)
        for n in range(len(said), due):
            ear.say(chat(first + n, sender="talker", size=SIZE))
            said.append(time.monotonic())
        await asyncio.sleep(0.002)
    return said


def arrived(ear: Ear) -> list[float]:
    """When each chat message came."""
    return [
        at for at, text in zip(ear.times, ear.texts, strict=True) if len(text) > SIZE and "talker-" in text
    ]


def p99(ears: list[Ear], said: list[float]) -> float:
    late = sorted(at - when for ear in ears for at, when in zip(arrived(ear), said, strict=True))
    return late[int(len(late) * 0.99)] * 1000


async def run(serve: Serve, count: int, *, stalled: bool) -> tuple[Served, list[Ear], float, int]:
    """Twenty listen, one talks, one perhaps stops reading: p99 of the twenty in ms, bytes that memory grew."""
    served = await serve(*HEALTHY, "talker", "stalled")
    ears = [await served.join(name) for name in HEALTHY]
    talker = await served.join("talker")
    if stalled:
        deaf = await served.join("stalled", buffer=4096)
        deaf.transport.pause_reading()
    before = served.memory()
    said = await paced(talker, count)
    await until(lambda: all(len(arrived(ear)) == count for ear in ears), within=40)
    return served, ears, p99(ears, said), served.memory("VmHWM") - before


@pytest.mark.slow
@pytest.mark.threat(9)
@pytest.mark.timeout(120)
async def test_a_stalled_reader_is_cut_and_named_and_the_others_get_everything_in_order(serve: Serve) -> None:
    count = PER_SECOND * 8
    calm, _, alone, _ = await run(serve, PER_SECOND, stalled=False)
    await calm.kill()
    served, ears, beside, grown = await run(serve, count, stalled=True)
    in_order = [f"talker-{n}" for n in range(count)]
    for ear in ears:
        assert [one["id"] for one in ear.hear("chat")] == in_order
        gone = [one["payload"]["participant"]["id"] for one in ear.hear("system/presence")][-1]
        assert gone == "stalled"
    await served.end()
    (left,) = (
        record
        for record in read_journal(served.journal)
        if (record.event, record.participant) == ("left", "stalled")
    )
    assert left.detail.startswith("slow reader: ")
    assert left.detail.endswith("bytes waited unread") or left.detail.endswith("took nothing for 10 s")
    if left.detail.endswith("bytes waited unread"):
        assert int(left.detail.split()[2]) <= 8 * MEGABYTE + 2 * SIZE
    print(
        f"\np99 of {len(HEALTHY)} healthy readers at {PER_SECOND} envelopes/s: {beside:.1f} ms beside a stalled one, "
        f"{alone:.1f} ms without (mark: at most doubled); {left.detail}; memory grew by {grown / MEGABYTE:.1f} MiB"
    )
    assert grown <= 64 * MEGABYTE
