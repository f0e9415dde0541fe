"""Reads the log files of the TypeScript gateway, and makes records of their lines.

`envelope-history.jsonl` has a line for each receiver of an envelope; here each envelope becomes one record.
`capability-decisions.jsonl` has a line for each capability check. Tokens, which those files hold in clear, are dropped
or masked while reading, so a text that held one is no longer the exact text.

A check tells whether a permission was configured (`static`) or given later (`dynamic`), and does not name the grant. It
is taken from the history where one standing grant alone has that pattern; else the record says that it is not recorded.

This module opens no file and knows no other format.

Spec: §3.6.1 to §3.6.3, §3.6.8.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import GRANT_KINDS, Grant, GrantLedger
from mew_lab.ledger.members import GATEWAYS
from mew_lab.log.entries import GRANT, SOURCE, RecordedEntry, lacking
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import parse_timestamp
from mew_lab.space.events import Record

__all__ = ["DECISIONS", "HISTORY", "PeerLine", "merge_decisions", "read_decisions", "read_history"]

HISTORY = "envelope-history.jsonl"
DECISIONS = "capability-decisions.jsonl"

# Lines over which the deliveries of one envelope may be spread: several times the largest space.
WINDOW = 4096
MOST_GRANTS = 10_000  # that are remembered: as many as a space of ours may have
_MARK = ',"envelope":'
_scan = json.JSONDecoder().raw_decode


class PeerLine(NamedTuple):
    """One line of a file; `data` is None when it cannot be read, and `why` says why."""

    number: int
    data: bytes | None
    why: str = "is too long"

    def unreadable(self, now: datetime) -> Record:
        """The record that reports this line, dated like the one before it."""
        why = self.why if self.data is None else "is not a whole record"
        return Record(0, now, "unreadable", detail=f"line {self.number} {why}")


@dataclass(slots=True)
class _HistoryEntry:
    """The data on one envelope, collected from its lines so far."""

    line: int
    now: datetime
    event: str
    space: str
    participant: str
    via: str
    envelope: dict[str, Any]
    received: str | None = None
    delivered: str | None = None
    verdict: str = ""
    code: str = ""
    detail: str = ""
    receivers: list[str] = field(default_factory=list)

    def record(self) -> Record:
        raw = self.delivered if self.delivered is not None else self.received
        return Record(
            seq=self.line,
            now=self.now,
            event=self.event,
            space=self.space,
            participant=self.participant,
            via=self.via,
            verdict=self.verdict,
            code=self.code,
            detail=self.detail,
            received=self.received if self.received != raw else None,
            raw=raw,
            to=tuple(self.receivers),
        )


def _text(members: Mapping[str, Any], key: str) -> str:
    value = members.get(key)
    return value if isinstance(value, str) else ""


def _object(members: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = members.get(key)
    return value if isinstance(value, dict) else {}


def _time(members: Mapping[str, Any]) -> datetime:
    now = parse_timestamp(members["timestamp"])
    if now is None:
        raise ValueError("a line has a timestamp")
    return now


def _cut_exact(text: str, envelope: dict[str, Any]) -> str:
    """The exact text of the envelope within its line, with tokens masked."""
    try:
        at = text.index(_MARK)
        json.loads(text[:at] + "}")  # the part before the mark is an object, so the mark is at the top level
        end = _scan(text, at + len(_MARK))[1]
        exact = text[at + len(_MARK) : end]
    except (ValueError, RecursionError):  # not written as that gateway writes
        exact = compact(envelope)
    payload = _object(envelope, "payload")
    if "token" in payload:
        envelope = {**envelope, "payload": {**payload, "token": _mask_token(payload["token"])}}
    if "token" in envelope:
        envelope = {**envelope, "token": _mask_token(envelope["token"])}
    return compact(envelope) if "token" in envelope or "token" in payload else exact


def _mask_token(token: Any) -> str:
    return f"tok_…{token[-4:]}" if isinstance(token, str) and len(token) >= 12 else "tok_…"


def _is_join(envelope: Mapping[str, Any]) -> bool:
    return envelope.get("type") == "join" or envelope.get("kind") == "system/join"


def read_history(lines: Iterable[PeerLine]) -> Iterator[Record]:
    """One record for each envelope of an `envelope-history.jsonl`, in the order in which they first appear.

    `seq` is the number of that first line, and `to` are its receivers. A received envelope that was then delivered is
    `accepted`. One that the gateway made is `sent`. A join is a `joined` without its text.
    """
    held: deque[_HistoryEntry | Record] = deque()
    known: dict[str, _HistoryEntry] = {}
    nameless: dict[str, _HistoryEntry] = {}
    now = datetime.min.replace(tzinfo=UTC)
    for line in lines:
        entry = _read_history_line(line, now, known, nameless)
        if entry is not None:
            held.append(entry)
            now = entry.now
        while held and line.number - (held[0].seq if isinstance(held[0], Record) else held[0].line) > WINDOW:
            yield _release(held.popleft(), known)
    while held:
        yield _release(held.popleft(), known)


def _release(entry: _HistoryEntry | Record, known: dict[str, _HistoryEntry]) -> Record:
    if isinstance(entry, Record):
        return entry
    name = _text(entry.envelope, "id")
    if known.get(name) is entry:
        del known[name]
    return entry.record()


def _read_history_line(
    line: PeerLine, before: datetime, known: dict[str, _HistoryEntry], nameless: dict[str, _HistoryEntry]
) -> _HistoryEntry | Record | None:
    """The new entry that a line begins; None when the line completed an earlier entry."""
    try:
        text = (line.data or b"").decode().strip()
        members = json.loads(text)
        envelope = members["envelope"]
        now = _time(members)
        if not isinstance(envelope, dict):
            raise TypeError("an envelope is an object")
        exact = "" if _is_join(envelope) else _cut_exact(text, envelope)
    except (KeyError, TypeError, ValueError, RecursionError, ProtocolError):
        return line.unreadable(before)._replace(seq=line.number)
    participant, metadata = _text(members, "participant"), _object(members, "metadata")
    entry = _HistoryEntry(
        line.number,
        now,
        "received",
        _text(members, "space_id"),
        participant,
        _text(members, "transport"),
        envelope,
    )
    if _is_join(envelope):
        runtime = _text(envelope, "participantId") or _text(_object(envelope, "payload"), "participantId")
        entry.event, entry.detail = "joined", runtime
        return entry
    name, sender, event = _text(envelope, "id"), _text(envelope, "from"), members.get("event")
    if event == "delivered":
        return _deliver(entry, name, sender, exact, metadata, known, nameless)
    if event == "rejected":
        earlier = known.get(name)
        target = earlier if earlier and earlier.delivered is None else entry
        target.verdict, target.code = "refused", _text(metadata, "reason")
        target.received = exact
        return None if target is earlier else entry
    entry.received = exact
    if name:
        known[name] = entry
    else:
        nameless[participant] = entry
    return entry


def _deliver(
    entry: _HistoryEntry,
    name: str,
    sender: str,
    exact: str,
    metadata: Mapping[str, Any],
    known: dict[str, _HistoryEntry],
    nameless: dict[str, _HistoryEntry],
) -> _HistoryEntry | None:
    receiver = entry.participant
    earlier = known.get(name)
    if earlier is None and name and sender in nameless:  # the gateway added the id
        waiting = nameless[sender]
        if _text(waiting.envelope, "kind") == _text(entry.envelope, "kind"):
            earlier = known[name] = nameless.pop(sender)
    if earlier and earlier.delivered in (None, exact):
        earlier.delivered = exact
        earlier.verdict = earlier.verdict or "accepted"
        earlier.receivers.append(receiver)
        return None
    ours = sender == "gateway" or sender.startswith("system:")
    entry.event, entry.verdict = ("sent", "sent") if ours else ("received", "accepted")
    entry.participant, entry.delivered, entry.receivers = sender, exact, [receiver]
    known[name] = entry
    refused = known.get(_text(metadata, "source_envelope"))
    if ours and refused and refused.delivered is None:
        refused.verdict, refused.code = "refused", _text(metadata, "reason")
    return entry


def read_decisions(lines: Iterable[PeerLine]) -> Iterator[Record]:
    """One record of event `checked` for each line of a `capability-decisions.jsonl`.

    `detail` names the envelope that was checked.
    """
    before = datetime.min.replace(tzinfo=UTC)
    for line in lines:
        try:
            members = json.loads(line.data or b"")
            before = _time(members)
            allowed = members["result"] == "allowed"
            detail = {
                "envelope_id": members.get("envelope_id"),
                "required_capability": members.get("required_capability"),
                "matched_source": members.get("matched_source"),
                **_object(members, "metadata"),
            }
            matched = members.get("matched_capability")
            yield Record(
                seq=line.number,
                now=before,
                event="checked",
                space=_text(members, "space_id"),
                participant=_text(members, "participant"),
                via=_text(_object(members, "metadata"), "transport"),
                verdict="accepted" if allowed else "refused",
                code="" if allowed else "capability_violation",
                pattern=compact(matched) if matched else "",
                detail=compact({key: value for key, value in detail.items() if value is not None}),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, ProtocolError):
            yield line.unreadable(before)._replace(seq=line.number)


class _Givers:
    """The grants and invitations of a history, by which a check that names none is explained."""

    def __init__(self) -> None:
        self._grants = GrantLedger(limit=MOST_GRANTS)
        self._given = 0
        self._invited: dict[str, dict[str, set[str]]] = {}  # participant -> pattern -> ids of invitations
        self._told: dict[
            str, set[str]
        ] = {}  # participant -> patterns that it was told and nothing here explains
        self._found: dict[
            tuple[str, str], frozenset[str]
        ] = {}  # by participant and pattern, until the next grant

    def take(self, entry: Entry) -> None:
        """Takes the next message of the history."""
        if entry.kind == "system/welcome" and entry.sender in GATEWAYS:
            you = entry.payload.get("you")
            name, held = (you.get("id"), you.get("capabilities")) if isinstance(you, dict) else (None, None)
            if isinstance(name, str) and isinstance(held, list):
                told = {_canonical(pattern) for pattern in held}
                self._told.setdefault(name, set()).update(
                    pattern for pattern in told if not self._find(name, pattern)
                )
        elif entry.kind in GRANT_KINDS:
            self._found.clear()
            name, patterns = entry.payload.get("participant_id"), entry.payload.get("initial_capabilities")
            if entry.kind == "space/invite" and isinstance(name, str) and isinstance(patterns, list):
                for pattern in patterns:
                    self._invited.setdefault(name, {}).setdefault(_canonical(pattern), set()).add(entry.id)
            self._given += sum(change.what == "granted" for change in self._grants.observe(entry))

    def giver_of(self, participant: str, pattern: Any) -> str:
        """The id of the one grant or invitation that can have given this; empty where there is none, or several."""
        wanted = _canonical(pattern)
        found = self._find(participant, wanted)
        known = len(found) == 1 and wanted not in self._told.get(participant, ())
        return next(iter(found)) if known and self._given == len(self._grants) else ""

    def _find(self, participant: str, pattern: str) -> frozenset[str]:
        found = self._found.get((participant, pattern))
        if found is None:
            granted = [grant.id for grant in self._grants if _gave(grant, participant, pattern)]
            found = frozenset((*granted, *self._invited.get(participant, {}).get(pattern, ())))
            self._found[participant, pattern] = found
        return found


def _gave(grant: Grant, participant: str, pattern: str) -> bool:
    # Checks name the id of a connection, and grants mostly the participant.
    to = (grant.recipient, *(one.by for one in grant.acknowledged), *(grant.to if len(grant.to) == 1 else ()))
    return grant.stands and participant in to and pattern in map(_canonical, grant.left)


def _canonical(pattern: Any) -> str:
    return json.dumps(pattern, sort_keys=True)


def merge_decisions(history: Iterable[Record], decisions: Iterable[Record]) -> Iterator[Record]:
    """The history with the permission that allowed each envelope, and with the refusals that it lacks.

    That gateway writes no history line for a message that it refuses on a WebSocket. Both must be of one session.
    """
    givers = _Givers()
    checks: dict[tuple[str, str], deque[Record]] = {}
    denied: deque[Record] = deque()
    for check in decisions:
        name = json.loads(check.detail).get("envelope_id") if check.event == "checked" else None
        if check.verdict == "refused":
            denied.append(check)
        elif isinstance(name, str):
            checks.setdefault((check.participant, name), deque()).append(check)
    for record in history:
        # Not those of the same time: a history line of the same refusal may follow.
        while denied and denied[0].now < record.now:
            yield denied.popleft()._replace(event="received")
        if record.event == "received" and record.verdict != "refused" and record.raw is not None:
            waiting = checks.get((record.participant, _text(json.loads(record.raw), "id")))
            if waiting:
                record = _explain(record, waiting.popleft(), givers)
        elif record.verdict == "refused" and record.raw is not None and denied:
            # The history has this refusal, so it is not added again.
            name = _text(json.loads(record.raw), "id")
            denied = deque(check for check in denied if json.loads(check.detail).get("envelope_id") != name)
        if record.raw is not None and record.verdict != "refused":
            givers.take(RecordedEntry(record))
        yield record
    for check in denied:
        yield check._replace(event="received")


def _explain(record: Record, check: Record, givers: _Givers) -> Record:
    """The record of a message with the permission that its check states."""
    record = record._replace(verdict="accepted", pattern=check.pattern)
    source = json.loads(check.detail).get("matched_source")
    if not check.pattern or source == "static":
        return record
    if source != "dynamic":
        return lacking(record, SOURCE)
    grant = givers.giver_of(record.participant, json.loads(check.pattern))
    return record._replace(grant=grant) if grant else lacking(record, GRANT)
