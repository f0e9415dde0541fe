"""A question in words waits for the chat that answers it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation, ConnectionLost, LocalProtocolError, NoReply

from .conftest import until


async def say(seat: Any, kind: str, payload: dict[str, Any], **members: Any) -> None:
    await seat.client.send({"kind": kind, "payload": payload, **members})


@pytest.mark.req("P-3.4-4")
async def test_the_chat_that_correlates_to_a_question_answers_it(room: Any) -> None:
    human, bot = await room.seat("human"), await room.seat("bot")
    question = human.ask("What time is it?", "bot")
    bot.on_chat(lambda chat: bot.chat("Noon.", chat.sender, correlation_id=chat.id))
    assert await question == "Noon."
    assert (question.state, question.by) == ("answered", "bot")


async def test_what_a_stranger_says_or_what_correlates_to_nothing_is_no_answer(room: Any) -> None:
    human, bot, other = [await room.seat(name) for name in ("human", "bot", "other")]
    question = human.ask("What time is it?", "bot")
    await other.chat("Midnight.", "human", correlation_id=question.id)
    await bot.chat("Hello.", "human")
    await bot.chat("Noon.", "human", correlation_id=[question.id])
    assert await question == "Noon."


async def test_a_question_that_nobody_answers_in_time_is_taken_back_aloud(room: Any) -> None:
    human = await room.seat("human")
    await room.seat("bot")
    question = human.ask("What time is it?", "bot", timeout=0.02)
    with pytest.raises(NoReply, match="bot did not answer"):
        await question
    await until(lambda: room.sent("chat/cancel"))
    [cancel] = room.sent("chat/cancel")
    assert cancel.correlation_id == (question.id,) and cancel.payload["reason"] == "timeout"


async def test_taking_it_back_ends_it_and_says_so(room: Any) -> None:
    human = await room.seat("human")
    await room.seat("bot")
    question = human.ask("What time is it?", "bot")
    await question.withdraw("no_longer_needed")
    with pytest.raises(NoReply, match="taken back"):
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


async def test_the_end_of_the_connection_is_the_end_of_the_question(room: Any) -> None:
    human = await room.seat("human")
    await room.seat("bot")
    question = human.ask("What time is it?", "bot")
    await human.stop()
    with pytest.raises(ConnectionLost):
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
    assert len(human._questions) == 0


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


async def test_a_stranger_declines_for_nobody(room: Any) -> None:
    human, bot, eve = [await room.seat(name) for name in ("human", "bot", "eve")]
    question = human.ask("What time is it?", "bot")
    await until(lambda: room.sent("chat"))
    await say(eve, "chat/acknowledge", {"status": "rate_limited"}, to=["human"], correlation_id=[question.id])
    await bot.chat("Noon.", "human", correlation_id=question.id)
    assert await asyncio.wait_for(question.outcome(), 5) == "Noon."


@pytest.mark.req("P-3.5.5-1")
@pytest.mark.parametrize("by", ["human", "other"])
async def test_a_question_ends_when_the_reasoning_about_it_is_cancelled(
    room: Any, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.questions.GRACE", 0.05)
    seats = {name: await room.seat(name) for name in ("human", "bot", "other")}
    question = seats["human"].ask("What time is it?", "bot")
    await until(lambda: room.sent("chat"))
    await say(seats["bot"], "reasoning/start", {"message": "looks"}, correlation_id=[question.id])
    await until(lambda: room.sent("reasoning/start"))
    [start] = room.sent("reasoning/start")
    await say(seats[by], "reasoning/cancel", {"reason": "superseded"}, to=["bot"], context=start.id)
    with pytest.raises(NoReply, match=f"{by} cancelled the reasoning about bot: What time is it.*superseded"):
        await asyncio.wait_for(question.outcome(), 5)


async def test_who_was_cancelled_may_still_say_why(room: Any) -> None:
    human, bot = await room.seat("human"), await room.seat("bot")
    question = human.ask("What time is it?", "bot")
    await until(lambda: room.sent("chat"))
    await say(bot, "reasoning/start", {"message": "looks"}, correlation_id=[question.id])
    await until(lambda: room.sent("reasoning/start"))
    [start] = room.sent("reasoning/start")
    await say(human, "reasoning/cancel", {"reason": "superseded"}, to=["bot"], context=start.id)
    await bot.chat("I was stopped.", "human", correlation_id=question.id)
    assert await asyncio.wait_for(question.outcome(), 5) == "I was stopped."
