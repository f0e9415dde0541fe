"""One end of a stream: written and read over both links, given away, closed."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import (
    LocalProtocolError,
    MewError,
    Refused,
)
from mew_lab.sdk import reader as reader_module
from mew_lab.sdk.reader import FrameReader
from mew_lab.sdk.stream import Stream
from mew_lab.transport.memory import HIGH_WATER

from .conftest import STREAMS, Room, all_of, known, until
from .odd_gateway import Odd, entry

# --- reading and writing ---


@pytest.mark.req("P-3.10.3-1", "P-3.10.3-2", "S-L1-10")
async def test_what_is_written_to_two_streams_is_read_from_each_byte_for_byte(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    one, two = await bot.streams.request_stream(), await bot.streams.request_stream()
    readers = [(await known(other, stream.id)).read() for stream in (one, two)]
    data = [b"#stream-2#", b"\n\r\n", b"", bytes(range(256)), b"#", b"x" * 100_000]
    for piece in data:
        await one.write(piece)
        await two.write(piece[::-1])
    await one.write("grüße\n")
    await two.write_json({"ä": [1, None]})
    await one.close()
    await two.close("cancelled")
    got = [[piece async for piece in reader] for reader in readers]
    assert got[0] == [*data, "grüße\n".encode()]
    assert got[1] == [*(piece[::-1] for piece in data), '{"ä":[1,null]}\n'.encode()]


@pytest.mark.req("P-3.10.3-2")
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=300)), max_size=30))
def test_whatever_is_written_to_two_streams_is_what_is_read(pieces: list[tuple[bool, bytes]]) -> None:
    async def play() -> None:
        room = Room()
        bot, other = await room.seat("bot", STREAMS), await room.seat("other", STREAMS)
        streams = [await bot.streams.request_stream(target="other") for _ in range(2)]
        readers = [(await known(other, stream.id)).read() for stream in streams]
        for first, data in pieces:
            await streams[first].write(data)
        await bot.streams.close_all()
        for n, reader in enumerate(readers):
            assert await left_in(reader) == [data for first, data in pieces if first == n]
        for seat in room.seated:
            await seat.stop()
        room.gateway.close()

    asyncio.run(play())


@pytest.mark.req("P-3.10.3-2")
async def test_ten_thousand_frames_come_in_order_and_none_is_missing(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream(target=["other"])
    reading = asyncio.create_task(all_of(await known(other, stream.id)))
    await asyncio.sleep(0)
    for n in range(10_000):
        await stream.write(b"%d" % n)
    await stream.close()
    assert await reading == [b"%d" % n for n in range(10_000)]


@pytest.mark.req("P-3.10.1-5", "P-3.10.3-4")
async def test_two_writers_are_read_in_one_order_by_everybody(either: Room) -> None:
    bot, other, third = [await either.seat(name, STREAMS) for name in ("bot", "other", "third")]
    stream = await bot.streams.request_stream()
    await stream.grant_write("other", reason="two hands")
    theirs, seen = other.streams.active[stream.id], await known(third, stream.id)
    readers = [one.read() for one in (stream, theirs, seen)]

    async def write(to: Stream, mark: str) -> None:
        for n in range(50):
            await to.write(f"{mark}{n}")

    await asyncio.gather(write(stream, "a"), write(theirs, "b"))
    await until(lambda: all(one.frames == 100 for one in (stream, theirs, seen)))
    await stream.close()
    first, *others = [[data async for data in reader] for reader in readers]
    assert others == [first, first]  # a writer reads its own frames, too
    for mark in ("a", "b"):
        assert [one for one in first if one.startswith(mark.encode())] == [
            f"{mark}{n}".encode() for n in range(50)
        ]


@pytest.mark.req("P-3.10.1-4", "P-3.10.3-3", "P-3.10.2-4")
async def test_a_stream_with_a_target_is_known_to_all_and_read_by_the_target_alone(either: Room) -> None:
    bot, other, third = [await either.seat(name, STREAMS) for name in ("bot", "other", "third")]
    stream = await bot.streams.request_stream(target="other")
    reading = asyncio.create_task(all_of(await known(other, stream.id)))
    seen = await known(third, stream.id)
    await asyncio.sleep(0)
    await stream.write("for one")
    await stream.close()
    assert await reading == [b"for one"]
    await until(lambda: seen.closed)
    assert (seen.frames, stream.frames, third.streams.unknown_frames) == (0, 0, 0)


async def test_a_late_reader_reads_from_then_on(either: Room) -> None:
    bot = await either.seat("bot", STREAMS)
    stream = await bot.streams.request_stream()
    first = stream.read()
    await stream.write("one")
    await until(lambda: stream.frames == 1)
    second = stream.read()
    await stream.write("two")
    await stream.close()
    assert [data async for data in first] == [b"one", b"two"]
    assert [data async for data in second] == [b"two"]
    assert await all_of(stream) == [] and stream.closed == "complete"


async def test_a_slow_reader_is_told_what_it_missed_and_a_fast_one_misses_nothing(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream(target="other")
    seen = await known(other, stream.id)
    slow, fast = seen.read(limit=10_000), seen.read()
    reading = asyncio.create_task(left_in(fast))
    for n in range(500):
        await stream.write(b"%0100d" % n)
    await stream.close()
    frames = [b"%0100d" % n for n in range(500)]
    assert await reading == frames
    got = []
    with pytest.raises(MewError, match=rf"of {stream.id} fell behind and missed \d+ frames"):
        async for data in slow:
            got.append(data)
    assert got == frames[: len(got)] and 0 < len(got) < 100
    assert len(got) + slow.missed_frames == 500


async def left_in(reader: FrameReader) -> list[bytes]:
    return [data async for data in reader]


async def test_a_reader_that_is_waited_for_misses_nothing_and_holds_little(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream(target="other")
    reader = (await known(other, stream.id)).read(limit=10_000, overflow="wait")
    writing = asyncio.create_task(write_many(stream, 2000))
    most, got = 0, []
    async for data in reader:
        got.append(data)
        most = max(most, reader.held)
        await asyncio.sleep(0)
    await writing
    assert got == [b"%0100d" % n for n in range(2000)]
    assert reader.missed_frames == 0 and most < 10_000 + 200


async def write_many(stream: Stream, count: int) -> None:
    for n in range(count):
        await stream.write(b"%0100d" % n)
    await stream.close()


async def test_a_reader_that_awaits_its_own_connection_is_not_waited_for_for_ever(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "HOLD", 0.02)
    bot, other = await room.seat("bot", STREAMS), await room.seat("other", STREAMS)
    stream = await bot.streams.request_stream(target="other")
    reader = (await known(other, stream.id)).read(limit=1000, overflow="wait")
    await write_many(stream, 50)
    own = await other.streams.request_stream()  # its answer stands behind the frames
    assert own.mine
    with pytest.raises(MewError, match="missed"):
        while True:
            await anext(reader)


async def test_a_writer_feels_a_link_that_takes_no_more() -> None:
    odd = Odd()
    odd.streams = [entry("stream-1", "me")]
    async with odd.participant:
        stream, written = odd.book.active["stream-1"], 0

        async def write() -> None:
            nonlocal written
            for n in range(3 * HIGH_WATER):
                await stream.write(b"%d" % n)
                written += 1

        writing = asyncio.create_task(write())
        await until(lambda: written >= HIGH_WATER)
        for _ in range(100):
            await asyncio.sleep(0)
        assert written == HIGH_WATER
        got = [await odd.end.receive() for _ in range(3 * HIGH_WATER)]
        await writing
        assert got == [b"#stream-1#%d" % n for n in range(3 * HIGH_WATER)]


async def test_who_stops_reading_keeps_nothing_in_memory() -> None:
    odd = Odd()
    odd.streams = [entry("stream-1")]
    async with odd.participant:
        stream = odd.book.active["stream-1"]
        reader = stream.read()
        odd.end.put(b"#stream-1#x")
        await odd.told()
        assert reader.held > 0
        gone = weakref.ref(reader)
        del reader
        gc.collect()
        assert gone() is None
        odd.end.put(b"#stream-1#y")
        await odd.told()
        assert stream.frames == 2


@pytest.mark.req("P-3.10.4-3")
async def test_nothing_is_written_to_a_closed_stream(either: Room) -> None:
    bot = await either.seat("bot", STREAMS)
    stream = await bot.streams.request_stream()
    await stream.close("timeout")
    with pytest.raises(
        LocalProtocolError, match=rf"Cannot write to {stream.id} as 'bot': it is closed \(timeout\)"
    ):
        await stream.write("late")


async def test_what_cannot_be_written_is_refused_before_it_is_sent(room: Room) -> None:
    bot, other = await room.seat("bot", STREAMS), await room.seat("other", STREAMS)
    stream = await bot.streams.request_stream()
    with pytest.raises(LocalProtocolError, match=r"as 'other': only bot may\. Its owner bot can grant it"):
        await (await known(other, stream.id)).write("x")
    with pytest.raises(LocalProtocolError, match="Write less at once"):
        await stream.write(b"x" * 1024 * 1024)
    with pytest.raises(LocalProtocolError, match="no UTF-8"):
        await stream.write("\ud800")
    with pytest.raises(LocalProtocolError, match="Cannot write a int"):
        await stream.write(7)  # type: ignore[arg-type]
    for value in ({1, 2}, float("nan")):
        with pytest.raises(LocalProtocolError, match="as JSON"):
            await stream.write_json(value)
    await stream.write("the first")
    await until(lambda: stream.frames == 1)
    assert [one.code for one in room.records if one.verdict == "refused"] == []


# --- owning ---


@pytest.mark.req("P-3.10.5-1", "P-3.10.5-3", "P-3.10.6-1", "P-3.10.6-3", "P-3.10.6-9")
async def test_write_access_is_given_and_taken_and_both_twice(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream()
    seen = await known(other, stream.id)
    changed: list[tuple[str, ...]] = []
    other.streams.on_change(lambda one: changed.append(one.writers))
    for _ in range(2):
        await stream.grant_write("other", reason="Player claimed character control")
        assert stream.writers == ("bot", "other")
    await until(lambda: seen.may_write)
    await seen.write("from other")
    await until(lambda: stream.frames == 1)
    for _ in range(2):
        await stream.revoke_write("other")
        assert stream.writers == ("bot",)
    await until(lambda: not seen.may_write)
    assert changed == [("bot", "other"), ("bot",)]
    await other.client.send_stream_data(stream.id, b"all the same")
    await until(lambda: seen.refused == 1)
    assert stream.frames == 1
    assert either.sent("stream/grant-write")[0].payload["reason"] == "Player claimed character control"


@pytest.mark.req(
    "P-3.10.5-6", "P-3.10.5-7", "P-3.10.6-7", "P-3.10.6-8", "P-3.10.7-7", "P-3.10.7-8", "P-3.10.5-5"
)
async def test_what_the_gateway_refuses_an_owner_or_a_stranger_is_told_with_its_code(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream()
    seen = await known(other, stream.id)
    for deed, code in [
        (seen.grant_write("other"), "unauthorized"),
        (seen.revoke_write("bot"), "unauthorized"),
        (seen.transfer_ownership("other"), "unauthorized"),
        (seen.close(), "unauthorized"),
        (stream.grant_write("nobody"), "participant_not_found"),
        (stream.transfer_ownership("nobody"), "participant_not_found"),
        (stream.revoke_write("bot"), "invalid_operation"),
    ]:
        with pytest.raises(Refused) as caught:
            await deed
        assert caught.value.code == code
    assert (stream.writers, stream.owner, stream.closed) == (("bot",), "bot", "")
    await stream.close()
    with pytest.raises(Refused) as caught:
        await stream.grant_write("other")
    assert caught.value.code == "stream_not_found"


@pytest.mark.req("P-3.10.7-1", "P-3.10.7-2", "P-3.10.7-3", "P-3.10.7-4")
async def test_a_stream_goes_from_hand_to_hand(either: Room) -> None:
    bot, other, third = [await either.seat(name, STREAMS) for name in ("bot", "other", "third")]
    stream = await bot.streams.request_stream()
    await stream.transfer_ownership("other", reason="Permanent control delegation")
    assert (stream.owner, stream.writers, stream.mine, stream.may_write) == (
        "other",
        ("other",),
        False,
        False,
    )
    await until(lambda: stream.id in other.streams.active and other.streams.active[stream.id].mine)
    theirs = other.streams.active[stream.id]
    assert theirs.mine and theirs.may_write
    await theirs.grant_write("bot")
    await theirs.transfer_ownership("third")
    assert theirs.writers == ("third", "bot")
    await until(lambda: stream.id in third.streams.active and third.streams.active[stream.id].mine)
    last = third.streams.active[stream.id]
    await until(lambda: stream.writers == ("third", "bot"))
    await stream.write("still may")  # the grant stands
    await until(lambda: last.frames == 1)
    with pytest.raises(Refused):
        await theirs.close()
    await last.close("cancelled")
    await until(lambda: stream.closed == theirs.closed == "cancelled")
    await until(lambda: all(seat.streams.active == {} for seat in (bot, other, third)))


@pytest.mark.req("P-3.10.4-1", "P-3.10.6-5")
async def test_when_its_owner_leaves_a_stream_is_closed_and_what_came_can_be_read(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream()
    seen = await known(other, stream.id)
    closed: list[Stream] = []
    other.streams.on_close(closed.append)
    reader = seen.read()
    await stream.write("last words")
    await until(lambda: stream.frames == 1)
    await bot.stop()
    assert stream.closed == "owner_left"
    assert [data async for data in reader] == [b"last words"]
    await until(lambda: closed)
    assert closed == [seen] and seen.closed == "owner_left" and other.streams.active == {}


@pytest.mark.req("P-3.10.6-5")
async def test_a_writer_that_leaves_may_write_no_longer(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream()
    await stream.grant_write("other")
    await other.stop()
    await until(lambda: stream.writers == ("bot",))
    assert not stream.closed


@pytest.mark.req("P-3.10.4-2")
async def test_a_block_closes_its_stream_and_says_how_it_ended(room: Room) -> None:
    bot, other = await room.seat("bot", STREAMS), await room.seat("other", STREAMS)
    async with await bot.streams.request_stream() as fine:
        await fine.write("x")
    with pytest.raises(ZeroDivisionError):
        async with await bot.streams.request_stream() as wrong:
            1 / 0  # noqa: B018
    begun = asyncio.Event()

    async def write_for_ever() -> None:
        async with await bot.streams.request_stream():
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write_for_ever())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.payload["reason"] for one in room.sent("stream/close")] == ["complete", "error", "cancelled"]
    assert (fine.closed, wrong.closed) == ("complete", "error")
    kept = await bot.streams.request_stream()
    async with await known(other, kept.id):
        pass
    assert not kept.closed  # it is not the other's to close


async def test_all_streams_of_ones_own_are_closed_at_once(room: Room) -> None:
    bot, other = await room.seat("bot", STREAMS), await room.seat("other", STREAMS)
    mine = [await bot.streams.request_stream() for _ in range(3)]
    theirs = await other.streams.request_stream()
    assert await bot.streams.close_all("restart") == mine
    assert [one.closed for one in mine] == ["restart"] * 3
    assert list(bot.streams.active) == [theirs.id] and await bot.streams.close_all() == []
