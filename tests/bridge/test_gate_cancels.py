"""A client that cancels a call, gives up at its own time limit, or is gone: what its card says, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from mew_lab.bridge import caller_status
from mew_lab.bridge.client_request import SHORTEST_LIMIT, TIME_OUTS, TimeLimits, is_time_out
from mew_lab.bridge.gate import McpGate
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.bridge.offers import LISTING
from mew_lab.bridge.waiting_calls import WaitingCall
from mew_lab.errors import LocalProtocolError
from mew_lab.ledger.calls import MAX_CALLERS
from mew_lab.protocol.permit import PROFILES

from .conftest import until
from .desk import PROPOSER, Desk, give_up, held, text
from .over_http import BEARER, TOKEN, client_over_http, open_session, send_raw

CALL = {"a": 2, "b": 3}
TIMED_OUT = [  # as each client sends them
    ("Python mcp", "timed out after 5.0s"),
    ("Python mcp", "timed out after 120s"),
    ("TypeScript @modelcontextprotocol/sdk", "McpError: MCP error -32001: Request timed out"),
    ("TypeScript @modelcontextprotocol/sdk", "McpError: MCP error -32001: Maximum total timeout exceeded"),
    ("TypeScript @modelcontextprotocol/client", "SdkError: Request timed out"),
    ("JavaScript AbortSignal.timeout", "TimeoutError: The operation was aborted due to timeout"),
    ("JavaScript AbortSignal.timeout", "TimeoutError: The operation timed out."),
    ("Rust rmcp", "request timeout"),
    ("Go go-sdk", "context deadline exceeded"),
    ("Java langchain4j", "Timeout"),
]
CANCELLED = [
    *(
        "caller cancelled",
        "AbortError: This operation was aborted",
        "context canceled",
        "user pressed Esc",
        "",
    ),
    *("the user stopped: it timed out after 5.0s of talking", "Request timed out? no, wrong call", None),
]


# --- the words of clients ---


@pytest.mark.parametrize(("client", "reason"), TIMED_OUT)
def test_a_time_out_is_recognised_by_the_words_of_each_known_client(client: str, reason: str) -> None:
    assert client in TIME_OUTS and is_time_out(reason) and is_time_out(f" {reason}\n")


def test_each_client_of_the_table_has_its_words_in_these_tests() -> None:
    assert {client for client, _ in TIMED_OUT} == set(TIME_OUTS)


@pytest.mark.parametrize("reason", CANCELLED)
def test_any_other_reason_is_a_cancellation(reason: str | None) -> None:
    assert not is_time_out(reason)


@given(st.text())
def test_a_reason_of_any_text_is_read(reason: str) -> None:
    assert is_time_out(reason) in (True, False)


@given(st.lists(st.floats(0, 600), max_size=40), st.sampled_from([5.0, 60.0, 120.0]))
def test_a_time_after_which_a_client_gave_up_before_is_known_for_that_client_alone(
    others: list[float], limit: float
) -> None:
    limits = TimeLimits()
    for seconds in others[-10:]:
        limits.note("agent 1", seconds)
    limits.note("agent 1", limit)
    assert limits.note("agent 1", limit * 1.01) and not limits.note("agent 2", limit)
    assert not limits.note("agent 1", SHORTEST_LIMIT / 2) and not limits.note("agent 1", SHORTEST_LIMIT / 2)


# --- what becomes of the call ---


def caller(desk: Desk, id: str) -> str:
    """What the person's own ledger says of the client behind a proposal."""
    proposal = desk.card(id)
    return proposal.caller


async def cancel(call: asyncio.Task[Any]) -> None:
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize("is_ended", [False, True], ids=["leaving", "ended"])
async def test_a_call_that_its_client_cancelled_is_approved_by_nobody_and_withdrawn_soon(
    desk: Desk, is_ended: bool
) -> None:
    async with desk.gate(withdraw_after=0.4) as gate, Client(gate.server, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("calc_add", CALL))
        id = await desk.proposed()
        await cancel(call)
        await until(lambda: caller(desk, id) == "cancelled")
        with pytest.raises(LocalProtocolError, match="the client for which coder made it has cancelled it"):
            await desk.human.approve(id)
        await until(lambda: not desk.open)
        proposal = desk.card(id)
        assert (proposal.state, proposal.reason) == ("withdrawn", "client_cancelled")
        # Nothing of it is told to the next equal call: it is a new one.
        waiting = held(gate, id)
        if is_ended:
            await waiting.ended.wait()
        assert text(await desk.approved(client.call_tool("calc_add", CALL))) == "5"
    assert desk.executed == [(2, 3)]


async def test_a_second_cancellation_after_the_same_time_is_a_time_limit(desk: Desk) -> None:
    async with desk.gate(withdraw_after=0.05) as gate, Client(gate.server, mode="legacy") as client:
        for expected in ("cancelled", "gone"):
            call = asyncio.create_task(client.call_tool("calc_add", CALL))
            id = await desk.proposed()
            await asyncio.wait({call}, timeout=2 * SHORTEST_LIMIT)
            await cancel(call)
            await until(lambda id=id, expected=expected: caller(desk, id) == expected or not desk.open)
            await until(lambda expected=expected: expected == "gone" or not desk.open)
        assert [one.state for one in desk.human.proposals] == ["withdrawn", "open"]


async def test_where_the_gate_may_not_tell_a_cancelled_call_is_withdrawn_at_once(desk: Desk) -> None:
    may = [one for one in [*PROFILES["proposer"], *LISTING] if one["kind"] != "participant/status"]
    async with desk.gate(may, withdraw_after=3600) as gate, Client(gate.server, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("calc_add", CALL))
        await desk.proposed()
        await cancel(call)
        await until(lambda: not desk.open)
    assert [one.reason for one in desk.human.proposals] == ["client_cancelled"] and not desk.executed


async def test_a_client_whose_connection_breaks_is_gone_and_a_later_cancellation_withdraws_nothing(
    desk: Desk,
) -> None:
    """The second client has taken the call meanwhile, so the first one cannot cancel it any more."""
    async with desk.gate() as gate, McpHttpServer(gate.server, token=TOKEN) as server:
        session = await open_session(server)
        params = {"name": "calc_add", "arguments": CALL}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        writer = await send_raw(server, body, session)
        id = await desk.proposed()
        writer.transport.abort()
        await until(lambda: caller(desk, id) == "gone")
        async with client_over_http(server, "legacy") as client:
            await give_up(client, "calc_add", CALL)
            await until(lambda: caller(desk, id) == "gone")
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            async with httpx2.AsyncClient(headers={**BEARER, **session}) as web:
                await web.post(
                    server.url, json=note, headers={"Accept": "application/json, text/event-stream"}
                )
            call = asyncio.create_task(client.call_tool("calc_add", CALL))
            waiting = held(gate, id)
            await until(lambda: waiting.attached == 1)
            await desk.human.approve(id)
            assert text(await call) == "5"
    assert desk.executed == [(2, 3)] and len(list(desk.human.proposals)) == 1


async def test_a_flood_of_cancellations_costs_one_status_a_second_and_32_names(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_status, "AT_MOST_EVERY", 0.3)
    statuses: list[Any] = []
    desk.human.client.on_message(statuses.append, kinds=["participant/status"])
    count = MAX_CALLERS + 20
    async with desk.gate(withdraw_after=2) as gate, Client(gate.server, mode="legacy") as client:
        begun = asyncio.get_running_loop().time()
        calls = [asyncio.create_task(client.call_tool("calc_add", {"a": n, "b": 1})) for n in range(count)]
        await desk.proposed(count)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: not desk.open)
        seconds = asyncio.get_running_loop().time() - begun
    assert desk.executed == [] and len(statuses) <= seconds / 0.3 + 2
    named = [status.payload["x-calls"] for status in statuses]
    assert max(map(len, named)) == MAX_CALLERS and set(named[0].values()) == {"cancelled"}


# --- a call that runs ---


class Kiln:
    """The participant `kiln`: its tool `fire` runs until it may end or is cancelled; `stubborn` firings end all the same."""

    def __init__(self) -> None:
        self.fired: list[int] = []
        self.cancelled: list[int] = []
        self.may_end = asyncio.Event()

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [{"name": "fire", "inputSchema": {"type": "object"}}]}
        if method == "resources/list":
            return {"resources": [{"uri": "file:///log", "name": "log"}]}
        arguments = params.get("arguments", {})
        n = arguments.get("n", 0)
        self.fired.append(n)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.append(n)
            if not arguments.get("stubborn"):
                raise
        if method == "resources/read":
            return {"contents": [{"uri": "file:///log", "text": "hot"}]}
        return {"content": [{"type": "text", "text": f"fired {n}"}]}


@pytest.fixture
async def kiln(desk: Desk) -> Kiln:
    made = Kiln()
    await desk.site.seat("kiln", "tool", tools=made)
    return made


OWN_RIGHT = [*PROPOSER, {"kind": "mcp/request", "to": "kiln"}]
RIGHTS = pytest.mark.parametrize("can", [PROPOSER, OWN_RIGHT], ids=["approved", "own right"])


def call_of(gate: McpGate, n: int = 0) -> WaitingCall:
    """The call of a gate with that argument, or the one without arguments."""
    calls = gate.participant.ledger.calls
    for one in (*calls.proposals, *calls.requests):
        found = gate.calls.by_id(one.id)
        if found is not None and one.payload["params"].get("arguments", {}).get("n", 0) == n:
            return found
    raise AssertionError(f"no call {n}")


@pytest.mark.ruling("R35")
@RIGHTS
@pytest.mark.parametrize("stubborn", [False, True])
async def test_the_cancellation_of_a_call_that_runs_reaches_its_executor_and_ends_it_with_its_answer_or_as_unknown(
    desk: Desk, kiln: Kiln, can: Any, stubborn: bool
) -> None:
    arguments = {"n": 1, "stubborn": stubborn}
    async with desk.gate(can) as gate, Client(gate.server, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("kiln_fire", arguments))
        if can is PROPOSER:
            await desk.human.approve(await desk.proposed())
        await until(lambda: kiln.fired)
        await cancel(call)
        await until(lambda: kiln.cancelled)
        await call_of(gate, 1).ended.wait()
        again = await client.call_tool("kiln_fire", arguments)  # tells what became of it, and fires nothing
        state = (again.meta or {}).get("mew-lab/state")
        assert (state, kiln.fired, kiln.cancelled) == (None if stubborn else "unknown", [1], [1])
        assert ("fired 1" in text(again)) is stubborn
        assert not desk.open


@RIGHTS
async def test_a_client_whose_time_limit_is_over_cancels_nothing_that_runs(
    desk: Desk, kiln: Kiln, can: Any
) -> None:
    async with desk.gate(can) as gate, Client(gate.server, mode="legacy") as client:
        gone = asyncio.create_task(give_up(client, "kiln_fire", {"n": 1}))
        if can is PROPOSER:
            await desk.human.approve(await desk.proposed())
        await gone
        again = asyncio.create_task(client.call_tool("kiln_fire", {"n": 1}))
        await until(lambda: call_of(gate, 1).attached)
        kiln.may_end.set()
        assert text(await again) == "fired 1"
    assert (kiln.fired, kiln.cancelled) == ([1], [])


async def test_where_the_gate_may_not_cancel_a_call_goes_on_and_its_answer_is_kept(
    desk: Desk, kiln: Kiln
) -> None:
    lists = {"kind": "mcp/request", "payload": {"method": "tools/list"}}
    async with (
        desk.gate([*PROFILES["proposer"], lists]) as gate,
        Client(gate.server, mode="legacy") as client,
    ):
        call = asyncio.create_task(client.call_tool("kiln_fire", {"n": 1}))
        await desk.human.approve(await desk.proposed())
        await until(lambda: kiln.fired)
        await cancel(call)
        again = asyncio.create_task(client.call_tool("kiln_fire", {"n": 1}))
        await until(lambda: call_of(gate, 1).attached)
        kiln.may_end.set()
        assert text(await again) == "fired 1"
    assert (kiln.fired, kiln.cancelled) == ([1], [])


async def test_an_approval_that_crosses_the_cancellation_is_cancelled_at_the_executor(
    desk: Desk, kiln: Kiln
) -> None:
    """The approver is no lab of ours, which would not approve it."""
    approver = await desk.site.seat("reviewer", [{"kind": "mcp/request"}])  # type: ignore[arg-type]
    async with desk.gate(withdraw_after=60) as gate, Client(gate.server, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("kiln_fire", {"n": 1}))
        id = await desk.proposed()
        await cancel(call)
        await until(lambda: caller(desk, id) == "cancelled")
        proposal = desk.card(id)
        payload = {"jsonrpc": "2.0", "id": 1, **proposal.payload}
        await approver.sender.say_accepted("mcp/request", payload, to=["kiln"], about=id)
        await until(lambda: kiln.cancelled)
        await call_of(gate, 1).ended.wait()
    assert (kiln.fired, kiln.cancelled) == ([1], [1])


async def test_a_resource_whose_reading_was_cancelled_is_read_anew(desk: Desk, kiln: Kiln) -> None:
    async with desk.gate(OWN_RIGHT) as gate, Client(gate.server, mode="legacy") as client:
        uri: Any = "mew://kiln/file:///log"
        reading = asyncio.create_task(client.read_resource(uri))
        await until(lambda: kiln.fired)
        await cancel(reading)
        await until(lambda: kiln.cancelled)
        kiln.may_end.set()
        [content] = (await client.read_resource(uri)).contents
        assert getattr(content, "text", "") == "hot" and kiln.fired == [0, 0]


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("seed", range(3))
async def test_only_the_session_of_a_call_cancels_it_whatever_ids_others_name(
    desk: Desk, kiln: Kiln, seed: int
) -> None:
    """Sessions use the same ids for their requests. Cancellations name ids of others, none, ended ones, and some twice."""
    random = Random(seed)
    sessions = 3
    async with desk.gate(OWN_RIGHT) as gate, McpHttpServer(gate.server, token=TOKEN) as server:
        headers = [await open_session(server) for _ in range(sessions)]
        writers, calls = [], {}
        for who in range(sessions):
            for id in random.sample(range(1, 6), 3):
                n = 10 * who + id
                calls[n] = random.random() < 0.5
                params = {"name": "kiln_fire", "arguments": {"n": n, "stubborn": calls[n]}}
                body = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
                writers.append(await send_raw(server, body, headers[who]))
        await until(lambda: len(kiln.fired) == len(calls))
        accept = {**BEARER, "Accept": "application/json, text/event-stream"}
        expected = set()
        async with httpx2.AsyncClient(headers=accept) as web:
            for _ in range(10):
                who, id = random.randrange(sessions), random.randrange(8)
                named: Any = random.choice([id, str(id)])  # which the library takes for one id
                note = {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": named, "reason": "wrong call"},
                }
                for _ in range(random.choice([1, 2])):
                    await web.post(server.url, json=note, headers=headers[who])
                if 10 * who + id in calls:
                    expected.add(10 * who + id)
        await until(lambda: len(kiln.cancelled) >= len(expected))
        running = [n for n in calls if n not in expected]
        assert sorted(kiln.cancelled) == sorted(expected)
        assert not [n for n in running if call_of(gate, n).ended.is_set()]
        kiln.may_end.set()
        for n, stubborn in calls.items():
            waiting = call_of(gate, n)
            await waiting.ended.wait()
            assert waiting.outcome.is_unknown is (n in expected and not stubborn), n
            assert ("fired" in str(waiting.outcome.result)) is (n in running or stubborn)
        assert sorted(kiln.cancelled) == sorted(expected)
        for writer in writers:
            writer.transport.abort()
