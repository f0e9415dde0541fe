"""`mew-lab mcp` as a client starts it: a process over stdio, with a space of another process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.server import Server

from ..bridge.conftest import Site, until
from ..bridge.desk import PROPOSER, Desk, text

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("MEW_")},
    "PYTHONPATH": str(ROOT),
}


class OpenDesk(Desk):
    """A desk whose gateway listens on a port, for the processes of a test."""

    url = ""

    def words(self, folder: Path, *more: str, name: str = "coder", can: Any = PROPOSER) -> list[str]:
        """The arguments of the command, with a token file."""
        self.site.gateway.enrol("demo", name, can)
        file = folder / f"{name}.token"
        if not file.exists():
            file.touch(0o600)
            file.write_text(self.site.gateway.tokens.mint("demo", name).reveal())
        return ["-m", "mew_lab.cli", "mcp", self.url, "--space", "demo", "--token-file", str(file), *more]


@pytest.fixture
async def desk() -> AsyncIterator[OpenDesk]:
    site = Site()
    server = Server(site.gateway)
    made = OpenDesk(site)
    made.url = f"ws://127.0.0.1:{await server.start()}/ws"
    made.human = await site.seat("human")
    await made.seat()
    yield made
    await server.stop()
    await site.close()


@asynccontextmanager
async def client_of(words: list[str], mode: str = "legacy") -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=sys.executable, args=words, env=ENVIRONMENT)
    async with Client(parameters, mode=mode) as client:
        yield client


async def run_to_the_end(words: list[str]) -> tuple[int | None, str]:
    """Runs a gate that cannot start: its exit code, and the one line that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=ENVIRONMENT, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await process.communicate()
    assert out == b"" and error.count(b"\n") == 1, error
    return process.returncode, error.decode()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_over_stdio_waits_for_a_person(desk: OpenDesk, tmp_path: Path, mode: str) -> None:
    async with client_of(desk.words(tmp_path), mode) as client:
        assert "calc_add" in {tool.name for tool in (await client.list_tools()).tools}
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        await desk.human.approve(await desk.proposed())
        assert text(await call) == "5"
    await until(lambda: "coder" not in desk.human.client.participants)
    assert desk.executed == [(2, 3)]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_over_stdio_cancels_a_call_that_runs(
    desk: OpenDesk, tmp_path: Path, mode: str
) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def bake() -> None:
        """Bakes until it is cancelled."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await desk.site.tool("oven", bake)
    async with client_of(desk.words(tmp_path), mode) as client:
        call = asyncio.create_task(client.call_tool("oven_bake", {}))
        await desk.human.approve(await desk.proposed())
        await begun.wait()
        call.cancel()
        await cancelled.wait()
        again = await client.call_tool("oven_bake", {})
        assert again.meta["mew-lab/state"] == "unknown" and not desk.open


async def test_a_client_that_ends_takes_its_waiting_calls_with_it(desk: OpenDesk, tmp_path: Path) -> None:
    async with client_of(desk.words(tmp_path, "--answer-after", "0.1")) as client:
        result = await client.call_tool("calc_add", {"a": 2, "b": 3})
        assert result.meta["mew-lab/state"] == "pending"
    await until(lambda: not desk.open)
    [proposal] = desk.human.proposals
    assert (proposal.state, desk.executed) == ("withdrawn", [])


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", "1e9"])
async def test_a_limit_that_is_no_time_is_one_line(desk: OpenDesk, tmp_path: Path, value: str) -> None:
    code, error = await run_to_the_end(desk.words(tmp_path, "--grace", value))
    assert code == 2 and f"{value!r} is no number of seconds above 0" in error


async def test_a_space_that_is_not_there_is_one_line(desk: OpenDesk, tmp_path: Path) -> None:
    words = desk.words(tmp_path)
    words[words.index("demo")] = "elsewhere"
    code, error = await run_to_the_end(words)
    assert code == 1 and "elsewhere" in error


@pytest.mark.slow
async def test_a_token_of_another_space_is_one_line_and_joins_neither(desk: OpenDesk, tmp_path: Path) -> None:
    gateway = desk.site.gateway
    gateway.add_space(SpaceConfig(name="other"))
    gateway.enrol("other", "coder", PROPOSER)
    words = desk.words(tmp_path)
    (tmp_path / "coder.token").write_text(token := gateway.tokens.mint("other", "coder").reveal())
    code, error = await run_to_the_end(words)
    assert code == 1 and "demo" in error and token not in error
    assert "coder" not in desk.human.client.participants


@pytest.mark.slow
async def test_a_second_gate_of_one_name_is_one_line_and_the_first_goes_on(
    desk: OpenDesk, tmp_path: Path
) -> None:
    words = desk.words(tmp_path)
    async with client_of(words) as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        code, error = await run_to_the_end(words)
        assert code == 1 and re.search(
            r"'coder' is connected already.*On this computer, process \d+ has it", error
        )
        await desk.human.approve(id)
        assert text(await call) == "5"
    assert desk.executed == [(2, 3)]


async def test_over_http_clients_need_the_token_in_the_file_that_is_printed(
    desk: OpenDesk, tmp_path: Path
) -> None:
    words = desk.words(tmp_path, "--http")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=ENVIRONMENT, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    said = re.fullmatch(
        r"demo is offered at (http://127\.0\.0\.1:\d+/mcp) as coder, with the token in (.*)\n", line
    )
    assert said is not None
    url, file = said[1], Path(said[2])
    mode = file.stat().st_mode & 0o777  # noqa: ASYNC240
    assert (file, mode) == (tmp_path / ".mew" / "mcp" / "coder.token", 0o600)
    bearer = {"Authorization": f"Bearer {file.read_text().strip()}"}  # noqa: ASYNC240
    async with httpx2.AsyncClient(headers=bearer, timeout=30) as web, httpx2.AsyncClient() as stranger:
        assert (await stranger.post(url, json={})).status_code == 401
        page = {"Origin": "http://127.0.0.1:8888"}
        assert (await web.post(url, json={}, headers=page)).status_code == 403
        async with Client(streamable_http_client(url, http_client=web)) as client:
            call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
            await desk.human.approve(await desk.proposed())
            assert text(await call) == "5"
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


class HttpGate:
    """A gate over HTTP, as a process that a test can kill."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self._words = words
        self._folder = folder
        self.url = ""

    async def __aenter__(self) -> HttpGate:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, *self._words, env=ENVIRONMENT, cwd=self._folder, stdout=asyncio.subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.url = (await self.process.stdout.readline()).decode().split()[4]
        return self

    async def __aexit__(self, *fault: object) -> None:
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        bearer = f"Bearer {(self._folder / '.mew' / 'mcp' / 'coder.token').read_text().strip()}"
        async with httpx2.AsyncClient(headers={"Authorization": bearer}, timeout=30) as web:
            async with Client(streamable_http_client(self.url, http_client=web), mode="legacy") as client:
                yield client


async def gone(desk: OpenDesk) -> None:
    await until(lambda: "coder" not in desk.human.client.participants)


async def test_a_killed_gate_withdraws_what_waited_and_says_so_once(desk: OpenDesk, tmp_path: Path) -> None:
    words = desk.words(tmp_path, "--answer-after", "0.2", "--http")
    arguments = {"a": 2, "b": 3}
    async with HttpGate(words, tmp_path) as gate, gate.client() as client:
        await client.call_tool("calc_add", arguments)
        id = await desk.proposed()
        await gate.kill()
    await gone(desk)
    async with HttpGate(words, tmp_path) as gate, gate.client() as client:
        await until(lambda: not desk.open)
        told = await client.call_tool("calc_add", arguments)
        gave_up = (
            f"The gate ended while calc/add waited, and the withdrawal of proposal {id} was accepted now"
        )
        assert told.is_error and gave_up in text(told)
        again = await client.call_tool("calc_add", arguments)
        assert again.meta["mew-lab/proposal"] == await desk.proposed() != id
    assert desk.executed == []


async def test_a_result_that_no_client_has_outlives_a_killed_gate(desk: OpenDesk, tmp_path: Path) -> None:
    words = desk.words(tmp_path, "--http")
    async with HttpGate(words, tmp_path) as gate, gate.client() as client:
        with pytest.raises(MCPError, match="timed out"):
            await client.call_tool("calc_add", {"a": 2, "b": 3}, read_timeout_seconds=2)
        await client.list_tools()  # after it, the cancellation has arrived
        await desk.human.approve(await desk.proposed())
        calls = tmp_path / ".mew" / "mcp" / "calls"
        await until(lambda: any('"text":"5"' in file.read_text() for file in calls.rglob("*.json")))
        await until(lambda: any('"ended"' in file.read_text() for file in calls.glob("*.json")))  # the index
        await gate.kill()
    await gone(desk)
    async with HttpGate(words, tmp_path) as gate, gate.client() as client:
        assert text(await client.call_tool("calc_add", {"a": 2, "b": 3})) == "5"
    assert desk.executed == [(2, 3)] and len(list(desk.human.proposals)) == 1


HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}


@pytest.mark.slow
async def test_a_client_over_stdio_has_its_tools_before_its_gate_is_in_the_space(
    desk: OpenDesk, tmp_path: Path
) -> None:
    words = desk.words(tmp_path)
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path / "state")}

    async def list_tools(words: list[str]) -> list[Any]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, env=environment, cwd=tmp_path,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        got = []
        for id, method, params in ((0, "initialize", HANDSHAKE), (1, "tools/list", {})):
            request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            got.append(json.loads(await asyncio.wait_for(process.stdout.readline(), 60)))
            process.stdin.write(
                b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n' if not id else b""
            )
        if words[3] == desk.url:
            call = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            process.stdin.write(json.dumps(call).encode() + b"\n")
            got.append(json.loads(await asyncio.wait_for(process.stdout.readline(), 60)))
            process.stdin.close()
            rest, _ = await asyncio.wait_for(process.communicate(), 60)
            assert rest == b""  # no answer came twice
        else:
            process.kill()
            await process.wait()
        return got

    first, again = await list_tools(words), await list_tools(words)
    assert [one["id"] for one in first] == [0, 1, 2] and again == first
    assert "calc_add" in json.dumps(first[1])
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a gateway that admits nobody
        elsewhere = f"ws://127.0.0.1:{silent.getsockname()[1]}/ws"
        assert await list_tools([*words[:3], elsewhere, *words[4:]]) == first[:2]
