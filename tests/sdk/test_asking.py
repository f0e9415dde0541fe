"""The ends of a call that need a gateway of one's own making; the others are in test_participant."""

from __future__ import annotations

import asyncio

import pytest

from mew_lab.errors import ConnectionLost, NoReply, ProposalRejected

from .conftest import Room, until


@pytest.mark.req("S-L2-12")
async def test_what_was_refused_before_it_was_sent_leaves_nothing_open(room: Room) -> None:
    bot = await room.seat("bot", "proposer")
    await bot.client.disconnect()
    with pytest.raises(ConnectionLost, match="Cannot send mcp/proposal to space 'demo' as 'bot'"):
        bot.call("git/x")
    assert len(bot._asking) == 0 and len(bot.calls) == 0


@pytest.mark.divergence("P-3.3.2-4")
async def test_whose_tool_a_proposal_names_does_not_reject_it_by_itself_and_its_timeout_ends_the_waiting(
    room: Room,
) -> None:
    """It is others who fulfil what is addressed to a tool; a rejection by the tool would stop them."""
    git, human = await room.seat("git", "tool"), await room.seat("human")
    bot = await room.seat("bot", "proposer")
    call = bot.propose("git/no_such_tool", {}, timeout=0.05)
    await until(lambda: git.proposals.get(call.id) and human.proposals.get(call.id))
    assert room.sent("mcp/reject") == [] and not call.done
    with pytest.raises(NoReply):
        await call
    [withdraw] = room.sent("mcp/withdraw")
    assert (withdraw.correlation_id, withdraw.payload) == ((call.id,), {"reason": "timeout"})
    assert room.sent("mcp/reject") == []


@pytest.mark.req("P-3.3.3-2")
async def test_a_rejection_without_a_reason_says_so(room: Room) -> None:
    git = await room.seat("git", "tool")
    bot = await room.seat("bot", "proposer")
    call = bot.call("git/x")
    await until(lambda: git.proposals.open())
    await git.send_accepted({"kind": "mcp/reject", "correlation_id": [call.id]})
    with pytest.raises(ProposalRejected, match=r"^Proposal rejected by git: no reason given$"):
        await call


@pytest.mark.threat(17)
@pytest.mark.req("P-3.3.3-2")
async def test_an_odd_reason_is_shown_harmlessly(room: Room) -> None:
    git = await room.seat("git", "tool")
    bot = await room.seat("bot", "proposer")
    call = bot.call("git/x")
    await until(lambda: git.proposals.open())
    await git.reject(call.id, "see \x1b[2J here")
    with pytest.raises(ProposalRejected, match=r"rejected by git: see \\u001b\[2J here$"):
        await call


async def test_a_call_to_several_ends_with_the_last_who_could_answer(room: Room) -> None:
    class Never:
        async def answer(self, method: str, params: object) -> dict[str, object]:
            await asyncio.Event().wait()
            return {}

    one, two = await room.seat("one", "tool", tools=Never()), await room.seat("two", "tool", tools=Never())
    human = await room.seat("human")
    call = human.mcp_request(["one", "two"], {"method": "x/y"})
    await until(lambda: len(one._answering) == 1 and len(two._answering) == 1)
    await one.stop()
    await until(lambda: "one" not in human.client.participants)
    assert not call.done
    await two.stop()
    with pytest.raises(NoReply, match="one, two left space 'demo' before answering one, two/x/y"):
        await call


async def test_a_second_withdraw_of_a_call_that_ended_does_nothing(room: Room) -> None:
    human = await room.seat("human")
    call = human.propose("nobody/x")
    with pytest.raises(NoReply):
        await call
    await call.withdraw()
    assert len(room.sent("mcp/withdraw")) <= 1


@pytest.mark.req("P-3.1.2-3")
async def test_the_payloads_of_a_call_are_json_rpc_as_mcp_has_it_and_nothing_besides(room: Room) -> None:
    git, human = await room.seat("git", "tool"), await room.seat("human")

    def add(a: int, b: int) -> int:
        return a + b

    git.tools.add(add)
    assert str(await human.call("git/add", {"a": 1, "b": 2})) == "3"
    [request] = [one for one in room.sent("mcp/request") if one.payload["method"] == "tools/call"]
    [response] = [one for one in room.sent("mcp/response") if one.correlation_id == (request.id,)]
    assert request.payload == {
        "jsonrpc": "2.0",
        "id": request.payload["id"],
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
    }
    assert set(response.payload) == {"jsonrpc", "id", "result"}
    assert (response.payload["jsonrpc"], response.payload["id"]) == ("2.0", request.payload["id"])
    assert set(response.payload["result"]) <= {"content", "structuredContent", "isError", "_meta"}
