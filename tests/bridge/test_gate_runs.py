"""A call that its tool does not answer in time: it ends as unknown, its place is free, and a repeat is a proposal.

A late answer, or what somebody found out, ends that it is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mew_lab.bridge.call_memory import CallMemory
from mew_lab.bridge.offers import LISTING
from mew_lab.errors import OutcomeUnknown
from mew_lab.sdk.participant import MEWParticipant

from .conftest import until
from .desk import PROPOSER, Desk, give_up, text


class Silent:
    """Lists two tools; each runs until it may end, and the calls are counted."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_end = asyncio.Event()

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
        await self.may_end.wait()
        return {"content": [{"type": "text", "text": f"done {self.calls}"}], "isError": "fail" in str(params)}


async def seat(desk: Desk) -> Silent:
    silent = Silent()
    await sit(desk, silent)
    return silent


async def sit(desk: Desk, silent: Silent) -> MEWParticipant:
    return await desk.site.seat("dead", "tool", tools=silent)


OWN_RIGHT = [*PROPOSER, {"kind": "mcp/request", "to": "dead"}]
NO_PROPOSAL = [*LISTING, {"kind": "mcp/request", "to": "dead"}]


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
            if can is PROPOSER:
                assert text(result) == (
                    "human has approved dead/wait, and it is running, but no answer came within 0.3 s. It was sent. "
                    "Whether it took effect is not known."
                )
            else:
                assert "may still run" in text(result)
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


async def call_until_unknown(desk: Desk, client: Client, arguments: dict[str, Any], can: Any) -> str:
    """Makes a call that ends as unknown, and that its client is told of; returns its id."""
    call = asyncio.create_task(client.call_tool("dead_wait", arguments))
    if can is PROPOSER:
        await desk.human.approve(await desk.proposed())
    result = await call
    assert result.meta is not None and result.meta["mew-lab/state"] == "unknown"
    return str(result.meta["mew-lab/proposal"])


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    "can", [PROPOSER, OWN_RIGHT, NO_PROPOSAL], ids=["approved", "own right", "no proposal"]
)
async def test_an_answer_that_comes_late_ends_that_a_call_is_unknown(
    desk: Desk, can: Any, fails: bool, tmp_path: Path
) -> None:
    silent, memory = await seat(desk), CallMemory(tmp_path / "calls" / "calls.json")
    arguments = {"how": "fail" if fails else "work"}
    async with (
        desk.gate(can, run_within=0.3, memory=memory) as gate,
        Client(gate.server, mode="legacy") as client,
    ):
        id = await call_until_unknown(desk, client, arguments, can)
        key = gate.calls.by_id(id).key  # type: ignore[union-attr]
        assert gate.calls.find_unknown(key) == id
        silent.may_end.set()
        await until(lambda: not gate.calls.find_unknown(key))
        assert memory.find_unknown(key) is None
        told = await client.call_tool("proposal_result", {"proposal": id})
        assert (text(told), told.is_error, told.meta) == ("done 1", fails, None)
        again = asyncio.create_task(client.call_tool("dead_wait", arguments))
        if can is PROPOSER:
            await desk.human.approve(await desk.proposed())
        assert text(await again) == "done 2" and silent.calls == 2 and not desk.open
    assert CallMemory(memory.path).load(max_age=60.0) == []


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("can", [PROPOSER, OWN_RIGHT], ids=["approved", "own right"])
async def test_a_repeat_takes_the_answer_that_came_after_its_call_had_ended_as_unknown(
    desk: Desk, can: Any, tmp_path: Path
) -> None:
    silent, path = await seat(desk), tmp_path / "calls" / "calls.json"
    async with (
        desk.gate(can, run_within=0.7, memory=CallMemory(path)) as gate,
        Client(gate.server, mode="legacy") as client,
    ):
        for n in (1, 2):
            gone = asyncio.create_task(give_up(client, "dead_wait", {"n": n}))
            if can is PROPOSER:
                await desk.human.approve(await desk.proposed())
            await gone
        sent = gate.participant.ledger.calls
        ids = [one.id for one in sent.proposals] or [one.id for one in sent.requests if one.tool == "wait"]

        def unknown() -> list[bool | None]:
            return [one and one.outcome and one.outcome.is_unknown for one in map(gate.calls.by_id, ids)]

        await until(lambda: unknown() == [True, True])
        silent.may_end.set()
        await until(lambda: unknown() == [False, False])
        assert text(await client.call_tool("dead_wait", {"n": 1})) == "done 2"
    # The other one outlives the gate, as an outcome.
    kept = CallMemory(path).load(max_age=60.0)
    assert [(call.id, call.waits, call.result["content"][0]["text"]) for call in kept] == [
        (ids[1], False, "done 2")
    ]
    assert silent.calls == 2


@pytest.mark.ruling("R35")
async def test_of_equal_unknown_calls_only_a_true_answer_to_each_ends_that_it_is_unknown(desk: Desk) -> None:
    participant, forger = await sit(desk, Silent()), await desk.site.seat("forger", [{"kind": "*"}])
    async with desk.gate(OWN_RIGHT, run_within=0.3) as gate, Client(gate.server, mode="legacy") as client:
        first = await call_until_unknown(desk, client, {"n": 1}, OWN_RIGHT)
        again = asyncio.create_task(client.call_tool("dead_wait", {"n": 1}))
        await desk.human.approve(await desk.proposed(), despite="unknown")
        second = str((await again).meta["mew-lab/proposal"])
        known = gate.participant.ledger.calls

        async def answer(by: MEWParticipant, id: str, words: str | None) -> None:
            result = {} if words is None else {"result": {"content": [{"type": "text", "text": words}]}}
            payload = {"jsonrpc": "2.0", "id": 1, **result}
            await by.sender.say_accepted("mcp/response", payload, to=["coder"], about=id)

        async def told(id: str) -> str:
            return text(await client.call_tool("proposal_result", {"proposal": id}))

        key = gate.calls.by_id(first).key  # type: ignore[union-attr]
        fulfilment = known.proposals.get(second).fulfilment  # type: ignore[union-attr]
        assert fulfilment is not None
        await answer(forger, first, "forged")
        await answer(participant, first, None)  # no correct answer
        await answer(participant, second, "forged")  # a proposal has no answer
        await answer(participant, fulfilment, "two")
        await until(lambda: known.proposals.get(second).state == "answered")  # type: ignore[union-attr]
        assert gate.calls.find_unknown(key) == first
        assert "may still run" in await told(first) and await told(second) == "two"
        await answer(participant, first, "one")
        await until(lambda: not gate.calls.find_unknown(key))
        assert await told(first) == "one" and await told(second) == "two"


@pytest.mark.ruling("R35")
async def test_what_somebody_found_out_ends_that_a_call_is_unknown(desk: Desk) -> None:
    silent = Silent()
    participant = await sit(desk, silent)
    async with desk.gate(OWN_RIGHT) as gate, Client(gate.server, mode="legacy") as client:
        for n in (1, 2):
            call = asyncio.create_task(client.call_tool("dead_wait", {"n": n}))
            await until(lambda n=n: silent.calls == n)
            await participant.stop()
            await call
            [unknown] = gate.participant.unknown_calls
            assert gate.participant.resolve(unknown.request.id, False, by="human")
            silent.may_end.set()
            participant = await sit(desk, silent)
            await until(gate.participant.discovery.get_available_tools)
            assert not (await client.call_tool("dead_wait", {"n": n})).is_error
            silent.may_end.clear()
            silent.calls = n
        assert not desk.open


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("can", [OWN_RIGHT, NO_PROPOSAL], ids=["own right", "no proposal"])
async def test_a_gate_does_not_repeat_the_unknown_call_of_another_by_own_right(desk: Desk, can: Any) -> None:
    silent = Silent()
    participant = await sit(desk, silent)
    other = await desk.site.seat("bob", OWN_RIGHT)
    async with desk.gate(can, answer_after=5.0) as gate, Client(gate.server, mode="legacy") as client:
        await until(gate.participant.discovery.get_available_tools)
        first = other.call("dead/wait", {"n": 1})
        await until(lambda: silent.calls)
        await participant.stop()
        with pytest.raises(OutcomeUnknown):
            await first
        silent.may_end.set()
        await sit(desk, silent)  # it has no memory, so it would execute the call once more
        await until(gate.participant.discovery.get_available_tools)
        again = asyncio.create_task(client.call_tool("dead_wait", {"n": 1}))
        if can is OWN_RIGHT:
            await desk.human.reject(await desk.proposed(), "look first")
            assert "look first" in text(await again)
        else:
            assert f"the same call was sent before, as {first.id}" in text(await again)
        assert silent.calls == 1
        for tool, n in (("dead_wait", 2), ("dead_look", 1)):  # another call, and one that changes nothing
            assert text(await client.call_tool(tool, {"n": n})).startswith("done")
        assert not desk.open


@pytest.mark.ruling("R35")
async def test_a_repeat_is_not_proposed_where_it_could_not_be_withdrawn_after_its_rejection(
    desk: Desk,
) -> None:
    silent, can = await seat(desk), [*NO_PROPOSAL, {"kind": "mcp/proposal"}]
    async with desk.gate(can, run_within=0.3) as gate, Client(gate.server, mode="legacy") as client:
        gate.participant.client.extension = {}  # a gateway where nobody may withdraw its own by that alone
        await call_until_unknown(desk, client, {"n": 1}, can)
        told = await client.call_tool("dead_wait", {"n": 1})
        assert told.is_error and "may propose calls of dead but not withdraw them" in text(told)
        assert not list(desk.human.proposals) and silent.calls == 1
