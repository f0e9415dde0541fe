"""Rules about chat between participants: loops of answers, and answers to what is not there.

Spec: §3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mew_lab.ledger.chats import ChatChange
from mew_lab.ledger.ledger import LedgerChange
from mew_lab.log.diagnose.findings import Rule, RuleContext, RuleFamily, word, words
from mew_lab.log.record_ledger import PlacedEntry
from mew_lab.protocol.bounded import BoundedDict

__all__ = ["LOOP_LENGTH", "LOOP_SECONDS", "ChatRules"]

LOOP_LENGTH = 10  # answers in a row between the same few participants
MAX_IN_LOOP = 4  # participants
LOOP_SECONDS = 10.0  # within which each comes: people are slower
MAX_MESSAGES = 10_000

LOOP = Rule(
    "answer-loop",
    "warn",
    "{sender} and {others} have answered each other {count} times in a row, each within {seconds:.0f} s",
)
ACKNOWLEDGED_NOTHING = Rule(
    "acknowledge-without-chat",
    "note",
    "{sender}'s acknowledgement {id} names {about}, which is no chat message of this log",
    "P-3.4.1-1",
)
CANCELLED_NOTHING = Rule(
    "cancel-without-chat",
    "note",
    "{sender}'s cancel {id} names {about}, which is no chat message of this log",
    "P-3.4.2-1",
)


class _Link(NamedTuple):
    """A chat message as the end of a chain of `length` answers; `people` are their senders, and the first addressee."""

    sender: str
    people: frozenset[str]
    t: float
    length: int


class ChatRules(RuleFamily):
    """The rules about chat."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.kinds = {"chat": self._on_chat}
        self.changes = {ChatChange: self._on_change}
        self._links: BoundedDict[str, _Link] = BoundedDict(MAX_MESSAGES)  # by id of the message
        # (sender, addressee) -> the newest message that one sent to the other alone
        self._direct: BoundedDict[tuple[str, str], _Link] = BoundedDict(MAX_MESSAGES, refresh=True)

    def _on_chat(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        sender, to = entry.sender, entry.to
        before = next((self._links[id] for id in entry.correlation_id if id in self._links), None)
        most = MAX_IN_LOOP
        if before is None and len(to) == 1:
            before = self._direct.pop((to[0], sender), None)
            most = 2
        length, people = 1, frozenset((sender, *to)) if len(to) == 1 else frozenset((sender,))
        if before is not None and before.sender != sender and entry.t - before.t <= LOOP_SECONDS:
            length, people = before.length + 1, before.people | {sender}
            if len(people) > most:
                length, people = 2, frozenset((before.sender, sender))
        link = _Link(sender, people, entry.t, length)
        if entry.id:
            self._links[entry.id] = link
        if len(to) == 1:
            self._direct[sender, to[0]] = link
        if length == LOOP_LENGTH:
            self.report(
                LOOP,
                entry,
                *entry.correlation_id,
                sender=word(sender),
                others=words(sorted(people - {sender})),
                count=length,
                seconds=LOOP_SECONDS,
            )

    def _on_change(self, change: ChatChange, entry: PlacedEntry) -> None:
        if change.what != "unknown":
            return
        known = self.context.ids.get(change.id)
        if known is not None:  # an old chat message, or a control such as a shutdown
            return
        rule = CANCELLED_NOTHING if entry.kind == "chat/cancel" else ACKNOWLEDGED_NOTHING
        self.report(rule, entry, change.id)
