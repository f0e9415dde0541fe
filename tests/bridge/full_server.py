"""An MCP server of the official library with every feature that a bridge passes on.

The arguments are the eras that it speaks (`both`, `legacy` or `modern`) and its transport (`stdio`, `http` or `sse`). A
server over HTTP prints its address as its first line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import mcp.server.stdio
from mcp.server.mcpserver import Context, MCPServer

ERA = sys.argv[1] if len(sys.argv) > 1 else "both"
server = MCPServer("full", version="2", instructions="Ask me anything.")


@server.tool()
async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@server.tool()
async def steps(ctx: Context) -> str:
    """Reports its progress in three steps."""
    for done in (1, 2, 3):
        await ctx.report_progress(done, 3, f"step {done}")
    return "done"


@server.tool()
async def grow(ctx: Context) -> str:
    """Gets one tool more, and says so."""
    server.add_tool(lambda: "new", name="added")
    await ctx.notify_tools_changed()
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.resource("full://note")
def note() -> str:
    """A note."""
    return "a note"


@server.resource("full://notes/{name}")
def named_note(name: str) -> str:
    """The note of a name."""
    return f"the note {name}"


@server.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


class Lines:
    """The lines of stdin; a server of one era refuses what opens the session of the other one."""

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await asyncio.to_thread(sys.stdin.readline):
            message = json.loads(line)
            refused = {"legacy": "server/discover", "modern": "initialize"}.get(ERA)
            if message.get("method") == refused:
                error = {"code": -32601, "message": f"Method not found: {refused}"}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
            else:
                yield line


async def serve_stdio() -> None:
    low = server._lowlevel_server
    async with mcp.server.stdio.stdio_server(cast(Any, Lines()), anyio.wrap_file(sys.stdout)) as (
        reader,
        writer,
    ):
        await low.run(reader, writer, low.create_initialization_options())


asyncio.run(serve_stdio())
