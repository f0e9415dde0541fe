"""What is said of a withdraw or a cancel is what came of it: each effect is made to fail, and the sentence is read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.errors import (
    CapabilityViolation,
    ConnectionLost,
    MewError,
    NoReply,
    OutcomeUnknown,
    ProposalEnded,
    ProposalWithdrawn,
)
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.own import MAX_REASON, OWN
from mew_lab.sdk.calls import Call
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Room, until
from .odd_gateway import Odd

pytestmark = [pytest.mark.ruling("R36")]
NARROW = [{"kind": "mcp/proposal"}, {"kind": "mcp/response"}, {"kind": "chat"}]  # a profile of §4.1
ENDING = [{"kind": "mcp/withdraw"}, {"kind": "chat/cancel"}]
BEGIN: dict[str, Callable[[MEWParticipant], Call]] = {
    "mcp/withdraw": lambda me: me.call("git/log", timeout=0.05),
    "chat/cancel": lambda me: me.ask("which?", "git", timeout=0.05),
}


class Narrow(Odd):
    """A gateway without extensions, and a participant `me` beside `git`; it echoes only what the test says."""

    def __init__(self, *capabilities: dict[str, Any], extension: Any = None) -> None:
        super().__init__(can=[*NARROW, *capabilities])
        self.others = [{"id": "git", "capabilities": [{"kind": "*"}]}]
        self.extension = extension

    async def next(self) -> Envelope:
        raw = str(await self.end.receive())
        return Envelope.from_members(json.loads(raw), raw=raw)

    def approve(self, proposal: Envelope, *, tell: Envelope | None = None) -> None:
        """Ann approves it; then the gateway accepts what it is told."""
        payload = {**proposal.payload, "jsonrpc": "2.0", "id": 1}
        self.say("mcp/request", payload, sender="ann", to=["git"], correlation_id=[proposal.id])
        if tell is not None:
            self.end.put(tell.raw)

    async def echo(self, kind: str) -> Any:
        sent = await self.sent(kind)
        self.end.put(sent.raw)
        return sent


async def ended(call: Call) -> str:
    with pytest.raises(NoReply) as fault:
        await call
    return str(fault.value)


@pytest.mark.parametrize("end", OWN)
@pytest.mark.parametrize("narrow", [True, False])
async def test_at_a_gateway_of_ours_it_is_withdrawn_and_said_to_be(
    room: Room, end: str, narrow: bool
) -> None:
    await room.seat("git", "human")
    me = await room.seat("me", NARROW if narrow else [*NARROW, *ENDING])
    assert me.can_send(end)
    assert (await ended(BEGIN[end](me))).endswith(" was withdrawn")
    assert [(one.sender, one.payload) for one in room.sent(end)] == [("me", {"reason": "timeout"})]


@pytest.mark.parametrize("end", OWN)
@pytest.mark.parametrize("extension", [None, {}, {"own": []}, {"own": ["mcp/request"]}])
async def test_where_it_may_not_be_sent_it_is_not_and_that_is_said(end: str, extension: Any) -> None:
    odd = Narrow(extension=extension)
    async with odd.participant as me:
        assert not me.can_send(end)
        call = BEGIN[end](me)
        await odd.echo(OWN[end])
        assert f"not withdrawn: me may not send {end}, so it stays open" in await ended(call)
        me.client.post({"kind": "chat", "payload": {"text": "after"}})
        assert (await odd.next()).kind == "chat"


@pytest.mark.parametrize("end", OWN)
async def test_where_the_gateway_refuses_it_that_is_said(end: str) -> None:
    odd = Narrow(*ENDING)
    async with odd.participant as me:
        call = BEGIN[end](me)
        await odd.echo(OWN[end])
        sent = await odd.sent(end)
        odd.say("system/error", {"error": "capability_violation"}, to=["me"], correlation_id=[sent.id])
        assert f"not withdrawn: the gateway refused its {end}" in await ended(call)


@pytest.mark.parametrize("end", OWN)
@pytest.mark.parametrize("how", ["silent", "lost"])
async def test_where_nobody_knows_whether_it_arrived_that_is_said(
    end: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.correlations.TAKEN_BACK_WITHIN", 0.05 if how == "silent" else 60.0)
    odd = Narrow(*ENDING)
    async with odd.participant as me:
        call = BEGIN[end](me)
        await odd.echo(OWN[end])
        await odd.sent(end)
        if how == "lost":
            await odd.end.close(1006)
            if end == "chat/cancel":  # a question ends with its connection
                await ended_by_loss(call)
                return
        said = await ended(call)
        assert f"not withdrawn: the gateway did not confirm its {end}, so it may still be open" in said


async def ended_by_loss(call: Call) -> None:
    with pytest.raises(Exception, match="The connection ended before"):
        await call


async def test_an_approval_that_came_before_the_withdraw_is_told() -> None:
    odd = Narrow(*ENDING)
    async with odd.participant as me:
        call = me.call("git/log", timeout=0.05)
        proposal = await odd.echo("mcp/proposal")
        withdraw = await odd.sent("mcp/withdraw")
        odd.approve(proposal, tell=withdraw)
        said = await ended(call)
        assert said.startswith("ann approved git/log before it could be withdrawn")
        assert said.endswith("may still run")


async def test_a_time_that_ends_while_a_rejected_proposal_is_withdrawn_still_ends_the_wait() -> None:
    odd = Narrow(*ENDING)
    async with odd.participant as me:
        call = me.call("git/log", timeout=0.5)
        proposal = await odd.echo("mcp/proposal")
        about = {"to": ["git"], "correlation_id": [proposal.id]}
        odd.say("mcp/reject", {"reason": "busy"}, sender="bob", **about)
        withdraw = await odd.sent("mcp/withdraw")
        await until(lambda: call.age > 0.6)
        odd.approve(proposal, tell=withdraw)
        said = await asyncio.wait_for(ended(call), 10)
        assert said.startswith("ann approved git/log before it could be withdrawn")


async def test_a_withdraw_that_an_approval_came_before_is_no_withdraw() -> None:
    odd = Narrow(*ENDING)
    async with odd.participant as me:
        call = me.call("git/log")
        proposal = await odd.echo("mcp/proposal")
        await until(me.own_proposals)
        task = asyncio.ensure_future(me.withdraw(call.id))
        sent = await odd.sent("mcp/withdraw")
        odd.approve(proposal, tell=sent)
        with pytest.raises(ProposalEnded, match=r"ann approved proposal .* it may have run"):
            await task
        assert call.state == "fulfilled"


async def test_a_withdraw_by_its_caller_says_when_it_cannot_be_sent() -> None:
    odd = Narrow()
    async with odd.participant as me:
        call, asked = me.call("git/log"), me.ask("which?", "git")
        await odd.echo("mcp/proposal")
        await odd.echo("chat")
        with pytest.raises(CapabilityViolation, match="mcp/withdraw"):
            await call.withdraw()
        assert not call.done
        await asked.withdraw("enough")
        assert "It was not withdrawn: me may not send chat/cancel, so it stays open" in await ended(asked)
        me.correlations.withdraw_all("restart")
        assert "It was not withdrawn: me may not send mcp/withdraw, so it stays open" in await ended(call)


# What ends without a caller: by a restart, by a rejection, and because no target is there.
GIVE_UP: dict[str, Callable[[Narrow, MEWParticipant, str], None]] = {
    "restart": lambda odd, me, id: me.correlations.withdraw_all("restart"),
    "rejected": lambda odd, me, id: odd.say("mcp/reject", {}, sender="ann", correlation_id=[id]),
}
NOT_WITHDRAWN = "Stopped waiting for git/log (restart). It was not withdrawn: "
NOT_CONFIRMED = f"{NOT_WITHDRAWN}the gateway did not confirm its mcp/withdraw, so it may still be open"
REFUSED = f"{NOT_WITHDRAWN}the gateway refused its mcp/withdraw (capability_violation), so it stays"
SAID = {
    ("restart", "accepted"): "Proposal withdrawn by me: restart",
    ("restart", "refused"): REFUSED,
    ("restart", "silent"): NOT_CONFIRMED,
    ("restart", "lost"): NOT_CONFIRMED,
    ("restart", "approved"): "Stopped waiting for git/log after",
    **{("rejected", end): "Proposal rejected by ann" for end in ("accepted", "refused", "silent", "lost")},
}


@pytest.mark.ruling("R32")
@pytest.mark.parametrize("end", ["accepted", "refused", "silent", "lost", "approved"])
@pytest.mark.parametrize("how", GIVE_UP)
async def test_what_is_given_up_is_told_after_the_gateway_has_decided_about_its_withdrawal(
    how: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.correlations.TAKEN_BACK_WITHIN", 0.05 if end == "silent" else 60.0)
    odd = Narrow(*ENDING)
    async with odd.participant as me:
        call = me.call("git/log")
        proposal = await odd.echo("mcp/proposal")
        await until(me.own_proposals)
        GIVE_UP[how](odd, me, call.id)
        withdraw = await odd.sent("mcp/withdraw")
        assert not call.done  # nothing is known of it yet
        if end == "approved":
            odd.approve(proposal)
        if end == "refused":
            error = {"error": "capability_violation"}
            odd.say("system/error", error, to=["me"], correlation_id=[withdraw.id])
        elif end in ("accepted", "approved"):
            odd.end.put(withdraw.raw)
        elif end == "lost":
            await odd.end.close(1006)
        if (how, end) == ("rejected", "approved"):  # the approval came first, so the call goes on
            await until(lambda: call.state == "fulfilled")
            odd.say("mcp/response", {"result": {"content": []}}, sender="git", correlation_id=["g"])
            assert str(await call) == ""
            return
        with pytest.raises(MewError) as fault:
            await call
        assert SAID[how, end] in str(fault.value)
        assert (end != "approved") or (
            call.state == "running" and "may have been executed" in str(fault.value)
        )


@pytest.mark.ruling("R35")
async def test_of_a_call_that_was_approved_while_its_target_was_away_nothing_is_known() -> None:
    """When the target is back, another approval of the same proposal may reach it."""
    odd = Narrow(*ENDING)
    async with odd.participant as me:
        call = me.call("git/log")
        proposal = await odd.echo("mcp/proposal")
        gone = {"event": "leave", "participant": {"id": "git", "capabilities": []}}
        odd.say("system/presence", gone)
        odd.approve(proposal)
        with pytest.raises(
            OutcomeUnknown, match=r"git left space .* before answering git/log\. It was sent\."
        ):
            await call
        assert call.state == "unknown"
        call = me.call("git/log")  # nobody is there for the next one, and an approval crosses its withdrawal
        proposal = await odd.echo("mcp/proposal")
        withdraw = await odd.sent("mcp/withdraw")
        odd.approve(proposal, tell=withdraw)
        with pytest.raises(OutcomeUnknown):
            await call


async def test_of_a_proposal_that_its_proposer_leaves_open_it_is_said_that_it_may_still_run(
    room: Room,
) -> None:
    await room.seat("git", "human")
    me = await room.seat("me", NARROW)
    call = me.call("git/log")
    await until(me.own_proposals)
    await me.stop()
    with pytest.raises(ConnectionLost, match="not withdrawn, so it may be approved and run all the same"):
        await call
    assert call.state == "running"


async def test_the_reason_is_cut_only_where_no_capability_permits_a_longer_one(room: Room) -> None:
    long = "because " * 20
    await room.seat("git", "human")
    me, you = await room.seat("me", NARROW), await room.seat("you", [*NARROW, *ENDING])
    for participant in (me, you):
        call = participant.call("git/log")
        await until(participant.own_proposals)
        await participant.withdraw(call.id, long)
        with pytest.raises(ProposalWithdrawn):
            await call
    short, whole = (one.payload["reason"] for one in room.sent("mcp/withdraw"))
    assert len(short) == MAX_REASON and long.startswith(short[:-1])
    assert whole == long


async def test_only_own_messages_are_ended_so(room: Room) -> None:
    git, me = await room.seat("git", "human"), await room.seat("me", NARROW)
    sent = [await git.chat("hi"), await me.chat("hello")]
    await until(lambda: all(me.ledger.chats.get(one.id) for one in sent))
    theirs, mine = ({"kind": "chat/cancel", "correlation_id": [one.id]} for one in sent)
    assert (me.can_send(theirs), me.can_send(mine)) == (False, True)
    assert not me.can_send("chat/cancel", {"reason": "x", "text": "y"})
    with pytest.raises(CapabilityViolation):
        await me.cancel_chat(sent[0].id)
    await me.cancel_chat(sent[1].id)
    await until(lambda: room.sent("chat/cancel"))
    assert [one.correlation_id for one in room.sent("chat/cancel")] == [(sent[1].id,)]
