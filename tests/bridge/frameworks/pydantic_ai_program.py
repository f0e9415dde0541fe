"""A Pydantic AI agent whose model asks for three calls that need an approval, and for one that is no JSON.

`run` decides what the run returns; `handler` decides within the run, by `HandleDeferredToolCalls`.
"""

from __future__ import annotations

import sys
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, RunContext, RunUsage, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from space import run_in_space

from mew_lab.bridge.frameworks.pydantic_ai import make_handler, run
from mew_lab.lab.tool_approvals import LabToolApprovals

HOW = sys.argv[1]


async def work(approvals: LabToolApprovals, executed: list[Any]) -> dict[str, Any]:
    earlier = Agent(FunctionModel(lambda *_: ModelResponse(parts=[TextPart("hello")])))
    history = (await earlier.run("Hello.")).all_messages()

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == len(history) + 1:
            paths = [ToolCallPart("write", {"path": path}) for path in "abc"]
            return ModelResponse(parts=[ToolCallPart("write", '{"path": '), *paths])
        return ModelResponse(parts=[TextPart(repr(messages[-1]))])

    options: dict[str, Any] = {}
    if HOW == "handler":
        from pydantic_ai.capabilities import HandleDeferredToolCalls

        options = {"capabilities": [HandleDeferredToolCalls(handler=make_handler(approvals))]}
    agent = Agent(
        FunctionModel(model), output_type=[str, DeferredToolRequests], deps_type=list, retries=3, **options
    )

    @agent.tool(requires_approval=True)
    def write(ctx: RunContext[list[Any]], path: str) -> str:
        ctx.deps.append({"path": path})  # what is executed
        return f"wrote {path}"

    begun: dict[str, Any] = {
        "deps": executed,
        "message_history": history,
        "usage": RunUsage(requests=5),
        "usage_limits": UsageLimits(request_limit=20),
    }
    if HOW == "handler":
        result: Any = await agent.run("Write the three files.", **begun)
    else:
        result = await run(agent, "Write the three files.", approvals, **begun)
    usage = result.usage if isinstance(result.usage, RunUsage) else result.usage()
    messages = result.all_messages()
    return {
        "output": result.output,
        "requests": usage.requests,
        "begins": repr(messages[0].parts),
        "messages": repr(messages),
    }


run_in_space(work)
