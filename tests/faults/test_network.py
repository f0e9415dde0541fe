"""A bad network between a client and a gateway: slow, cut, or silent in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.sdk.client import MEWClient
from mew_lab.space.events import Record

from .conftest import until

PING = 0.3  # seconds, so that silence is found out soon


class Proxy:
    """A wire that can be made bad: `delay` seconds on each way, `silent` swallows everything, `cut` ends all."""

    def __init__(self, port: int) -> None:
        self.delay = 0.0
        self.silent = False
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._pipes: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _connected(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        there, on = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [back, on]
        for reader, writer in ((here, on), (there, back)):
            pipe = asyncio.create_task(self._pipe(reader, writer))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        dead = False  # what a wire was silent for once never comes out of it
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                dead = dead or self.silent
                if not dead:
                    loop.call_later(self.delay, writer.write, data)
        if not dead and not self.silent:
            loop.call_later(self.delay, writer.close)

    def cut(self) -> None:
        """Ends every connection at once, without a word of WebSocket."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        self._server.close()
        self.cut()
        for pipe in tuple(self._pipes):
            pipe.cancel()


class Net:
    """A gateway, a bad wire to it, and clients at the other end of the wire."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.gateway = Gateway(observe=self.records.append)
        people = {name: ParticipantConfig(capabilities=[{"kind": "chat"}]) for name in ("anna", "bert")}
        self.gateway.add_space(SpaceConfig(name="demo", participants=people))
        self.server = Server(self.gateway, allowed_hosts=["127.0.0.1"], limits=Limits(ping=PING, probe=PING))
        self.proxy: Proxy
        self.address = ""
        self.clients: list[MEWClient] = []

    async def client(self, name: str, **how: Any) -> MEWClient:
        token = self.gateway.tokens.mint("demo", name)
        settings = {"reconnect_delay": 0.05, "heartbeat_interval": PING, **how}
        one = MEWClient(self.address, space="demo", token=token, participant_id=name, **settings)
        self.clients.append(one)
        await one.connect()
        return one

    def presences(self) -> list[tuple[str, str]]:
        """(event, id) of what was told to who was there."""
        found = [
            json.loads(one.raw)["payload"]
            for one in self.records
            if one.raw and one.event == "sent" and '"system/presence"' in one.raw
        ]
        return [(one["event"], one["participant"]["id"]) for one in found]

    def reasons(self) -> list[str]:
        return [one.detail for one in self.records if one.event == "left"]


@pytest.fixture
async def net() -> AsyncIterator[Net]:
    made = Net()
    made.proxy = Proxy(await made.server.start())
    made.address = f"ws://127.0.0.1:{await made.proxy.open()}"
    yield made
    for client in made.clients:
        await client.disconnect()
    await made.proxy.close()
    await made.server.stop()


async def test_over_a_slow_wire_everything_comes_once_and_in_its_order(net: Net) -> None:
    net.proxy.delay = 0.1
    anna, bert = await net.client("anna"), await net.client("bert")
    heard: list[str] = []
    bert.on_message(lambda one: heard.append(one.payload["text"]) if one.kind == "chat" else None)
    for n in range(100):
        await anna.send({"kind": "chat", "payload": {"text": str(n)}})
    await until(lambda: len(heard) >= 100)
    assert heard == [str(n) for n in range(100)]
    assert net.reasons() == []  # pings were answered in time, slow as they are


@pytest.mark.threat(9)
async def test_a_wire_that_is_cut_is_told_to_the_others_and_the_client_comes_back(net: Net) -> None:
    watcher = attach(net.gateway, "demo", "bert")
    anna = await net.client("anna")
    lost: list[object] = []
    anna.on_disconnected(lost.append)
    net.proxy.cut()
    await until(lambda: net.presences()[1:] == [("join", "anna"), ("leave", "anna"), ("join", "anna")])
    await until(lambda: anna.state == "ready")
    assert len(lost) == 1
    await anna.send({"kind": "chat", "payload": {"text": "back"}})
    await until(lambda: any(one.raw and '"back"' in one.raw for one in net.records))
    await watcher.close()


@pytest.mark.threat(9)
async def test_a_wire_that_fell_silent_is_found_out_at_both_ends(net: Net) -> None:
    watcher = attach(net.gateway, "demo", "bert")
    anna = await net.client("anna")
    net.proxy.silent = True
    await until(lambda: net.reasons())
    assert net.presences()[-1] == ("leave", "anna")
    await until(lambda: anna.state != "ready")
    net.proxy.silent = False
    await until(lambda: anna.state == "ready")
    assert net.presences()[-1] == ("join", "anna")
    await watcher.close()


async def test_who_comes_back_before_its_silent_connection_was_found_out_takes_its_place(net: Net) -> None:
    watcher = attach(net.gateway, "demo", "bert")
    first = await net.client("anna", reconnect=False, heartbeat_interval=None)
    net.proxy.silent = True
    second = MEWClient(
        f"ws://127.0.0.1:{net.server.port}", space="demo", token=net.gateway.tokens.mint("demo", "anna")
    )
    net.clients.append(second)
    await second.connect()
    assert second.id == first.id == "anna"
    assert net.presences()[1:] == [("join", "anna"), ("leave", "anna"), ("join", "anna")]
    assert len(net.reasons()) == 1
    await watcher.close()
