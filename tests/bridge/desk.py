"""What the tests of the gate share: a space with a calculator and a human, its gates, and the text of a result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, MCPError, types

from mew_lab.bridge.gate import McpGate
from mew_lab.bridge.offers import LISTING
from mew_lab.bridge.waiting_calls import WaitingCall
from mew_lab.ledger.calls import Proposal
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Site, until

PROPOSER = [*PROFILES["proposer"], *LISTING]


class Desk:
    """A space with a calculator and a human; it counts what was executed."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.executed: list[tuple[Any, ...]] = []
        self.human: MEWParticipant

    async def seat(self, name: str = "calc", can: Any = "tool") -> MEWParticipant:
        participant = self.site.prepare(name, can)

        def add(a: int, b: int) -> int:
            """Sum of two numbers."""
            self.executed.append((a, b))
            return a + b

        def fail() -> None:
            """Always fails."""
            raise ValueError("it is broken")

        participant.register_tool(add)
        participant.register_tool(fail)
        await participant.start()
        return participant

    @property
    def open(self) -> list[Any]:
        return [one for one in self.human.proposals.open() if not one.decided and one.state == "open"]

    async def proposed(self, count: int = 1) -> str:
        await until(lambda: len(self.open) >= count)
        return str(self.open[-1].id)

    async def approved(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a call gives that the human approves."""
        call = asyncio.ensure_future(work)
        await self.human.approve(await self.proposed())
        return await call

    def card(self, id: str) -> Proposal:
        """The proposal of that id, as the human has it."""
        proposal = self.human.proposals.get(id)
        assert proposal is not None
        return proposal

    @asynccontextmanager
    async def gate(self, can: Any = PROPOSER, *, name: str = "coder", **how: Any) -> AsyncIterator[McpGate]:
        async with McpGate(self.site.prepare(name, can), **how) as gate:
            yield gate


def held(gate: McpGate, id: str) -> WaitingCall:
    """The call of that id, which its gate still knows."""
    waiting = gate.calls.by_id(id)
    assert waiting is not None
    return waiting


async def _answer_nothing(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


def patient(*where: Any, **how: Any) -> Client:
    """A client that declares that it can be asked for input, and so sends a request again where it is told to."""
    return Client(*where, elicitation_callback=_answer_nothing, **how)


async def give_up(client: Client, tool: str, arguments: dict[str, Any]) -> None:
    """Makes a call, and lets the client's own time limit end it."""
    with pytest.raises(MCPError, match=r"(?i)timed out"):
        await client.call_tool(tool, arguments, read_timeout_seconds=0.5)


def text(result: Any) -> str:
    return "\n".join(block.text for block in result.content)
