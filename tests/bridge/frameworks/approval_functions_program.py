"""The functions for tools of the OpenAI Agents SDK that ask for an approval themselves: shell, custom and hosted ones."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from agents import Agent
from agents.items import ToolApprovalItem
from space import run_in_space

import mew_lab
from mew_lab.bridge.frameworks.openai_agents import make_on_approval, make_on_approval_request
from mew_lab.lab.tool_approvals import LabToolApprovals


async def decide(lab: mew_lab.Lab) -> list[Any]:
    """Approves the shell, rejects the custom tool, approves the hosted one with other arguments."""
    person, seen = lab.me.participant, dict[str, Any]()
    async with asyncio.timeout(60):
        while len(seen) < 3:
            for proposal in [one for one in person.proposals if one.state == "open"]:
                call = proposal.envelope.payload["params"]
                if call["name"] in seen:
                    continue
                seen[call["name"]] = call["arguments"]
                if call["name"] == "shell":
                    lab.me.run(person.approve(proposal.id))
                elif call["name"] == "draw":
                    lab.me.run(person.reject(proposal.id, "no drawing"))
                else:
                    lab.me.run(person.approve(proposal.id, params={**call, "arguments": {"q": "other"}}))
            await asyncio.sleep(0.02)
    return [[name, seen[name]] for name in sorted(seen)]


async def work(approvals: LabToolApprovals, executed: list[Any]) -> list[Any]:
    agent = Agent(name="writer")
    shell = {
        "type": "shell_call",
        "call_id": "1",
        "action": {"commands": ["rm -r build"], "timeout_ms": 5},
        "status": "completed",
    }
    custom = {"type": "custom_tool_call", "call_id": "2", "name": "draw", "input": "a line"}
    hosted = SimpleNamespace(data=SimpleNamespace(name="search", arguments='{"q": "x"}'))
    on_approval = make_on_approval(approvals)
    return [
        await on_approval(None, ToolApprovalItem(agent=agent, raw_item=shell, tool_name="shell")),
        await on_approval(None, ToolApprovalItem(agent=agent, raw_item=custom, tool_name="draw")),
        await make_on_approval_request(approvals)(hosted),
        await on_approval(
            None,
            ToolApprovalItem(agent=agent, raw_item={**custom, "type": "function_call", "arguments": "["}),
        ),
    ]


run_in_space(work, decide)
