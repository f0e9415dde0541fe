"""Participants in a real space: calls, proposals, decisions, answers, chat, and what is not believed."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mew_lab.errors import (
    CapabilityViolation,
    ConnectionLost,
    LocalProtocolError,
    NoReply,
    OutcomeUnknown,
    ProposalEnded,
    ProposalRejected,
    ProposalWithdrawn,
    Refused,
    StillRunning,
    ToolFailed,
)
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.profiles import PROFILES
from mew_lab.sdk.participant import Call, MEWParticipant
from mew_lab.sdk.tools import ToolBox, ToolResult

from .conftest import Room, until

LIAR = [{"kind": "mcp/*"}, {"kind": "chat"}]


def box() -> ToolBox:
    tools = ToolBox(name="git")
    tools.add(lambda repo_path=".": f"3 commits in {repo_path}", name="git_log")

    async def never() -> None:
        await asyncio.Event().wait()

    def fails() -> None:
        raise ValueError("no such branch")

    tools.add(never)
    tools.add(fails)
    return tools


@pytest.fixture
async def git(room: Room) -> MEWParticipant:
    return await room.seat("git", "tool", tools=box())


@pytest.fixture
async def human(room: Room, git: MEWParticipant) -> MEWParticipant:
    return await room.seat("human", "human")


@pytest.fixture
async def bot(room: Room, human: MEWParticipant) -> MEWParticipant:
    return await room.seat("bot", "proposer")


async def proposed(at: MEWParticipant, call: Call) -> None:
    await until(lambda: at.proposals.get(call.id) is not None)


# --- calling ---


@pytest.mark.req(
    "S-L2-10", "P-3.1-1", "P-3.1.1-1", "P-3.1.2-1", "P-3.1.2-2", "P-3.1.2-4", "P-8.2-7", "P-3-10"
)
async def test_who_may_request_gets_the_answer_directly(room: Room, human: MEWParticipant) -> None:
    call = human.call("git/git_log", {"repo_path": "/r"})
    assert (call.kind, call.state, list(call.to)) == ("mcp/request", "open", ["git"])
    result = await call
    assert isinstance(result, ToolResult) and str(result) == "3 commits in /r"
    assert (call.state, call.by) == ("answered", "git")
    [request], [response] = room.sent("mcp/request"), room.sent("mcp/response")
    assert request.payload == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "git_log", "arguments": {"repo_path": "/r"}},
    }
    assert (response.to, response.correlation_id) == (("human",), (request.id,))
    assert (response.payload["jsonrpc"], response.payload["id"]) == ("2.0", 1)
    assert set(response.payload) == {"jsonrpc", "id", "result"}
    assert set(response.payload["result"]) <= {"content", "structuredContent", "isError", "_meta"}


@pytest.mark.req(
    "S-L2-11", "P-3.2-1", "P-3.2-2", "S-L2-13", "S-L2-17", "P-3.2.1-1", "P-3.2.1-7", "P-9.1-1", "S-TST-2"
)
async def test_who_may_only_propose_gets_the_answer_through_a_fulfilment(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/git_log", {"repo_path": "/r"})
    assert (call.kind, call.state) == ("mcp/proposal", "open")
    await proposed(human, call)
    [shown] = human.proposals.open()
    assert shown.payload == {
        "method": "tools/call",
        "params": {"name": "git_log", "arguments": {"repo_path": "/r"}},
    }
    sent = await human.approve(call.id, digest=shown.digest)
    assert str(await call) == "3 commits in /r"
    assert (call.state, call.by) == ("answered", "human")
    [request], [response] = room.sent("mcp/request"), room.sent("mcp/response")
    assert request.raw == sent.raw and request.correlation_id == (call.id,) and request.to == ("git",)
    assert response.to == ("human",) and response.correlation_id == (request.id,)
    for seat in (bot, human):
        after = seat.proposals.get(call.id)
        assert after is not None and (after.state, after.edited) == ("answered", False)


@pytest.mark.req("S-L2-12", "S-SEC-3", "P-8.2-12")
async def test_who_may_do_neither_is_told_what_would_help(room: Room, git: MEWParticipant) -> None:
    watcher = await room.seat("watcher", "observer")
    with pytest.raises(CapabilityViolation) as caught:
        watcher.call("git/git_log")
    assert str(caught.value) == (
        'Cannot call git/git_log as "watcher": it holds neither mcp/request nor mcp/proposal for tools/call. '
        'Grant {"kind": "mcp/proposal"} to let it propose, or '
        '{"kind": "mcp/request", "payload": {"method": "tools/call"}} to let it call.'
    )
    assert caught.value.attempted_kind == "mcp/request"
    assert room.sent("mcp/request") == [] and room.sent("mcp/proposal") == []


@pytest.mark.req("S-L2-7", "S-L2-9", "S-L2-4")
async def test_can_send_judges_the_payload(room: Room) -> None:
    careful = await room.seat("careful", [{"kind": "mcp/request", "payload": {"method": "!tools/call"}}])
    assert careful.can_send("mcp/request", {"method": "tools/list"})
    assert not careful.can_send("mcp/request", {"method": "tools/call"})
    assert not careful.can_send({"kind": "mcp/request", "payload": {"method": "tools/call"}, "to": ["git"]})
    assert not careful.can_send("chat")


async def test_propose_proposes_even_where_a_request_is_permitted(room: Room, human: MEWParticipant) -> None:
    call = human.propose("git/git_log")
    await proposed(human, call)
    assert call.kind == "mcp/proposal"
    with pytest.raises(LocalProtocolError, match=r"it is its own; withdraw\(\) takes it back"):
        await human.approve(call.id)


@pytest.mark.req("S-L2-4")
async def test_other_methods_are_routed_alike_and_give_the_plain_result(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    assert await human.mcp_request("git", {"method": "ping"}) == {}
    call = bot.mcp_request(["git"], {"method": "resources/list"})
    await proposed(human, call)
    await human.approve(call.id)
    assert await call == {"resources": []}


@pytest.mark.req("S-L2-1", "S-L1-18")
async def test_the_tools_of_another_are_listed(human: MEWParticipant, bot: MEWParticipant) -> None:
    assert [tool["name"] for tool in await human.list_tools("git")] == ["git_log", "never", "fails"]
    with pytest.raises(CapabilityViolation, match=r"Use bot.call\(…\) to propose it, or grant"):
        await bot.list_tools("git")


# --- what ends a call ---


@pytest.mark.req("S-ERR-3", "S-ERR-5", "S-ERR-6", "S-SEC-4")
@pytest.mark.parametrize(
    ("tool", "arguments", "said", "code"),
    [
        (
            "nope",
            {},
            r"git/nope failed: Unknown tool: nope\. Tools here: git_log, never, fails \(-32602\)",
            -32602,
        ),
        ("git_log", {"x": 1}, r"Invalid arguments for git_log: arguments.x: is not known", -32602),
        ("fails", {}, "git/fails failed: ValueError: no such branch", None),
    ],
)
async def test_a_failing_tool_raises_what_it_said(
    human: MEWParticipant, tool: str, arguments: Any, said: str, code: int | None
) -> None:
    call = human.call(f"git/{tool}", arguments)
    with pytest.raises(ToolFailed, match=said) as caught:
        await call
    assert (caught.value.code, call.state) == (code, "failed")


@pytest.mark.req(
    "S-L2-24", "S-L2-25", "P-3.3.2-5", "P-3.3.3-5", "P-3.3.2-2", "P-3-13", "P-3.3.3-7", "P-3.3.2-3"
)
async def test_the_first_rejection_ends_a_proposal_at_once(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/git_log")
    await proposed(human, call)
    await human.reject(call.id, "unsafe")
    with pytest.raises(ProposalRejected, match=r"^Proposal rejected by human: unsafe$") as caught:
        await call
    assert (caught.value.by, caught.value.reason, caught.value.proposal) == ("human", "unsafe", call.id)
    assert (call.state, call.by) == ("rejected", "human")
    [reject] = room.sent("mcp/reject")
    assert (reject.to, reject.correlation_id) == (("bot",), (call.id,))


@pytest.mark.req("P-3.3.2-6", "P-3.3.2-7")
@pytest.mark.extension("resilient_proposals")
async def test_a_resilient_proposal_waits_for_somebody_else(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    other = await room.seat("other", "human")
    call = bot.call("git/git_log", resilient=True)
    await proposed(human, call)
    await human.reject(call.id, "busy")
    await until(lambda: call.state == "rejected")
    assert not call.done and call.by == "human"
    [proposal] = room.sent("mcp/proposal")
    assert proposal.members["x-resilient"] is True and room.sent("mcp/withdraw") == []
    with pytest.raises(ProposalEnded, match=r"human rejected it \(busy\)"):
        await other.approve(call.id)
    await other.approve(call.id, despite="rejected")
    assert str(await call) == "3 commits in ."
    assert call.by == "other"


@pytest.mark.parametrize("may_withdraw", [True, False])
async def test_a_proposer_that_gives_up_on_a_rejection_withdraws_so_that_nobody_approves_it(
    room: Room, human: MEWParticipant, may_withdraw: bool
) -> None:
    """Also one of the specification's own profile, which has no right to withdraw (R36)."""
    bot = await room.seat("bot", "proposer" if may_withdraw else [{"kind": "mcp/proposal"}, {"kind": "chat"}])
    other = await room.seat("other", "human")
    call = bot.call("git/git_log")
    await proposed(other, call)
    await human.reject(call.id, "unsafe")
    with pytest.raises(ProposalRejected, match="Proposal rejected by human: unsafe"):
        await call
    await until(lambda: (other.proposals.get(call.id) or _no).state == "withdrawn")
    [withdraw] = room.sent("mcp/withdraw")
    assert (withdraw.sender, withdraw.payload) == ("bot", {"reason": "rejected"})
    assert "x-resilient" not in room.sent("mcp/proposal")[0].members
    with pytest.raises(ProposalWithdrawn):
        await other.approve(call.id, despite="rejected")
    assert room.sent("mcp/request") == []


@pytest.mark.req("S-L2-18", "S-L2-26", "P-3.3.1-2", "P-3.3.1-3", "P-3-12", "S-L2-20", "S-L2-21")
async def test_a_proposal_that_times_out_is_withdrawn(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/git_log", timeout=0.01)
    with pytest.raises(
        NoReply, match=r"Nobody approved git/git_log within [0-9.]+ s; the proposal was withdrawn"
    ):
        await call
    [withdraw] = await until(lambda: room.sent("mcp/withdraw"))
    assert (withdraw.sender, withdraw.correlation_id) == ("bot", (call.id,))
    assert withdraw.payload == {"reason": "timeout"}
    await until(lambda: (human.proposals.get(call.id) or _no).state == "withdrawn")
    with pytest.raises(ProposalWithdrawn):
        await human.approve(call.id)


@pytest.mark.req("S-L2-45", "S-ERR-4")
async def test_a_request_that_times_out_goes_on_at_its_target_and_stays_open_in_every_ledger(
    room: Room, git: MEWParticipant, human: MEWParticipant, bot: MEWParticipant
) -> None:
    bot.ledger.calls.hold_all_requests()
    go = asyncio.Event()

    async def slow() -> str:
        await go.wait()
        return "done"

    git.tools.add(slow)
    call = human.call("git/slow")
    await until(lambda: len(git.request_server) == 1)
    call.expire_after(0.01, call.expire)  # type: ignore[attr-defined]
    with pytest.raises(
        StillRunning, match=r"git did not answer git/slow within .* It was sent and may still run"
    ):
        await call
    assert call.state == "running" and len(git.request_server) == 1
    ledgers = [human.ledger.calls, git.ledger.calls, bot.ledger.calls]
    assert [(ledger.requests.get(call.id) or _no).state for ledger in ledgers] == ["waiting"] * 3
    go.set()
    await until(lambda: {(ledger.requests.get(call.id) or _no).state for ledger in ledgers} == {"answered"})
    assert "notifications/cancelled" not in [sent.payload["method"] for sent in room.sent("mcp/request")]


@pytest.mark.req("S-L2-45", "S-ERR-4")
async def test_a_request_has_a_limit_of_its_own_accord_and_a_proposal_has_none(
    room: Room, git: MEWParticipant
) -> None:
    hasty = await room.seat("hasty", "human", request_timeout=0.01)
    open_request = hasty.call("git/never")
    assert len(hasty.correlations) == 1  # it is tracked while it is open, and no longer
    with pytest.raises(NoReply):
        await open_request
    assert len(hasty.correlations) == 0
    call = hasty.propose("git/never")
    await proposed(git, call)
    assert not call.done


@pytest.mark.req("S-L2-26")
async def test_a_fulfilled_proposal_that_nobody_answers_is_not_withdrawn(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/never", timeout=0.2)
    await proposed(human, call)
    await human.approve(call.id)
    with pytest.raises(NoReply, match="human approved git/never, but nobody answered within"):
        await call
    assert room.sent("mcp/withdraw") == []


async def test_withdrawing_a_call_ends_it_for_everybody(human: MEWParticipant, bot: MEWParticipant) -> None:
    call = bot.call("git/git_log")
    await proposed(human, call)
    await call.withdraw("duplicate")
    with pytest.raises(ProposalWithdrawn, match="Proposal withdrawn by bot: duplicate"):
        await call
    await until(lambda: human.proposals.open() == [])
    await call.withdraw()
    assert call.state == "withdrawn"


@pytest.mark.threat(18)
async def test_an_approval_that_crosses_a_withdraw_is_answered_and_not_executed(
    room: Room, git: MEWParticipant, human: MEWParticipant, bot: MEWParticipant
) -> None:
    executed: list[str] = []
    git.tools.add(lambda branch: executed.append(branch), name="push")
    call, other = bot.call("git/push", {"branch": "main"}), bot.call("git/push", {"branch": "next"})
    await proposed(human, other)
    await call.withdraw("user_cancelled")
    # As it leaves a participant that has not yet heard of the withdraw.
    approval = {
        "kind": "mcp/request",
        "to": ["git"],
        "correlation_id": [call.id],
        "payload": {"method": "tools/call", "params": {"name": "push", "arguments": {"branch": "main"}}},
    }
    await human.send_accepted(approval)
    await until(lambda: len(room.sent("mcp/response")) == 1)
    error = room.sent("mcp/response")[0].payload["error"]
    assert error["message"].startswith(f"Not executed: bot withdrew proposal {call.id}")
    # A request that fulfils another proposal, or none, is executed.
    await human.send_accepted({**approval, "correlation_id": [call.id, other.id]})
    await other
    assert executed == ["main"]
    await human.call("git/push", {"branch": "third"})
    assert executed == ["main", "third"]


@pytest.mark.ruling("R35")
async def test_a_withdraw_after_the_approval_ends_the_wait_and_is_no_failure(
    git: MEWParticipant, human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/never")
    await until(lambda: human.proposals.get(call.id))
    await human.approve(call.id)
    await until(lambda: call.state == "fulfilled")
    await call.withdraw()
    why = r"human approved it, and was not cancelled: bot may not send mcp/request, so it may have been executed"
    with pytest.raises(StillRunning, match=why):
        await call
    assert call.state == "running"


@pytest.mark.parametrize("seat", ["human", "bot"])
async def test_calling_a_participant_that_is_not_there_fails_at_once(
    room: Room, human: MEWParticipant, bot: MEWParticipant, seat: str
) -> None:
    call = (human if seat == "human" else bot).call("gti/git_log")
    with pytest.raises(
        NoReply, match=r"Nobody can answer gti/git_log: no participant gti is in space 'demo' now\. Present:"
    ):
        await call
    if seat == "bot":
        await until(lambda: room.sent("mcp/withdraw"))


async def test_a_target_that_leaves_before_answering_ends_the_call(
    git: MEWParticipant, human: MEWParticipant, bot: MEWParticipant
) -> None:
    direct, through = human.call("git/never"), bot.call("git/never")
    await proposed(human, through)
    await human.approve(through.id)
    await until(lambda: through.state == "fulfilled" and len(git.request_server) == 2)
    await git.stop()
    for call in (direct, through):
        with pytest.raises(
            NoReply, match=r"git left space 'demo' before answering git/never\. It was sent\."
        ):
            await call


async def test_losing_the_connection_ends_what_runs_and_keeps_what_waits_for_people(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    waiting, running = bot.call("git/git_log"), bot.call("git/never")
    await proposed(human, running)
    await human.approve(running.id)
    await until(lambda: running.state == "fulfilled")
    direct = human.call("git/never")
    for name in ("bot", "human"):
        room.links[name].shut(1006)  # type: ignore[attr-defined]
    for call, who in ((running, "bot"), (direct, "human")):
        with pytest.raises(
            ConnectionLost,
            match=rf"ended before git/never was answered: '{who}'.* (Whether it took effect is not known|it may have run)",
        ):
            await call
    assert not waiting.done
    await bot.stop()
    with pytest.raises(ConnectionLost, match="the participant left the space"):
        await waiting


@pytest.mark.req("S-ERR-4", "P-8.2-12")
async def test_a_refusal_of_the_gateway_ends_the_call_with_its_words(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    from mew_lab.protocol.permit import CapabilitySet

    bot.client.capabilities = CapabilitySet([{"kind": "mcp/*"}])  # it believes that it may
    call = bot.call("git/git_log")
    assert call.kind == "mcp/request"
    bot.client.capabilities = CapabilitySet([{"kind": "mcp/proposal"}])
    with pytest.raises(CapabilityViolation) as caught:
        await call
    assert str(caught.value) == (
        'Cannot call git/git_log as "bot": it holds mcp/proposal, not mcp/request for tools/call. '
        'Use bot.call(…) to propose it, or grant {"kind": "mcp/request", "payload": {"method": "tools/call"}}.'
    )
    assert caught.value.envelope is not None and caught.value.envelope.kind == "system/error"


async def test_what_cannot_be_asked_is_said_before_anything_is_sent(
    room: Room, human: MEWParticipant
) -> None:
    for target in ("git_log", "/git_log", "git/", ""):
        with pytest.raises(LocalProtocolError, match=r"is not a full tool name\. Use participant/tool"):
            human.call(target)
    with pytest.raises(LocalProtocolError, match="cannot call itself over the space"):
        human.call("human/x")
    with pytest.raises(LocalProtocolError, match="name at least one participant"):
        human.mcp_request([], {"method": "ping"})
    with pytest.raises(LocalProtocolError, match="cannot be written as JSON"):
        human.call("git/git_log", {"x": float("nan")})
    with pytest.raises(LocalProtocolError, match="a message takes at most 1048576"):
        human.call("git/git_log", {"x": "y" * 1_100_000})
    assert room.sent("mcp/request") == [] and len(human.correlations) == 0


async def test_order_is_kept_between_a_call_and_what_is_said_after_it(
    room: Room, human: MEWParticipant
) -> None:
    human.call("git/git_log")
    await human.chat("after the call")
    await until(lambda: room.sent("chat"))
    kinds = [
        one.raw
        for one in room.records
        if one.verdict == "accepted" and one.participant == "human" and one.raw
    ]
    assert "mcp/request" in kinds[-2] and '"chat"' in kinds[-1]


async def test_a_tool_name_may_hold_a_slash(room: Room, human: MEWParticipant) -> None:
    call = human.call("git/a/b")
    with pytest.raises(ToolFailed, match="Unknown tool: a/b"):
        await call


# --- not believed ---


@pytest.mark.threat(13)
@pytest.mark.req("P-4.3-5")
async def test_an_answer_by_a_third_party_changes_nothing_and_is_reported(
    room: Room,
    git: MEWParticipant,
    human: MEWParticipant,
    bot: MEWParticipant,
    caplog: pytest.LogCaptureFixture,
) -> None:
    eve = await room.seat("eve", LIAR)
    direct, through = human.call("git/never"), bot.call("git/never")
    await proposed(human, through)
    sent = await human.approve(through.id)
    lie = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "all is well"}]}}
    with caplog.at_level(logging.WARNING, "mew_lab"):
        for about in (direct.id, sent.id, through.id):
            await eve.send_accepted({"kind": "mcp/response", "correlation_id": [about], "payload": lie})
        await until(lambda: len((bot.proposals.get(through.id) or _no).claims) == 2)
    assert not direct.done and not through.done
    assert any("eve claims to answer" in one.message for one in caplog.records)
    assert any("mcp/response of eve about git/never is not believed" in one.message for one in caplog.records)


_no = type("No", (), {"claims": (), "state": ""})


@pytest.mark.threat(13)
@pytest.mark.req("S-L2-22")
async def test_a_withdraw_by_somebody_else_changes_nothing(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    eve = await room.seat("eve", LIAR)
    call = bot.call("git/git_log")
    await proposed(human, call)
    await eve.send_accepted(
        {"kind": "mcp/withdraw", "correlation_id": [call.id], "payload": {"reason": "mine"}}
    )
    await human.approve(call.id)
    assert str(await call) == "3 commits in ."
    with pytest.raises(LocalProtocolError, match=r"Cannot withdraw proposal .* as 'human': it is bot's"):
        await human.withdraw(call.id)


@pytest.mark.req("P-3.3.1-2")
async def test_a_withdraw_that_names_no_proposal_changes_nothing_and_counts_as_malformed(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/git_log")
    await proposed(human, call)
    for members in ({}, {"correlation_id": []}):
        await bot.send_accepted({"kind": "mcp/withdraw", "payload": {"reason": "timeout"}, **members})
    await until(lambda: human.misbehaviour == {"bot": 2})
    await human.approve(call.id)
    assert str(await call) == "3 commits in ."


# --- deciding ---


@pytest.mark.threat(14)
@pytest.mark.req("S-L2-14", "S-L2-15", "S-L2-16", "P-3.2.1-3", "P-8.2-9", "P-3-11")
async def test_what_is_approved_must_be_what_was_shown(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/git_log")
    await proposed(human, call)
    with pytest.raises(LocalProtocolError) as caught:
        await human.approve(call.id, digest="0" * 64)
    assert caught.value.code == "digest_mismatch"
    assert room.sent("mcp/request") == []
    [shown] = human.proposals.open()
    await human.approve(call.id, digest=shown.digest)
    [proposal], [request] = room.sent("mcp/proposal"), room.sent("mcp/request")
    assert (request.sender, request.to, request.correlation_id) == ("human", proposal.to, (proposal.id,))
    assert request.payload == {**proposal.payload, "jsonrpc": "2.0", "id": request.payload["id"]}


@pytest.mark.threat(18)
@pytest.mark.req("C-22", "S-L2-19")
async def test_a_hundred_clicks_make_one_request(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/git_log")
    await proposed(human, call)
    verbs = [human.approve(call.id) if n % 2 else human.reject(call.id) for n in range(1, 101)]
    outcomes = await asyncio.gather(*verbs, return_exceptions=True)
    assert [type(one) for one in outcomes[:1]] == [Envelope]
    assert all(isinstance(one, ProposalEnded) for one in outcomes[1:])
    assert "is being decided by human already" in str(outcomes[1])
    await call
    assert len(room.sent("mcp/request")) == 1 and room.sent("mcp/reject") == []
    with pytest.raises(ProposalEnded, match="human approved it before"):
        await human.approve(call.id)
    with pytest.raises(ProposalEnded, match="human approved it before"):
        await human.reject(call.id)


@pytest.mark.threat(18, 19)
async def test_one_decision_is_final_for_who_made_it(human: MEWParticipant, bot: MEWParticipant) -> None:
    rejected, withdrawn = bot.call("git/git_log"), bot.call("git/git_log")
    await proposed(human, withdrawn)
    await human.reject(rejected.id, "policy")
    with pytest.raises(ProposalEnded, match=r"human rejected it \(policy\)|withdrawn by bot: rejected"):
        await human.approve(rejected.id)
    await until(lambda: bot.own_proposals() == [bot.proposals.get(withdrawn.id)])
    await bot.withdraw(withdrawn.id, "no_longer_needed")
    with pytest.raises(ProposalWithdrawn):
        await bot.withdraw(withdrawn.id)
    await until(lambda: (human.proposals.get(withdrawn.id) or _no).state == "withdrawn")
    with pytest.raises(ProposalWithdrawn, match="Proposal withdrawn by bot: no_longer_needed"):
        await human.approve(withdrawn.id)


async def test_a_decision_that_was_refused_can_be_made_again(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    call = bot.call("git/git_log")
    await proposed(human, call)
    weak = await room.seat("weak", [{"kind": "chat"}])
    with pytest.raises(LocalProtocolError, match="it is not known here"):
        await weak.approve(call.id)
    late = await room.seat("late", [{"kind": "mcp/reject"}])
    again = bot.call("git/git_log")
    await proposed(late, again)
    with pytest.raises(CapabilityViolation, match="Cannot call git/git_log as"):
        await late.approve(again.id)
    await late.reject(again.id, "incapable")
    with pytest.raises(ProposalRejected):
        await again


@pytest.mark.threat(18)
async def test_after_a_break_an_open_proposal_cannot_be_fulfilled_blindly(
    room: Room, bot: MEWParticipant
) -> None:
    human = await room.seat("keen", client={"reconnect_delay": 0.001})
    call = bot.call("git/git_log")
    await proposed(human, call)
    room.links["keen"].shut(1006)  # type: ignore[attr-defined]
    await until(lambda: human.client.state == "connecting")
    await until(lambda: human.client.state == "ready")
    with pytest.raises(LocalProtocolError, match=r"it may have been approved meanwhile\. Reject it"):
        await human.approve(call.id)
    assert room.sent("mcp/request") == []
    await human.reject(call.id, "timeout")
    with pytest.raises(ProposalRejected):
        await call


@pytest.mark.threat(18)
async def test_a_decision_whose_fate_is_unknown_is_not_sent_again(
    room: Room, human: MEWParticipant, bot: MEWParticipant, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = bot.call("git/git_log")
    await proposed(human, call)
    monkeypatch.setattr(human.correlations, "echo", lambda envelope: None)
    deciding = asyncio.ensure_future(human.approve(call.id))
    await asyncio.sleep(0)
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    with pytest.raises(ProposalEnded):
        await human.approve(call.id)
    await call
    assert len(room.sent("mcp/request")) == 1


async def test_a_proposal_to_nobody_needs_a_target_and_is_marked_edited(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    sent = await bot.send_accepted(
        {"kind": "mcp/proposal", "payload": {"method": "tools/call", "params": {"name": "git_log"}}}
    )
    await until(lambda: human.proposals.open())
    with pytest.raises(LocalProtocolError, match="names no addressee"):
        await human.approve(sent.id)
    await human.approve(sent.id, to="git")
    await until(lambda: (bot.proposals.get(sent.id) or _no).state == "answered")
    found = bot.proposals.get(sent.id)
    assert found is not None and found.edited


@pytest.mark.req("P-3.2-3", "P-3.1-2")
async def test_a_proposal_is_never_executed_by_its_target(
    room: Room, git: MEWParticipant, bot: MEWParticipant
) -> None:
    seen: list[str] = []
    stop = git.on_mcp_proposal(lambda envelope: seen.append(envelope.id))
    call = bot.call("git/git_log")
    await until(lambda: seen == [call.id])
    await bot.chat("still waiting")
    await until(lambda: room.sent("chat"))
    assert room.sent("mcp/response") == [] and len(git.request_server) == 0
    stop()


# --- answering ---


async def ask(asker: MEWParticipant, payload: Any, to: tuple[str, ...] = ("git",), **more: Any) -> Envelope:
    return await asker.send_accepted({"kind": "mcp/request", "to": to, "payload": payload, **more})


@pytest.mark.req("P-3-20", "P-3-18", "P-3.5.6-1")
async def test_an_addressed_request_is_answered_in_its_context(room: Room, human: MEWParticipant) -> None:
    request = await ask(human, {"method": "ping", "id": "x"}, context="work/step-1")
    [response] = await until(lambda: room.sent("mcp/response"))
    assert (response.context, response.correlation_id) == ("work/step-1", (request.id,))


async def test_a_request_to_nobody_or_to_another_is_not_answered(room: Room, human: MEWParticipant) -> None:
    await ask(human, {"method": "ping", "id": 1}, to=())
    await ask(human, {"method": "ping", "id": 2}, to=("somebody",))
    await ask(human, {"method": "ping", "id": 3}, to=("somebody", "git"))
    await until(lambda: room.sent("mcp/response"))
    assert [one.payload["id"] for one in room.sent("mcp/response")] == [3]


@pytest.mark.req("P-3.1-2")
async def test_a_notification_has_no_answer(room: Room, human: MEWParticipant) -> None:
    seen: list[str] = []
    room.seated[0].on_mcp_request(lambda envelope: seen.append(envelope.payload["method"]))
    await human.notify("notifications/initialized", {}, to="git")
    await ask(human, {"method": "ping", "id": 9})
    await until(lambda: room.sent("mcp/response"))
    assert [one.payload["id"] for one in room.sent("mcp/response")] == [9]
    assert seen == ["notifications/initialized", "ping"]


@pytest.mark.req(
    "P-8.2-1",
    "P-8.2-2",
    "P-8.2-3",
    "P-8.2-4",
    "P-8.2-5",
    "P-4.3-1",
    "P-4.3-3",
    "P-4.3-4",
    "P-7.2-2",
    "P-7.2-3",
    "P-7.3-3",
)
async def test_malformed_messages_are_dropped_and_counted(
    room: Room, git: MEWParticipant, human: MEWParticipant, bot: MEWParticipant
) -> None:
    chats: list[Envelope] = []
    git.on_chat(chats.append)
    for payload in ({"params": {}}, {"method": 7}, {"method": "ping", "params": []}):
        await ask(human, payload)
    await human.send_accepted({"kind": "chat", "payload": {"txt": "?"}})
    await human.send_accepted({"kind": "mcp/reject", "payload": {"reason": "of what?"}})
    await human.chat("fine")
    await until(lambda: chats)
    assert git.misbehaviour == {"human": 5} and human.misbehaviour == {}
    assert [one.payload["text"] for one in chats] == ["fine"] and room.sent("mcp/response") == []


async def test_a_slow_tool_holds_up_neither_the_reader_nor_the_others(
    git: MEWParticipant, human: MEWParticipant
) -> None:
    slow = [human.call("git/never") for _ in range(20)]
    assert str(await human.call("git/git_log")) == "3 commits in ."
    assert len(git.request_server) == 20 and not any(call.done for call in slow)


async def test_a_result_that_is_too_large_is_answered_with_a_sentence(
    room: Room, git: MEWParticipant, human: MEWParticipant
) -> None:
    git.tools.add(lambda: "x" * 1_100_000, name="big")
    with pytest.raises(
        OutcomeUnknown, match=r"cannot be sent, for a message takes at most 1048576, nor be kept"
    ):
        await human.call("git/big")


@pytest.mark.req("P-5.2-7")
async def test_a_client_asks_for_the_runtime_id_that_it_was_given(either: Room) -> None:
    await either.seat("helper")
    async with either.client("helper", runtime_id="helper-77") as client:
        assert client.id == "helper-77"


async def test_a_runtime_id_is_asked_by_either_name(room: Room, human: MEWParticipant) -> None:
    await room.seat("helper", "tool", tools=box(), runtime_id="helper-77")
    assert str(await human.call("helper-77/git_log")) == "3 commits in ."
    assert str(await human.call("helper/git_log")) == "3 commits in ."


# --- chat and the rest ---


@pytest.mark.req(
    "P-3.4-1",
    "P-3.4-2",
    "P-3.4-4",
    "P-3.4.1-1",
    "P-3.4.1-2",
    "P-3.4.2-1",
    "P-3.4.2-2",
    "S-L2-4",
    "S-L2-33",
    "P-3-15",
)
async def test_chat_is_said_acknowledged_and_cancelled(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    heard: list[Envelope] = []
    bot.on_chat(heard.append)
    human.on_chat(heard.append)
    first = await human.chat("hello", format="markdown")
    second = await human.chat("you there", to="bot", correlation_id=first.id, context="a/b")
    await until(lambda: len(heard) == 2)
    assert [one.raw for one in heard] == [first.raw, second.raw]  # once each: nobody hears oneself
    assert (first.to, first.payload) == ((), {"text": "hello", "format": "markdown"})
    assert (second.to, second.payload) == (("bot",), {"text": "you there"})
    assert (second.correlation_id, second.context) == ((first.id,), "a/b")
    acknowledged = await bot.acknowledge_chat(second.id, "human")
    cancelled = await human.cancel_chat(second.id, "bot", "duplicate")
    assert (acknowledged.correlation_id, acknowledged.payload) == ((second.id,), {"status": "received"})
    assert (cancelled.correlation_id, cancelled.payload) == ((second.id,), {"reason": "duplicate"})
    await until(lambda: room.sent("chat/cancel"))
    assert [one.raw for one in room.sent("chat/acknowledge")] == [acknowledged.raw]
    assert [one.raw for one in room.sent("chat/cancel")] == [cancelled.raw]
    assert (acknowledged.to, cancelled.to) == (("human",), ("bot",))


async def test_what_one_may_not_say_is_refused_here(room: Room) -> None:
    watcher = await room.seat("watcher", "observer")
    with pytest.raises(
        CapabilityViolation, match=r"""Cannot send chat as 'watcher'.* Grant \{"kind": "chat"\}\."""
    ):
        await watcher.chat("hello")
    assert room.sent("chat") == []


async def test_sending_accepted_gives_what_everybody_sees_or_the_refusal(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    sent = await human.send_accepted({"kind": "participant/status", "payload": {"status": "here"}})
    assert sent.raw == room.sent("participant/status")[0].raw
    with pytest.raises(CapabilityViolation):
        await bot.send_accepted({"kind": "mcp/request", "to": ["git"], "payload": {"method": "ping"}})
    with pytest.raises(Refused, match="The gateway refused capability/revoke of 'human'"):
        await human.send_accepted({"kind": "capability/revoke", "payload": {"recipient": "bot"}})


async def test_a_refusal_that_nobody_awaits_goes_to_the_error_handlers(bot: MEWParticipant) -> None:
    errors: list[Exception] = []
    bot.client.on_error(errors.append)
    bot.client.post({"kind": "mcp/request", "to": ["git"], "payload": {"method": "ping"}})
    await until(lambda: errors)
    assert isinstance(errors[0], CapabilityViolation)


@pytest.mark.req("S-L2-5")
async def test_handlers_can_be_taken_back_and_joins_are_told(room: Room, human: MEWParticipant) -> None:
    joined: list[Any] = []
    changes: list[str] = []
    human.on_change(lambda change: changes.append(change.what))
    stop = human.on_participant_join(joined.append)
    bot = await room.seat("bot", "proposer")
    await until(lambda: joined)
    assert joined[0]["id"] == "bot" and {"kind": "mcp/proposal"} in joined[0]["capabilities"]
    call = bot.call("git/git_log")
    await proposed(human, call)
    await human.reject(call.id)
    assert changes == ["proposed", "rejected"]
    stop()
    await room.seat("other", "proposer")
    await until(lambda: "other" in human.client.participants)
    assert len(joined) == 1


@pytest.mark.req("S-L2-5")
async def test_who_has_taken_back_a_handler_of_proposals_or_requests_is_told_no_more(
    room: Room, git: MEWParticipant, human: MEWParticipant, bot: MEWParticipant
) -> None:
    told: dict[str, list[str]] = {"proposals": [], "requests": [], "kept": []}
    ends = (
        human.on_mcp_proposal(lambda one: told["proposals"].append(one.id)),
        git.on_mcp_request(lambda one: told["requests"].append(one.id)),
    )
    human.on_mcp_proposal(lambda one: told["kept"].append(one.id))
    git.on_mcp_request(lambda one: told["kept"].append(one.id))

    async def one_of_each() -> tuple[str, str]:
        proposal, request = bot.propose("git/git_log"), human.call("git/git_log")
        await until(lambda: {proposal.id, request.id} <= set(told["kept"]))
        return proposal.id, request.id

    first = await one_of_each()
    assert (told["proposals"], told["requests"]) == ([first[0]], [first[1]])
    ends[0]()
    second = await one_of_each()
    assert (told["proposals"], told["requests"]) == ([first[0]], [first[1], second[1]])
    ends[1]()
    await one_of_each()
    assert (told["proposals"], told["requests"]) == ([first[0]], [first[1], second[1]])


async def test_it_makes_its_own_client_and_says_who_it_is(room: Room, human: MEWParticipant) -> None:
    made = MEWParticipant(
        gateway="ws://127.0.0.1:1", space="demo", token="canary-secret-xyz", participant_id="me"
    )
    assert repr(made) == "<MEWParticipant me in demo>" and "canary" not in repr(vars(made.client))
    assert repr(human) == "<MEWParticipant human in demo>"
    room.enrol("guest", "observer")
    async with MEWParticipant(room.client("guest")) as guest:
        assert guest.client.id == "guest"
    assert guest.client.state == "disconnected"


async def test_where_messages_are_queued_a_decision_still_is_not(room: Room, git: MEWParticipant) -> None:
    """It would go out after a silence in which somebody else may have decided."""
    room.enrol("human", PROFILES["human"])
    hold = asyncio.Event()

    async def wait(seconds: float) -> None:
        await hold.wait()

    human = await room.seat("human", None, client={"while_down": "queue", "wait": wait})
    bot = await room.seat("bot", "proposer")
    call = bot.call("git/git_log", {})
    await proposed(human, call)
    holder = room.gateway.holder("demo", "human")
    holder.close(1012, "again")
    await until(lambda: human.client.state == "connecting")
    with pytest.raises(LocalProtocolError, match="the connection broke since it was made"):
        await human.approve(call.id)
    queued = asyncio.ensure_future(human.chat("still here?"))
    await asyncio.sleep(0)
    hold.set()
    await queued
    await until(lambda: room.sent("chat"))
    assert room.sent("mcp/request") == [] and call.state == "open"


@pytest.mark.req("S-L2-3", "S-L2-1", "S-L2-2")
async def test_tools_and_resources_are_registered_under_the_specifications_names(room: Room) -> None:
    human, service = await room.seat("human"), await room.seat("calculator", "tool")
    schema = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
    service.register_tool({"name": "add", "inputSchema": schema, "execute": lambda a, b: a + b})
    service.register_tool(lambda a: -a, name="negate")
    service.register_resource("notes://today", "calm")
    listed = {tool["name"] for tool in await human.discovery.discover_tools("calculator")}
    assert listed == {"add", "negate"}
    assert (await human.call("calculator/add", {"a": 5, "b": 3})).text == "8"
    read = await human.mcp_request(
        "calculator", {"method": "resources/read", "params": {"uri": "notes://today"}}
    )
    assert read["contents"][0]["text"] == "calm"


@pytest.mark.req("S-ERR-3", "P-3.1.2-1")
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            {"error": {"code": "NOT_FOUND", "message": 7}},
            "odd/x: its answer has an error whose message is no text: 7.",
        ),
        ({}, "odd/x: its answer holds neither a result nor an error."),
        (
            {"result": {"content": []}, "error": {"code": -32000, "message": "half done"}},
            "odd/x: its answer holds both a result and an error; half done.",
        ),
    ],
)
async def test_an_answer_that_breaks_json_rpc_ends_the_call_as_unknown(
    room: Room, human: MEWParticipant, answer: Any, sentence: str
) -> None:
    odd = await room.seat("odd", "tool")
    odd.request_server.hold(True)
    odd.on_mcp_request(
        lambda request: odd.client.post(
            {
                "kind": "mcp/response",
                "to": [request.sender],
                "correlation_id": [request.id],
                "payload": {"jsonrpc": "2.0", "id": request.payload["id"], **answer},
            }
        )
    )
    with pytest.raises(OutcomeUnknown) as caught:
        await asyncio.wait_for(human.call("odd/x").outcome(), 5)
    assert str(caught.value) == f"{sentence} It was sent. Whether it took effect is not known."
