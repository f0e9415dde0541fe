"""An MCP client uses a space as its server: what it calls waits for a person, and is on record.

The client is the official Python one. `gate.settings("codex")` and `mew-lab mcp --config codex` show what to paste into
the settings of a coding agent; `--help` names the others.
"""

import asyncio

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import mew_lab

lab = mew_lab.up("example", journal=None)


@lab.tool(seat=lab.join("garden", can="tool"))
def water(bed: str, litres: int) -> str:
    """Waters a bed."""
    return f"{bed} got {litres} litres"


async def use_as_server(url: str, token: str) -> None:
    """Lists the tools of the space and calls one, as any MCP client does."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as web,
        Client(streamable_http_client(url, http_client=web)) as client,
    ):
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        answer = await client.call_tool("garden_water", {"bed": "north", "litres": 10})
        print("answer:", answer.content[0].text)


gate = lab.serve_mcp("coder")
lab.decide = mew_lab.Policy.approve()  # stands for you; in a notebook each call is a card
asyncio.run(use_as_server(gate.url, gate.token_file.read_text().strip()))
print(lab.history())
lab.down()
