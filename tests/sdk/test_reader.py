"""What a reader has not read: in order, bounded, and never with a gap that nobody is told of."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import ConnectionLost, LocalProtocolError, MewError
from mew_lab.sdk.reader import FRAME_COST, FrameReader, Overflow, wait_for_room


async def rest(reader: FrameReader) -> list[bytes]:
    return [data async for data in reader]


async def test_a_reader_that_fell_behind_is_told_at_the_very_place_how_much_it_missed() -> None:
    reader = FrameReader("stream-1", limit=2 * (10 + FRAME_COST))
    for n in range(5):
        assert not reader.put(b"%010d" % n)
    assert await anext(reader) == b"%010d" % 0
    reader.put(b"behind it!")  # it would fit, and yet it comes after the gap
    assert await anext(reader) == b"%010d" % 1
    with pytest.raises(
        MewError, match=r"reader of stream-1 .* missed 4 frames \(40 bytes\): it holds at most"
    ):
        await anext(reader)
    reader.put(b"after the gap")
    assert await anext(reader) == b"after the gap"
    assert (reader.missed_frames, reader.missed_bytes) == (4, 40)


async def test_a_frame_larger_than_the_limit_is_taken_where_nothing_else_waits() -> None:
    for overflow in ("raise", "drop_oldest"):
        reader = FrameReader("stream-1", limit=10, overflow=overflow)  # type: ignore[arg-type]
        reader.put(b"x" * 100)
        assert await anext(reader) == b"x" * 100


async def test_frames_without_data_are_not_free() -> None:
    reader = FrameReader("stream-1", limit=10 * FRAME_COST)
    for _ in range(1000):
        reader.put(b"")
    assert reader.held == 10 * FRAME_COST and reader.missed_frames == 990


async def test_a_reader_that_wants_to_be_waited_for_misses_nothing_and_says_when_it_has_room() -> None:
    reader = FrameReader("stream-1", limit=4 * FRAME_COST, overflow="wait")
    full = [reader.put(b"") for _ in range(5)]
    assert full == [False] * 4 + [True]
    waiting = asyncio.create_task(wait_for_room([reader]))
    for _ in range(2):
        await anext(reader)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    await anext(reader)
    await waiting
    assert reader.missed_frames == 0 and not reader.put(b"")


async def test_a_reader_that_is_waited_for_too_long_falls_behind_like_any_other() -> None:
    reader = FrameReader("stream-1", limit=4 * FRAME_COST, overflow="wait")
    while not reader.put(b"x"):
        pass
    await wait_for_room([reader], within=0.01)
    assert not reader.put(b"missed")
    with contextlib.suppress(MewError):
        while True:
            assert await anext(reader) == b"x"
    assert (reader.missed_frames, reader.missed_bytes) == (1, 6)
    while not reader.put(b"y"):  # it caught up: it is waited for again
        pass
    assert reader.missed_frames == 1


async def test_an_error_of_the_connection_comes_behind_the_last_frame_once() -> None:
    reader = FrameReader("stream-1")
    reader.put(b"one")
    reader.end(ConnectionLost("the link broke"))
    assert await anext(reader) == b"one"
    with pytest.raises(ConnectionLost, match="the link broke"):
        await anext(reader)
    assert await rest(reader) == []


async def test_a_closed_reader_holds_nothing_and_ends() -> None:
    async with FrameReader("stream-1", limit=100, overflow="wait") as reader:
        while not reader.put(b"x" * 50):
            pass
        waiting = asyncio.create_task(wait_for_room([reader]))
        await asyncio.sleep(0)
    await waiting
    assert reader.held == 0 and await rest(reader) == []


@pytest.mark.parametrize(("limit", "overflow"), [(0, "raise"), (-1, "wait"), (10, "forget")])
def test_a_way_to_read_that_is_none_is_refused(limit: int, overflow: Overflow) -> None:
    with pytest.raises(LocalProtocolError, match=f"limit={limit}, overflow='{overflow}'.* 'drop_oldest' or"):
        FrameReader("stream-1", limit=limit, overflow=overflow)


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.none()), max_size=60),
    st.integers(1, 1000),
    st.sampled_from(["raise", "drop_oldest"]),
)
def test_what_comes_out_and_what_is_told_as_missed_is_all_that_was_put_in(
    steps: list[bytes | None], limit: int, overflow: Overflow
) -> None:
    """None is a read, anything else a frame: no frame comes twice, none is reordered, none is lost unsaid."""

    async def play() -> None:
        reader = FrameReader("stream-1", limit=limit, overflow=overflow)
        put: list[bytes] = []
        got: list[bytes] = []
        for step in steps:
            if step is not None:
                put.append(b"%d:" % len(put) + step)
                reader.put(put[-1])
                assert reader.held <= max(limit, *(len(one) + FRAME_COST for one in put), 0)
            elif reader.held:
                got.append(await anext(reader))
        reader.end()
        while len(got) + reader.missed_frames < len(put) or reader.held:
            with contextlib.suppress(MewError):
                got.append(await anext(reader))
        left = iter(put)
        assert all(one in left for one in got)  # a subsequence: in order, none twice
        assert len(put) - len(got) == reader.missed_frames
        assert sum(map(len, put)) - sum(map(len, got)) == reader.missed_bytes

    asyncio.run(play())
