"""The events of the SDK: a `Signal` calls functions and feeds iterators.

A signal is called with a value. It calls all added functions in order, and then puts the value into each open
subscription. An exception of a function goes to `on_fault` and stops neither the other functions nor the caller. A
coroutine function runs as a task of its own.

Everything runs on one loop, so nothing is locked.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from mew_lab.errors import CannotWait, MewError

__all__ = ["OwnEvent", "Signal", "Subscription", "check_loop", "run_later"]

logger = logging.getLogger(__name__)
Value = TypeVar("Value")
_running: set[asyncio.Task[Any]] = set()  # a task without a reference may be collected while it runs


def check_loop(loop: asyncio.AbstractEventLoop | None, who: str) -> None:
    """Checks that the caller runs on `loop`; None stands for any.

    Raises:
        CannotWait: it runs on another loop, or on none, where it would wait for ever.
    """
    if loop is not None and running_loop() is not loop:
        raise CannotWait(
            f"{who} cannot be used here: it belongs to another event loop, so this would never end. In a notebook give "
            "the coroutine to its seat, such as `seat.run(seat.participant.chat('hi'))`; where nothing is awaited, use "
            "the methods of the seat"
        )


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread; None where none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def run_later(result: object, on_fault: Callable[[Exception], object]) -> None:
    """Runs what a handler returned, where that is a coroutine, as a task; `on_fault` gets its exception."""
    if not inspect.iscoroutine(result):
        return

    def end(task: asyncio.Task[Any]) -> None:
        _running.discard(task)
        fault = None if task.cancelled() else task.exception()
        if isinstance(fault, Exception):
            on_fault(fault)

    task = asyncio.get_running_loop().create_task(result)
    _running.add(task)
    task.add_done_callback(end)


class OwnEvent(asyncio.Event):
    """An event of the loop on which it was made; `check` and `wait` raise a CannotWait on another."""

    def __init__(self, who: str) -> None:
        super().__init__()
        self._who = who
        self._home = running_loop()

    def check(self) -> None:
        check_loop(self._home, self._who)

    async def wait(self) -> Literal[True]:
        self.check()
        return await super().wait()


class Signal(Generic[Value]):
    """Functions of one argument, sync or async, and iterators. Calling the signal passes a value to all of them.

    Args:
        on_fault: called with each exception of a function; None logs it.
    """

    __slots__ = ("_functions", "_on_fault", "_subscriptions")

    def __init__(self, *, on_fault: Callable[[Exception], object] | None = None) -> None:
        self._functions: list[Callable[[Value], object]] = []
        self._subscriptions: list[Subscription[Value]] = []
        # Not `or`: a signal without functions is false.
        self._on_fault = _log if on_fault is None else on_fault

    def __len__(self) -> int:
        return len(self._functions) + len(self._subscriptions)

    def add(self, function: Callable[[Value], object]) -> Callable[[], None]:
        """Adds a function that is called with each value; returns a function that removes it."""
        self._functions.append(function)

        def remove() -> None:
            if function in self._functions:
                self._functions.remove(function)

        return remove

    def subscribe(self, *, limit: int) -> Subscription[Value]:
        """A subscription to every value from now on, for `async for`; it holds at most `limit` unread values."""
        subscription: Subscription[Value] = Subscription(limit=limit, on_close=self._unsubscribe)
        self._subscriptions.append(subscription)
        return subscription

    def __call__(self, value: Value) -> None:
        """Calls each function with the value, and puts it into each subscription."""
        for function in tuple(self._functions):
            try:
                later = function(value)
            except Exception as fault:
                self._on_fault(fault)
                continue
            if later is not None:
                run_later(later, self._on_fault)
        if self._subscriptions:
            for subscription in tuple(self._subscriptions):
                subscription.put(value)

    def close(self) -> None:
        """Ends all subscriptions; their unread values stay readable. Functions stay."""
        for subscription in tuple(self._subscriptions):
            subscription.close()

    def _unsubscribe(self, subscription: Subscription[Value]) -> None:
        self._subscriptions.remove(subscription)


def _log(fault: Exception) -> None:
    logger.error("a handler failed: %s: %s", type(fault).__name__, fault)


class Subscription(Generic[Value]):
    """The values of a signal since it was made, in order: `async for` takes them out. Ends when closed and empty.

    It holds at most `limit` values. A reader that falls further behind gets a MewError.
    """

    def __init__(self, *, limit: int, on_close: Callable[[Subscription[Value]], None]) -> None:
        self._values: deque[Value] = deque()
        self._limit = limit
        self._on_close = on_close
        self._lost = 0
        self._closed = False
        self._more = OwnEvent("This subscription")

    def put(self, value: Value) -> None:
        """Adds a value; beyond the limit the value is dropped and counted."""
        if self._lost or len(self._values) >= self._limit:
            self._lost += 1
        else:
            self._values.append(value)
        self._more.set()

    def close(self) -> None:
        """Ends the subscription; unread values stay readable. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._on_close(self)
            self._more.set()

    def __aiter__(self) -> Subscription[Value]:
        return self

    async def __anext__(self) -> Value:
        self._more.check()
        while True:
            if self._values:
                return self._values.popleft()
            if self._lost:
                lost, self._lost = self._lost, 0
                raise MewError(
                    f"this reader fell behind and missed {lost} messages; read faster, or raise its limit"
                )
            if self._closed:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
