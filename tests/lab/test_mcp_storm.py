"""Storms on a gate: retries, cancels and broken connections in random order, killed gates and clients, while people decide.

Whatever happens, each approved call is executed exactly once, unless its client cancelled it before it began; it has a
receipt, nothing else is executed, and what a client was told agrees with the log.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.mcp_access import with_lists
from mew_lab.log.entries import entries_of
from mew_lab.sdk.request_server import ASKED

from ..faults.conftest import until

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("MEW_")},
    "PYTHONPATH": str(ROOT),
}
STORM = [
    pytest.param(30, 30, id="short", marks=pytest.mark.timeout(300)),
    pytest.param(4000, 10_000, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
]
KILLS = [
    pytest.param(2, id="short", marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    pytest.param(40, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
]
AT_ONCE = 8
EVERY = 500  # calls between two lines about the course of a storm
FAULTS = (MCPError, httpx2.HTTPError, OSError, TimeoutError, ExceptionGroup)


class Course(NamedTuple):
    """What a log says of the proposals, from its messages in their order alone: no ledger is asked.

    `approved` are the first requests for proposals that were neither rejected nor withdrawn, `late` all others for
    proposals, by id with the number in their arguments. `kinds` counts the messages that the gateway relayed.
    """

    approved: dict[str, int]
    late: dict[str, int]
    kinds: Counter[str]


def read_course(lab: Lab) -> Course:
    """Reads the log of a lab."""
    course = Course({}, {}, Counter())
    proposed: set[str] = set()
    ended: set[str] = set()
    for entry in entries_of(lab.log.records):
        if entry.verdict == "refused":
            continue
        course.kinds[entry.kind] += 1
        about = proposed & set(entry.correlation_id)
        if entry.kind == "mcp/proposal":
            proposed.add(entry.id)
        elif entry.kind == "mcp/request" and about:
            requests = course.late if about & ended else course.approved
            requests[entry.id] = entry.payload["params"]["arguments"]["n"]
        if entry.kind in ("mcp/reject", "mcp/withdraw", "mcp/request"):
            ended |= about
    return course


class Storm:
    """A lab with a tool that counts, a policy that approves most, and clients that behave badly."""

    def __init__(self, lab: Lab, *, seed: int) -> None:
        self.lab = lab
        self.dice = random.Random(seed)
        self.executed: Counter[str] = Counter()  # by the id of the request
        self.told: dict[int, Any] = {}
        self.requests = 0  # of clients to the gate
        self.connections = 0
        self.begun = time.monotonic()

        @lab.tool
        async def count(n: int) -> int:
            "Counts."
            request = ASKED.get()
            assert request is not None and request.payload["params"]["arguments"] == {"n": n}
            self.executed[request.id] += 1
            return n

        lab.decide = Policy("dice", self._judge, text="approves most")

    def _judge(self, card: Card) -> Decision | None:
        roll = self.dice.random()
        return None if roll < 0.1 else Decision("reject", "dice") if roll < 0.25 else Decision("approve")

    async def run(self, numbers: Iterator[int], work: Callable[[int], Awaitable[None]]) -> None:
        """Runs the calls with these numbers, some of them at once."""

        async def one_after_the_other() -> None:
            for n in numbers:
                await work(n)
                if len(self.told) % EVERY == 0:
                    self.report()

        await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))

    async def insist(self, n: int, new_client: Callable[[], Awaitable[Client]]) -> None:
        """Makes one call again and again, with clients that cancel and leave, until it has an answer that is final."""
        while n not in self.told:
            client = await new_client()
            self.connections += 1
            with suppress(*FAULTS):
                async with asyncio.timeout(self.dice.choice([0.01, 0.05, 0.2, 10.0, 10.0])), client:
                    for _ in range(self.dice.randint(1, 3)):
                        self.requests += 1
                        result = await client.call_tool("notebook_count", {"n": n})
                        if (result.meta or {}).get("mew-lab/state") != "pending":
                            self.told[n] = result
                            break

    @property
    def repeats(self) -> int:
        """The requests and connections that repeat an earlier one of the same call."""
        return sum(max(0, made - len(self.told)) for made in (self.requests, self.connections))

    def report(self, more: str = "") -> None:
        """Prints how far it is."""
        seconds = time.monotonic() - self.begun
        print(
            f"{seconds:.0f} s: {len(self.told)} calls ended, {self.requests} requests over {self.connections} "
            f"connections ({self.repeats} again), {len(self.executed)} executed{more}",
            flush=True,
        )

    def check(self) -> None:
        """Compares what was executed, what the log says and what the clients were told."""
        verified = self.lab.log.verify()
        assert verified.ok, str(verified)  # so each request for a proposal has a receipt
        course = read_course(self.lab)
        self.report(
            f"; {course.kinds['mcp/proposal']} proposals, {len(course.approved)} approved, "
            f"{course.kinds['mcp/reject']} rejected, {course.kinds['mcp/withdraw']} withdrawn, "
            f"{len(course.late)} approved too late"
        )
        errors = self.lab.log.requests().set_index("id").error
        # A client that gives up cancels what was approved just now, and what had not begun does not begin (R35).
        cancelled = {
            id for id in course.approved if errors[id] == "Not executed: it was cancelled before it began"
        }
        assert self.executed == Counter(course.approved.keys() - cancelled)
        assert all(errors[id].startswith("Not executed") for id in course.late)
        states = Counter(self.lab.log.proposals().state)
        withdrawn = course.kinds["mcp/proposal"] - len(course.approved)
        assert states == Counter(answered=len(course.approved), withdrawn=withdrawn)
        executed = Counter(n for id, n in course.approved.items() if id not in cancelled)
        for n, result in self.told.items():
            if not result.is_error:
                assert result.content[0].text == str(n) and executed[n] >= 1


@pytest.mark.parametrize(("calls", "repeats"), STORM)
async def test_a_storm_of_clients_executes_each_approved_call_exactly_once(
    lab: Lab, calls: int, repeats: int
) -> None:
    storm = Storm(lab, seed=calls)
    seat = await asyncio.to_thread(lambda: lab.serve_mcp(answer_after=0.05, grace=0.1, decide_within=0.5))
    headers = {"Authorization": f"Bearer {seat.token_file.read_text().strip()}"}

    async with httpx2.AsyncClient(headers=headers, timeout=30) as web:

        async def new_client() -> Client:
            mode = storm.dice.choice(["legacy", "auto"])
            return Client(streamable_http_client(seat.url, http_client=web), mode=mode)

        await storm.run(iter(range(calls)), lambda n: storm.insist(n, new_client))
    await asyncio.to_thread(lab.leave, "coder")
    storm.check()
    assert len(storm.told) == calls
    assert any(result.is_error for result in storm.told.values())
    assert storm.repeats >= repeats


def gate_words(lab: Lab) -> list[str]:
    """The arguments of `mew-lab mcp` for a participant that is enrolled for it."""
    lab.enrol("coder", with_lists("proposer"))
    return [
        "-m", "mew_lab.cli", "mcp", lab.url, "--space", lab.space, "--token-file", str(lab.token_file("coder")),
        "--answer-after", "0.3", "--grace", "1", "--decide-within", "2",
    ]  # fmt: skip


class KilledGate:
    """`mew-lab mcp --http` as a process that is killed at random moments and started again on the same port."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.folder = folder
        self.words = [*gate_words(lab), "--http"]
        self.url = ""
        self.serving = (
            asyncio.Event()
        )  # else the clients would take the time that the next gate needs to start
        self.process: asyncio.subprocess.Process | None = None
        self.kills = 0

    async def start(self) -> None:
        port = self.url.split(":")[2].split("/")[0] if self.url else "0"
        for _ in range(50):
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, *self.words, port, cwd=self.folder, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=ENVIRONMENT,
            )  # fmt: skip
            line = (await self.process.stdout.readline()).decode()
            if line:  # else the gateway has not noticed yet that the killed one is gone
                self.url = line.split()[4]
                self.serving.set()
                return
            await self.process.wait()
        raise AssertionError("the gate did not start")

    async def kill(self) -> None:
        self.process.kill()
        self.serving.clear()
        await self.process.wait()
        self.kills += 1

    @property
    def token(self) -> str:
        return (self.folder / ".mew" / "mcp" / "coder.token").read_text().strip()


@pytest.mark.parametrize("kills", KILLS)
async def test_a_gate_that_is_killed_executes_nothing_twice_and_nothing_that_was_refused(
    lab: Lab, tmp_path: Path, kills: int
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
    numbers = itertools.takewhile(lambda _: not killing.done(), itertools.count())
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {gate.token}"}, timeout=10) as web:

        async def new_client() -> Client:
            await gate.serving.wait()
            return Client(streamable_http_client(gate.url, http_client=web), mode="legacy")

        await storm.run(numbers, lambda n: storm.insist(n, new_client))
    await killing
    gate.process.terminate()
    await gate.process.wait()
    storm.check()
    assert gate.kills == kills and len(storm.told) >= kills


CLIENT = """
import asyncio, sys
from mcp import Client, StdioServerParameters

async def main(first, mode, words):
    async with Client(StdioServerParameters(command=sys.executable, args=words), mode=mode) as client:
        print("begun", flush=True)
        while True:
            result = await client.call_tool("notebook_count", {"n": first})
            pending = (result.meta or {}).get("mew-lab/state") == "pending"
            print("pending" if pending else f"{first} {result.model_dump_json(by_alias=True)}", flush=True)
            first += not pending

asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
"""


class KilledClient:
    """A process that starts `mew-lab mcp` over stdio, as a coding agent does, and is killed at random moments.

    It makes the calls with the numbers 0, 1, … one after the other, each again until it has an answer that is final, and
    the next process goes on with the call whose answer the killed one has not told.
    """

    def __init__(self, storm: Storm, folder: Path) -> None:
        self.storm = storm
        self.folder = folder
        self.words = gate_words(storm.lab)
        self.kills = 0

    async def run(self, kills: int) -> None:
        """Starts the process and kills it, so many times, and until it was told something before."""
        while self.kills < kills or not self.storm.told:
            await self._run_once(self.storm.dice.uniform(0, 2))
            self.kills += 1

    async def _run_once(self, seconds: float) -> None:
        storm = self.storm
        mode = storm.dice.choice(["legacy", "auto"])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, str(len(storm.told)), mode, *self.words,
            cwd=self.folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, limit=1 << 20,
            env=ENVIRONMENT,
        )  # fmt: skip
        out = process.stdout
        storm.connections += 1
        killing = None
        while line := await out.readline():
            words = line.decode()
            if killing is None:
                assert words == "begun\n"
                killing = asyncio.get_running_loop().call_later(seconds, process.kill)
            elif words.endswith("\n"):  # else it was killed while it told it
                storm.requests += 1
                if words != "pending\n":
                    number, told = words.split(" ", 1)
                    storm.told[int(number)] = CallToolResult.model_validate_json(told)
        await process.wait()
        assert killing is not None, "the client did not begin"


@pytest.mark.parametrize("kills", KILLS)
async def test_a_client_that_is_killed_loses_no_receipt_and_executes_nothing_twice(
    lab: Lab, tmp_path: Path, kills: int
) -> None:
    storm = Storm(lab, seed=kills)
    client = KilledClient(storm, tmp_path)
    await client.run(kills)
    await until(lambda: "coder" not in lab.me.participant.client.participants)
    storm.check()
    assert storm.told
