"""One tool that cannot be listed is left out by its name, and takes no other tool from a client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import uvicorn
from mcp import Client, types
from mcp.server.lowlevel import Server

from mew_lab.bridge.mcp_server import mcp_server
from mew_lab.sdk.signal import Signal

from .conftest import ODD, Site, until
from .desk import Desk

pytestmark = pytest.mark.threat(52)


async def test_a_tool_of_a_bridged_server_that_no_message_can_hold_costs_no_other(
    desk: Desk, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    bridge = await desk.site.bridge(["python", str(ODD), "lists_unsendable"], name="odd")
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        await until(lambda: gate.participant.discovery.get_discovery_status()["odd"].state == "completed")
        names = {tool.name for tool in (await client.list_tools()).tools}
    # Two of them fit into a message each, and not into one.
    assert {"calc_add", "odd_env", "odd_die", "odd_half", "odd_other"} <= names and "odd_large" not in names
    assert {tool.name for tool in bridge.listed.tools} >= {"env", "die", "half", "other"}
    with caplog.at_level("INFO", logger="mew_lab"):
        await desk.human.list_tools("odd")
    assert "tools left out, because no message can hold them: large" in caplog.text


class Surface:
    """Offers two tools, of which one has annotations that MCP does not know."""

    def __init__(self) -> None:
        self.changed: Signal[str] = Signal()

    def initialized(self) -> dict[str, Any]:
        return {"serverInfo": {"name": "a surface", "version": "1"}}

    async def answer(
        self, method: str, params: Mapping[str, Any], *, on_progress: Any = None
    ) -> dict[str, Any]:
        schema = {"type": "object"}
        bad = {"name": "bad", "inputSchema": schema, "annotations": {"readOnlyHint": "perhaps"}}
        return {"tools": [bad, {"name": "good", "inputSchema": schema}]}


async def test_a_bad_tool_of_a_surface_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    for mode in ("legacy", "auto"):
        async with Client(mcp_server(Surface()), mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["good"]
    assert "tool bad is left out, because of" in caplog.text


class Mirror:
    """A server of the latest revision whose one tool tells the header that its argument came in, beside a bad tool."""

    def __init__(self) -> None:
        low: Server[Any] = Server("mirror", on_list_tools=self.list_tools, on_call_tool=self.call_tool)
        self.app = low.streamable_http_app(json_response=True, stateless_http=True)
        self.header = ""

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        region = {"type": "string", "x-mcp-header": "Region"}
        good = types.Tool(name="good", input_schema={"type": "object", "properties": {"region": region}})
        hints = types.ToolAnnotations(read_only_hint=True)
        return types.ListToolsResult(
            tools=[good, types.Tool(name="bad", input_schema={"type": "object"}, annotations=hints)]
        )

    async def call_tool(self, context: Any, params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=self.header)])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.header = dict(scope.get("headers") or {}).get(b"mcp-param-region", b"").decode()

        async def spoiled(message: Any) -> None:
            body = message.get("body", b"").replace(b'"readOnlyHint":true', b'"readOnlyHint":"xx"')
            await send({**message, "body": body} if body else message)

        await self.app(scope, receive, spoiled)


@contextlib.asynccontextmanager
async def served(mirror: Mirror) -> AsyncIterator[str]:
    """The address of the server, over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(mirror, log_level="error", timeout_graceful_shutdown=0))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await running


async def test_a_tool_that_the_library_does_not_know_takes_no_header_from_another(site: Site) -> None:
    async with served(Mirror()) as url:
        await site.bridge(url)
        human = await site.seat("human")
        assert [tool["name"] for tool in await human.list_tools("git")] == ["good", "bad"]
        assert (await human.call("git/good", {"region": "north"})).text == "north"
