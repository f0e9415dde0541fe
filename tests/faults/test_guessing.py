"""Thousands of wrong tokens: each refused, and who has a right one notices nothing."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable

import pytest

from ..conftest import examples
from .conftest import UPGRADE, Ear, Serve, Served, chat, masked

GUESSES = 10_000  # in the second tier
AT_ONCE = 40
PACE = 0.004  # seconds between two messages: within what one participant may say
MEGABYTE = 1024 * 1024


async def by_http(port: int, guess: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET /participants HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {guess}\r\n\r\n".encode()
    )
    answer = await reader.read(-1)
    writer.close()
    return answer.split(b" ", 2)[1]


async def by_header(port: int, guess: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = UPGRADE.format(port=port).removesuffix("\r\n")
    writer.write(f"{head}Authorization: Bearer {guess}\r\n\r\n".encode())
    answer = await reader.read(-1)
    writer.close()
    return answer.split(b" ", 2)[1]


async def by_join_frame(port: int, guess: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    join = json.dumps({"type": "join", "token": guess}).encode()
    writer.write(UPGRADE.format(port=port).encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.write(masked(0x81, join))
    frame = await reader.read(125)
    writer.close()
    return str(int.from_bytes(frame[2:4])).encode()  # the code of a close frame


WAYS = {by_http: b"403", by_header: b"401", by_join_frame: b"4401"}


async def guess(port: int, count: int) -> None:
    """So many wrong tokens, some at a time, in every way; fails when one of them is not refused."""
    left = iter(range(count))

    async def one_after_another() -> None:
        for n in left:
            way, refusal = list(WAYS.items())[n % len(WAYS)]
            assert await way(port, secrets.token_urlsafe(32)) == refusal

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_after_another())


async def talk(ada: Ear, bob: Ear, *, enough: Callable[[], bool]) -> list[float]:
    """Each message is said when the one before was heard; how long each took, in ms."""
    took: list[float] = []
    while not enough():
        heard = len(bob.texts)
        began = time.monotonic()
        ada.say(chat(heard, sender="ada"))
        while len(bob.texts) == heard:
            bob.heard.clear()
            await bob.heard.wait()
        took.append((bob.times[heard] - began) * 1000)
        await asyncio.sleep(PACE)
    return took


def p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]


async def run(served: Served, count: int) -> None:
    ada, bob = await served.join("ada"), await served.join("bob")
    calm_until = time.monotonic() + 2
    calm = await talk(ada, bob, enough=lambda: time.monotonic() > calm_until)
    await guess(served.port, 300)  # what is made once is made now
    before = served.memory()
    guessing = asyncio.create_task(guess(served.port, count))
    beside = await talk(ada, bob, enough=guessing.done)
    await guessing
    grown = served.memory() - before
    said = [one["payload"]["n"] for one in bob.hear("chat")]
    assert len(said) == len(calm) + len(beside) and said == sorted(said)
    assert ada.hear("system/presence")[-1]["payload"]["participant"]["id"] == "bob"  # and nobody after
    print(
        f"\np99 of a message: {p99(beside):.1f} ms beside {count} wrong tokens, {p99(calm):.1f} ms without "
        f"({p99(beside) / p99(calm):.1f} ×; both share this machine with the guesser); "
        f"memory grew by {grown / MEGABYTE:.1f} MiB"
    )
    assert grown <= 16 * MEGABYTE


def assert_only_counts(said: list[str]) -> None:
    """What a gateway said is how many wrong tokens came, at most once in ten seconds, and nothing of them."""
    counts = [
        re.fullmatch(r"WARNING \S+: refused since the last such line, .*: (\d+)", line) for line in said
    ]
    assert said and None not in counts, said


@pytest.mark.slow
@pytest.mark.drawn
@pytest.mark.threat(26)
@pytest.mark.timeout(180)
async def test_thousands_of_wrong_tokens_are_refused_and_others_talk_on(serve: Serve) -> None:
    served = await serve("ada", "bob")
    await run(served, examples(GUESSES))
    assert_only_counts((await served.end()).splitlines())
