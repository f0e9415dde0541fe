"""Tools that the offline model is offered in tests: those of two real servers, and a mixed bag beside them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.agent.model import Message, Reply, ToolCall, ToolSpec
from mew_lab.agent.offline import OfflineModel
from mew_lab.bridge.process import ServerProcess
from mew_lab.bridge.server_requests import ServerRequests
from mew_lab.bridge.session import McpSession, open_session

SERVERS = {"git": "mcp_server_git", "clock": "mcp_server_time"}
STRING, NUMBER, INTEGER, BOOLEAN = ({"type": kind} for kind in ("string", "number", "integer", "boolean"))


def offered(name: str, description: str, required: str = "", /, **properties: Any) -> ToolSpec:
    """A tool; a property is its type or its whole schema."""
    shapes = {key: {"type": shape} if isinstance(shape, str) else shape for key, shape in properties.items()}
    return ToolSpec(name, description, {"type": "object", "properties": shapes, "required": required.split()})


WEATHER = offered("weather-service/get_weather", "Current weather for a city", "city", city="string")
MULTIPLY = offered("calculator/multiply", "Multiply two numbers", "a b", a="number", b="number")
BAG = (
    WEATHER._replace(
        parameters={
            "type": "object",
            "properties": {
                "city": STRING,
                "units": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
        }
    ),
    offered(
        "weather-service/get_forecast",
        "Weather forecast for the next days",
        "city",
        city="string",
        days={"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
    ),
    MULTIPLY,
    offered("calculator/add", "Add two numbers", "a b", a="number", b="number"),
    offered("calculator/subtract", "Subtract b from a", "a b", a="number", b="number"),
    offered("calculator/divide", "Divide a by b", "a b", a="number", b="number"),
    offered("files/read_file", "Read the contents of a file", "path", path="string"),
    offered("files/write_file", "Write text to a file", "path content", path="string", content="string"),
    offered(
        "files/list_directory",
        "List the entries of a directory",
        "path",
        path="string",
        recursive="boolean",
        include_hidden="boolean",
    ),
    offered("files/delete_file", "Delete a file", "path", path="string"),
    offered(
        "files/move_file",
        "Move or rename a file",
        "source destination",
        source="string",
        destination="string",
    ),
    offered("web/search", "Search the web", "query", query="string", max_results="integer"),
    offered("web/fetch", "Fetch a web page", "url", url={"type": "string", "format": "uri"}),
    offered(
        "desk/create_ticket",
        "Create a new ticket",
        "title",
        title="string",
        description="string",
        priority={"type": "string", "enum": ["low", "medium", "high"]},
    ),
    offered(
        "desk/list_tickets",
        "List tickets",
        status={"type": "string", "enum": ["open", "closed"]},
        assignee="string",
        limit="integer",
    ),
    offered("desk/close_ticket", "Close a ticket", "ticket_id", ticket_id="string"),
    offered("desk/get_ticket", "Show one ticket", "ticket_id", ticket_id="string"),
    offered(
        "post/send_email",
        "Send an email",
        "to subject body",
        to={"type": "string", "format": "email"},
        subject="string",
        body="string",
    ),
    offered(
        "words/translate",
        "Translate text into another language",
        "text target_language",
        text="string",
        target_language="string",
    ),
    offered(
        "bank/convert_currency",
        "Convert an amount between currencies",
        "amount from_currency to_currency",
        amount="number",
        from_currency={"type": "string", "description": "ISO 4217 code"},
        to_currency={"type": "string", "description": "ISO 4217 code"},
    ),
)


class Served(NamedTuple):
    """What the real servers offer, and a turn that was served with them."""

    tools: tuple[ToolSpec, ...]
    calls: list[ToolCall]
    observations: list[str]
    answer: str


def a_repository(folder: Path) -> Path:
    """A git repository whose one commit was made at 09:30 two hours east of Greenwich."""
    place = folder / "garden"
    place.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "Gardener", f"GIT_{who}_EMAIL": "gardener@example.org"}
        env |= {f"GIT_{who}_DATE": "2026-03-02T09:30:00+0200"}
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "Plant the roses"]):
        subprocess.run(["git", *words], cwd=place, env=env, check=True, stdin=subprocess.DEVNULL)
    return place


def serve(folder: Path, request: str) -> Served:
    """One turn of the offline model with the real servers; `{repo}` in the request is the repository."""

    async def turn() -> Served:
        async def ignore(_: str, __: Mapping[str, Any]) -> None:
            pass

        async def report(_: str) -> None:
            pass

        sessions: dict[str, McpSession] = {}
        specs: list[ToolSpec] = []
        async with AsyncExitStack() as stack:
            processes = {
                who: ServerProcess(["python", "-m", name], cwd=folder) for who, name in SERVERS.items()
            }
            await asyncio.gather(*(process.start() for process in processes.values()))
            for who, process in processes.items():
                opened = open_session(
                    process,
                    on_notification=ignore,
                    on_request=ServerRequests(report=report),
                    at_end=lambda: None,
                )
                sessions[who] = await stack.enter_async_context(opened)
                for tool in (await sessions[who].request("tools/list", {}))["tools"]:
                    specs.append(ToolSpec(f"{who}/{tool['name']}", tool["description"], tool["inputSchema"]))

            async def call(asked: ToolCall) -> str:
                who, _, name = asked.name.partition("/")
                result = await sessions[who].request(
                    "tools/call", {"name": name, "arguments": dict(asked.arguments)}
                )
                text = "\n".join(block.get("text", "") for block in result["content"])
                return f"Error: {text}" if result.get("isError") else text

            observations: list[str] = []

            async def observed(asked: ToolCall) -> str:
                observations.append(await call(asked))
                return observations[-1]

            calls, answer = await served(request.format(repo=a_repository(folder)), specs, observed)
            return Served(tuple(specs), calls, observations, answer)

    return asyncio.run(turn())


async def served(request: str, tools: Sequence[ToolSpec], observed: Any) -> tuple[list[ToolCall], str]:
    """The calls that a request leads to and the answer. `observed` tells what each call gives: a text for all, a
    mapping by tool, or a function that is awaited."""
    model = OfflineModel()
    messages = [Message("system", "You take part."), Message("user", request)]
    calls: list[ToolCall] = []
    for _ in range(12):
        reply: Reply = await model.reply(messages, tools=tools)
        if not reply.tool_calls:
            return calls, reply.text
        (asked,) = reply.tool_calls
        calls.append(asked)
        if isinstance(observed, str):
            observation = observed
        elif isinstance(observed, Mapping):
            observation = observed.get(asked.name, "done")
        else:
            observation = await observed(asked)
        messages += [
            Message("assistant", reply.reasoning, tool_calls=(asked,)),
            Message("tool", observation, tool_call_id=asked.id),
        ]
    raise AssertionError(f"no answer after {len(calls)} calls")
