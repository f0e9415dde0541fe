"""Holds all chapters of the ledger over one sequence of entries.

Each chapter keeps its own rules and its own limits, and none depends on another. `Ledger.observe` passes an entry to
the chapters of its kind and returns their changes in order. It passes malformed entries, too: the gateway acts on some
of these, such as a revoke without a recipient, and each chapter knows which.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from mew_lab.ledger.calls import CALL_KINDS, CallLedger, Change
from mew_lab.ledger.chats import CHAT_KINDS, ChatChange, ChatLedger
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import GRANT_KINDS, GrantChange, GrantLedger
from mew_lab.ledger.members import MEMBER_KINDS, MemberChange, MemberLedger
from mew_lab.ledger.reasoning import ENDS, WITHOUT_CONTEXT, ReasoningChange, ReasoningLedger
from mew_lab.ledger.streams import STREAM_KINDS, StreamChange, StreamLedger

__all__ = ["CHAPTERS", "Ledger", "LedgerChange"]

LedgerChange = Change | ChatChange | ReasoningChange | StreamChange | MemberChange | GrantChange
_Observe = Callable[[Entry], tuple[LedgerChange, ...]]

CHAPTERS: Final = frozenset({"calls", "chats", "reasoning", "streams", "members", "grants"})
"""The names of the chapters."""


class Ledger:
    """The state of everything in a space, as one participant or one journal saw it.

    Args:
        me: The id of the observing participant, whose `calls` and `reasoning` hold less than those of a journal: see
            there. None for a journal.
        logical: Maps the id of a connection to the name of its participant; by default each id is a participant.
        members: A chapter that its owner feeds with each entry before this ledger; None makes one here.
        chapters: The chapters that it passes entries to; the others stay empty.

    Attributes:
        calls: Requests and proposals.
        chats: Chat messages, their acknowledgements and cancels.
        reasoning: Sequences of reasoning.
        streams: Streams, their owners and writers.
        members: The participants and whether each is present, paused, shut down or removed.
        grants: Grants and revokes.
    """

    def __init__(
        self,
        *,
        me: str | None = None,
        logical: Callable[[str], str] = str,
        members: MemberLedger | None = None,
        chapters: Collection[str] = CHAPTERS,
    ) -> None:
        self.calls = CallLedger(me=me)
        self.chats = ChatLedger()
        self.reasoning = ReasoningLedger(takes_steps=me is None)
        self.streams = StreamLedger(me=me)
        self.members = MemberLedger(me=me, logical=logical) if members is None else members
        self.grants = GrantLedger(logical=logical)
        known: list[tuple[str, frozenset[str], _Observe]] = [
            ("calls", CALL_KINDS, self.calls.observe),
            ("chats", CHAT_KINDS, self.chats.observe),
            ("streams", STREAM_KINDS, self.streams.observe),
            ("grants", GRANT_KINDS, self.grants.observe),
        ]
        if me is not None:  # a journal asks nobody, so it need not know whose client waits
            known.append(("calls", frozenset({"participant/status"}), self.calls.observe))
            known.append(("reasoning", ENDS, self.reasoning.observe))
        if members is None:
            known.append(("members", MEMBER_KINDS, self.members.observe))
        observers: dict[str, tuple[_Observe, ...]] = {}
        for name, kinds, observe in known:
            for kind in kinds if name in chapters else ():
                observers[kind] = (*observers.get(kind, ()), observe)
        self._observers: Mapping[str, Sequence[_Observe]] = observers
        # A message of any kind may be a step of a sequence.
        self._passes_steps = self.reasoning.takes_steps and "reasoning" in chapters

    def rename(self, me: str) -> None:
        """Sets the id of the observing participant, which a client knows only from its welcome."""
        self.calls.me = self.streams.me = me

    def observe(self, entry: Entry) -> tuple[LedgerChange, ...]:
        """Records one entry and returns the changes. It needs every entry of the space in order, own echoes included."""
        changes: tuple[LedgerChange, ...] = ()
        for observe in self._observers.get(entry.kind, ()):
            changes += observe(entry)
        if self._passes_steps and (entry.context or entry.kind in WITHOUT_CONTEXT):
            changes += self.reasoning.observe(entry)
        return changes

    def interrupt(self, *, for_good: bool = False) -> tuple[LedgerChange, ...]:
        """Records the end of the connection.

        Own calls that were sent are unknown, undecided proposals uncertain, participants absent, own streams closed.

        Args:
            for_good: Whether no other connection follows.
        """
        ended = self.calls.interrupt()
        return (*ended, *self.members.interrupt(), *self.streams.interrupt(for_good=for_good))
