"""Remembers the decisions on the calls of one lab, so that a card says what was decided on calls like it.

It holds the newest decisions of this process, whoever made them. What they teach is told by `mew_lab.rules`. Everything
runs on the loop's thread.

Spec: §2.1, §9.4.
"""

from __future__ import annotations

from datetime import datetime

from mew_lab.rules.decided_calls import AskedCall, CallHistories, DecidedCall

__all__ = ["PastDecisions"]

KEPT = 5_000  # decisions
MORE = 1_000  # that are held before the oldest are forgotten


class PastDecisions:
    """The newest decisions, the oldest first."""

    def __init__(self) -> None:
        self._calls: list[DecidedCall] = []
        self._found = CallHistories()

    @property
    def calls(self) -> tuple[DecidedCall, ...]:
        """All of them."""
        return tuple(self._calls)

    def add(self, decided: DecidedCall) -> None:
        """Adds the next decision."""
        self._calls.append(decided)
        self._found.add(decided)
        if len(self._calls) > KEPT + MORE:
            self._calls = self._calls[-KEPT:]
            self._found = CallHistories(self._calls)

    def tell(self, asked: AskedCall, now: datetime) -> str:
        """Such as `like this: 11 approved, 1 rejected, last on Tuesday`; empty where nothing like it was decided."""
        return self._found.of(asked).sentence(now)
