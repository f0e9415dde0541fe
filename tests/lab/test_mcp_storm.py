"""Storms on a gate: retries, cancels and broken connections in random order, and killed gates, while people decide.

Whatever happens, each approved call is executed exactly once and has a receipt, nothing else is executed, and what a
client was told agrees with the log.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.mcp_access import with_lists

ROOT = Path(__file__).resolve().parents[2]
STORM = [
    pytest.param(30, id="short", marks=pytest.mark.timeout(300)),
    pytest.param(2500, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
]
AT_ONCE = 8


class Storm:
    """A lab with a tool that counts, a policy that approves most, and clients that behave badly."""

    def __init__(self, lab: Lab, *, seed: int) -> None:
        self.lab = lab
        self.dice = random.Random(seed)
        self.executed: Counter[int] = Counter()
        self.told: dict[int, Any] = {}
        self.actions = 0

        @lab.tool
        def count(n: int) -> int:
            "Counts."
            self.executed[n] += 1
            return n

        lab.decide = Policy("dice", self._judge, text="approves most")

    def _judge(self, card: Card) -> Decision | None:
        roll = self.dice.random()
        return None if roll < 0.1 else Decision("reject", "dice") if roll < 0.25 else Decision("approve")

    async def run(self, calls: int, work: Callable[[int], Awaitable[None]]) -> None:
        """Runs the calls, some of them at once."""
        numbers = iter(range(calls))

        async def one_after_the_other() -> None:
            for n in numbers:
                await work(n)

        await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))

    async def insist(self, n: int, client_of: Callable[[], Any]) -> None:
        """Makes one call again and again, with clients that cancel and leave, until it has an answer that is final."""
        while True:
            self.actions += 1
            with suppress(MCPError, httpx2.HTTPError, OSError, TimeoutError, ExceptionGroup):
                async with (
                    asyncio.timeout(self.dice.choice([0.01, 0.05, 0.2, 10.0, 10.0])),
                    client_of() as client,
                ):
                    for _ in range(self.dice.randint(1, 3)):
                        result = await client.call_tool("notebook_count", {"n": n})
                        if (result.meta or {}).get("mew-lab/state") != "pending":
                            self.told[n] = result
                            return
                        self.actions += 1

    def check(self, calls: int) -> None:
        """Compares what was executed, what the log says and what the clients were told."""
        log = self.lab.log
        verified = log.verify()
        assert verified.ok, str(verified)
        entries = list(self.lab.me.participant.proposals)
        assert not [one.state for one in entries if one.state in ("open", "rejected")]
        approved = Counter(
            one.payload["params"]["arguments"]["n"]
            for one in entries
            if one.state in ("fulfilled", "answered")
        )
        assert self.executed == approved
        withdrawn = [one for one in entries if one.state == "withdrawn"]
        late = [claim for one in withdrawn for claim in one.claims if claim.kind == "mcp/request"]
        assert late == []
        assert set(self.told) == set(range(calls))
        for n, result in self.told.items():
            if not result.is_error:
                assert result.content[0].text == str(n) and self.executed[n] >= 1


@pytest.mark.parametrize("calls", STORM)
async def test_a_storm_of_clients_executes_each_approved_call_exactly_once(lab: Lab, calls: int) -> None:
    storm = Storm(lab, seed=calls)
    seat = await asyncio.to_thread(lambda: lab.serve_mcp(answer_after=0.05, grace=0.1, decide_within=0.5))
    headers = {"Authorization": f"Bearer {seat.token_file.read_text().strip()}"}

    async with httpx2.AsyncClient(headers=headers, timeout=30) as web:

        def client_of() -> Client:
            mode = storm.dice.choice(["legacy", "auto"])
            return Client(streamable_http_client(seat.url, http_client=web), mode=mode)

        await storm.run(calls, lambda n: storm.insist(n, client_of))
    await asyncio.to_thread(lab.leave, "coder")
    storm.check(calls)
    assert any(result.is_error for result in storm.told.values())
    assert storm.actions > calls


class KilledGate:
    """`mew-lab mcp --http` as a process that is killed at random moments and started again on the same port."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        lab.enrol("coder", with_lists("proposer"))
        self.folder = folder
        self.words = [
            "-m", "mew_lab.cli", "mcp", lab.url, "--space", lab.space, "--token-file", str(lab.token_file("coder")),
            "--answer-after", "0.3", "--grace", "1", "--decide-within", "2", "--http",
        ]  # fmt: skip
        self.url = ""
        self.process: asyncio.subprocess.Process | None = None
        self.kills = 0

    async def start(self) -> None:
        port = self.url.split(":")[2].split("/")[0] if self.url else "0"
        for _ in range(50):
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, *self.words, port, cwd=self.folder, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={**{k: v for k, v in os.environ.items() if not k.startswith("MEW_")}, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            assert self.process.stdout is not None
            line = (await self.process.stdout.readline()).decode()
            if line:  # else the gateway has not noticed yet that the killed one is gone
                self.url = line.split()[4]
                return
            await self.process.wait()
        raise AssertionError("the gate did not start")

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        self.kills += 1

    @property
    def token(self) -> str:
        return (self.folder / ".mew" / "mcp" / "coder.token").read_text().strip()


@pytest.mark.parametrize(
    ("calls", "kills"),
    [
        pytest.param(12, 2, id="short", marks=pytest.mark.timeout(300)),
        pytest.param(400, 40, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)
async def test_a_gate_that_is_killed_executes_nothing_twice_and_nothing_that_was_refused(
    lab: Lab, tmp_path: Path, calls: int, kills: int
) -> None:
    storm = Storm(lab, seed=kills)
    gate = KilledGate(lab, tmp_path)
    await gate.start()

    async def kill_now_and_then() -> None:
        while gate.kills < kills:
            await asyncio.sleep(storm.dice.uniform(0.5, 2.0))
            await gate.kill()
            await gate.start()

    killing = asyncio.create_task(kill_now_and_then())
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {gate.token}"}, timeout=10) as web:

        def client_of() -> Client:
            return Client(streamable_http_client(gate.url, http_client=web), mode="legacy")

        await storm.run(calls, lambda n: storm.insist(n, client_of))
    await killing
    assert gate.process is not None
    gate.process.terminate()
    await gate.process.wait()
    storm.check(calls)
    assert gate.kills == kills
