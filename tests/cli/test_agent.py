"""An agent that runs on its own: it answers until it is ended, and says why when it can no longer be there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mew_lab.cli.agent import read_agent_settings, run_agent
from mew_lab.errors import ConfigError, NotAdmitted
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.server import Server
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.settings import Settings


@pytest.fixture
async def served() -> AsyncIterator[tuple[Gateway, str]]:
    gateway = Gateway()
    gateway.add_space(SpaceConfig(name="demo"))
    server = Server(gateway)
    port = await server.start()
    async with asyncio.timeout(50):
        yield gateway, f"ws://127.0.0.1:{port}"
    await server.stop()


def enrolled(gateway: Gateway, url: str, name: str, profile: str) -> Settings:
    gateway.enrol("demo", name, PROFILES[profile])
    return Settings(
        gateway=url, space="demo", token=gateway.tokens.mint("demo", name), agent={"model": "offline"}
    )


async def test_it_says_where_it_is_and_leaves_in_order_when_ended(served: tuple[Gateway, str]) -> None:
    said: list[str] = []
    ended = asyncio.Event()
    settings = enrolled(*served, "helper", "agent")
    running = asyncio.ensure_future(
        run_agent(settings, ended=ended, say=lambda line: (said.append(line), ended.set()))
    )
    await running
    assert said == [f"helper is in demo at {served[1]}, with offline (rules, not a language model)"]


async def test_who_was_kicked_ends_with_the_reason(served: tuple[Gateway, str]) -> None:
    there = asyncio.Event()
    settings = enrolled(*served, "helper", "agent")
    running = asyncio.ensure_future(run_agent(settings, ended=asyncio.Event(), say=lambda _: there.set()))
    async with MEWParticipant.from_settings(enrolled(*served, "admin", "admin")) as admin:
        await there.wait()
        await admin.send_accepted({"kind": "space/kick", "payload": {"participant_id": "helper"}})
        with pytest.raises(NotAdmitted, match="removed from the space"):
            await running


def test_a_missing_key_and_a_missing_gateway_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(ConfigError, match="NO_SUCH_KEY is not set"):
        read_agent_settings(None, key_env="NO_SUCH_KEY")
    with pytest.raises(ConfigError, match="No gateway is named"):
        asyncio.run(run_agent(Settings(space="demo"), ended=asyncio.Event(), say=print))
