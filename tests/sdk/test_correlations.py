"""What a participant waits for: who may answer, how each wait ends, and that the table is empty after it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from mew_lab.errors import (
    CapabilityViolation,
    ConnectionLost,
    LocalProtocolError,
    NoReply,
    ProposalRejected,
    Refused,
)
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.sdk.calls import Call
from mew_lab.sdk.correlations import Correlations
from mew_lab.sdk.progress import Progress, progress_relay

from .conftest import Room, until
from .odd_gateway import Odd

CHAT = {"kind": "chat", "payload": {"text": "x"}}


# --- one call ---


async def _nothing(call: Call, reason: str) -> None:
    raise AssertionError("nobody asked for this")


def a_call() -> Call:
    members = {"id": "r1", "from": "me", "to": ["git"], "kind": "mcp/request", "payload": {"method": "ping"}}
    return Call(Envelope.of(members), what="git/ping", withdraw=_nothing)


async def test_a_call_can_be_awaited_twice_and_by_several() -> None:
    call = a_call()
    first, second = asyncio.ensure_future(call.outcome()), asyncio.ensure_future(call.outcome())
    await asyncio.sleep(0)
    call.finish({"n": 1}, by="git")
    assert [await first, await second, await call] == [{"n": 1}] * 3
    assert (call.state, call.by, call.done, call.to, call.kind) == (
        "answered",
        "git",
        True,
        ("git",),
        "mcp/request",
    )
    assert repr(call) == "<Call git/ping (mcp/request) answered by git>"


async def test_cancelling_a_wait_leaves_the_call_as_it_was() -> None:
    call = a_call()
    waiting = asyncio.ensure_future(call.outcome())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not call.done and call.state == "open"
    call.finish(1, by="git")
    assert await call == 1


async def test_the_first_end_is_the_end() -> None:
    call = a_call()
    call.move("fulfilled", by="human")
    assert (call.state, call.by) == ("fulfilled", "human")
    call.fail(ProposalRejected(proposal="r1", by="x", reason="no"), state="rejected", by="x")
    call.finish(1, by="git")
    call.fail(ValueError())
    call.move("open")
    with pytest.raises(ProposalRejected):
        await call
    assert (call.state, call.by) == ("rejected", "x")


async def test_an_error_that_nobody_fetched_is_not_reported_from_a_destructor() -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    call = a_call()
    call.fail(NoReply("nobody", after_s=1, waiting_for="git"))
    await asyncio.sleep(0)
    del call
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []


# --- whether the gateway accepts a message ---


@pytest.fixture
async def odd() -> Any:
    """A participant whose gateway says only what the test says."""
    made = Odd()
    async with made.participant:
        yield made
        assert len(made.participant.correlations) == 0


def sending(odd: Odd, *, timeout: float = 10.0, **members: Any) -> asyncio.Task[Envelope]:
    return asyncio.ensure_future(odd.participant.send_accepted({**CHAT, **members}, timeout=timeout))


async def test_an_error_of_the_gateway_refuses_a_message_and_is_told_to_its_sender_alone(odd: Odd) -> None:
    waiting = sending(odd)
    sent = await odd.sent("chat")
    refusal = {"error": "rate_limited", "message": "slowly"}
    odd.say("system/error", refusal, sender="eve", correlation_id=[sent.id])
    odd.say("system/error", refusal, correlation_id=["never-sent"])
    await odd.told()
    assert not waiting.done() and len(odd.errors) == 1
    odd.say("system/error", refusal, correlation_id=[sent.id, sent.id])
    with pytest.raises(Refused, match=r"The gateway refused chat of 'me': slowly \(rate_limited\)"):
        await waiting
    assert len(odd.errors) == 1


async def test_silence_the_end_of_the_connection_and_what_cannot_be_sent_end_a_wait(odd: Odd) -> None:
    with pytest.raises(NoReply, match=r"The gateway neither accepted nor refused chat of 'me' within 0.01 s"):
        await sending(odd, timeout=0.01)
    with pytest.raises(LocalProtocolError):
        await sending(odd, kind="system/x")
    waiting = sending(odd)
    await odd.sent("chat")
    await odd.end.close(1000)
    with pytest.raises(ConnectionLost, match="ended before chat of 'me' was accepted") as caught:
        await waiting
    assert caught.value.close_code == 1000
    with pytest.raises(ConnectionLost):
        await sending(odd)


async def test_a_message_that_waits_already_is_not_sent_again(odd: Odd) -> None:
    first = sending(odd, id="m1")
    await odd.sent("chat")
    with pytest.raises(LocalProtocolError, match="a message of that id waits already"):
        await sending(odd, id="m1")
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.threat(9)
async def test_no_more_than_so_many_wait_at_once(room: Room) -> None:
    human = await room.seat("human")
    table = Correlations(human.client, proposals=human.proposals, request_timeout=None, limit=2)
    waiting = [asyncio.ensure_future(table.send_accepted(CHAT)) for _ in range(3)]
    with pytest.raises(LocalProtocolError, match="2 waits are open"):
        await waiting[2]
    table.echo(await human.send_accepted(CHAT))
    assert len(table) == 2 and not waiting[0].done()
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    assert len(table) == 0


# --- who may answer ---


@pytest.mark.threat(13)
@pytest.mark.req("P-3.1.2-1", "P-8.2-6", "P-3-16", "P-4.3-6")
async def test_only_a_participant_that_was_asked_answers_and_once_and_one_answer_may_be_to_several(
    room: Room,
) -> None:
    human, git, eve = [await room.seat(name, "human", tools=Never()) for name in ("human", "git", "eve")]
    calls = [human.mcp_request("git", {"method": "x/y"}) for _ in range(2)]
    await until(lambda: len(git.request_server) == 2)
    about = {"to": ["human"], "correlation_id": ["never-seen", *(call.id for call in calls), calls[0].id]}
    for number, seat in enumerate((eve, git, git)):
        payload = {"jsonrpc": "2.0", "id": 1, "result": number}
        await seat.send_accepted({"kind": "mcp/response", "payload": payload, **about})
    assert [await asyncio.wait_for(call.outcome(), 5) for call in calls] == [1, 1]
    assert {(call.by, call.state) for call in calls} == {("git", "answered")}
    assert len(human.correlations) == 0


async def test_json_rpc_ids_are_fresh(odd: Odd) -> None:
    odd.client.capabilities = CapabilitySet([{"kind": "*"}])
    calls = [odd.participant.mcp_request("git", {"method": "ping"}, timeout=0.0) for _ in range(3)]
    assert [call.payload["id"] for call in calls] == [1, 2, 3]
    for call in calls:
        with pytest.raises(NoReply):
            await call


class Never:
    """Never answers."""

    async def answer(self, method: str, params: object) -> dict[str, object]:
        await asyncio.Event().wait()
        return {}


# --- calls ---


@pytest.mark.req("S-L2-12")
async def test_what_was_refused_before_it_was_sent_leaves_nothing_open(room: Room) -> None:
    bot = await room.seat("bot", "proposer")
    await bot.client.disconnect()
    with pytest.raises(ConnectionLost, match="Cannot send mcp/proposal to space 'demo' as 'bot'"):
        bot.call("git/x")
    assert len(bot.correlations) == 0


@pytest.mark.divergence("P-3.3.2-4")
async def test_whose_tool_a_proposal_names_does_not_reject_it_by_itself_and_its_timeout_ends_the_waiting(
    room: Room,
) -> None:
    """It is others who fulfil what is addressed to a tool; a rejection by the tool would stop them."""
    git, human = await room.seat("git", "tool"), await room.seat("human")
    bot = await room.seat("bot", "proposer")
    call = bot.propose("git/no_such_tool", {}, timeout=0.5)
    await until(lambda: git.proposals.get(call.id) and human.proposals.get(call.id))
    assert room.sent("mcp/reject") == [] and not call.done
    with pytest.raises(NoReply):
        await call
    [withdraw] = room.sent("mcp/withdraw")
    assert (withdraw.correlation_id, withdraw.payload) == ((call.id,), {"reason": "timeout"})
    assert room.sent("mcp/reject") == []


@pytest.mark.threat(17)
@pytest.mark.req("P-3.3.3-2")
@pytest.mark.parametrize(
    ("payload", "told"), [({}, "no reason given"), ({"reason": "see \x1b[2J here"}, r"see \\u001b\[2J here")]
)
async def test_no_reason_is_said_to_be_none_and_an_odd_one_is_shown_harmlessly(
    room: Room, payload: dict[str, str], told: str
) -> None:
    git, bot = await room.seat("git", "tool"), await room.seat("bot", "proposer")
    call = bot.call("git/x")
    await until(lambda: git.proposals.open())
    await git.send_accepted({"kind": "mcp/reject", "correlation_id": [call.id], "payload": payload})
    with pytest.raises(ProposalRejected, match=f"^Proposal rejected by git: {told}$"):
        await call


async def test_a_call_to_several_ends_with_the_last_who_could_answer(room: Room) -> None:
    one, two = await room.seat("one", "tool", tools=Never()), await room.seat("two", "tool", tools=Never())
    human = await room.seat("human")
    call = human.mcp_request(["one", "two"], {"method": "x/y"})
    await until(lambda: len(one.request_server) == 1 and len(two.request_server) == 1)
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


# --- questions in words ---


async def say(seat: Any, kind: str, payload: dict[str, Any], **members: Any) -> None:
    await seat.client.send({"kind": kind, "payload": payload, **members})


@pytest.mark.req("P-3.4-4")
async def test_the_chat_that_correlates_to_a_question_answers_it(room: Any) -> None:
    human, bot = await room.seat("human"), await room.seat("bot")
    question = human.ask("What time is it?", "bot")
    bot.on_chat(lambda chat: bot.chat("Noon.", chat.sender, correlation_id=chat.id))
    assert await question == "Noon."
    assert (question.state, question.by) == ("answered", "bot")


async def test_taking_it_back_ends_it_and_says_so(room: Any) -> None:
    human = await room.seat("human")
    await room.seat("bot")
    question = human.ask("What time is it?", "bot")
    await question.withdraw("no_longer_needed")
    with pytest.raises(NoReply, match="withdrawn"):
        await question
    await until(lambda: room.sent("chat/cancel"))
    await question.withdraw()
    assert question.state == "withdrawn"


async def test_who_is_asked_and_leaves_answers_no_more(room: Any) -> None:
    human, bot = await room.seat("human"), await room.seat("bot")
    question = human.ask("What time is it?", "bot")
    await until(lambda: room.sent("chat"))
    await bot.stop()
    with pytest.raises(NoReply, match="bot left"):
        await question


async def test_a_question_to_nobody_or_without_the_right_to_chat_is_not_sent(room: Any) -> None:
    human, mute = await room.seat("human"), await room.seat("mute", "observer")
    with pytest.raises(LocalProtocolError, match="name at least one"):
        human.ask("Anybody?", ())
    with pytest.raises(CapabilityViolation):
        mute.ask("Hello?", "human")
    await asyncio.sleep(0)
    assert room.sent("chat") == []


@pytest.mark.req("P-3.6.4-2")
async def test_who_is_asked_by_its_name_answers_under_its_runtime_id(room: Any) -> None:
    human, bot = await room.seat("human"), await room.seat("bot", runtime_id="bot-7f")
    question = human.ask("What time is it?", "bot")
    bot.on_chat(lambda chat: bot.chat("Noon.", chat.sender, correlation_id=chat.id))
    assert await asyncio.wait_for(question.outcome(), 10) == "Noon."
    assert question.by == "bot-7f"


async def test_a_question_to_somebody_who_is_not_here_ends_at_once(room: Any) -> None:
    human = await room.seat("human")
    with pytest.raises(NoReply, match="nobody-here is not in space 'demo'"):
        await asyncio.wait_for(human.ask("Hello?", "nobody-here").outcome(), 10)
    assert len(human.correlations) == 0


async def test_a_question_ends_when_everybody_who_was_asked_declines(room: Any) -> None:
    human, one, two = [await room.seat(name) for name in ("human", "one", "two")]
    question = human.ask("What time is it?", ["one", "two"])
    await until(lambda: room.sent("chat"))
    about = {"to": ["human"], "correlation_id": [question.id]}
    await say(one, "chat/acknowledge", {"status": "received"}, **about)
    await say(one, "chat/acknowledge", {"status": "rate_limited"}, **about)
    await say(two, "chat/acknowledge", {"status": "read"}, **about)
    await one.chat("fence", "human")
    await until(lambda: len(room.sent("chat")) == 2)
    assert not question.done
    await say(two, "chat/acknowledge", {"status": "rate_limited"}, **about)
    with pytest.raises(NoReply, match=r"will not answer one, two: What time is it.*rate_limited"):
        await asyncio.wait_for(question.outcome(), 5)


@pytest.mark.req("P-3.5.5-1")
@pytest.mark.parametrize("by", ["human", "other"])
async def test_a_question_ends_when_the_reasoning_about_it_is_cancelled(
    room: Any, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.correlations.GRACE", 0.05)
    seats = {name: await room.seat(name) for name in ("human", "bot", "other")}
    question = seats["human"].ask("What time is it?", "bot")
    await until(lambda: room.sent("chat"))
    await say(seats["bot"], "reasoning/start", {"message": "looks"}, correlation_id=[question.id])
    [start] = await until(lambda: room.sent("reasoning/start"))
    await say(seats[by], "reasoning/cancel", {"reason": "superseded"}, to=["bot"], context=start.id)
    with pytest.raises(NoReply, match=f"{by} cancelled the reasoning about bot: What time is it.*superseded"):
        await asyncio.wait_for(question.outcome(), 5)


@pytest.mark.req("P-3.5.5-1")
@pytest.mark.parametrize("context", ["part", "own"])
async def test_a_question_waits_on_where_no_reasoning_about_it_was_cancelled(
    room: Any, context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.correlations.GRACE", 0.0)
    human, bot, eve = [await room.seat(name) for name in ("human", "bot", "eve")]
    question = human.ask("What time is it?", "bot")
    await until(lambda: room.sent("chat"))
    await say(bot, "reasoning/start", {"message": "looks"}, correlation_id=[question.id])
    await say(eve, "reasoning/start", {"message": "me too"}, correlation_id=[question.id])
    await until(lambda: len(room.sent("reasoning/start")) == 2)
    mine, hers = room.sent("reasoning/start")
    cancelled = {"part": f"{mine.id}/part", "own": hers.id}[context]  # a part of it, and one of a stranger
    await say(eve, "reasoning/cancel", {"reason": "superseded"}, context=cancelled)
    await until(lambda: room.sent("reasoning/cancel"))
    await human.chat("and?", "eve")
    await until(lambda: len(room.sent("chat")) == 2)
    await asyncio.sleep(0)
    await bot.chat("Noon.", "human", correlation_id=question.id)
    assert await asyncio.wait_for(question.outcome(), 5) == "Noon."


@pytest.mark.parametrize("timeout", [None, 0.2])
async def test_a_question_ends_in_time_however_often_the_reasoning_about_it_is_cancelled(
    room: Any, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.correlations.GRACE", 0.3)
    human, bot = await room.seat("human"), await room.seat("bot")
    question = human.ask("What time is it?", "bot", timeout=timeout)
    await until(lambda: room.sent("chat"))

    async def start_and_cancel() -> None:
        while not question.done:
            start = await bot.send_accepted(
                {"kind": "reasoning/start", "correlation_id": [question.id], "payload": {"message": "looks"}}
            )
            await say(bot, "reasoning/cancel", {"reason": "again"}, context=start.id)

    storm = asyncio.create_task(start_and_cancel())
    with pytest.raises(NoReply, match="cancelled the reasoning" if timeout is None else "within 0.2"):
        await asyncio.wait_for(question.outcome(), 5)
    await storm


async def test_a_proposal_that_does_not_fit_in_any_more_ends_its_wait(room: Any) -> None:
    bot = await room.seat("bot")
    await room.seat("git")
    bot.ledger.calls.proposals.limit = 2
    first, *others = [bot.propose("git/git_log", {"n": n}) for n in range(3)]
    with pytest.raises(NoReply, match="Too many proposals are open, so git/git_log was dropped here"):
        await asyncio.wait_for(first.outcome(), 5)
    assert not any(call.done for call in others)


# --- what the gateway answers ---


@pytest.mark.req("S-L2-43", "P-3.10.4-2")
async def test_a_stream_that_opens_too_late_is_closed_at_once(odd: Odd) -> None:
    with pytest.raises(NoReply, match=r"within 0\.02 s"):
        await odd.book.request_stream(timeout=0.02)
    asked = await odd.sent("stream/request")
    asking = asyncio.create_task(odd.book.request_stream())
    again = await odd.sent("stream/request")
    assert set(odd.book.pending) == {again.id}
    odd.end.put(again.raw)
    await odd.told()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert odd.book.pending == {}
    for id, request in (("s1", asked), ("s2", again)):
        odd.say("stream/open", {"stream_id": id, "owner": "me"}, id=f"o-{id}", correlation_id=[request.id])
    for id, reason in (("s1", "timeout"), ("s2", "cancelled")):
        close = await odd.sent("stream/close")
        assert close.payload == {"stream_id": id, "reason": reason}
        assert close.correlation_id == (f"o-{id}",)


async def test_a_request_ends_with_the_connection(odd: Odd) -> None:
    asking = asyncio.create_task(odd.book.request_stream())
    asked = await odd.sent("stream/request")
    odd.end.put(asked.raw)  # accepted, but not answered
    await odd.told()
    await odd.end.close(1006)
    with pytest.raises(ConnectionLost, match="ended before the gateway answered stream/request"):
        await asking


async def test_a_refusal_after_the_acceptance_ends_the_wait_too(odd: Odd) -> None:
    asking = asyncio.create_task(odd.book.request_stream())
    asked = await odd.sent("stream/request")
    odd.end.put(asked.raw)
    odd.say("system/error", {"error": "limit_exceeded"}, correlation_id=[asked.id])
    with pytest.raises(Refused, match="limit_exceeded"):
        await asking


async def test_requests_that_were_given_up_without_end_are_forgotten(odd: Odd) -> None:
    requests = []
    for _ in range(1010):
        asking = asyncio.create_task(odd.book.request_stream())
        requests.append(await odd.sent("stream/request"))
        asking.cancel()
        await asyncio.wait([asking])
    for n in (9, 10):
        payload = {"stream_id": f"s{n}", "owner": "me"}
        odd.say("stream/open", payload, id=f"o-{n}", correlation_id=[requests[n].id])
    close = await odd.sent("stream/close")
    assert close.payload == {"stream_id": "s10", "reason": "cancelled"}, "the last 1000 are remembered"


async def test_progress_goes_to_a_function_and_to_a_coroutine_and_what_they_raise_ends_nothing(
    room: Room,
) -> None:
    class Steps:
        async def answer(self, method: str, params: Any) -> dict[str, Any]:
            relay = progress_relay(git)
            assert relay is not None
            for n in (1, 2):
                await relay(n, 2, "a step")
            return {"content": []}

    git, ada = await room.seat("git", "tool", tools=Steps()), await room.seat("ada")
    taken, faults = [], []
    ada.client.on_error(faults.append)

    async def take(progress: Progress) -> None:
        taken.append(str(progress))
        raise ValueError("a fault of the handler")

    for handler in (lambda progress: taken.append(str(progress)), take):
        call = ada.call("git/go", progress=True)
        call.on_progress(handler)
        await call
        assert str(call.progress) == "2 of 2 · a step"
    await until(lambda: len(faults) == 2)
    assert taken == ["1 of 2 · a step", "2 of 2 · a step"] * 2
