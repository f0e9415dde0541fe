"""A space as one MCP server, seen by the official client: what is offered, what waits for a person, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.subscriptions import PromptsListChanged, ToolsListChanged

from mew_lab.bridge.call_memory import CallMemory, RememberedCall
from mew_lab.bridge.gate import PENDING, REFUSED, McpGate
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.bridge.offers import LISTING
from mew_lab.sdk import peer_lists
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import METHOD_NOT_FOUND, RpcError

from ..failing import How, failing
from .conftest import Site, until
from .desk import PROPOSER, Desk, held, patient, text
from .over_http import TOKEN, client_over_http

LISTED = ("tools", "resources", "prompts")


async def test_a_client_lists_the_tools_of_the_space_under_names_of_their_own(desk: Desk, mode: str) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"proposal_result", "proposal_withdraw", "calc_add", "calc_fail"}
    add = tools["calc_add"]
    assert add.description == (
        "Sum of two numbers.\n\nTool add of participant calc. A person has to approve each call, so an answer may "
        "take a while."
    )
    assert add.input_schema["required"] == ["a", "b"] and add.output_schema is None


async def test_a_call_waits_for_a_person_and_is_executed_once_it_is_approved(desk: Desk, mode: str) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        proposal = desk.card(id)
        assert proposal.proposer == "coder" and desk.executed == []
        assert proposal.payload["params"] == {"name": "add", "arguments": {"a": 2, "b": 3}}
        await desk.human.approve(id)
        result = await call
    assert (text(result), result.is_error, desk.executed) == ("5", False, [(2, 3)])


async def test_what_the_participant_may_do_is_a_request_and_asks_nobody(desk: Desk, mode: str) -> None:
    may = [*PROPOSER, {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "add"}}}]
    async with desk.gate(may) as gate, Client(gate.server, mode=mode) as client:
        tools = {tool.name: tool.description for tool in (await client.list_tools()).tools}
        assert "approve" not in tools["calc_add"] and "approve" in tools["calc_fail"]
        result = await client.call_tool("calc_add", {"a": 2, "b": 3})
    assert (text(result), desk.executed, list(desk.human.proposals)) == ("5", [(2, 3)], [])


async def test_a_rejection_is_an_error_with_its_reason_and_the_proposal_is_withdrawn(
    desk: Desk, mode: str
) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        await desk.human.reject(id, "not on a Friday")
        result = await call
        proposal = desk.human.proposals.get(id)
    assert result.is_error and proposal is not None and proposal.state == "withdrawn"
    assert text(result) == "human rejected calc/add: not on a Friday. It was not executed"
    assert desk.executed == []


async def test_an_error_of_the_tool_is_an_error_for_the_client(desk: Desk, mode: str) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        result = await desk.approved(client.call_tool("calc_fail", {}))
    assert result.is_error and "it is broken" in text(result)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"a": 2}, "calc/add, so nobody was asked"),
        ({"a": "two", "b": 3}, "a must be an integer"),
        ({"a": 2, "b": 3, "c": 2**80}, "nobody was asked"),
    ],
)
async def test_arguments_that_break_the_schema_ask_nobody(
    desk: Desk, mode: str, arguments: dict[str, Any], why: str
) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        result = await client.call_tool("calc_add", arguments)
    assert result.is_error and why in text(result) and not list(desk.human.proposals)


async def test_an_argument_that_has_a_default_may_be_left_out_and_is_not_added(desk: Desk, mode: str) -> None:
    await desk.site.odd("defaults", name="pw")
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        refused = await client.call_tool("pw_shot", {"scale": "css"})
        result = await desk.approved(client.call_tool("pw_shot", {"name": "a b"}))
    assert refused.is_error and "nobody was asked: name is required" in text(refused)
    assert not result.is_error and text(result) == '{"name": "a b"}'


async def test_a_tool_that_left_is_told_apart_from_one_that_never_was(desk: Desk, mode: str) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        await client.list_tools()
        await desk.site.seated[1].stop()
        await until(lambda: not gate.participant.discovery.get_available_tools())
        with pytest.raises(MCPError, match="calc/add is not offered any more"):
            await client.call_tool("calc_add", {"a": 1, "b": 2})
        with pytest.raises(MCPError, match="There is no tool calc_sub"):
            await client.call_tool("calc_sub", {})


async def test_a_participant_that_may_not_withdraw_may_not_propose_through_a_gate(desk: Desk) -> None:
    may = [*LISTING, {"kind": "mcp/proposal"}]
    async with desk.gate(may) as gate, Client(gate.server) as client:
        gate.participant.client.extension = {}  # at a gateway where everybody's own needs a capability, too
        result = await client.call_tool("calc_add", {"a": 1, "b": 2})
    assert result.is_error and "ask the owner of the space to allow mcp/withdraw" in text(result)
    assert not list(desk.human.proposals)


async def test_only_so_many_calls_wait_at_once(desk: Desk) -> None:
    async with desk.gate(answer_after=0.01) as gate, Client(gate.server, mode="legacy") as client:
        gate.calls.most = 3
        answers = [await client.call_tool("calc_add", {"a": n, "b": 0}) for n in range(5)]
    assert [answer.is_error for answer in answers] == [False, False, False, True, True]
    assert text(answers[3]).startswith("3 calls wait already")


# --- waiting ---


def pending_id(result: Any) -> str:
    assert result.meta["mew-lab/state"] == "pending" and not result.is_error
    return str(result.meta["mew-lab/proposal"])


async def test_a_long_wait_is_answered_as_pending_and_the_same_call_attaches(desk: Desk) -> None:
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode="legacy") as client:
        first = await client.call_tool("calc_add", {"a": 2, "b": 3})
        second = await client.call_tool("calc_add", {"b": 3, "a": 2})
        id = pending_id(first)
        assert text(first) == (
            "This is no result yet, and no refusal.\ncalc/add waits for a person's approval. To wait on, call it again "
            f"with the same arguments, or call proposal_result with proposal {id}; proposal_withdraw takes it back."
        )
        assert pending_id(second) == id and [one.id for one in desk.human.proposals] == [id]
        await desk.human.approve(id)
        await until(lambda: desk.executed)
        result = await client.call_tool("calc_add", {"a": 2, "b": 3})
    assert (text(result), desk.executed) == ("5", [(2, 3)])


async def test_the_handle_of_a_pending_answer_gives_its_result_as_often_as_it_is_asked(desk: Desk) -> None:
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode="legacy") as client:
        id = pending_id(await client.call_tool("calc_add", {"a": 2, "b": 3}))
        assert pending_id(await client.call_tool("proposal_result", {"proposal": id})) == id
        await desk.human.approve(id)
        results = [await client.call_tool("proposal_result", {"proposal": id}) for _ in range(3)]
    assert [text(result) for result in results] == ["5", "5", "5"] and desk.executed == [(2, 3)]


async def test_a_pending_call_can_be_withdrawn(desk: Desk) -> None:
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode="legacy") as client:
        id = pending_id(await client.call_tool("calc_add", {"a": 2, "b": 3}))
        await client.call_tool("proposal_withdraw", {"proposal": id, "reason": "changed my mind"})
        waiting = held(gate, id)
        await waiting.ended.wait()
        result = await client.call_tool("proposal_result", {"proposal": id})
        again = await client.call_tool("proposal_withdraw", {"proposal": id})
    assert result.is_error and text(result) == "calc/add was withdrawn on request, and not executed"
    assert again.is_error and text(again).startswith("calc/add has ended, so it cannot be withdrawn")
    [proposal] = desk.human.proposals
    assert (proposal.state, proposal.reason, desk.executed) == ("withdrawn", "changed my mind", [])


ENDS = {
    "the client withdraws it": "The withdrawal of calc/add was accepted",
    "it is rejected": "human rejected calc/add: no. It was not executed",
    "nobody decides": "Nobody decided on calc/add within 0.5 s, so it was refused and not executed",
    "its client cancels it": "Its client cancelled calc/add, so it was withdrawn",
}


@pytest.mark.parametrize("how", [None, "refused", "swallowed", "cut off"])
@pytest.mark.parametrize("end", ENDS)
async def test_a_call_is_called_withdrawn_or_not_executed_once_its_withdrawal_was_accepted(
    site: Site, end: str, how: How | None, leap: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails, desk = failing(monkeypatch), Desk(site)
    desk.human = await site.seat("human")
    await desk.seat()
    times = {"decide_within": 0.5 if end == "nobody decides" else 600.0, "withdraw_after": 0.2}
    async with desk.gate(answer_after=0.05, **times) as gate, Client(gate.server, mode="legacy") as client:
        call = asyncio.ensure_future(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        if how is not None:
            fails["mcp/withdraw"] = how
        said = ""
        if end == "its client cancels it":
            call.cancel()
        else:
            await call
        waiting = held(gate, id)
        if end == "it is rejected":
            await desk.human.reject(id, "no")
        elif end == "the client withdraws it":
            asked = asyncio.ensure_future(client.call_tool("proposal_withdraw", {"proposal": id}))
            await until(lambda: waiting.why)
            if how == "swallowed":
                await asyncio.sleep(0)
                leap(30.0)
            said = text(await asked)
        await until(lambda: waiting.why)
        if how is None:
            await waiting.ended.wait()
        said += text(await client.call_tool("proposal_result", {"proposal": id}))
        assert (ENDS[end] in said) is (how is None), said
        if how is not None:
            lost = "The connection ended before calc/add was answered" if how == "cut off" else "\0"
            assert "The withdrawal of calc/add is not confirmed" in said or lost in said
            assert "not executed" not in said and "was withdrawn" not in said
        fails.clear()


@pytest.mark.parametrize("how", [None, "refused", "swallowed", "cut off"])
async def test_a_gate_that_starts_again_says_whether_a_withdrawal_was_accepted(
    site: Site,
    how: How | None,
    leap: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    fails, desk = failing(monkeypatch), Desk(site)
    desk.human = await site.seat("human")
    await desk.seat()
    before = await site.seat("coder", PROPOSER)
    id = before.call("calc/add", {"a": 2, "b": 3}).id
    await desk.proposed()
    await before.client.disconnect()
    CallMemory(tmp_path / "calls.json").put(RememberedCall("key", id, "calc/add", True))
    if how is not None:
        fails["mcp/withdraw"] = how
    gate = McpGate(site.prepare("coder", PROPOSER), memory=CallMemory(tmp_path / "calls.json"))
    started = asyncio.ensure_future(gate.start())
    if how == "swallowed":
        await until(lambda: gate.participant.client.state == "ready")
        for _ in range(20):
            await asyncio.sleep(0.01)
            leap(1.0)
    await started
    waiting = gate.calls.by_id(id)
    so = "was accepted now" if how is None else "is not confirmed"
    assert f"and the withdrawal of proposal {id} {so}. Whether it was approved" in waiting.outcome.refusal
    fails.clear()
    await gate.stop()


@pytest.mark.parametrize(
    "arguments", [{}, {"proposal": 3}, {"proposal": "p", "reason": 3}, {"proposal": "p"}]
)
@pytest.mark.parametrize("tool", ["proposal_result", "proposal_withdraw"])
async def test_a_handle_that_is_none_is_a_sentence(desk: Desk, tool: str, arguments: dict[str, Any]) -> None:
    async with desk.gate() as gate, Client(gate.server) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error and ("needs `proposal`" in text(result) or "There is no call p" in text(result))


async def test_the_end_of_a_gate_withdraws_what_waits(desk: Desk, mode: str) -> None:
    async with desk.gate() as gate:
        async with Client(gate.server, mode=mode) as client:
            call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
            await desk.proposed()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
    await until(lambda: not desk.open)
    assert [proposal.state for proposal in desk.human.proposals] == ["withdrawn"]


async def test_a_client_of_the_modern_revision_waits_in_rounds_and_then_gets_a_handle(desk: Desk) -> None:
    async with desk.gate(answer_after=0.05) as gate, patient(gate.server) as client:
        assert client.protocol_version == "2026-07-28"
        id = pending_id(await client.call_tool("calc_add", {"a": 2, "b": 3}))
        assert [one.id for one in desk.human.proposals] == [id]
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        await desk.human.approve(id)
        assert text(await call) == "5"


async def test_a_client_that_does_not_come_back_for_its_next_round_is_gone(desk: Desk) -> None:
    async with desk.gate(answer_after=0.02, grace=0.1) as gate, patient(gate.server) as client:
        answer = await client.session.call_tool("calc_add", {"a": 2, "b": 3}, allow_input_required=True)
        assert answer.result_type == "input_required"
        await until(lambda: list(desk.human.proposals) and not desk.open)
    [proposal] = desk.human.proposals
    assert (proposal.state, proposal.reason, desk.executed) == ("withdrawn", "client_gone", [])


async def test_a_client_sees_progress_while_a_person_thinks(
    desk: Desk, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.bridge.client_request.PROGRESS_EVERY", 0.01)
    seen: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}, progress_callback=note))
        id = await desk.proposed()
        await until(lambda: len(seen) > 3)
        await desk.human.approve(id)
        await call
    waits, runs = "calc/add waits for a person's approval", "human has approved calc/add, and it is running"
    assert [message for _, message in seen[:3]] == [waits] * 3
    assert {message for _, message in seen} <= {waits, runs}
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


# --- resources, prompts, lists that change ---


class Library:
    """Answers as an MCP server with a resource, a template and a prompt does."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(method)
        match method:
            case "resources/list":
                return {"resources": [{"uri": "file:///a.txt", "name": "a"}, {"uri": 3, "name": "no URI"}]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "file:///{path}", "name": "all"}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": f"content of {params['uri']}"}]}
            case "prompts/list":
                return {
                    "prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}, {"x": 1}]
                }
            case "prompts/get":
                text = f"Greet {params['arguments']['who']}"
                return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")


async def seat_library(desk: Desk) -> MEWParticipant:
    return await desk.site.seat("library", "tool", tools=Library())


async def test_resources_and_prompts_of_the_participants_are_offered_and_read_with_approval(
    desk: Desk, mode: str
) -> None:
    await seat_library(desk)
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        [resource] = (await client.list_resources()).resources
        [template] = (await client.list_resource_templates()).resource_templates
        [prompt] = (await client.list_prompts()).prompts
        assert (resource.uri, template.uri_template, prompt.name) == (
            "mew://library/file:///a.txt", "mew://library/file:///{path}", "library_greet",
        )  # fmt: skip
        [content] = (await desk.approved(client.read_resource(resource.uri))).contents
        assert (content.uri, content.text) == (resource.uri, "content of file:///a.txt")
        assert (await desk.approved(client.get_prompt("library_greet", {"who": "Ann"}))).messages[
            0
        ].content.text == "Greet Ann"


async def test_a_resource_that_waits_or_is_refused_is_an_error_with_a_code(desk: Desk) -> None:
    await seat_library(desk)
    uri = "mew://library/file:///a.txt"
    async with desk.gate(answer_after=0.02) as gate, Client(gate.server, mode="legacy") as client:
        with pytest.raises(MCPError, match="library/resources/read waits for a person's approval") as pending:
            await client.read_resource(uri)
        id = await desk.proposed()
        assert (pending.value.code, pending.value.data) == (PENDING, {"proposal": id})
        await desk.human.reject(id, "it is private")
        await until(lambda: gate.calls.by_id(id).ended.is_set())
        with pytest.raises(MCPError, match=r"it is private\. It was not executed") as refused:
            await client.read_resource(uri)
        assert refused.value.code == REFUSED
        for wrong in ("file:///a.txt", "mew://library", "mew://nobody/x:y", "mew:///x"):
            with pytest.raises(MCPError, match=r"There is no resource|No participant nobody"):
                await client.read_resource(wrong)
        with pytest.raises(MCPError, match="There is no prompt greet"):
            await client.get_prompt("greet", {})
    assert len(list(desk.human.proposals)) == 1


async def test_clients_are_told_that_lists_have_changed(desk: Desk) -> None:
    told: list[str] = []

    async def note(message: Any) -> None:
        told.append(message.method)

    async with desk.gate() as gate:
        async with Client(gate.server, mode="legacy", message_handler=note) as client:
            assert client.server_capabilities.tools.list_changed
            for list_all in (client.list_tools, client.list_resources, client.list_prompts):
                await list_all()
            library = await seat_library(desk)
            other = await desk.seat("calc2")
            await until(lambda: {f"notifications/{one}/list_changed" for one in LISTED} <= set(told))
            assert "calc2_add" in {tool.name for tool in (await client.list_tools()).tools}
            assert len((await client.list_resources()).resources) == 1
            told.clear()
            await other.stop()
            await library.stop()
            await until(lambda: {f"notifications/{one}/list_changed" for one in LISTED} <= set(told))
            assert "calc2_add" not in {tool.name for tool in (await client.list_tools()).tools}
            assert (await client.list_resources()).resources == []


async def test_clients_of_the_modern_revision_listen_for_changes(desk: Desk) -> None:
    async with desk.gate() as gate, McpHttpServer(gate.server, token=TOKEN) as server:
        async with client_over_http(server, "auto") as client:
            async with client.listen(tools_list_changed=True, prompts_list_changed=True) as events:
                await seat_library(desk)
                async for event in events:  # one of its tools may come first
                    if isinstance(event, PromptsListChanged):
                        break
                await desk.seat("calc2")
                async for event in events:
                    if isinstance(event, ToolsListChanged):
                        break


async def test_a_flood_of_changes_is_told_a_few_times(desk: Desk) -> None:
    told: list[str] = []

    async def note(message: Any) -> None:
        told.append(message.method)

    async with desk.gate() as gate:
        async with Client(gate.server, mode="legacy", message_handler=note) as client:
            await client.list_tools()
            await client.list_resources()
            library = await seat_library(desk)
            for _ in range(200):
                await library.notify("notifications/resources/list_changed")
            await desk.seat("last")
            await until(lambda: "notifications/tools/list_changed" in told)
            assert client.server_capabilities.resources.list_changed
    assert told.count("notifications/resources/list_changed") < 10


# --- participants that answer badly ---


class Odd:
    """Lists one tool, and answers its calls with whatever it is told to."""

    def __init__(self) -> None:
        self.answers: Any = {}

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        return {"tools": [{"name": "odd"}]} if method == "tools/list" else self.answers


ODD_RESULTS: list[Any] = [
    {},
    [],
    "text",
    3,
    {"content": "text"},
    {"content": [3]},
    {"content": [{"type": "text"}]},
    {"content": [{"type": "unknown", "x": 1}]},
    {"content": [], "isError": "perhaps"},
    {"content": [{"type": "text", "text": "fine"}], "x-own": {"a": 1}, "_meta": 3},
    {"resultType": "input_required", "requestState": "forged"},
]


@pytest.mark.sampled
@pytest.mark.parametrize("odd", ODD_RESULTS, ids=str)
async def test_a_result_that_mcp_does_not_allow_is_an_error_and_the_gate_goes_on(
    desk: Desk, mode: str, odd: Any
) -> None:
    answerer = Odd()
    answerer.answers = odd
    await desk.site.seat("odd", "tool", tools=answerer)
    may = [*PROPOSER, {"kind": "mcp/request"}]
    async with desk.gate(may) as gate, Client(gate.server, mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool("odd_odd", {})
        assert result.is_error and text(result).startswith(
            "odd/odd was executed, but its result is none that MCP"
        )
        assert text(await client.call_tool("calc_add", {"a": 2, "b": 3})) == "5"


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"content": [], "structuredContent": [1]}, "[1]"),
        ({"content": [{"type": "text", "text": "a"}], "resultType": "task", "x-own": 1}, "a"),
        (
            {"content": [{"type": "text", "text": "a"}], "resultType": "input_required", "requestState": "s"},
            "a",
        ),
    ],
    ids=str,
)
async def test_a_participant_cannot_send_what_is_the_gates_own(
    desk: Desk, mode: str, odd: Any, said: str
) -> None:
    answerer = Odd()
    answerer.answers = odd
    await desk.site.seat("odd", "tool", tools=answerer)
    async with desk.gate([*PROPOSER, {"kind": "mcp/request"}]) as gate:
        async with Client(gate.server, mode=mode) as client:
            result = await client.call_tool("odd_odd", {})
    assert (text(result), result.is_error, result.result_type) == (said, False, "complete")
    assert result.structured_content is None


async def test_arguments_that_are_too_large_for_the_space_are_a_sentence(desk: Desk, mode: str) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        result = await client.call_tool("calc_fail", {"a": "x" * 3_000_000})
    assert result.is_error and not list(desk.human.proposals)


# --- over HTTP ---


class Greeter:
    """Lists one prompt, once it may; never tools."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.asked = 0

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method != "prompts/list":
            return {}
        self.asked += 1
        await self.may.wait()
        return {"prompts": [{"name": "greet"}]}


async def test_a_slow_list_of_prompts_holds_up_no_other_and_is_told_when_it_comes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def note(message: Any) -> None:
        told.append(message.method)

    monkeypatch.setattr(peer_lists, "WAIT", 0.2)
    slow, quick = Greeter(), Greeter()
    quick.may.set()
    for name, library in (("slow", slow), ("quick", quick)):
        await desk.site.seat(name, "tool", tools=library)
    async with desk.gate() as gate, Client(gate.server, mode="legacy", message_handler=note) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["quick_greet"]
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["quick_greet"]
        assert slow.asked == 1
        slow.may.set()
        await until(lambda: "notifications/prompts/list_changed" in told)
        assert len((await client.list_prompts()).prompts) == 2
