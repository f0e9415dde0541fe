"""An MCP client, the official one in Python, that does what a client scenario of the MCP conformance suite asks for.

`python suite_client.py [--through FOLDER] URL`: with a folder it connects through a recorded tap, and ends with an error where the tap
changed a byte. The journal of the tap is written to the folder.
"""

import asyncio
import os
import sys
import uuid
from pathlib import Path

import mcp.types as t
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

sys.path.insert(0, str(Path(__file__).parent))

from recorded import difference, tapped

ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}


async def fill_in(_context, params):
    """Accepts a form with its defaults."""
    properties = params.requested_schema["properties"]
    filled = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return t.ElicitResult(action="accept", content=filled)


async def call_everything(url):
    """Opens a session and calls each tool once."""
    async with (
        streamable_http_client(url) as (reading, writing),
        ClientSession(reading, writing, elicitation_callback=fill_in) as session,
    ):
        await session.initialize()
        for tool in (await session.list_tools()).tools:
            await session.call_tool(tool.name, ARGUMENTS.get(tool.name, {}))


def main():
    *options, url = sys.argv[1:]
    if not options:
        asyncio.run(call_everything(url))
        return 0
    name = f"{os.environ['MCP_CONFORMANCE_SCENARIO']}-{uuid.uuid4().hex[:8]}.jsonl"
    with tapped(url, Path(options[1]) / name) as there:
        asyncio.run(call_everything(there.url))
    changed = difference(there)
    print(changed, file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
