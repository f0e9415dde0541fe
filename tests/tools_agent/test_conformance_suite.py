"""The server of a tools agent under the official MCP conformance suite in both eras: what it offers passes, the rest is a baseline.

The suite shows no token, so a small relay before the server adds it, and names the server by its own port.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from mew_lab.agent.model import Reply
from mew_lab.agent.models import FunctionModel
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.bridge.mcp_server import mcp_server
from mew_lab.errors import ModelFailed
from mew_lab.protocol.token import Token
from mew_lab.settings.documents import read_yaml
from mew_lab.tools_agent.agent_file import parse_agent
from mew_lab.tools_agent.home import Home

from ..agent.conftest import wants

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli" / "mcp_conformance"))

from suite import installed_suite, preview_of, run_suite

ODD = str(Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py")
BASELINE = Path(__file__).parent / "conformance_baseline.yml"
TOKEN = Token("canary-of-a-conforming-agent-0123456789")
NESTED = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"type": "object", "$ref": "#/$defs/address"}},
    "additionalProperties": False,
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
    "if": {"required": ["address"]},
    "then": {"required": ["name"]},
    "else": {"maxProperties": 1},
}
TOOLS = {
    "test_simple_text": {"type": "object"},
    "test_error_handling": {"type": "object"},
    "test_tool_with_progress": {"type": "object"},
    "json_schema_2020_12_tool": NESTED,
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def reply(messages: Any, tools: Any = ()) -> Reply:
    """What the model of these tools says: the prompt of a call is the tool's name."""
    asked = next(message.content for message in messages if message.role == "user")
    observed = [message for message in messages if message.role == "tool"]
    if "test_error_handling" in asked:
        raise ModelFailed("This tool intentionally returns an error for testing", model="suite")
    if "test_tool_with_progress" in asked and len(observed) < 3:
        return wants("odd/change", why=f"Step {len(observed) + 1} of 3.")
    return Reply("This is a simple text response for testing.")


@asynccontextmanager
async def relay(server: McpHttpServer) -> AsyncIterator[str]:
    """The address of a relay that shows the token of the server."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        names = {b"host", b"authorization"}
        host = (
            dict(scope["headers"]).get(b"host", b"").replace(f":{port}".encode(), f":{server.port}".encode())
        )
        kept = [(name, value) for name, value in scope["headers"] if name not in names]
        bearer = f"Bearer {TOKEN.reveal()}".encode()
        await server(
            {**scope, "headers": [*kept, (b"host", host), (b"authorization", bearer)]}, receive, send
        )

    config = uvicorn.Config(app, lifespan="off", log_level="error")
    running = uvicorn.Server(config)
    serving = asyncio.create_task(running.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.should_exit = True
        await serving


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_the_server_offers_passes_and_the_baseline_is_exact(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, revision: str
) -> None:
    suite = preview_of(installed_suite(tmp_path_factory.getbasetemp()))
    tools = [
        {"name": name, "description": "Of the suite.", "parameters": schema, "prompt": name}
        for name, schema in TOOLS.items()
    ]
    odd = {"command": sys.executable, "args": [ODD], "serverToolDefaults": {"permissionRequired": False}}
    agent = parse_agent(
        {"metadata": {"name": "Suite", "mode": "tools", "tools": tools}, "mcpServers": {"odd": odd}}
    )
    async with Home(agent, model=FunctionModel(reply)) as home:
        async with McpHttpServer(mcp_server(home.agent), token=TOKEN) as server, relay(server) as url:
            words = [*suite, "server", "--url", url, "--requirements", revision]
            checks = await asyncio.to_thread(run_suite, words, tmp_path / "results", timeout=500)
    failed = {scenario for scenario, _, status in checks if status == "FAILURE"}
    passed = {scenario for scenario, _, status in checks if status == "SUCCESS"} - failed
    baseline = read_yaml(BASELINE.read_text(encoding="utf-8"))
    assert isinstance(baseline, dict)
    # The folder of a scenario repeats its side.
    assert {name.removeprefix("server-") for name in failed} == set(baseline[revision]), passed
    assert len(passed) >= 7, passed
