"""A space of this process, seats in it, a port to it, and means to wait for what must happen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.stream import Stream
from mew_lab.space.events import Record
from mew_lab.transport.link import Link


async def until(holds: Callable[[], Any], *, what: str = "") -> None:
    """Returns when `holds()` does; fails after ten seconds."""
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"never happened: {what or holds}")


class Hours:
    """A clock that goes when a test says so; `wait` returns when as much has passed on it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self.now

    async def wait(self, seconds: float) -> None:
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seconds > 0:
            self._waiting.append((self.now + seconds, due))
            await due

    async def go(self, seconds: float) -> None:
        """So many seconds pass; what was due is woken in order, and whatever is ready runs."""
        end = self.now + seconds
        await settle()
        while due := [one for one in self._waiting if one[0] <= end + 1e-9]:
            first = min(due, key=lambda one: one[0])
            self._waiting.remove(first)
            self.now = max(self.now, first[0])
            if not first[1].done():
                first[1].set_result(None)
            await settle()
        self.now = end


async def settle() -> None:
    """Lets run what can run without waiting for a clock, links of this process included."""
    for _ in range(50):
        await asyncio.sleep(0)


class Room:
    """A gateway with one space `demo`, its records, and the participants that were seated."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.gateway = Gateway(observe=self.records.append)
        self.gateway.add_space(SpaceConfig(name="demo"))
        self.links: dict[str, Link] = {}
        self.seated: list[MEWParticipant] = []

    def enrol(self, name: str, can: str | Sequence[Mapping[str, Any]]) -> None:
        self.gateway.enrol("demo", name, PROFILES[can] if isinstance(can, str) else can)

    def link(self, name: str, *, runtime_id: str | None = None) -> Callable[[], Awaitable[Link]]:
        """What opens a link as that participant; the one opened last stands in `links`."""

        async def link() -> Link:
            self.links[name] = attach(self.gateway, "demo", name, runtime_id=runtime_id)
            return self.links[name]

        return link

    def client(self, name: str, *, runtime_id: str | None = None, **options: Any) -> MEWClient:
        return MEWClient(space="demo", connect_link=self.link(name, runtime_id=runtime_id), **options)

    async def seat(
        self,
        name: str,
        can: str | Sequence[Mapping[str, Any]] = "human",
        *,
        tools: Any = None,
        runtime_id: str | None = None,
        **options: Any,
    ) -> MEWParticipant:
        self.enrol(name, can)
        client = self.client(name, runtime_id=runtime_id)
        participant = MEWParticipant(client, tools=tools, **options)
        self.seated.append(participant)
        await participant.start()
        return participant

    def sent(self, *kinds: str) -> list[Envelope]:
        """What the space accepted of these kinds, in order."""
        raws = [one.raw for one in self.records if one.verdict == "accepted" and one.raw]
        found = [Envelope.from_members(json.loads(raw), raw=raw) for raw in raws]
        return [one for one in found if one.kind in kinds]


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    made = Room()
    yield made
    for participant in made.seated:
        await participant.stop()
    made.gateway.close()


class PortRoom(Room):
    """The room with a port: its seats come in over WebSocket."""

    def __init__(self) -> None:
        super().__init__()
        limits = Limits(refusal_delay=0.0, messages_per_second=1e6, burst=1_000_000)
        self.server = Server(self.gateway, limits=limits)

    def client(self, name: str, *, runtime_id: str | None = None, **options: Any) -> MEWClient:
        token = self.gateway.tokens.mint("demo", name)
        url = f"ws://127.0.0.1:{self.server.port}"
        return MEWClient(url, space="demo", token=token, participant_id=runtime_id, **options)


@pytest.fixture(params=["memory", "websocket"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[Room]:
    """The room over each of the two links; the link changes nothing."""
    made = Room() if request.param == "memory" else PortRoom()
    if isinstance(made, PortRoom):
        await made.server.start()
    async with asyncio.timeout(50):
        yield made
        for participant in made.seated:
            await participant.stop()
        if isinstance(made, PortRoom):
            await made.server.stop()
    made.gateway.close()


# --- streams ---

STREAMS = [{"kind": "stream/*"}, {"kind": "chat"}]


async def known(at: MEWParticipant, id: str) -> Stream:
    """The stream of that id, once `at` knows it."""
    await until(lambda: id in at.streams.active, what=f"{at} knows {id}")
    return at.streams.active[id]


async def all_of(stream: Stream) -> list[bytes]:
    """Its frames from now on, until it is closed."""
    return [data async for data in stream]


class Served(Room):
    """The room with a port."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(self.gateway, limits=Limits(refusal_delay=0.0), allowed_hosts=["127.0.0.1"])
        self.clients: list[MEWClient] = []

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.server.port}"

    def remote(self, name: str, **options: Any) -> MEWClient:
        token = options.pop("token", None) or self.gateway.tokens.mint("demo", name)
        given = {"gateway": self.url, "space": "demo", "reconnect_delay": 0.01, **options}
        client = MEWClient(token=token, **given)
        self.clients.append(client)
        return client


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    await made.server.start()
    async with asyncio.timeout(50):
        yield made
        for client in made.clients:
            await client.disconnect()
        await made.server.stop()
