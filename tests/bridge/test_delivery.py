"""When an answer over HTTP counts as sent, with its last part, and how long the session of its client is live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mew_lab.bridge.delivery import STDIO, AnswerDelivery, ClientSession

START = {"type": "http.response.start", "status": 200, "headers": []}
PART = {"type": "http.response.body", "body": b"a", "more_body": True}
LAST = {"type": "http.response.body", "body": b"b"}


def make(sent: list[Any], messages: list[str]) -> AnswerDelivery:
    async def receive() -> dict[str, str]:
        return {"type": messages.pop(0)}

    async def send(message: Any) -> None:
        sent.append(message)

    return AnswerDelivery(receive, send)


async def test_an_answer_counts_as_sent_with_its_last_part() -> None:
    sent: list[Any] = []
    notes: list[str] = []
    delivery = make(sent, ["http.request"])
    delivery.when_sent(lambda: notes.append("sent"))
    await delivery.receive()
    for message in (START, PART):
        await delivery.send(message)
        assert notes == []
    await delivery.send(LAST)
    assert (notes, sent, delivery.gone.is_set()) == (["sent"], [START, PART, LAST], False)


async def test_an_answer_to_a_client_that_is_gone_does_not_count() -> None:
    sent: list[Any] = []
    notes: list[str] = []
    delivery = make(sent, ["http.request", "http.disconnect"])
    delivery.when_sent(lambda: notes.append("sent"))
    await delivery.receive()
    await delivery.receive()
    for message in (START, PART, LAST):
        await delivery.send(message)
    assert delivery.gone.is_set() and notes == []


async def hold(session: ClientSession, *messages: dict[str, Any], ends: bool = False) -> bool:
    """Passes an answer through an exchange of a session; returns whether the session is live during it."""

    async def ignore(message: Any = None) -> None:
        """Takes what is sent."""

    delivery = AnswerDelivery(ignore, ignore)
    with session.exchange(delivery, ends=ends):
        for message in messages:
            await delivery.send(message)
        return session.is_live


def answer(status: int) -> list[dict[str, Any]]:
    return [{**START, "status": status}, LAST]


async def test_a_session_is_live_until_it_ends_breaks_or_is_idle(leap: Callable[[float], None]) -> None:
    session = ClientSession(idle=10.0)
    assert session.is_live and await hold(session, *answer(200)) and session.is_live
    leap(11.0)
    assert not session.is_live and session.is_over
    assert await hold(session, *answer(202)) and session.is_live
    assert await hold(session, answer(200)[0]) and not session.is_live  # the rest of it was never sent
    assert not session.is_over  # its client may have given up at its time limit alone
    assert await hold(session, *answer(200)) and session.is_live
    for status, ends in ((404, False), (200, True)):
        over = ClientSession(idle=10.0)
        assert await hold(over, *answer(status), ends=ends) and not over.is_live and over.is_over
        assert not await hold(over, *answer(200))


async def test_the_session_of_a_process_over_stdio_is_live_however_long_it_says_nothing(
    leap: Callable[[float], None],
) -> None:
    leap(1e9)
    assert STDIO.is_live
