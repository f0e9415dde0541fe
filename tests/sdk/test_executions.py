"""One fulfilment of each proposal is executed: races of deciders, restarts of the executor, and each rule by itself."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from mew_lab.errors import ProposalEnded, ToolFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.decisions import draft_fulfilment
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.tools import ToolBox

from .conftest import Room, until

RACES = [
    pytest.param(40, id="short"),
    pytest.param(1000, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
]
AT_ONCE = 8


class Target:
    """A tool that counts its executions by the proposal, in whichever participant it is offered."""

    def __init__(self) -> None:
        self.executed: Counter[str] = Counter()
        self.waits: asyncio.Event | None = None

    def tools(self) -> ToolBox:
        async def push(n: int) -> str:
            request = ASKED.get()
            assert request is not None
            self.executed.update(request.correlation_id or [request.id])
            if self.waits is not None:
                await self.waits.wait()
            if n % 7 == 3:
                raise ValueError(f"no branch {n}")
            return f"pushed {n}"

        tools = ToolBox(name="git")
        tools.add(push)
        return tools


class Decider:
    """A participant that approves what is proposed, and what it was told of each proposal."""

    def __init__(self, participant: MEWParticipant) -> None:
        self.participant = participant
        self.told: dict[str, str] = {}
        self.sent: dict[str, str] = {}  # request -> proposal
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, proposal: Envelope) -> None:
        task = asyncio.ensure_future(self.approve(proposal))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def approve(self, proposal: Envelope) -> None:
        """As a program of ours decides."""
        id = self.participant.client.new_id()
        self.sent[id] = proposal.id
        try:
            await self.participant.approve(proposal.id, request_id=id)
        except ProposalEnded as ended:
            self.told[proposal.id] = str(ended)
        else:
            self.told[proposal.id] = "approved"


class Hasty(Decider):
    """Sends its request at once, whatever its ledger says, as the reference's fulfiller."""

    async def approve(self, proposal: Envelope) -> None:
        known = self.participant.proposals.get(proposal.id)
        assert known is not None
        request = self.participant.client.new_id()
        self.sent[request] = proposal.id
        self.participant.client.post(draft_fulfilment(known, id=request))
        held = self.participant.ledger.calls.requests
        await until(lambda: (call := held.get(request)) is not None and call.state != "waiting")
        call = held.get(request)
        assert call is not None
        self.told[proposal.id] = (
            f"Proposal {proposal.id}: {call.late}; not executed" if call.late else "approved"
        )


async def race(room: Room, kinds: Sequence[type[Decider]], calls: int, *, seed: int) -> None:
    """Each of the deciders approves each call; the target executes each once, and all others are told."""
    target, dice = Target(), random.Random(seed)
    await room.seat("git", "tool", tools=target.tools())
    deciders = [kind(await room.seat(f"d{n}", "human")) for n, kind in enumerate(kinds)]
    for decider in deciders:
        decider.participant.on_mcp_proposal(decider.note)
    bot = await room.seat("bot", "proposer")
    numbers = iter(range(calls))
    outcomes: dict[str, str] = {}

    async def propose() -> None:
        for n in numbers:
            call = bot.call("git/push", {"n": n})
            try:
                outcomes[call.id] = str(await asyncio.wait_for(call.outcome(), 30))
            except ToolFailed as failed:
                outcomes[call.id] = "failed" if f"no branch {n}" in str(failed) else str(failed)
            assert outcomes[call.id] == ("failed" if n % 7 == 3 else f"pushed {n}")
            await asyncio.sleep(dice.choice([0, 0, 0.001]))

    await asyncio.gather(*(propose() for _ in range(AT_ONCE)))
    assert target.executed == Counter(outcomes.keys()) and len(outcomes) == calls
    await until(lambda: all(set(decider.told) == set(outcomes) for decider in deciders))
    crossed = 0
    requests = {envelope.id: envelope for envelope in room.sent("mcp/request")}
    for id in outcomes:
        proposal = bot.proposals.get(id)
        assert proposal is not None
        told = {decider.participant.client.id: decider.told[id] for decider in deciders}
        assert [name for name, word in told.items() if word == "approved"] == [proposal.by]
        by = proposal.by
        assert set(told.values()) <= {
            "approved",
            f"Proposal {id}: already approved by {by}; not executed",
            f"Cannot approve proposal {id}: {by} approved it before",
        }
        crossed += sum("not executed" in word for word in told.values())
    assert crossed, "no two decisions crossed"
    late = {
        request
        for decider in deciders
        for request, id in decider.sent.items()
        if request in requests and (won := bot.proposals.get(id)) is not None and won.fulfilment != request
    }
    await until(lambda: len(room.sent("mcp/response")) == calls + len(late))
    answers = {answer.correlation_id[0]: answer for answer in room.sent("mcp/response")}
    for request in late:
        error = answers[request].payload["error"]
        won = bot.proposals.get(requests[request].correlation_id[0])
        assert won is not None and error["code"] == -32001
        assert error["data"] == {"code": "already_fulfilled", "by": won.by, "request": won.fulfilment}


KINDS: list[Any] = [
    pytest.param([Hasty, Hasty], id="two of the reference's kind"),
    pytest.param([Decider, Decider], id="two programs"),
    pytest.param([Hasty, Decider, Hasty, Decider, Decider], id="five"),
]


@pytest.mark.req("C-22")
@pytest.mark.parametrize("calls", RACES)
@pytest.mark.parametrize("kinds", KINDS)
async def test_however_many_decide_at_once_each_proposal_is_executed_once_and_each_loser_is_told(
    either: Room, kinds: list[type[Decider]], calls: int
) -> None:
    await race(either, kinds, calls, seed=calls)
