"""Remembers the decisions on the calls of one lab, so that a card says what was decided on calls like it.

It holds the newest decisions, whoever made them, also those of before where the space was resumed. What they teach is
told by `mew_lab.rules`. Everything runs on the loop's thread.

Spec: §2.1, §9.4.
"""

from __future__ import annotations

from datetime import datetime

from mew_lab.protocol.envelope import compact
from mew_lab.rules.decided_calls import AskedCall, CallHistories, DecidedCall

__all__ = ["PastDecisions"]

KEPT = 5_000  # decisions
MORE = 1_000  # that are held before the oldest are forgotten
MAX_CHARACTERS = 16 * 1024 * 1024  # of all arguments as JSON; proposers choose how long they are


class PastDecisions:
    """The newest decisions, the oldest first."""

    def __init__(self) -> None:
        self._calls: list[DecidedCall] = []
        self._sizes: list[int] = []
        self._size = 0
        self._found = CallHistories()

    @property
    def calls(self) -> tuple[DecidedCall, ...]:
        """All of them."""
        return tuple(self._calls)

    def add(self, decided: DecidedCall) -> None:
        """Adds the next decision."""
        self._calls.append(decided)
        self._sizes.append(len(compact(decided.proposed)))
        self._size += self._sizes[-1]
        self._found.add(decided)
        most = len(self._calls)
        if most <= KEPT + MORE and self._size <= MAX_CHARACTERS:
            return
        first = max(0, most - KEPT)
        left = self._size - sum(self._sizes[:first])
        while left > MAX_CHARACTERS * 3 // 4:
            left -= self._sizes[first]
            first += 1
        self._calls, self._sizes, self._size = self._calls[first:], self._sizes[first:], left
        self._found = CallHistories(self._calls)

    def tell(self, asked: AskedCall, now: datetime) -> str:
        """Such as `like this: 11 approved, 1 rejected, last on Tuesday`; empty where nothing like it was decided."""
        return self._found.of(asked).sentence(now)
