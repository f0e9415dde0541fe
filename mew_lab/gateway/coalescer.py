"""Coalesces writes: each queue writes once for a turn of the loop, or once for a batch of messages.

A delivery queue with something to write registers here. Everything is written before the loop sleeps, so nothing is
delayed by a timer. This module knows neither frames nor sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, Protocol, TypeVar

__all__ = ["WriteCoalescer", "Writer"]

T = TypeVar("T")


class Writer(Protocol):
    """An object with collected writes."""

    def flush(self) -> None:
        """Writes everything that was collected."""


class WriteCoalescer:
    """The writers of one server that have something to write in this turn of the loop."""

    __slots__ = ("_held", "_scheduled", "_writers")

    def __init__(self) -> None:
        self._writers: list[Writer] = []
        self._scheduled = False
        self._held = False

    def add(self, writer: Writer) -> None:
        """Registers `writer` for the flush of this turn of the loop; to be called once between two flushes."""
        self._writers.append(writer)
        if not self._held and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Flushes all registered writers."""
        self._scheduled = self._held = False
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.flush()

    def hold(self) -> None:
        """Defers all writes until the next `flush` or `before_waiting`, while a batch is handled.

        It saves a turn of the loop for each batch. Nothing else may be awaited in between.
        """
        self._held = True

    @coroutine
    def before_waiting(self, coming: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Awaits `coming` and returns its result; flushes first, unless the result is available at once."""
        try:
            waits_for = coming.send(None)
        except StopIteration as at_once:
            return at_once.value  # type: ignore[no-any-return]
        except BaseException:
            self.flush()
            raise
        self.flush()
        while True:
            try:
                sent = yield waits_for
            except BaseException as fault:
                # Into the coroutine and not through us: that is where it may be handled.
                step = partial(coming.throw, fault)
            else:
                step = partial(coming.send, sent)
            try:
                waits_for = step()
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
