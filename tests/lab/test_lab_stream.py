"""A stream by code of any thread: opened, written, read, granted, transferred and closed."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from mew_lab.errors import LocalProtocolError, MewError, NoReply, Refused
from mew_lab.lab.known_names import known_names
from mew_lab.lab.lab import Lab
from mew_lab.lab.lab_stream import LabStream

from .looking import eventually, sent


@pytest.mark.parametrize("how", ["for", "async for", "on the loop", "read"])
def test_all_frames_are_read_in_order_however_it_is_written(lab: Lab, how: str) -> None:
    bot = lab.join("bot", can="agent")
    written = bot.stream(description="numbers")
    eventually(lambda: written.id in lab.me.participant.streams.active)
    taken = lab.stream(written.id)
    frames = [str(n).encode() for n in range(200)]
    for frame in frames:
        written.write(frame)
    written.close()

    async def read() -> list[bytes]:
        return [data async for data in taken]

    def blocking() -> list[bytes]:
        found = [taken.read(timeout=20) for _ in frames]
        with pytest.raises(MewError, match=r"it is closed \(complete\), and all of it was read"):
            taken.read()
        return list(found)

    got = {
        "for": lambda: list(taken),
        "async for": lambda: asyncio.run(read()),
        "on the loop": lambda: lab.loop.submit(read()).result(20),
        "read": blocking,
    }[how]()
    assert got == frames
    assert taken.closed == "complete"


def test_a_wait_that_ends_loses_no_frame(lab: Lab) -> None:
    bot = lab.join("bot", can="agent")
    written = bot.stream()
    eventually(lambda: written.id in lab.me.participant.streams.active)
    taken = lab.stream(written.id)
    with pytest.raises(NoReply, match=r"No frame of stream-1 came within 0\.1 s"):
        taken.read(timeout=0.1)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                async for _ in taken:
                    raise AssertionError("no frame was written yet")

    asyncio.run(give_up())
    for data in ("one", "two", "three"):
        written.write(data)
    assert [taken.read(timeout=20) for _ in range(3)] == [b"one", b"two", b"three"]


def test_no_frame_is_lost_to_waits_that_end_while_it_comes(lab: Lab) -> None:
    bot = lab.join("bot", can="agent")
    written = bot.stream()
    eventually(lambda: written.id in lab.me.participant.streams.active)
    taken = lab.stream(written.id)
    frames = [str(n).encode() for n in range(300)]

    async def write() -> None:
        for frame in frames:
            await written.stream.write(frame)
            await asyncio.sleep(0)
        await written.stream.close()

    async def read() -> list[bytes]:
        got: list[bytes] = []
        while not (taken.closed and len(got) == len(frames)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.0002):
                    async for data in taken:
                        got.append(data)
        return got

    writing = lab.loop.submit(write())
    assert asyncio.run(asyncio.wait_for(read(), 40)) == frames
    writing.result(20)


def test_others_write_by_a_grant_until_it_is_revoked(lab: Lab) -> None:
    bot = lab.join("bot", can="agent")
    asked = lab.stream(direction="download", description="results")
    eventually(lambda: asked.id in bot.participant.streams.active)
    theirs = bot.stream(asked.id)
    with pytest.raises(LocalProtocolError, match="only human may"):
        theirs.write("x")
    assert str(asked.grant("bot")) == "bot may write to stream-1"
    eventually(lambda: "bot" in theirs.writers)
    assert str(theirs.write("done")) == "4 bytes sent to stream-1"
    assert asked.read(timeout=20) == b"done"
    asked.revoke("bot")
    eventually(lambda: "bot" not in theirs.writers)
    with pytest.raises(Refused):
        asked.grant("nobody")


def test_a_transfer_names_the_new_owner(lab: Lab) -> None:
    bot = lab.join("bot", can="agent")
    mine = lab.stream()
    eventually(lambda: mine.id in bot.participant.streams.active)
    assert str(mine.transfer("bot")) == "bot owns stream-1 now; human is no writer of it"
    assert mine.owner == "bot" and mine.writers == ("bot",)
    with pytest.raises(LocalProtocolError, match="only bot may"):
        mine.write("x")


def test_targets_are_its_only_readers(lab: Lab) -> None:
    bot, eve = lab.join("bot", can="agent"), lab.join("eve", can="agent")
    secret = lab.stream(to="bot")
    assert secret.targets == ("bot",)
    for seat in (bot, eve):
        eventually(lambda seat=seat: secret.id in seat.participant.streams.active)
    heard, overheard = bot.stream(secret.id), eve.stream(secret.id)
    secret.write("psst")
    secret.close()
    assert list(heard) == [b"psst"]
    assert list(overheard) == []


def test_streams_are_listed_and_taken_by_the_beginning_of_their_id(lab: Lab) -> None:
    assert str(lab.streams()).endswith("no stream is open; lab.stream() opens one")
    lab.stream(description="x", to="human")
    [row] = lab.streams()
    assert (row.id, row.owner, row.direction, row.description) == ("stream-1", "human", "upload", "x")
    assert lab.stream("stre").id == "stream-1"
    with pytest.raises(MewError, match="No open stream is called 'stream-9'; open are stream-1"):
        lab.stream("stream-9")
    with pytest.raises(MewError, match="is open already"):
        lab.stream("stream-1", description="y")


def test_a_stream_that_carries_reasoning_is_told_as_the_thoughts_of_its_owner(lab: Lab) -> None:
    bot, eve = lab.join("bot", can="admin"), lab.join("eve", can="admin")
    start = bot.send("reasoning/start", {"message": "Which bed is dry?"}).id
    bot.send("stream/request", {"direction": "upload", "description": f"reasoning:{start}"})
    # Nobody else's stream carries the thoughts of bot, and no start of a sequence is known by the other id.
    eve.send("stream/request", {"direction": "upload", "description": f"reasoning:{start}"})
    bot.send("stream/request", {"direction": "upload", "description": "reasoning:gone"})
    eventually(lambda: len(list(lab.streams())) == 3)
    own = ["thoughts of bot", f"reasoning:{start}", "reasoning:gone"]
    assert [row.description for row in lab.streams()] == own
    assert [about for _, about in known_names(lab, "stream")] == [
        "of bot: thoughts of bot", f"of eve: reasoning:{start}", "of bot: reasoning:gone",
    ]  # fmt: skip
    requests = [row.what for row in lab.rows.since(0, 1000) if row.kind == "stream/request"]
    assert len(requests) == 3
    for what, purpose in zip(requests, own, strict=True):
        assert purpose in what, what


def test_a_block_closes_an_own_stream_with_how_it_ended(lab: Lab) -> None:
    with lab.stream() as first:
        first.write("a")
    with pytest.raises(ZeroDivisionError), lab.stream():
        _ = 1 / 0

    async def within() -> None:
        async with lab.stream() as third:
            third.write("b")

    asyncio.run(within())
    assert [one["payload"]["reason"] for one in sent(lab, "stream/close")] == [
        "complete",
        "error",
        "complete",
    ]
    assert str(first.close()) == "stream-1 was closed already: complete"


def test_a_reader_in_another_thread_ends_with_the_lab(lab: Lab) -> None:
    taken = lab.join("bot", can="agent").stream(direction="download")
    ended = threading.Event()

    def read() -> None:
        try:
            list(taken)
        except MewError:
            pass
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    lab.down()
    assert ended.wait(20)


def test_for_on_the_loop_names_async_for(lab: Lab) -> None:
    taken: LabStream = lab.stream()

    async def inside() -> None:
        for _ in taken:
            pass

    with pytest.raises(MewError, match="write `async for` here"):
        lab.loop.submit(inside()).result(20)
