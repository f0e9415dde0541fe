"""An exchange is found when it is asked for, and grows while it is looked at."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mew_lab.errors import JournalError
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.log.log import Log
from mew_lab.space.events import Record
from mew_lab.views.timeline import exchanges as module
from mew_lab.views.timeline.exchanges import ExchangeSelection

START = datetime(2026, 1, 1, tzinfo=UTC)


class Space:
    """A log with those who follow it."""

    def __init__(self) -> None:
        self.log = Log.live(space="demo")
        self.following = EntryFeed(self.log)
        self.exchanges = ExchangeSelection(self.following)
        self.count = 0

    def say(self, id: str, *about: str, **members: Any) -> None:
        self.count += 1
        raw = json.dumps({"id": id, "from": "bot", "kind": "chat", "correlation_id": list(about)} | members)
        record = Record(
            self.count, START + timedelta(seconds=self.count), "envelope", verdict="accepted", raw=raw
        )
        self.log.observe(record)
        self.following.observe(record)


async def pass_timers() -> None:
    """Returns once the loop has run every timer that was due before."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, passed.set)
    await passed.wait()


async def until(probe: Any) -> None:
    async with asyncio.timeout(10):
        while not probe():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_nothing_is_kept_before_the_first_question_and_then_all_is_found() -> None:
    space = Space()
    for n in range(3000):
        space.say(f"e{n}")
    space.say("answer", "e7")
    assert not space.following.caught_up(space.exchanges)
    found = await space.exchanges.select("answer")
    assert found.ids == ("e7", "answer")
    assert space.exchanges.selected is found
    assert (await space.exchanges.select(8)).ids == ("e7", "answer"), "its number in the feed"


async def test_a_selected_exchange_grows_and_an_envelope_that_belongs_elsewhere_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = Space()
    space.say("p")
    told: list[int] = []
    end = space.exchanges.changed.add(lambda: told.append(1))
    await space.exchanges.select("p")
    with monkeypatch.context() as patch:
        patch.setattr(module, "SETTLED", 0.0)
        space.say("other")
        await pass_timers()
    assert told == [1]
    for n in range(50):
        space.say(f"a{n}", "p")
    await until(lambda: space.exchanges.selected and len(space.exchanges.selected.steps) == 51)
    assert len(told) <= 3, "fifty that come at once are one change"
    space.exchanges.forget()
    assert space.exchanges.selected is None
    told.clear()
    monkeypatch.setattr(module, "SETTLED", 0.0)
    space.say("late", "p")
    await pass_timers()
    assert told == [] and space.exchanges.selected is None
    end()


async def test_an_unknown_id_is_refused_and_leaves_the_selection_as_it_was() -> None:
    space = Space()
    space.say("p")
    found = await space.exchanges.select("p")
    with pytest.raises(JournalError, match="Cannot show the exchange of “nobody”"):
        await space.exchanges.select("nobody")
    assert space.exchanges.selected is found


async def test_closed_it_follows_no_more() -> None:
    space = Space()
    space.say("p")
    await space.exchanges.select("p")
    space.exchanges.close()
    space.say("a", "p")
    assert not space.following.caught_up(space.exchanges)
    assert space.exchanges.selected is not None and space.exchanges.selected.ids == ("p",)
