"""The state by which a client of the 2026-07-28 revision makes a request again: it serves that request and no other.

The library seals a state for one request. The gate compares the call itself, too, so half of these tests run without
the seal.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.request_state import RequestStateBoundary

from mew_lab.bridge.gate import McpGate

from .conftest import until
from .desk import Desk, patient, text

CALL = {"a": 2, "b": 3}
RESULT = "5"


class Rounds:
    """A client that was told to make its call of `calc_add` again, with `state`; the call is the proposal `id`."""

    def __init__(self, desk: Desk, gate: McpGate, client: Client) -> None:
        self.desk = desk
        self.gate = gate
        self.client = client
        self.state = self.id = ""

    async def begin(self) -> None:
        answer = await self.again({**CALL}, state=None)
        assert answer.result_type == "input_required"
        self.state = answer.request_state
        self.id = await self.desk.proposed()

    async def again(
        self, arguments: Any, *, tool: str = "calc_add", state: str | None, to: Any = None
    ) -> Any:
        """Makes a call with a state."""
        session = (to or self.client).session
        return await session.call_tool(tool, arguments, request_state=state, allow_input_required=True)

    async def approve(self) -> None:
        """Has the call executed, which its client does not learn."""
        await self.desk.human.approve(self.id)
        await self.gate.calls.by_id(self.id).ended.wait()  # type: ignore[union-attr]
        assert self.desk.executed == [(2, 3)]


@asynccontextmanager
async def begun(desk: Desk, *, is_sealed: bool = True) -> AsyncIterator[Rounds]:
    """A call in its second round."""
    async with desk.gate(answer_after=0.02) as gate, patient(gate.server) as client:
        if not is_sealed:
            [boundary] = [one for one in gate.server.middleware if isinstance(one, RequestStateBoundary)]
            gate.server.middleware.remove(boundary)
        await desk.seat("calc2")
        await until(lambda: len({tool.participant for tool in _tools(gate)}) == 2)
        rounds = Rounds(desk, gate, client)
        await rounds.begin()
        yield rounds


def _tools(gate: McpGate) -> Any:
    return gate.participant.discovery.get_available_tools()


async def _with_other_arguments(rounds: Rounds) -> Any:
    return await rounds.again({"a": 2, "b": 4}, state=rounds.state)


async def _with_arguments_that_look_alike(rounds: Rounds) -> Any:
    return await rounds.again({"a": 2, "b": "3"}, state=rounds.state)


async def _with_one_argument_more(rounds: Rounds) -> Any:
    return await rounds.again({**CALL, "c": None}, state=rounds.state)


async def _for_another_tool(rounds: Rounds) -> Any:
    return await rounds.again(CALL, tool="calc_fail", state=rounds.state)


async def _for_the_tool_of_another_participant(rounds: Rounds) -> Any:
    return await rounds.again(CALL, tool="calc2_add", state=rounds.state)


async def _for_a_resource(rounds: Rounds) -> Any:
    return await rounds.client.session.read_resource(
        "mew://calc/file:///a", request_state=rounds.state, allow_input_required=True
    )


MISUSES = [
    _with_other_arguments,
    _with_arguments_that_look_alike,
    _with_one_argument_more,
    _for_another_tool,
    _for_the_tool_of_another_participant,
    _for_a_resource,
]


async def refused(work: Awaitable[Any]) -> str:
    """The sentence of the refusal of a request."""
    try:
        result = await work
    except MCPError as fault:
        return str(fault)
    assert result.result_type == "complete" and result.is_error, result
    return text(result)


SEALS = pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "plain"])


@SEALS
@pytest.mark.parametrize("is_decided", [False, True], ids=["waiting", "decided"])
async def test_a_state_with_another_request_attaches_to_nothing_and_shows_nothing(
    desk: Desk, is_decided: bool, is_sealed: bool
) -> None:
    async with begun(desk, is_sealed=is_sealed) as rounds:
        if is_decided:
            await rounds.approve()
        for misuse in MISUSES:
            told = await refused(misuse(rounds))
            assert "requestState" in told or "is not known any more" in told
            assert [one.id for one in desk.human.proposals] == [rounds.id]
        if not is_decided:
            await rounds.approve()
        assert text(await rounds.again(CALL, state=rounds.state)) == RESULT
    assert desk.executed == [(2, 3)]


@SEALS
async def test_a_state_of_another_client_attaches_to_nothing(desk: Desk, is_sealed: bool) -> None:
    async with (
        begun(desk, is_sealed=is_sealed) as rounds,
        desk.gate(name="other", answer_after=0.02) as gate,
        patient(gate.server) as other,
    ):
        if not is_sealed:
            gate.server.middleware.clear()
        await other.list_tools()
        await rounds.approve()
        told = await refused(rounds.again(CALL, state=rounds.state, to=other))
    assert "requestState" in told or "is not known any more. It was not sent again" in told
    assert desk.executed == [(2, 3)] and len(list(desk.human.proposals)) == 1


async def test_an_altered_state_attaches_to_nothing(desk: Desk) -> None:
    async with begun(desk) as rounds:
        await rounds.approve()
        state = rounds.state
        altered = [
            state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]
            for at in range(0, len(state), 7)
        ]
        for other in (*altered, state[:-1], state + "A", f"{rounds.id} 1", "v1.", " ", "é" * 40):
            assert "requestState" in await refused(rounds.again(CALL, state=other))
    assert desk.executed == [(2, 3)] and len(list(desk.human.proposals)) == 1


@SEALS
async def test_a_state_serves_no_more_once_its_client_has_the_outcome(desk: Desk, is_sealed: bool) -> None:
    async with begun(desk, is_sealed=is_sealed) as rounds:
        await rounds.approve()
        assert text(await rounds.again(CALL, state=rounds.state)) == RESULT
        told = await refused(rounds.again(CALL, state=rounds.state))
        assert told == (
            "calc/add has ended, and this client has its outcome, so it was not sent again. proposal_result with "
            f"proposal {rounds.id} gives the outcome once more"
        )
        again = await rounds.client.session.call_tool("proposal_result", {"proposal": rounds.id})
    assert text(again) == RESULT
    assert desk.executed == [(2, 3)] and len(list(desk.human.proposals)) == 1


async def test_an_expired_state_attaches_to_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async with begun(desk) as rounds:
        await rounds.approve()
        ahead = time.time() + rounds.gate.calls.grace + 1
        monkeypatch.setattr("mcp.server.request_state.time", SimpleNamespace(time=lambda: ahead))
        assert "requestState" in await refused(rounds.again(CALL, state=rounds.state))
    assert desk.executed == [(2, 3)] and len(list(desk.human.proposals)) == 1
