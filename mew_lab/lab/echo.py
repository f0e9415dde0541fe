"""Waits until an envelope that this process sent has come back: the next verb can then refer to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope

__all__ = ["Echo"]

SEEN_WITHIN = 1.0  # seconds
MAX_SEEN = 1000


class Echo:
    """The ids that one participant has received."""

    def __init__(self) -> None:
        self._ids: BoundedDict[str, None] = BoundedDict(MAX_SEEN)
        self._news = asyncio.Event()

    def take(self, envelope: Envelope) -> None:
        """One more message was received."""
        self._ids[envelope.id] = None
        self._news.set()

    async def wait(self, id: str, *, unless: Callable[[], bool]) -> None:
        """Returns once that message was received, after a second, or when `unless` holds: a refused one never is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WITHIN):
                while id not in self._ids and not unless():
                    self._news.clear()
                    await self._news.wait()
