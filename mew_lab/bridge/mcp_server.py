"""Serves MCP clients: an `McpSurface` as a server of the MCP library, and any such server over stdio.

An `McpSurface` answers requests; this module adds the transport-independent server (`mcp_server`) and the stdio
transport (`serve_stdio`). `mcp_http` has HTTP. Both forms of the protocol are supported: with a handshake, and
stateless. The surface checks arguments and writes the sentences of errors, because the library does neither. stdout
carries only the protocol.

Spec: tools-agent.md "MCP Server Project", TA-51 to TA-54.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Mapping
from typing import Any, Protocol, cast

import mcp.server.stdio
from mcp import MCPError, types
from mcp.server.lowlevel import Server

from mew_lab.sdk.tools import RpcError

__all__ = ["MAX_REQUEST", "McpSurface", "mcp_server", "serve_stdio"]

MAX_REQUEST = 4 * 1024 * 1024  # bytes of one request
CHUNK = 1 << 16


class McpSurface(Protocol):
    """An object that is served to MCP clients as a server with tools."""

    def initialized(self) -> Mapping[str, Any]:
        """The answer to `initialize`: `serverInfo`, and `instructions` where there are any."""

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of `tools/list` or `tools/call`.

        Raises:
            RpcError: becomes the error of the response.
        """


def mcp_server(surface: McpSurface) -> Server[Any]:
    """The surface as a server of the MCP library, to be run over any of its transports. Spec: T-1, T-3."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate(await surface.answer("tools/list", {}))

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            result = await surface.answer("tools/call", {"name": params.name, "arguments": params.arguments})
        except RpcError as fault:
            raise MCPError(fault.code, fault.message, data=fault.data) from None
        return types.CallToolResult.model_validate(result)

    initialized = surface.initialized()
    return Server(
        initialized["serverInfo"]["name"],
        version=initialized["serverInfo"]["version"],
        instructions=initialized.get("instructions"),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(server: Server[Any], *, ended: asyncio.Event) -> None:
    """Serves one client on stdin and stdout, until it closes stdin or `ended` is set.

    Meanwhile, all printed output of this process goes to stderr.
    """

    async def serve() -> None:
        lines = cast(Any, _StdinLines(0))
        async with mcp.server.stdio.stdio_server(stdin=lines) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    loop = asyncio.get_running_loop()
    serving, ending = loop.create_task(serve()), loop.create_task(ended.wait())
    try:
        await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (serving, ending):
            task.cancel()
        await asyncio.gather(serving, ending, return_exceptions=True)
    if not serving.cancelled() and (fault := serving.exception()) is not None:
        raise fault


class _StdinLines:
    """The lines of a file descriptor, read by a daemon thread, so that shutdown never waits for a blocked read."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._rest = b""
        descriptor = os.dup(descriptor)
        threading.Thread(target=self._read, args=(descriptor,), name="mew-lab-stdin", daemon=True).start()

    def _read(self, descriptor: int) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: the loop is closed
            while data := os.read(descriptor, CHUNK):
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, data)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._chunks.put_nowait, b"")

    def __aiter__(self) -> _StdinLines:
        return self

    async def __anext__(self) -> str:
        while b"\n" not in self._rest:
            data = await self._chunks.get()
            if not data or len(self._rest) > MAX_REQUEST:
                raise StopAsyncIteration
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", errors="replace") + "\n"
