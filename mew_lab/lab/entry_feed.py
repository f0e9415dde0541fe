"""Feeds every envelope of a live log to the models of the views, once and in the order of the journal.

A `Follower` that is added late first gets the envelopes that the log holds in memory, a few milliseconds at a time,
while new ones queue. So a view opens at once and then fills. Each text is parsed once for all followers that were added
together.

What the envelopes mean is computed once for all followers: a `LedgerFollower` gets with each envelope what one `Ledger`
made of it, and that ledger to read. So all views of a space give one answer. Followers that are added late get those of
a second one, which reads the earlier envelopes and is dropped when they have caught up. Without a follower of the ledger
there is none.

Everything runs on the loop's thread, so a follower needs no lock for writing; state that other threads read must be
replaced, not changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.log.decision_note import resolve_reported
from mew_lab.log.entries import entry_of, number_after
from mew_lab.log.log import Log
from mew_lab.space.events import REPORTED, Record

__all__ = ["EntryFeed", "Follower", "LedgerFollower", "new_ledger"]

logger = logging.getLogger(__name__)

AT_ONCE = 1000  # envelopes that a follower gets at once
STEP = 16  # envelopes between two readings of the clock
# Seconds for late followers, and then for other work of the loop: a view fills in half of its time, and a message of the
# space waits no longer than this.
TURN = 0.005
MOST_KINDS = 256
GATHERING = 0.2  # seconds of the wait for other followers
MAX_SEQUENCES = 200  # of reasoning: the reasoning view holds up to 500 steps of each


@runtime_checkable
class Follower(Protocol):
    """A receiver of every envelope. `take` is called on the loop's thread; its exceptions are logged.

    `kinds`, where it has them, are prefixes of kinds: it then gets only envelopes of those.
    """

    def take(self, entry: Entry) -> None: ...


@runtime_checkable
class LedgerFollower(Protocol):
    """A reader of the ledger; it may be a `Follower`, too, and then takes the changes by an envelope before that itself.

    `kinds` are as those of a `Follower`.
    """

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Takes the changes by one envelope, or none; `ledger` made them, to be read only until the next call."""


def new_ledger(logical: Callable[[str], str] = str) -> Ledger:
    """A ledger that holds as much as the views can show."""
    ledger = Ledger(logical=logical)
    ledger.reasoning.limit = MAX_SEQUENCES
    return ledger


class _Audience:
    """Followers, each with the envelopes of its kinds; `first` is the number of the first entry in `ledger`."""

    def __init__(self, logical: Callable[[str], str]) -> None:
        self.followers: tuple[Follower | LedgerFollower, ...] = ()
        self.ledger: Ledger | None = None
        self.first = 0
        self._logical = logical
        self._concerned: dict[str, tuple[tuple[Follower | None, LedgerFollower | None], ...]] = {}  # by kind

    def add(self, follower: Follower | LedgerFollower, first: int) -> None:
        """Adds a follower; the next entry that it gets is number `first`."""
        self.followers += (follower,)
        self._concerned.clear()
        if self.ledger is None and isinstance(follower, LedgerFollower):
            self.ledger, self.first = new_ledger(self._logical), first

    def join(self, late: _Audience) -> None:
        """Takes over followers that have caught up. Of the two ledgers, the one that has read more is kept."""
        self.followers += late.followers
        self._concerned.clear()
        if late.ledger is not None and (self.ledger is None or late.first < self.first):
            self.ledger, self.first = late.ledger, late.first

    def remove(self, follower: Follower | LedgerFollower) -> None:
        self.followers = tuple(other for other in self.followers if other is not follower)
        self._concerned.clear()
        if not any(isinstance(other, LedgerFollower) for other in self.followers):
            self.ledger = None

    def _observe(self, ledger: Ledger, entry: Entry) -> tuple[LedgerChange, ...]:
        try:
            return ledger.observe(entry)
        except Exception:
            logger.exception("Ledger: envelope %d was left out", entry.seq)
            return ()

    def feed(self, entry: Entry) -> None:
        ledger = self.ledger
        changes = self._observe(ledger, entry) if ledger is not None else ()
        concerned = self._concerned.get(entry.kind)
        if concerned is None:
            if len(self._concerned) >= MOST_KINDS:  # any participant may invent kinds
                self._concerned.clear()
            # Which protocols a follower has is examined once a kind, for that costs more than most followers do.
            concerned = self._concerned[entry.kind] = tuple(
                (
                    follower if isinstance(follower, Follower) else None,
                    follower if isinstance(follower, LedgerFollower) else None,
                )
                for follower in self.followers
                if entry.kind.startswith(getattr(follower, "kinds", ("",)))
            )
        for follower, reader in concerned:
            try:
                if reader is not None and ledger is not None:
                    reader.take_changes(changes, ledger)
                if follower is not None:
                    follower.take(entry)
            except Exception:
                logger.exception("%s: envelope %d was left out", type(follower or reader).__name__, entry.seq)

    def resolve(self, record: Record) -> None:
        """Takes a report of what became of a call of unknown outcome."""
        ledger = self.ledger
        changes = resolve_reported(ledger.calls, record) if ledger is not None else ()
        for follower in self.followers if changes else ():
            if isinstance(follower, LedgerFollower) and ledger is not None:
                try:
                    follower.take_changes(changes, ledger)
                except Exception:
                    logger.exception("%s: a resolution was left out", type(follower).__name__)


class _Backlog:
    """Followers that were added together, and the held envelopes that they have not received yet."""

    def __init__(self, records: list[Record], sign: str, logical: Callable[[str], str]) -> None:
        self.sign = sign
        self.audience = _Audience(logical)
        # Numbered when they are fed: a tuple for each record of a long log would be most of the cost of a view.
        self.records = records
        self.last = 0
        self.position = 0
        self.timer: asyncio.TimerHandle | None = None
        self.begun = False

    @property
    def waiting(self) -> bool:
        return bool(self.audience.followers) and self.position < len(self.records)

    def feed(self, most: int) -> None:
        """Feeds the next envelopes, up to `most`, to all of them."""
        for record in self.records[self.position : self.position + most]:
            self.last = number_after(record, self.last)
            self.audience.feed(entry_of(record, self.last, sign=self.sign))
            self.position += 1


class EntryFeed:
    """The followers of one live log.

    Args:
        logical: Maps the id of a connection to the name of its participant; by default each id is a participant.
    """

    def __init__(self, log: Log, *, logical: Callable[[str], str] = str) -> None:
        self._log = log
        self._logical = logical
        self._sign = log.sign
        self._last = 0
        self._late: list[_Backlog] = []
        self._live = _Audience(logical)

    def observe(self, record: Record, members: Mapping[str, Any] | None = None) -> None:
        """Takes the next record; only records that hold a message are fed.

        `members` are those of its message, where known.
        """
        if record.event == REPORTED:
            self._live.resolve(record)
        if record.raw is None:
            return
        self._last = number_after(record, self._last)
        for backlog in self._late:
            backlog.records.append(record)
        if self._live.followers:
            self._live.feed(entry_of(record, self._last, members, sign=self._sign))

    def add(self, follower: Follower | LedgerFollower, *, earlier: bool = True) -> None:
        """Adds a follower: it gets the held envelopes (if `earlier`), then new ones. To be called on the loop's thread.

        A short log is fed at once. For a long one it waits briefly for other followers, so that the parts of a control
        room are fed together; it then takes at most half of the loop's time.
        """
        if not earlier:
            self._live.add(follower, self._last + 1)
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # without a running loop nothing can be delayed
            loop = None
        backlog = next((backlog for backlog in self._late if not backlog.begun), None)
        if loop is None or backlog is None:
            held = [record for record in self._log.held if record.raw is not None]
            backlog = _Backlog(held, self._sign, self._logical)
            if loop is None or len(held) <= AT_ONCE:
                backlog.audience.add(follower, 1)
                backlog.feed(len(held))
                self._join(backlog)
                return
            self._late.append(backlog)
        backlog.audience.add(follower, 1)
        if backlog.timer is not None:
            backlog.timer.cancel()
        backlog.timer = loop.call_later(GATHERING, self._go_on, backlog, loop)

    def remove(self, follower: Follower | LedgerFollower) -> None:
        """Removes a follower; it gets no further envelopes."""
        for audience in (self._live, *(backlog.audience for backlog in self._late)):
            audience.remove(follower)

    def caught_up(self, follower: Follower | LedgerFollower) -> bool:
        """Whether the follower has received every envelope so far."""
        return follower in self._live.followers

    def _go_on(self, backlog: _Backlog, loop: asyncio.AbstractEventLoop) -> None:
        backlog.begun = True
        end = loop.time() + TURN
        while backlog.waiting and loop.time() < end:
            backlog.feed(STEP)
        if backlog.waiting:
            backlog.timer = loop.call_later(TURN, self._go_on, backlog, loop)
            return
        self._late.remove(backlog)
        self._join(backlog)

    def _join(self, backlog: _Backlog) -> None:
        self._live.join(backlog.audience)
        for record in self._log.held:  # a backlog has messages alone
            if record.event == REPORTED:
                self._live.resolve(record)
