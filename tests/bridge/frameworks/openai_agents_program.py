"""An agent of the OpenAI Agents SDK whose model asks for three calls that need an approval."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from space import run_in_space

from mew_lab.bridge.frameworks.openai_agents import run
from mew_lab.lab.tool_approvals import LabToolApprovals

set_tracing_disabled(True)


class ThreeCalls(Model):
    """Asks for three calls, then answers with all that it was told."""

    def __init__(self) -> None:
        self.asked = False

    async def get_response(self, *parts: Any, **named: Any) -> ModelResponse:
        if not self.asked:
            self.asked = True
            output: list[Any] = [
                ResponseFunctionToolCall(
                    type="function_call",
                    call_id=f"call-{path}",
                    name="write",
                    arguments=json.dumps({"path": path}),
                )
                for path in "abc"
            ]
        else:
            told = named.get("input") or parts[1]
            text = ResponseOutputText(type="output_text", text=json.dumps(told, default=str), annotations=[])
            output = [
                ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[text]
                )
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *parts: Any, **named: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def work(approvals: LabToolApprovals, executed: list[Any]) -> str:
    @function_tool(needs_approval=True)
    def write(path: str) -> str:
        """Writes a file."""
        executed.append({"path": path})
        return f"wrote {path}"

    return str(
        await run(Agent(name="writer", model=ThreeCalls(), tools=[write]), "Write three files.", approvals)
    )


run_in_space(work)
