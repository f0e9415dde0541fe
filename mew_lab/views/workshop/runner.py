"""Runs the tools of a draft: as they are served, in a private space, or in that of the lab, where a person is asked.

Both start the servers of the file. In the private space the servers go on between two runs, unless the draft changes how
they are started.

Spec: tools-agent.md "Tool Test Interface", TA-63, TA-65.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mew_lab.errors import ConfigError
from mew_lab.lab.local_participants import LocalParticipants
from mew_lab.sdk.tools import RpcError
from mew_lab.tools_agent.definition import AgentDefinition
from mew_lab.tools_agent.executor import Execution
from mew_lab.tools_agent.home import Home, model_for, participant_id
from mew_lab.tools_agent.member import ToolsAgent

__all__ = ["InteractiveRunner", "ToolRunner"]


class ToolRunner:
    """One agent that runs for tests; everything is async, on one loop.

    Args:
        folder: the folder of the file.
        how: arguments of `Home`.
    """

    def __init__(self, folder: Path, **how: Any) -> None:
        self._folder = folder
        self._how = how
        self._home: Home | None = None
        self._starting = asyncio.Lock()  # two runs at once start one agent

    async def run(self, agent: AgentDefinition, tool: str, arguments: Mapping[str, Any]) -> Execution:
        """Runs one call.

        Raises:
            MewError: a server does not start, or the agent cannot be served.
        """
        async with self._starting:
            home = await self._serve(agent)
        return await _call(home.agent, tool, arguments)

    async def _serve(self, agent: AgentDefinition) -> Home:
        if self._home is not None and not self._home.replace(agent):
            return self._home
        await self.close()
        home = Home(agent, folder=self._folder, **self._how)
        await home.__aenter__()
        self._home = home
        return home

    async def stop(self) -> None:
        """Ends the calls that run; the agent goes on."""
        if self._home is not None:
            await self._home.agent.executor.end("it was stopped")

    async def close(self) -> None:
        """Ends the agent and its servers."""
        home, self._home = self._home, None
        if home is not None:
            await home.stop()


class InteractiveRunner:
    """Runs calls in the space of the lab: what needs a permission is proposed, and waits for the people there.

    For each run an agent of its own joins, with the servers of the file, and leaves at the end.

    Args:
        local: the participants of this process.
        file: the agent file.
        how: `model`, `base_url` and `api_key`, as `Home` has them.

    Spec: TA-65.
    """

    def __init__(self, local: LocalParticipants, file: Path, **how: Any) -> None:
        self._local = local
        self._file = file
        self._how = how
        self._agents: set[ToolsAgent] = set()

    async def run(self, agent: AgentDefinition, tool: str, arguments: Mapping[str, Any]) -> Execution:
        """Runs one call.

        Raises:
            MewError: the space runs elsewhere, a server does not start, or the agent cannot be served.
        """
        how = dict(self._how)
        model = how.pop("model", None)
        name = participant_id(f"test-{tool}", taken={seated.lower() for seated in self._local.seats})
        seat = await self._local.tools_agent(
            agent,
            name,
            None,
            model or model_for(agent, **how),
            file=self._file,
            owns_model=model is None,
            limits={"interactive": True},
        )
        self._agents.add(seat.agent)
        try:
            return await _call(seat.agent, tool, arguments)
        finally:
            self._agents.discard(seat.agent)
            if name in self._local.seats:
                await self._local.leave(name)

    async def stop(self) -> None:
        """Ends the calls that run."""
        for agent in tuple(self._agents):
            await agent.executor.end("it was stopped")


async def _call(agent: ToolsAgent, tool: str, arguments: Mapping[str, Any]) -> Execution:
    try:
        return await agent.call(tool, arguments, fresh=True)
    except RpcError as fault:
        raise ConfigError(fault.message, key="tool") from None
