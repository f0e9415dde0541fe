"""Who wants to be told?  Functions called in the order in which they came, or an iterator; it knows not of
what.

A handler that raises does not keep the others from being called, and neither its fault nor a slow one stops
whoever tells: faults go to `on_fault`, and a coroutine runs as a task of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from mew_lab.errors import MewError

__all__ = ["Handlers", "Inbox"]

logger = logging.getLogger(__name__)
Told = TypeVar("Told")
_running: set[asyncio.Task[Any]] = set()  # a task that nobody holds may be collected while it runs


class Handlers(Generic[Told]):
    """Functions of one argument, sync or async."""

    __slots__ = ("_functions", "_on_fault")

    def __init__(self, *, on_fault: Callable[[Exception], object] | None = None) -> None:
        self._functions: list[Callable[[Told], Any]] = []
        # Not `or`: Handlers with nobody in them yet are false.
        self._on_fault = _logged if on_fault is None else on_fault

    def __len__(self) -> int:
        return len(self._functions)

    def add(self, function: Callable[[Told], Any]) -> Callable[[], None]:
        """From now on `function` is told, too; the result, when called, ends that."""
        self._functions.append(function)

        def remove() -> None:
            if function in self._functions:
                self._functions.remove(function)

        return remove

    def __call__(self, what: Told) -> None:
        """Tells everybody."""
        for function in tuple(self._functions):
            try:
                later = function(what)
            except Exception as fault:
                self._on_fault(fault)
                continue
            if inspect.iscoroutine(later):
                task = asyncio.get_running_loop().create_task(later)
                _running.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        _running.discard(task)
        fault = None if task.cancelled() else task.exception()
        if isinstance(fault, Exception):
            self._on_fault(fault)


def _logged(fault: Exception) -> None:
    logger.error("a handler failed: %s: %s", type(fault).__name__, fault)


class Inbox(Generic[Told]):
    """What was told since it was made, in order: `async for` takes it out. Ends when closed and empty.

    It holds at most `limit` items; a reader that falls behind is told so by an error rather than by a gap.
    """

    def __init__(self, *, limit: int, on_close: Callable[[], None]) -> None:
        self._items: deque[Told] = deque()
        self._limit = limit
        self._on_close = on_close
        self._lost = 0
        self._closed = False
        self._more = asyncio.Event()

    def put(self, item: Told) -> None:
        """Adds an item; beyond the limit it is only counted."""
        if self._lost or len(self._items) >= self._limit:
            self._lost += 1
        else:
            self._items.append(item)
        self._more.set()

    def close(self) -> None:
        """Takes nothing more; what is there can still be read. Twice is harmless."""
        if not self._closed:
            self._closed = True
            self._on_close()
            self._more.set()

    def __aiter__(self) -> Inbox[Told]:
        return self

    async def __anext__(self) -> Told:
        while True:
            if self._items:
                return self._items.popleft()
            if self._lost:
                lost, self._lost = self._lost, 0
                raise MewError(
                    f"this reader fell behind and missed {lost} messages; read faster, or raise its limit"
                )
            if self._closed:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
