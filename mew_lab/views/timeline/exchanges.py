"""Follows the exchange that somebody looks at, and what has come of it by now.

Nothing is kept before the first question: then the newest 20 000 envelopes are read once, in turns that hold nobody up,
and from then on followed, so that an exchange grows while it is looked at. Everything happens on the loop's thread;
`selected` is replaced, never changed, so any thread may read it. It draws nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from mew_lab.errors import JournalError
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.log.chains import MOST_HELD, Chains, Exchange

__all__ = ["ExchangeSelection"]

SETTLED = 0.2  # seconds between two looks at a growing exchange
PATIENCE = 30.0


class ExchangeSelection:
    """The exchange selected in a space, with all that belongs to it."""

    def __init__(self, following: EntryFeed, *, most: int = MOST_HELD) -> None:
        self._following = following
        self._chains = Chains(most=most)
        self._reading = False
        self._stale = False
        self._seqs: frozenset[int] = frozenset()
        self._subscribers: Subscribers[()] = Subscribers()
        self.selected: Exchange | None = None

    async def select(self, which: str | int) -> Exchange:
        """Looks for the envelope with that id, or that number in the feed, and for what belongs to it.

        Raises:
            JournalError: when there is none, or it is not held any more.
        """
        if not self._reading:
            self._reading = True
            self._following.add(self)
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._following.caught_up(self):  # noqa: ASYNC110
                    await asyncio.sleep(0)
        except TimeoutError:
            raise JournalError(
                f"Reading the log took more than {PATIENCE:.0f} s, so no exchange was selected; try it again."
            ) from None
        exchange = self._chains.exchange(which)
        self._show(exchange)
        return exchange

    def forget(self) -> None:
        """Nothing is selected any more; what was read is kept for the next question."""
        self._seqs, self.selected = frozenset(), None
        self._subscribers.tell()

    def close(self) -> None:
        """Follows no more. To be called on the loop's thread."""
        self._following.remove(self)

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back when another exchange is selected or the selected one has grown; returns what ends it."""
        return self._subscribers.add(on_change)

    def take(self, entry: Entry) -> None:
        """Takes the next envelope."""
        self._chains.add(entry)
        if self._seqs and not self._stale and self._chains.belongs(entry, self._seqs):
            self._stale = True
            with contextlib.suppress(RuntimeError):
                # Many may follow at once; one look a while later sees them all.
                asyncio.get_running_loop().call_later(SETTLED, self._look_again)
                return
            self._look_again()

    def _look_again(self) -> None:
        self._stale = False
        if self.selected is not None:
            # It may be held no more by now: then it stays as it was.
            with contextlib.suppress(JournalError):
                self._show(self._chains.exchange(self.selected.selected.seq))

    def _show(self, exchange: Exchange) -> None:
        self._seqs = frozenset(step.seq for step in exchange.steps)
        self.selected = exchange
        self._subscribers.tell()
