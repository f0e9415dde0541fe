"""A LangGraph graph that interrupts with values of any form, which a person approves, rejects, or answers."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from space import run_in_space

import mew_lab
from mew_lab.bridge.frameworks.langgraph import run
from mew_lab.lab.tool_approvals import LabToolApprovals

QUESTIONS = ["Delete it?", {"question": "Go on?", "draft": [1, 2]}, "What is your name?", 7]


class State(TypedDict):
    answers: list[Any]


async def decide(lab: mew_lab.Lab) -> list[Any]:
    person, asked = lab.me.participant, list[Any]()
    async with asyncio.timeout(60):
        while len(asked) < len(QUESTIONS):
            for proposal in [one for one in person.proposals if one.state == "open"]:
                call = proposal.envelope.payload["params"]
                question = call["arguments"]["question"]
                if question in asked:
                    continue
                asked.append(question)
                if question == "Delete it?":
                    lab.me.run(person.reject(proposal.id, "no"))
                elif question == "What is your name?":
                    arguments = {**call["arguments"], "answer": "Ada"}
                    lab.me.run(person.approve(proposal.id, params={**call, "arguments": arguments}))
                else:
                    lab.me.run(person.approve(proposal.id))
            await asyncio.sleep(0.02)
    return asked


async def work(approvals: LabToolApprovals, executed: list[Any]) -> list[Any]:
    def ask(state: State) -> dict[str, Any]:
        return {"answers": [interrupt(question) for question in QUESTIONS]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    config = {"configurable": {"thread_id": "1"}}
    state = await run(graph.compile(checkpointer=InMemorySaver()), {"answers": []}, approvals, config)
    return list(state["answers"])


run_in_space(work, decide)
