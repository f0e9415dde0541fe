"""A ledger of calls that is told of envelopes, as a participant that has looked at each of them tells it."""

from __future__ import annotations

from mew_lab.ledger.calls import CallLedger, Change, Proposal
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope


class Book:
    """A ledger, and its proposals."""

    def __init__(self, **bounds: int) -> None:
        self.ledger = CallLedger(**bounds)
        self.proposals = self.ledger.proposals
        self.get = self.proposals.get
        self._count = 0

    def observe(self, envelope: Envelope) -> tuple[Change, ...]:
        """What it changed of proposals."""
        self._count += 1
        changes = self.ledger.observe(Entry.of(envelope, self._count, malformed=False))
        return tuple(change for change in changes if isinstance(change.call, Proposal))
