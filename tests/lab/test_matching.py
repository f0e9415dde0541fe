"""What a capability would have let through, counted over the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import ConfigError
from mew_lab.lab.decisions.matching import LOOKED_AT, Matches
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.space.events import Record

ADD = {
    "kind": "mcp/request",
    "to": "notebook",
    "payload": {"method": "tools/call", "params": {"name": "add"}},
}
Adding = Callable[[int, int], Any]


@pytest.mark.threat(22)
def test_threat_22_what_a_pattern_would_have_matched_is_counted_with_the_last_three(
    lab: Lab, adding: Adding
) -> None:
    bot, other = lab.join("bot", can="proposer"), lab.join("other", can="proposer")
    for n in range(4):
        bot.call("notebook/add", {"a": n, "b": 1})
    other.call("notebook/add", {"a": 1, "b": 1})
    bot.call("notebook/drop", {})
    lab.call("notebook/add", a=1, b=9).result(10)
    matches = lab.granting.would_match(ADD)
    assert isinstance(matches, Matches) and matches.count == 6
    assert [(one.sender, one.kind) for one in matches.examples] == [
        ("human", "mcp/request"),
        ("other", "mcp/proposal"),
        ("bot", "mcp/proposal"),
    ]
    assert "add" in matches.examples[0].what
    assert lab.granting.would_match(ADD, sender="bot").count == 4
    narrow = json.loads(json.dumps(ADD))
    narrow["payload"]["params"]["arguments"] = {"a": 1, "b": 1}
    assert lab.granting.would_match(narrow, sender="bot").count == 1
    assert lab.granting.would_match({"kind": "stream/*"}).count == 0
    with pytest.raises(ConfigError):
        lab.granting.would_match({"to": "notebook"})


@pytest.mark.threat(9)
def test_threat_09_a_long_log_is_searched_in_turns_and_only_its_newest_part() -> None:
    lab = up()
    lab.join("bot", can="proposer")
    chat = json.dumps({"id": "e", "from": "bot", "kind": "chat", "payload": {"text": "x"}})
    record = Record(1, datetime.now(UTC), "envelope", "demo", "bot", verdict="accepted", raw=chat)

    async def search() -> tuple[Matches, int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        found = await lab.granting.matching({"kind": "chat"}, sender="bot")
        other.cancel()
        return found, turns

    for _ in range(LOOKED_AT + 500):
        lab.log.observe(record)
    found, turns = lab.loop.run(search(), timeout=20, doing="searching")
    assert found.count == found.looked_at == LOOKED_AT and turns >= LOOKED_AT // 1000 - 1
    assert lab.granting.would_match({"kind": "chat"}, sender="bot").count == LOOKED_AT
