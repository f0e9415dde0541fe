"""Tools that a server runs only as tasks: a bridge runs them so, and where it cannot, nobody is offered them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcp import Client

from mew_lab.bridge.mcp import McpBridge
from mew_lab.errors import ToolFailed
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Site, until
from .desk import Desk, text

SERVER = Path(__file__).parent / "task_server.py"


async def bridge(site: Site, notes: Path, *more: str) -> McpBridge:
    return await site.bridge(["python", str(SERVER), str(notes), *more], name="lab")


async def test_a_tool_that_requires_a_task_is_called_as_any_other(
    desk: Desk, tmp_path: Path, mode: str
) -> None:
    notes = tmp_path / "notes"
    await bridge(desk.site, notes)
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        assert {"lab_research", "lab_plain"} <= {tool.name for tool in (await client.list_tools()).tools}
        for tool, result in (("lab_research", "found"), ("lab_plain", "false")):
            call = asyncio.create_task(client.call_tool(tool, {}))
            await desk.human.approve(await desk.proposed())
            assert text(await call) == result
    assert notes.read_text().split()[-3:] == ["tools/call", "tasks/result", "tools/call"]
    [listed, _] = await desk.human.list_tools("lab")
    assert "execution" not in listed


async def test_a_task_that_fails_is_a_failed_call_and_one_whose_caller_is_gone_is_cancelled(
    site: Site, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    made = await bridge(site, notes)
    human = await site.seat("human")
    with pytest.raises(ToolFailed, match="found"):
        await human.call("lab/research", {"fails": True})
    call = asyncio.create_task(
        made.answer("tools/call", {"name": "research", "arguments": {"forever": True}})
    )
    await until(lambda: notes.read_text().split().count("tasks/result") == 2)
    call.cancel()
    await until(lambda: "tasks/cancel" in notes.read_text())


async def test_a_task_whose_caller_is_gone_before_its_id_is_known_is_cancelled(
    site: Site, tmp_path: Path
) -> None:
    notes, file = tmp_path / "notes", tmp_path / "go"
    made = await bridge(site, notes)
    arguments = {"forever": True, "waits_for": str(file)}
    call = asyncio.create_task(made.answer("tools/call", {"name": "research", "arguments": arguments}))
    await until(lambda: "tools/call" in notes.read_text())
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    file.touch()
    await until(lambda: "tasks/cancel" in notes.read_text())


async def test_a_tool_whose_server_has_no_tasks_is_offered_to_nobody_and_named(
    desk: Desk, tmp_path: Path, mode: str
) -> None:
    await bridge(desk.site, tmp_path / "notes", "silent")
    ann: MEWParticipant = await desk.site.seat("ann")
    await ann.discovery.discover_tools("lab")
    assert [tool.name for tool in ann.discovery.get_available_tools()] == ["plain"]
    why = ann.discovery.get_discovery_status()["lab"].error
    assert why == "tools left out: 1 that run only as a task, which nothing here can start (such as research)"
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "lab_plain" in names and "lab_research" not in names
