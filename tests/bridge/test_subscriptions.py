"""What a bridged server tells by itself: updates of resources, log messages."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge.subscriptions import LogLimit, Subscriptions
from mew_lab.errors import ToolFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Site, until

FULL = Path(__file__).parent / "full_server.py"
NOTE = "full://note"


async def ask(who: MEWParticipant, method: str, **params: Any) -> Any:
    return await who.mcp_request("git", {"method": method, "params": params})


def heard(who: MEWParticipant, method: str) -> list[Envelope]:
    """Collects the notifications of one method from now on."""
    found: list[Envelope] = []
    who.client.on_message(lambda one: found.append(one) if one.payload.get("method") == method else None)
    return found


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_updates_of_a_resource_go_to_its_subscribers_until_the_last_has_left(
    site: Site, era: str
) -> None:
    await site.bridge(["python", str(FULL), era], can=PROFILES["tool"])
    human, other = await site.seat("human"), await site.seat("other", "admin")
    updates = heard(human, "notifications/resources/updated")
    await human.call("git/write", {"text": "nobody"})
    for who in (human, other):
        assert await ask(who, "resources/subscribe", uri=NOTE) == {}
    await human.call("git/write", {"text": "both"})
    await until(lambda: updates)
    assert [(one.to, one.payload["params"]) for one in updates] == [(("human", "other"), {"uri": NOTE})]
    assert await ask(human, "resources/unsubscribe", uri=NOTE) == {}
    await human.call("git/write", {"text": "other"})
    await until(lambda: len(updates) == 2)
    assert updates[1].to == ("other",)
    await other.stop()
    await until(lambda: "other" not in human.client.participants)
    await human.call("git/write", {"text": "gone"})
    assert await ask(human, "resources/subscribe", uri=NOTE) == {}
    await human.call("git/write", {"text": "human"})
    await until(lambda: len(updates) == 3)
    assert updates[2].to == ("human",)


async def test_what_is_no_uri_is_an_error_of_the_request(site: Site) -> None:
    await site.odd()
    human = await site.seat("human")
    for params in ({}, {"uri": 3}, {"uri": ""}, {"uri": "x" * 5000}):
        with pytest.raises(ToolFailed, match="uri must be a text of 1 to 4096 characters"):
            await ask(human, "resources/subscribe", **params)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_log_messages_are_seen_and_bounded(site: Site, era: str) -> None:
    await site.bridge(["python", str(FULL), era], can=PROFILES["tool"])
    human = await site.seat("human")
    messages = heard(human, "notifications/message")
    assert await ask(human, "logging/setLevel", level="debug") == {}
    with pytest.raises(ToolFailed, match="level must be one of debug, info"):
        await ask(human, "logging/setLevel", level="whisper")
    await human.call("git/log", {"times": 1, "text": "one"})
    await until(lambda: messages)
    assert messages[0].payload["params"] == {"level": "info", "data": {"text": "one"}}
    await human.call("git/log", {"times": 400, "text": "many"})
    assert len(messages) < 100
    await human.call("git/log", {"times": 1, "text": "x" * 100_000})

    def told() -> list[str]:
        return [
            one.payload["params"]["data"]
            for one in messages
            if one.payload["params"].get("logger") == "mew_lab"
        ]

    async def more() -> bool:
        await human.call("git/log", {"times": 1, "text": "y" * 100_000})
        return bool(told())

    while not await more():
        pass
    assert "log messages of this server were left out: more than 5 a second" in told()[0]
    assert max(len(str(one.payload["params"]["data"])) for one in messages) <= 16_384


async def test_a_flood_of_changes_becomes_a_few_and_the_last_change_is_told(site: Site) -> None:
    await site.odd()
    human = await site.seat("human")
    changes = heard(human, "notifications/tools/list_changed")
    start = time.monotonic()
    assert (await human.call("git/flood")).text == "flooded"
    await until(lambda: len(changes) >= 2)  # the first change, and the last one
    assert (await human.call("git/odd")).text == "as it came"
    assert len(changes) <= 2 + (time.monotonic() - start) / 0.2


def test_no_log_message_is_lost_without_being_counted() -> None:
    draw = random.Random(17)
    now = 0.0
    limit, sent, told, given = LogLimit(), 0, 0, 0
    for _ in range(5000):
        now += draw.choice([0.0, 0.0, 0.01, 0.1, 2.0])
        given += 1
        for one in limit.take({"level": "info", "data": given}, now):
            if one.get("logger") == "mew_lab":
                told += int(one["data"].split()[0])
            else:
                sent += 1
    now += 60
    *rest, last = limit.take({"level": "info", "data": "last"}, now)
    assert last["data"] == "last"
    assert sent + told + sum(int(one["data"].split()[0]) for one in rest) == given
    assert sent <= 20 + 5 * now


async def test_subscriptions_are_counted_over_random_participants() -> None:
    """The server is subscribed to exactly the resources that somebody present has subscribed to."""
    draw = random.Random(18)
    at_server: set[str] = set()
    expected: dict[str, set[str]] = {}

    async def subscribe(uri: str) -> None:
        assert uri not in at_server
        at_server.add(uri)

    async def unsubscribe(uri: str) -> None:
        at_server.remove(uri)

    subscriptions = Subscriptions(subscribe=subscribe, unsubscribe=unsubscribe)
    for _ in range(3000):
        uri, who = draw.choice("abc") + ":/", draw.choice("xyz")
        if draw.random() < 0.5:
            await subscriptions.add(uri, who)
            expected.setdefault(uri, set()).add(who)
        else:
            await subscriptions.remove(uri, who)
            expected.get(uri, set()).discard(who)
        here = draw.sample("xyz", draw.randint(0, 3)) if draw.random() < 0.2 else "xyz"
        expected[uri] = {one for one in expected.get(uri, set()) if one in here}
        assert await subscriptions.subscribers(uri + "part", here) == sorted(expected[uri])
        assert at_server == {one for one, subscribers in expected.items() if subscribers}
