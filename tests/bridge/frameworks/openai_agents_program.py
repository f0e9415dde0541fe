"""An agent of the OpenAI Agents SDK whose model asks for three calls that need an approval, and for one that is no JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import (
    Agent,
    MaxTurnsExceeded,
    Model,
    ModelResponse,
    RunContextWrapper,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from space import run_in_space

from mew_lab.bridge.frameworks.openai_agents import run
from mew_lab.lab.tool_approvals import LabToolApprovals

set_tracing_disabled(True)
BROKEN = '{"path": '


class FourCalls(Model):
    """Asks for four calls, then answers with all that it was told."""

    def __init__(self) -> None:
        self.asked = False

    async def get_response(self, *parts: Any, **named: Any) -> ModelResponse:
        if not self.asked:
            self.asked = True
            written = [BROKEN, *(json.dumps({"path": path}) for path in "abc")]
            output: list[Any] = [
                ResponseFunctionToolCall(
                    type="function_call", call_id=f"call-{n}", name="write", arguments=arguments
                )
                for n, arguments in enumerate(written)
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


async def work(approvals: LabToolApprovals, executed: list[Any]) -> dict[str, Any]:
    # Without its error function, a tool that is executed with broken JSON would end the run.
    @function_tool(needs_approval=True, failure_error_function=None)
    def write(context: RunContextWrapper[list[Any]], path: str) -> str:
        """Writes a file."""
        context.context.append({"path": path})  # what is executed
        return f"wrote {path}"

    session = SQLiteSession("files")
    agent = Agent(name="writer", model=FourCalls(), tools=[write])
    result = await run(agent, "Write three files.", approvals, context=executed, session=session, max_turns=2)
    kept = await session.get_items()
    limited = False
    try:
        await run(Agent(name="writer", model=FourCalls(), tools=[write]), "Again.", approvals, max_turns=0)
    except MaxTurnsExceeded:
        limited = True
    return {"output": result.final_output, "kept": json.dumps(kept, default=str), "limited": limited}


run_in_space(work)
