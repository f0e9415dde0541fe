"""Participants of this very process: the same space, the same limits, no socket."""

from __future__ import annotations

import asyncio
import json

import pytest

from mew_lab.errors import NotAdmitted
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.space.events import Record

from .conftest import ANYTHING, CHAT, closed_with, take, until


@pytest.fixture
def records() -> list[Record]:
    return []


@pytest.fixture
async def gateway(records: list[Record]) -> Gateway:
    made = Gateway(observe=records.append)
    people = {name: {"capabilities": ANYTHING} for name in ("anna", "bert")}
    config = {"name": "demo", "queue_bytes": 65536, "message_bytes": 10_000, "participants": people}
    made.add_space(SpaceConfig.model_validate(config))
    return made


async def test_the_welcome_comes_first_and_messages_go_both_ways(gateway: Gateway) -> None:
    anna = attach(gateway, "demo", "anna", runtime_id="anna-1")
    assert (await take(anna))["payload"]["you"]["id"] == "anna-1"
    bert = attach(gateway, "demo", "bert")
    assert (await take(bert))["kind"] == "system/welcome"
    await bert.send(json.dumps(CHAT))
    assert [(await take(anna))["kind"] for _ in range(2)] == ["system/presence", "chat"]
    assert (await take(bert))["from"] == "bert"


async def test_who_closes_leaves_and_no_task_stays(gateway: Gateway, records: list[Record]) -> None:
    before = len(asyncio.all_tasks())
    anna = attach(gateway, "demo", "anna")
    await anna.close(1000, "home")
    await until(lambda: gateway.connections() == 0)
    assert [one.detail for one in records if one.event == "left"] == ["home"]
    await until(lambda: len(asyncio.all_tasks()) == before)


async def test_who_may_not_join_is_told_at_once(gateway: Gateway) -> None:
    with pytest.raises(NotAdmitted, match="stranger"):
        attach(gateway, "demo", "stranger")


@pytest.mark.threat(8)
async def test_a_message_over_the_limit_is_refused_as_on_a_socket(
    gateway: Gateway, records: list[Record]
) -> None:
    anna = attach(gateway, "demo", "anna")
    await anna.send("x" * 10_001)
    assert (await take(anna, "system/error"))["payload"]["code"] == "message_too_large"
    assert "x" * 100 not in repr(records)


@pytest.mark.threat(9)
async def test_a_reader_that_does_not_read_is_cut_and_named(gateway: Gateway, records: list[Record]) -> None:
    anna, bert = attach(gateway, "demo", "anna"), attach(gateway, "demo", "bert")
    message = json.dumps({"kind": "chat", "payload": {"text": "x" * 5_000}})
    for _ in range(20):
        await anna.send(message)
        await take(anna, "chat")
    code, reason = await closed_with(bert)
    assert code == 1008
    assert reason.startswith("slow reader: ")
    assert [(one.participant, one.detail) for one in records if one.event == "left"] == [("bert", reason)]
