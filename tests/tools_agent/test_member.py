"""An agent of tools among others in a space: what goes over the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mew_lab.agent.model import Reply
from mew_lab.errors import ConfigError, ToolFailed
from mew_lab.tools_agent.agent_file import parse_agent

from ..agent.conftest import Script, until, wants
from .conftest import ASK, Site, described


def look(place: str) -> str:
    """Looks somewhere."""
    return f"seen {place}"


@pytest.mark.req("T-1", "T-3")
async def test_it_answers_as_an_mcp_server_under_the_name_of_its_metadata(site: Site) -> None:
    await site.desk(Script())
    human = await site.seat("human")
    asked = {"method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    answer = await human.mcp_request("desk", asked)
    assert answer["serverInfo"] == {"name": "Desk", "version": "1.0.0"}
    assert answer["instructions"] == "A desk." and answer["protocolVersion"] == "2025-06-18"
    (entry,) = await human.list_tools("desk")
    assert {key: entry[key] for key in entry if key != "_meta"} == {
        "name": "ask", "description": ASK["description"], "inputSchema": ASK["parameters"],
    }  # fmt: skip
    assert await human.mcp_request("desk", {"method": "ping"}) == {}
    with pytest.raises(ToolFailed, match="-32601"):
        await human.mcp_request("desk", {"method": "resources/list"})


@pytest.mark.req("T-1")
async def test_without_a_description_there_are_no_instructions(site: Site) -> None:
    desk = await site.desk(Script(), described(description=""))
    assert "instructions" not in desk.initialized()


@pytest.mark.req("T-8", "T-9")
async def test_a_call_is_answered_with_the_same_id_correlated_and_its_session_with_the_call(
    site: Site,
) -> None:
    await site.tool("eye", look)
    desk = await site.desk(Script(wants("eye/look", {"place": "shed"}), Reply("In the shed.")))
    human = await site.seat("human")
    call = human.call("desk/ask", {"what": "the spade"})
    assert (await call).text == "In the shed."
    request, inner = (
        next(
            envelope
            for envelope in site.sent("mcp/request", sender=who)
            if envelope.payload["method"] == "tools/call"
        )
        for who in ("human", "desk")
    )
    answer = site.sent("mcp/response", sender="desk")[-1]
    assert answer.to == ("human",) and tuple(answer.correlation_id) == (request.id,)
    start = site.sent("reasoning/start", sender="desk")[0]
    assert tuple(start.correlation_id) == (request.id,) and tuple(inner.correlation_id) == (start.id,)
    assert answer.payload == {
        "jsonrpc": "2.0",
        "id": request.payload["id"],
        "result": {
            "content": [{"type": "text", "text": "In the shed."}],
            "isError": False,
            "_meta": {
                "mew-lab/context": start.id,
                "mew-lab/tool": {"version": "1.0.0", "hash": desk.agent.tools[0].digest},
                "mew-lab/turns": ["because", "In the shed."],
            },
        },
    }


@pytest.mark.req("T-10")
async def test_faults_of_the_call_are_results_and_of_the_request_errors(site: Site) -> None:
    await site.desk(Script())
    human = await site.seat("human")
    with pytest.raises(ToolFailed, match="arguments") as caught:
        await human.call("desk/ask", {})
    assert caught.value.code is None and caught.value.data["isError"] is True
    with pytest.raises(ToolFailed, match="Unknown tool: other") as caught:
        await human.call("desk/other", {})
    assert caught.value.code == -32602
    with pytest.raises(ToolFailed, match="must be an object"):
        await human.mcp_request("desk", {"method": "tools/call", "params": {"name": "ask", "arguments": [1]}})


async def test_a_proposal_that_names_it_is_not_carried_out(site: Site) -> None:
    model = Script()
    await site.desk(model)
    human = await site.seat("human")
    human.propose("desk/ask", {"what": "x"})
    await site.first("mcp/proposal")
    await human.mcp_request("desk", {"method": "ping"})
    assert model.asked == []


async def test_another_definition_is_told_to_the_space_and_listed(site: Site) -> None:
    desk = await site.desk(Script())
    human = await site.seat("human")
    desk.replace(described({**ASK, "name": "tell"}))
    changed = "notifications/tools/list_changed"
    await until(
        lambda: [
            envelope
            for envelope in site.sent("mcp/request", sender="desk")
            if envelope.payload["method"] == changed
        ]
    )
    assert [tool["name"] for tool in await human.list_tools("desk")] == ["tell"]
    with pytest.raises(ConfigError, match="empty"):
        desk.replace(parse_agent({"metadata": {"name": "A", "tools": []}}))
    assert [tool["name"] for tool in await human.list_tools("desk")] == ["tell"]


async def test_a_tool_is_listed_while_what_it_needs_is_offered_and_each_change_is_told(site: Site) -> None:
    def told() -> int:
        requests = site.sent("mcp/request", sender="desk")
        return sum(request.payload["method"] == "notifications/tools/list_changed" for request in requests)

    needing = {**ASK, "name": "inspect", "needs": ["eye/look"]}
    desk = await site.desk(Script(), described(ASK, needing))
    human = await site.seat("human")
    assert [tool["name"] for tool in await human.list_tools("desk")] == ["ask"]
    await site.tool("ear", look)  # offers a tool of that name, as another participant
    await until(lambda: desk.participant.discovery.get_available_tools())
    assert told() == 0
    eye = await site.tool("eye", look)
    await until(lambda: told() == 1)
    assert [tool["name"] for tool in await human.list_tools("desk")] == ["ask", "inspect"]
    await eye.stop()
    await until(lambda: told() == 2)
    assert [tool["name"] for tool in await human.list_tools("desk")] == ["ask"]
    with pytest.raises(ToolFailed, match="needs eye/look, which nobody offers now"):
        await human.call("desk/inspect", {"what": "x"})


async def test_a_listed_tool_names_its_version_as_its_results_do(site: Site) -> None:
    desk = await site.desk(Script(Reply("done")))
    human = await site.seat("human")
    (entry,) = await human.list_tools("desk")
    result = await human.call("desk/ask", {"what": "x"})
    assert entry["_meta"]["mew-lab/tool"] == result.raw["_meta"]["mew-lab/tool"]
    assert entry["_meta"]["mew-lab/tool"]["version"] == "1.0.0"
    desk.replace(described({**ASK, "prompt": "Look for {what}"}))
    (changed,) = await human.list_tools("desk")
    assert changed["_meta"]["mew-lab/tool"]["hash"] != entry["_meta"]["mew-lab/tool"]["hash"]


@pytest.mark.parametrize("kind", ["reasoning/cancel", "participant/clear"])
async def test_a_session_that_somebody_ends_is_still_answered_once(site: Site, kind: str) -> None:
    async def never() -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    desk = await site.desk(Script(never))
    human = await site.seat("human")
    call = human.call("desk/ask", {"what": "x"})
    start = await site.first("reasoning/start")
    context = start.id if kind == "reasoning/cancel" else None
    await human.sender.say(kind, {"reason": "enough"}, to="desk", context=context)
    with pytest.raises(ToolFailed, match="ask: Stopped: ") as caught:
        await call
    assert caught.value.data["isError"] is True
    assert desk.executor.sessions == {}
    assert len(site.sent("mcp/response", sender="desk")) == 1


async def test_an_mcp_cancellation_ends_the_session_and_its_call_is_unknown(site: Site) -> None:
    async def never() -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    desk = await site.desk(Script(never))
    human = await site.seat("human")
    call = human.call("desk/ask", {"what": "x"})
    await site.first("reasoning/start")
    await human.notify("notifications/cancelled", {"requestId": call.envelope.payload["id"]}, to="desk")
    await until(lambda: not desk.executor.sessions and site.sent("mcp/response", sender="desk"))
    [answer] = site.sent("mcp/response", sender="desk")
    assert answer.payload["error"]["data"] == {"code": "outcome_unknown"}


async def test_two_agents_that_ask_each_other_come_to_an_end(site: Site) -> None:
    first = await site.desk(Script(wants("second/ask", {"what": "b"}), Reply("first is done")), name="first")
    await site.desk(Script(wants("first/ask", {"what": "c"}), Reply("second is done")), name="second")
    await until(
        lambda: any(
            tool.participant == "second" for tool in first.participant.discovery.get_available_tools()
        )
    )
    human = await site.seat("human")
    assert (await human.call("first/ask", {"what": "a"}, timeout=20)).text == "first is done"
    refused: list[Any] = [
        envelope.payload["result"]["content"][0]["text"]
        for envelope in site.sent("mcp/response", sender="first")
        if envelope.to == ("second",) and "content" in envelope.payload.get("result", {})
    ]
    assert len(refused) == 1 and "was refused, as a call that waits for it caused it" in refused[0]


async def test_a_ring_of_agents_is_seen_through_the_calls_between_the_others(site: Site) -> None:
    ring = {"first": "second", "second": "third", "third": "first"}
    desks = [
        await site.desk(Script(wants(f"{after}/ask", {"what": "x"}), Reply(f"{name} is done")), name=name)
        for name, after in ring.items()
    ]
    for desk, after in zip(desks, ring.values(), strict=True):
        await desk.participant.discovery.discover_tools(after)
    human = await site.seat("human")
    assert (await human.call("first/ask", {"what": "a"}, timeout=20)).text == "first is done"
    refused = [
        envelope.payload["result"]["content"][0]["text"]
        for envelope in site.sent("mcp/response", sender="first")
        if envelope.to == ("third",) and "content" in envelope.payload.get("result", {})
    ]
    assert len(refused) == 1 and "was refused, as a call that waits for it caused it" in refused[0]


async def test_only_the_listed_callers_may_call_a_tool_and_the_model_is_told_who_calls(site: Site) -> None:
    model = Script(Reply("yes"), Reply("yes"))
    await site.desk(model, described({**ASK, "callers": ["human"]}, {**ASK, "name": "open"}))
    human, other = await site.seat("human"), await site.seat("other")
    with pytest.raises(ToolFailed, match="does not list other as a caller"):
        await other.call("desk/ask", {"what": "x"})
    assert model.asked == []
    assert (await human.call("desk/ask", {"what": "x"})).text == "yes"
    assert (await other.call("desk/open", {"what": "x"})).text == "yes"
    for messages, name in zip(model.asked, ("human", "other"), strict=True):
        assert f"This call came from the participant {name}." in messages[0].content


async def test_a_caller_may_be_limited_to_the_calls_that_match_a_pattern(site: Site) -> None:
    def calls(what: str) -> dict[str, Any]:
        return {"id": "other", "payload": {"params": {"arguments": {"what": what}}}}

    model = Script(*[Reply("yes")] * 4)
    await site.desk(model, described({**ASK, "callers": ["human", calls("public/**"), calls("!secret/**")]}))
    human, other = await site.seat("human"), await site.seat("other")
    for caller, what in ((human, "secret/a"), (other, "public/a"), (other, "b"), (other, "public/a/b")):
        assert (await caller.call("desk/ask", {"what": what})).text == "yes"
    for arguments in ({"what": "secret/a"}, {"what": ["b"]}, {}):
        with pytest.raises(
            ToolFailed, match="ask was not called: its file permits other only calls that match"
        ):
            await other.call("desk/ask", arguments)
    assert len(model.asked) == 4


async def test_the_steps_of_a_call_are_its_progress_for_a_caller_that_asked_for_it(site: Site) -> None:
    await site.tool("eye", look)
    turns = [wants("eye/look", {"place": str(n)}, why=f"step {n}") for n in (1, 2)]
    await site.desk(Script(*turns, Reply("Seen."), *turns, Reply("Seen.")))
    human = await site.seat("human")
    params = {"name": "ask", "arguments": {"what": "x"}}
    for more in ({"_meta": {"progressToken": "t1"}}, {}):
        await human.mcp_request("desk", {"method": "tools/call", "params": {**params, **more}})
    progress = [
        envelope
        for envelope in site.sent("mcp/request", sender="desk")
        if envelope.payload["method"] == "notifications/progress"
    ]
    assert progress[0].payload["params"] == {"progressToken": "t1", "progress": 1, "message": "step 1"}
    request = next(
        envelope
        for envelope in site.sent("mcp/request", sender="human")
        if envelope.payload["method"] == "tools/call"
    )
    assert {(envelope.to, tuple(envelope.correlation_id)) for envelope in progress} == {
        (("human",), (request.id,))
    }
    answer = site.sent("mcp/response", sender="desk")[-2]
    assert tuple(answer.correlation_id) == (request.id,) and progress[-1].ts <= answer.ts


async def test_callers_are_answered_when_the_agent_leaves(site: Site) -> None:
    async def never() -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    desk = await site.desk(Script(never, never))
    human = await site.seat("human")
    calls = [human.call("desk/ask", {"what": "x"}) for _ in range(2)]
    await until(lambda: len(site.sent("reasoning/start", sender="desk")) == 2)
    await desk.stop()
    for call in calls:
        with pytest.raises(ToolFailed, match="ask: Stopped: the agent leaves"):
            await call
    assert desk.executor.sessions == {}


async def test_an_agent_of_another_mode_or_without_tools_is_not_served(site: Site) -> None:
    for metadata, words in (
        ({"name": "A"}, "metadata.mode is interactive"),
        ({"name": "A", "tools": []}, "empty"),
    ):
        with pytest.raises(ConfigError, match=words):
            await site.desk(Script(), parse_agent({"metadata": metadata}))
