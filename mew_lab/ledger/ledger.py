"""Holds all chapters of the ledger over one sequence of entries.

Each chapter keeps its own rules and its own limits, and none knows another. `Ledger.observe` tells all of them of an
entry and returns what changed, chapter after chapter.

Spec: §3.
"""

from __future__ import annotations

from mew_lab.ledger.calls import CallLedger, Change
from mew_lab.ledger.chats import ChatChange, ChatLedger
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.reasoning import ReasoningChange, ReasoningLedger

__all__ = ["Ledger", "LedgerChange"]

LedgerChange = Change | ChatChange | ReasoningChange


class Ledger:
    """What became of everything in a space, as one participant or one journal saw it.

    Attributes:
        calls: Requests and proposals.
        chats: Chat messages, their acknowledgements and cancels.
        reasoning: Sequences of reasoning.
    """

    def __init__(self) -> None:
        self.calls = CallLedger()
        self.chats = ChatLedger()
        self.reasoning = ReasoningLedger()

    def observe(self, entry: Entry, *, checked: bool = False) -> tuple[LedgerChange, ...]:
        """Takes note of one entry; to be called for each of the space, in order, own echoes included.

        Args:
            checked: Whether it is known to be well-formed, so that it is not looked at again.
        """
        return (
            *self.calls.observe(entry, checked=checked),
            *self.chats.observe(entry, checked=checked),
            *self.reasoning.observe(entry, checked=checked),
        )

    def interrupted(self) -> None:
        """The connection broke: what is undecided may have been decided unseen."""
        self.calls.interrupted()
