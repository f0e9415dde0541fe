"""LangGraph: decides the interrupts of a graph in a space. Needs the extra `langgraph`.

A node calls `approved = interrupt({"tool": name, "arguments": {…}})` before it executes a tool. The value becomes a
card; the node gets `{"approved": bool, "arguments": {…}, "reason": str}` and executes the tool with these arguments.
The graph needs a checkpointer, as for every interrupt, and `config` names the thread.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt

from mew_lab.bridge.tool_approvals import ToolApprovals

__all__ = ["decide_interrupts", "run"]


async def decide_interrupts(interrupts: tuple[Interrupt, ...], approvals: ToolApprovals) -> dict[str, Any]:
    """The values to resume with, by the ids of the interrupts; all are asked for at once."""

    async def decide(one: Interrupt) -> dict[str, Any]:
        decision = await approvals.decide(one.value["tool"], one.value["arguments"])
        return {"approved": decision.approved, "arguments": decision.arguments, "reason": decision.reason}

    answers = await asyncio.gather(*map(decide, interrupts))
    return {one.id: answer for one, answer in zip(interrupts, answers, strict=True)}


async def run(
    graph: CompiledStateGraph[Any, Any, Any, Any], state: Any, approvals: ToolApprovals, config: Any
) -> Any:
    """The final state of the graph, after all of its interrupts were decided in the space."""
    result = await graph.ainvoke(state, config)
    while interrupts := result.get("__interrupt__"):
        values = await decide_interrupts(tuple(interrupts), approvals)
        result = await graph.ainvoke(Command(resume=values), config)
    return result
