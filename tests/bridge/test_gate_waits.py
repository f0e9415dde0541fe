"""Calls that wait for an hour, by a clock that leaps: by progress, by the same call again, and by rounds."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client

from .conftest import Site, until
from .desk import Desk, give_up, text
from .test_gate import How, failing

MINUTE = 60.0
Leap = Callable[[float], None]


async def leap_in_steps(leap: Leap, minutes: int, ended: Callable[[], bool] = lambda: False) -> None:
    """Lets so many minutes pass, by ten seconds, so that what is due at each step runs before the next."""
    for _ in range(minutes * 6):
        if ended():
            return
        leap(10)
        for _ in range(30):
            await asyncio.sleep(0)


async def test_a_decision_after_54_minutes_reaches_a_client_that_calls_again(
    desk: Desk, leap: Leap, mode: str
) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        answers: list[Any] = []

        async def ask() -> None:
            while not answers or (answers[-1].meta and answers[-1].meta.get("mew-lab/state") == "pending"):
                answers.append(await client.call_tool("calc_add", {"a": 2, "b": 3}))

        asking = asyncio.create_task(ask())
        id = await desk.proposed()
        await leap_in_steps(leap, 54, asking.done)
        await desk.human.approve(id)
        await asking
    pending, last = answers[:-1], answers[-1]
    assert text(last) == "5" and not last.is_error and desk.executed == [(2, 3)]
    assert {answer.meta["mew-lab/proposal"] for answer in pending} == {id}
    # 45 s each, or nine rounds of 45 s each; the steps of the clock are of ten seconds
    fewest, most = (54, 72) if mode == "legacy" else (6, 8)
    assert fewest <= len(pending) <= most


async def test_a_decision_after_54_minutes_reaches_a_client_that_waits_by_progress(
    desk: Desk, leap: Leap, mode: str
) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with desk.gate(answer_after=60 * MINUTE) as gate, Client(gate.server, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}, progress_callback=note))
        id = await desk.proposed()
        await leap_in_steps(leap, 54, call.done)
        await desk.human.approve(id)
        assert text(await call) == "5"
    gaps = [later - earlier for earlier, later in itertools.pairwise(seen)]
    assert len(seen) > 300 and min(gaps) > 0 and max(gaps) < 60  # a client that resets at each would go on
    assert desk.executed == [(2, 3)]


async def test_an_hour_of_silence_is_a_refusal(desk: Desk, leap: Leap) -> None:
    async with desk.gate() as gate, Client(gate.server, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        await leap_in_steps(leap, 61)
        assert (await call).meta["mew-lab/proposal"] == id
        result = await client.call_tool("calc_add", {"a": 2, "b": 3})
    assert result.is_error and text(result) == (
        "Nobody decided on calc/add within 3600 s, so it was refused and not executed"
    )
    assert desk.executed == []


@pytest.mark.parametrize(("minutes", "stands"), [(4, True), (6, False)])
async def test_a_client_that_is_gone_has_five_minutes_to_come_back(
    desk: Desk, leap: Leap, minutes: int, stands: bool
) -> None:
    async with desk.gate() as gate, Client(gate.server, mode="legacy") as client:
        await give_up(client, "calc_add", {"a": 2, "b": 3})
        id = await desk.proposed()
        waiting = gate.calls.by_id(id)
        assert waiting is not None
        await until(lambda: not waiting.attached)
        await leap_in_steps(leap, minutes)
        assert [proposal.id for proposal in desk.open] == ([id] if stands else [])


WITHDRAWN: dict[str, str] = {
    "it is rejected": "human rejected calc/add: no. It was not executed",
    "its client is gone": "The client was gone for 20 s, so calc/add was withdrawn",
    "nobody decides": "Nobody decided on calc/add within 600 s, so it was refused and not executed",
    "the client withdraws it": "calc/add was withdrawn on request, and not executed",
}


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("how", ["refused", "swallowed"])
@pytest.mark.parametrize("is_always", [False, True])
@pytest.mark.parametrize("end", WITHDRAWN)
async def test_a_withdrawal_that_the_gateway_does_not_take_gives_the_place_back_all_the_same(
    site: Site, end: str, is_always: bool, how: How, leap: Leap, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails, desk = failing(monkeypatch), Desk(site)
    desk.human = await site.seat("human")
    await desk.seat()
    times = {"answer_after": 0.05, "decide_within": 600.0, "grace": 20.0}
    async with desk.gate(**times) as gate, Client(gate.server, mode="legacy") as client:
        gate.calls.most = 1
        await client.call_tool("calc_add", {"a": 2, "b": 3})
        id = await desk.proposed()
        fails["mcp/withdraw"] = how
        asked = asyncio.ensure_future(asyncio.sleep(0))
        if end == "it is rejected":
            await desk.human.reject(id, "no")
        elif end == "the client withdraws it":
            asked = asyncio.ensure_future(client.call_tool("proposal_withdraw", {"proposal": id}))
        elif end == "its client is gone":
            waiting = gate.calls.by_id(id)
            assert waiting is not None
            gate.calls.expect_return(waiting)
        await leap_in_steps(leap, 11 if end == "nobody decides" else 5)
        assert gate.calls.is_full
        if not is_always:
            fails.clear()
        await leap_in_steps(leap, 12, lambda: not gate.calls.is_full)
        assert not gate.calls.is_full
        await asked
        result = await client.call_tool("proposal_result", {"proposal": id})
        fails.clear()
        said, state = text(result), (result.meta or {}).get("mew-lab/state")
        if is_always:
            assert "is not confirmed, so it may still be approved" in said and "not executed" not in said
        else:
            assert said == WITHDRAWN[end]
        assert state == ("unknown" if is_always else None)
        await leap_in_steps(leap, 1)
        assert not len(gate.participant.correlations)
    assert desk.executed == []
