"""A gate that is killed, with outcomes of any size in its memory: what it left waiting is never executed twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge.call_memory import CallMemory
from mew_lab.errors import MewError

from ..cli.test_mcp import ENVIRONMENT, OpenDesk, desk
from .conftest import until
from .desk import PROPOSER, Desk

__all__ = ["desk"]  # a fixture

LARGE = 250_000  # characters of a result that a gate keeps


class KilledGate:
    """A gate as a program over stdio, and the little of MCP that speaks to it, so that it can be killed anywhere."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.number = 0
        self.answers: dict[int, asyncio.Future[Any]] = {}
        self.reading = asyncio.create_task(self.read())

    @classmethod
    async def start(cls, words: list[str], folder: Path) -> KilledGate:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, env=ENVIRONMENT, cwd=folder, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=4_000_000,
        )  # fmt: skip
        gate = cls(process)
        info = {"name": "killer", "version": "1"}
        await gate.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        gate.send("notifications/initialized")
        await gate.ask("tools/list")
        return gate

    def send(self, method: str, **params: Any) -> asyncio.Future[Any]:
        self.number += 1
        id = {} if method.startswith("notifications/") else {"id": self.number}
        message = {"jsonrpc": "2.0", **id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        answer = self.answers[self.number] = asyncio.get_running_loop().create_future()
        return answer

    async def ask(self, method: str, **params: Any) -> Any:
        async with asyncio.timeout(30):
            return await self.send(method, **params)

    async def read(self) -> None:
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            answer = self.answers.get(message.get("id"))
            if answer is not None and not answer.done():
                answer.set_result(message.get("result", message.get("error")))

    async def kill(self) -> str:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        return await self.end()

    async def end(self) -> str:
        """What it has printed to stderr when it has ended."""
        await self.process.wait()
        await self.reading  # what the gate wrote before has reached its client
        return (await self.process.stderr.read()).decode()


async def print_large(desk: Desk) -> None:
    """Seats a tool whose result is nearly as large as one that a gate keeps."""

    def page(n: int) -> str:
        """Returns a page."""
        return f"{n}:" + "x" * LARGE

    await desk.site.tool("press", page)


CAN = [*PROPOSER, {"kind": "mcp/request", "to": "press"}]


async def begin(desk: OpenDesk, words: list[str], folder: Path, outcomes: int, n: int) -> KilledGate:
    """A gate with large outcomes that did not reach its client, and then one call that waits for a person."""
    gate = await KilledGate.start(words, folder)
    for page in range(outcomes):
        gate.send("tools/call", name="press_page", arguments={"n": n * outcomes + page})
        gate.send("notifications/cancelled", requestId=gate.number, reason="timed out after 1s")
    gate.send("tools/call", name="calc_add", arguments={"a": n, "b": 3})

    def is_proposed() -> bool:
        return any(one.payload["params"]["arguments"].get("a") == n for one in desk.human.proposals)

    await until(is_proposed)
    return gate


async def approve_all(desk: Desk, dice: random.Random) -> None:
    while True:
        for proposal in desk.open:
            await asyncio.sleep(dice.choice([0, 0.02, 0.1]))
            with suppress(MewError):
                await desk.human.approve(proposal.id)
        await asyncio.sleep(0.005)


async def storm(desk: OpenDesk, folder: Path, *, kills: int, outcomes: int) -> None:
    """Kills gates at random moments around a call that a person approves; the client makes the call again."""
    dice = random.Random(36)
    await print_large(desk)
    words = desk.words(folder, "--answer-after", "0.1", can=CAN)
    approving = asyncio.create_task(approve_all(desk, dice))
    printed = ""
    for n in range(kills):
        gate = await begin(desk, words, folder, outcomes, n)
        await asyncio.sleep(dice.choice([0, 0.01, 0.05, 0.2]))  # the moment of the kill
        call = gate.answers[gate.number]
        printed += await gate.kill()
        if call.done() and call.result()["content"][0]["text"] == str(n + 3):
            continue  # its client knows the result, so it would not make the call again
        again = await KilledGate.start(words, folder)
        answer = await again.ask("tools/call", name="calc_add", arguments={"a": n, "b": 3})
        printed += await again.kill()
        said = answer["content"][0]["text"]
        executions = desk.executed.count((n, 3))
        assert executions <= 1
        assert (
            executions == 1 if said == str(n + 3) else "is not known here" in said or "waits for" in said
        ), said
    approving.cancel()
    for word in ("cannot be read", "cannot be written", "Traceback"):
        assert word not in printed, printed
    [index] = (folder / ".mew" / "mcp" / "calls").glob("*.json")
    assert len(CallMemory(index).load(max_age=3600.0)) >= outcomes


@pytest.mark.timeout(120)
@pytest.mark.threat(27)
@pytest.mark.ruling("R35")
async def test_a_gate_killed_with_large_outcomes_withdraws_what_waited_and_executes_nothing_twice(
    desk: OpenDesk, tmp_path: Path
) -> None:
    await print_large(desk)
    words = desk.words(tmp_path, "--answer-after", "0.1", can=CAN)
    gate = await begin(desk, words, tmp_path, 40, 7)
    folder = tmp_path / ".mew" / "mcp" / "calls"
    await until(lambda: sum(file.stat().st_size > LARGE for file in folder.rglob("*/*.json")) == 40)
    await gate.kill()
    [id] = [one.id for one in desk.open]
    again = await KilledGate.start(words, tmp_path)
    await until(lambda: not desk.open)
    card = desk.card(id)
    assert card.state == "withdrawn"
    answer = await again.ask("tools/call", name="calc_add", arguments={"a": 7, "b": 3})
    assert "is not known here; the log of the space tells" in answer["content"][0]["text"]
    assert await again.kill() == "" and desk.executed == []


@pytest.mark.timeout(120)
@pytest.mark.threat(27)
@pytest.mark.ruling("R35")
async def test_a_gate_that_was_stopped_and_wakes_beside_a_later_one_costs_it_no_call(
    desk: OpenDesk, tmp_path: Path
) -> None:
    await print_large(desk)
    words = desk.words(tmp_path, "--answer-after", "0.1", can=CAN)
    first = await begin(desk, words, tmp_path, 0, 1)
    [one] = [one.id for one in desk.open]
    os.kill(first.process.pid, signal.SIGSTOP)
    second = await KilledGate.start(words, tmp_path)
    # The handshake may be answered before the gate is in the space.
    await until(lambda: desk.human.proposals.get(one).state == "withdrawn")
    await second.ask("tools/call", name="calc_add", arguments={"a": 2, "b": 3})
    [two] = [one.id for one in desk.open]
    os.kill(first.process.pid, signal.SIGCONT)
    ended = await first.end()
    assert f"On this computer, process {second.process.pid} has it" in ended
    printed = await second.kill()
    assert f"process {first.process.pid} keeps the calls of this gate in" in printed
    third = await KilledGate.start(words, tmp_path)
    await until(lambda: desk.human.proposals.get(two).state == "withdrawn")
    for n in (1, 2):
        answer = await third.ask("tools/call", name="calc_add", arguments={"a": n, "b": 3})
        assert "is not known" in answer["content"][0]["text"] or "waits for" in answer["content"][0]["text"]
    assert await third.kill() == "" and desk.executed == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_no_kill_among_many_executes_a_call_twice(desk: OpenDesk, tmp_path: Path) -> None:
    await storm(desk, tmp_path, kills=25, outcomes=12)
