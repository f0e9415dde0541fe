"""A call that its tool never answers: it ends as unknown after its time, its place is free, and a repeat is a proposal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from mcp import Client

from mew_lab.sdk.participant import MEWParticipant

from .conftest import until
from .desk import PROPOSER, Desk, text


class Silent:
    """Lists two tools; each runs without an end, and the calls are counted."""

    def __init__(self) -> None:
        self.calls = 0

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "tools/list":
            reads = {"readOnlyHint": True}
            names = [("wait", {}), ("look", reads)]
            return {
                "tools": [
                    {"name": name, "inputSchema": {"type": "object"}, "annotations": hints}
                    for name, hints in names
                ]
            }
        self.calls += 1
        return await asyncio.Event().wait()


async def seat(desk: Desk) -> Silent:
    silent = Silent()
    participant = MEWParticipant(desk.site.client("dead", "tool"), tools=silent)
    desk.site.seated.append(participant)
    await participant.start()
    return silent


OWN_RIGHT = [*PROPOSER, {"kind": "mcp/request", "to": "dead"}]


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("can", [PROPOSER, OWN_RIGHT], ids=["approved", "own right"])
async def test_a_call_that_is_never_answered_ends_as_unknown_and_frees_its_place(
    desk: Desk, can: Any, mode: str
) -> None:
    silent = await seat(desk)
    async with desk.gate(can, run_within=0.3) as gate, Client(gate.server, mode=mode) as client:
        gate.calls.most = 1
        for n in range(3):  # each has the one place
            call = asyncio.create_task(client.call_tool("dead_wait", {"n": n}))
            if can is PROPOSER:
                await desk.human.approve(await desk.proposed())
            result = await call
            assert result.is_error and (result.meta or {}).get("mew-lab/state") == "unknown"
            assert "Whether it took effect is not known" in text(result) or "may still run" in text(result)
    assert silent.calls == 3


@pytest.mark.ruling("R35")
async def test_a_repeat_of_an_unknown_call_by_own_right_comes_as_a_proposal_unless_its_tool_only_reads(
    desk: Desk,
) -> None:
    silent = await seat(desk)
    async with desk.gate(OWN_RIGHT, run_within=0.3) as gate, Client(gate.server, mode="legacy") as client:
        for tool in ("dead_wait", "dead_look"):
            await client.call_tool(tool, {"n": 1})
        assert not desk.open
        await client.call_tool("dead_look", {"n": 1})  # R35 exempts what changes nothing
        assert silent.calls == 3 and not desk.open
        again = asyncio.create_task(client.call_tool("dead_wait", {"n": 1}))
        id = await desk.proposed()
        assert silent.calls == 3
        await desk.human.reject(id, "look first")
        assert "look first" in text(await again)
        other = asyncio.create_task(client.call_tool("dead_wait", {"n": 2}))
        await until(lambda: silent.calls == 4)
        await other
