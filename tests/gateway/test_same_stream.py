"""However one comes in, one sees the same stream in the same order: processes of their own, real sockets, real curl."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mew_lab.gateway.auth import write_token_file
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.transport.link import Link

PEER = """
import asyncio, json, sys
import websockets
url, file, how, count = sys.argv[1:]
token = open(file).read().strip()
async def main():
    headers = {"Authorization": f"Bearer {token}"} if how == "header" else {}
    async with websockets.connect(url, additional_headers=headers, proxy=None) as ws:
        if how == "join":
            await ws.send(json.dumps({"type": "join", "space": "demo", "token": token, "participantId": "joiner"}))
        seen = []
        async for text in ws:
            seen.append(text)
            if len(seen) == 1:
                await ws.send(json.dumps({"kind": "chat", "payload": {"text": f"hello from {how}"}}))
                print("in", flush=True)
            if json.loads(text).get("payload", {}).get("text") == "the end":
                break
        print(json.dumps(seen), flush=True)
asyncio.run(main())
"""
CHAT = {"capabilities": [{"kind": "chat"}]}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Gateway, str, dict[str, Path]]]:
    gateway = Gateway()
    names = ("here", "headed", "joiner", "poster")
    gateway.add_space(
        SpaceConfig.model_validate({"name": "demo", "participants": dict.fromkeys(names, CHAT)})
    )
    files = {
        name: write_token_file(tmp_path / "tokens", "demo", name, gateway.tokens.mint("demo", name))
        for name in names
    }
    server = Server(gateway)
    port = await server.start()
    yield gateway, f"127.0.0.1:{port}", files
    await server.stop()


async def peer(address: str, file: Path, how: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PEER,
        f"ws://{address}/ws?space=demo",
        str(file),
        how,
        "0",
        stdout=asyncio.subprocess.PIPE,
    )
    assert await process.stdout.readline() == b"in\n"
    return process


def header_of(file: Path) -> Path:
    """The headers in a file, so that no process list shows the token."""
    header = file.with_suffix(".header")
    header.write_text(f"Authorization: Bearer {file.read_text().strip()}\nContent-Type: application/json\n")
    return header


async def curl(address: str, header: Path, body: dict[str, Any]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *("curl", "-sS", "-X", "POST", "-H", f"@{header}", "--data-binary", json.dumps(body)),
        f"http://{address}/participants/poster/messages?space=demo",
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    answer: dict[str, Any] = json.loads(out)
    return answer


async def everything(link: Link) -> list[str]:
    seen: list[str] = []
    while not seen or json.loads(seen[-1]).get("payload", {}).get("text") != "the end":
        seen.append(str(await link.receive()))
    return seen


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on PATH")
@pytest.mark.req("P-2.1-1", "P-8.1-8", "P-5.2-1", "P-5.3-1", "P-5.3-4", "P-8.1-1", "P-8.1-2", "P-8.1-3")
async def test_four_ways_in_see_one_stream_in_one_order(served: tuple[Gateway, str, dict[str, Path]]) -> None:
    gateway, address, files = served
    poster = header_of(files["poster"])
    here = attach(gateway, "demo", "here")
    headed = await peer(address, files["headed"], "header")
    joined = await peer(address, files["joiner"], "join")
    for n in range(3):
        answer = await curl(address, poster, {"kind": "chat", "payload": {"text": f"post {n}"}})
        assert answer["status"] == "accepted" and set(answer) == {"id", "status", "timestamp"}
        await here.send(json.dumps({"kind": "chat", "payload": {"text": f"memory {n}"}}))
    await curl(address, poster, {"kind": "chat", "payload": {"text": "the end"}})
    mine = await everything(here)
    theirs = []
    for process in (headed, joined):
        out, _ = await asyncio.wait_for(process.communicate(), 30)
        theirs.append(json.loads(out))
        assert process.returncode == 0
    for seen in theirs:
        assert json.loads(seen[0])["kind"] == "system/welcome"
        common = seen[1:]
        assert common == mine[-len(common) :]
    said = [json.loads(text)["payload"]["text"] for text in mine if json.loads(text)["kind"] == "chat"]
    assert said[-1] == "the end" and {"hello from header", "hello from join", "post 0", "memory 2"} <= set(
        said
    )
