"""Runs the tools of a draft as they are served: in a private space, with the servers of the file.

Between two runs the servers go on, unless the draft changes how they are started.

Spec: tools-agent.md "Tool Test Interface", TA-63, TA-65.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mew_lab.errors import ConfigError
from mew_lab.sdk.tools import RpcError
from mew_lab.tools_agent.definition import AgentDefinition
from mew_lab.tools_agent.executor import Execution
from mew_lab.tools_agent.home import Home

__all__ = ["ToolRunner"]


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
        try:
            return await home.agent.call(tool, arguments)
        except RpcError as fault:
            raise ConfigError(fault.message, key="tool") from None

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
