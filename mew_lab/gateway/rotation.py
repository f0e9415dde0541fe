"""Schedules senders fairly, so that no participant occupies the loop, even with many connections.

All messages of one turn of the loop share one time slice. When it is over, every sender waits for the next turn; the
sender that was served least recently goes first, however many connections the others have.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Hashable

__all__ = ["QUANTUM", "SLICE", "Rotation"]

SLICE = 0.01  # seconds of messages in one turn of the loop
UNNOTICED = 0.001  # seconds of messages up to which no new slice is scheduled for the next turn
QUANTUM = 0.002  # seconds that a sender that has waited may go on before others are considered


class Rotation:
    """The senders of one server that have messages to be handled."""

    __slots__ = ("_due", "_loop", "_numbers", "_scheduled", "_served", "_spent", "_waiting")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._spent = (
            0.0  # seconds of messages in this turn of the loop, and of those before it that were too short
        )
        self._scheduled = False  # a new slice is scheduled for the next turn of the loop
        self._due = 0  # senders that have waited and are about to check again
        self._waiting: list[tuple[Hashable, asyncio.Future[None]]] = []
        # while a sender waits: the order in which senders were last let on
        self._served: dict[Hashable, int] = {}
        self._numbers = itertools.count(1)

    @property
    def over(self) -> bool:
        """Whether a sender must `wait`; False when its message may be handled now."""
        return self._spent > SLICE or self._due > 0 or bool(self._waiting)

    def spend(self, seconds: float) -> None:
        """Counts the seconds that a message has occupied the loop."""
        self._spent += seconds
        if self._spent > UNNOTICED and not self._scheduled:
            self._notice()

    async def wait(self, sender: Hashable) -> None:
        """Returns when a message of `sender` is to be handled."""
        loop = asyncio.get_running_loop()
        while True:
            turn = loop.create_future()
            self._waiting.append((sender, turn))
            if not self._scheduled:
                self._notice()
            try:
                await turn
            finally:
                if turn.done() and not turn.cancelled():
                    self._due -= 1
            if self._spent <= SLICE:
                self._served[sender] = next(self._numbers)
                return

    def _notice(self) -> None:
        """Schedules a new slice for the next turn of the loop."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        self._scheduled = True
        loop.call_soon(self._next)

    def _next(self) -> None:
        """Starts the slice of a new turn of the loop: all waiting senders check again, in order."""
        self._spent = 0.0
        self._scheduled = False
        waiting = [pair for pair in self._waiting if not pair[1].done()]
        self._waiting = []
        if not waiting:
            self._served.clear()
            return
        served = self._served
        self._due = len(waiting)
        for _, turn in sorted(waiting, key=lambda pair: served.get(pair[0], 0)):
            turn.set_result(None)
        self._notice()
