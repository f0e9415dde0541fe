"""One port: who keeps a place, who makes room, and what is told about it."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from mew_lab.errors import ConfigError
from mew_lab.transport import listener as module
from mew_lab.transport.listener import AcceptedConnection, LimitedLog, Listener

pytestmark = pytest.mark.threat(48)

Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Noting(asyncio.Protocol):
    """Admits a connection that says `admit`; answers `answer`, and `refuse` as what has no right."""

    def __init__(self, connection: AcceptedConnection) -> None:
        self.connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if b"admit" in data:
            self.connection.handle()
            self.connection.admit(data.partition(b"owner=")[2] or None)
        if b"answer" in data:
            self.connection.answer()
        if b"refuse" in data:
            self.connection.answer(refused=True)
        self.transport.write(b"done")

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.lose()


class Port:
    """A listener and its clients."""

    def __init__(self, **limits: float) -> None:
        self.listener = Listener("127.0.0.1", 0, **limits)  # type: ignore[arg-type]
        self.connections: list[AcceptedConnection] = []
        self.made: list[Noting] = []
        self.listener.start(self.make_protocol)
        self.writers: list[asyncio.StreamWriter] = []

    def make_protocol(self, connection: AcceptedConnection) -> Noting:
        self.connections.append(connection)
        self.made.append(Noting(connection))
        return self.made[-1]

    async def open(self, *words: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        self.writers.append(writer)
        for word in words or (b"hello",):
            writer.write(word)
            assert await reader.readexactly(4) == b"done"
        return reader


@pytest.fixture
async def ports() -> AsyncIterator[list[Port]]:
    made: list[Port] = []
    async with asyncio.timeout(30):
        yield made
    for port in made:
        port.listener.close()
        port.listener.hang_up()
        await port.listener.wait_closed()
        for writer in port.writers:
            writer.close()


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def test_a_stranger_has_its_time_and_an_admitted_connection_has_no_end(ports: list[Port]) -> None:
    port = Port(patience=0.1)
    ports.append(port)
    admitted, stranger = await port.open(b"admit"), await port.open()
    assert await ended(stranger)
    assert not admitted.at_eof()
    waiting = await port.open(b"admit", b"answer")
    assert await ended(waiting)
    assert not admitted.at_eof()


async def test_the_oldest_stranger_makes_room_and_the_number_is_told_once(
    ports: list[Port], caplog: pytest.LogCaptureFixture
) -> None:
    port = Port(strangers=2)
    ports.append(port)
    admitted = await port.open(b"admit")
    strangers = [await port.open() for _ in range(6)]
    for stranger in strangers[:4]:
        assert await ended(stranger)
    assert not any(one.at_eof() for one in (admitted, *strangers[4:]))
    told = "connections closed before they were admitted, to make room for others: 1"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [told]


async def test_one_limit_of_descriptors_holds_for_all_ports_and_strangers_go_before_the_idle(
    ports: list[Port], monkeypatch: pytest.MonkeyPatch
) -> None:
    ports += [Port(), Port()]
    monkeypatch.setattr(module, "descriptor_limit", lambda: 12)
    monkeypatch.setattr(module, "SPARE", 6)
    one, other = ports
    refused = await one.open(b"admit", b"answer", b"refuse")
    idle = await one.open(b"admit", b"answer")
    strangers = [refused, *[await one.open() for _ in range(3)]]
    busy = await other.open(b"admit")
    strangers.append(await other.open())
    assert await ended(strangers[0])  # of the port that has most of them
    assert not any(reader.at_eof() for reader in (idle, busy, *strangers[1:]))
    for _ in strangers[1:]:
        await other.open(b"admit")
    assert all([await ended(stranger) for stranger in strangers[1:]])
    assert not idle.at_eof()
    await other.open(b"admit")
    assert await ended(idle)
    reader, writer = await asyncio.open_connection("127.0.0.1", one.listener.port)
    one.writers.append(writer)
    assert (await reader.read(40)).startswith(b"HTTP/1.1 503")  # all that is left serves an admitted request
    assert not busy.at_eof()


@pytest.mark.threat(55)
async def test_a_small_message_waits_for_no_acknowledgement_of_the_one_before(ports: list[Port]) -> None:
    ports.append(port := Port())
    await port.open()
    sock = port.made[0].transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_an_owner_has_a_share_of_the_connections_and_gets_a_place_back_with_each_that_ends(
    ports: list[Port], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OWNED", 3)
    port = Port()
    ports.append(port)
    taken = [await port.open(b"admit owner=eve") for _ in range(5)]
    assert [connection.admitted for connection in port.connections] == [True, True, True, False, False]
    await port.open(b"admit owner=bob")
    await port.open(b"admit", b"answer", b"admit")  # of nobody: a server that knows no owners
    assert [connection.admitted for connection in port.connections[5:]] == [True, True]
    port.connections[0].answer()
    port.connections[1].close()
    assert await ended(taken[1])
    port.connections[1].lose()  # a second end gives no second place
    for _ in range(3):
        await port.open(b"admit owner=eve")
    assert [connection.admitted for connection in port.connections[7:]] == [True, True, False]


async def test_a_port_that_cannot_be_had_is_named(ports: list[Port]) -> None:
    ports.append(Port())
    number = ports[0].listener.port
    with pytest.raises(ConfigError, match=f"port {number} of 127.0.0.1 is in use already; choose another"):
        Listener("127.0.0.1", number)
    with pytest.raises(ConfigError, match=r"cannot listen on port 70000 of 127\.0\.0\.1"):
        Listener("127.0.0.1", 70000)
    with pytest.raises(ConfigError, match=r"cannot listen on port 0 of nowhere\.invalid"):
        Listener("nowhere.invalid", 0)


def test_what_others_cause_is_logged_by_kind_and_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    log = LimitedLog(logging.getLogger("mew_lab.of-this-test"))
    for _ in range(5):
        log.warn("one: %d")
    log.warn("two: %d")
    now = 10.0
    log.warn("one: %d")
    assert [record.getMessage() for record in caplog.records] == ["one: 1", "two: 1", "one: 5"]


async def test_any_free_port_is_one_that_is_free_at_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    number = Listener("127.0.0.1", 0).port
    there = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    bind, refused = socket.socket.bind, list[int]()

    class Socket(socket.socket):
        def bind(self, address: Any) -> None:
            if address[0] == "127.0.0.2" and len(refused) < 3:
                refused.append(address[1])
                raise OSError(errno.EADDRINUSE, "it is in use")
            bind(self, address)

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: there)
    monkeypatch.setattr(socket, "socket", Socket)
    listener = Listener("both", 0)
    assert len(refused) == 3 and listener.port not in (0, number)
    listener.close()
