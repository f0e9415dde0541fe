"""A gateway with a port, for the tests of this room."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server
from mew_lab.protocol.token import Token
from mew_lab.space.events import Record
from mew_lab.transport.link import Link, LinkClosed
from mew_lab.transport.websocket import connect

from ..waiting import until

__all__ = ["until"]

ANYTHING = [{"kind": "chat"}, {"kind": "chat/*"}, {"kind": "mcp/*"}, {"kind": "participant/status"}]


class House:
    """A gateway with one space `demo` of anna, bert and cora, served on a free port."""

    def __init__(self, **settings: Any) -> None:
        space = {"name": "demo", **settings.pop("space", {})}
        self.records: list[Record] = []
        self.gateway = Gateway(observe=self.records.append)
        people = {name: ParticipantConfig(capabilities=ANYTHING) for name in ("anna", "bert", "cora")}
        self.gateway.add_space(SpaceConfig(participants=people, **space))
        self.tokens: dict[str, Token] = {name: self.gateway.tokens.mint("demo", name) for name in people}
        settings["limits"] = Limits(**{"refusal_delay": 0.0, **settings.get("limits", {})})
        self.server = Server(self.gateway, **settings)
        self.links: list[Link] = []

    @property
    def at(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name].reveal()}"}

    async def open(self, path: str = "/ws", headers: dict[str, str] | None = None) -> Link:
        """A WebSocket that has said nothing yet."""
        link = await connect(f"ws://{self.at}{path}", headers=headers, close_timeout=0.5)
        self.links.append(link)
        return link

    def join_frame(self, name: str, **other: Any) -> str:
        said = {"type": "join", "space": "demo", "token": self.tokens[name].reveal(), "participantId": name}
        return json.dumps({**said, **other})

    async def join(self, name: str, *, runtime_id: str | None = None) -> Link:
        """Joined by header and join frame, its welcome taken."""
        link = await self.open("/ws?space=demo", self.bearer(name))
        await link.send(self.join_frame(name, participantId=runtime_id or name))
        assert (await take(link))["kind"] == "system/welcome"
        return link

    async def http(self, method: str, path: str, **asked: Any) -> httpx.Response:
        async with httpx.AsyncClient(base_url=f"http://{self.at}", trust_env=False) as client:
            return await client.request(method, path, **asked)

    async def post(self, name: str, message: Any, **asked: Any) -> httpx.Response:
        headers = {**self.bearer(name), **asked.pop("headers", {})}
        path = f"/participants/{asked.pop('as_', name)}/messages"
        return await self.http("POST", path, json=message, headers=headers, **asked)


async def take(link: Link, kind: str | None = None) -> dict[str, Any]:
    """The next envelope, or the next of a kind."""
    while True:
        envelope: dict[str, Any] = json.loads(await link.receive())
        if kind in (None, envelope["kind"]):
            return envelope


Open = Callable[..., Awaitable[House]]


@pytest.fixture
async def open_house() -> AsyncIterator[Open]:
    """Opens a house with other settings."""
    houses: list[House] = []

    async def opened(**settings: Any) -> House:
        house = House(**settings)
        await house.server.start()
        houses.append(house)
        return house

    async with asyncio.timeout(50):
        yield opened
        for house in houses:
            await house.server.stop()
            for link in house.links:
                await link.close()


@pytest.fixture
async def house(open_house: Open) -> House:
    return await open_house()


CHAT = {"kind": "chat", "payload": {"text": "hello"}}
UPGRADE = (
    "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n"
    "Sec-WebSocket-Version: 13\n"
)


async def closed_with(link: Link) -> tuple[int, str]:
    """Code and reason with which a link ends, whatever comes before."""
    with pytest.raises(LinkClosed) as closed:
        while True:
            await link.receive()
    return closed.value.code, closed.value.reason


async def raw_request(house: House, text: str) -> tuple[int, str]:
    """Status and body for a request written by hand."""
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    writer.write(text.replace("\n", "\r\n").encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ")[1]), answer.partition("\r\n\r\n")[2]
