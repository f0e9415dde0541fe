"""Whatever is said wrongly: one error to who said it, with a code and a sentence; the connection lives; nobody else hears."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from mew_lab.transport.link import Link

from ..malformed import FRAMES, LIMIT, NO_FRAMES, OVER_HTTP_ALONE, READER, ROWS, Row
from .conftest import CHAT, House, Open, take


async def a_house(open_house: Open) -> tuple[House, Link]:
    """Bert owns the space, its stream-1, and listens; anna may send every kind, cora little."""
    house = await open_house(space={"message_bytes": LIMIT, "owner": "bert"})
    house.gateway.enrol("demo", "anna", [{"kind": "*"}])
    house.gateway.enrol("demo", "bert", [{"kind": "chat"}, {"kind": "stream/*"}])
    house.gateway.enrol("demo", "cora", [{"kind": "chat"}, READER])
    bert = await house.join("bert")
    await bert.send('{"kind":"stream/request","payload":{"direction":"upload"}}')
    assert (await take(bert, "stream/open"))["payload"]["stream_id"] == "stream-1"
    return house, bert


async def drained(link: Link, text: str) -> list[dict[str, Any]]:
    """Everything that comes before the chat message with this text."""
    before: list[dict[str, Any]] = []
    while True:
        message = await link.receive()
        one = (
            json.loads(message) if isinstance(message, str) and message.startswith("{") else {"kind": message}
        )
        if one.get("kind") == "chat" and one["payload"].get("text") == text:
            return before
        before.append(one)


def is_error(one: dict[str, Any]) -> bool:
    return one["kind"] == "system/error"


def marker(text: str) -> str:
    return json.dumps({"kind": "chat", "payload": {"text": text}})


def wrong(row: Row, told: list[dict[str, Any]]) -> str:
    """What is wrong with what the sender was told; empty if nothing is."""
    if [one["kind"] for one in told] != ["system/error"]:
        return f"not one error, but {[one['kind'] for one in told]}"
    payload = told[0]["payload"]
    if (payload["error"], payload.get("code", "")) != (row.error, row.code):
        return f"{payload['error']}/{payload.get('code', '')} instead of {row.error}/{row.code}"
    sentence = payload["message"]
    if len(sentence) < 15 or "Traceback" in sentence or "\n" in sentence:
        return f"no sentence: {sentence!r}"
    if told[0]["to"] != [row.by] or told[0]["from"] != "system:gateway":
        return f"not from the gateway to the sender: {told[0]}"
    return ""


async def faults(house: House, bert: Link, rows: Iterable[Row]) -> list[str]:
    """Sends each row over a socket; what was not as it must be."""
    found: list[str] = []
    links = {name: await house.join(name) for name in ("anna", "cora")}
    await links["anna"].send(marker("start"))
    for link in (bert, *links.values()):
        await drained(link, "start")
    for n, row in enumerate(rows):
        link = links[row.by]
        await link.send(row.data)
        await link.send(marker(str(n)))
        if fault := wrong(row, await drained(link, str(n))):
            found.append(f"{row.name}: {fault}")
        for name, other in {"bert": bert, **links}.items():
            if name != row.by and (heard := await drained(other, str(n))):
                found.append(f"{row.name}: {name} heard {heard}")
    return found


def test_the_table_has_at_least_120_rows_and_none_twice() -> None:
    every = [*ROWS, *FRAMES, *NO_FRAMES, *OVER_HTTP_ALONE]
    assert len(every) >= 120
    assert len({row.name for row in every}) == len({(row.by, row.data) for row in every}) == len(every)


@pytest.mark.threat(8, 10, 11)
async def test_whatever_is_wrong_over_a_socket_is_one_error_to_its_sender_alone(open_house: Open) -> None:
    house, bert = await a_house(open_house)
    assert await faults(house, bert, [*ROWS, *NO_FRAMES]) == []
    assert house.gateway.connections() == 3


@pytest.mark.threat(23)
async def test_a_frame_that_may_not_be_written_is_one_error_to_its_sender_alone(open_house: Open) -> None:
    house, bert = await a_house(open_house)
    assert await faults(house, bert, FRAMES) == []


@pytest.mark.threat(8, 10, 11)
async def test_whatever_is_wrong_over_http_is_refused_alike_and_no_peer_hears_of_it(open_house: Open) -> None:
    house, bert = await a_house(open_house)
    links = {name: await house.join(name) for name in ("anna", "cora")}
    found = []
    async with httpx.AsyncClient(base_url=f"http://{house.at}", trust_env=False) as client:
        for n, row in enumerate([*ROWS, *OVER_HTTP_ALONE]):
            response = await client.post(
                f"/participants/{row.by}/messages",
                content=row.data.encode() if isinstance(row.data, str) else row.data,
                headers={**house.bearer(row.by), "Content-Type": "application/json"},
            )
            said = response.json()
            said = said.get("payload", said)  # about streams the whole envelope is told
            code = row.code or row.error
            if (response.status_code, said.get("code", said["error"])) != (row.status, code):
                found.append(f"{row.name}: {response.status_code} {said} instead of {row.status} {code}")
            if len(said["message"]) < 15:
                found.append(f"{row.name}: no sentence")
            house.gateway.post("demo", "cora", marker(str(n)))
            if fault := wrong(row, [one for one in await drained(links[row.by], str(n)) if is_error(one)]):
                found.append(f"{row.name}: over its socket {fault}")
            heard = await drained(bert, str(n))
            if any(is_error(one) or one["from"] != "system:gateway" for one in heard):
                found.append(f"{row.name}: bert heard {heard}")
    assert found == []


@pytest.mark.threat(8)
async def test_the_sender_of_all_of_it_may_go_on(open_house: Open) -> None:
    """In one go, without waiting for an answer: as many errors as messages, in their order."""
    house, _ = await a_house(open_house)
    anna = await house.join("anna")
    rows = [row for row in ROWS if row.by == "anna"]
    sending = asyncio.create_task(_send_all(anna, [*(row.data for row in rows), marker("last")]))
    told = await drained(anna, "last")
    await sending
    errors = [one["payload"] for one in told if one["kind"] == "system/error"]
    assert [(one["error"], one.get("code", "")) for one in errors] == [(row.error, row.code) for row in rows]
    assert (await house.post("anna", CHAT)).status_code == 200


async def _send_all(link: Link, messages: Iterable[str | bytes]) -> None:
    for message in messages:
        await link.send(message)
