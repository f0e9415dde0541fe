"""MCP with a process: plain payloads in both directions, and what is no MCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge.process import ServerProcess
from mew_lab.bridge.server_requests import ServerRequests
from mew_lab.bridge.session import McpSession, open_session
from mew_lab.sdk.tools import RpcError

from .conftest import ODD, alive, until


@asynccontextmanager
async def session(
    tmp_path: Path, mode: str = "good", methods: list[str] | None = None
) -> AsyncIterator[tuple[McpSession, ServerProcess, asyncio.Event]]:
    received, ended = methods if methods is not None else [], asyncio.Event()

    async def note(method: str, params: Mapping[str, Any]) -> None:
        received.append(method)

    process = ServerProcess(["python", str(ODD), mode], cwd=tmp_path)
    await process.start()

    async def warn(text: str) -> None:
        raise AssertionError(text)

    requests = ServerRequests(report=warn)
    async with open_session(process, on_notification=note, on_request=requests, at_end=ended.set) as opened:
        yield opened, process, ended
    await until(lambda: not alive(process.pid))


@pytest.mark.req("P-2.1-4", "P-3.1.2-3")
async def test_payloads_go_through_as_they_are(tmp_path: Path) -> None:
    async with session(tmp_path) as (opened, _, _):
        assert opened.initialized["serverInfo"] == {"name": "odd", "version": "1"}
        assert opened.initialized["capabilities"] == {"tools": {"listChanged": True}}
        assert await opened.request("tools/call", {"name": "odd", "arguments": {"a": None}}) == {
            "content": [{"type": "text", "text": "as it came", "annotations": None}],
            "x-own": {"a_b": None, "cD": 1},
            "_meta": {"k": 1},
        }
        page = await opened.request("tools/list", {"cursor": "3"})
        assert [tool["name"] for tool in page["tools"]] == ["sleep", "change"] and set(page) == {"tools"}
        assert set(page["tools"][0]) == {"name", "inputSchema"}


async def test_an_error_of_the_server_keeps_code_message_and_data(tmp_path: Path) -> None:
    async with session(tmp_path) as (opened, _, _):
        with pytest.raises(RpcError) as caught:
            await opened.request("resources/read", {"uri": "x:y"})
        assert caught.value.payload() == {
            "code": -32602,
            "message": "Unknown: resources/read",
            "data": {"why": None},
        }


async def test_notifications_are_told_by_their_method(tmp_path: Path) -> None:
    methods: list[str] = []
    async with session(tmp_path, methods=methods) as (opened, _, _):
        await opened.request("tools/call", {"name": "change"})
        await until(lambda: methods)
    assert methods == ["notifications/tools/list_changed"]


async def test_the_end_of_the_server_is_told_and_wakes_who_waits(tmp_path: Path) -> None:
    async with session(tmp_path) as (opened, process, ended):
        with pytest.raises(RpcError):
            await opened.request("tools/call", {"name": "die"})
        assert ended.is_set()
        assert await process.describe_end() == "ended (exit 3); its last lines: one line | the last words"


async def test_cancelling_a_request_does_not_end_the_session(tmp_path: Path) -> None:
    async with session(tmp_path, "noisy") as (opened, _, ended):
        asking = asyncio.ensure_future(opened.request("tools/call", {"name": "odd"}))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await opened.request("tools/list", {}))["tools"] and not ended.is_set()
