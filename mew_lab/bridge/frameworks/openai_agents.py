"""OpenAI Agents SDK: decides the interruptions of a run in a space. Needs the extra `openai-agents`.

A tool with `needs_approval=True` becomes a card. The SDK executes what the model asked for and nothing else: a call
that was approved with other arguments is rejected with a sentence that tells the model the approved ones.
"""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, Runner, RunState
from agents.items import ToolApprovalItem

from mew_lab.bridge.tool_approvals import PendingCall, ToolApprovals

__all__ = ["decide_calls", "run"]


async def decide_calls(state: RunState[Any], calls: list[ToolApprovalItem], approvals: ToolApprovals) -> None:
    """Approves or rejects each interruption in `state`, as it is decided in the space; all are asked for at once."""
    decisions = await approvals.decide_all([_pending(call) for call in calls])
    for call, decision in zip(calls, decisions, strict=True):
        if decision.approved and not decision.edited:
            state.approve(call)
        elif decision.approved:
            other = (
                f"Approved only with other arguments: {json.dumps(decision.arguments)}. Ask again with these."
            )
            state.reject(call, rejection_message=other)
        else:
            state.reject(call, rejection_message=decision.reason)


def _pending(call: ToolApprovalItem) -> PendingCall:
    try:
        return PendingCall(call.tool_name, json.loads(call.arguments or "{}"))
    except (ValueError, RecursionError):  # the model wrote no JSON
        return PendingCall(call.tool_name, None)


async def run(agent: Agent[Any], prompt: str, approvals: ToolApprovals) -> Any:
    """The final output of the agent, after all of its interruptions were decided in the space."""
    result = await Runner.run(agent, prompt)
    while result.interruptions:
        state = result.to_state()
        await decide_calls(state, result.interruptions, approvals)
        result = await Runner.run(agent, state)
    return result.final_output
