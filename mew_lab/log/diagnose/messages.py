"""Rules about messages of any kind: ids, times, shapes, and senders.

Spec: §3, §4.1, rulings R2, R4, R6, R10.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mew_lab.ledger.ledger import LedgerChange
from mew_lab.ledger.members import GATEWAYS
from mew_lab.log.diagnose.findings import (
    OF_GATEWAYS,
    Rule,
    RuleContext,
    RuleFamily,
    refused_mark,
    word,
)
from mew_lab.log.line import read_members
from mew_lab.log.record_ledger import PlacedEntry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.kinds import HANDLES, KINDS, is_reserved
from mew_lab.protocol.text import parse_timestamp
from mew_lab.space.events import Record

__all__ = ["SKEW", "MessageRules"]

_ONE_REFERENCE = re.compile(r'"correlation_id"\s*:\s*"').search
SKEW = 5.0  # seconds between the clock of a sender and that of the gateway
MAX_SENDERS = 2000
MAX_KINDS = 1000

TAKEN = Rule("id-taken", "error", "{sender}'s {kind} has the id {id}, which {owner} took before", "P-3-3")
REUSED = Rule(
    "id-reuse", "warn", "{sender}'s {kind} has the id {id} of an earlier message of {owner}", "C-15"
)
NO_ID = Rule("message-without-id", "warn", "{sender}'s {kind} has no id", "P-3-3")
CLOCK = Rule(
    "clock-skew",
    "warn",
    "{sender}'s {kind} {id} says in ts that it was sent {seconds:.1f} s {side} it was received",
    holds=OF_GATEWAYS,
)
NO_TIME = Rule(
    "time-unreadable",
    "note",
    "{sender}'s {kind} {id} has a ts that is no RFC 3339 time",
    "P-3-4",
    OF_GATEWAYS,
)
UNKNOWN_KIND = Rule(
    "unknown-kind",
    "note",
    "{sender} sent {kind}, which is no kind of the specification",
    "P-3-8",
    OF_GATEWAYS,
)
ONE_REFERENCE = Rule(
    "correlation-no-list",
    "note",
    "{sender}'s {kind} {id} has a correlation_id that is no array",
    "P-3-9",
    OF_GATEWAYS,
)
FALSE_SENDER = Rule(
    "sender-not-verified",
    "fatal",
    "{kind} {id} says that it comes from {sender}, but {owner} sent it, and the gateway accepted it",
    "P-4.1-1",
    OF_GATEWAYS,
)
# A name without its join in the log is no proof: the connection may have joined before the log begins.
NOT_VERIFIED = FALSE_SENDER._replace(
    severity="note",
    sentence="{kind} {id} says that it comes from {sender}, and {owner} sent it; the join of that connection is not in "
    "this log",
)
RESERVED = Rule(
    "reserved-kind-accepted",
    "fatal",
    "{sender} sent {kind} {id}, and the gateway accepted it, though only the gateway may send that kind",
    "P-4.1-8",
    OF_GATEWAYS,
)
# The row of the other kinds that only the gateway makes, such as stream/write-granted.
RESERVED_ELSEWHERE = RESERVED._replace(requirement="C-5")


class MessageRules(RuleFamily):
    """The rules about messages."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.always = self._on_message
        self.refusals = self._on_refusal
        self._skews: BoundedDict[str, float] = BoundedDict(MAX_SENDERS)  # sender -> skew reported last
        self._kinds: BoundedDict[tuple[str, str], None] = BoundedDict(MAX_KINDS)  # reported once a sender

    def _on_message(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        # Every message of a log passes here.
        members, kind = entry.members, entry.kind
        if entry.id:
            known = self.context.ids.get(entry.id)
            if known is None:
                self.context.ids.add(entry.id, entry.sender, kind)
            else:
                self._judge_id(entry, known)
        elif members:
            self.report(NO_ID, entry, kind=word(kind))
        record = entry.record
        if record.verdict != "accepted":
            return
        ts = members.get("ts")
        if ts is not None:
            self._judge_time(entry, ts)
        elif self._skews:
            self._skews.pop(entry.sender, None)
        if kind not in KINDS:
            self._judge_kind(entry)
        elif is_reserved(kind) and entry.sender not in GATEWAYS:
            rule = RESERVED if kind.startswith("system/") else RESERVED_ELSEWHERE
            self.report(rule, entry)
        if record.received is not None and _ONE_REFERENCE(record.received):
            came = read_members(record.received) or {}  # before the gateway made an array of it
            if isinstance(came.get("correlation_id"), str):
                self.report(ONE_REFERENCE, entry)
        sender, owner = entry.sender, record.participant
        if (
            owner != sender
            and owner
            and sender != record.runtime_id
            and self.context.logical(sender) != owner
        ):
            self.report(FALSE_SENDER, entry, owner=word(owner))
        elif self.context.assumed.get(sender) == entry.seq:
            self.report(NOT_VERIFIED, entry, owner=word(owner))

    def _judge_id(self, entry: PlacedEntry, known: tuple[str, str]) -> None:
        owner, kind = known
        logical = self.context.logical
        handles = entry.kind in HANDLES and kind in HANDLES
        rule = TAKEN if handles and logical(owner) != logical(entry.sender) else REUSED
        self.report(rule, entry, owner=word(owner))
        if handles:
            self.context.ids.add(entry.id, entry.sender, entry.kind)

    def _judge_time(self, entry: PlacedEntry, ts: object) -> None:
        said = parse_timestamp(ts)
        if said is None:
            self.report(NO_TIME, entry)
            return
        skew = (said - entry.record.now).total_seconds()
        last = self._skews.get(entry.sender, 0.0)
        if abs(skew) <= SKEW:
            if last:
                del self._skews[entry.sender]
            return
        if abs(skew - last) <= SKEW:
            return  # the same clock, reported before
        self._skews[entry.sender] = skew
        side = "after" if skew > 0 else "before"
        self.report(CLOCK, entry, seconds=abs(skew), side=side)

    def _judge_kind(self, entry: PlacedEntry) -> None:
        key = entry.sender, entry.kind
        if is_reserved(entry.kind):
            self.report(RESERVED, entry)
        elif key not in self._kinds:
            self._kinds[key] = None
            self.report(UNKNOWN_KIND, entry)

    def _on_refusal(self, record: Record, entry: PlacedEntry | None, place: int) -> None:
        if record.code != "duplicate_id" or entry is None:
            return
        known = self.context.ids.get(entry.id)
        owner = "another message" if known is None else word(known[0])
        self.report(TAKEN, refused_mark(record, place, entry.id), kind=word(entry.kind), owner=owner)
