"""A space with agents of tools in it, and files that describe them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from mew_lab.agent.completions import CompletionsModel
from mew_lab.tools_agent.agent_file import parse_agent
from mew_lab.tools_agent.definition import AgentDefinition
from mew_lab.tools_agent.member import ToolsAgent

from ..agent.conftest import CALLER
from ..agent.conftest import Site as AgentSite
from ..agent.llm_server import ChatServer
from ..room import Rights

ASK = {
    "name": "ask",
    "description": "Asks the desk.",
    "parameters": {
        "type": "object",
        "properties": {"what": {"type": "string"}, "name": {"type": "string"}},
        "required": ["what"],
    },
    "prompt": "Please find out: {what}",
}


def described(
    *tools: Mapping[str, Any],
    servers: Mapping[str, Any] | None = None,
    system_prompt: str = "",
    description: str = "A desk.",
    **settings: Any,
) -> AgentDefinition:
    """An agent as its file would say."""
    metadata = {"name": "Desk", "version": "1.0.0", "mode": "tools", "tools": list(tools or (ASK,))}
    metadata |= {"description": description} if description else {}
    document: dict[str, Any] = {"metadata": metadata, "settings": {"toolPermission": "never", **settings}}
    document |= {"mcpServers": dict(servers)} if servers else {}
    document |= {"systemPrompt": system_prompt} if system_prompt else {}
    return parse_agent(document)


class Site(AgentSite):
    """The space of the agents' tests, with agents of tools."""

    def __init__(self) -> None:
        super().__init__()
        self.desks: list[ToolsAgent] = []

    async def desk(
        self,
        model: Any,
        agent: AgentDefinition | None = None,
        *,
        name: str = "desk",
        can: Rights = CALLER,
        **limits: Any,
    ) -> ToolsAgent:
        """An agent of tools that has joined, and knows the tools of those who are there."""
        made = ToolsAgent(agent or described(), self.client(name, can), model=model, **limits)
        self.desks.append(made)
        await made.start()
        await made.participant.discovery.wait_for_pending_discoveries(5.0)
        return made


def model_at(server: ChatServer, **how: Any) -> CompletionsModel:
    """The real client of a scripted server."""
    return CompletionsModel("m", base_url=server.url, api_key="k" * 20, max_retries=0, **how)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    for desk in made.desks:
        await desk.stop()
    await made.close()
