"""Uses the tools of others: lists what a model may be offered, and makes one call.

Whatever becomes of a call is an observation in words: a result, the tool's error, a rejection, a right that is
gone, nobody's answer. Nothing of it is raised, because a model shall decide what follows. Discovery and the
choice between request and proposal are the participant's.

Spec: SDK "Tool Preparation and Namespacing", "Error Handling in ReAct Loop".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mew_lab.agent.delivery import is_paused, ready_to_send
from mew_lab.agent.memory import shortened
from mew_lab.agent.model import ToolCall, ToolSpec
from mew_lab.errors import MewError
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.results import ToolResult

__all__ = ["ERROR", "Gate", "execute_tool_call", "offered"]

Gate = Callable[[str, Mapping[str, Any] | None], str]
"""Says why a tool may not be used, by its name alone or with these arguments; nothing where it may."""

ERROR = "Error: "
MAX_TOOLS = 128  # what the usual APIs take
MAX_DESCRIPTION = 2000


def offered(participant: MEWParticipant, *, gate: Gate | None = None) -> list[ToolSpec]:
    """The tools that a model is shown: those of others that may be called, or proposed, by name, and pass the gate.

    Spec: SDK "Tool Preparation and Namespacing".
    """
    specs = []
    for tool in participant.discovery.get_available_tools():
        payload = {"method": "tools/call", "params": {"name": tool.name}}
        if tool.participant == participant.client.id or not any(
            participant.can_send(kind, payload, tool.participant) for kind in ("mcp/request", "mcp/proposal")
        ):
            continue
        if gate is not None and gate(f"{tool.participant}/{tool.name}", None):
            continue
        said = shortened(tool.description.strip(), MAX_DESCRIPTION)
        described = f"{said} (tool of {tool.participant})" if said else f"A tool of {tool.participant}"
        specs.append(ToolSpec(f"{tool.participant}/{tool.name}", described, tool.input_schema))
    return sorted(specs, key=lambda spec: spec.name)[:MAX_TOOLS]


async def execute_tool_call(
    participant: MEWParticipant,
    call: ToolCall,
    *,
    known: Sequence[ToolSpec],
    about: Sequence[str],
    timeout: float | None,
    limit: int,
    gate: Gate | None = None,
) -> str:
    """Makes the call and waits for its end; what came of it, in words of at most about `limit` characters.

    Cancelled while it waits, it takes the call back: a proposal is withdrawn.
    """
    names = [tool.name for tool in known]
    if call.fault:
        return f"{ERROR}{one_line(call.name, 120)} was not called: {one_line(call.fault, 500)}"
    if call.name not in names:
        some = ", ".join(names[:20]) or "none"
        return f"{ERROR}there is no tool {one_line(call.name, 120)}. Tools here: {some}"
    if gate is not None and (refused := gate(call.name, call.arguments)):
        return shortened(f"{ERROR}{refused}", limit)
    while True:
        open_call: Call | None = None
        try:
            open_call = participant.call(call.name, call.arguments, timeout=timeout, correlation_id=about)
            return shortened(mask(_told(await open_call)), limit)
        except asyncio.CancelledError:
            if open_call is not None:
                await asyncio.shield(_taken_back(open_call))
            raise
        except MewError as fault:
            if not is_paused(fault):
                return shortened(mask(f"{ERROR}{fault}"), limit)
        except Exception as fault:  # a model of one's own may give arguments that are no JSON
            return f"{ERROR}{one_line(call.name, 120)} was not called: {one_line(mask(str(fault)), 300)}"
        await ready_to_send(participant)  # nothing was done: it is asked for anew after the pause


async def _taken_back(call: Call) -> None:
    try:
        await call.withdraw("cancelled")
    except MewError:  # it ended meanwhile, or the connection did
        pass


def _told(result: Any) -> str:
    if isinstance(result, ToolResult):
        others = [
            f"[{one_line(str(block.get('type')), 40)}]" for block in result.content if "text" not in block
        ]
        return "\n".join([one for one in (result.text, " ".join(others)) if one]) or "(no output)"
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
