"""A program with a space, a noisy server bridged into it, and a gate with a client that is none: it prints nothing.

python -m tests.bridge.quiet_program
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from mcp import Client, MCPError

from mew_lab.bridge.gate import McpGate
from mew_lab.errors import MewError
from mew_lab.protocol.permit import PROFILES

from .conftest import Site
from .noisy_server import WORDS

NOISY = Path(__file__).parent / "noisy_server.py"


class OddLists:
    """Lists what no client may be sent."""

    async def answer(self, method: str, params: Any) -> Any:
        schemas: list[Any] = [{"properties": 7}, {"required": WORDS}, {"$schema": 7}, {"type": WORDS}]
        tools = [{"name": f"t{n}", "inputSchema": schema} for n, schema in enumerate(schemas)]
        tools.append({"name": "hints", "inputSchema": {}, "annotations": {"readOnlyHint": WORDS}})
        if method == "tools/list":
            return {"tools": tools}
        return {"resources": [{"uri": 7}], "prompts": [{"name": [WORDS]}], "resourceTemplates": [{}]}


async def main() -> None:
    site = Site()
    try:
        await site.bridge(["python", str(NOISY)])
        human = await site.seat("human")
        for n in range(3):
            with contextlib.suppress(MewError):
                await human.call("git/noise", {"n": n})
        odd = site.prepare("odd", "tool", tools=OddLists())
        odd.client.on_error(lambda _: None)
        await odd.start()
        gate = McpGate(site.prepare("coder", [*PROFILES["human"], {"kind": "mcp/request"}]))
        faults: list[str] = []
        gate.participant.client.on_error(lambda fault: faults.append(str(fault)))
        async with gate:
            for mode in ("legacy", "auto"):
                async with Client(gate.server, mode=mode) as client:
                    names = {tool.name for tool in (await client.list_tools()).tools}
                    assert {"proposal_result", "odd_t3"} <= names, names
                    for ask in (client.list_resources, client.list_prompts, client.list_resource_templates):
                        await ask()
                    with contextlib.suppress(MCPError):
                        await client.call_tool("git_noise", {"n": mode}, read_timeout_seconds=5)
        print(json.dumps(faults))
    finally:
        await site.close()


if __name__ == "__main__":
    asyncio.run(main())
