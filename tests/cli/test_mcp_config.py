"""`serve` and `bridge` with the file of an MCP client: processes as a shell starts them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge.mcp_config import read_mcp_config
from mew_lab.cli import main
from mew_lab.gateway.auth import read_token_file
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant

ROOT = Path(__file__).resolve().parents[2]
ODD = str(ROOT / "tests" / "bridge" / "odd_server.py")
CANARY = "canary-5ecret-0123456789"
WITHIN = 60.0  # seconds for a line of a process on a busy machine


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("MY_TOKEN", CANARY)


class Process:
    """A command of `mew-lab`, and the lines that it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def line(self, pattern: str) -> re.Match[str]:
        """Waits for a line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN):
            while True:
                for line in self.lines:
                    if (found := re.search(pattern, line)) is not None:
                        return found
                read = (await self.process.stdout.readline()).decode()
                assert read, f"it ended without {pattern!r}: {self.lines}"
                self.lines.append(read.rstrip("\n"))

    async def end(self) -> int:
        """Interrupts it, and waits until it has ended."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        return await self.wait()

    async def wait(self) -> int:
        """Waits until it has ended by itself."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN):
            self.lines += (await self.process.stdout.read()).decode().splitlines()
            return await self.process.wait()


@asynccontextmanager
async def started(folder: Path, *words: str) -> AsyncIterator[Process]:
    process = Process(
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mew_lab.cli", *words, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )
    )  # fmt: skip
    try:
        yield process
    finally:
        await process.end()


def write(folder: Path, servers: dict[str, Any], **more: Any) -> list[str]:
    """Writes a file, and returns the options that trust its servers."""
    path = folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": servers, **more}))
    config = read_mcp_config(path)
    return [word for server in config.servers.values() for word in ("--trust-config", server.digest)]


async def call(folder: Path, url: str, name: str) -> str:
    """What the tool `env` of a participant answers the human."""
    token = read_token_file(folder / ".mew" / "tokens" / "demo" / "human.token")
    human = MEWParticipant(MEWClient(url, space="demo", token=token))
    await human.start()
    try:
        return (await human.call(f"{name}/env", timeout=WITHIN)).text
    finally:
        await human.stop()


ENTRY = {"command": sys.executable, "args": [ODD], "env": {"TOKEN": "${MY_TOKEN}"}}


@pytest.mark.threat(28)
async def test_serve_starts_the_trusted_servers_of_a_file(tmp_path: Path) -> None:
    trust = write(
        tmp_path, {"odd": ENTRY, "ends": {**ENTRY, "args": [ODD, "exit"]}, "off": {"disabled": True}}
    )
    async with started(tmp_path, "serve", "--mcp-config", ".mcp.json", *trust) as process:
        url = (await process.line(r"space demo at (\S+)"))[1]
        await process.line(r"^odd: an MCP server with 5 tools")
        await process.line(r"^ends is left out: .*ended \(exit 1\)")
        await process.line(r"^off is left out: it is disabled")
        assert CANARY in await call(tmp_path, url, "odd")
        assert await process.end() == 0
    assert CANARY not in "\n".join(process.lines) and "Traceback" not in "\n".join(process.lines)


@pytest.mark.threat(28)
async def test_a_server_never_takes_the_place_of_a_person_or_an_agent(tmp_path: Path) -> None:
    """The names are those of a stranger's file."""
    trust = write(tmp_path, {"human": ENTRY, "coder": ENTRY, "Human": ENTRY})
    words = ("--mcp-config", ".mcp.json", *trust)
    async with started(tmp_path, "serve", "--enrol", "coder=agent", *words) as space:
        url = (await space.line(r"space demo at (\S+)"))[1]
        await space.line(r"^human is left out: 'human' is another participant of 'demo' already")
        await space.line(r"^coder is left out: 'coder' is another participant of 'demo' already")
        await space.line(r"^Human-2: an MCP server with 5 tools")
        words = ("bridge", url, "--space", "demo", *words)
        async with started(tmp_path, *words, "--server", "human", "--server", "coder") as bridge:
            await bridge.line(r"^human is left out: 'human' is a participant that may do more than a tool")
            await bridge.line(r"^coder is left out: 'coder' is a participant that may do more than a tool")
            assert await bridge.wait() == 1


async def test_serve_goes_on_without_servers_that_nobody_allowed(tmp_path: Path) -> None:
    trust = write(tmp_path, {"odd": ENTRY})
    async with started(tmp_path, "serve", "--mcp-config", ".mcp.json") as process:
        await process.line(rf"^odd is left out: nobody has allowed it .*{trust[1]}")
        await process.line(r"space demo at")
        assert await process.end() == 0


@pytest.mark.threat(28)
@pytest.mark.slow
async def test_bridge_joins_with_the_servers_whose_tokens_are_at_hand(tmp_path: Path) -> None:
    trust = write(tmp_path, {"odd": ENTRY, "stranger": ENTRY})
    async with started(tmp_path, "serve", "--enrol", "odd=tool") as space:
        url = (await space.line(r"space demo at (\S+)"))[1]
        await space.line(r"^odd: ")
        words = ("bridge", url, "--space", "demo", "--mcp-config", ".mcp.json", *trust)
        async with started(tmp_path, *words) as bridge:
            await bridge.line(r"^stranger is left out: the token file .*--enrol stranger=tool writes it")
            await bridge.line(r"^odd has joined demo")
            assert CANARY in await call(tmp_path, url, "odd")
            assert await bridge.end() == 0
        one = (*words, "--server", "stranger", "--as", "odd", "--token-file", ".mew/tokens/demo/odd.token")
        async with started(tmp_path, *one) as bridge:
            await bridge.line(r"^odd has joined demo")
        async with started(tmp_path, *words, "--server", "stranger") as bridge:
            await bridge.line(r"no server of .* takes part")
            assert await bridge.wait() == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "give the command or the URL of a server behind --, or --mcp-config FILE"),
        (["--mcp-config", "none.json", "--", "x"], "or --mcp-config FILE"),
        (["--mcp-config", "none.json"], "there is no such file"),
        (["--mcp-config", "none.json", "--env", "X"], "--env is for one command"),
        (["--mcp-config", ".mcp.json", "--server", "x"], "has no server 'x'"),
        (["--mcp-config", ".mcp.json", "--trust-config", "7"], "a digest is a SHA-256"),
        (["--mcp-config", ".mcp.json"], "no server of .mcp.json can be started"),
    ],
)
def test_bridge_says_what_is_wrong_in_one_line(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {"odd": ENTRY})
    assert main(["bridge", "ws://127.0.0.1:9/ws", "--space", "demo", *words]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("mew-lab bridge: ") and why in told


def test_serve_refuses_one_file_of_servers_for_several_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--space-config", "a", "--space-config", "b", "--mcp-config", "c"]) == 1
    assert "--mcp-config is for one space" in capsys.readouterr().err
