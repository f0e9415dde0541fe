"""A Pydantic AI agent whose model asks for three calls that need an approval."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from space import run_in_space

from mew_lab.bridge.frameworks.pydantic_ai import run
from mew_lab.lab.tool_approvals import LabToolApprovals


async def work(approvals: LabToolApprovals, executed: list[Any]) -> str:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("write", {"path": path}) for path in "abc"])
        return ModelResponse(parts=[TextPart(repr(messages[-1]))])

    agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def write(path: str) -> str:
        executed.append({"path": path})
        return f"wrote {path}"

    return str(await run(agent, "Write the three files.", approvals))


run_in_space(work)
