"""LangGraph: decides the interrupts of a graph in a space. Needs the extra `langgraph`.

A node calls `approved = interrupt({"tool": name, "arguments": {…}})` before it executes a tool. The value becomes a
card; the node gets `{"approved": bool, "arguments": {…}, "reason": str}` and executes the tool with these arguments.
The graph needs a checkpointer, as for every interrupt, and `config` names the thread.
"""

from __future__ import annotations

from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt

from mew_lab.bridge.tool_approvals import PendingCall, ToolApprovals

__all__ = ["decide_interrupts", "run"]


async def decide_interrupts(interrupts: tuple[Interrupt, ...], approvals: ToolApprovals) -> dict[str, Any]:
    """The values to resume with, by the ids of the interrupts; all are asked for at once.

    An interrupt of another form is refused: its node gets `approved` false, and the reason.
    """
    values = [one.value if isinstance(one.value, dict) else {} for one in interrupts]
    calls = [PendingCall(value.get("tool"), value.get("arguments")) for value in values]
    decisions = await approvals.decide_all(calls)
    return {
        one.id: {"approved": decision.approved, "arguments": decision.arguments, "reason": decision.reason}
        for one, decision in zip(interrupts, decisions, strict=True)
    }


async def run(
    graph: CompiledStateGraph[Any, Any, Any, Any], state: Any, approvals: ToolApprovals, config: Any
) -> Any:
    """The final state of the graph, after all of its interrupts were decided in the space."""
    result = await graph.ainvoke(state, config)
    while interrupts := result.get("__interrupt__"):
        values = await decide_interrupts(tuple(interrupts), approvals)
        result = await graph.ainvoke(Command(resume=values), config)
    return result
