"""A gate whose connection to the space breaks while calls wait: what was decided meanwhile is not known, and it says so."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client

from mew_lab.bridge.gate import McpGate
from mew_lab.gateway.local import attach
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.transport.link import Link, LinkClosed

from .conftest import Site, until
from .desk import PROPOSER, Desk, held, text


class BreakingDesk(Desk):
    """A desk whose gate can be cut off from the space."""

    is_cut = False

    def breaking_client(self) -> MEWClient:
        gateway = self.site.gateway
        gateway.enrol("demo", "coder", PROPOSER)

        async def link() -> Link:
            if self.is_cut:
                raise LinkClosed(1006, "nobody there")
            await until(lambda: gateway.holder("demo", "coder") is None)
            return attach(gateway, "demo", "coder")

        return MEWClient(space="demo", connect_link=link, reconnect_delay=0.02, max_reconnect_attempts=1000)

    async def cut(self, gate: McpGate) -> None:
        self.is_cut = True
        holder = self.site.gateway.holder("demo", "coder")
        holder.close(1006, "of the test")
        await until(lambda: gate.participant.client.state != "ready")

    async def mend(self, gate: McpGate) -> None:
        self.is_cut = False
        await until(lambda: gate.participant.client.state == "ready")


@pytest.fixture
async def desk(site: Site) -> BreakingDesk:
    made = BreakingDesk(site)
    made.human = await site.seat("human")
    await made.seat()
    return made


async def test_an_approval_that_the_gate_missed_is_no_plain_refusal(desk: BreakingDesk) -> None:
    gate = McpGate(MEWParticipant(desk.breaking_client()), decide_within=1.0)
    async with gate, Client(gate.server) as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        await desk.cut(gate)
        await desk.human.approve(id)
        await until(lambda: desk.executed)
        await desk.mend(gate)
        result = await call
    assert result.is_error and text(result) == (
        "Whether calc/add was executed is not known: the connection to the space was lost while it waited. It is "
        "withdrawn now, and the log of the space tells whether it was approved before"
    )


async def test_a_withdrawal_that_could_not_be_sent_is_sent_when_the_space_is_back(desk: BreakingDesk) -> None:
    gate = McpGate(MEWParticipant(desk.breaking_client()), grace=0.05)
    async with gate, Client(gate.server) as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        await desk.cut(gate)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        waiting = held(gate, id)
        await until(lambda: waiting.why)
        assert desk.open
        await desk.mend(gate)
        await until(lambda: not desk.open)
    assert desk.executed == []


async def test_a_call_while_the_space_is_away_is_a_sentence(desk: BreakingDesk) -> None:
    gate = McpGate(MEWParticipant(desk.breaking_client()))
    async with gate, Client(gate.server) as client:
        await client.list_tools()
        await desk.cut(gate)
        result = await client.call_tool("calc_add", {"a": 2, "b": 3})
        assert result.is_error and "connect" in text(result)
        await desk.mend(gate)
        assert text(await desk.approved(client.call_tool("calc_add", {"a": 2, "b": 3}))) == "5"
