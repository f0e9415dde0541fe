"""An ACP agent over stdio, by the official library, that does what the lines of a prompt say.

    say TEXT, think TEXT            a piece of its words, of its thoughts
    call ID TITLE | STATUS          a tool call in that state
    plan TEXT=STATUS; …             its plan
    update JSON                     any update of the session
    ask JSON                        a permission request with these members; it then says the outcome
    big N                           a permission request with so many characters of input
    asks N JSON                     the same N times; it then says the median of their milliseconds
    later JSON                      the same, after the turn
    raw JSON                        any line on its output
    usage USED SIZE, tokens N       what its context has taken; what the answer of the turn counts
    use TOOL JSON                   calls a tool of its MCP server, with these arguments
    may TOOL JSON                   asks for permission to do so first, as Claude does, and does so where that is given
    allow TOOL JSON                 asks for that permission alone
    wait                            goes on until it is cancelled
    deaf                            goes on for ever
    flood N                         so many pieces, tool calls and updates of an unknown kind
    fail TEXT, die TEXT, stop REASON    the ends of a turn
    client METHOD JSON              any request to the client; it says and notes the result, or the code and the error
    together N METHOD JSON          so many of these at once; it says how often which outcome came
    fs                              says what it may do with files
    environment NAME                says a variable

Its words `config`, `mode=…`, `sessions`, `no-load`, `late`, `slow`, `version`, `login`, `chatty` set what else it does.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import acp
from acp.schema import (
    AgentCapabilities,
    ListSessionsResponse,
    NewSessionResponse,
    PromptResponse,
    SessionInfo,
)

WORDS = sys.argv[1:]
MODES = ["default", "yolo"]
KEPT = Path(os.environ["ACP_KEPT"]) if "ACP_KEPT" in os.environ else None


def modes(current: str) -> Any:
    return {
        "currentModeId": current,
        "availableModes": [{"id": mode, "name": mode.title()} for mode in MODES],
    }


@contextlib.asynccontextmanager
async def connect(server: Any) -> Any:
    """The official client of an MCP server of the session."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    if not hasattr(server, "url"):
        env = {one.name: one.value for one in server.env}
        start = StdioServerParameters(command=server.command, args=server.args, env=env)
        async with Client(stdio_client(start)) as client:
            yield client
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {header.name: header.value for header in server.headers}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(server.url, http_client=http)) as client:
            yield client


async def use(server: Any, tool: str, arguments: dict[str, Any]) -> str:
    """What a tool of an MCP server answers."""
    async with connect(server) as client:
        names = [one.name for one in (await client.list_tools()).tools if one.name.endswith(tool)]
        return str((await client.call_tool(names[0], arguments)).content[0].text)


class Agent(acp.Agent):
    def __init__(self) -> None:
        self.client: Any = None
        self.cancelled = asyncio.Event()
        self.mode = next((word[5:] for word in WORDS if word.startswith("mode=")), "yolo")
        self.made = 0
        self.later: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **kwargs: Any) -> Any:
        self.fs = client_capabilities.fs
        if "slow" in WORDS:
            await asyncio.Event().wait()
        if "chatty" in WORDS:
            sys.stdout.write("Welcome to the agent\n")
            sys.stdout.flush()
        able = {"list": {}, "resume": {}, "close": {}} if "sessions" in WORDS else {}
        capabilities = AgentCapabilities.model_validate(
            {
                "loadSession": "no-load" not in WORDS,
                "sessionCapabilities": able,
                "mcpCapabilities": {"http": "http" in WORDS},
            }
        )
        methods = [{"id": "browser", "name": "Sign in with a browser"}] if "login" in WORDS else []
        return acp.InitializeResponse.model_validate(
            {
                "protocolVersion": 9 if "version" in WORDS else protocol_version,
                "agentCapabilities": capabilities,
                "authMethods": methods,
            }
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **kwargs: Any) -> NewSessionResponse:
        if "login" in WORDS:
            raise acp.RequestError.auth_required()
        self.made += 1
        self.servers = mcp_servers or []
        return NewSessionResponse.model_validate(
            {"sessionId": f"s{os.getpid()}-{self.made}", "modes": modes(self.mode), **self.config("small")}
        )

    def config(self, model: str) -> dict[str, Any]:
        values = [{"value": name, "name": name.title()} for name in ("small", "large")]
        option = {"id": "model", "name": "Model", "type": "select", "currentValue": model, "options": values}
        return {"configOptions": [option]} if "config" in WORDS else {}

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **kwargs: Any) -> Any:
        from acp.schema import SetSessionConfigOptionResponse

        return SetSessionConfigOptionResponse.model_validate(self.config(value))

    async def load_session(self, cwd: str, session_id: str, **kwargs: Any) -> Any:
        await self.update(session_id, "user_message_chunk", content=acp.text_block("What is here?"))
        await self.update(session_id, "agent_message_chunk", content=acp.text_block("A garden."))
        call = {"toolCallId": "old", "title": "rm -rf old", "status": "completed"}
        await self.update(session_id, "tool_call", **call)
        await self.update(session_id, "current_mode_update", currentModeId="default")
        await self.update(session_id, "usage_update", used=50_000, size=100_000)
        await self.update(session_id, "agent_message_chunk", content=acp.text_block("<b>\u202e"))
        return acp.LoadSessionResponse.model_validate({"modes": modes(self.mode)})

    async def resume_session(self, cwd: str, session_id: str, **kwargs: Any) -> Any:
        from acp.schema import ResumeSessionResponse

        return ResumeSessionResponse.model_validate({"modes": modes(self.mode)})

    async def list_sessions(self, **kwargs: Any) -> ListSessionsResponse:
        return ListSessionsResponse(sessions=[SessionInfo(session_id="old", cwd="/", title="The garden")])

    async def close_session(self, session_id: str, **kwargs: Any) -> None:
        self.note("closed")

    async def set_session_mode(self, session_id: str, mode_id: str, **kwargs: Any) -> None:
        self.mode = mode_id

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        self.cancelled.set()

    def note(self, what: str) -> None:
        if KEPT is not None:
            with KEPT.open("a") as file:
                file.write(what + "\n")

    async def update(self, session: str, what: str, /, **members: Any) -> None:
        members = {
            name: value.model_dump(mode="json", by_alias=True, exclude_none=True)
            if hasattr(value, "model_dump")
            else value
            for name, value in members.items()
        }
        update = {"sessionUpdate": what, **members}
        await self.client._conn.send_notification("session/update", {"sessionId": session, "update": update})

    async def say(self, session: str, text: str) -> None:
        await self.update(session, "agent_message_chunk", content=acp.text_block(text))

    async def ask(self, session: str, params: dict[str, Any]) -> None:
        asked = {"sessionId": session, "toolCall": {"toolCallId": "t"}, **params}
        try:
            got = await self.client._conn.send_request("session/request_permission", asked)
            told = json.dumps(got["outcome"], sort_keys=True)
        except acp.RequestError as refusal:
            told = f"refused: {refusal}"
        self.note(told)
        await self.say(session, told)

    async def request(self, session: str, method: str, text: str) -> str:
        try:
            got = await self.client._conn.send_request(
                method, {"sessionId": session, **json.loads(text.replace("CWD", str(Path.cwd())))}
            )
            told = json.dumps(got)
        except acp.RequestError as refusal:
            told = json.dumps({"code": refusal.code, "error": str(refusal)})
        self.note(told)
        return told

    async def may(self, session: str, tool: str, arguments: dict[str, Any]) -> bool:
        """Whether it is given permission for a call of a tool, which it shows as Claude does."""
        title = f"mcp__{self.servers[0].name}__{tool}"
        call = {"toolCallId": "u", "title": title, "kind": "other", "rawInput": arguments}
        kinds = ("allow_once", "allow_always", "reject_once")
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
        asked = {"sessionId": session, "toolCall": call, "options": options}
        got = await self.client._conn.send_request("session/request_permission", asked)
        return str(got["outcome"].get("optionId", "")).startswith("allow")

    async def prompt(self, prompt: Any, session_id: str, **kwargs: Any) -> PromptResponse:
        self.cancelled.clear()
        more: dict[str, Any] = {}
        for line in "".join(block.text for block in prompt).splitlines():
            word, _, rest = line.partition(" ")
            match word:
                case "say":
                    await self.say(session_id, rest)
                case "think":
                    await self.update(session_id, "agent_thought_chunk", content=acp.text_block(rest))
                case "call":
                    head, _, status = rest.partition(" | ")
                    id, _, title = head.partition(" ")
                    kind = "tool_call" if status == "pending" else "tool_call_update"
                    call = {"toolCallId": id, "title": title, "kind": "execute", "status": status}
                    await self.update(session_id, kind, **call)
                case "plan":
                    pairs = [entry.strip().split("=") for entry in rest.split(";")]
                    entries = [{"content": what, "status": how, "priority": "low"} for what, how in pairs]
                    await self.update(session_id, "plan", entries=entries)
                case "update":
                    await self.client._conn.send_notification(
                        "session/update", {"sessionId": session_id, "update": json.loads(rest)}
                    )
                case "ask":
                    await self.ask(session_id, json.loads(rest))
                case "asks":
                    count, _, rest = rest.partition(" ")
                    asked = {"sessionId": session_id, **json.loads(rest)}
                    taken = []
                    for _ in range(int(count)):
                        began = time.perf_counter()
                        await self.client._conn.send_request("session/request_permission", asked)
                        taken.append(1000 * (time.perf_counter() - began))
                    await self.say(session_id, str(statistics.median(taken)))
                case "big":
                    call = {"toolCallId": "b", "title": "big", "rawInput": "x" * int(rest)}
                    options = [{"optionId": "once", "name": "Yes", "kind": "allow_once"}]
                    await self.ask(session_id, {"toolCall": call, "options": options})
                case "later":
                    task = asyncio.create_task(self.ask(session_id, json.loads(rest)))
                    self.later.add(task)
                case "raw":
                    text = rest.replace("SESSION", session_id).replace("\\n", "\n")  # several lines at once
                    sys.stdout.buffer.write(text.encode() + b"\n")
                    sys.stdout.buffer.flush()
                case "usage":
                    used, size = map(int, rest.split())
                    await self.update(session_id, "usage_update", used=used, size=size)
                case "tokens":
                    total = int(rest)
                    more = {"usage": {"totalTokens": total, "inputTokens": total, "outputTokens": 0}}
                case "wait":
                    await self.cancelled.wait()
                    return PromptResponse(stop_reason="cancelled")
                case "use" | "may" | "allow":
                    tool, _, given = rest.partition(" ")
                    arguments = json.loads(given or "{}")
                    may = word == "use" or await self.may(session_id, tool, arguments)
                    if may and word != "allow":
                        await self.say(session_id, await use(self.servers[0], tool, arguments))
                case "deaf":
                    await asyncio.Event().wait()
                case "flood":
                    for at in range(int(rest)):
                        await self.say(session_id, "x" * 20)
                        await self.update(
                            session_id, "tool_call", toolCallId=f"c{at}", title="t", status="completed"
                        )
                        await self.update(session_id, "unknown_kind", value=at)
                case "fail":
                    raise acp.RequestError.internal_error({"details": rest or "the beans are gone"})
                case "die":
                    print(rest or "the shed is on fire", file=sys.stderr, flush=True)
                    os._exit(3)
                case "stop":
                    return PromptResponse.model_validate({"stopReason": rest})
                case "client":
                    await self.say(session_id, await self.request(session_id, *rest.split(" ", 1)))
                case "together":
                    count, method, text = rest.split(" ", 2)
                    asked = [self.request(session_id, method, text) for _ in range(int(count))]
                    told = collections.Counter(await asyncio.gather(*asked))
                    await self.say(session_id, json.dumps(told))
                case "fs":
                    await self.say(session_id, f"{self.fs.read_text_file} {self.fs.write_text_file}")
                case "environment":
                    await self.say(session_id, str(os.environ.get(rest)))
            if self.cancelled.is_set():
                return PromptResponse(stop_reason="cancelled")
        return PromptResponse.model_validate({"stopReason": "end_turn", **more})


asyncio.run(acp.run_agent(Agent(), use_unstable_protocol=True))
