"""The past of a log that no gateway of mew_lab wrote, as far as its messages tell it.

Such a log cannot be replayed: it does not have the opening of its space, nor the events behind its messages. The
welcomes and presence messages in it say who was there and what each could send; grants, invitations, pauses and streams
are messages, too. What none of them says is `unknown` here, never a default.

Spec: §3.6.7, §3.6.8, §3.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mew_lab.errors import JournalError
from mew_lab.ledger.calls import Proposal
from mew_lab.ledger.grants import Grant
from mew_lab.ledger.members import MemberChange, Membership
from mew_lab.log.line import read_members
from mew_lab.log.moment import ConnectionAt, GrantAt, MemberAt, Moment, PauseAt, RightAt, StreamAt
from mew_lab.log.reading import vantage_of
from mew_lab.log.record_ledger import RecordLedger
from mew_lab.log.what_if import BEFORE_RIGHTS, OtherRights, OtherVerdict, WhatIf
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import Capability, CapabilitySet, Verdict, read_capabilities
from mew_lab.space.events import Record

__all__ = ["UNKNOWN", "PastMoment", "RecordedPast", "lacks_opening"]

UNKNOWN = "unknown"
CHAPTERS = ("members", "grants", "streams")
MAX_SENDERS = 2000  # participants of which only messages are known


def lacks_opening(first: Record) -> bool:
    """Whether a log that begins with this record has only what its messages tell."""
    if first.event == "opened":
        return vantage_of(read_members(first.detail) or {}) in ("participant", "agent")
    return first.event in (
        "received",
        "sent",
        "joined",
    )  # a journal of ours that lost its opening has the enrolments


class PastMoment(Moment):
    """The state of a space behind a record, as far as the messages of its log tell it.

    What is not recorded is `unknown`, or None for a number; `notes` says what that is.
    """

    def __init__(
        self,
        past: RecordedPast,
        *,
        space: str,
        seq: int,
        now: datetime,
        proposals: Callable[[], Iterable[Proposal]],
    ) -> None:
        self.space = space
        self.paths = ()
        self.seq = seq
        self.now = now
        self.owner = UNKNOWN
        self.members = tuple(past.members(now))
        self.rights = tuple(past.rights())
        self.grants = tuple(past.grants())
        self.streams = tuple(past.streams())
        self.pauses = tuple(past.pauses(now))
        self.connections = tuple(
            ConnectionAt(UNKNOWN, name, id, UNKNOWN)
            for name, member in past.present.items()
            for id in member.ids
        )
        self.notes = (
            "This log does not have the opening of its space: who was there and what each could send is what its "
            "messages tell, and unknown elsewhere.",
        )
        self._read_proposals = proposals
        self._proposals = None


class RecordedPast:
    """The messages of a log up to one of its records. A reader that goes on reads no record twice.

    Args:
        records: All records of the log, each time from the first.
    """

    def __init__(self, records: Callable[[], Iterable[Record]]) -> None:
        self._records = records
        self._begin()

    def _begin(self) -> None:
        self._rest: Iterator[Record] = iter(self._records())
        self._ledger = RecordLedger(CHAPTERS)
        self._place = 0
        self._ahead: Record | None = None
        self._last = -1
        self._baseline: dict[str, frozenset[str]] = {}  # what each was told to hold first
        self._senders: BoundedDict[str, None] = BoundedDict(MAX_SENDERS)

    def go_to(self, seq: int) -> None:
        """Reads the log up to and with this record."""
        if seq < self._last:
            self._begin()
        while (record := self._ahead or next(self._rest, None)) is not None:
            if record.seq > seq:
                self._ahead = record
                return
            self._ahead = None
            self._take(record)

    def _take(self, record: Record) -> None:
        self._place += 1
        self._last = record.seq
        self._ledger.observe(record, self._place)
        for change in self._ledger.changes:
            if isinstance(change, MemberChange) and change.member.capabilities:
                texts = frozenset(map(compact, change.member.capabilities))
                self._baseline.setdefault(change.member.name, texts)
        if record.event == "received" and record.participant:
            self._senders[record.participant] = None

    # --- the state after the record ---

    @property
    def present(self) -> Mapping[str, Membership]:
        """The participants that are known to be there, by name."""
        return {member.name: member for member in self._ledger.ledger.members if member.ids}

    def find(self, name: str) -> Membership | None:
        """What is known of a participant."""
        return self._ledger.ledger.members.get(name)

    def members(self, now: datetime) -> Iterator[MemberAt]:
        """All participants that the log has named so far; those of which only messages are known come last."""
        invited = {
            grant.recipient: grant.granter for grant in self._ledger.ledger.grants if not grant.capabilities
        }
        known = {member.name: member for member in self._ledger.ledger.members}
        counted = Counter(right.participant for right in self.rights())
        for name, member in known.items():
            paused = member.pause is not None and member.pause.holds(now.timestamp())
            rights = counted[name] if member.came else None
            yield MemberAt(
                name,
                member.ids,
                rights,
                invited.get(name, UNKNOWN),
                paused,
                member.shut_down,
                member.removed,
            )
        for name in self._senders:
            if name not in known:
                yield MemberAt(name, (), None, UNKNOWN, False, False, False)

    def rights(self) -> Iterator[RightAt]:
        """What each participant was told to hold last, with the grant where one gave it; and what stands of grants."""
        for member in self._ledger.ledger.members:
            standing, ended = self._given_to(member.name)
            told = [compact(pattern) for pattern in member.capabilities]
            for text in told:
                grant = standing.get(text)
                if grant is None and text in ended and text not in self._baseline.get(member.name, ()):
                    continue  # revoked since it was told
                yield _right(member.name, text, grant)
            for text, grant in standing.items():
                if text not in told and not member.removed:
                    yield _right(member.name, text, grant)

    def _given_to(self, name: str) -> tuple[dict[str, Grant], frozenset[str]]:
        """The patterns of grants to a participant that stand, and those that have ended."""
        standing: dict[str, Grant] = {}
        ended: set[str] = set()
        logical = self._ledger.names.get
        for grant in self._ledger.ledger.grants:
            if name not in (grant.recipient, logical(grant.recipient)):
                continue
            left = {compact(pattern) for pattern in grant.left} if grant.stands else set[str]()
            standing |= dict.fromkeys(sorted(left), grant)
            ended |= {compact(pattern) for pattern in grant.capabilities} - left
        return standing, frozenset(ended - standing.keys())

    def grants(self) -> Iterator[GrantAt]:
        """The grants that stand; how many uses are left is not recorded."""
        for grant in self._ledger.ledger.grants:
            if grant.stands and grant.left:
                patterns = tuple(map(compact, grant.left))
                yield GrantAt(grant.id, grant.granter, grant.recipient, patterns, None, None, grant.max_uses)

    def streams(self) -> Iterator[StreamAt]:
        """The open streams."""
        for stream in self._ledger.ledger.streams.open.values():
            created = stream.created.isoformat() if stream.created is not None else UNKNOWN
            yield StreamAt(stream.id, stream.owner or UNKNOWN, stream.writers, stream.target, created)

    def pauses(self, now: datetime) -> Iterator[PauseAt]:
        """The pauses in force."""
        for member in self._ledger.ledger.members:
            pause = member.pause
            if pause is not None and pause.holds(now.timestamp()):
                until = None if pause.until is None else datetime.fromtimestamp(pause.until, UTC)
                yield PauseAt(member.name, until, pause.by)


def _right(name: str, text: str, grant: Grant | None) -> RightAt:
    if grant is None:
        return RightAt(name, text, "", UNKNOWN, None, None)
    return RightAt(name, text, grant.id, grant.granter, None, None)


def judge_recorded(past: RecordedPast, records: Iterable[Record], rights: OtherRights) -> WhatIf:
    """Judges each message of the named participants alone, by the kind, addressees and payload that it has.

    Where a participant would hold more besides its own rights, and those are not recorded, a message that the others
    alone do not permit is counted as unknown, unless it was accepted.

    Raises:
        ConfigError: a participant that is named does not occur in the log.
        JournalError: grants are supposed, whose uses this log does not tell.
    """
    if rights.grants:
        raise JournalError(
            "Cannot suppose other grants in a log that does not tell which permission came from which grant; suppose "
            "capabilities or more of a participant instead"
        )
    named = {*rights.configured, *rights.more}
    rows: list[OtherVerdict] = []
    judged = unknown = 0
    seen: set[str] = set()
    for record in records:
        past.go_to(record.seq)
        seen.add(record.participant)
        if record.event != "received" or record.participant not in named or record.raw is None:
            continue
        members = read_members(record.raw)
        was = "accepted" if record.verdict == "accepted" else "refused"
        if members is None or (was == "refused" and record.code in BEFORE_RIGHTS):
            continue
        judged += 1
        allowed, pattern = _permits(past, record.participant, members, rights)
        if allowed is None:
            unknown += was == "refused"
            continue
        would = "accepted" if allowed else "refused"
        if would == was:
            continue
        id, kind = members.get("id"), members.get("kind")
        rows.append(
            OtherVerdict(
                record.seq,
                record.now,
                record.participant,
                id if isinstance(id, str) else "",
                kind if isinstance(kind, str) else "",
                was,
                record.code,
                would,
                "" if allowed else "capability_violation",
                pattern,
            )
        )
    rights.check_names((*seen, *(member.participant for member in past.members(datetime.now(UTC)))), ())
    return WhatIf(rows, judged=judged, unknown=unknown, exact=False, closed=rights.closed)


def _permits(
    past: RecordedPast, name: str, members: Mapping[str, Any], rights: OtherRights
) -> tuple[bool | None, str]:
    """Whether a participant could send a message under other rights, and by which; None where it is not known."""
    kind, to, payload = members.get("kind"), members.get("to"), members.get("payload")
    addressees = tuple(one for one in to if isinstance(one, str)) if isinstance(to, list) else ()
    asked = (kind if isinstance(kind, str) else "", addressees, payload if isinstance(payload, dict) else {})
    supposed: Sequence[Capability] = (*rights.configured.get(name, ()), *rights.more.get(name, ()))
    found = CapabilitySet.compiled(supposed).permit(*asked)
    if found.allowed:
        return True, _text_of(found)
    if name in rights.configured:
        return False, ""
    member = past.find(name)
    if member is None or not member.came:
        return None, ""
    held, _ = read_capabilities(member.capabilities)
    own = held.permit(*asked)
    return own.allowed, _text_of(own) if own.allowed else ""


def _text_of(found: Verdict) -> str:
    return compact(found.pattern) if found.pattern is not None else ""
