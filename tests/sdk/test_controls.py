"""Participants that are paused, resumed, compacted, restarted and shut down in a real space."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import (
    CapabilityViolation,
    LocalProtocolError,
    NoReply,
    ProposalWithdrawn,
    Refused,
)
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import KINDS
from mew_lab.protocol.token import Token
from mew_lab.sdk.controls import FAR, MARGIN, MAX_ORDERS, Compacted
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import ToolBox

from .conftest import Room, until

ALL = [{"kind": "*"}]
# Ruling R14, word for word.
PASS_WHILE_PAUSED = set(
    "participant/status participant/resume participant/compact-done chat/acknowledge chat/cancel reasoning/cancel "
    "stream/close mcp/withdraw mcp/reject capability/grant-ack".split()
)


@pytest.fixture
async def human(room: Room) -> MEWParticipant:
    return await room.seat("human", ALL)


@pytest.fixture
async def bot(room: Room, human: MEWParticipant) -> MEWParticipant:
    return await room.seat("bot", ALL, tools=box())


def box() -> ToolBox:
    tools = ToolBox(name="bot")
    tools.add(lambda n: n, name="echo")
    return tools


def said(room: Room, *, by: str = "bot") -> list[tuple[str, Any]]:
    """What a participant said, in order: kind, and the status of a status."""
    raws = [json.loads(one.raw) for one in room.records if one.verdict == "accepted" and one.raw]
    return [(one["kind"], one.get("payload", {}).get("status")) for one in raws if one.get("from") == by]


def statuses(room: Room, *, by: str = "bot") -> list[Any]:
    return [status for kind, status in said(room, by=by) if kind == "participant/status"]


async def paused(human: MEWParticipant, bot: MEWParticipant, **options: Any) -> Envelope:
    sent = await human.controls.pause("bot", **options)
    await until(lambda: bot.controls.pause_state)
    return sent


def pause_for(seconds: object) -> Envelope:
    members = {"id": "p", "from": "human", "to": ["bot"], "kind": "participant/pause"}
    return Envelope.from_members({**members, "payload": {"timeout_seconds": seconds}}, raw="{}")


def faults_of(seat: MEWParticipant) -> list[Exception]:
    faults: list[Exception] = []
    seat.client.on_error(faults.append)
    return faults


# --- pause and resume ---


@pytest.mark.req("P-3.9.1-1", "S-L2-35", "P-3.9-1")
async def test_who_is_paused_is_told_by_whom_why_and_until_when_and_nothing_goes_out(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    told: list[Any] = []
    bot.controls.on_pause(told.append)
    sent = await paused(human, bot, reason="rate_limit", timeout_seconds=60)
    pause = bot.controls.pause_state
    assert pause is not None and [pause] == told
    assert (pause.by, pause.reason, pause.id) == ("human", "rate_limit", sent.id)
    assert pause.until is not None and 58 < (pause.until - datetime.now(UTC)).total_seconds() <= 60
    with pytest.raises(
        LocalProtocolError, match=r"paused by human \(rate_limit\), until 20..-..-.. "
    ) as caught:
        await bot.chat("hello")
    assert caught.value.code == "paused"
    with pytest.raises(LocalProtocolError, match="Cannot send stream/data as 'bot'"):
        await bot.client.send_stream_data("stream-1", b"x")
    with pytest.raises(LocalProtocolError):
        bot.call("human/x")
    assert len(bot.correlations) == 0
    assert await until(lambda: said(room)) == [("participant/status", "paused")]
    assert [one for one in room.records if one.verdict == "refused"] == []


@pytest.mark.req("P-3.9.1-1", "S-L2-35")
async def test_exactly_the_kinds_of_the_ruling_pass_the_pause(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    await paused(human, bot)
    passed = set()

    def stop(kind: str) -> None:
        passed.add(kind)
        raise LocalProtocolError("it got as far as the last guard")

    bot.client.add_guard(stop)
    for kind in [*KINDS, "x-own/kind"]:
        with pytest.raises(LocalProtocolError):
            bot.client.post({"kind": kind, "payload": {}})
    with pytest.raises(LocalProtocolError):
        await bot.client.send_stream_data("stream-1", b"x")
    assert passed == PASS_WHILE_PAUSED


@pytest.mark.req("S-L2-36", "P-3.9.2-1")
async def test_a_resume_ends_it_with_a_status_and_names_the_pause(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    ended: list[Any] = []
    bot.controls.on_resume(ended.append)
    pause = await paused(human, bot)
    waiting = asyncio.ensure_future(bot.controls.wait_active())
    await asyncio.sleep(0)
    assert not waiting.done()
    resume = await human.controls.resume("bot", reason="go on")
    await waiting
    assert bot.controls.pause_state is None
    assert (resume.correlation_id, resume.payload) == ((pause.id,), {"reason": "go on"})
    await bot.chat("back")
    assert said(room) == [("participant/status", "paused"), ("participant/status", "active"), ("chat", None)]
    assert room.sent("participant/status")[1].correlation_id == (resume.id,)
    assert [one.id for one in ended] == [pause.id]
    await human.controls.resume("bot")  # nothing to end: nothing is said
    await bot.chat("still")
    assert statuses(room) == ["paused", "active"]


async def test_a_resume_names_the_pause_of_another_and_of_a_logical_name(
    room: Room, human: MEWParticipant
) -> None:
    other = await room.seat("other", ALL)
    bot = await room.seat("bot", ALL, runtime_id="bot-7")
    first = await other.controls.pause("bot")
    assert first.to == ("bot-7",)
    await until(lambda: bot.controls.pause_state)
    assert (await other.controls.resume("bot")).correlation_id == (first.id,)
    second = await other.controls.pause("bot")
    assert (await human.controls.resume("bot-7")).correlation_id == (second.id,)


@pytest.mark.req("P-3.9.2-2", "P-3.9.2-3", "P-3.9.1-2", "S-L2-35")
async def test_it_resumes_by_itself_when_the_time_is_over_and_says_so(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    pause = await paused(human, bot, timeout_seconds=0.01)
    await bot.controls.wait_active()
    await bot.chat("back")
    [resume] = room.sent("participant/resume")
    assert (resume.sender, resume.to, resume.correlation_id) == ("bot", ("bot",), (pause.id,))
    assert resume.payload == {"reason": "timeout"}
    assert [kind for kind, _ in said(room)] == [
        "participant/status",
        "participant/resume",
        "participant/status",
        "chat",
    ]
    assert statuses(room) == ["paused", "active"]


@pytest.mark.req("S-L2-35")
async def test_a_later_pause_replaces_the_earlier_with_its_time(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    resumed: list[Any] = []
    bot.controls.on_resume(resumed.append)
    await paused(human, bot, timeout_seconds=0.02)
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02 + MARGIN + 0.01, over.set)
    second = await human.controls.pause("bot", reason="longer")
    await until(lambda: bot.controls.pause_state and bot.controls.pause_state.id == second.id)
    await over.wait()
    assert resumed == []
    with pytest.raises(LocalProtocolError, match=r"paused by human \(longer\), until it is resumed"):
        await bot.chat("x")


@pytest.mark.req("C-6", "C-24")
async def test_who_is_paused_cannot_end_that_itself(human: MEWParticipant, bot: MEWParticipant) -> None:
    await paused(human, bot)
    await bot.controls.resume("bot")
    assert bot.controls.pause_state is not None


async def test_a_pause_of_oneself_holds_too(bot: MEWParticipant) -> None:
    await bot.controls.pause("bot", reason="tired")
    await until(lambda: bot.controls.pause_state)
    assert bot.controls.pause_state is not None and bot.controls.pause_state.by == "bot"


@pytest.mark.threat(9)
@pytest.mark.parametrize("seconds", [0, -1, "60", True, [1], float("nan"), float("inf")])
async def test_a_malformed_pause_is_dropped_and_counted(
    human: MEWParticipant, bot: MEWParticipant, seconds: Any
) -> None:
    bot.dispatcher.dispatch(pause_for(seconds))
    assert bot.controls.pause_state is None and bot.misbehaviour["human"] == 1


@pytest.mark.threat(9)
@pytest.mark.parametrize("seconds", [1e9, 1e308, 10**400])
async def test_a_pause_for_ages_holds_without_a_timer(
    human: MEWParticipant, bot: MEWParticipant, seconds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "call_later", lambda *about: timers.append(about))
        bot.dispatcher.dispatch(pause_for(seconds))
    assert bot.controls.pause_state is not None and timers == []
    assert (bot.controls.pause_state.until is not None) is (seconds == 1e9) and seconds > FAR


async def test_a_control_of_another_is_none_of_ones_business(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    other = await room.seat("other", ALL)
    await human.controls.pause("other")
    await until(lambda: other.controls.pause_state)
    await bot.chat("free")
    assert bot.controls.pause_state is None and statuses(room) == []


# --- what is asked while paused ---


@pytest.mark.req("S-L2-35", "P-3.9.2-1")
async def test_what_was_asked_while_paused_is_answered_after_it_in_order(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    await paused(human, bot)
    calls = [human.call("bot/echo", {"n": n}) for n in range(3)]
    status = await human.telemetry.request_participant_status("bot")
    assert status.status == "paused" and room.sent("mcp/response") == []
    await bot.acknowledge_chat("c", "human")
    await bot.cancel_chat("c", "human")
    await human.controls.resume("bot")
    assert [str(await call) for call in calls] == ["0", "1", "2"]
    assert [one.correlation_id[0] for one in room.sent("mcp/response")] == [call.id for call in calls]
    await human.telemetry.request_participant_status("bot")  # by now the bot has heard the echo of each
    for answer in room.sent("mcp/response"):
        bot.request_server.keep(answer.id)
    bot.request_server.hold(False)
    await human.telemetry.request_participant_status("bot")
    assert len(room.sent("mcp/response")) == 3, "what the gateway took is not sent again"


@pytest.mark.req("S-L2-35")
async def test_a_result_that_becomes_ready_while_paused_waits(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    finish = asyncio.Event()

    async def slow() -> str:
        await finish.wait()
        return "done"

    bot.tools.add(slow)
    call = human.call("bot/slow")
    await until(lambda: len(bot.request_server))
    await paused(human, bot)
    finish.set()
    await until(lambda: not len(bot.request_server))
    assert room.sent("mcp/response") == []
    await human.controls.resume("bot")
    assert str(await call) == "done"


# --- a pause that was not seen ---


@pytest.mark.req("P-3.9.1-3", "C-24")
async def test_who_joins_while_paused_learns_it_from_the_gateway_and_loses_no_answer(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    await paused(human, bot, reason="later")
    await bot.stop()
    again = await room.seat("bot", ALL, tools=box())
    call = human.call("bot/echo", {"n": 5})
    pause = await until(lambda: again.controls.pause_state)
    assert (pause.by, pause.until, pause.id) == ("system:gateway", None, "")
    assert "bot was paused by human" in pause.reason
    with pytest.raises(LocalProtocolError, match="bot was paused by human"):
        await again.chat("x")
    assert room.sent("mcp/response") == []
    await human.controls.resume("bot")
    assert str(await call) == "5"


@pytest.mark.req("P-3.9.1-3", "P-3.9.2-2")
async def test_the_end_that_the_gateway_names_is_kept(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    await paused(human, bot, timeout_seconds=0.3)
    await bot.stop()
    again = await room.seat("bot", ALL)
    with pytest.raises(Refused) as caught:
        await again.send_accepted({"kind": "chat", "payload": {"text": "x"}})
    assert caught.value.code == "paused"
    await until(lambda: again.controls.pause_state)
    assert again.controls.pause_state is not None and again.controls.pause_state.until is not None
    await again.controls.wait_active()
    await again.send_accepted({"kind": "chat", "payload": {"text": "x"}})


async def test_a_pause_outlives_a_reconnect_and_says_so(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    await paused(human, bot)
    await bot.client.disconnect()
    await bot.start()
    await until(lambda: statuses(room) == ["paused", "paused"])
    with pytest.raises(LocalProtocolError):
        await bot.chat("x")


@pytest.mark.req("P-3.9.1-3", "S-L2-35", "S-L2-36")
async def test_the_gateway_enforces_over_either_link_what_the_participant_keeps(either: Room) -> None:
    human, bot = [await either.seat(name, ALL, tools=box()) for name in ("human", "bot")]
    await paused(human, bot)
    # A client without a participant does not hold back by itself, and is held back.
    errors: list[Envelope] = []
    async with either.client("bot", runtime_id="bot-2") as client:
        client.on_message(errors.append, kinds=["system/error"])
        client.post({"kind": "chat", "payload": {"text": "x"}})
        await until(lambda: errors)
    assert errors[0].payload["error"] == "paused"
    call = human.call("bot/echo", {"n": 1})
    await human.controls.resume("bot")
    assert str(await call) == "1"
    assert statuses(either) == ["paused", "active"]


# --- forget, compact, clear ---


@pytest.mark.req("S-L2-37", "P-3.9.5-1", "P-3.9.5-2", "P-3.9.5-3")
async def test_forgetting_is_reported_after_the_hook(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    asked: list[Any] = []
    finish = asyncio.Event()

    async def forget(direction: str, entries: int | None) -> None:
        asked.append((direction, entries))
        await finish.wait()
        bot.telemetry.set_context_usage(messages=3)

    bot.controls.on_forget(forget)
    sent = await human.controls.forget("bot", direction="newest", entries=10)
    await until(lambda: asked)
    await bot.chat("the reader is not held up")
    assert statuses(room) == []
    finish.set()
    await until(lambda: statuses(room))
    [status] = room.sent("participant/status")
    assert (status.correlation_id, status.payload["messages_in_context"]) == ((sent.id,), 3)
    await human.controls.forget("bot")
    await until(lambda: len(asked) == 2)
    assert asked == [("newest", 10), ("oldest", None)]
    with pytest.raises(LocalProtocolError, match="it is 'oldest' or 'newest'"):
        await human.controls.forget("bot", direction="middle")


@pytest.mark.req("P-3.9.5-1", "S-L2-37")
async def test_without_a_hook_the_counts_are_dropped_and_a_hook_can_be_taken_back(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    first, second = await human.chat("one"), await human.chat("two")
    await until(lambda: len(bot.chats.pending) == 2)
    back = bot.controls.on_forget(lambda direction, entries: None)
    bot.telemetry.set_context_usage(tokens=100, messages=10)
    await human.controls.forget("bot", entries=5)
    await until(lambda: len(statuses(room)) == 1)
    assert (bot.telemetry.tokens, bot.telemetry.messages, len(bot.chats.pending)) == (100, 10, 2)
    back()
    await human.controls.forget("bot", direction="newest", entries=1)
    await until(lambda: len(statuses(room)) == 2)
    assert (bot.telemetry.tokens, bot.telemetry.messages) == (90, 9)
    assert [one.id for one in bot.chats.pending] == [first.id] != [second.id]
    await human.controls.clear("bot")
    await until(lambda: len(statuses(room)) == 3)
    assert (bot.telemetry.tokens, bot.telemetry.messages, bot.chats.pending) == (0, 0, [])
    bot.client.post(
        {"kind": "participant/forget", "to": ["human"], "payload": {"direction": "oldest", "entries": -5}}
    )
    bot.client.post({"kind": "participant/forget", "to": ["human"], "payload": {"direction": "up"}})
    await until(lambda: human.misbehaviour["bot"] == 2)


@pytest.mark.req(
    "P-3.9.6-1", "P-3.9.6-2", "P-3.9.6-3", "P-3.9.6-4", "P-3.9.7-1", "P-3.9.7-2", "P-3.9.7-5", "S-L2-42"
)
async def test_a_compaction_is_announced_done_and_answered(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    asked: list[Any] = []

    async def compact(reason: str | None, target_tokens: int | None) -> Compacted:
        asked.append((reason, target_tokens))
        return Compacted(freed_tokens=2048, freed_messages=12)

    bot.controls.on_compact(compact)
    bot.telemetry.max_tokens = 20000
    bot.telemetry.set_context_usage(tokens=3000, messages=20)
    freed = await human.controls.compact("bot", reason="token_pressure", target_tokens=16000)
    assert freed == Compacted(2048, 12, False, "") and asked == [("token_pressure", 16000)]
    [request], [done] = room.sent("participant/compact"), room.sent("participant/compact-done")
    assert (done.to, done.correlation_id) == (("human",), (request.id,))
    assert done.payload == {"freed_tokens": 2048, "freed_messages": 12, "status": "compacted"}
    await until(lambda: len(statuses(room)) == 2)
    assert said(room) == [
        ("participant/status", "compacting"),
        ("participant/compact-done", "compacted"),
        ("participant/status", "compacted"),
    ]
    after = room.sent("participant/status")[1].payload
    assert (after["tokens"], after["messages_in_context"], after["headroom_tokens"]) == (952, 8, 19048)


@pytest.mark.req("P-3.9.6-5", "P-3.9.7-3", "P-3.9.7-4", "P-3.9.7-5")
async def test_nothing_to_compact_is_said_too(room: Room, human: MEWParticipant, bot: MEWParticipant) -> None:
    assert await human.controls.compact("bot") == Compacted(0, 0, True, "there is nothing to compact")
    assert said(room) == [("participant/compact-done", None)]
    assert room.sent("participant/compact-done")[0].payload == {
        "skipped": True,
        "reason": "there is nothing to compact",
    }
    bot.controls.on_compact(lambda reason, target: None)
    assert (await human.controls.compact("bot")).skipped
    await until(lambda: statuses(room) == ["compacting", "active"])


@pytest.mark.req("P-3.9.7-5")
@pytest.mark.parametrize("gives", ["much", 7, {"freed_tokens": 1}])
async def test_a_hook_that_gives_something_else_is_a_fault(
    human: MEWParticipant, bot: MEWParticipant, gives: Any
) -> None:
    faults = faults_of(bot)
    bot.controls.on_compact(lambda reason, target: gives)
    freed = await human.controls.compact("bot")
    assert freed.skipped and "a compact hook gives Compacted or None" in freed.reason
    await until(lambda: faults)
    assert isinstance(faults[0], TypeError)


@pytest.mark.req("P-3.9.8-1", "P-3.9.8-2", "P-3.9.8-3", "P-3.9.8-4", "S-L2-37")
async def test_after_a_clear_the_context_is_empty_with_and_without_a_payload(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    cleared: list[str] = []
    bot.controls.on_clear(lambda: cleared.append("memory"))
    for members in ({}, {"payload": {}}, {"payload": {"reason": "done"}}):
        bot.telemetry.set_context_usage(tokens=9, messages=9)
        count = len(statuses(room))
        sent = await human.send_accepted({"kind": "participant/clear", "to": ["bot"], **members})
        await until(lambda count=count: len(statuses(room)) > count)  # type: ignore[misc]
        status = room.sent("participant/status")[-1]
        assert status.correlation_id == (sent.id,)
        assert status.payload == {"messages_in_context": 0, "tokens": 0, "status": "cleared"}
    assert len(cleared) == 3
    assert (await human.controls.clear("bot")).payload == {}


@pytest.mark.threat(17)
@pytest.mark.req("S-L2-37")
async def test_a_hook_that_raises_is_reported_in_one_harmless_line_and_the_participant_lives(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    secret = Token("a-secret-of-many-letters")

    def broken() -> None:
        raise RuntimeError(f"no key {secret.reveal()}\n\x1b[31mred")

    faults = faults_of(bot)
    bot.controls.on_clear(broken)
    await human.controls.clear("bot")
    [status] = await until(lambda: statuses(room))
    assert status.startswith("error: RuntimeError: no key tok_…") and "a-secret" not in status
    assert "\n" not in status and "\x1b" not in status and len(status) <= 220
    assert isinstance(faults[0], RuntimeError)
    bot.controls.on_compact(lambda reason, target: 1 / 0)
    freed = await human.controls.compact("bot")
    assert (freed.skipped, freed.reason) == (True, "ZeroDivisionError: division by zero")
    assert str(await human.call("bot/echo", {"n": 1})) == "1"


@pytest.mark.threat(9)
async def test_controls_are_carried_out_in_order_and_too_many_are_not(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    done: list[Any] = []
    finish = asyncio.Event()

    async def forget(direction: str, entries: int | None) -> None:
        done.append(entries)
        await finish.wait()

    bot.controls.on_forget(forget)
    bot.controls.on_clear(lambda: done.append("clear"))
    await human.controls.forget("bot", entries=0)
    await until(lambda: done)
    for number in range(1, MAX_ORDERS):
        payload = {"direction": "oldest", "entries": number}
        human.client.post({"kind": "participant/forget", "to": ["bot"], "payload": payload})
    await human.controls.clear("bot")
    await human.controls.clear("bot")
    freed = await human.controls.compact("bot")
    assert (freed.skipped, freed.reason) == (True, f"{MAX_ORDERS} controls wait already")
    finish.set()
    await until(lambda: len(done) == MAX_ORDERS + 1)
    assert done == [*range(MAX_ORDERS), "clear"]


# --- restart and shutdown ---


@pytest.mark.req("P-3.9.9-1", "P-3.9.9-2", "S-L2-37")
async def test_a_restart_ends_what_is_open_and_then_reports(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    mute = await room.seat("mute", [{"kind": "participant/status"}])
    mute.request_server.hold(True)
    stream = await bot.streams.request_stream()
    hints: list[Any] = []
    reported: list[list[str]] = []

    async def hook(payload: dict[str, Any]) -> None:
        hints.append(payload)
        await bot.chat("from the hook")  # which stands before the report, were that on its way already
        reported.append(statuses(room))

    bot.controls.on_restart(hook)
    request, proposal = bot.call("mute/x"), bot.propose("mute/y")
    await human.controls.restart("bot", {"model": "small"})
    with pytest.raises(NoReply, match=r"Stopped waiting for mute/x after .* \(restart\)"):
        await request
    with pytest.raises(ProposalWithdrawn, match="restart"):
        await proposal
    await until(lambda: statuses(room) == ["restarted"])
    [withdraw] = room.sent("mcp/withdraw")
    assert (withdraw.correlation_id, withdraw.payload) == ((proposal.id,), {"reason": "restart"})
    assert (hints, len(bot.correlations), stream.closed) == ([{"model": "small"}], 0, "restart")
    [closed] = room.sent("stream/close")
    assert (closed.payload["stream_id"], closed.payload["reason"]) == (stream.id, "restart")
    assert reported == [[]]  # nothing was reported before the hook had ended
    kinds = [kind for kind, _ in said(room)]
    assert [one for one in kinds if one != "chat"][-3:] == [
        "mcp/withdraw",
        "stream/close",
        "participant/status",
    ]
    assert kinds.index("participant/status") > kinds.index("chat")
    await bot.chat("alive")


@pytest.mark.req("P-3.9.10-1", "P-3.9.10-2", "P-3.9.10-4", "S-L2-37", "S-L2-6", "C-6")
async def test_a_shutdown_is_acknowledged_after_the_hooks_and_the_participant_leaves(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    order: list[Any] = []

    async def hook(payload: dict[str, Any]) -> None:
        await until(lambda: statuses(room))
        order.append((payload, statuses(room), len(bot.request_server)))

    async def farewell(envelope: Envelope | None) -> None:
        await asyncio.sleep(0)
        order.append(envelope.kind if envelope else None)
        with pytest.raises(LocalProtocolError, match="it was shut down by human; start"):
            await bot.chat("one more thing")

    bot.controls.on_shutdown(hook)
    take_back = bot.on_shutdown(farewell)
    mute = await room.seat("mute", [{"kind": "participant/status"}])
    mute.request_server.hold(True)
    bot.tools.add(asyncio.Event().wait, name="endless")
    open_call, asked = bot.call("mute/x"), human.call("bot/endless")
    await until(lambda: len(bot.request_server) == 1)
    await bot.streams.request_stream()
    sent = await human.controls.shutdown("bot", {"note": "replaced"})
    call = human.call("bot/echo", {"n": 1})
    await until(lambda: bot.client.state == "disconnected")
    assert order == [
        ({"note": "replaced"}, ["shutting_down"], 0),
        "participant/shutdown",
    ]
    assert said(room)[-3:] == [
        ("participant/status", "shutting_down"),
        ("stream/close", None),
        ("chat/acknowledge", "shut_down"),
    ]
    [acknowledged] = room.sent("chat/acknowledge")
    assert (acknowledged.to, acknowledged.correlation_id) == (("human",), (sent.id,))
    with pytest.raises(NoReply):
        await open_call
    with pytest.raises(NoReply, match="human shut bot down before it answered bot/endless; it may have run"):
        await asked
    with pytest.raises(NoReply, match="bot left space 'demo' before answering"):
        await call  # it was made afterwards
    with pytest.raises(LocalProtocolError, match="shut down by human"):
        await bot.chat("x")
    await bot.stop()
    assert len(order) == 2
    take_back()
    await bot.start()
    await bot.chat("new life")
    assert str(await human.call("bot/echo", {"n": 1})) == "1"


@pytest.mark.req("C-6")
async def test_a_shutdown_ends_what_waits_for_the_participant_alone_at_once(
    room: Room, human: MEWParticipant
) -> None:
    boss, caller = await room.seat("boss", "human"), await room.seat("caller", "human")
    silent = [await room.seat(name, "tool") for name in ("one", "two")]
    for participant in silent:  # they neither answer nor leave
        participant.request_server.hold(True)
        participant.controls.on_shutdown(lambda payload: asyncio.Event().wait())
    request, both = caller.call("one/x"), caller.mcp_request(["one", "two"], {"method": "x/y"})
    proposed, question = caller.propose("one/x"), caller.ask("Are you there?", "one")
    await until(lambda: human.proposals.open())
    await human.approve(proposed.id)
    await until(lambda: proposed.state == "fulfilled")
    await boss.controls.shutdown("one")
    for call in (request, proposed):
        with pytest.raises(NoReply, match="boss shut one down before it answered one/x; it may have run"):
            await asyncio.wait_for(call.outcome(), 5)
    with pytest.raises(NoReply, match="boss shut one down before it answered one: Are you there"):
        await asyncio.wait_for(question.outcome(), 5)
    assert "one" in caller.client.participants and not both.done
    await boss.controls.shutdown("two")
    with pytest.raises(NoReply, match="boss shut one, two down before it answered one, two/x/y"):
        await asyncio.wait_for(both.outcome(), 5)


@pytest.mark.req("P-3.9.10-4")
async def test_a_hook_that_raises_does_not_keep_it_in_the_space(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    faults = faults_of(bot)
    bot.controls.on_shutdown(lambda payload: 1 / 0)
    bot.on_shutdown(lambda envelope: [][0])
    await human.controls.shutdown("bot")
    await human.controls.shutdown("bot")  # told twice, done once
    await until(lambda: bot.client.state == "disconnected")
    assert [type(one) for one in faults[:2]] == [ZeroDivisionError, IndexError]
    assert statuses(room) == ["shutting_down", "error: ZeroDivisionError: division by zero"]
    assert len(room.sent("chat/acknowledge")) == 1


async def test_a_second_shutdown_changes_nothing_and_stopping_during_one_leaves_a_way_back(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    begun: list[Any] = []

    async def endless(payload: dict[str, Any]) -> None:
        begun.append(payload)
        await asyncio.Event().wait()

    bot.controls.on_shutdown(endless)
    await human.controls.shutdown("bot")
    await until(lambda: begun)
    await human.controls.shutdown("bot")
    await human.telemetry.request_participant_status("bot")
    await bot.stop()
    await bot.start()
    await bot.chat("back")
    assert begun == [{}] and bot.telemetry.build_status_payload() == {"messages_in_context": 0, "tokens": 0}


async def test_a_shutdown_under_a_pause_ends_the_wait_for_its_end(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    await paused(human, bot)
    waiting = asyncio.ensure_future(bot.controls.wait_active())
    await human.controls.shutdown("bot")
    await waiting
    await until(lambda: bot.client.state == "disconnected")


async def test_a_hook_may_stop_the_participant_and_stopping_ends_a_hook(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    begun = asyncio.Event()

    ended: list[str] = []

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    back = bot.controls.on_clear(endless)
    await human.controls.clear("bot")
    await begun.wait()
    await bot.stop()
    assert ended == ["cancelled"]
    back()
    bot.controls.on_restart(lambda payload: bot.stop())
    await bot.start()
    await human.controls.restart("bot")
    await until(lambda: bot.client.state == "disconnected")


@pytest.mark.req("S-L2-6")
async def test_ready_is_told_at_every_admission_and_shutdown_once_before_leaving(
    room: Room, human: MEWParticipant
) -> None:
    room.enrol("guest", "observer")
    guest = MEWParticipant(room.client("guest"))
    room.seated.append(guest)
    told: list[Any] = []
    guest.on_ready(lambda welcome: told.append(welcome["you"]["id"]))
    guest.on_shutdown(lambda envelope: told.append((envelope, guest.client.state)))
    await guest.stop()
    assert told == []
    await guest.start()
    welcomes: list[Any] = []
    guest.client.on_welcome(welcomes.append)
    room.enrol("guest", "human")  # other rights are a new welcome, and no admission
    await until(lambda: welcomes)
    assert told == ["guest"]
    await guest.client.disconnect()
    await guest.client.connect()
    assert told == ["guest", "guest"]
    await guest.stop()
    await guest.stop()
    assert told == ["guest", "guest", (None, "ready")]


# --- who may ---


@pytest.mark.req("C-24", "P-3.9-1")
async def test_only_a_capability_lets_one_control_another(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    weak = await room.seat("weak", "proposer")
    for verb in ("pause", "resume", "forget", "compact", "clear", "restart", "shutdown"):
        with pytest.raises(CapabilityViolation):
            await getattr(weak.controls, verb)("bot")
    with pytest.raises(Refused, match="nobody") as caught:
        await human.controls.pause("nobody")
    assert caught.value.code == "participant_not_found"
    with pytest.raises(Refused, match="timeout_seconds must be a number above 0"):
        await human.controls.pause("bot", timeout_seconds=-1)
    with pytest.raises(NoReply, match="no participant nobody is in space"):
        await human.controls.compact("nobody")
    assert bot.controls.pause_state is None and bot.client.state == "ready"


async def test_what_a_control_leaves_unsaid_is_not_said_by_force(room: Room, human: MEWParticipant) -> None:
    quiet = await room.seat("quiet", [{"kind": "chat"}])
    await human.controls.pause("quiet", timeout_seconds=0.01)
    await until(lambda: quiet.controls.pause_state)
    await quiet.controls.wait_active()
    await human.controls.clear("quiet")
    await quiet.chat("here")
    assert said(room, by="quiet") == [("chat", None)]


# --- reasoning ---


@pytest.mark.req("P-3.5.5-1", "P-3.5.5-2", "P-3.5.5-3", "C-24")
async def test_a_sequence_of_reasoning_is_cancelled_by_its_context(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    start = await bot.sender.say("reasoning/start", {"message": "hm"})
    await human.controls.cancel_reasoning(start.id, to="bot", reason="superseded", correlation_id="p-1")
    await bot.controls.cancel_reasoning(start.id)
    await until(lambda: len(room.sent("reasoning/cancel")) == 2)
    by_human, by_bot = room.sent("reasoning/cancel")
    assert (by_human.context, by_human.to, by_human.correlation_id) == (start.id, ("bot",), ("p-1",))
    assert (by_human.payload, by_bot.payload) == ({"reason": "superseded"}, {"reason": "cancelled"})
    assert (by_bot.context, by_bot.to, by_bot.correlation_id) == (start.id, (), ())


@pytest.mark.req("P-3.5.6-3")
async def test_a_request_and_a_proposal_with_a_context_are_taken_like_any_other(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    payload = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    human.client.post({"kind": "mcp/request", "to": ["bot"], "context": "r-1/s", "payload": payload})
    human.client.post(
        {"kind": "mcp/proposal", "to": ["bot"], "context": "r-1", "payload": {"method": "ping"}}
    )
    await until(lambda: room.sent("mcp/response") and bot.proposals.open())
    assert room.sent("mcp/response")[0].context == "r-1/s"


async def test_pauses_of_ever_more_names_are_remembered_in_bounds(room: Room, human: MEWParticipant) -> None:
    members = {
        "protocol": "mew/v0.4",
        "ts": "2026-01-01T00:00:00Z",
        "from": "flood",
        "kind": "participant/pause",
    }
    for n in range(1100):
        pause = Envelope.of({**members, "id": f"p{n}", "to": [f"target-{n}"], "payload": {}})
        human.dispatcher.dispatch(pause)
    for target in ("target-1099", "target-100", "target-99"):
        with contextlib.suppress(Refused):
            await human.controls.resume(target)
    sent = [json.loads(record.raw) for record in room.records if record.raw]
    named = [one.get("correlation_id", []) for one in sent if one["kind"] == "participant/resume"]
    assert named == [["p1099"], ["p100"], []], "the pauses of the last 1000 participants"
