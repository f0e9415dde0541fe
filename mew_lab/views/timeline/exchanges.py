"""Follows the selected exchange of a space while it grows.

Nothing is read before the first selection. Then the newest 20 000 envelopes are read once, in short turns of the loop,
and later ones are followed, so that the selected exchange grows. Everything happens on the loop's thread; `selected` is
replaced, never changed, so any thread may read it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

from mew_lab.errors import JournalError
from mew_lab.lab.entry_feed import Follower
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.log.chains import MOST_HELD, Chains, Exchange
from mew_lab.log.numbering import name_of
from mew_lab.views.ui.debounce import Debounce

__all__ = ["ExchangeSelection", "FollowableFeed"]

SETTLED = 0.2  # seconds between two updates of a growing exchange
PATIENCE = 30.0


class FollowableFeed(Protocol):
    """Feeds envelopes to followers, as an `EntryFeed` does."""

    def add(self, follower: Follower) -> None: ...
    def remove(self, follower: Follower) -> None: ...
    def caught_up(self, follower: Follower) -> bool: ...


class ExchangeSelection:
    """The selected exchange of a space, with all envelopes that belong to it."""

    def __init__(self, following: FollowableFeed, *, most: int = MOST_HELD) -> None:
        self._following = following
        self._chains = Chains(most=most)
        self._reading = False
        self._soon = Debounce(self._update)
        self._seqs: frozenset[int] = frozenset()
        self.changed: Subscribers[()] = Subscribers()
        self.selected: Exchange | None = None

    async def select(self, which: str | int) -> Exchange:
        """Selects the exchange of the envelope with that id, or that number in the feed, and returns it.

        Raises:
            JournalError: when there is no such envelope, or it is no longer held.
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
        exchange = self._chains.exchange(name_of(which))
        self._show(exchange)
        return exchange

    def forget(self) -> None:
        """Clears the selection; the envelopes that were read are kept for the next one."""
        self._seqs, self.selected = frozenset(), None
        self.changed.tell()

    def close(self) -> None:
        """Stops following the space. To be called on the loop's thread."""
        self._following.remove(self)

    def take(self, entry: Entry) -> None:
        """Adds the next envelope."""
        self._chains.add(entry)
        if self._seqs and self._chains.belongs(entry, self._seqs):
            self._soon.within(SETTLED)

    def _update(self) -> None:
        if self.selected is not None:
            # An exchange that is no longer held stays as it was.
            with contextlib.suppress(JournalError):
                self._show(self._chains.exchange(self.selected.selected.seq))

    def _show(self, exchange: Exchange) -> None:
        self._seqs = frozenset(step.seq for step in exchange.steps)
        self.selected = exchange
        self.changed.tell()
