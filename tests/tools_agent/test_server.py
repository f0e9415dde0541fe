"""The agent as an MCP server, asked by the real MCP client over each transport."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from mew_lab.agent.model import Reply
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.bridge.mcp_server import mcp_server
from mew_lab.protocol.token import Token
from mew_lab.settings.documents import write_yaml
from mew_lab.tools_agent.agent_file import save_agent_file

from ..agent.conftest import Script, until, wants
from ..agent.llm_server import ChatServer, called, refused, text_answer
from .conftest import ASK, Site, described

ROOT = Path(__file__).resolve().parents[2]
ODD = Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py"
FILE = {
    "metadata": {
        "name": "Desk",
        "version": "3.1.0",
        "description": "A desk.",
        "mode": "tools",
        "tools": [ASK],
    },
    "settings": {"model": "m", "toolPermission": "tool"},
    "mcpServers": {
        "odd": {
            "command": "python",
            "args": [str(ODD)],
            "serverToolDefaults": {"permissionRequired": False},
            "tools": {"die": {"permissionRequired": True}},
        }
    },
}
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("MEW_", "OPENAI_"))},
    "PYTHONPATH": str(ROOT),
    "A_KEY": "k" * 20,
}


def command(file: Path, *more: str) -> list[str]:
    return ["-m", "mew_lab.cli", "tools-agent", "serve", str(file), *more]


TOKEN = Token("canary-of-a-served-agent-0123456789")
BEARER = {"Authorization": f"Bearer {TOKEN.reveal()}"}


def served(desk: Any, **how: Any) -> McpHttpServer:
    return McpHttpServer(mcp_server(desk), token=TOKEN, **how)


@asynccontextmanager
async def client_of(server: McpHttpServer, **how: Any) -> AsyncIterator[Any]:
    """The MCP client, showing the token."""
    async with httpx2.AsyncClient(headers=BEARER, timeout=30) as web:
        async with Client(streamable_http_client(server.url, http_client=web), **how) as client:
            yield client


@asynccontextmanager
async def over(transport: str, site: Site, desk: Any) -> AsyncIterator[Any]:
    """Something that answers `list_tools` and `call_tool` as the MCP client does."""
    if transport == "http":
        async with served(desk) as server, client_of(server, mode="legacy") as client:
            yield client
    elif transport == "http, modern":
        async with served(desk) as server, client_of(server) as client:
            yield client
    else:
        async with Client(mcp_server(desk), mode="legacy") as client:
            yield client


@pytest.mark.req("T-1", "T-3", "T-7", "T-9", "T-10")
async def test_a_client_over_stdio_initializes_lists_and_calls(tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text(write_yaml(FILE), encoding="utf-8")
    script = [
        called(("c1", "odd_change", "{}")),
        text_answer("It has changed."),
        refused(500, "the server is ill"),
    ]
    async with ChatServer(script) as model:
        words = command(file, "--base-url", model.url, "--key-env", "A_KEY")
        parameters = StdioServerParameters(command=sys.executable, args=words, env=ENVIRONMENT)
        async with Client(parameters, mode="legacy") as client:
            initialized = client.session.initialize_result
            assert (initialized.server_info.name, initialized.server_info.version) == ("Desk", "3.1.0")
            assert initialized.instructions == "A desk."
            (tool,) = (await client.list_tools()).tools
            assert (tool.name, tool.description, tool.input_schema) == (
                ASK["name"], ASK["description"], ASK["parameters"],
            )  # fmt: skip
            done = await client.call_tool("ask", {"what": "x"})
            assert (done.content[0].text, done.is_error) == ("It has changed.", False)
            ill = await client.call_tool("ask", {"what": "x"})
            assert ill.is_error and "500" in ill.content[0].text
            wrong = await client.call_tool("ask", {"who": "x"})
            assert wrong.is_error and "arguments" in wrong.content[0].text
            with pytest.raises(MCPError, match="Unknown tool: other"):
                await client.call_tool("other", {})
    offered = [tool["function"]["name"] for tool in model.bodies[0]["tools"]]
    assert "odd_change" in offered and "odd_die" not in offered
    assert model.bodies[1]["messages"][-1]["content"] == "changed"


async def test_a_client_of_the_modern_era_is_served_over_stdio_and_stdout_holds_the_protocol_alone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "desk.json"
    file.write_text(json.dumps(FILE | {"settings": {"model": "offline"}, "mcpServers": {
        "far": {"type": "internal"}}}), encoding="utf-8")  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command(file), env=ENVIRONMENT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": meta}},
    ]
    try:
        process.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in asked))
        await process.stdin.drain()
        answers = {}
        for _ in asked:
            answer = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
            answers[answer["id"]] = answer["result"]
        assert [tool["name"] for tool in answers[2]["tools"]] == ["ask"]
        assert answers[1]["instructions"] == "A desk."
        process.send_signal(signal.SIGTERM)  # while stdin is open
        out, err = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 0 and out == b""
        assert b"mcpServers.far.type: a server of type internal is not started" in err
    finally:
        if process.returncode is None:
            process.kill()


@pytest.mark.req("T-1", "T-3")
@pytest.mark.parametrize("transport", ["in memory", "http", "http, modern"])
async def test_each_transport_gives_what_the_space_gives(site: Site, transport: str) -> None:
    def look(place: str) -> str:
        return f"seen {place}"

    await site.tool("eye", look)
    turns = [wants("eye/look", {"place": "shed"}), Reply("In the shed.")]
    desk = await site.desk(Script(*turns, *turns), described())
    human = await site.seat("human")
    entries = await human.list_tools("desk")
    in_space = await human.mcp_request("desk", {"method": "initialize", "params": {}})
    result = await human.call("desk/ask", {"what": "the spade"})
    async with over(transport, site, desk) as client:
        listed = [
            {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "_meta": tool.meta,
            }
            for tool in (await client.list_tools()).tools
        ]
        assert listed == entries
        if transport != "http, modern":
            over_transport = client.session.initialize_result
            assert over_transport.server_info.model_dump(exclude_none=True) == in_space["serverInfo"]
            assert over_transport.instructions == in_space["instructions"]
        done = await client.call_tool("ask", {"what": "the spade"})
        assert [block.text for block in done.content] == [result.text] == ["In the shed."]
        assert done.is_error is result.raw["isError"] is False
    assert desk.executor.sessions == {}


@pytest.mark.parametrize("transport", ["memory", "http", "http, modern"])
async def test_a_client_gets_the_schema_of_results_and_data_that_fit_it(site: Site, transport: str) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    model = Script(Reply('{"count": 2}'), Reply("two"), Reply("two"))
    desk = await site.desk(model, described({**ASK, "outputSchema": schema}))
    async with over(transport, site, desk) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.output_schema == schema
        # The client of the library itself checks the data against the schema.
        done = await client.call_tool("ask", {"what": "x"})
        assert done.structured_content == {"count": 2} and json.loads(done.content[0].text) == {"count": 2}
        failed = await client.call_tool("ask", {"what": "x"})
        assert failed.is_error and failed.structured_content is None


@pytest.mark.parametrize("transport", ["in memory", "http", "http, modern"])
async def test_the_steps_of_a_call_are_its_progress(site: Site, transport: str) -> None:
    def look(place: str) -> str:
        return f"seen {place}"

    await site.tool("eye", look)
    turns = [wants("eye/look", {"place": str(n)}, why=f"step {n}") for n in (1, 2)]
    desk = await site.desk(Script(*turns, Reply("Seen.")))
    progress: list[tuple[float, float | None, str | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async with over(transport, site, desk) as client:
        result = await client.call_tool("ask", {"what": "x"}, progress_callback=note)
        assert result.content[0].text == "Seen."
        await until(lambda: len(progress) == 2)
    assert progress == [(1, None, "step 1"), (2, None, "step 2")]


@pytest.mark.parametrize("transport", ["memory", "http, modern"])
async def test_a_client_goes_on_with_a_session_by_the_context_of_its_result(
    site: Site, transport: str
) -> None:
    model = Script(Reply("A spade."), Reply("In the shed."))
    desk = await site.desk(model)
    async with over(transport, site, desk) as client:
        first = await client.call_tool("ask", {"what": "one"})
        again = {"mew-lab/context": first.meta["mew-lab/context"]}
        assert (await client.call_tool("ask", {"what": "two"}, meta=again)).content[0].text == "In the shed."
        lost = await client.call_tool("ask", {"what": "x"}, meta={"mew-lab/context": "nobody's"})
        assert lost.is_error and "no session" in lost.content[0].text
    assert [message.content for message in model.asked[1][1:]] == [
        "Please find out: one", "A spade.", "Please find out: two",
    ]  # fmt: skip


async def test_a_client_of_the_handshake_era_is_notified_of_another_definition(site: Site) -> None:
    desk = await site.desk(Script())
    changed = asyncio.Event()

    async def note(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            changed.set()

    async with served(desk) as server, client_of(server, mode="legacy", message_handler=note) as client:
        assert client.session.initialize_result.capabilities.tools.list_changed
        await client.list_tools()
        desk.replace(described({**ASK, "name": "tell"}))
        await asyncio.wait_for(changed.wait(), 10)
        assert [tool.name for tool in (await client.list_tools()).tools] == ["tell"]


async def test_a_client_of_the_modern_era_is_notified_on_its_subscription(site: Site) -> None:
    desk = await site.desk(Script())
    async with served(desk) as server, client_of(server) as client:
        async with client.listen(tools_list_changed=True) as events:
            desk.replace(described({**ASK, "name": "tell"}))
            async with asyncio.timeout(10):
                async for event in events:
                    assert type(event).__name__ == "ToolsListChanged"
                    break
        assert [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools] == ["tell"]


async def test_a_served_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    whole = FILE | {"settings": {"model": "offline"}, "mcpServers": {}}
    file.write_text(write_yaml(whole), encoding="utf-8")
    changed = asyncio.Event()

    async def note(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            changed.set()

    parameters = StdioServerParameters(command=sys.executable, args=command(file), env=ENVIRONMENT)
    async with Client(parameters, mode="legacy", message_handler=note) as client:
        await client.list_tools()
        file.write_text("metadata: {name: ", encoding="utf-8")  # an editor that writes in two steps
        metadata = FILE["metadata"] | {"tools": [{**ASK, "name": "tell"}]}  # type: ignore[operator]
        save_agent_file(whole | {"metadata": metadata}, file)
        await asyncio.wait_for(changed.wait(), 20)
        assert [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools] == ["tell"]


@pytest.mark.req("T-8")
async def test_two_clients_at_once_have_sessions_of_their_own_over_http(site: Site) -> None:
    both = asyncio.Event()

    class Slow(Script):
        async def reply(self, messages: Any, **how: Any) -> Reply:
            self.asked.append(list(messages))
            if len(self.asked) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 10)
            return Reply(messages[-1].content)

    desk = await site.desk(Slow())
    async with served(desk) as server:
        async with client_of(server) as first, client_of(server) as second:
            results = await asyncio.gather(
                first.call_tool("ask", {"what": "a"}), second.call_tool("ask", {"what": "b"})
            )
    assert [done.content[0].text for done in results] == ["Please find out: a", "Please find out: b"]
    contexts = {done.meta["mew-lab/context"] for done in results}
    assert len(contexts) == 2


@pytest.mark.parametrize(
    "headers", [{"Host": "example.org"}, {"Origin": "http://example.org"}], ids=["host", "origin"]
)
async def test_over_http_other_hosts_and_web_pages_are_refused(site: Site, headers: dict[str, str]) -> None:
    desk = await site.desk(Script())
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "ask", "arguments": {"what": "x"}},
    }
    wanted = {"Accept": "application/json, text/event-stream", **headers}
    async with served(desk) as server, httpx.AsyncClient() as web:
        answer = await web.post(server.url, json=asked, headers=wanted)
        assert answer.status_code in (403, 421)
    assert desk.executor.sessions == {} and site.sent("reasoning/start") == []


async def test_the_server_ends_quietly_while_clients_are_connected(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    desk = await site.desk(Script())
    server = served(desk)
    async with server, httpx.AsyncClient(headers=BEARER) as web:
        headers = {"Accept": "application/json, text/event-stream"}
        first = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        }  # fmt: skip
        session = (await web.post(server.url, json=first, headers=headers)).headers["mcp-session-id"]
        listening = web.stream("GET", server.url, headers={**headers, "mcp-session-id": session})
        async with listening as stream:
            assert stream.status_code == 200
            await asyncio.wait_for(server.__aexit__(), 10)
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", server.port)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_call_whose_client_goes_away_is_ended(site: Site) -> None:
    async def never() -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    model = Script(never)
    desk = await site.desk(model)
    async with served(desk) as server:
        async with httpx.AsyncClient(headers=BEARER) as web:
            asked = {
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "ask", "arguments": {"what": "x"}, "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {}}},
            }  # fmt: skip
            headers = {
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28", "MCP-Method": "tools/call", "MCP-Name": "ask",
            }  # fmt: skip
            running = asyncio.create_task(web.post(server.url, json=asked, headers=headers, timeout=30))
            await until(lambda: running.done() or model.asked)
            assert not running.done(), running.result().text
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await until(lambda: not desk.executor.sessions)
