"""The order in which a signal tells, its iterators, and what becomes of a fault."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mew_lab.errors import MewError
from mew_lab.sdk.signal import Signal, Subscription

from .conftest import until


def test_functions_are_called_in_order_until_they_are_taken_back() -> None:
    told: list[str] = []
    signal: Signal[str] = Signal()
    signal.add(lambda what: told.append(f"a{what}"))
    stop = signal.add(lambda what: told.append(f"b{what}"))
    signal("1")
    stop()
    stop()
    signal("2")
    assert told == ["a1", "b1", "a2"] and len(signal) == 1


async def test_a_fault_of_one_is_told_and_keeps_no_other_from_being_told() -> None:
    faults: list[Exception] = []
    told: list[str] = []
    signal: Signal[str] = Signal(on_fault=faults.append)

    def fails(what: str) -> None:
        raise ValueError("at once")

    async def fails_later(what: str) -> None:
        raise ValueError("later")

    signal.add(fails)
    signal.add(fails_later)
    signal.add(told.append)
    signal("x")
    assert told == ["x"] and [str(one) for one in faults] == ["at once"]
    await until(lambda: len(faults) == 2)
    assert str(faults[1]) == "later"


async def test_a_coroutine_runs_on_its_own_and_holds_nobody_up() -> None:
    release, done = asyncio.Event(), asyncio.Event()
    signal: Signal[str] = Signal()

    async def slow(what: str) -> None:
        await release.wait()
        done.set()

    signal.add(slow)
    signal("x")
    assert not done.is_set()
    release.set()
    await asyncio.wait_for(done.wait(), 10)


def test_a_fault_that_nobody_asked_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    signal: Signal[str] = Signal()
    signal.add(lambda what: 1 / 0)
    with caplog.at_level(logging.ERROR, "mew_lab"):
        signal("x")
    assert "a handler failed: ZeroDivisionError: division by zero" in caplog.text


async def test_a_subscription_gives_what_came_since_it_was_made_and_ends_when_closed() -> None:
    signal: Signal[int] = Signal()
    signal(0)
    subscription = signal.subscribe(limit=10)
    signal(1)
    reading = asyncio.ensure_future(_all(subscription))
    await asyncio.sleep(0)
    signal(2)
    subscription.close()
    subscription.close()
    signal(3)
    assert await reading == [1, 2] and len(signal) == 0


async def _all(subscription: Subscription[int]) -> list[int]:
    return [value async for value in subscription]


async def test_a_signal_that_closes_ends_its_subscriptions_and_keeps_its_functions() -> None:
    told: list[int] = []
    signal: Signal[int] = Signal()
    signal.add(told.append)
    readers = [signal.subscribe(limit=10), signal.subscribe(limit=10)]
    signal(1)
    signal.close()
    assert [await _all(reader) for reader in readers] == [[1], [1]]
    signal(2)
    assert told == [1, 2]


async def test_functions_are_called_before_a_subscription_gets_the_value() -> None:
    signal: Signal[int] = Signal()
    subscription = signal.subscribe(limit=10)
    signal.add(lambda value: subscription.close())
    signal(1)
    assert await _all(subscription) == []


@pytest.mark.threat(9)
async def test_a_subscription_that_overflows_says_how_much_was_missed() -> None:
    signal: Signal[int] = Signal()
    subscription = signal.subscribe(limit=2)
    for number in range(5):
        signal(number)
    assert [await anext(subscription), await anext(subscription)] == [0, 1]
    with pytest.raises(MewError, match="fell behind and missed 3 messages"):
        await anext(subscription)
    signal(9)
    assert await anext(subscription) == 9


async def test_a_fault_reaches_who_asked_for_faults_after_the_signal_were_made() -> None:
    faults: list[str] = []
    errors: Signal[Exception] = Signal()
    signal: Signal[str] = Signal(on_fault=errors)
    signal.add(lambda what: 1 // 0)  # type: ignore[arg-type, return-value]
    errors.add(lambda fault: faults.append(type(fault).__name__))
    signal("x")
    assert faults == ["ZeroDivisionError"]
