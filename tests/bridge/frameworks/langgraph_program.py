"""A LangGraph graph with three nodes side by side, each of which interrupts before it writes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from space import run_in_space

from mew_lab.bridge.frameworks.langgraph import run
from mew_lab.lab.tool_approvals import LabToolApprovals


class State(TypedDict):
    told: Annotated[list[str], operator.add]


async def work(approvals: LabToolApprovals, executed: list[Any]) -> str:
    def writer(path: str) -> Callable[[State], dict[str, Any]]:
        def write(state: State) -> dict[str, Any]:
            answer = interrupt({"tool": "write", "arguments": {"path": path}})
            if not answer["approved"]:
                return {"told": [answer["reason"]]}
            executed.append(answer["arguments"])
            return {"told": [f"wrote {answer['arguments']['path']}"]}

        return write

    graph = StateGraph(State)
    for path in "abc":
        graph.add_node(path, writer(path))
        graph.add_edge(START, path)
        graph.add_edge(path, END)
    config = {"configurable": {"thread_id": "1"}}
    state = await run(graph.compile(checkpointer=InMemorySaver()), {"told": []}, approvals, config)
    return " | ".join(state["told"])


run_in_space(work)
