"""The longest message is what the gateway says in its welcome, in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mew_lab.errors import LocalProtocolError
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server
from mew_lab.protocol.envelope import MAX_MESSAGE
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant

from .odd_gateway import Odd

LARGE = 6_000_000  # bytes, more than a link took before its gateway was known


@pytest.fixture
async def port() -> AsyncIterator[tuple[Gateway, Server]]:
    """A gateway with a port and two spaces: `wide` takes 16 MiB, `narrow` 4 KiB."""
    gateway = Gateway()
    for name, size in (("wide", 16 * MAX_MESSAGE), ("narrow", 4096)):
        gateway.add_space(SpaceConfig(name=name, message_bytes=size, queue_bytes=32 * MAX_MESSAGE))
        for who in ("human", "bot"):
            gateway.enrol(name, who, PROFILES["human"])
    made = Server(gateway, limits=Limits(refusal_delay=0.0))
    await made.start()
    yield gateway, made
    await made.stop()
    gateway.close()


def seat(port: tuple[Gateway, Server], space: str, name: str) -> MEWParticipant:
    gateway, server = port
    token = gateway.tokens.mint(space, name)
    return MEWParticipant(MEWClient(f"ws://127.0.0.1:{server.port}", space=space, token=token))


@pytest.mark.ruling("R34")
async def test_a_space_that_takes_more_carries_more_and_one_that_takes_less_is_told_first(
    port: tuple[Gateway, Server],
) -> None:
    async with seat(port, "wide", "human") as human, seat(port, "wide", "bot") as bot:
        bot.register_tool(lambda: "x" * LARGE, name="large")
        assert human.client.message_bytes == 16 * MAX_MESSAGE
        async with asyncio.timeout(60):
            assert len((await human.call("bot/large")).text) == LARGE
            await human.chat("y" * LARGE)
        with pytest.raises(LocalProtocolError, match="a message takes at most 16777216"):
            await human.chat("x" * 17 * MAX_MESSAGE)
    async with seat(port, "narrow", "human") as human:
        with pytest.raises(LocalProtocolError, match="a message takes at most 4096"):
            await human.chat("x" * 5000)
        with pytest.raises(LocalProtocolError, match="a frame takes at most 4096"):
            await human.client.send_stream_data("stream-1", b"x" * 5000)
        assert human.client.state == "ready"


async def test_a_gateway_that_does_not_say_takes_a_mebibyte() -> None:
    odd = Odd()
    async with odd.participant:
        assert odd.client.message_bytes == MAX_MESSAGE
        you = {"id": "me", "capabilities": []}
        for told, believed in [(5000, 5000), ("5000", MAX_MESSAGE), (-1, MAX_MESSAGE), (True, MAX_MESSAGE)]:
            payload = {"you": you, "participants": [], "x-mew-lab": {"message_bytes": told}}
            odd.say("system/welcome", payload, to=["me"])
            await odd.told()
            assert odd.client.message_bytes == believed
