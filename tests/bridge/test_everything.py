"""The reference server of MCP, `server-everything` from npm, behind a bridge, over all its transports."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections import Counter
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES

from .conftest import Site, until

VERSION = "2026.8.31"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The entry file of the server, installed by npm."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("everything")
    if npm is None or shutil.which("node") is None:
        pytest.skip("no npm and node on PATH: server-everything is not installed")
    package = f"@modelcontextprotocol/server-everything@{VERSION}"
    words = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", package]
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=240)
    if run.returncode:
        pytest.skip(f"npm does not give server-everything: {run.stderr.strip()[-200:]}")
    return str(folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")


@pytest.mark.parametrize(("kind", "path"), [("stdio", ""), ("streamableHttp", "mcp"), ("sse", "sse")])
async def test_the_reference_server_is_passed_on(site: Site, everything: str, kind: str, path: str) -> None:
    server, command = None, ["node", everything, kind]
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


async def _connected(site: Site, url: str) -> None:
    """Bridges a server that is still starting."""
    async with asyncio.timeout(60):
        while True:
            try:
                await site.bridge(url, can=PROFILES["tool"])
            except MewError as fault:
                assert "cannot be reached" in str(fault), fault
                await asyncio.sleep(0.1)
            else:
                return
