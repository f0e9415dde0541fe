"""Pydantic AI: decides the deferred calls of a run in a space. Needs the extra `pydantic-ai`.

The agent has `DeferredToolRequests` among its output types. A tool with `requires_approval=True` becomes a card and is
executed by the agent after the approval, with the arguments that were approved. The results of calls that are deferred
to somebody else (`requests.calls`) are for the caller of `decide_calls` to add.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.messages import ToolCallPart

from mew_lab.bridge.tool_approvals import PendingCall, ToolApprovals

__all__ = ["decide_calls", "run"]


async def decide_calls(requests: DeferredToolRequests, approvals: ToolApprovals) -> DeferredToolResults:
    """The decisions about all deferred calls of a run that need an approval; they are asked for at once."""
    decisions = await approvals.decide_all([_pending(call) for call in requests.approvals])
    answers = [
        ToolApproved(override_args=decision.arguments) if decision.approved else ToolDenied(decision.reason)
        for decision in decisions
    ]
    ids = [call.tool_call_id for call in requests.approvals]
    return requests.build_results(approvals=dict(zip(ids, answers, strict=True)))


def _pending(call: ToolCallPart) -> PendingCall:
    try:
        return PendingCall(call.tool_name, call.args_as_dict())
    except (ValueError, AssertionError):  # the model wrote no object
        return PendingCall(call.tool_name, None)


async def run(agent: Agent[Any, Any], prompt: str, approvals: ToolApprovals) -> Any:
    """The output of the agent, after all of its calls that need an approval were decided in the space."""
    result = await agent.run(prompt)
    while isinstance(result.output, DeferredToolRequests):
        results = await decide_calls(result.output, approvals)
        result = await agent.run(message_history=result.all_messages(), deferred_tool_results=results)
    return result.output
