"""The streams of a real space as its participants see them, over the memory link and over WebSocket."""

from __future__ import annotations

import asyncio
import json

import pytest

from mew_lab.errors import (
    CapabilityViolation,
    ConnectionLost,
    LocalProtocolError,
    Refused,
)
from mew_lab.sdk.stream import Stream

from .conftest import STREAMS, Room, all_of, known, until
from .odd_gateway import Odd, entry

# --- asking for one ---


@pytest.mark.req("S-L2-44")
async def test_a_stream_is_on_record_from_its_open_to_its_close_with_its_last_activity(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream(description="rows")
    seen = await known(other, stream.id)
    [opened] = [one for one in either.records if one.raw and '"stream/open"' in one.raw]
    assert seen.open_envelope_id == json.loads(str(opened.raw))["id"]
    assert (seen.description, other.streams.active) == ("rows", {stream.id: seen})
    before = seen.last_activity
    assert before is not None
    await stream.write(b"one")
    await until(lambda: seen.last_activity is not None and seen.last_activity > before)
    await stream.close()
    await until(lambda: not other.streams.active and not bot.streams.active)


@pytest.mark.req("S-L2-43", "P-3.10.1-1", "P-3.10.1-2", "P-3.10.1-10", "P-3.10.1-13", "P-3.10.1-6")
async def test_a_stream_is_requested_and_everybody_knows_all_of_it(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    told: list[Stream] = []
    other.streams.on_open(told.append)
    asking = asyncio.create_task(
        bot.streams.request_stream(
            description="Large dataset export",
            content_type="application/x-rows",
            format="jsonl",
            target="other",
            expected_size_bytes=10485760,
            metadata={"compression": "gzip"},
            correlation_id="proposal-1",
            schema_version="1.0",
        )
    )
    await until(lambda: bot.streams.pending or asking.done())
    stream = await asking
    assert bot.streams.pending == {} and bot.streams.active == {stream.id: stream}
    [request], opened = either.sent("stream/request"), stream.open_envelope_id
    assert request.to == ("gateway",) and request.correlation_id == ("proposal-1",)
    assert request.payload == {
        "direction": "upload",
        "description": "Large dataset export",
        "content_type": "application/x-rows",
        "format": "jsonl",
        "target": ["other"],
        "expected_size_bytes": 10485760,
        "metadata": {"compression": "gzip"},
        "schema_version": "1.0",
    }
    seen = await known(other, stream.id)
    assert told == [seen]
    for one in (stream, seen):
        assert (one.owner, one.writers, one.target) == ("bot", ("bot",), ("other",))
        assert (one.direction, one.description) == ("upload", "Large dataset export")
        assert (one.content_type, one.format) == ("application/x-rows", "jsonl")
        assert (one.expected_size_bytes, one.metadata) == (10485760, {"compression": "gzip"})
        assert one.fields["schema_version"] == "1.0" and not one.late
        assert (one.request_id, one.open_envelope_id) == (request.id, opened) and opened
        assert one.created is not None and one.last_activity is not None
    assert stream.mine and stream.may_write and not seen.mine and not seen.may_write


@pytest.mark.req("P4-3.10.1-1", "P-3.10.1-2")
async def test_a_request_says_only_what_was_said(room: Room) -> None:
    bot = await room.seat("bot", STREAMS)
    stream = await bot.streams.request_stream("download")
    [request] = room.sent("stream/request")
    assert request.payload == {"direction": "download"} and not request.correlation_id
    assert stream.description is None and stream.metadata == {} and stream.expected_size_bytes is None


@pytest.mark.req("P-3.10.1-1")
async def test_a_direction_that_is_none_is_not_sent(room: Room) -> None:
    bot = await room.seat("bot", STREAMS)
    with pytest.raises(LocalProtocolError, match="direction 'sideways': it is 'upload' or 'download'"):
        await bot.streams.request_stream("sideways")
    assert room.sent("stream/request") == []


async def test_a_refused_request_is_told_in_the_words_of_the_gateway(either: Room) -> None:
    bot = await either.seat("bot", STREAMS)
    with pytest.raises(Refused, match="these targets are not in this space now: nobody") as caught:
        await bot.streams.request_stream(target=["nobody"])
    assert caught.value.code == "target_not_found" and bot.streams.pending == {}
    talker = await either.seat("talker", [{"kind": "chat"}])
    with pytest.raises(CapabilityViolation, match="Cannot send stream/request as 'talker'"):
        await talker.streams.request_stream()


async def test_two_requests_at_once_get_each_their_own_stream(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    streams = await asyncio.gather(
        *(
            one.streams.request_stream(description=f"{n} of {one.client.id}")
            for n in range(5)
            for one in (bot, other)
        )
    )
    assert len({one.id for one in streams}) == 10
    assert [one.description for one in streams] == [
        f"{n} of {one}" for n in range(5) for one in ("bot", "other")
    ]
    assert len(bot.streams.mine) == 5


# --- coming late, and being told ---


@pytest.mark.req("P-3.10.1-8", "P-3.8.1-5", "P-3.8.1-6", "P-3.8.1-7", "P-3.10.8-3", "P-3.10.4-4")
async def test_who_comes_late_finds_the_streams_that_are_open(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    ended = await bot.streams.request_stream()
    await ended.close()
    stream = await bot.streams.request_stream(
        "download", description="positions", format="vector3", metadata={"game": 1}, tick_ms=50
    )
    await stream.grant_write("other")
    late = either.prepare("late", STREAMS)
    told: list[Stream] = []
    late.streams.on_open(told.append)
    await late.start()
    [found] = told
    assert late.streams.active == {stream.id: found} and found.late
    assert (found.owner, found.writers) == ("bot", ("bot", "other"))
    assert (found.direction, found.description, found.format) == ("download", "positions", "vector3")
    assert (found.metadata, found.fields["tick_ms"]) == ({"game": 1}, 50)
    assert found.created == stream.created and found.open_envelope_id == ""
    reading = asyncio.create_task(all_of(found))
    await until(lambda: stream.id in other.streams.active)
    await other.streams.active[stream.id].write("1,2,3")
    await until(lambda: found.frames == 1)
    await stream.close()
    assert await reading == [b"1,2,3"] and found.closed == "complete"


async def test_who_accepts_streams_reads_each_from_its_first_frame(either: Room) -> None:
    bot, other, third = [await either.seat(name, STREAMS) for name in ("bot", "other", "third")]
    got: dict[str, list[bytes]] = {}

    async def take(stream: Stream) -> None:
        got[str(stream.description)] = await all_of(stream)

    other.streams.accept(take)
    async with await other.streams.request_stream(description="own") as stream:
        await stream.write("x")
    for description, target in [("all", ()), ("one", "other"), ("not here", "third")]:
        async with await bot.streams.request_stream(description=description, target=target) as stream:
            for n in range(3):
                await stream.write(b"%d" % n)
    await until(lambda: len(got) == 2 and not other.streams.active)
    assert got == {"all": [b"0", b"1", b"2"], "one": [b"0", b"1", b"2"]}
    assert third.streams.active == {}


async def test_who_accepts_a_stream_misses_no_frame_that_came_with_its_open() -> None:
    odd = Odd()
    got: list[list[bytes]] = []

    async def take(stream: Stream) -> None:
        got.append(await all_of(stream))

    odd.book.accept(take)
    async with odd.participant:
        for id, target in (("s1", []), ("s2", ["a logical name of mine"])):
            odd.say("stream/open", {"stream_id": id, "owner": "bot", "target": target})
            for n in range(3):
                odd.end.put(f"#{id}#{n}")
            odd.say("stream/close", {"stream_id": id}, sender="bot")
        await until(lambda: len(got) == 2)
        assert got == [[b"0", b"1", b"2"]] * 2


async def test_who_accepts_a_download_is_handed_it_when_it_may_write(room: Room) -> None:
    bot, other = await room.seat("bot", STREAMS), await room.seat("other", STREAMS)

    async def give(stream: Stream) -> None:
        await stream.write("what you wanted")

    stop = other.streams.accept(give)
    stream = await bot.streams.request_stream("download", target="bot")
    reader = stream.read()
    await stream.grant_write("other")
    assert await anext(reader) == b"what you wanted"
    await stream.revoke_write("other")
    await stream.grant_write("other")  # it was handed over before
    stop()
    await bot.streams.request_stream("download")
    await stream.close()
    assert [data async for data in reader] == []


async def test_a_handler_that_does_not_read_leaves_nothing_behind(room: Room) -> None:
    bot, other = await room.seat("bot", STREAMS), await room.seat("other", STREAMS)
    faults: list[Exception] = []
    other.client.on_error(faults.append)

    async def fails(stream: Stream) -> None:
        raise ValueError("no such format")

    other.streams.accept(fails)
    stream = await bot.streams.request_stream()
    await until(lambda: faults)
    assert "no such format" in str(faults[0])
    seen = other.streams.active[stream.id]
    await stream.write("nobody reads")
    await until(lambda: seen.frames == 1)
    reader = seen.read()
    await stream.write("x")
    assert await anext(reader) == b"x"


async def test_a_participants_own_stream_open_opens_nothing(room: Room) -> None:
    """Peers in the field send them; receivers act on the gateway's alone (R10)."""
    bot, other = await room.seat("bot", STREAMS), await room.seat("other", STREAMS)
    await bot.send_accepted({"kind": "stream/open", "payload": {"stream_id": "stream-9", "owner": "bot"}})
    stream = await bot.streams.request_stream()
    await known(other, stream.id)
    assert list(other.streams.active) == list(bot.streams.active) == [stream.id]


# --- losing the connection ---


async def test_after_a_reconnection_ones_own_streams_are_gone_and_others_go_on(room: Room) -> None:
    gate = asyncio.Event()

    async def wait(delay: float) -> None:
        await gate.wait()

    bot = await room.seat("bot", STREAMS)
    other = await room.seat("other", STREAMS, client={"wait": wait})
    theirs, mine = await bot.streams.request_stream(), await other.streams.request_stream()
    seen = await known(other, theirs.id)
    readers = [seen.read(), mine.read()]
    for stream in (theirs, mine):
        await stream.write("before")
    await until(lambda: seen.frames == mine.frames == 1)
    await room.links["other"].close(1006)
    meanwhile = await bot.streams.request_stream(description="opened meanwhile")
    await until(lambda: mine.closed)
    with pytest.raises(LocalProtocolError, match=r"it is closed \(owner_left\)"):
        await mine.write("x")
    gate.set()
    found = await known(other, meanwhile.id)
    assert mine.closed == "owner_left" and not seen.closed and found.late
    assert other.streams.active[theirs.id] is seen and mine.id not in other.streams.active
    for reader in readers:
        assert await anext(reader) == b"before"
        with pytest.raises(ConnectionLost, match="frames may be missing"):
            await anext(reader)
    again = seen.read()
    await theirs.write("after")
    assert await anext(again) == b"after"


async def test_leaving_ends_every_reader_without_a_fault(either: Room) -> None:
    bot, other = await either.seat("bot", STREAMS), await either.seat("other", STREAMS)
    stream = await bot.streams.request_stream()
    seen = await known(other, stream.id)
    reading = asyncio.create_task(all_of(seen))
    await asyncio.sleep(0)
    await other.stop()
    assert await reading == [] and seen.closed == "disconnected" and other.streams.active == {}


# --- frames ---


async def test_frames_for_no_known_stream_are_counted_and_not_kept() -> None:
    odd = Odd()
    odd.streams = [entry("stream-1")]
    async with odd.participant:
        reader = odd.book.active["stream-1"].read()
        for frame in (b"#stream-1#a", b"#stream-2#b", b"#" + b"s" * 300 + b"#c", b"#stream-1", "#stream-1#d"):
            odd.end.put(frame)
        odd.say("stream/close", {"stream_id": "stream-1"})
        odd.end.put(b"#stream-1#e")
        await odd.told()
        assert [data async for data in reader] == [b"a", b"d"]
        assert odd.book.unknown_frames == 2 and len(odd.errors) == 2  # an id of 300 is none
        assert odd.book.active == {}
