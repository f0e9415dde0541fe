"""When an answer over HTTP counts as sent: with its last part, and only while its client is there."""

from __future__ import annotations

from typing import Any

from mew_lab.bridge.delivery import AnswerDelivery

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
