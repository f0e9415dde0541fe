"""Who may answer which request, and what a call that waits tells."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from mew_lab.errors import NoReply, ProposalRejected
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.calls import Call, Calls


def request(id: str = "r1", sender: str = "me", to: tuple[str, ...] = ("git",)) -> Envelope:
    return Envelope.of(
        {
            "id": id,
            "from": sender,
            "to": list(to),
            "kind": "mcp/request",
            "payload": {"method": "ping", "id": 1},
        }
    )


def response(sender: str, *related: str, id: str = "a1") -> Envelope:
    return Envelope.of(
        {
            "id": id,
            "from": sender,
            "kind": "mcp/response",
            "correlation_id": list(related),
            "payload": {"result": 1},
        }
    )


@pytest.fixture
def answers() -> list[Envelope]:
    return []


@pytest.fixture
def calls(answers: list[Envelope]) -> Calls:
    book = Calls()
    book.expect(request(), answers.append)
    return book


@pytest.mark.req("P-3.1.2-1", "P-8.2-6")
def test_the_addressee_answers_once(calls: Calls, answers: list[Envelope]) -> None:
    assert "r1" in calls and len(calls) == 1
    answer = response("git", "r1")
    assert calls.observe(answer) == () and answers == [answer]
    assert calls.observe(response("git", "r1", id="a2")) == () and answers == [answer]
    assert len(calls) == 0


@pytest.mark.threat(13)
def test_an_answer_from_whom_nobody_asked_is_a_claim(calls: Calls, answers: list[Envelope]) -> None:
    assert calls.observe(response("eve", "r1")) == ("r1",)
    assert answers == [] and "r1" in calls
    calls.observe(response("git", "r1"))
    assert len(answers) == 1


def test_the_echo_tells_which_runtime_id_a_logical_name_became(calls: Calls, answers: list[Envelope]) -> None:
    calls.observe(request(to=("git-77",)))
    calls.observe(response("git-77", "r1"))
    assert len(answers) == 1


@pytest.mark.threat(13)
def test_nobody_else_can_widen_who_may_answer(calls: Calls, answers: list[Envelope]) -> None:
    calls.observe(request(sender="eve", to=("eve",)))
    assert calls.observe(response("eve", "r1")) == ("r1",)
    assert answers == []


@pytest.mark.req("P-3-16", "P-4.3-6")
def test_a_response_may_relate_to_many_and_to_unknown_ones(calls: Calls, answers: list[Envelope]) -> None:
    calls.expect(request("r2", to=("a", "git")), answers.append)
    calls.observe(response("git", "never-seen", "r2", "r1", "r1"))
    assert len(answers) == 2 and len(calls) == 0


def test_a_forgotten_request_has_no_answer(calls: Calls, answers: list[Envelope]) -> None:
    calls.forget("r1")
    calls.forget("r1")
    assert calls.observe(response("git", "r1")) == () and answers == []
    assert calls.observe(Envelope.of({"id": "c", "from": "git", "kind": "chat"})) == ()


def test_json_rpc_ids_are_fresh() -> None:
    book = Calls()
    assert [book.next_id() for _ in range(3)] == [1, 2, 3]


# --- one wait -------------------------------------------------------------------------------------


async def _no_withdraw(call: Call, reason: str) -> None:
    raise AssertionError("nobody asked for this")


def a_call() -> Call:
    return Call(request(), what="git/ping", withdraw=_no_withdraw)


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


async def test_a_timer_fires_only_while_the_call_is_open() -> None:
    fired: list[Call] = []
    done, open_ = a_call(), a_call()
    ended = asyncio.Event()
    done.expire_after(0.0, fired.append)
    open_.expire_after(0.01, lambda call: (fired.append(call), ended.set()))
    done.finish(1, by="git")
    await asyncio.wait_for(ended.wait(), 10)
    assert fired == [open_]
