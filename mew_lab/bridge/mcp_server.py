"""Serves MCP clients: an `McpSurface` as a server of the MCP library, and any such server over stdio.

An `McpSurface` answers requests; this module adds the transport-independent server (`mcp_server`) and the stdio
transport (`serve_stdio`). `mcp_http` has HTTP. Both forms of the protocol are supported: with a handshake, and
stateless. The surface checks arguments and writes the sentences of errors, because the library does neither. stdout
carries only the protocol.

Spec: tools-agent.md "MCP Server Project", TA-51 to TA-54.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

import mcp.server.stdio
from mcp import MCPError, types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server

from mew_lab.bridge.announcements import AnnouncingServer, ListAnnouncer
from mew_lab.bridge.client_results import misfit
from mew_lab.bridge.delivery import STDIO_ANSWERS
from mew_lab.bridge.early_answers import EarlyAnswers, write_all
from mew_lab.bridge.library_log import quiet_library, warn_rarely
from mew_lab.bridge.stdio import StdinChunks, StdoutLines
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.progress import OnProgress
from mew_lab.sdk.signal import Signal
from mew_lab.sdk.tools import RpcError

__all__ = ["MAX_REQUEST", "McpSurface", "mcp_server", "run_on_stdio", "serve_stdio"]

MAX_REQUEST = 4 * 1024 * 1024  # bytes of one request
LAST_ANSWERS = 5.0  # seconds for what is not yet written when the client has closed stdin


class McpSurface(Protocol):
    """An object that is served to MCP clients as a server with tools.

    `changed` is called with `tools` when the list of tools has changed.
    """

    changed: Signal[str]

    def initialized(self) -> Mapping[str, Any]:
        """The answer to `initialize`: `serverInfo`, and `instructions` where there are any."""

    async def answer(
        self, method: str, params: Mapping[str, Any], *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """The result of `tools/list` or `tools/call`.

        Args:
            on_progress: awaited with each step of a call.

        Raises:
            RpcError: becomes the error of the response.
        """


def mcp_server(surface: McpSurface) -> Server[Any]:
    """The surface as a server of the MCP library, to be run over any of its transports. Spec: T-1, T-3, TA-18."""
    quiet_library()
    announcer = ListAnnouncer()

    async def list_tools(ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        if ctx.session.client_params is not None:  # else it is of a later era, and listens
            announcer.note(ctx.session, "tools", since=announcer.count("tools"))
        listed = (await surface.answer("tools/list", {}))["tools"]
        odd = {
            str(tool["name"]): why
            for tool in listed
            if (why := misfit("tools/list", tool, ctx.protocol_version))
        }
        for name, why in odd.items():
            warn_rarely("misfit", f"tool {one_line(name, 80)} is left out, because of {why}")
        return types.ListToolsResult.model_validate(
            {"tools": [tool for tool in listed if tool["name"] not in odd]}
        )

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            result = await surface.answer(
                "tools/call",
                params.model_dump(by_alias=True, mode="json", exclude_unset=True),
                on_progress=ctx.session.report_progress,
            )
        except RpcError as fault:
            raise MCPError(fault.code, fault.message, data=fault.data) from None
        return types.CallToolResult.model_validate(result)

    surface.changed.add(lambda _: announcer.announce("tools"))
    initialized = surface.initialized()
    return AnnouncingServer(
        initialized["serverInfo"]["name"],
        version=initialized["serverInfo"]["version"],
        instructions=initialized.get("instructions"),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=announcer.listen,
    )


async def serve_stdio(
    server: Server[Any], *, ended: asyncio.Event, early: EarlyAnswers | None = None
) -> None:
    """Serves one client on stdin and stdout until it closes one of them; `ended` and `early` as `run_on_stdio`."""

    async def serve(reader: Any, writer: Any) -> None:
        await server.run(reader, writer, server.create_initialization_options())

    await run_on_stdio(serve, ended=ended, early=early)


async def run_on_stdio(
    serve: Callable[[Any, Any], Awaitable[None]], *, ended: asyncio.Event, early: EarlyAnswers | None = None
) -> None:
    """Has `serve` read the messages of one client and answer it, until that closes stdin or stdout or `ended` is set.

    A client that has closed stdin gets the answers that it still reads. Meanwhile, all printed output of this process
    goes to stderr.

    Args:
        early: what has read stdin and answered some requests until now; None where nothing has.
    """

    lines, written = _RequestLines(early), _AnswerLines(early)

    async def work() -> None:
        streams = mcp.server.stdio.stdio_server(stdin=cast(Any, lines), stdout=cast(Any, written))
        async with streams as (reader, writer):
            await serve(reader, writer)

    async def wait_for_end() -> None:
        await lines.ended.wait()
        await asyncio.sleep(LAST_ANSWERS)

    loop = asyncio.get_running_loop()
    serving = loop.create_task(work())
    tasks = {serving, *map(loop.create_task, (ended.wait(), written.lost.wait(), wait_for_end()))}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        written.close()
    if not serving.cancelled() and (fault := serving.exception()) is not None:
        raise fault


class _RequestLines(StdinChunks):
    """The lines of stdin."""

    def __init__(self, early: EarlyAnswers | None) -> None:
        super().__init__(None if early is None else early.read)
        self._rest = b""

    def __aiter__(self) -> _RequestLines:
        return self

    async def __anext__(self) -> str:
        while b"\n" not in self._rest:
            data = await self.take()
            if not data or len(self._rest) > MAX_REQUEST:
                raise StopAsyncIteration
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", errors="replace") + "\n"


class _AnswerLines(StdoutLines):
    """Writes lines to stdout, and notes each that the operating system has taken."""

    def __init__(self, early: EarlyAnswers | None) -> None:
        self._early = early
        if early is not None:
            early.end()
        STDIO_ANSWERS.serves = True
        super().__init__(self._write_line)

    async def write(self, line: str) -> None:
        """Writes one line; returns when the operating system has taken it, and never once the stream is `lost`.

        A client that reads slowly holds up nothing else.
        """
        await self.post(line)
        STDIO_ANSWERS.note_sent(line)

    def _write_line(self, descriptor: int, line: str) -> None:
        if self._early is None:
            write_all(descriptor, line.encode())
        elif not self._early.take_answer(line):
            self._early.write(line.encode(), descriptor)

    async def flush(self) -> None:
        """Does nothing: a line is written when `write` returns."""

    def close(self) -> None:
        """Gives stdout back."""
        STDIO_ANSWERS.serves = False
        super().close()
