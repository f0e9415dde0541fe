"""`mew-lab agent`: runs one agent in a space of another process, by its settings, until a signal ends it.

Spec: SDK "Configuration", "Autonomous Agent".
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mew_lab.agent.agent import MEWAgent
from mew_lab.cli import shell
from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import token_from
from mew_lab.sdk.settings import Settings, read_settings

__all__ = ["add_options", "read_agent_settings", "run", "run_agent"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = "the settings, YAML or JSON; MEW_GATEWAY, MEW_SPACE, MEW_TOKEN and options override them"
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help=about)
    parser.add_argument("--gateway", metavar="URL", help="ws://… of the gateway")
    shell.add_elsewhere(parser)
    parser.add_argument("--model", metavar="M", help="offline (the built-in model), or the name of a model")
    shell.add_model_server(parser)


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: As the functions below.
    """
    has_token = options.token_file is not None or options.token_env is not None
    token = token_from(file=options.token_file, variable=options.token_env) if has_token else None
    settings = read_agent_settings(
        options.file,
        gateway=options.gateway,
        space=options.space,
        token=token,
        participant_id=options.as_id,
        model=options.model,
        base_url=options.base_url,
        key_env=options.key_env,
    )

    async def work() -> None:
        await run_agent(settings, ended=shell.end_on_signal(), say=shell.say)

    asyncio.run(work())


def read_agent_settings(file: Path | None, *, key_env: str | None, **options: Any) -> Settings:
    """The settings from a file, the environment and these options.

    Args:
        key_env: The environment variable that holds the key of the model's server.

    Raises:
        ConfigError: As `read_settings`, or the variable is not set.
    """
    return read_settings(file, api_key=shell.read_key(key_env), **options)


async def run_agent(settings: Settings, *, ended: asyncio.Event, say: Callable[[str], object]) -> None:
    """Joins by the settings, answers until `ended` is set or the connection is lost for good, and leaves.

    Raises:
        ConfigError: A setting is missing or not valid.
        NotAdmitted, ConnectionLost, NoReply: It could not join, or the gateway does not admit it again.
    """
    if not settings.gateway:
        raise ConfigError(
            "No gateway is named: give its address with --gateway, or set MEW_GATEWAY", key="gateway"
        )
    agent = MEWAgent.from_settings(settings)
    shell.end_when_lost(agent.participant.client, ended)
    async with agent:
        say(
            f"{agent.id} is in {settings.space or 'the space'} at {settings.gateway}, with {agent.model.name}"
        )
        await ended.wait()
    shell.raise_failure(agent.participant.client)
