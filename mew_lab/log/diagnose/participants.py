"""Rules about participants: their presence, pauses, and reports of their status.

Spec: §3.7, §3.9, rulings R14, R15.
"""

from __future__ import annotations

from collections.abc import Sequence

from mew_lab.ledger.ledger import LedgerChange
from mew_lab.ledger.members import GATEWAYS, described_member, read_welcome
from mew_lab.log.diagnose.findings import (
    OF_GATEWAYS,
    Rule,
    RuleContext,
    RuleFamily,
    refused_mark,
    word,
    words,
)
from mew_lab.log.record_ledger import Mark, PlacedEntry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.kinds import AFTER_SHUTDOWN, WHILE_PAUSED
from mew_lab.space.events import Record

__all__ = ["ParticipantRules"]

MAX_NAMES = 4000
MAX_ASKED = 100  # open questions to one participant

JOINED_TWICE = Rule(
    "joined-twice", "warn", "{about} joined again, though no leave of it was announced before", "P-3.7-1"
)
LEFT_UNSEEN = Rule(
    "left-without-join", "warn", "the leave of {about} was announced, though it was not present", "P-3.7-1"
)
UNANNOUNCED = Rule(
    "join-not-announced",
    "warn",
    "{about} joined and sent messages, but its join was not announced to the others",
    "P-3.7-1",
    OF_GATEWAYS,
)
ABSENT_SENDER = Rule(
    "message-from-absent",
    "error",
    "{sender} sent {kind} {id} over a connection after its leave was announced",
    holds=OF_GATEWAYS,
    needs_whole=True,
)
ABSENT = Rule(
    "addressee-absent",
    "warn",
    "{sender}'s {kind} {id} is addressed to {to}, not present in the space at that time",
)
PAUSED = Rule(
    "sent-while-paused",
    "warn",
    "{sender} sent {kind} {id} while {by} had paused it",
    "P-3.9.1-1",
    OF_GATEWAYS,
)
SHUT_DOWN = Rule(
    "sent-after-shutdown",
    "warn",
    "{sender} sent {kind} {id} after it was shut down",
    "P-3.9.10-4",
    OF_GATEWAYS,
)
NO_COUNT = Rule(
    "status-without-counts", "warn", "{sender}'s status {id} does not say messages_in_context", "P-3.9.4-3"
)
NO_TOKENS = Rule(
    "status-without-tokens", "note", "{sender}'s status {id} does not say {missing}", "P-3.9.4-2"
)
STATUS_UNANSWERED = Rule(
    "status-request-unanswered",
    "warn",
    "{sender} asked {missing} for a status in {id} and got none",
    "P-3.9.3-3",
)
COMPACT_UNANSWERED = Rule(
    "compact-unanswered",
    "warn",
    "{sender} asked {missing} to compact in {id}, and no compact-done came",
    "P-3.9.7-5",
)

_ADDRESSED = ("mcp/request", "mcp/proposal", "chat")


class ParticipantRules(RuleFamily):
    """The rules about participants."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.always = self._on_message
        self.kinds = {
            "system/presence": self._on_presence,
            "system/welcome": self._on_welcome,
            "participant/status": self._on_status,
            "participant/request-status": self._on_ask,
            "participant/compact": self._on_ask,
            "participant/compact-done": self._on_compacted,
            **dict.fromkeys(_ADDRESSED, self._on_addressed),
        }
        self.refusals = self._on_refusal
        self._announced: BoundedDict[str, bool] = BoundedDict(MAX_NAMES, refresh=True)  # id -> is present
        # id -> a welcome without a join since
        self._welcomed: BoundedDict[str, Mark] = BoundedDict(MAX_NAMES)
        self._present: frozenset[str] | None = None  # according to the newest welcome
        # participant -> what it was asked and has not answered, by the id of the question
        self._status: BoundedDict[str, BoundedDict[str, Mark]] = BoundedDict(MAX_NAMES)
        self._compact: BoundedDict[str, BoundedDict[str, Mark]] = BoundedDict(MAX_NAMES)

    def finish(self) -> None:
        for rule, asked in ((STATUS_UNANSWERED, self._status), (COMPACT_UNANSWERED, self._compact)):
            for name, questions in asked.items():
                for mark in questions.values():
                    self.report(rule, mark, missing=word(name))

    # --- steps ---

    def _on_message(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        record = entry.record
        if record.verdict != "accepted":
            return
        if record.via in ("websocket", "memory") and self._announced.get(entry.sender) is False:
            self.report(ABSENT_SENDER, entry)
        if self._welcomed and (welcome := self._welcomed.pop(entry.sender, None)) is not None:
            self.report(UNANNOUNCED, welcome, about=word(entry.sender))
        member = self.context.ledger.members.get(entry.sender)
        if member is None or (member.pause is None and not member.shut_down):
            return
        pause = member.pause
        if member.shut_down and entry.kind not in AFTER_SHUTDOWN and entry.kind != "participant/shutdown":
            self.report(SHUT_DOWN, entry)
        elif (
            pause is not None
            and pause.since != entry.t
            and pause.holds(entry.t)
            and entry.kind not in WHILE_PAUSED
            and entry.kind != "participant/pause"
        ):
            self.report(PAUSED, entry, by=word(pause.by))

    def _on_refusal(self, record: Record, entry: PlacedEntry | None, place: int) -> None:
        if record.code not in ("paused", "shut_down"):
            return
        mark = refused_mark(record, place, "" if entry is None else entry.id)
        member = self.context.ledger.members.get(mark.sender)
        by = member.pause.by if member is not None and member.pause is not None else "somebody"
        rule = PAUSED if record.code == "paused" else SHUT_DOWN
        kind = "data" if entry is None else word(entry.kind)
        self.report(rule, mark, kind=kind, id=word(mark.id) if mark.id else "to a stream", by=word(by))

    def _on_presence(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        described = described_member(entry.payload.get("participant"))
        event = entry.payload.get("event")
        if described is None or entry.sender not in GATEWAYS or event not in ("join", "leave"):
            return
        id, _patterns = described
        known = self._announced.get(id)
        if event == "join" and known is True:
            self.report(JOINED_TWICE, entry, about=word(id))
        elif event == "leave" and (known is False or (known is None and self.context.whole())):
            self.report(LEFT_UNSEEN, entry, about=word(id))
        self._announced[id] = event == "join"
        self._welcomed.pop(id, None)

    def _on_welcome(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        welcome = read_welcome(entry) if entry.sender in GATEWAYS else None
        if welcome is None:
            return
        before, self._present = self._present, frozenset((welcome.id, *welcome.participants))
        joins = before is not None and welcome.id not in before  # else it may be the news of other rights
        if welcome.participants and not self._announced.get(welcome.id) and (joins or self.context.whole()):
            self._welcomed.setdefault(welcome.id, entry.mark)

    def _on_addressed(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        if not entry.to:
            return
        members, whole = self.context.ledger.members, self.context.whole()
        absent = []
        for name in entry.to:
            if name in GATEWAYS:
                continue
            member = members.get(name)
            if whole if member is None else not member.ids:
                absent.append(name)
        if absent:
            self.report(ABSENT, entry, to=words(absent))

    def _on_status(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        if not _is_count(entry.payload.get("messages_in_context")):
            self.report(NO_COUNT, entry)
        missing = [name for name in ("tokens", "max_tokens") if not _is_count(entry.payload.get(name))]
        if missing:
            self.report(NO_TOKENS, entry, missing=" and ".join(missing))
        self._status.pop(entry.sender, None)

    def _on_ask(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        asked = self._compact if entry.kind == "participant/compact" else self._status
        for name in entry.to[:MAX_ASKED] if entry.id else ():
            questions = asked.get(name)
            if questions is None:
                questions = asked[name] = BoundedDict(MAX_ASKED)
            questions[entry.id] = entry.mark

    def _on_compacted(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        questions = self._compact.get(entry.sender)
        if questions is None:
            return
        for id in entry.correlation_id or tuple(questions):
            questions.pop(id, None)
        if not questions:
            del self._compact[entry.sender]


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
