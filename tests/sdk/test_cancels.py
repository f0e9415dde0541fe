"""Who may cancel a call that runs, what ends by it, and what its outcome is then. Rulings R17, R35; MCP "Cancellation"."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation, MewError, OutcomeUnknown, StillRunning
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.profiles import OWNER, PROFILES
from mew_lab.sdk import correlations
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import RequestServer

from .conftest import Room, until

CANCELS = {"kind": "mcp/request", "payload": {"method": "notifications/cancelled"}}
ASKS = [*PROFILES["proposer"], CANCELS]
METHOD = "notifications/cancelled"


class Slow:
    """A tool that never ends by itself; `stubborn` answers when it is cancelled, `deaf` is never cancelled."""

    def __init__(self, how: str = "") -> None:
        self.how = how
        self.cancelled: list[Any] = []
        self.running = 0

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.running += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(params["arguments"])
            if self.how != "stubborn":
                raise
        finally:
            self.running -= 1
        return {"content": [{"type": "text", "text": "done all the same"}]}


@pytest.fixture
def slow() -> Slow:
    return Slow()


async def approved(room: Room, slow: Slow) -> tuple[MEWParticipant, MEWParticipant, Any]:
    """A proposer, the human that approved its call, and the call, which runs."""
    await room.seat("git", "tool", tools=slow)
    bot, ada = await room.seat("bot", ASKS), await room.seat("ada")
    call = bot.call("git/push", {"n": 1})
    await until(lambda: ada.proposals.get(call.id))
    await ada.approve(call.id)
    await until(lambda: slow.running == 1)
    return bot, ada, call


def note(of: Any, **params: Any) -> dict[str, Any]:
    payload = {"jsonrpc": "2.0", "method": METHOD, "params": {"requestId": of.payload["id"], **params}}
    return {"kind": "mcp/request", "to": ["git"], "correlation_id": [of.id], "payload": payload}


def call_of(n: int) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": "push", "arguments": {"n": n}}}


def fulfilment(room: Room) -> Any:
    [request] = [one for one in room.sent("mcp/request") if one.payload["method"] == "tools/call"]
    return request


@pytest.mark.parametrize("who", ["requester", "proposer", "owner", "admin"])
async def test_requester_proposer_and_owner_cancel_a_call_that_runs(room: Room, slow: Slow, who: str) -> None:
    bot, ada, call = await approved(room, slow)
    owner = {"owner": [*PROFILES["human"], *OWNER], "admin": PROFILES["admin"]}.get(who)
    by = {"requester": ada, "proposer": bot}.get(who) or await room.seat("olga", owner or ())
    await until(
        lambda: by.proposals.get(call.id) or by.ledger.calls.requests.get(fulfilment(room).id) or owner
    )
    await by.send_accepted(note(fulfilment(room)))
    await until(lambda: slow.cancelled)
    with pytest.raises(OutcomeUnknown, match="cancelled while it ran"):
        await call
    assert call.state == "unknown" and bot.proposals.get(call.id).state == "unknown"  # type: ignore[union-attr]


@pytest.mark.threat(14)
@pytest.mark.parametrize("can", ["human", "agent"])
async def test_the_cancel_of_anybody_else_changes_nothing_and_is_logged_once(
    room: Room, slow: Slow, can: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, ada, call = await approved(room, slow)
    eve = await room.seat("eve", can)
    with caplog.at_level(logging.WARNING, "mew_lab.sdk.request_server"):
        for _ in range(5):
            await eve.send_accepted(note(fulfilment(room)))
        await eve.send_accepted({**note(fulfilment(room)), "correlation_id": [call.id]})
        await ada.send_accepted(note(fulfilment(room), requestId="another"))
        await until(lambda: [one for one in caplog.records if "eve tried to cancel" in one.getMessage()])
    [told] = [one.getMessage() for one in caplog.records if one.name == "mew_lab.sdk.request_server"]
    assert fulfilment(room).id in told and "of ada, which goes on" in told
    assert slow.running == 1 and not slow.cancelled
    await ada.cancel(call.id)
    await until(lambda: slow.cancelled)


async def test_of_two_requests_with_one_json_rpc_id_the_one_that_is_named_ends(
    room: Room, slow: Slow
) -> None:
    git, ada = await room.seat("git", "tool", tools=slow), await room.seat("ada")
    sent = [await ada.sender.say_accepted("mcp/request", {"id": 1, **call_of(n)}, to=["git"]) for n in (0, 1)]
    await until(lambda: slow.running == 2)
    await ada.send_accepted(note(sent[1]))
    await until(lambda: slow.cancelled)
    await ada.send_accepted(note(sent[1]))  # once more: it has ended, and names no other
    await ada.send_accepted(
        {"kind": "mcp/request", "to": ["git"], "payload": {"method": "notifications/none"}}
    )
    await until(lambda: git.ledger.calls.requests.get(sent[1].id).state == "unknown")
    assert slow.cancelled == [{"n": 1}] and slow.running == 1
    await ada.notify(METHOD, {"requestId": 1}, to="git")  # by its id alone, as other peers do
    await until(lambda: slow.running == 0)
    assert slow.cancelled == [{"n": 1}, {"n": 0}]


async def test_a_cancel_names_the_envelope_and_the_json_rpc_id(room: Room, slow: Slow) -> None:
    await room.seat("git", "tool", tools=slow)
    ada = await room.seat("ada")
    call = ada.call("git/push", {"n": 1})
    await until(lambda: slow.running)
    await call.withdraw("changed my mind")
    await until(lambda: len(room.sent("mcp/request")) == 2)
    sent = room.sent("mcp/request")[1]
    assert sent.correlation_id == (call.id,) and sent.to == ("git",) and "id" not in sent.payload
    assert sent.payload["params"] == {"requestId": call.payload["id"], "reason": "changed my mind"}


@pytest.mark.parametrize("seat", ["requester", "proposer"])
async def test_an_answer_that_still_comes_is_the_outcome(room: Room, seat: str) -> None:
    slow = Slow("stubborn")
    bot, ada, call = await approved(room, slow)
    if seat == "requester":
        await ada.cancel(fulfilment(room).id)
    else:
        await call.withdraw()
    assert (await call).text == "done all the same"
    assert bot.proposals.get(call.id).state == "answered"  # type: ignore[union-attr]


async def test_where_no_answer_comes_the_outcome_of_a_cancelled_call_is_unknown(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correlations, "CANCELLED_WITHIN", 0.05)
    room.enrol("git", "tool")
    ada = await room.seat("ada")
    async with room.client("git"):  # which answers nothing
        call = ada.call("git/push", {"n": 1})
        await until(lambda: room.sent("mcp/request"))
        await call.withdraw()
        await call.withdraw()
        with pytest.raises(OutcomeUnknown, match=r"git/push was cancelled after .*, and no answer came"):
            await call
    assert len(room.sent("mcp/request")) == 3


async def test_who_may_not_send_a_cancel_is_told_and_the_call_goes_on(room: Room, slow: Slow) -> None:
    await room.seat("git", "tool", tools=slow)
    calls = {"kind": "mcp/request", "payload": {"method": "tools/call"}}
    bot = await room.seat("bot", [*PROFILES["proposer"], calls])
    call = bot.call("git/push", {"n": 1})
    await until(lambda: slow.running)
    with pytest.raises(CapabilityViolation, match="notifications/cancelled"):
        await bot.cancel(call.id)
    await call.withdraw()
    with pytest.raises(StillRunning, match="was not cancelled: bot may not send mcp/request"):
        await call
    assert slow.running == 1


async def test_what_does_not_run_cannot_be_cancelled(room: Room, slow: Slow) -> None:
    bot, ada, call = await approved(room, slow)
    waiting = bot.call("git/push", {"n": 2})
    await until(lambda: ada.proposals.get(waiting.id))
    with pytest.raises(MewError, match=r"does not run; the proposal is open"):
        await ada.cancel(waiting.id)
    with pytest.raises(MewError, match=r"no call of that id is known here"):
        await ada.cancel("nothing")
    await ada.cancel(call.id)
    await until(lambda: ada.proposals.get(call.id).state == "unknown")  # type: ignore[union-attr]
    for id in (call.id, fulfilment(room).id):
        with pytest.raises(MewError, match=r"does not run"):
            await ada.cancel(id)


async def test_a_paused_executor_that_is_cancelled_executes_nothing(room: Room, slow: Slow) -> None:
    git, ada = await room.seat("git", "tool", tools=slow), await room.seat("ada")
    olga, eve = await room.seat("olga", "admin"), await room.seat("eve")
    git.request_server.hold(True)
    call = ada.call("git/push", {"n": 1})
    await until(lambda: git.request_server.find("ada", call.id))
    await eve.send_accepted(note(call))
    await olga.send_accepted(note(call))
    git.request_server.hold(False)
    with pytest.raises(MewError, match="Not executed: it was cancelled before it began"):
        await call
    assert not slow.cancelled and not slow.running


@pytest.mark.ruling("R35")
async def test_a_request_that_is_cancelled_before_it_begins_is_not_executed_and_answered(
    room: Room, slow: Slow
) -> None:
    await room.seat("git", "tool", tools=slow)
    ada = await room.seat("ada")
    call = ada.call("git/push", {"n": 1})
    ada.client.post(note(call.envelope))
    with pytest.raises(MewError, match="Not executed: it was cancelled before it began"):
        async with asyncio.timeout(10):
            await call
    assert not slow.cancelled and not slow.running and call.state == "failed"


@pytest.mark.ruling("R35")
async def test_a_call_that_is_cancelled_while_its_id_is_written_is_not_executed(
    room: Room, slow: Slow
) -> None:
    class Disk:
        """A disk that takes long."""

        has_ended: bool | None = None

        async def begin(self) -> None:
            await asyncio.Event().wait()

        def end(self, answered: bool) -> None:
            self.has_ended = answered

    answers: list[Mapping[str, Any]] = []
    disk, server = Disk(), RequestServer(slow, post=lambda draft: answers.append(draft["payload"]))  # type: ignore[func-returns-value]
    ada = await room.seat("ada")
    payload = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}
    request = ada.client.complete({"kind": "mcp/request", "to": ["git"], "payload": payload})
    server.take(request, McpRequest.model_validate(request.payload), disk)
    await asyncio.sleep(0)
    cancel = ada.client.complete(note(request))
    server.take(cancel, McpRequest.model_validate(cancel.payload))
    await until(lambda: disk.has_ended is not None)
    assert "cancelled before it began" in answers[0]["error"]["message"] and disk.has_ended is True


async def test_a_call_that_was_sent_just_now_is_cancelled_too(room: Room, slow: Slow) -> None:
    """Its message is on its way, so the ledger does not have it yet."""
    await room.seat("git", "tool", tools=slow)
    ada = await room.seat("ada")
    call = ada.call("git/push", {"n": 1})
    assert ada.ledger.calls.requests.get(call.id) is None
    await ada.cancel(call.id)
    with pytest.raises(MewError):  # not executed or of unknown outcome: the executor may have begun
        await call
    assert not slow.running


async def test_a_proposal_asks_for_progress_and_gets_that_of_its_call_alone(room: Room, slow: Slow) -> None:
    """Tokens of requests are numbers from 1 on in each session, so those of two participants are alike."""
    git = await room.seat("git", "tool", tools=slow)
    bot, ada = await room.seat("bot", ASKS), await room.seat("ada")
    own = ada.call("git/pull", {"n": 0}, progress=True)
    call = bot.call("git/push", {"n": 1}, proposal_progress=True)
    assert call.kind == "mcp/proposal"
    await until(lambda: ada.proposals.get(call.id))
    await ada.approve(call.id)
    await until(lambda: slow.running == 2)
    [request] = [one for one in room.sent("mcp/request") if call.id in one.correlation_id]
    [first] = [one for one in room.sent("mcp/request") if one.id == own.id]
    token, number = (one.payload["params"]["_meta"]["progressToken"] for one in (request, first))
    assert token == call.payload["params"]["_meta"]["progressToken"] and isinstance(token, str)

    async def report(done: int, token: Any, about: str = "") -> None:
        payload = {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": done},
        }
        await git.sender.say_accepted("mcp/request", payload, to=["ada"], about=about or ())

    await report(1, token, request.id)
    await report(2, number, first.id)
    await report(3, token)  # peers that correlate nothing
    await report(4, number, request.id)  # what it correlates to counts, not the token of another call
    await until(lambda: call.progress is not None and call.progress.done == 4)
    assert own.progress is not None and own.progress.done == 2
    await report(5, number)
    await until(lambda: own.progress is not None and own.progress.done == 5)
    assert call.progress is not None and call.progress.done == 4
