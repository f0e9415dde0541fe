"""The first list of a gate: it has the tools of all that answer, and takes as long as the slowest of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from mcp import Client, types

from mew_lab.bridge import announcements, gate
from mew_lab.sdk.scheduler import Pace

from .conftest import Site, until
from .desk import PROPOSER

OWN = {"proposal_result", "proposal_withdraw"}


class Lister:
    """Lists one tool `after` so many seconds; never where that is None. Notes how many are asked at once."""

    asked_now = 0
    asked_most = 0

    def __init__(self, after: float | None) -> None:
        self.after = after

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        Lister.asked_now += 1
        Lister.asked_most = max(Lister.asked_most, Lister.asked_now)
        try:
            if self.after is None:
                await asyncio.Event().wait()
            else:
                await asyncio.sleep(self.after)
        finally:
            Lister.asked_now -= 1
        return {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}


async def seat_all(site: Site, delays: Sequence[float | None], *, first: int = 0) -> set[str]:
    """Seats a participant for each delay; returns the names of the tools of those that answer."""
    offered = set()
    for n, after in enumerate(delays, first):
        await site.seat(f"p{n}", "tool", tools=Lister(after))
        if after is not None:
            offered.add(f"p{n}_t")
    return offered


async def first_list(site: Site, name: str) -> tuple[float, set[str]]:
    """How long a new gate takes from its start to the first list, and the tools in it."""
    begun = time.perf_counter()
    async with gate.McpGate(site.prepare(name, PROPOSER)) as made:
        async with Client(made.server) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
        return time.perf_counter() - begun, tools


async def test_the_first_list_has_the_tools_of_all_and_takes_no_longer_for_twenty_than_for_one(
    site: Site,
) -> None:
    offered = await seat_all(site, [0.3])
    alone, tools = await first_list(site, "coder")
    assert tools == OWN | offered
    offered |= await seat_all(site, [0.3] * 19, first=1)
    together, tools = await first_list(site, "coder2")
    assert tools == OWN | offered
    assert together < 3 * alone  # one after the other it is 20 times


@pytest.mark.drawn
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
async def test_silent_participants_keep_no_tool_of_another_out_of_the_first_list(
    site: Site, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Random(seed)
    delays = [dice.choice([None, None, 0.0, 0.02, 0.2]) for _ in range(dice.randint(4, 24))]
    monkeypatch.setattr(gate, "AT_ONCE", Pace(stagger=0.0, at_once=3, slow=0.02))
    Lister.asked_now = Lister.asked_most = 0
    offered = await seat_all(site, delays)
    async with gate.McpGate(site.prepare("coder", PROPOSER)) as made:
        async with Client(made.server) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == OWN | offered
            begun = (
                time.perf_counter()
            )  # the silent ones have had their time, so no list waits for them again
            assert {tool.name for tool in (await client.list_tools()).tools} == OWN | offered
            assert time.perf_counter() - begun < gate.DISCOVER_WITHIN / 2


async def test_answers_that_come_one_after_the_other_are_all_in_the_first_list_and_hold_no_handshake(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "DISCOVER_WITHIN", 0.5)
    Lister.asked_now = 0
    offered = await seat_all(site, [0.2 * n for n in range(8)])
    async with gate.McpGate(site.prepare("coder", PROPOSER)) as made:
        async with Client(made.server, mode="legacy") as client:
            assert Lister.asked_now, "the handshake has been answered before all answers came"
            assert {tool.name for tool in (await client.list_tools()).tools} == OWN | offered


async def test_only_so_many_participants_are_asked_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "AT_ONCE", Pace(stagger=0.0, at_once=3, slow=60.0))
    Lister.asked_now = Lister.asked_most = 0
    offered = await seat_all(site, [0.01] * 12)
    _, tools = await first_list(site, "coder")
    assert (tools, Lister.asked_most) == (OWN | offered, 3)


async def test_what_the_first_list_had_to_leave_out_is_announced_once_after_it_and_never_before(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "DISCOVER_WITHIN", 0.3)
    offered, late = await seat_all(site, [0.01] * 3), range(5)
    may_answer = asyncio.Event()

    class Held(Lister):
        async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
            await may_answer.wait()
            return await super().answer(method, params)

    for n in late:
        await site.seat(f"late{n}", "tool", tools=Held(0.0))
    told: list[str] = []

    async def note(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.append(message.method)

    async with gate.McpGate(site.prepare("coder", PROPOSER)) as made:
        async with Client(made.server, mode="legacy", message_handler=note) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == OWN | offered
            assert not told
            may_answer.set()
            await until(lambda: told)
            await until(lambda: len(made.participant.discovery.get_available_tools()) == 3 + len(late))
            await asyncio.sleep(2 * announcements.ANNOUNCE_EVERY)  # a second one would have come by then
            assert len(told) == 1
            whole = {tool.name for tool in (await client.list_tools()).tools}
            assert whole == OWN | offered | {f"late{n}_t" for n in late}
        async with Client(made.server, mode="legacy", message_handler=note) as client:
            await client.list_tools()
            assert len(told) == 1
