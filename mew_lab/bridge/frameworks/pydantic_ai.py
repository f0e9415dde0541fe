"""Pydantic AI: decides the deferred calls of a run in a space. Needs the extra `pydantic-ai`.

A tool with `requires_approval=True` becomes a card and is executed by the agent after the approval, with the arguments
that were approved. `run` is for an agent that has `DeferredToolRequests` among its output types. `make_handler` decides
within a run, of any agent: `Agent(…, capabilities=[HandleDeferredToolCalls(handler=make_handler(approvals))])`. The
results of calls that are deferred to somebody else (`requests.calls`) are for the caller to add.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunUsage, ToolApproved, ToolDenied

from mew_lab.bridge.frameworks.arguments import read_arguments
from mew_lab.bridge.tool_approvals import PendingCall, ToolApprovals

__all__ = ["decide_calls", "make_handler", "run"]

_OF_THE_FIRST = (
    "message_history",
    "deferred_tool_results",
    "conversation",
    "conversation_id",
    "run_id",
    "usage",
)
"""Options that say how a run begins; one that goes on has them from the run before."""


async def decide_calls(requests: DeferredToolRequests, approvals: ToolApprovals) -> DeferredToolResults:
    """The decisions about all deferred calls of a run that need an approval; they are asked for at once."""
    calls = [PendingCall(call.tool_name, read_arguments(call.args)) for call in requests.approvals]
    answers = [
        ToolApproved(override_args=decision.arguments) if decision.approved else ToolDenied(decision.reason)
        for decision in await approvals.decide_all(calls)
    ]
    ids = [call.tool_call_id for call in requests.approvals]
    return requests.build_results(approvals=dict(zip(ids, answers, strict=True)))


def make_handler(
    approvals: ToolApprovals,
) -> Callable[[Any, DeferredToolRequests], Awaitable[DeferredToolResults | None]]:
    """The function for `HandleDeferredToolCalls`; None for requests that need no approval, which others answer."""

    async def handle(_: Any, requests: DeferredToolRequests) -> DeferredToolResults | None:
        return await decide_calls(requests, approvals) if requests.approvals else None

    return handle


async def run(agent: Agent[Any, Any], prompt: Any, approvals: ToolApprovals, **options: Any) -> Any:
    """The result of `agent.run(prompt, **options)` after all calls that need an approval were decided in the space.

    Usage and messages are those of the whole run, so limits of usage hold for all of it. Where calls wait for somebody
    else, too, the result is returned before anything is asked, and its `output` has the requests.
    """
    result = await agent.run(prompt, **options)
    again = {name: value for name, value in options.items() if name not in _OF_THE_FIRST}
    while isinstance(result.output, DeferredToolRequests) and not result.output.calls:
        results = await decide_calls(result.output, approvals)
        usage = result.usage  # a method before version 2
        result = await agent.run(
            message_history=result.all_messages(),
            deferred_tool_results=results,
            usage=usage if isinstance(usage, RunUsage) else usage(),
            **again,
        )
    return result
