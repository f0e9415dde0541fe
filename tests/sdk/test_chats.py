"""The queue of chat messages that await an acknowledgement, in both directions."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation
from mew_lab.sdk.chats import AwaitingChat, Chats, QueueChange
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Room, settle, until

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
async def human(room: Room, monkeypatch: pytest.MonkeyPatch) -> MEWParticipant:
    monkeypatch.setattr("mew_lab.sdk.participant.Chats", lambda *parts: Chats(*parts, clock=lambda: NOON))
    return await room.seat("human")


@pytest.fixture
async def bot(room: Room) -> MEWParticipant:
    return await room.seat("bot", "proposer")


def heard(participant: MEWParticipant) -> list[QueueChange]:
    told: list[QueueChange] = []
    participant.chats.on_change(told.append)
    return told


@pytest.mark.req("P-3.4.1-4", "P-3.4-4")
async def test_what_others_say_awaits_and_what_one_says_oneself_does_not(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    told = heard(human)
    first = await bot.chat("Hello everyone!")
    second = await bot.chat("a word", to="human")
    mine = await human.chat("hi")
    await until(lambda: len(told) == 3)
    assert human.chats.pending == [
        AwaitingChat(first.id, "bot", "Hello everyone!", NOON, False),
        AwaitingChat(second.id, "bot", "a word", NOON, True),
    ]
    assert [one[:] for one in told] == [
        ("arrived", first.id, "bot"),
        ("arrived", second.id, "bot"),
        ("said", mine.id, "human"),
    ]
    assert [one.sender for one in bot.chats.pending] == ["human"]


@pytest.mark.req("P-3.4.1-1", "P-3.4.1-2", "S-L2-33")
async def test_an_acknowledgement_takes_a_message_off_ones_own_queue_and_tells_its_author(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    said = await bot.chat("well?", to="human")
    await until(lambda: human.chats.pending)
    await until(lambda: bot.chats.unacknowledged)
    assert [(one.id, one.to, dict(one.acknowledged)) for one in bot.chats.unacknowledged] == [
        (said.id, ("human",), {})
    ]
    told = heard(human)
    await human.acknowledge_chat(said.id, "bot", "read")
    assert human.chats.pending == []
    await until(lambda: not bot.chats.unacknowledged)
    own = bot.chats.own(said.id)
    assert own is not None and own.acknowledged == {"human": "read"}
    [sent] = room.sent("chat/acknowledge")
    assert (sent.to, sent.correlation_id, sent.payload) == (("bot",), (said.id,), {"status": "read"})
    await settle()
    assert told == [("acknowledged", said.id, "human")]  # its echo says nothing new


@pytest.mark.req("P-3.4.1-1")
async def test_a_message_to_several_waits_for_each_and_a_broadcast_for_anybody(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    other = await room.seat("other")
    both, all_ = await human.chat("both", to=["bot", "other"]), await human.chat("all")
    await until(lambda: len(bot.chats.pending) == 2)
    for said in (both, all_):
        await bot.acknowledge_chat(said.id)
    await until(lambda: len(human.chats.unacknowledged) == 1)
    [left] = human.chats.unacknowledged
    assert (left.text, left.acknowledged) == ("both", {"bot": "received"})
    await other.acknowledge_chat(both.id)
    await until(lambda: not human.chats.unacknowledged)


@pytest.mark.req("P-3.4.1-5")
async def test_clearing_the_queue_sends_one_acknowledgement_an_entry(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    other = await room.seat("other")
    said = [await bot.chat("1"), await bot.chat("2"), await other.chat("3")]
    await until(lambda: len(human.chats.pending) == 3)
    sent = await human.chats.acknowledge_all("read")
    assert human.chats.pending == []
    assert {(one.to, one.correlation_id) for one in sent} == {
        (("bot",), (said[0].id,)),
        (("bot",), (said[1].id,)),
        (("other",), (said[2].id,)),
    }
    assert all(one.kind == "chat/acknowledge" and one.payload == {"status": "read"} for one in sent)


@pytest.mark.req("P-3.4.2-2", "P-3.4.2-3")
async def test_cancelling_the_queue_sends_one_cancel_an_entry(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    said = [await bot.chat("1"), await bot.chat("2")]
    await until(lambda: len(human.chats.pending) == 2)
    sent = await human.chats.cancel_all()
    assert [(one.kind, one.correlation_id, one.payload) for one in sent] == [
        ("chat/cancel", (chat.id,), {"reason": "handled_elsewhere"}) for chat in said
    ]
    assert human.chats.pending == [] and all(human.chats.cancelled(chat.id) for chat in said)


async def test_who_may_not_acknowledge_keeps_the_queue(room: Room, human: MEWParticipant) -> None:
    mute = await room.seat("mute", [{"kind": "chat"}])
    await human.chat("hello")
    await until(lambda: mute.chats.pending)
    with pytest.raises(CapabilityViolation):
        await mute.chats.acknowledge_all()
    assert len(mute.chats.pending) == 1


@pytest.mark.req("P-3.4.2-1")
async def test_a_cancel_by_its_author_takes_a_message_off_and_says_so_to_who_works_on_it(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    said = await human.chat("what time is it?", to="bot")
    await until(lambda: bot.chats.pending)
    await bot.acknowledge_chat(said.id)  # it works on an answer
    assert not bot.chats.cancelled(said.id)
    told = heard(bot)
    await human.cancel_chat(said.id, "bot", "no_longer_needed")
    await until(lambda: bot.chats.cancelled(said.id))
    assert told == [("cancelled", said.id, "human")]
    unread = await human.chat("and the date?", to="bot")
    await until(lambda: bot.chats.pending)
    await human.cancel_chat(unread.id, "bot")
    await until(lambda: bot.chats.cancelled(unread.id))
    assert bot.chats.pending == []
    assert human.chats.unacknowledged == [] and human.chats.cancelled(said.id)


async def test_a_cancel_by_a_stranger_changes_nothing_and_is_flagged(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    stranger = await room.seat("stranger")
    said = await human.chat("still needed", to="bot")
    await until(lambda: bot.chats.pending)
    told, mine = heard(bot), heard(human)
    await stranger.cancel_chat(said.id)
    await stranger.cancel_chat("never-said")
    await until(lambda: len(told) == 2 and len(mine) == 2)
    assert told == mine == [("claimed", said.id, "stranger"), ("claimed", "never-said", "stranger")]
    assert len(bot.chats.pending) == 1 and not bot.chats.cancelled(said.id)
    assert not bot.chats.cancelled("never-said") and len(human.chats.unacknowledged) == 1


@pytest.mark.threat(9)
async def test_a_cancel_of_much_that_is_not_the_senders_is_logged_in_one_line(
    room: Room, bot: MEWParticipant, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = await room.seat("stranger")
    own = await stranger.chat("mine")
    other = await bot.chat("not the stranger's")
    await until(lambda: bot.chats.pending and bot.chats.own(other.id))
    told = heard(bot)
    ids = [f"unknown-{n}" for n in range(5000)]
    with caplog.at_level(logging.INFO, "mew_lab.sdk.chats"):
        await stranger.sender.say("chat/cancel", {}, about=[own.id, other.id, *ids])
        await until(lambda: len(told) == 5002)
    assert [line.getMessage() for line in caplog.records] == [
        "stranger cancels 5001 chat messages that are not its own"
    ]
    assert told[0] == ("cancelled", own.id, "stranger") and not bot.chats.pending
    assert set(told[1:]) == {("claimed", id, "stranger") for id in (other.id, *ids)}


async def test_ones_own_cancel_of_anothers_message_is_for_oneself_alone(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    said = await human.chat("hello", to="bot")
    await until(lambda: bot.chats.pending)
    await bot.cancel_chat(said.id, reason="duplicate")
    assert bot.chats.pending == [] and bot.chats.cancelled(said.id)
    await settle()
    assert not human.chats.cancelled(said.id)


@pytest.mark.threat(9)
async def test_of_too_many_the_oldest_goes(human: MEWParticipant, bot: MEWParticipant) -> None:
    told = heard(human)
    sent = [bot.client.post({"kind": "chat", "payload": {"text": f"{n}"}}) for n in range(1002)]
    await until(lambda: len([one for one in told if one.what == "arrived"]) == 1002)
    assert [one.id for one in human.chats.pending] == [one.id for one in sent[2:]]
    assert [one.id for one in told if one.what == "dropped"] == [sent[0].id, sent[1].id]
    assert len(bot.chats.unacknowledged) == 1000


@pytest.mark.threat(9, 12)
async def test_an_id_is_its_first_users_and_a_long_text_is_cut(
    human: MEWParticipant, bot: MEWParticipant
) -> None:
    heard: list[Any] = []
    human.on_chat(heard.append)
    for draft in (
        {"id": "same", "payload": {"text": "the first"}},
        {"id": "same", "payload": {"text": "the second"}},
        {"payload": {"text": "y" * 5000}},
    ):
        bot.client.post({"kind": "chat", **draft})
    await until(lambda: len(heard) == 3)
    assert [one.text for one in human.chats.pending] == ["the first", "y" * 4000]


async def test_the_queue_outlives_a_lost_connection(room: Room, bot: MEWParticipant) -> None:
    human = await room.seat("human", client={"reconnect_delay": 0.0})
    await bot.chat("hello")
    await until(lambda: human.chats.pending)
    again: list[Any] = []
    human.client.on_welcome(again.append)
    await room.links["human"].close(1001)
    await until(lambda: again)
    assert len(human.chats.pending) == 1


@pytest.mark.req("P-3.9.5-1")
async def test_what_is_dropped_from_either_end_is_told_and_nothing_is_sent(room: Room) -> None:
    human = await room.seat("human", "human")
    bot = await room.seat("bot", "proposer")
    sent = [(await human.chat(text)).id for text in "abcd"]
    await until(lambda: len(bot.chats.pending) == 4)
    told: list[Any] = []
    bot.chats.on_change(lambda change: told.append((change.what, change.id)))
    bot.chats.drop("newest", 1)
    bot.chats.drop("oldest", 2)
    assert told == [("dropped", sent[3]), ("dropped", sent[0]), ("dropped", sent[1])]
    assert [one.id for one in bot.chats.pending] == [sent[2]]
    bot.chats.drop()
    assert bot.chats.pending == [] and room.sent("chat/acknowledge") == room.sent("chat/cancel") == []
