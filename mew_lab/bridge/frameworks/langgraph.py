"""LangGraph: decides the interrupts of a graph in a space. Needs the extra `langgraph`.

The interrupts may be those of LangChain's `HumanInTheLoopMiddleware` (in both of its modes) or of Agent Inbox, the call
`interrupt({"tool": name, "arguments": {…}})`, or any value, which becomes a question; `interrupts.py` says how each is
answered. The graph needs a checkpointer, as for every interrupt, and `config` names the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt

from mew_lab.bridge.frameworks.interrupts import read_interrupt
from mew_lab.bridge.tool_approvals import ToolApprovals

__all__ = ["decide_interrupts", "run"]


async def decide_interrupts(interrupts: Sequence[Interrupt], approvals: ToolApprovals) -> dict[str, Any]:
    """The values to resume with, by the ids of the interrupts; all are asked for at once.

    A program with a loop of its own resumes with them: `Command(resume=await decide_interrupts(…))`.

    Raises:
        ConfigError: an interrupt takes no refusal; nothing was asked then.
        ProposalEnded: a question could not be asked, or was rejected and its schema takes no `false`. The graph can be
            resumed later.
    """
    forms = [read_interrupt(one.value, getattr(one, "response_schema", None)) for one in interrupts]
    decided = iter(await approvals.decide_all([call for form in forms for call in form.calls]))
    decisions = [list(islice(decided, len(form.calls))) for form in forms]
    return {
        one.id: form.answer(of_form) for one, form, of_form in zip(interrupts, forms, decisions, strict=True)
    }


async def run(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    state: Any,
    approvals: ToolApprovals,
    config: Any,
    **options: Any,
) -> Any:
    """What `graph.ainvoke(state, config, **options)` gives after all interrupts were decided in the space."""
    result = await graph.ainvoke(state, config, **options)
    while interrupts := _interrupts_of(result):
        values = await decide_interrupts(interrupts, approvals)
        result = await graph.ainvoke(Command(resume=values), config, **options)
    return result


def _interrupts_of(result: Any) -> Sequence[Interrupt]:
    """The interrupts of a result, of either version of `ainvoke`."""
    found = result.get("__interrupt__") if isinstance(result, dict) else getattr(result, "interrupts", None)
    return tuple(found or ())
