"""An MCP server of the official library with every feature that a bridge passes on.

The arguments are the eras that it speaks (`both`, `legacy`, `modern`, or `answering`: modern, but it answers
`initialize` with its own revision in place of an error) and its transport (`stdio`, `http` or `sse`). A
server over HTTP prints its address as its first line.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any, cast

import anyio
import mcp.server.stdio
import uvicorn
from mcp import types
from mcp.server.apps import client_supports_apps
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from pydantic import BaseModel, Field

ERA = sys.argv[1] if len(sys.argv) > 1 else "both"
TRANSPORT = sys.argv[2] if len(sys.argv) > 2 else "stdio"
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
async def hold(ctx: Context, path: str) -> str:
    """Reports its progress, and ends once there is that file."""
    await ctx.report_progress(2, 4, "downloading")
    while not await anyio.Path(path).exists():  # noqa: ASYNC110 (another process makes it)
        await anyio.sleep(0.05)
    return "held"


@server.tool()
async def grow(ctx: Context, name: str = "added", says: bool = True) -> str:
    """Gets one tool more, and says so."""
    server.add_tool(lambda: "new", name=name, annotations=types.ToolAnnotations(read_only_hint=True))
    if not says:
        return "grown"
    await ctx.notify_tools_changed()
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def shows_pages(ctx: Context) -> bool:
    """Whether its client can show pages of MCP Apps."""
    return client_supports_apps(ctx)


@server.resource("full://note")
def note() -> str:
    """A note."""
    return "a note"


@server.resource("full://notes/{name}")
def named_note(name: str) -> str:
    """The note of a name."""
    return f"the note {name}"


@server.tool()
async def write(ctx: Context, text: str) -> str:
    """Writes the note, and says so."""
    await ctx.notify_resource_updated("full://note")
    if ctx.protocol_version != "2026-07-28" and "full://note" in subscribed:
        await ctx.session.send_resource_updated("full://note")
    return text


@server.tool()
async def log(ctx: Context, times: int, text: str) -> str:
    """Sends log messages."""
    for _ in range(times):
        await ctx.info({"text": text})
    return "logged"


class Order(BaseModel):
    """What a person is asked."""

    size: int = Field(ge=1, le=9)
    note: str = ""


def ask_order(what: str) -> Elicit[Order]:
    return Elicit(f"How many {what}?", Order)


@server.tool()
async def order(what: str, answer: Annotated[ElicitationResult[Order], Resolve(ask_order)]) -> str:
    """Asks the person how many."""
    return (
        f"{answer.action} {answer.data.size} {answer.data.note}"
        if answer.action == "accept"
        else answer.action
    )


class Parcel(BaseModel):
    """What a person is asked next."""

    ribbons: int


def ask_parcel(first: Annotated[ElicitationResult[Order], Resolve(ask_order)]) -> Elicit[Parcel]:
    return Elicit(f"How many ribbons, after {first.action}?", Parcel)


@server.tool()
async def wrap(what: str, answer: Annotated[ElicitationResult[Parcel], Resolve(ask_parcel)]) -> str:
    """Asks the person twice, one question after the other."""
    return f"{what} with {answer.data.ribbons} ribbons" if answer.action == "accept" else answer.action


def ask_model(text: str) -> Sample:
    content = types.TextContent(type="text", text=text)
    return Sample(
        [types.SamplingMessage(role="user", content=content)], max_tokens=50, system_prompt="Be brief."
    )


@server.tool()
async def summarise(text: str, reply: Annotated[types.CreateMessageResult, Resolve(ask_model)]) -> str:
    """Asks the model of the client."""
    return f"{reply.model}: {cast(Any, reply.content).text}"


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def folders(found: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> str:
    """Asks which folders it may know."""
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def sign_in(ctx: Context) -> types.InputRequiredResult | str:
    """Asks the person to open an address."""
    url = "https://login.example.org/start?id=7"
    if ctx.protocol_version != "2026-07-28":
        return (await ctx.elicit_url("Please sign in.", url, "e-1")).action
    if ctx.input_responses:
        assert ctx.request_state == "state of the server"
        return cast(types.ElicitResult, ctx.input_responses["sign"]).action
    asked = types.ElicitRequest(
        params=types.ElicitRequestURLParams(message="Please sign in.", url=url, elicitation_id="e-1")
    )
    return types.InputRequiredResult(input_requests={"sign": asked}, request_state="state of the server")


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=[f"{argument.value}!"], has_more=False)


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
            if ERA == "answering" and message.get("method") == "initialize":
                info = {"name": "full", "version": "2"}
                answer = {"protocolVersion": "2026-07-28", "capabilities": {}, "serverInfo": info}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
            elif message.get("method") == refused:
                error = {"code": -32601, "message": f"Method not found: {refused}"}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
            else:
                yield line


subscribed: set[str] = set()


async def subscribe(ctx: Any, params: Any) -> types.EmptyResult:
    subscribed.add(params.uri)
    return types.EmptyResult()


async def unsubscribe(ctx: Any, params: Any) -> types.EmptyResult:
    subscribed.discard(params.uri)
    return types.EmptyResult()


async def set_level(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


low = server._lowlevel_server
if ERA not in ("modern", "answering"):
    low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
    low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)


async def serve_stdio() -> None:
    async with mcp.server.stdio.stdio_server(cast(Any, Lines()), anyio.wrap_file(sys.stdout)) as (
        reader,
        writer,
    ):
        await low.run(reader, writer, low.create_initialization_options())


async def serve_http(transport: str) -> None:
    app = server.streamable_http_app() if transport == "http" else server.sse_app()

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        sent = dict(scope.get("headers") or {})
        if scope["type"] == "http" and sent.get(b"authorization") != b"Bearer full-secret-0123456789":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
        else:
            await app(scope, receive, send)

    listening = socket.create_server(("127.0.0.1", 0))
    print(
        f"http://127.0.0.1:{listening.getsockname()[1]}/{'mcp' if transport == 'http' else 'sse'}", flush=True
    )
    config = uvicorn.Config(checked, log_level="error", timeout_graceful_shutdown=0)
    await uvicorn.Server(config).serve(sockets=[listening])


asyncio.run(serve_stdio() if TRANSPORT == "stdio" else serve_http(TRANSPORT))
