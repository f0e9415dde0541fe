"""Whatever is killed, each proposal is executed at most once, and all that is told of it is true or says "not known".

Target, deciders and gateway are processes that are killed; the proposer counts its ids from the start whenever it starts
(R6). The target writes to the disk which requests it executes, and that is held against what the proposer was told, the
journal, its frames, and a lab that goes on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConnectionLost, NoReply, OutcomeUnknown, ToolFailed
from mew_lab.lab.labs import close_all, up
from mew_lab.log.log import open_log
from mew_lab.log.reading import read_journal
from mew_lab.protocol.intake import SENT_UNKNOWN
from mew_lab.sdk.calls import Call
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant

from .conftest import ENVIRONMENT, ROOT, Served, until
from .once_peer import PATIENT

PEOPLE = ("git=tool", "bot=proposer", "d0", "d1")
DECIDERS = PEOPLE[2:]
KILLED = ("target", "proposer", "gateway", "decider", "target and gateway", "target", "proposer")


class Storm:
    """The processes, the proposer, and its calls."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice = folder, dice
        self.gateway: Served
        self.peers: dict[str, asyncio.subprocess.Process] = {}
        self.bot: MEWParticipant | None = None
        self.calls: dict[int, Call] = {}
        self.numbers = itertools.count(1)
        self.kills: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.gateway.port}"

    async def start(self) -> None:
        self.gateway = await Served.start(self.folder, PEOPLE)
        await asyncio.gather(self.start_proposer(), *(self.start_peer(name) for name in ("git", *DECIDERS)))

    async def start_peer(self, name: str) -> None:
        await self.kill(name)
        words = ("target" if name == "git" else "decider", self.url, self.gateway.tokens[name], self.folder)
        self.peers[name] = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.once_peer", *words, str(self.dice.randrange(2**32)),
            cwd=ROOT, env=ENVIRONMENT, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert await asyncio.wait_for(process.stdout.readline(), 30) == b"ready\n"

    async def kill(self, name: str) -> None:
        process = self.peers.pop(name, None)
        if process is not None:
            process.kill()
            await process.wait()

    async def start_proposer(self) -> None:
        if self.bot is not None:
            await self.bot.stop()
        ids = itertools.count(1)
        client = MEWClient(
            self.url,
            space="demo",
            token=self.gateway.tokens["bot"],
            new_id=lambda: f"p-{next(ids)}",
            **PATIENT,
        )
        self.bot = MEWParticipant(client)
        await self.bot.start()

    async def start_gateway(self) -> None:
        await self.gateway.kill()
        self.gateway = await Served.start(self.folder, PEOPLE, resume=self.gateway.port)

    async def step(self) -> None:
        """Proposes some calls, and kills something while they are on their way."""
        assert self.bot is not None
        calls: list[Call] = []
        for _ in range(self.dice.randint(2, 8)):
            n = next(self.numbers)
            with contextlib.suppress(ConnectionLost):
                self.calls[n] = self.bot.propose("git/push", {"n": n})
                calls.append(self.calls[n])
            await asyncio.sleep(self.dice.choice([0, 0.002, 0.01]))
        if calls and self.dice.random() < 0.7:
            await until(lambda: calls[0].done)
        await asyncio.sleep(self.dice.choice([0, 0.005, 0.02]))
        what = KILLED[self.kills.total() % len(KILLED)]
        self.kills[what] += 1
        if what == "proposer":
            await self.start_proposer()
        if "target" in what:
            await self.kill("git")
        if "gateway" in what:
            await self.start_gateway()
        if "target" in what:
            await self.start_peer("git")
        elif what == "decider":
            await self.start_peer(self.dice.choice(DECIDERS))

    async def settle(self) -> None:
        """Starts the target once more after all that was sent, so that no answer can come any more."""
        bot = self.bot
        await until(lambda: {"git", *DECIDERS} <= set(bot.client.participants))
        for name in DECIDERS:
            await self.kill(name)
        await until(lambda: not set(DECIDERS) & set(bot.client.participants))
        await self.start_peer("git")
        await until(lambda: "git" in bot.client.participants)

    async def end(self) -> None:
        if self.bot is not None:
            await self.bot.stop()
        for name in PEOPLE:
            await self.kill(name.partition("=")[0])
        await self.gateway.kill()


class Judge:
    """Holds what the journal says of each proposal and request against what the target did."""

    def __init__(self, journal: Path, truth: Path) -> None:
        lines = [line.split() for line in truth.read_text().splitlines()]
        self.begun, self.done = (
            Counter(id for word, id, _ in lines if word == what) for what in ("begin", "end")
        )
        log = open_log(journal)
        self.envelopes = {one.seq: json.loads(one.raw) for one in read_journal(journal) if one.raw}
        self.requests = [one for one in log.requests().to_dict("records") if one["method"] == "tools/call"]
        self.proposals = {
            self.envelopes[one["seq"]]["payload"]["params"]["arguments"]["n"]: one
            for one in log.proposals().to_dict("records")
        }
        self.joins = [
            seq
            for seq, one in self.envelopes.items()
            if one["kind"] == "system/presence"
            and one["payload"]["event"] == "join"
            and one["payload"]["participant"]["id"] == "git"
        ]

    def about(self, proposal: dict[str, Any]) -> list[dict[str, Any]]:
        """The requests about a proposal, those about a later one of its id left out."""
        end = self.ends(proposal)
        return [
            one
            for one in self.requests
            if proposal["seq"] < one["seq"] < end
            and proposal["id"] in self.envelopes[one["seq"]]["correlation_id"]
        ]

    def ends(self, proposal: dict[str, Any]) -> float:
        """Where its proposer takes its id anew."""
        later = [one["seq"] for one in self.proposals.values() if one["id"] == proposal["id"]]
        return min((seq for seq in later if seq > proposal["seq"]), default=math.inf)

    def executed(self, proposal: dict[str, Any]) -> int:
        """How often it was executed by a target that knew of it: one that started later knows of no end of it."""
        return sum(
            self.begun[one["id"]]
            for one in self.about(proposal)
            if not any(proposal["seq"] < seq < one["seq"] for seq in self.joins)
        )

    def check_request(self, request: dict[str, Any]) -> None:
        """Whether the frame of the requests tells what was done."""
        begun, done = self.begun[request["id"]], self.done[request["id"]]
        state = request["state"]
        # None is open, for its target was started again.
        assert state in ("answered", "refused", "unknown"), request
        assert begun <= 1, request
        if state == "refused" or (state == "answered" and request["error"].startswith("Not executed")):
            assert begun == 0, request
        elif state == "answered":
            assert begun == done == 1, request
            assert not request["failed"] or "no branch" in request["error"], request

    def check_proposal(self, proposal: dict[str, Any]) -> None:
        """Whether the frame of the proposals tells what was done."""
        about = self.about(proposal)
        assert sum(self.begun[one["id"]] for one in about) <= 1, proposal
        state = proposal["state"]
        assert state in ("open", "withdrawn", "answered", "unknown", "fulfilled"), proposal
        fulfilments = [one for one in about if proposal["id"] in one["proposals"]]
        assert len(fulfilments) == (state not in ("open", "withdrawn")), proposal
        if (
            state == "fulfilled"
        ):  # its id was taken anew before the answer came, and the request tells the outcome
            assert self.ends(proposal) < math.inf, proposal
        elif fulfilments:
            assert state == fulfilments[0]["state"], (proposal, fulfilments)
        assert fulfilments or not self.executed(proposal), proposal

    async def check_told(self, n: int, call: Call) -> str:
        """Whether the proposer was told what was done; returns what it was told."""
        proposal = self.proposals[n]
        executed = self.executed(proposal)
        assert call.done
        try:
            told, said = "result", str(await call)
        except OutcomeUnknown as fault:
            assert call.state == "unknown"
            assert str(fault).endswith((SENT_UNKNOWN, "It may have been sent, and it may have run")), fault
            return "unknown"
        except ConnectionLost as fault:  # it left the space before a decision
            assert "may" in str(fault), fault
            return "left"
        except (ToolFailed, NoReply) as fault:
            if "no branch" not in str(fault):
                assert not executed, (fault, proposal)
                return "failed"
            told, said = "failed", str(fault)
        [done] = [one for one in self.about(proposal) if self.done[one["id"]]]
        pushed = self.envelopes[done["seq"]]["payload"]["params"]["arguments"]["n"]
        assert said.endswith(f"no branch {pushed}" if told == "failed" else f"pushed {pushed}"), proposal
        return told


@pytest.mark.req("C-22")
@pytest.mark.ruling("R32")
@pytest.mark.ruling("R35")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "steps", [pytest.param(len(KILLED), id="short"), pytest.param(200, id="long", marks=pytest.mark.slow)]
)
async def test_whatever_is_killed_nothing_is_executed_twice_and_what_cannot_be_known_is_called_unknown(
    tmp_path: Path, steps: int
) -> None:
    storm = Storm(tmp_path, random.Random(steps))
    try:
        await storm.start()
        for _ in range(steps):
            await storm.step()
        await storm.settle()
    finally:
        await storm.end()
    judge = Judge(storm.gateway.journal, tmp_path / "truth")
    for request in judge.requests:
        judge.check_request(request)
    for proposal in judge.proposals.values():
        judge.check_proposal(proposal)
    told = Counter(
        [await judge.check_told(n, call) for n, call in storm.calls.items() if n in judge.proposals]
    )
    states = Counter(one["state"] for one in judge.proposals.values())
    print(
        f"{storm.kills}; {len(judge.proposals)} proposals: {states}; told: {told}; executed {judge.begun.total()}"
    )
    assert states["answered"] and states["unknown"]
    unknown = {one["id"] for one in judge.requests if one["state"] == "unknown"}
    known = await asyncio.to_thread(known_as_unknown, storm.gateway.journal)
    assert (known - unknown, unknown - known) == (set(), set())


def known_as_unknown(journal: Path) -> set[str]:
    """The requests of unknown outcome, as a lab that goes on with the journal has them."""
    lab = up(resume=journal, port=None)
    try:
        return {call.request.id for call in lab.me.participant.unknown_calls}
    finally:
        close_all()
