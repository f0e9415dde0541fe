"""Lists of tools in a lab: long ones are whole, failed ones are told, and its seats ask for all of them at once."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mew_lab.lab.lab import Lab
from mew_lab.protocol.envelope import MAX_MESSAGE
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import RpcError

from .looking import eventually

SERVER = """
import json, sys
TOOLS = [
    {"name": f"tool-{n}", "description": "d" * 2600,
     "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "description": "e" * 2600}}}}
    for n in range(344)
]
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if "id" not in asked:
        continue
    answer = {}
    if method == "initialize":
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "many", "version": "1"}}}
    elif method == "tools/list":
        answer = {"result": {"tools": TOOLS}}
    elif method == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": asked["params"]["name"]}]}}
    else:
        answer = {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def test_a_list_longer_than_a_message_is_whole_for_the_person_an_agent_and_a_client_of_a_gate(
    lab: Lab, tmp_path: Path
) -> None:
    program = tmp_path / "many.py"
    program.write_text(SERVER)
    lab.bridge("ms", [sys.executable, str(program)])
    listed = lab.tools()
    assert len(listed) == 344 and listed.note == ""
    texts = [record.raw or "" for record in lab.log.records]
    assert max(map(len, texts)) <= MAX_MESSAGE
    assert sum("mew-lab-page" in text and '"mcp/response"' in text for text in texts) == 1  # the first of two
    gate = lab.serve_mcp("coder")

    async def list_tools() -> int:
        token = gate.token_file.read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            async with Client(streamable_http_client(gate.url, http_client=http)) as client:
                return len((await client.list_tools()).tools)

    assert asyncio.run(list_tools()) == 346


class Lister:
    """Answers the request for its tools with an error, or never."""

    def __init__(self, fault: Exception | None) -> None:
        self.fault = fault

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if self.fault is not None:
            raise self.fault
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("fault", "says", "note"),
    [
        (None, "No tools are known", "no answer from other"),
        (RpcError(-32000, "the list is broken"), "No tools are known", "other did not list its tools: "),
        (RpcError(-32601, "Method not found"), "No tools yet", ""),
    ],
)
def test_an_error_in_place_of_a_list_is_told_as_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, fault: Exception | None, says: str, note: str
) -> None:
    monkeypatch.setattr("mew_lab.lab.lab.DISCOVERY", 0.3)
    host = lab.local.own_host("test")

    async def seat() -> None:
        host.enrol("other", "tool")
        await MEWParticipant(host.client_for("other"), tools=Lister(fault)).start()

    lab.loop.run(seat(), timeout=10, doing="seating")
    eventually(lambda: "other" in lab.me.participant.client.participants)
    listed = lab.tools()
    assert len(listed) == 0 and listed.empty.startswith(says) and listed.note.startswith(note)
    if isinstance(fault, RpcError) and note:
        assert fault.message in listed.note
    assert bool(listed.note) == bool(note)


def test_an_agent_of_a_lab_knows_the_tools_of_twenty_as_soon_as_those_of_one(lab: Lab) -> None:
    for n in range(20):
        seat = lab.join(f"p{n}", can="tool")
        seat.participant.tools.add(lambda: "pong", name="ping", description="Answers.")
    begun = time.perf_counter()
    agent = lab.agent("helper", model="offline")
    discovery = agent.participant.discovery
    eventually(lambda: len(discovery.get_available_tools()) >= 20)
    assert time.perf_counter() - begun < 10  # with growing pauses between the requests it is 20 s
