"""A LangChain agent with `HumanInTheLoopMiddleware`, in the mode that is named, whose model asks for three calls."""

from __future__ import annotations

import sys
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from space import run_in_space

from mew_lab.bridge.frameworks.langgraph import run
from mew_lab.lab.tool_approvals import LabToolApprovals

MODE = sys.argv[1]


class ThreeCalls(GenericFakeChatModel):
    def bind_tools(self, *parts: Any, **named: Any) -> Any:
        return self


async def work(approvals: LabToolApprovals, executed: list[Any]) -> str:
    @tool
    def write(path: str) -> str:
        """Writes a file."""
        executed.append({"path": path})
        return f"wrote {path}"

    calls = [{"name": "write", "args": {"path": path}, "id": f"call-{path}"} for path in "abc"]
    model = ThreeCalls(messages=iter([AIMessage(content="", tool_calls=calls), AIMessage(content="done")]))
    decisions = {"allowed_decisions": ["approve", "edit", "reject"]}
    mode = {} if MODE == "batched" else {"interrupt_mode": MODE}
    asks = HumanInTheLoopMiddleware(interrupt_on={"write": decisions}, **mode)
    agent = create_agent(model, [write], middleware=[asks], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    started = {"messages": [("user", "Write three files.")]}
    if MODE == "batched":
        state = await run(agent, started, approvals, config)
    else:  # the other form of a result
        state = (await run(agent, started, approvals, config, version="v2")).value
    return " | ".join(str(message.content) for message in state["messages"])


run_in_space(work)
