"""Runs an agent of tools on its own: in a private space of this process, with the servers of its file.

The agent is the same as in any space (`member`). The private space is in memory, and holds only the agent and one bridge
for each server of `mcpServers`. Clients reach the agent through `mew_lab.bridge.mcp_server` and `mcp_http`.

Spec: tools-agent.md "Runtime Implementation", TA-16, TA-32, TA-40.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mew_lab.agent.model import Model
from mew_lab.agent.models import OFFLINE, model_of
from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.remote import RemoteServer
from mew_lab.bridge.server_entries import TRANSPORTS
from mew_lab.errors import ConfigError
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.settings.environment import fill_settings
from mew_lab.settings.faults import place
from mew_lab.tools_agent.definition import AgentDefinition, ServerDefinition, ToolRule
from mew_lab.tools_agent.member import ToolsAgent
from mew_lab.transport.link import Link

__all__ = ["Home", "bridge_arguments", "model_for", "participant_id", "redefine", "startable_servers"]

SPACE = "tools"


class Home:
    """One agent with its servers, ready for calls; `async with` starts and stops them.

    `agent` is the agent in its space. Servers of a type that is not started here are left out.

    Args:
        model: its model; None makes one from the settings (`model_for`), and closes it at the end.
        folder: the base of relative working directories of servers; None is that of this process.
        limits: arguments of `ToolsAgent` and `Executor`.

    Raises:
        ConfigError: the agent cannot be served, its model cannot be made, or a variable is not set.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        *,
        model: Model | None = None,
        base_url: str | None = None,
        api_key: str | Token | None = None,
        folder: str | Path | None = None,
        **limits: Any,
    ) -> None:
        self._folder = Path(folder) if folder is not None else Path.cwd()
        self._gateway = Gateway()
        self._gateway.add_space(SpaceConfig(name=SPACE))
        me = participant_id(definition.name, taken=())
        servers = startable_servers(definition, me)
        repeats = definition.settings.on_repeat
        self._bridges = [self._bridge(name, server, repeats) for name, server in servers.items()]
        self._owns_model = model is None
        self._model = model or model_for(definition, base_url=base_url, api_key=api_key)
        self.agent = ToolsAgent(
            replace(definition, servers=servers),
            self._client(me, "admin"),
            model=self._model,
            **limits,
        )

    async def __aenter__(self) -> Home:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Starts the servers, then lets the agent join.

        Raises:
            MewError: a server does not start; the error names it and its command.
        """
        for bridge in self._bridges:
            await bridge.start(self._client(bridge.name, "tool"))
        await self.agent.start()
        await self.agent.participant.discovery.wait_for_pending_discoveries(5.0)

    async def stop(self) -> None:
        """Ends calls, servers and model. A second call does nothing."""
        await self.agent.stop()
        for bridge in self._bridges:
            await bridge.stop()
        if self._owns_model:
            await self._model.aclose()
        self._gateway.close()

    def replace(self, definition: AgentDefinition) -> list[str]:
        """Serves another definition from now on, with the servers and the model that run; returns what needs a restart.

        Raises:
            ConfigError: as `ToolsAgent.replace`; nothing is changed then.

        Spec: TA-18.
        """
        changed, later = redefine(self.agent.agent, definition, self.agent.participant.client.id)
        self.agent.replace(changed)
        return later

    def _client(self, name: str, profile: str) -> MEWClient:
        self._gateway.enrol(SPACE, name, PROFILES[profile])

        async def link() -> Link:
            return attach(self._gateway, SPACE, name)

        return MEWClient(space=SPACE, connect_link=link)

    def _bridge(self, name: str, server: ServerDefinition, repeats: Mapping[str, Any]) -> McpBridge:
        command, options = bridge_arguments(server, self._folder)
        return McpBridge(name, command, **options, **repeats)


def startable_servers(agent: AgentDefinition, me: str) -> dict[str, ServerDefinition]:
    """The servers of an agent that can be started, by their names in the space; `me` is the agent's."""
    servers: dict[str, ServerDefinition] = {}
    for name, server in agent.servers.items():
        if server.can_start:
            servers[participant_id(name, taken={me.lower(), *map(str.lower, servers)})] = server
    return servers


def bridge_arguments(server: ServerDefinition, folder: Path) -> tuple[list[str] | str, dict[str, Any]]:
    """The command or the address of a server, and the options of its `McpBridge`.

    Args:
        folder: the base of a relative working directory.

    Raises:
        ConfigError: a variable is not set, or the server cannot be addressed so; the error names the place.
    """
    at = place("mcpServers", server.name)
    if server.type not in TRANSPORTS:
        env = fill_settings(server.env, key=place(at, "env"))
        return list(server.command), {"env": env, "cwd": folder / server.cwd if server.cwd else folder}
    url = str(fill_settings(server.url, key=place(at, "url")))
    headers = fill_settings(server.headers, key=place(at, "headers"))
    options = {"headers": headers, "transport": TRANSPORTS[server.type]}
    try:
        RemoteServer(url, **options)
    except ConfigError as fault:
        key = place(at, fault.key) if fault.key else at
        raise ConfigError(f"{key}: {fault}", key=key) from None
    return url, options


def redefine(
    running: AgentDefinition, definition: AgentDefinition, me: str
) -> tuple[AgentDefinition, list[str]]:
    """The definition for an agent whose servers and model go on, and the places of what needs a restart.

    Args:
        running: the definition in force.
        me: the agent's name in the space.
    """
    started, wanted = running.servers, startable_servers(definition, me)
    same = {name for name in wanted.keys() & started if _how(wanted[name]) == _how(started[name])}
    later = [place("mcpServers", name) for name in {**started, **wanted} if name not in same]
    # A server that runs on keeps its rules: without any, its tools would need no permission.
    kept = {name: wanted[name] if name in same else server for name, server in started.items()}
    if _model_settings(definition) != _model_settings(running):
        later.append("settings of the model")
    if definition.settings.on_repeat != running.settings.on_repeat:
        later.append("settings of repeated calls")
    return replace(definition, servers=kept), later


def _model_settings(agent: AgentDefinition) -> tuple[object, ...]:
    return agent.settings.model, agent.settings.sampling


def _how(server: ServerDefinition) -> ServerDefinition:
    """What starts a server: its entry without the rules for its tools, which may change while it runs."""
    return replace(server, name="", defaults=ToolRule(), tools={})


def model_for(
    agent: AgentDefinition, *, base_url: str | None = None, api_key: str | Token | None = None
) -> Model:
    """The model of an agent's settings: the built-in one, or one behind a server of the chat completions API.

    `provider:id` is the model `id`. A provider other than `openai` needs the address of such a server.

    Raises:
        ConfigError: it needs an address, or `model_of` refuses it.
    """
    word = agent.settings.model
    provider, colon, id = word.partition(":")
    known = agent.document.get("providers")
    if agent.settings.needs_address and base_url is None:
        raise ConfigError(
            f"settings.model is {word[:80]!r}: give the address of a server of the chat completions API that "
            f"has it, with base_url= or --base-url",
            key="settings.model",
        )
    if colon and (provider == "openai" or (isinstance(known, Mapping) and provider in known)):
        word = id
    if word == OFFLINE and base_url is not None:
        raise ConfigError(
            "base_url= names a server, but settings.model names none of its models", key="settings.model"
        )
    return model_of(word, base_url=base_url, api_key=api_key, sampling=agent.settings.sampling)


def participant_id(name: str, *, taken: set[str] | tuple[()]) -> str:
    """A free participant id that resembles the name."""
    id = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")[:56] or "agent"
    if id.lower() in ("gateway", "system") or id.lower() in taken:
        id = next(candidate for n in range(2, 1000) if (candidate := f"{id}-{n}").lower() not in taken)
    return id
