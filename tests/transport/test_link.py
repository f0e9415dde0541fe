"""What every link promises, whatever carries it: one test, every wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from websockets.asyncio.server import ServerConnection, serve

from mew_lab.transport.link import Link, LinkClosed
from mew_lab.transport.memory import pair
from mew_lab.transport.websocket import WebSocketLink, connect

DEADLINE = 5.0


class Ends(NamedTuple):
    near: Link
    far: Link


@asynccontextmanager
async def memory() -> AsyncIterator[Ends]:
    yield Ends(*pair())


@asynccontextmanager
async def websocket() -> AsyncIterator[Ends]:
    arrived: asyncio.Future[WebSocketLink] = asyncio.get_running_loop().create_future()

    async def handle(socket: ServerConnection) -> None:
        arrived.set_result(WebSocketLink(socket))
        await socket.wait_closed()

    async with serve(handle, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        near = await connect(f"ws://127.0.0.1:{port}/")
        yield Ends(near, await arrived)
        await near.close()


@pytest.fixture(params=[memory, websocket], ids=["memory", "websocket"])
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[Ends]:
    async with asyncio.timeout(DEADLINE * 4), request.param() as both:
        yield both


async def test_messages_arrive_in_order_and_whole(ends: Ends) -> None:
    sent = [f"message {n}" for n in range(50)]
    for text in sent:
        await ends.near.send(text)
    assert [await ends.far.receive() for _ in sent] == sent


async def test_text_stays_text_and_bytes_stay_bytes(ends: Ends) -> None:
    for message in ("zwölf €\U0001f600", b"#stream-1#\x00\xff", "", b""):
        await ends.far.send(message)
        assert await ends.near.receive() == message


async def test_a_message_of_a_megabyte_passes(ends: Ends) -> None:
    message = "x" * (1024 * 1024)
    got, _ = await asyncio.gather(ends.far.receive(), ends.near.send(message))
    assert got == message


async def test_a_waiting_receiver_is_woken(ends: Ends) -> None:
    waiting = asyncio.ensure_future(ends.far.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    await ends.near.send("now")
    assert await waiting == "now"


async def test_what_was_sent_before_a_close_is_still_received(ends: Ends) -> None:
    await ends.near.send("last words")
    closing = asyncio.ensure_future(ends.near.close(1000, "done"))
    assert await ends.far.receive() == "last words"
    with pytest.raises(LinkClosed):
        await ends.far.receive()
    await closing


async def test_the_other_end_learns_code_and_reason_of_a_close(ends: Ends) -> None:
    closing = asyncio.ensure_future(ends.far.close(4403, "kicked by admin: spam"))
    with pytest.raises(LinkClosed) as closed:
        await ends.near.receive()
    assert (closed.value.code, closed.value.reason) == (4403, "kicked by admin: spam")
    await closing


async def test_a_waiting_receiver_learns_of_a_close(ends: Ends) -> None:
    waiting = asyncio.ensure_future(ends.near.receive())
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(ends.far.close(1012, ""))
    with pytest.raises(LinkClosed) as closed:
        await waiting
    assert closed.value.code == 1012
    await closing


async def test_neither_end_sends_after_a_close(ends: Ends) -> None:
    closing = asyncio.ensure_future(ends.near.close())
    with pytest.raises(LinkClosed):
        await ends.far.receive()
    await closing
    for end in ends:
        with pytest.raises(LinkClosed):
            await end.send("too late")


async def test_closing_twice_is_harmless_and_the_first_reason_stands(ends: Ends) -> None:
    closing = asyncio.ensure_future(ends.near.close(1000, "first"))
    with pytest.raises(LinkClosed):
        await ends.far.receive()
    await closing
    await ends.near.close(4000, "second")
    with pytest.raises(LinkClosed) as closed:
        await ends.far.receive()
    assert closed.value.reason == "first"


async def test_a_cancelled_receive_loses_no_message(ends: Ends) -> None:
    waiting = asyncio.ensure_future(ends.far.receive())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await ends.near.send("kept")
    assert await ends.far.receive() == "kept"


async def test_a_sender_waits_for_a_reader_that_does_not_read(ends: Ends) -> None:
    sent = 0

    async def send_for_ever() -> None:
        nonlocal sent
        while True:
            await ends.near.send("x" * 65536)
            sent += 1

    sending = asyncio.ensure_future(send_for_ever())
    before = -1
    while before != sent:  # until a whole tenth of a second passes without one being taken
        before = sent
        await asyncio.wait({sending}, timeout=0.1)
    assert not sending.done()
    got = await ends.far.receive()
    assert got == "x" * 65536
    for _ in range(before - 1):
        await ends.far.receive()
    assert await ends.far.receive() == "x" * 65536  # the one that was held up
    sending.cancel()
    closing = asyncio.ensure_future(ends.near.close())
    with pytest.raises(LinkClosed):
        while True:
            await ends.far.receive()
    await closing
