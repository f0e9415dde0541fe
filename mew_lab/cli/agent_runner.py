"""How does an agent run on its own?  As a program: settings in, one agent in a space elsewhere, until it is ended.

Spec: SDK "Configuration", "Autonomous Agent".
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mew_lab.agent.agent import MEWAgent
from mew_lab.errors import ConfigError, MewError
from mew_lab.sdk.settings import Settings, read_settings

__all__ = ["run_agent", "settings_of"]


def settings_of(file: Path | None, *, key_env: str | None, **said: Any) -> Settings:
    """The settings that a file, the environment and these words make; `key_env` names where a model's key is.

    Raises:
        ConfigError: as `read_settings`, or the variable is not set.
    """
    if key_env is not None:
        if not os.environ.get(key_env):
            raise ConfigError(f"the environment variable {key_env[:80]} is not set", key="key_env")
        said["api_key"] = os.environ[key_env]
    return read_settings(file, **said)


async def run_agent(settings: Settings, *, ended: asyncio.Event, say: Callable[[str], object]) -> None:
    """Joins as the settings say, answers until `ended` is set or the connection is gone for good, and leaves.

    Raises:
        ConfigError: a setting is missing or does not fit.
        NotAdmitted, ConnectionLost, NoReply: it could not join, or can no longer be in the space.
    """
    if not settings.gateway:
        raise ConfigError("no gateway is named: give its address, or set MEW_GATEWAY", key="gateway")
    agent = MEWAgent.from_settings(settings)
    gone = asyncio.Event()

    def down(_: object) -> None:
        if agent.participant.client.state == "disconnected":
            gone.set()

    agent.participant.client.on_disconnected(down)
    async with agent:
        say(
            f"{agent.id} is in {settings.space or 'the space'} at {settings.gateway}, with {agent.model.name}"
        )
        waits = [asyncio.ensure_future(one.wait()) for one in (ended, gone)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
    failure = agent.participant.client.failure
    if gone.is_set() and not ended.is_set() and isinstance(failure, MewError):
        raise failure
