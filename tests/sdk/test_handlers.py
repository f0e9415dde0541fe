"""Who is told what, in which order, and what becomes of a fault."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mew_lab.errors import MewError
from mew_lab.sdk.handlers import Handlers, Inbox

from .conftest import until


def test_handlers_are_told_in_order_until_they_are_taken_back() -> None:
    told: list[str] = []
    handlers: Handlers[str] = Handlers()
    handlers.add(lambda what: told.append(f"a{what}"))
    stop = handlers.add(lambda what: told.append(f"b{what}"))
    handlers("1")
    stop()
    stop()
    handlers("2")
    assert told == ["a1", "b1", "a2"] and len(handlers) == 1


async def test_a_fault_of_one_is_told_and_keeps_no_other_from_being_told() -> None:
    faults: list[Exception] = []
    told: list[str] = []
    handlers: Handlers[str] = Handlers(on_fault=faults.append)

    def fails(what: str) -> None:
        raise ValueError("at once")

    async def fails_later(what: str) -> None:
        raise ValueError("later")

    handlers.add(fails)
    handlers.add(fails_later)
    handlers.add(told.append)
    handlers("x")
    assert told == ["x"] and [str(one) for one in faults] == ["at once"]
    await until(lambda: len(faults) == 2)
    assert str(faults[1]) == "later"


async def test_a_coroutine_runs_on_its_own_and_holds_nobody_up() -> None:
    release, done = asyncio.Event(), asyncio.Event()
    handlers: Handlers[str] = Handlers()

    async def slow(what: str) -> None:
        await release.wait()
        done.set()

    handlers.add(slow)
    handlers("x")
    assert not done.is_set()
    release.set()
    await asyncio.wait_for(done.wait(), 10)


def test_a_fault_that_nobody_asked_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    handlers: Handlers[str] = Handlers()
    handlers.add(lambda what: 1 / 0)
    with caplog.at_level(logging.ERROR, "mew_lab"):
        handlers("x")
    assert "a handler failed: ZeroDivisionError: division by zero" in caplog.text


async def test_an_inbox_gives_what_came_since_it_was_made_and_ends_when_closed() -> None:
    closed: list[bool] = []
    inbox: Inbox[int] = Inbox(limit=10, on_close=lambda: closed.append(True))
    inbox.put(1)
    reading = asyncio.ensure_future(_all(inbox))
    await asyncio.sleep(0)
    inbox.put(2)
    inbox.close()
    inbox.close()
    assert await reading == [1, 2] and closed == [True]


async def _all(inbox: Inbox[int]) -> list[int]:
    return [one async for one in inbox]


@pytest.mark.threat(9)
async def test_an_inbox_that_overflows_says_how_much_was_missed() -> None:
    inbox: Inbox[int] = Inbox(limit=2, on_close=lambda: None)
    for number in range(5):
        inbox.put(number)
    assert [await anext(inbox), await anext(inbox)] == [0, 1]
    with pytest.raises(MewError, match="fell behind and missed 3 messages"):
        await anext(inbox)
    inbox.put(9)
    assert await anext(inbox) == 9


async def test_a_fault_reaches_who_asked_for_faults_after_the_handlers_were_made() -> None:
    faults: list[str] = []
    errors: Handlers[Exception] = Handlers()
    handlers: Handlers[str] = Handlers(on_fault=errors)
    handlers.add(lambda what: 1 // 0)  # type: ignore[arg-type, return-value]
    errors.add(lambda fault: faults.append(type(fault).__name__))
    handlers("x")
    assert faults == ["ZeroDivisionError"]
