"""OpenAI Agents SDK: decides the interruptions of a run in a space. Needs the extra `openai-agents`.

A tool with `needs_approval=True` becomes a card. The SDK executes what the model asked for and nothing else: a call
that was approved with other arguments is rejected with a sentence that tells the model the approved ones. For a program
with a loop of its own, such as one that streams, there is `decide_calls`. `make_on_approval` is for the tools with such
an option (shell, apply_patch, custom ones), `make_on_approval_request` for `HostedMCPTool`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agents import Agent, Runner, RunResult, RunState
from agents.items import ToolApprovalItem

from mew_lab.bridge.frameworks.arguments import read_arguments
from mew_lab.bridge.frameworks.interrupts import describe_edit
from mew_lab.bridge.tool_approvals import PendingCall, ToolApprovals, ToolDecision

__all__ = ["decide_calls", "make_on_approval", "make_on_approval_request", "run"]

# members that say nothing of what is done
_OF_THE_CALL = ("id", "call_id", "status", "type", "agent", "caller")


async def decide_calls(
    state: RunState[Any], calls: Sequence[ToolApprovalItem], approvals: ToolApprovals
) -> None:
    """Approves or rejects each interruption in `state`, as it is decided in the space; all are asked for at once."""
    decisions = await approvals.decide_all([_pending(call) for call in calls])
    for call, decision in zip(calls, decisions, strict=True):
        if refusal := _refusal_of(decision):
            state.reject(call, rejection_message=refusal)
        else:
            state.approve(call)


def make_on_approval(
    approvals: ToolApprovals,
) -> Callable[[Any, ToolApprovalItem], Awaitable[dict[str, Any]]]:
    """The function for `on_approval` of a tool."""

    async def decide(_: Any, call: ToolApprovalItem) -> dict[str, Any]:
        return await _answer(_pending(call), approvals)

    return decide


def make_on_approval_request(approvals: ToolApprovals) -> Callable[[Any], Awaitable[dict[str, Any]]]:
    """The function for `on_approval_request` of a `HostedMCPTool`."""

    async def decide(request: Any) -> dict[str, Any]:
        return await _answer(
            PendingCall(request.data.name, read_arguments(request.data.arguments)), approvals
        )

    return decide


async def run(agent: Agent[Any], input: Any, approvals: ToolApprovals, **options: Any) -> RunResult:
    """The result of `Runner.run(agent, input, **options)` after all interruptions were decided in the space.

    `input` may be a state of a run, too. The options, such as `context`, `session`, `max_turns` and `hooks`, hold for
    the whole run.
    """
    result = await Runner.run(agent, input, **options)
    while result.interruptions:
        state = result.to_state()
        await decide_calls(state, result.interruptions, approvals)
        result = await Runner.run(agent, state, **options)
    return result


async def _answer(call: PendingCall, approvals: ToolApprovals) -> dict[str, Any]:
    (decision,) = await approvals.decide_all([call])
    refusal = _refusal_of(decision)
    return {"approve": False, "reason": refusal} if refusal else {"approve": True}


def _refusal_of(decision: ToolDecision) -> str:
    """Why the call of the model may not be executed as it is; empty where it may."""
    if not decision.approved:
        return decision.reason
    return describe_edit(decision) if decision.edited else ""


def _pending(call: ToolApprovalItem) -> PendingCall:
    raw = call.raw_item
    members = raw if isinstance(raw, Mapping) else raw.model_dump(exclude_none=True)
    name = call.tool_name or members.get("name") or members.get("type")
    if isinstance(members.get("arguments"), str):
        return PendingCall(name, read_arguments(members["arguments"]))
    # A call of another kind, such as one of the shell, is shown as the SDK executes it.
    return PendingCall(name, {key: value for key, value in members.items() if key not in _OF_THE_CALL})
