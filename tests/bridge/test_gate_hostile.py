"""A gate among participants and clients that mean no good, or meet at a bad moment: each gets a sentence, and no other call."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from mcp import Client

from mew_lab.bridge import announcements
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.bridge.offers import offered_name
from mew_lab.protocol.token import Token

from .conftest import until
from .desk import Desk, held, text
from .over_http import BEARER, TOKEN, client_over_http, open_session, send_raw


async def test_a_flood_by_one_client_leaves_room_for_the_call_of_another(desk: Desk) -> None:
    async with (
        desk.gate(answer_after=0.01) as gate,
        desk.gate(name="patient") as other,
        Client(gate.server, mode="legacy") as flooding,
        Client(other.server, mode="legacy") as client,
    ):
        gate.calls.most = 20
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        answers = [await flooding.call_tool("calc_add", {"a": n, "b": 0}) for n in range(60)]
        assert [answer.is_error for answer in answers] == [n >= 20 for n in range(60)]
        await desk.human.approve(id)
        assert text(await call) == "5"
    assert desk.executed == [(2, 3)]


async def test_a_call_whose_tool_leaves_while_it_waits_ends_with_a_sentence(desk: Desk) -> None:
    async with desk.gate() as gate, Client(gate.server, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        await desk.site.seated[1].stop()
        await until(lambda: "calc" not in desk.human.client.participants)
        await asyncio.gather(desk.human.approve(id), return_exceptions=True)
        if not call.done():  # nobody could be asked, so the person says no
            await asyncio.gather(desk.human.reject(id, "it left"), return_exceptions=True)
        async with asyncio.timeout(20):
            result = await call
    assert result.is_error and text(result) and desk.executed == []


class Lister:
    """Lists tools under names that could be taken for others, and answers with the name that was called."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]}
        return {"content": [{"type": "text", "text": params["name"]}]}


HOSTILE = (
    "add", "add ", "Add", "\u0430dd", "a/dd", "a_dd", "a--dd", "proposal_result", "../add", "add\n", "x" * 200,
    "x" * 201, "add\u200b", "<b>add</b>",
)  # fmt: skip


async def test_names_that_look_like_others_are_told_apart_and_reach_their_own_tool(desk: Desk) -> None:
    for name in ("proposal", "calc-x"):
        participant = await desk.site.seat(name, "tool", tools=Lister("result", *HOSTILE))
    async with desk.gate() as gate, Client(gate.server, mode="legacy") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert len(names) == len(set(names)) and all(len(name) <= 64 for name in names)
        tools = gate.participant.discovery.get_available_tools()
        offered = {(tool.participant, tool.name): offered_name(tool.participant, tool.name) for tool in tools}
        assert set(names) == {"proposal_result", "proposal_withdraw", *offered.values()}
        assert offered["calc", "add"] == "calc_add" and "proposal_result" not in offered.values()
        for (participant, tool), name in offered.items():
            if participant == "calc":
                continue
            call = asyncio.create_task(client.call_tool(name, {}))
            id = await desk.proposed()
            proposal = desk.card(id)
            assert proposal.payload["params"]["name"] == tool
            await desk.human.approve(id)
            assert text(await call) == tool
    assert desk.executed == []


@pytest.mark.parametrize("seed", range(8))
async def test_a_cancel_that_comes_with_the_approval_costs_no_result_and_executes_once(
    desk: Desk, seed: int
) -> None:
    dice = random.Random(seed)

    async def later(turns: int, do: Any) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        do()

    async with desk.gate() as gate, Client(gate.server, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": seed, "b": 3}))
        id = await desk.proposed()
        approving = asyncio.create_task(desk.human.approve(id))
        await later(dice.randint(0, 30), call.cancel)
        first = (await asyncio.gather(call, approving, return_exceptions=True))[0]
        again = first
        if isinstance(first, BaseException):
            again = await client.call_tool("proposal_result", {"proposal": id})
    assert text(again) == str(seed + 3) and desk.executed == [(seed, 3)]
    assert len(list(desk.human.proposals)) == 1


@pytest.mark.parametrize("pair", [("é", "e\u0301"), ("a", "\u0430"), ("a", "a\u200b"), ("ﬁ", "fi"), (1, "1")])
async def test_arguments_that_look_alike_are_two_calls(desk: Desk, pair: tuple[Any, Any]) -> None:
    await desk.site.seat("files", "tool", tools=Lister("rm"))
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode="legacy") as client:
        ids = {(await client.call_tool("files_rm", {"x": x})).meta["mew-lab/proposal"] for x in pair}
    assert len(ids) == 2


async def test_a_megabyte_of_arguments_is_a_proposal_or_a_sentence(desk: Desk) -> None:
    await desk.site.seat("files", "tool", tools=Lister("write"))
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode="legacy") as client:
        for size in (100_000, 1_000_000, 1_048_576):
            result = await client.call_tool("files_write", {"x": "\U0001f600" * (size // 4)})
            pending = (result.meta or {}).get("mew-lab/state") == "pending"
            assert pending or (result.is_error and text(result))
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        await until(lambda: any(one.payload["params"]["name"] == "add" for one in desk.open))
        [id] = [one.id for one in desk.open if one.payload["params"]["name"] == "add"]
        await desk.human.approve(id)
        answer = await call
    assert text(answer) == "5" or answer.meta["mew-lab/state"] == "pending"


class Listener:
    """A session of a client that takes its first `takes` notifications, and then reads no more."""

    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.client_params = object()
        self.told: list[str] = []

    async def send_notification(self, notification: Any, *more: Any) -> None:
        self.told.append(notification.method)
        if len(self.told) > self.takes:
            await asyncio.Event().wait()


async def test_a_client_that_never_reads_what_has_changed_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(announcements, "ANNOUNCE_EVERY", 0)
    monkeypatch.setattr(announcements, "TAKE_WITHIN", 0.1)
    announcer = announcements.ListAnnouncer()
    silent, reading = Listener(takes=1), Listener(takes=math.inf)
    for session in (silent, reading):
        announcer.note(session, "tools", since=0)  # type: ignore[arg-type]
    for count in (1, 2, 3):
        announcer.announce("tools")
        await until(lambda count=count: len(reading.told) == count)
        await asyncio.sleep(0.2)
    await announcer.close()
    assert reading.told == ["notifications/tools/list_changed"] * 3
    assert len(silent.told) == 2  # the one that it did not take was the last


class Printer:
    """Lists one tool, whose answer is nearly as large as a message may be."""

    def __init__(self) -> None:
        self.calls = 0

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [{"name": "print", "inputSchema": {"type": "object"}}]}
        self.calls += 1
        return {"content": [{"type": "text", "text": "x" * 900_000}]}


async def test_an_answer_that_is_never_read_is_kept_and_holds_up_no_other(desk: Desk) -> None:
    printer = Printer()
    await desk.site.seat("press", "tool", tools=printer)
    async with desk.gate() as gate, McpHttpServer(gate.server, token=TOKEN) as server:
        params = {"name": "press_print", "arguments": {}, "_meta": {"progressToken": 1}}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        session = await open_session(server)
        unread = await send_raw(server, body, session, buffer=2048)
        id = await desk.proposed()
        await desk.human.approve(id)
        waiting = held(gate, id)
        await waiting.ended.wait()
        async with client_over_http(server, "legacy") as client:
            call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
            await desk.human.approve(await desk.proposed())
            assert text(await call) == "5"
            again = await client.call_tool("proposal_result", {"proposal": id})
            assert text(again).startswith("There is no call")  # the session that made it lives
            unread.transport.abort()
            async with httpx2.AsyncClient(headers=BEARER) as web:
                assert (await web.delete(server.url, headers=session)).status_code == 200
            again = await client.call_tool("proposal_result", {"proposal": id})
            assert text(again) == "x" * 900_000
    assert printer.calls == 1


async def test_a_token_of_another_gate_gets_a_sentence_and_reaches_no_space(desk: Desk) -> None:
    other = Token("canary-of-another-gate-0123456789")
    async with (
        desk.gate() as gate,
        desk.gate(name="patient") as second,
        McpHttpServer(gate.server, token=TOKEN, token_name="the token of coder") as server,
        McpHttpServer(second.server, token=other) as elsewhere,
        httpx2.AsyncClient(headers=BEARER, timeout=30) as web,
    ):
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "calc_add"}}
        answer = await web.post(elsewhere.url, json=call)
        assert answer.status_code == 401 and answer.json()["error"] == "invalid_token"
        assert TOKEN.reveal() not in answer.text and other.reveal() not in answer.text
        assert not desk.open
        async with client_over_http(server, "legacy") as client:
            assert "calc_add" in {tool.name for tool in (await client.list_tools()).tools}
