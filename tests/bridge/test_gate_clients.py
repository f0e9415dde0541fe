"""What a gate gives each client: the pending result or another round, the schema of results, and when it answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError, types

from mew_lab.bridge.client_results import reads_as_own
from mew_lab.bridge.gate import McpGate
from mew_lab.bridge.offers import PENDING_LINE
from mew_lab.gateway.local import attach
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.transport.link import Link

from .conftest import until
from .desk import PROPOSER, Desk, patient, text

SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


class Counter:
    """A tool whose results follow a schema; `answers` takes the place of its result."""

    def __init__(self, answer: Mapping[str, Any] | None = None) -> None:
        data = {"sum": 5}
        usual = {"content": [{"type": "text", "text": json.dumps(data)}], "structuredContent": data}
        self.result = usual if answer is None else answer
        self.called = 0

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [{"name": "add", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}]}
        self.called += 1
        return self.result


async def seat(desk: Desk, answerer: Any, name: str = "sum") -> MEWParticipant:
    return await desk.site.seat(name, "tool", tools=answerer)


async def schema_of(client: Client, name: str = "sum_add") -> Any:
    [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == name]
    return tool.output_schema


async def test_a_client_that_declares_that_it_can_be_asked_waits_in_rounds_for_a_result_with_a_schema(
    desk: Desk,
) -> None:
    await seat(desk, Counter())
    async with desk.gate(answer_after=0.02) as gate, patient(gate.server) as client:
        assert await schema_of(client) == SCHEMA
        assert (await desk.approved(client.call_tool("sum_add", {}))).structured_content == {"sum": 5}


@pytest.mark.parametrize("name", ["fastmcp", "mew_lab"])
async def test_a_client_that_is_known_to_take_rounds_gets_them(desk: Desk, name: str) -> None:
    who = types.Implementation(name=name, version="1")
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, client_info=who) as client:
        answer = await client.session.call_tool("calc_add", {"a": 2, "b": 3}, allow_input_required=True)
    assert answer.result_type == "input_required"


async def test_any_other_client_gets_the_pending_result_and_no_schema_that_it_would_break(
    desk: Desk, mode: str
) -> None:
    counter = Counter()
    await seat(desk, counter)
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode=mode) as client:
        assert await schema_of(client) is None
        # As programs call that take no rounds, such as those of openai-agents: an answer of another type raises there.
        pending = await client.session.call_tool("sum_add", {})
        assert text(pending).splitlines()[0] == PENDING_LINE and not pending.is_error
        assert pending.structured_content is None
        assert pending.meta is not None and pending.meta["mew-lab/state"] == "pending"
        await desk.human.approve(await desk.proposed())
        while (result := await client.session.call_tool("sum_add", {})).meta is not None and (
            result.meta.get("mew-lab/state") == "pending"
        ):
            pass
    assert result.structured_content == {"sum": 5} and counter.called == 1


async def test_after_its_last_round_a_client_with_the_schema_gets_an_error_that_it_can_read(
    desk: Desk,
) -> None:
    await seat(desk, Counter())
    async with desk.gate(answer_after=0.01) as gate, patient(gate.server) as client:
        await client.list_tools()
        pending = await client.call_tool("sum_add", {})  # raises where it must follow the schema
        assert text(pending).splitlines()[0] == PENDING_LINE and pending.is_error
        await desk.human.approve(await desk.proposed())
        call = await client.call_tool("proposal_result", {"proposal": pending.meta["mew-lab/proposal"]})
    assert call.structured_content == {"sum": 5}


async def test_a_schema_of_other_data_than_an_object_is_not_given(desk: Desk) -> None:
    class Lister(Counter):
        async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
            listed = await super().answer(method, params)
            if method == "tools/list":
                listed["tools"][0]["outputSchema"] = {"type": "array"}
            return listed

    await seat(desk, Lister({"content": [], "structuredContent": [1]}))
    async with desk.gate() as gate, patient(gate.server) as client:
        assert await schema_of(client) is None
        assert text(await desk.approved(client.call_tool("sum_add", {}))) == "[1]"


async def test_a_server_that_returns_every_member_of_a_pending_answer_is_not_taken_for_the_gate(
    desk: Desk, mode: str
) -> None:
    counter = Counter()
    await seat(desk, counter)
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode=mode) as client:
        pending = await client.call_tool("sum_add", {})
        counter.result = pending.model_dump(by_alias=True, mode="json", exclude_none=True) | {
            "structuredContent": {"state": "pending"}
        }
        await desk.human.approve(await desk.proposed())
        while True:
            result = await client.call_tool("sum_add", {})
            if counter.called:
                break
        if (result.meta or {}).get("mew-lab/state") == "pending":  # the answer had not come then
            result = await client.call_tool("sum_add", {})
    assert not [name for name in result.meta or {} if name.startswith("mew-lab/")]
    assert text(result) == f"Result of sum/add:\n{text(pending)}"
    assert counter.called == 1


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_of_a_tool_begins_with_the_line_of_a_pending_result(before: str, after: str) -> None:
    """A program may know a pending result by this line alone."""
    assert reads_as_own(f"{PENDING_LINE}\n{after}", "a/b")
    if not any(c.isalnum() for c in before):
        assert reads_as_own(f"{before}{PENDING_LINE}{after}", "a/b")


async def test_a_client_says_how_long_it_waits_for_an_answer(desk: Desk, mode: str) -> None:
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode=mode) as client:
        long: Any = {"mew-lab/answer-after": 60}
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}, meta=long))
        id = await desk.proposed()
        # Another call with the time of the gate is answered meanwhile.
        other = await client.call_tool("calc_add", {"a": 1, "b": 1})
        assert other.meta is not None and other.meta["mew-lab/state"] == "pending" and not call.done()
        await desk.human.approve(id)
        assert text(await call) == "5"
    async with desk.gate(name="second") as gate, Client(gate.server, mode=mode) as client:
        short: Any = {"mew-lab/answer-after": 0.02}
        answer = await client.call_tool("calc_add", {"a": 2, "b": 3}, meta=short)
    assert answer.meta is not None and answer.meta["mew-lab/state"] == "pending"


@pytest.mark.parametrize("wrong", [0, -1, "60", True, [1], 1e9, 10**400])
async def test_a_time_that_is_none_is_an_error_and_nothing_is_sent(desk: Desk, mode: str, wrong: Any) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        meta: Any = {"mew-lab/answer-after": wrong}
        with pytest.raises(MCPError, match=r"answer-after.*Nothing was sent"):
            await client.call_tool("calc_add", {"a": 2, "b": 3}, meta=meta)
        assert not list(desk.human.proposals)


@pytest.mark.parametrize("way", ["enrolled", "invited", "granted"])
async def test_the_owner_tells_for_each_token_after_how_many_seconds_its_calls_are_pending(
    desk: Desk, way: str
) -> None:
    proposes = {"kind": "mcp/proposal", "x-answer-after": 0.02}
    wrong: list[dict[str, Any]] = [
        {"kind": "chat", "x-answer-after": value} for value in (0, -1, True, "60", 1e300, None, [1])
    ]
    owner = await desk.site.seat("owner", [*PROFILES["admin"]])  # type: ignore[arg-type]
    can = [*wrong, proposes, *PROPOSER] if way == "enrolled" else PROPOSER
    participant = desk.site.prepare("coder", can)
    if way == "invited":
        payload = {"participant_id": "guest", "initial_capabilities": [*wrong, proposes, *PROPOSER]}
        await owner.sender.say_accepted("space/invite", payload)

        async def link() -> Link:
            return attach(desk.site.gateway, "demo", "guest")

        participant = MEWParticipant(MEWClient(space="demo", connect_link=link))
    async with McpGate(participant) as gate, Client(gate.server, mode="legacy") as client:
        if way == "granted":
            grant = {"recipient": "coder", "capabilities": [*wrong, proposes]}
            await owner.sender.say_accepted("capability/grant", grant)
        await until(lambda: "x-answer-after" in str(participant.client.capabilities.patterns))
        asking: Any = {"mew-lab/answer-after": 60}
        long = asyncio.create_task(client.call_tool("calc_add", {"a": 9, "b": 9}, meta=asking))
        result = await client.call_tool("calc_add", {"a": 2, "b": 3})
        assert (result.meta or {})["mew-lab/state"] == "pending" and not long.done()
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)


async def test_seconds_given_to_a_gate_itself_come_before_those_of_its_token(desk: Desk) -> None:
    can = [{"kind": "mcp/proposal", "x-answer-after": 3600}, *PROPOSER]
    async with desk.gate(can, answer_after=0.02) as gate, Client(gate.server, mode="legacy") as client:
        result = await client.call_tool("calc_add", {"a": 2, "b": 3})
        assert (result.meta or {})["mew-lab/state"] == "pending"
