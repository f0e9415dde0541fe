"""Calls that wait for an hour, by a clock that leaps: by progress, by the same call again, and by rounds."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mew_lab.bridge import waiting_calls
from mew_lab.bridge.call_memory import CallMemory, RememberedCall
from mew_lab.bridge.delivery import STDIO
from mew_lab.bridge.waiting_calls import call_key

from .conftest import Site, until
from .desk import LISTING, PROPOSER, Desk, give_up, held, patient, text
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
    async with desk.gate() as gate, patient(gate.server, mode=mode) as client:
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
        waiting = held(gate, id)
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
            waiting = held(gate, id)
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


@pytest.mark.ruling("R35")
async def test_an_approval_while_the_last_withdrawal_fails_lets_the_call_run(
    desk: Desk, leap: Leap, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails, may_end = failing(monkeypatch), asyncio.Event()

    async def push() -> str:
        """Pushes."""
        await may_end.wait()
        return "pushed"

    await desk.site.tool("slow", push)
    times = {"answer_after": 0.05, "decide_within": 600.0, "grace": 1e6}
    async with desk.gate(**times) as gate, Client(gate.server, mode="legacy") as client:
        await client.call_tool("slow_push", {})
        id = await desk.proposed()
        waiting = held(gate, id)
        fails["mcp/withdraw"] = "swallowed"
        # The last one is that which begins when `decide_within` has passed since the first one failed.
        await leap_in_steps(
            leap, 25, lambda: waiting.unconfirmed_since < asyncio.get_running_loop().time() - 585
        )
        await until(lambda: gate.participant.correlations.waiting("mcp/withdraw"))
        await desk.human.approve(id)
        await until(lambda: waiting.decided)
        await leap_in_steps(leap, 2)
        assert not gate.participant.correlations.waiting("mcp/withdraw") and not waiting.ended.is_set()
        may_end.set()
        await waiting.ended.wait()
        assert text(await client.call_tool("proposal_result", {"proposal": id})) == "pushed"


async def test_an_outcome_that_no_client_has_outlives_many_that_were_delivered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_calls, "MAX_ENDED", 5)
    async with desk.gate(OWN_RIGHT, answer_after=5.0) as gate, Client(gate.server, mode="legacy") as client:
        await until(gate.participant.discovery.get_available_tools)
        key = call_key("calc", payload(7))
        with pytest.MonkeyPatch.context() as patch:  # the answer does not reach the client
            patch.setattr(gate.calls, "note_delivered", lambda waiting: None)
            assert text(await client.call_tool("calc_add", arguments(7))) == "10"
        kept = gate.calls.take(key, STDIO)
        assert kept is not None and not kept.delivered
        for n in range(20, 40):
            await client.call_tool("calc_add", arguments(n))
        assert gate.calls.by_id(kept.id) is kept
        assert text(await client.call_tool("calc_add", arguments(7))) == "10"
    assert desk.executed.count((7, 3)) == 1


OWN_RIGHT = [*LISTING, *PROPOSER, {"kind": "mcp/request", "to": "calc"}]


def arguments(a: int) -> dict[str, int]:
    return {"a": a, "b": 3}


def payload(a: int) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": "add", "arguments": arguments(a)}}


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("seed", range(3))
async def test_a_gate_that_starts_again_gives_each_outcome_that_it_kept_and_executes_nothing_twice(
    desk: Desk, tmp_path: Path, seed: int
) -> None:
    dice, path = random.Random(seed), tmp_path / "calls" / "calls.json"
    ended = dice.choice([1, 40, 200])
    calls = [*[True] * ended, *[False] * (300 - ended)]
    dice.shuffle(calls)
    memory = CallMemory(path)
    memory.load(max_age=60.0)
    for n, has_ended in enumerate(calls):
        call = RememberedCall(call_key("calc", payload(n)), f"call-{n}", "calc/add", True)
        memory.put(call)
        if has_ended:
            memory.put(call._replace(result={"content": [{"type": "text", "text": f"kept {n}"}]}))
    memory.close()
    async with desk.gate(OWN_RIGHT, memory=CallMemory(path)) as gate:
        async with Client(gate.server, mode="legacy") as client:
            await until(gate.participant.discovery.get_available_tools)
            for n, has_ended in enumerate(calls):
                told = text(await client.call_tool("calc_add", arguments(n)))
                assert told == f"kept {n}" if has_ended else "is not known here" in told
    assert desk.executed == []
