"""OpenAI Agents SDK: decides the interruptions of a run in a space. Needs the extra `openai-agents`.

A tool with `needs_approval=True` becomes a card. The SDK executes what the model asked for and nothing else: a call
that was approved with other arguments is rejected with a sentence that tells the model the approved ones.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, Runner, RunState
from agents.items import ToolApprovalItem

from mew_lab.bridge.tool_approvals import ToolApprovals

__all__ = ["decide_calls", "run"]


async def decide_calls(state: RunState[Any], calls: list[ToolApprovalItem], approvals: ToolApprovals) -> None:
    """Approves or rejects each interruption in `state`, as it is decided in the space; all are asked for at once."""

    async def decide(call: ToolApprovalItem) -> None:
        decision = await approvals.decide(call.tool_name or "", json.loads(call.arguments or "{}"))
        if decision.approved and not decision.edited:
            state.approve(call)
        elif decision.approved:
            other = (
                f"Approved only with other arguments: {json.dumps(decision.arguments)}. Ask again with these."
            )
            state.reject(call, rejection_message=other)
        else:
            state.reject(call, rejection_message=decision.reason)

    await asyncio.gather(*map(decide, calls))


async def run(agent: Agent[Any], prompt: str, approvals: ToolApprovals) -> Any:
    """The final output of the agent, after all of its interruptions were decided in the space."""
    result = await Runner.run(agent, prompt)
    while result.interruptions:
        state = result.to_state()
        await decide_calls(state, result.interruptions, approvals)
        result = await Runner.run(agent, state)
    return result.final_output
