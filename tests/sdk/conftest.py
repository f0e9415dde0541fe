"""A space of this process, seats in it, a port to it, and means to wait for what must happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.stream import Stream

from ..room import Rights, Room
from ..waiting import until


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


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    made = Room()
    yield made
    await made.close()


class Served(Room):
    """The room with a port: its clients come in over WebSocket."""

    def __init__(self, **limits: Any) -> None:
        super().__init__()
        # Behind a proxy it is reached under another port than its own.
        hosts, limits = ["127.0.0.1"], {"refusal_delay": 0.0, **limits}
        self.server = Server(self.gateway, limits=Limits(**limits), allowed_hosts=hosts)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.server.port}"

    def client(
        self, name: str, can: Rights = None, *, runtime_id: str | None = None, **options: Any
    ) -> MEWClient:
        self.enrol(name, can)
        given = {"gateway": self.url, "space": "demo", "reconnect_delay": 0.01, **options}
        token = given.pop("token", None) or self.gateway.tokens.mint("demo", name)
        self.clients.append(MEWClient(token=token, participant_id=runtime_id, **given))
        return self.clients[-1]

    async def close(self) -> None:
        await super().close()
        await self.server.stop()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    await made.server.start()
    async with asyncio.timeout(50):
        yield made
        await made.close()


@pytest.fixture(params=["memory", "websocket"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[Room]:
    """The room over each of the two links; the link changes nothing."""
    made = Room() if request.param == "memory" else Served(messages_per_second=1e6, burst=1_000_000)
    if isinstance(made, Served):
        await made.server.start()
    async with asyncio.timeout(50):
        yield made
        await made.close()


# --- streams ---

STREAMS = [{"kind": "stream/*"}, {"kind": "chat"}]


async def known(at: MEWParticipant, id: str) -> Stream:
    """The stream of that id, once `at` knows it."""
    await until(lambda: id in at.streams.active, what=f"{at} knows {id}")
    return at.streams.active[id]


async def all_of(stream: Stream) -> list[bytes]:
    """Its frames from now on, until it is closed."""
    return [data async for data in stream]
