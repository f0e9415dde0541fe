"""Reports the sender of an envelope and the capability and grants that allowed it, or the reason of its refusal.

The journal states which capability allowed a message, and the grant of that capability. The capabilities of a granter
at the time of its grant are those of the restored state there: they must cover the grant, and each is traced back to
the configuration. If the journal does not replay up to a grant, the report lacks only these.

Spec: §3.6.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError, JournalError
from mew_lab.log.entries import GRANT, SOURCE, lacks
from mew_lab.log.line import read_members
from mew_lab.log.replay import CAUSED
from mew_lab.log.state_history import StateHistory
from mew_lab.protocol.covers import covers, possesses
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.miss import quote
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.visible import one_line, visible
from mew_lab.space.events import OWN_MESSAGE, Record, outline
from mew_lab.space.names import NAMING
from mew_lab.space.rights import Held

__all__ = ["Audit", "AuditedRight", "GrantOrigin", "RecordMatches", "audit_match"]

NOT_RECORDED = "a participant that is not recorded"
_UNKNOWN = {
    GRANT: "granted; by whom is not recorded",
    SOURCE: "whether it was configured or granted is not recorded",
}


class AuditedRight(NamedTuple):
    """A capability that a participant held, and the grant that conferred it.

    `grant` is empty for a capability of the configuration or of the baseline, and where it is not recorded: `unknown`
    is then a sentence on that. `pattern` is empty where it is not recorded.
    """

    pattern: str
    grant: str = ""
    unknown: str = ""

    @classmethod
    def of(cls, record: Record) -> AuditedRight:
        """The permission by which an accepted message passed, as far as its record tells."""
        if not record.pattern and not record.grant:
            return cls("", unknown=_UNKNOWN[SOURCE])
        unknown = next((text for part, text in _UNKNOWN.items() if lacks(record, part)), "")
        return cls(record.pattern, record.grant, unknown)

    def __str__(self) -> str:
        origin = f"by grant {quote(self.grant)}" if self.grant else self.unknown or "configured"
        return f"{visible(self.pattern) or 'a permission whose pattern is not recorded'} ({origin})"


class GrantOrigin(NamedTuple):
    """The origin of a grant: `sent_by` allowed `giver` to send it, `rests_on` covers the capability in question.

    `rests_on` is None where it is unknown, and empty for the starter profile of an invitation, which every
    participant that may invite may give. `record` is None for a grant that is not in the journal.
    """

    id: str
    record: Record | None
    kind: str = ""
    giver: str = ""
    recipient: str = ""
    sent_by: AuditedRight | None = None
    rests_on: tuple[AuditedRight, ...] | None = None
    sign: str = "#"

    def __str__(self) -> str:
        if self.record is None or self.sent_by is None:
            return f"grant {quote(self.id)}: it is not in this journal"
        giver, recipient = one_line(self.giver), one_line(self.recipient) or NOT_RECORDED
        text = (
            f"grant {quote(self.id)}: {one_line(self.kind)} from {giver} to {recipient}, "
            f"{self.sign}{self.record.seq}, sent by {self.sent_by}; "
        )
        if self.rests_on is None:
            return text + "the permissions of its giver are not known"
        if not self.rests_on:
            return text + "it is of the starter profile, which every participant that may invite may give"
        return text + f"covered by permissions of {giver}: {', '.join(map(str, self.rests_on))}"


class Audit(NamedTuple):
    """The report on one record of a journal.

    `right` is the capability that allowed it; None where it was refused or needed none. `grants` are the grants behind
    `right`, each once, the nearest first. `cause` is the record of the event to which a message of the gateway
    responds. `others` are the places of further messages with the same id. `doubt` is the reason why the journal does
    not replay; empty where it does. `freed` are the records of names in it that changed their owner, earlier or later.
    `sign` stands before each number, as in `Log.sign`.
    """

    record: Record
    right: AuditedRight | None = None
    grants: tuple[GrantOrigin, ...] = ()
    cause: Record | None = None
    others: tuple[int, ...] = ()
    doubt: str = ""
    freed: tuple[Record, ...] = ()
    sign: str = "#"

    def __str__(self) -> str:
        record = self.record
        lines = [
            f"{_title(record)}, {self.sign}{record.seq}, {record.now:%Y-%m-%d %H:%M:%S.%f}Z",
            _sender(record),
        ]
        if self.cause is not None:
            lines[1:] = [f"sent by the gateway because of {_title(self.cause)}, {self.sign}{self.cause.seq}"]
        elif record.verdict == "refused":
            known = outline(record)
            lines.append(
                f"refused with {one_line(record.code)}: {_readable(known.why if known else record.detail)}"
            )
            if known:
                lines.append(
                    f"its outline is {visible(str(known))}; the SHA-256 of the whole is {_readable(known.sha256)}"
                )
        elif record.detail == OWN_MESSAGE:
            reads = _title(record).startswith("mcp/request")
            asks = "asks for a kept result alone" if reads else "ends messages of its own sender alone"
            lines.append(f"accepted without a permission, because it {asks}")
        elif self.right is not None:
            lines.append(f"accepted, because {one_line(record.participant)} held {self.right}")
        lines += map(str, self.grants)
        if self.others:
            lines.append(f"the same id is in {', '.join(f'{self.sign}{seq}' for seq in self.others)}")
        lines += (_describe_freed(note, record, self.sign) for note in self.freed)
        if self.doubt:
            lines.append(visible(self.doubt))
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return str(self)


class _RecordedGrant(NamedTuple):
    """A grant in the journal: the capabilities that it conferred, and those that its giver held."""

    record: Record
    conferred: tuple[Held, ...]
    held: tuple[Held, ...] | None
    edition: int = 0


class RecordMatches:
    """The records that a name may mean: those of messages with that id, and the one at that place."""

    def __init__(self, which: str | int) -> None:
        self.which = which
        is_place = isinstance(which, int) or (which.isdecimal() and which.isascii())
        self.place = int(which) if is_place else None
        self.unknown = 0
        """The refused messages whose ids are not known."""
        self._by_id: list[tuple[Record, Record | None]] = []
        self._placed: list[tuple[Record, Record | None]] = []
        self._event: Record | None = None

    def take(self, record: Record) -> None:
        """Takes the next record of a log."""
        caused = record.event in CAUSED
        if not caused:
            self._event = record
        self.unknown += outline(record) is not None
        self.add(record, self._event if caused else None)

    def add(self, record: Record, cause: Record | None) -> None:
        """Takes a record, with the event that caused it."""
        if record.seq == self.place:
            self._placed.append((record, cause))
        if record.raw is not None and (read_members(record.raw) or {}).get("id") == self.which:
            self._by_id.append((record, cause))

    @property
    def others(self) -> tuple[int, ...]:
        """The places of the messages with that id."""
        return tuple(record.seq for record, _ in self._by_id)

    def choose(self, sign: str = "#") -> tuple[Record, Record | None]:
        """The last accepted one, else the last; with the event that caused it.

        Raises:
            JournalError: when there is none.
        """
        found = self._by_id or self._placed
        if found:
            return ([pair for pair in found if pair[0].verdict != "refused"] or found)[-1]
        if isinstance(self.which, int):
            raise JournalError(
                f"this log holds no record {sign}{self.which}; mew-lab tail lists its messages"
            )
        raise JournalError(
            f"this log holds no message with the id {quote(self.which)}; mew-lab tail --json lists its messages"
            + (
                f". Of {self.unknown} refused ones only the beginning is kept, so their ids are not known"
                if self.unknown
                else ""
            )
        )


def audit_match(matches: RecordMatches, history: StateHistory, sign: str = "#") -> Audit:
    """The report on the record that the matches mean, with the states of its space; `sign` is as in `Log.sign`.

    Of several messages with one id, the last accepted one is reported; without an accepted one, the last.

    Raises:
        JournalError: when there is none.
    """
    record, cause = matches.choose(sign)
    accepted = record.verdict == "accepted" and record.raw is not None and record.detail != OWN_MESSAGE
    right = AuditedRight.of(record) if accepted else None
    places = list(matches.others)
    if record.seq in places:
        places.remove(record.seq)
    grants = tuple(one._replace(sign=sign) for one in _trace_origins(right, history)) if right else ()
    names = _names_in(record)
    changed = tuple(note for note in history.freed if note.detail.casefold() in names)
    doubt = f"the capabilities of granters are not known: {history.fault}" if history.fault and grants else ""
    return Audit(record, right, grants, cause, tuple(places), doubt, changed, sign)


def _names_in(record: Record) -> set[str]:
    """The names of participants in a record, in case-folded form: sender, addressees, those in its payload."""
    members = (read_members(record.raw) if record.raw is not None else None) or {}
    payload = members.get("payload")
    payload = payload if isinstance(payload, dict) else {}
    names: list[Any] = [record.participant, record.runtime_id, members.get("from")]
    for several in (members.get("to"), *(payload.get(key) for key in NAMING)):
        names += several if isinstance(several, list) else [several]
    return {name.casefold() for name in names if isinstance(name, str) and name}


def _describe_freed(freed: Record, record: Record, sign: str) -> str:
    """The sentence on a name that changed its owner: its owner before and since."""
    name = quote(freed.detail)[1:-1]
    when = "after" if freed.seq > record.seq else "before"
    return (
        f"the name {name} changed its owner {when} this record: up to {sign}{freed.seq} it was a runtime id of "
        f"{quote(freed.participant)[1:-1]}, since then it is the participant {name}"
    )


def _read_grant(id: str, history: StateHistory) -> _RecordedGrant | None:
    """A grant, with the capabilities that its giver held behind it; None where the journal has none of that id."""
    what = history.grants.get(id)
    if what is None:
        return None
    record = history.record(what)
    try:
        state = history.restore(record.seq).state
    except JournalError:
        return _RecordedGrant(record, (), None)
    members = state.members
    conferred = tuple(
        right for member in members.values() for right in member.rights.held if right.grant == id
    )
    held = tuple(right for right in members[record.participant].rights.held if right.grant != id)
    return _RecordedGrant(record, conferred, held, state.edition)


def _trace_origins(right: AuditedRight, history: StateHistory) -> tuple[GrantOrigin, ...]:
    """The grants that conferred a right, and those behind them, back to the configured capabilities."""
    waiting, seen, behind = [right], {right}, []
    while waiting:
        right = waiting.pop(0)
        if not right.grant:
            continue
        origin = _trace_grant(right, _read_grant(right.grant, history))
        behind.append(origin)
        for further in (origin.sent_by, *(origin.rests_on or ())):
            if further is not None and further not in seen:
                seen.add(further)
                waiting.append(further)
    return tuple(behind)


def _trace_grant(right: AuditedRight, grant: _RecordedGrant | None) -> GrantOrigin:
    if grant is None:
        return GrantOrigin(right.grant, None)
    record = grant.record
    members = read_members(record.raw or "") or {}
    payload = members.get("payload")
    payload = payload if isinstance(payload, dict) else {}
    recipient = payload.get("recipient", payload.get("participant_id", ""))
    return GrantOrigin(
        right.grant,
        record,
        str(members.get("kind", "")),
        record.participant,
        str(recipient),
        AuditedRight.of(record),
        None if grant.held is None else _find_cover(right, grant.conferred, grant.held, grant.edition),
    )


def _find_cover(
    right: AuditedRight, conferred: Sequence[Held], held: Sequence[Held], edition: int
) -> tuple[AuditedRight, ...] | None:
    """A small subset of the held capabilities that covers the right; None where the pattern cannot be read."""
    try:
        wanted = Capability.kept(read_members(right.pattern) or {}, edition=edition)
    except ConfigError:
        return None
    if any(own.rooted and are_equal(own.capability.pattern, wanted.pattern) for own in conferred):
        return ()
    enough = [own for own in held if covers(own.capability, wanted)][:1] or list(held)
    for spare in tuple(enough):
        fewer = [other for other in enough if other is not spare]
        if fewer and possesses([other.capability for other in fewer], wanted):
            enough = fewer
    return tuple(AuditedRight(compact(own.capability.pattern), own.grant) for own in enough)


def _title(record: Record) -> str:
    members = (read_members(record.raw) if record.raw is not None else None) or {}
    kind, id = members.get("kind"), members.get("id")
    named = f" {quote(id)}" if isinstance(id, str) else ""
    return (
        f"{quote(kind)[1:-1]}{named}" if isinstance(kind, str) else f"a record {quote(record.event)}{named}"
    )


def _sender(record: Record) -> str:
    text = f"sent by {one_line(record.participant) or 'an unknown participant'}"
    if record.runtime_id:
        text += f" as {one_line(record.runtime_id)}"
    return (
        text
        + (f" on {one_line(record.connection)}" if record.connection else "")
        + (f" ({one_line(record.via)})" if record.via else "")
    )


def _readable(detail: str) -> str:
    """A text that may quote a peer, with invisible characters as escapes."""
    return quote(detail)[1:-1].replace('\\"', '"') if not detail.isprintable() else detail
