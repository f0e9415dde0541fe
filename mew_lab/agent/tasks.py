"""Begins tasks in the background, counts them, and ends them together; it knows not what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Tasks"]


class Tasks:
    """Those of one agent. `report` is told what one raises; nobody else awaits it."""

    def __init__(self, *, report: Callable[[Exception], object]) -> None:
        self._report = report
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Lets it run, beside the others."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def cancel(self) -> set[asyncio.Task[Any]]:
        """Cancels all but the one that calls this; returns them."""
        others = self._running - {asyncio.current_task()}
        for task in others:
            task.cancel()
        return others

    async def end(self, *, within: float) -> None:
        """Cancels all but the one that calls this, and returns when they have ended, or after so many seconds."""
        others = self.cancel()
        if others:
            await asyncio.wait(others, timeout=within)

    def _ended(self, done: asyncio.Task[Any]) -> None:
        self._running.discard(done)
        fault = None if done.cancelled() else done.exception()
        if isinstance(fault, Exception):
            self._report(fault)
