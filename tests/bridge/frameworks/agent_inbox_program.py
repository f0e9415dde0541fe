"""A LangGraph graph that interrupts as Agent Inbox has it, thrice side by side, in each of its forms."""

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
            request = {
                "action_request": {"action": "Write the file", "args": {"path": path}},
                "config": dict.fromkeys(
                    ("allow_accept", "allow_edit", "allow_respond", "allow_ignore"), True
                ),
                "description": "Please look",
            }
            response = interrupt(request if path == "a" else [request])[0]
            if response["type"] == "accept":
                executed.append({"path": path})
            elif response["type"] == "edit":
                assert response["args"]["action"] == "Write the file"
                executed.append(response["args"]["args"])
            return {"told": [f"{response['type']}: {response['args']}"]}

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
