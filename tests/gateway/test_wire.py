"""The one use of the server library's inside: a canary, what it does, and that all goes well without it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mew_lab.gateway import delivery
from mew_lab.gateway import wire as wire_module
from mew_lab.gateway.coalescer import WriteCoalescer
from mew_lab.gateway.delivery import DeliveryQueue
from mew_lab.gateway.wire import wire_of

from .conftest import CHAT, House, closed_with, take, until
from .fakes import FakeProtocol, FakeServer, turn


@pytest.fixture
async def protocol() -> FakeProtocol:
    return FakeProtocol()


async def test_canary_the_servers_inside_is_as_expected(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When this fails, mew_lab.gateway.wire needs a look; everything else must still pass, only slower."""
    wires: list[object] = []
    known = delivery.wire_of

    def looked_up(send: Any) -> Any:
        wires.append(known(send))
        return wires[-1]

    monkeypatch.setattr(delivery, "wire_of", looked_up)
    anna = await house.join("anna")
    await anna.send(json.dumps(CHAT))
    await take(anna)
    assert len(wires) == 1
    assert wires[0] is not None


async def test_without_the_servers_inside_everything_is_delivered_all_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "wire_of", lambda send: None)
    anna, bert = await house.join("anna"), await house.join("bert")
    for n in range(50):
        await bert.send(json.dumps({"kind": "chat", "payload": {"text": str(n)}}))
    assert [(await take(anna, "chat"))["payload"]["text"] for _ in range(50)] == [str(n) for n in range(50)]
    await house.server.stop()
    assert (await closed_with(anna))[0] == 1012


class Pong:
    def __init__(self, data: bytes) -> None:
        self.data = data


async def test_a_ping_that_is_answered_shows_life(protocol: FakeProtocol) -> None:
    heard: list[Any] = []
    protocol.handle_pong = heard.append  # type: ignore[method-assign]
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    asking = asyncio.ensure_future(outbox.alive(10))
    await turn()
    ping = protocol.transport.writes[0]
    assert ping[:2] == b"\x89\x08"
    stranger, answer = Pong(b"12345678"), Pong(ping[2:])
    protocol.handle_pong(stranger)
    await turn()
    assert not asking.done()
    protocol.handle_pong(answer)
    assert await asking
    assert heard == [stranger, answer]  # the library still hears every pong


async def test_a_ping_without_an_answer_and_a_closing_socket_show_none(protocol: FakeProtocol) -> None:
    outbox = DeliveryQueue(protocol.send, coalescer=WriteCoalescer())
    assert not await outbox.alive(0.01)
    protocol.transport.closing = True
    assert not await outbox.alive(10)


async def test_an_inside_that_lacks_something_is_not_used() -> None:
    protocol = FakeProtocol()
    assert wire_of(protocol.send) is not None
    protocol.transport.closing = True
    assert wire_of(protocol.send) is None
    assert wire_of(FakeServer().send) is None
    assert wire_of(lambda message: None) is None


@pytest.mark.ruling("R23")
async def test_no_answer_is_overdue_while_nothing_is_read_and_its_time_begins_when_reading_does(
    protocol: FakeProtocol,
) -> None:
    wire = wire_of(protocol.send)
    wire.pause(0.3)
    assert not protocol.transport.reading
    protocol.keepalive_timeout()  # as the library's timer calls it
    asking = asyncio.ensure_future(wire.ping(0.1))
    await asyncio.sleep(0.25)
    assert not asking.done()
    assert protocol.overdue == 0
    wire.resume()
    assert protocol.transport.reading
    protocol.keepalive_timeout()
    assert protocol.overdue == 0  # it has the whole time again
    assert not await asking
    await until(lambda: protocol.overdue >= 1)


@pytest.mark.ruling("R23")
async def test_a_pause_that_is_made_longer_and_longer_ends_all_the_same(
    protocol: FakeProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_module, "UNREAD", 0.2)
    wire = wire_of(protocol.send)
    ended = asyncio.get_running_loop().time() + 0.2
    while not protocol.transport.reading or asyncio.get_running_loop().time() < ended - 0.1:
        wire.pause(0.1)
        await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() < ended + 5


async def test_who_reads_again_does_not_read_for_a_library_that_waits(protocol: FakeProtocol) -> None:
    wire = wire_of(protocol.send)
    protocol.read_paused = True
    wire.pause(10)
    wire.resume()
    assert not protocol.transport.reading
