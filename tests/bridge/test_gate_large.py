"""Results that no message can hold, for a client of a gate: the whole where it can take it, else where it is kept."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client, MCPError, types

from mew_lab.bridge import kept_for_clients
from mew_lab.protocol.permit import PROFILES

from .desk import Desk
from .test_kept_results import HEAVY, files

pytestmark = pytest.mark.ruling("R43")


def first_text(result: types.CallToolResult) -> str:
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


@pytest.fixture
async def state(desk: Desk, tmp_path: Path) -> Callable[[], Path]:
    """The folder of a bridged server that gives results of any size."""
    await desk.site.bridge(["python", "-c", SERVER], name="files", state=lambda: tmp_path)
    return lambda: tmp_path


def server_of(shape: str) -> str:
    """The program of a server that answers each call with that expression of Python, of so many bytes as `size`."""
    head, rest = HEAVY.read_text().split("if __name__", 1)
    return f"{head}def shape(name, size):\n    return {shape}\n\n\nif __name__{rest}"


SERVER = server_of('json.dumps({"content": [{"type": "text", "text": "x" * size}], "isError": False})')


async def test_the_client_gets_the_whole(desk: Desk, state: Callable[[], Path], mode: str) -> None:
    async with desk.gate(PROFILES["human"]) as gate, Client(gate.server, mode=mode) as client:
        result = await client.call_tool("files_text", {"size": 3_000_000})
        assert len(first_text(result)) == 3_000_000 and not result.is_error
    assert len(files(state())) == 1


async def test_what_is_too_large_for_clients_is_named_and_read_in_parts(
    desk: Desk, state: Callable[[], Path], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_for_clients, "MAX_WHOLE", 2_000_000)
    monkeypatch.setattr(kept_for_clients, "PART", 1_000_000)
    async with desk.gate(PROFILES["human"]) as gate, Client(gate.server, mode=mode) as client:
        result = await client.call_tool("files_text", {"size": 2_500_000})
        assert result.is_error and first_text(result).startswith(
            "It was executed; the result is kept as mew://files/mew-r"
        )
        uri = str(result.content[1].uri)  # type: ignore[union-attr]
        [path] = files(state())
        path.rename(path.with_suffix(".away"))
        with pytest.raises(MCPError, match="0 bytes came"):
            await client.read_resource(f"{uri}?part=1")
        path.with_suffix(".away").rename(path)
        data = b""
        for part in (1, 2, 3):
            [content] = (await client.read_resource(f"{uri}?part={part}")).contents
            data += base64.b64decode(content.blob)  # type: ignore[union-attr]
        assert json.loads(data)["content"][0]["text"] == "x" * 2_500_000
        for wrong, why in [
            (uri, "read it in parts"),
            (f"{uri}?part=4", "read it in parts"),
            (f"{uri}0", "no result"),
        ]:
            with pytest.raises(MCPError, match=why):
                await client.read_resource(wrong)


async def test_one_that_cannot_be_loaded_was_executed_all_the_same(
    desk: Desk, state: Callable[[], Path], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.kept_results.MOST_READ", 100)
    async with desk.gate(PROFILES["human"]) as gate, Client(gate.server, mode=mode) as client:
        result = await client.call_tool("files_text", {"size": 2_500_000})
        assert result.is_error and "It was executed; the result is kept as" in first_text(result)
        assert "at most 100 are read" in first_text(result)


DEEP = server_of(
    """'{"content":[{"type":"text","text":"' + "x" * size + '"}],"x":' + '{"a":' * 800 + "1" + "}" * 801"""
)


async def test_a_result_that_is_nested_too_deeply_ends_its_call(
    desk: Desk, tmp_path: Path, mode: str
) -> None:
    await desk.site.bridge(["python", "-c", DEEP], name="files", state=lambda: tmp_path)
    async with desk.gate(PROFILES["human"]) as gate, Client(gate.server, mode=mode) as client:
        async with asyncio.timeout(30):
            result = await client.call_tool("files_text", {"size": 1_500_000})
    assert result.is_error
    assert re.match(r"(files/text was executed|It was executed)", first_text(result))
