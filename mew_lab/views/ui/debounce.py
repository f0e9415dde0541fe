"""Debouncing: many small changes cause one call, a moment later.

A `Debounce` belongs to the running event loop; where none runs it does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Debounce"]


class Debounce:
    """Calls `work` on the running loop, once for all requests that arrived meanwhile."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._due: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> None:
        """Calls `work` in that many seconds at the latest."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._due is not None:
            if self._due.when() <= loop.time() + seconds:
                return
            self._due.cancel()
        self._due = loop.call_later(seconds, self._do)

    def cancel(self) -> None:
        """Drops a call that is due."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _do(self) -> None:
        self._due = None
        self._work()
