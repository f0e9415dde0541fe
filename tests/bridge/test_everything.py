"""The reference server of MCP, `server-everything` from npm, behind a bridge, over all its transports."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge.server_requests import ASKING
from mew_lab.errors import MewError
from mew_lab.protocol.elicitation import CREATE_MESSAGE, ELICIT
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES

from .conftest import Site, until
from .real_servers import npm_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def everything() -> list[str]:
    """The command of the server."""
    return npm_server("@modelcontextprotocol/server-everything")


@pytest.mark.parametrize(("kind", "path"), [("stdio", ""), ("streamableHttp", "mcp"), ("sse", "sse")])
async def test_the_reference_server_is_passed_on(
    site: Site, everything: list[str], kind: str, path: str
) -> None:
    server, command = None, [*everything, kind]
    if path:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = {**os.environ, "PORT": str(port)}
        server = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        if path:
            await _connected(site, f"http://127.0.0.1:{port}/{path}")
        else:
            await site.bridge(command, can=PROFILES["tool"])
        human = await site.seat("human")
        notes: Counter[str] = Counter()

        def note(one: Envelope) -> None:
            notes[str(one.payload.get("method"))] += 1

        human.client.on_message(note)

        async def ask(method: str, **params: Any) -> Any:
            return await human.mcp_request("git", {"method": method, "params": params})

        assert set((await ask("initialize"))["capabilities"]) == {
            *("tools", "resources", "prompts", "completions", "logging")
        }
        assert (await human.call("git/echo", {"message": "hi"})).text == "Echo: hi"
        image = await human.call("git/get-tiny-image")
        assert "image" in {block["type"] for block in image.content}
        assert (await human.call("git/get-structured-content", {"location": "Chicago"})).structured
        [resource, *_] = (await ask("resources/list"))["resources"]
        assert (await ask("resources/subscribe", uri=resource["uri"])) == {}
        assert (await ask("logging/setLevel", level="debug")) == {}
        await human.call("git/toggle-subscriber-updates")
        call = {"name": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4}}
        done = await ask("tools/call", **call, _meta={"progressToken": "mine"})
        assert "Steps: 4" in done.text and notes["notifications/progress"] == 4
        await until(lambda: notes["notifications/resources/updated"])
    finally:
        if server is not None:
            server.kill()
            await server.wait()


async def _connected(site: Site, url: str, **options: Any) -> None:
    """Bridges a server that is still starting."""
    async with asyncio.timeout(60):
        while True:
            try:
                await site.bridge(url, **{"can": PROFILES["tool"], **options})
            except MewError as fault:
                assert "cannot be reached" in str(fault), fault
                await asyncio.sleep(0.1)
            else:
                return


@pytest.mark.parametrize(("kind", "path"), [("stdio", ""), ("streamableHttp", "mcp")])
async def test_the_reference_server_asks_a_person_where_that_is_on(
    site: Site, everything: list[str], tmp_path: Path, kind: str, path: str
) -> None:
    can = [*PROFILES["tool"], *ASKING[ELICIT], *ASKING[CREATE_MESSAGE]]
    asks: dict[str, Any] = {"can": can, "owner": "human", "sampling": True, "roots": [tmp_path]}
    server, command = None, [*everything, kind]
    if path:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = {**os.environ, "PORT": str(port)}
        server = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    human = await site.seat("human")
    asked: list[tuple[str, Mapping[str, Any]]] = []

    async def elicit(params: Mapping[str, Any]) -> dict[str, Any]:
        asked.append((ELICIT, params))
        return {"action": "accept", "content": {"name": "Ada"}}

    async def sample(params: Mapping[str, Any]) -> dict[str, Any]:
        asked.append((CREATE_MESSAGE, params))
        return {"role": "assistant", "content": {"type": "text", "text": "a reply"}, "model": "m"}

    human.register_method(ELICIT, elicit)
    human.register_method(CREATE_MESSAGE, sample)
    try:
        if path:
            await _connected(site, f"http://127.0.0.1:{port}/{path}", **asks)
        else:
            await site.bridge(command, **asks)
        needed = {"trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"}
        names: set[str] = set()
        async with asyncio.timeout(30):
            while not needed <= names:
                names = {tool["name"] for tool in await human.list_tools("git")}
        assert "Ada" in (await human.call("git/trigger-elicitation-request")).text
        reply = await human.call("git/trigger-sampling-request", {"prompt": "Hello", "maxTokens": 10})
        assert "a reply" in reply.text
        assert tmp_path.as_uri() in (await human.call("git/get-roots-list")).text
        assert [method for method, _ in asked] == [ELICIT, CREATE_MESSAGE]
    finally:
        if server is not None:
            server.kill()
            await server.wait()
