"""Callbacks: each is told until it ends that, whatever the others do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from mew_lab.lab.subscribers import Subscribers


def test_all_are_told_in_the_order_in_which_they_came_until_they_end_it() -> None:
    subscribers: Subscribers[str] = Subscribers()
    told: list[str] = []
    end = subscribers.add(lambda what: told.append(f"first {what}"))
    subscribers.add(lambda what: told.append(f"second {what}"))
    subscribers.tell("a")
    end()
    subscribers.tell("b")
    assert told == ["first a", "second a", "second b"]


def test_the_same_callback_twice_is_told_twice_and_each_end_ends_one_of_them() -> None:
    subscribers: Subscribers[()] = Subscribers()
    told: list[int] = []

    def callback() -> None:
        told.append(1)

    end, other = subscribers.add(callback), subscribers.add(callback)
    subscribers.tell()
    assert len(told) == 2
    end()
    end()
    subscribers.tell()
    assert len(told) == 3
    other()
    subscribers.tell()
    assert len(told) == 3 and len(subscribers) == 0


def test_one_that_raises_is_named_in_the_log_and_the_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    subscribers: Subscribers[()] = Subscribers()
    told: list[int] = []

    def stumbles() -> None:
        raise ValueError("no such row")

    subscribers.add(stumbles)
    subscribers.add(lambda: told.append(1))
    subscribers.tell()
    subscribers.tell()
    assert told == [1, 1]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "stumbles" in caplog.text and "no such row" in caplog.text


def test_one_that_ends_another_or_adds_one_meanwhile_changes_the_next_telling() -> None:
    subscribers: Subscribers[()] = Subscribers()
    told: list[str] = []
    ends: list[Callable[[], None]] = []

    def first() -> None:
        told.append("first")
        while ends:
            ends.pop()()
            subscribers.add(lambda: told.append("third"))

    subscribers.add(first)
    ends.append(subscribers.add(lambda: told.append("second")))
    subscribers.tell()
    assert told == ["first", "second"]
    subscribers.tell()
    assert told[2:] == ["first", "third"]


def test_after_clearing_nobody_is_told_and_ends_are_harmless() -> None:
    subscribers: Subscribers[()] = Subscribers()
    told: list[int] = []
    end = subscribers.add(lambda: told.append(1))
    subscribers.clear()
    subscribers.tell()
    end()
    assert told == []


def test_an_end_that_comes_within_another_on_one_thread_does_not_wait_for_itself() -> None:
    subscribers: Subscribers[()] = Subscribers()
    told: list[int] = []
    ends: list[Callable[[], None]] = []

    class Meddler:
        """Ends another when it is looked at."""

        def __call__(self) -> None:
            pass

        def __eq__(self, other: object) -> bool:
            ends[0]()
            return self is other

        __hash__ = None  # type: ignore[assignment]

    subscribers.add(Meddler())
    ends += [subscribers.add(lambda: None), subscribers.add(lambda: told.append(1))]
    thread = threading.Thread(target=ends[1], daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    subscribers.tell()
    assert told == []


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_none_is_lost_where_many_threads_come_and_go(hurried: None) -> None:
    subscribers: Subscribers[()] = Subscribers()
    told: list[int] = []

    def come_and_go(n: int) -> None:
        for _ in range(1000):
            subscribers.add(lambda: None)()
        subscribers.add(lambda: told.append(n))

    threads = [threading.Thread(target=come_and_go, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    subscribers.tell()
    assert sorted(told) == [0, 1, 2, 3] and len(subscribers) == 4
