"""The events of the SDK: a `Signal` calls functions and feeds iterators, a `Sending` is a message on its way.

A signal is called with a value. It calls all added functions in order, and then puts the value into each open
subscription. A function without parameters is called without the value (`fit_handler`). An exception of a function goes
to `on_fault` and stops neither the other functions nor the caller. A coroutine function runs as a task of its own.

Everything runs on one loop, so nothing is locked.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast

from mew_lab.errors import CannotWait, ConnectionLost, MewError

__all__ = [
    "OwnEvent",
    "Sending",
    "Signal",
    "Subscription",
    "at_once",
    "begins_unawaited",
    "check_loop",
    "fit_handler",
    "require_loop",
    "run_later",
]

logger = logging.getLogger(__name__)
Value = TypeVar("Value")
Owner = TypeVar("Owner")
Given = ParamSpec("Given")
_running: set[asyncio.Task[Any]] = set()  # a task without a reference may be collected while it runs


def check_loop(loop: asyncio.AbstractEventLoop | None, who: str) -> None:
    """Checks that the caller runs on `loop`; None stands for any.

    Raises:
        CannotWait: it runs on another loop, or on none, where it would wait for ever.
    """
    if loop is not None:
        require_loop(loop, who)


def require_loop(loop: asyncio.AbstractEventLoop | None, who: str) -> asyncio.AbstractEventLoop:
    """The running loop, which is `loop`; None stands for any. Raises as `check_loop`, also where no loop runs."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is None or (loop is not None and here is not loop):
        raise CannotWait(
            f"{who} cannot be used here: it belongs to another event loop, so this would never end. In a notebook give "
            "the coroutine to its seat, such as `seat.run(seat.participant.chat('hi'))`; where nothing is awaited, use "
            "the methods of the seat"
        )
    return here


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread; None where none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def fit_handler(handler: Callable[..., Any], most: int = 1) -> Callable[..., Any]:
    """The handler as a function of `most` arguments: it gets the first of them, as many as it takes.

    Where it has no signature that can be read, it gets all.

    Raises:
        MewError: it needs more arguments.
    """
    if _takes(handler, most):
        return handler
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return handler
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return handler
    by_place = [
        each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if sum(each.default is each.empty for each in by_place) > most:
        raise MewError(
            f"Cannot take {getattr(handler, '__name__', 'it')}({', '.join(each.name for each in by_place)}) as a "
            f"handler: it is called with {most or 'no'} argument{'' if most == 1 else 's'}; give the others a default"
        )
    count = len(by_place)
    return handler if count >= most else lambda *values: handler(*values[:count])


def _takes(handler: Callable[..., Any], count: int) -> bool:
    """Whether a plain function or method takes so many arguments, in short: handlers are added with every call."""
    function = getattr(handler, "__func__", handler)
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        return False
    takes = code.co_argcount - (function is not handler)
    return bool(takes >= count >= takes - len(function.__defaults__ or ()))


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


class Sending(Coroutine[Any, Any, Value]):
    """A message that was handed over. Awaiting gives `result` once the link has taken it, and need not be done.

    The error of one that nobody awaits goes to `report`.

    Args:
        sent: done when the link has taken it; cancelling it takes the message back.
        explain: makes the error of a lost message, of the result and the reason.
    """

    __slots__ = ("_awaited", "_explain", "_report", "_result", "_sent", "_steps")

    def __init__(
        self,
        sent: asyncio.Future[None],
        result: Value,
        explain: Callable[[Value, ConnectionLost], MewError],
        report: Callable[[Exception], object],
    ) -> None:
        self._sent = sent
        self._result = result
        self._explain = explain
        self._report = report
        self._awaited = False
        self._steps: Generator[Any, None, Value] | None = None

    def __await__(self) -> Generator[Any, None, Value]:
        self._awaited = True
        try:
            yield from self._sent
        except ConnectionLost as lost:
            raise self._explain(self._result, lost) from None
        return self._result

    # A task may be made of it, as of any coroutine.

    def send(self, value: Any) -> Any:
        """Takes the next step of awaiting it."""
        self._steps = self._steps or self.__await__()
        return self._steps.send(value)

    def throw(self, *fault: Any) -> Any:
        """Takes the next step with an exception."""
        self._steps = self._steps or self.__await__()
        return self._steps.throw(*fault)

    def close(self) -> None:
        """Stops awaiting it; the message is sent all the same."""
        if self._steps is not None:
            self._steps.close()

    def __del__(self) -> None:
        if self._awaited:
            return
        tell = functools.partial(_tell_lost, self._result, self._explain, self._report)
        if not self._sent.done():
            self._sent.add_done_callback(tell)
        else:
            tell(self._sent)


def _tell_lost(
    result: Value,
    explain: Callable[[Value, ConnectionLost], MewError],
    report: Callable[[Exception], object],
    sent: asyncio.Future[None],
) -> None:
    fault = None if sent.cancelled() else sent.exception()
    if isinstance(fault, ConnectionLost):
        report(explain(result, fault))


def at_once(
    method: Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Value]]:
    """Decorator of a method that sends when it is called, awaited or not.

    Where it raises a CannotWait, because it is called on another loop than its own or on none, the decorated method
    returns a coroutine that sends where it runs.
    """

    @functools.wraps(method)
    def call(self: Owner, *args: Given.args, **kwargs: Given.kwargs) -> Coroutine[Any, Any, Value]:
        try:
            return method(self, *args, **kwargs)
        except CannotWait:
            pass

        async def later() -> Value:
            return await method(self, *args, **kwargs)

        later.__qualname__ = method.__qualname__
        return later()

    return cast(Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Value]], call)


class _Unawaited(Coroutine[Any, Any, Value]):
    """A coroutine that runs as a task of its own where nobody awaits it."""

    __slots__ = ("_begun", "_report", "_work")

    def __init__(self, work: Coroutine[Any, Any, Value], report: Callable[[Exception], object]) -> None:
        self._begun = False
        self._report = report
        self._work = work

    def __await__(self) -> Generator[Any, Any, Value]:
        self._begun = True
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        self._begun = True
        return self._work.send(value)

    def throw(self, *fault: Any) -> Any:
        self._begun = True
        return self._work.throw(*fault)

    def close(self) -> None:
        self._begun = True
        self._work.close()

    def __del__(self) -> None:
        if not self._begun and running_loop() is not None:
            run_later(self._work, self._report)


def begins_unawaited(
    method: Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Value]]:
    """Decorator of a coroutine method that runs also where it is called on a loop and not awaited.

    Its errors go to the method `report` of the object then.
    """

    @functools.wraps(method)
    def call(self: Owner, *args: Given.args, **kwargs: Given.kwargs) -> Coroutine[Any, Any, Value]:
        return _Unawaited(method(self, *args, **kwargs), self.report)  # type: ignore[attr-defined]

    return cast(Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Value]], call)


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
        function = fit_handler(function)
        self._functions.append(function)

        def remove() -> None:
            if function in self._functions:
                self._functions.remove(function)

        return remove

    def subscribe(self, *, limit: int) -> Subscription[Value]:
        """A subscription to every value from now on, for `async for`; it holds at most `limit` unread values."""
        subscription: Subscription[Value] = Subscription(limit=limit, on_close=self._subscriptions.remove)
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
