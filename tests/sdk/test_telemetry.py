"""How full a context is, who is told, and what others tell."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation, ConnectionLost, LocalProtocolError, NoReply
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.telemetry import COOLDOWN, MAX_KEPT, MAX_STATUSES, Telemetry

from .conftest import Room, until


@pytest.fixture
async def human(room: Room) -> MEWParticipant:
    return await room.seat("human", "human")


@pytest.fixture
async def bot(room: Room, human: MEWParticipant) -> MEWParticipant:
    return await room.seat("bot", "proposer")


class Hand:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


async def settled(*seats: MEWParticipant) -> None:
    """All that was sent so far has come back to its sender, and so to everybody."""
    for seat in seats:
        await seat.sender.say_accepted("participant/status", {"messages_in_context": 0, "status": "settled"})


def told(room: Room) -> list[dict[str, Any]]:
    """The payloads of the statuses so far, without those of `settled`."""
    return [one.payload for one in room.sent("participant/status") if one.payload.get("status") != "settled"]


# --- the payload ---


@pytest.mark.req("S-L2-39", "S-L2-40", "P-3.9.4-3")
async def test_usage_keeps_running_totals_and_messages_in_context_is_always_there(
    bot: MEWParticipant,
) -> None:
    telemetry = bot.telemetry
    assert telemetry.build_status_payload() == {"messages_in_context": 0, "tokens": 0}
    telemetry.record_context_usage(tokens=100, messages=2)
    telemetry.record_context_usage(tokens=50)
    telemetry.record_context_usage(messages=1)
    telemetry.max_tokens = 1000
    assert telemetry.build_status_payload() == {"messages_in_context": 3, "tokens": 150, "max_tokens": 1000}
    assert telemetry.build_status_payload("busy", fields=[]) == {"messages_in_context": 3, "status": "busy"}
    telemetry.record_context_usage(tokens=-1000, messages=-1)
    assert (telemetry.tokens, telemetry.messages) == (0, 2)
    telemetry.set_context_usage(tokens=7)
    assert (telemetry.tokens, telemetry.messages, telemetry.headroom_tokens) == (7, 2, 993)


@pytest.mark.req("P-3.9.4-4")
async def test_a_metric_of_ones_own_is_in_snake_case_and_a_broken_one_is_left_out(
    bot: MEWParticipant,
) -> None:
    faults: list[Exception] = []
    bot.client.on_error(faults.append)
    remove = bot.telemetry.add_metric("latency_ms", lambda: 350)
    for name, value in (("odd", object()), ("none", None), ("endless", float("inf")), ("is_idle", True)):
        bot.telemetry.add_metric(name, lambda value=value: value)  # type: ignore[misc]
    bot.telemetry.add_metric("broken", lambda: 1 / 0)
    assert bot.telemetry.build_status_payload() == {
        "messages_in_context": 0,
        "tokens": 0,
        "latency_ms": 350,
        "is_idle": True,
    }
    assert sorted(type(one).__name__ for one in faults) == [
        "LocalProtocolError",
        "LocalProtocolError",
        "ZeroDivisionError",
    ]
    remove()
    assert "latency_ms" not in bot.telemetry.build_status_payload()
    for name in ("latencyMs", "Latency", "a__b", "", "tokens", "messages_in_context"):
        with pytest.raises(LocalProtocolError, match="names are in snake_case"):
            bot.telemetry.add_metric(name, lambda: 1)


@pytest.mark.parametrize("limit", [0, -0.1, 1.1, float("nan")])
async def test_limits_that_make_no_sense_are_refused(bot: MEWParticipant, limit: float) -> None:
    with pytest.raises(LocalProtocolError, match="above 0 and at most 1"):
        bot.telemetry.soft_limit = limit
    with pytest.raises(LocalProtocolError, match="max_tokens cannot be 0"):
        bot.telemetry.max_tokens = 0


# --- asked ---


@pytest.mark.req("P-3.9.3-1", "P-3.9.3-3", "P-3.9.4-2", "P-3.9.4-8", "S-L2-38")
async def test_who_asks_gets_a_status_that_names_the_question(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    bot.telemetry.max_tokens = 20000
    bot.telemetry.record_context_usage(tokens=12345, messages=128)
    status = await human.telemetry.request_participant_status("bot")
    [asked], [answer] = room.sent("participant/request-status"), room.sent("participant/status")
    assert (asked.to, asked.payload) == (("bot",), {})
    assert (answer.sender, answer.to, answer.correlation_id) == ("bot", ("human",), (asked.id,))
    assert answer.payload == {"messages_in_context": 128, "tokens": 12345, "max_tokens": 20000}
    assert (status.sender, status.about) == ("bot", (asked.id,))
    assert status.payload.model_dump(exclude_unset=True) == answer.payload
    assert (status.tokens, status.max_tokens, status.messages_in_context, status.status) == (
        12345,
        20000,
        128,
        None,
    )


@pytest.mark.req("P-3.9.3-2")
async def test_fields_limit_what_is_told_but_for_messages_in_context(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    bot.telemetry.max_tokens = 100
    bot.telemetry.add_metric("latency_ms", lambda: 350)
    bot.telemetry.add_metric("queue", lambda: 1)
    ask = human.telemetry.request_participant_status

    async def told(*fields: str) -> dict[str, Any]:
        return (await ask("bot", fields)).payload.model_dump(exclude_unset=True)

    assert await told("tokens", "latency") == {
        "messages_in_context": 0,
        "tokens": 0,
        "max_tokens": 100,
        "latency_ms": 350,
    }
    assert await told("queue", "moods") == {"messages_in_context": 0, "queue": 1}
    assert await told() == {"messages_in_context": 0}


@pytest.mark.threat(9)
async def test_a_forged_answer_is_not_believed_and_a_silent_one_is_given_up(
    room: Room, human: MEWParticipant
) -> None:
    await room.seat("mute", [{"kind": "chat"}])  # it may not answer, so it does not
    liar = await room.seat("liar", "proposer")

    def lie(envelope: Any) -> None:
        if envelope.kind == "participant/request-status":
            payload = {"messages_in_context": 1, "status": "fine"}
            liar.client.post(
                {"kind": "participant/status", "correlation_id": [envelope.id], "payload": payload}
            )

    liar.client.on_message(lie)
    heard: list[str] = []
    human.telemetry.on_status(lambda status: heard.append(status.sender))
    with pytest.raises(
        NoReply, match=r"^mute did not answer participant/request-status within 0\.2 s"
    ) as caught:
        await human.telemetry.request_participant_status("mute", timeout=0.2)
    assert (caught.value.waiting_for, heard) == ("mute", ["liar"])


async def test_an_absent_one_a_leaving_one_and_a_lost_connection_end_the_wait(
    room: Room, human: MEWParticipant
) -> None:
    ask = human.telemetry.request_participant_status
    with pytest.raises(NoReply, match="no participant nobody is in space 'demo' now") as caught:
        await ask("nobody")
    assert caught.value.after_s == 0.0
    timid = await room.seat("timid", [{"kind": "chat"}])  # it may not answer either
    timid.client.on_message(
        lambda envelope: (
            timid.client.post({"kind": "chat", "payload": {"text": "asked"}})
            if envelope.kind == "participant/request-status"
            else None
        )
    )
    human.on_chat(lambda chat: timid.stop())
    with pytest.raises(NoReply, match="no participant timid is in space"):
        await ask("timid")
    await room.seat("mute", [{"kind": "chat"}])  # it may not answer, so it does not
    asking = asyncio.ensure_future(ask("mute"))
    await until(lambda: len(room.sent("participant/request-status")) == 3)
    await human.client.disconnect()
    with pytest.raises(ConnectionLost, match="ended before participant/request-status"):
        await asking


async def test_who_may_not_ask_is_told_so_at_once(bot: MEWParticipant) -> None:
    with pytest.raises(CapabilityViolation):
        await bot.telemetry.request_participant_status("human")


# --- unasked ---


@pytest.mark.req("P-3.9.4-5", "S-L2-38")
async def test_a_report_goes_to_everybody(room: Room, human: MEWParticipant, bot: MEWParticipant) -> None:
    heard: list[Any] = []
    human.telemetry.on_status(heard.append)
    await bot.telemetry.report_status("idle")
    await until(lambda: heard)
    assert room.sent("participant/status")[0].to == ()
    assert (
        (heard[0].sender, heard[0].status)
        == ("bot", "idle")
        == ("bot", human.telemetry.statuses["bot"].status)
    )
    dumb = await room.seat("dumb", [{"kind": "chat"}])
    with pytest.raises(CapabilityViolation):
        await dumb.telemetry.report_status()
    assert dumb.telemetry.tell("quiet") is None


@pytest.mark.req("S-L2-34")
async def test_chat_of_others_is_counted_until_somebody_else_counts(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    await human.chat("x" * 40)
    await bot.chat("y" * 4)
    await until(lambda: bot.telemetry.messages and human.telemetry.messages)
    assert (bot.telemetry.messages, bot.telemetry.tokens) == (1, 10)
    assert (human.telemetry.messages, human.telemetry.tokens) == (1, 1)
    bot.telemetry.automatic = False
    await human.chat("not counted")
    await settled(human, bot)
    assert bot.telemetry.messages == 1


@pytest.mark.req("S-L2-41", "P-3.9.4-1", "P-3.9.4-7")
async def test_crossing_the_soft_limit_is_told_once_and_again_only_after_falling_below(
    room: Room, bot: MEWParticipant
) -> None:
    hand = Hand()
    telemetry = Telemetry(bot.sender, max_tokens=100, clock=hand)
    telemetry.record_context_usage(tokens=89)
    await settled(bot)
    assert told(room) == []
    telemetry.record_context_usage(tokens=1)
    telemetry.record_context_usage(tokens=5)
    hand.at = 10 * COOLDOWN
    telemetry.record_context_usage(tokens=1)
    await settled(bot)
    assert told(room) == [
        {
            "messages_in_context": 0,
            "tokens": 90,
            "max_tokens": 100,
            "status": "near_limit",
            "headroom_tokens": 10,
        }
    ]
    telemetry.set_context_usage(tokens=50)
    telemetry.set_context_usage(tokens=100)
    await settled(bot)
    assert [one["tokens"] for one in told(room)] == [90, 100]


async def test_a_crossing_within_the_cooldown_is_told_when_that_is_over(
    room: Room, bot: MEWParticipant
) -> None:
    hand = Hand()
    telemetry = Telemetry(bot.sender, max_tokens=100, soft_limit=0.5, clock=hand)
    telemetry.set_context_usage(tokens=50)
    for tokens in (49, 51):
        telemetry.set_context_usage(tokens=tokens)
    hand.at = COOLDOWN - 1
    telemetry.set_context_usage(tokens=52)
    await settled(bot)
    assert [one["tokens"] for one in told(room)] == [50]
    hand.at = COOLDOWN
    telemetry.set_context_usage(tokens=53)
    await settled(bot)
    assert [one["tokens"] for one in told(room)] == [50, 53]


@pytest.mark.req("P-3.9.5-5", "S-L2-42")
async def test_a_compaction_of_its_own_is_told_with_what_it_freed_and_what_fits(
    room: Room, bot: MEWParticipant
) -> None:
    bot.telemetry.max_tokens = 1000
    bot.telemetry.set_context_usage(tokens=800, messages=20)
    bot.telemetry.report_compaction(freed_tokens=600, freed_messages=15)
    await settled(bot)
    assert told(room) == [
        {
            "messages_in_context": 5,
            "tokens": 200,
            "max_tokens": 1000,
            "status": "compacted",
            "freed_tokens": 600,
            "freed_messages": 15,
            "headroom_tokens": 800,
        }
    ]
    bot.telemetry.automatic = False  # who counts itself has counted that already
    bot.telemetry.report_compaction(freed_tokens=100)
    assert bot.telemetry.tokens == 200


# --- others ---


async def test_the_last_status_of_others_is_kept_until_they_leave(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    await bot.telemetry.report_status("one")
    await bot.telemetry.report_status("two")
    await human.telemetry.report_status("own")
    await settled(human)
    assert {name: one.status for name, one in human.telemetry.statuses.items()} == {"bot": "two"}
    await bot.stop()
    await until(lambda: "bot" not in human.client.participants)
    assert human.telemetry.statuses == {}


@pytest.mark.threat(9)
async def test_a_status_without_its_count_is_dropped_and_the_book_is_bounded(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    bot.client.post({"kind": "participant/status", "payload": {"tokens": 5}})
    await until(lambda: human.misbehaviour["bot"] == 1)
    await bot.sender.say("participant/status", {"messages_in_context": 1, "mood": "x" * MAX_KEPT})
    await settled(human)
    assert human.telemetry.statuses == {}
    [own] = [await bot.telemetry.report_status("here")]
    for number in range(MAX_STATUSES + 5):
        envelope = type(own).of({**own.members, "from": f"n{number}"})
        human.dispatcher.dispatch(envelope)
    assert len(human.telemetry.statuses) == MAX_STATUSES and "n4" not in human.telemetry.statuses
