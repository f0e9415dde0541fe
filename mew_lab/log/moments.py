"""Makes the moments of a log: reads what has been added since the last one, and restores the state of the space.

Spec: §3.6.8.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from mew_lab.errors import JournalError, MewError, NoSuchName, ReplayMismatch
from mew_lab.ledger.calls import CallLedger, Proposal
from mew_lab.log.audit import RecordMatches
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.files import Files, JournalSource
from mew_lab.log.line import read_line, read_members, write_line
from mew_lab.log.reading import UnreadLine, is_journal, is_torn, open_regular, split_lines
from mew_lab.log.replay import CAUSED
from mew_lab.log.sidecar import has_index
from mew_lab.log.state_history import StateHistory, find_record
from mew_lab.log.state_replay import ALWAYS, LinePlace
from mew_lab.log.what_if import BEFORE_RIGHTS, OtherRights, WhatIf, judge_alone, replay_changed
from mew_lab.protocol.text import count_of, mend_surrogates
from mew_lab.protocol.visible import one_line, visible
from mew_lab.space.core import RULES, Space
from mew_lab.space.events import Record, outline
from mew_lab.space.rights import Held
from mew_lab.space.state import Member

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ConnectionAt",
    "GrantAt",
    "MemberAt",
    "Moment",
    "Moments",
    "OpenProposals",
    "PauseAt",
    "ProposalAt",
    "RecordedLog",
    "RightAt",
    "StreamAt",
]

MOST_PLACES = 50_000  # lines that are read one by one; more of them are found faster by reading all
_CHANGES = """(list_contains($1, event) OR (
    event = 'received' AND verdict = 'accepted' AND (list_contains($2, kind) OR "grant" <> '')
))"""
_CHANGING = f"SELECT file, start, length FROM entries WHERE {_CHANGES} ORDER BY place"
_JUDGED = f"""SELECT file, start, {_CHANGES} AND event <> 'opened' FROM entries
    WHERE {_CHANGES} OR (event = 'received' AND list_contains($3, participant)) ORDER BY place"""
# A message that was refused, and would now be allowed, may have an id that another one has taken.
_DOUBTFUL = """SELECT count(*) FROM entries WHERE verdict = 'refused' AND list_contains($1, participant)
    AND NOT list_contains($2, code) AND id IN (SELECT id FROM entries WHERE verdict = 'accepted' AND id <> '')"""
if TYPE_CHECKING:
    from mew_lab.log.index import LogIndex


ESCAPED = (
    b"\\u",
    b"\\/",
    b'"base64"',
    b'"detail":"{\\"size\\":',
)  # an id may be spelt with them, or be cut off


class RecordedLog(Protocol):
    """The log that is read: all its records, and the files that hold them, where there are any."""

    @property
    def source(self) -> JournalSource | None: ...
    @property
    def records(self) -> Iterable[Record]: ...
    @property
    def index(self) -> LogIndex: ...


class Moments:
    """The moments of one log, which may grow."""

    def __init__(self, log: RecordedLog) -> None:
        self._log = log
        self._history = StateHistory()

    def history(self) -> StateHistory:
        """The states of the space up to the newest record."""
        paths = self._paths()
        if paths:
            if self._history.last < 0 and has_index(paths[0]):
                self._history = self._read_by_index(paths) or self._history
            self._history.read_files(paths)
        else:
            after = self._history.last
            self._history.read_records(record for record in self._log.records if record.seq > after)
        return self._history

    def _read_by_index(self, paths: Sequence[Path]) -> StateHistory | None:
        """The states by the index, which knows the lines that may change them; None where that helps nothing."""
        index, history = self._log.index, StateHistory()
        found = index.query(_CHANGING, [list(ALWAYS), list(RULES)])
        ends = index.query("SELECT file, start, length FROM entries ORDER BY place DESC LIMIT 1")
        if not ends or len(found) > MOST_PLACES:
            return None
        [(last,)] = index.query("SELECT max(seq) FROM entries")
        try:
            places = [LinePlace(*place) for place in found]
            history.read_places(paths, places, end=LinePlace(*ends[0]), last=int(last))
        except MewError:
            return None  # the reading of all lines says what is wrong
        return history

    def at(self, seq: int | str) -> Moment:
        """The state behind the record `seq`.

        Raises:
            JournalError: when there is no such record, or the log cannot be replayed.
        """
        if isinstance(seq, bool) or not isinstance(seq, int):
            raise JournalError(f"A record is named by its number, such as '#13', not by {seq!r:.40}.")
        history = self.history()
        space = history.restore(seq)
        begun = history.snapshot if seq == history.first else None
        record = begun or self.record(seq)
        return Moment(
            space, seq=seq, now=record.now, proposals=lambda: self._proposals(seq), paths=self._paths()
        )

    def find(self, which: str | int) -> RecordMatches:
        """The records that an id, or a place, may mean; of a journal no more lines are read than may hold them."""
        matches, paths = RecordMatches(which), self._paths()
        if not paths:
            for record in self._log.records:
                matches.take(record)
            return matches
        if matches.place is not None:
            record_there = find_record(paths, matches.place)
            if record_there is not None:
                matches.add(record_there, self._cause(paths, record_there))
        if isinstance(which, str):
            for record in self._named(which, paths):
                matches.unknown += outline(record) is not None
                if (read_members(record.raw or "") or {}).get("id") == which and record.seq != matches.place:
                    matches.add(record, self._cause(paths, record))
        return matches

    def _named(self, id: str, paths: Sequence[Path]) -> Iterator[Record]:
        """The records whose message may have this id; where an index stands beside the journal, by the index."""
        index = self._log.index if has_index(paths[0]) else None
        places = index.rows("id = ?", [mend_surrogates(id)]) if index is not None else ()
        found = [index.record(int(place)) for place in places] if index is not None else []
        return iter(found) if found else _lines_with(id, paths)

    def what_if(self, rights: OtherRights, *, exact: bool) -> WhatIf:
        """The messages that other rights would have allowed or denied."""
        paths = self._paths()
        if exact:
            return replay_changed(Files(tuple(paths)).read([]) if paths else self._log.records, rights)
        if paths and has_index(paths[0]) and (several := self._judged_lines(paths, rights)) is not None:
            with suppress(JournalError, ReplayMismatch):  # the reading of all lines says what is wrong
                return judge_alone(several, rights)
        lines = _lines_of(paths) if paths else map(write_line, self._log.records)
        return judge_alone(lines, rights)

    def _judged_lines(self, paths: Sequence[Path], rights: OtherRights) -> Iterator[bytes] | None:
        """The lines that may change the state, or that other rights may concern; None where the index cannot tell."""
        index, names = self._log.index, sorted({*rights.configured, *rights.more})
        if rights.grants:
            return None
        places = index.query(_JUDGED, [list(ALWAYS), list(RULES), names])
        [(doubtful,)] = index.query(_DOUBTFUL, [names, list(BEFORE_RIGHTS)])
        many = len(places) > max(MOST_PLACES, len(index) // 8)
        return None if many or doubtful else _lines_at(paths, places)

    def _cause(self, paths: Sequence[Path], record: Record) -> Record | None:
        """The event that caused a record; None where it is one."""
        if record.event not in CAUSED:
            return None
        cause: Record | None = record
        while cause is not None and cause.event in CAUSED:
            cause = find_record(paths, cause.seq - 1)
        return cause

    def record(self, seq: int) -> Record:
        """The record with this `seq`.

        Raises:
            JournalError: when the log has no such record.
        """
        paths = self._paths()
        record = (
            find_record(paths, seq)
            if paths
            else next((record for record in self._log.records if record.seq == seq), None)
        )
        if record is None:
            raise JournalError(f"the log has no record #{seq}: it is missing, or its line cannot be read")
        return record

    def _paths(self) -> Sequence[Path]:
        """The files of a journal as mew_lab writes it; none where the records are elsewhere, or in another form."""
        source = self._log.source
        paths = source.paths if source is not None else ()
        return paths if paths and all(map(_is_plain, paths)) else ()

    def _proposals(self, seq: int) -> tuple[Proposal, ...]:
        proposals = OpenProposals()
        for record in self._until(seq):
            proposals.take(record)
        return proposals.open

    def _until(self, seq: int) -> Iterator[Record]:
        paths = self._paths()
        for record in Files(tuple(paths)).read([]) if paths else self._log.records:
            if record.seq > seq:
                return
            yield record


def _is_plain(path: Path) -> bool:
    try:
        return is_journal(path)
    except (OSError, JournalError):
        return False


def _lines_of(paths: Sequence[Path]) -> Iterator[bytes]:
    """The lines of these files that are not blank, without one that the last file ends within."""
    for path in paths:
        with open_regular(path, buffering=1 << 18) as file:
            for line in split_lines(file):
                if is_torn(line):
                    break
                if isinstance(line, UnreadLine):
                    yield b""  # it is no record
                elif not line.isspace():
                    yield line


def _lines_at(paths: Sequence[Path], places: Iterable[tuple[Any, ...]]) -> Iterator[bytes]:
    """The lines at these places (file, start), and where `causes` holds, those of the effects behind them."""
    with ExitStack() as stack:
        files = [stack.enter_context(open_regular(path, buffering=1 << 12)) for path in paths]
        for number, start, causes in places:
            file = files[number]
            file.seek(start)
            line = next(split_lines(file), b"")
            yield b"" if isinstance(line, UnreadLine) else line
            if causes:
                yield from _caused_lines(files[number:])


def _caused_lines(files: Sequence[IO[bytes]]) -> Iterator[bytes]:
    """The lines of the effects that follow in these files; a file may end within an event."""
    for file in files:
        if file is not files[0]:
            file.seek(0)
        for line in split_lines(file):
            record = read_line(line) if not isinstance(line, UnreadLine) else None
            if record is not None and record.event == "opened" and file is not files[0]:
                continue  # it continues the file before
            if isinstance(line, UnreadLine) or record is None or record.event not in CAUSED:
                return
            yield line


def _lines_with(id: str, paths: Sequence[Path]) -> Iterator[Record]:
    """The records whose text may hold this id, in any spelling, and those of which only the beginning is kept."""
    plain = id.isascii() and id.isprintable() and not set(id) & set('"\\/')
    parts = (id.encode(), *ESCAPED) if plain else (b"",)
    for path in paths:
        with open_regular(path, buffering=1 << 18) as file:
            for line in split_lines(file):
                if not isinstance(line, UnreadLine) and any(part in line for part in parts):
                    record = read_line(line)
                    if record is not None:
                        yield record


# --- one moment ---

SHOWN = 30  # rows of a part in a notebook


class MemberAt(NamedTuple):
    """A participant: the ids of its connections, how many rights it holds, who invited it, and what holds it back.

    `inviter` is empty for a participant of the configuration. `paused` is whether a pause is in force.
    """

    participant: str
    ids: tuple[str, ...]
    rights: int
    inviter: str
    paused: bool
    shut_down: bool
    removed: bool


class RightAt(NamedTuple):
    """A capability that a participant holds, and its origin.

    `grant` and `giver` are empty for a configured one. `expires_at` is the end of its grant in time, `uses` the number
    of messages that are left; None where it has no such end.
    """

    participant: str
    pattern: str
    grant: str
    giver: str
    expires_at: datetime | None
    uses: int | None


class GrantAt(NamedTuple):
    """A grant, or an invitation, of which something is still held; `patterns` is what is left of it."""

    grant: str
    giver: str
    participant: str
    patterns: tuple[str, ...]
    expires_at: datetime | None
    uses: int | None
    max_uses: int | None


class ProposalAt(NamedTuple):
    """A proposal that nobody had fulfilled and its proposer had not withdrawn; `rejected` by how many."""

    seq: int
    time: datetime
    id: str
    proposer: str
    to: tuple[str, ...]
    method: str
    tool: str
    rejected: int

    @classmethod
    def of(cls, proposal: Proposal) -> ProposalAt:
        """The row of a proposal of the ledger, as it is now."""
        entry = proposal.entry
        assert isinstance(entry, RecordedEntry)
        return cls(
            entry.record.seq,
            entry.record.now,
            proposal.id,
            proposal.proposer,
            proposal.to,
            proposal.method,
            proposal.tool,
            len({rejection.by for rejection in proposal.rejections}),
        )


class StreamAt(NamedTuple):
    """An active stream; `target` is empty where its frames go to everybody."""

    stream: str
    owner: str
    writers: tuple[str, ...]
    target: tuple[str, ...]
    created: str


class PauseAt(NamedTuple):
    """A pause in force: until when (None: until a resume), and the id of the participant that set it."""

    participant: str
    until: datetime | None
    by: str


class ConnectionAt(NamedTuple):
    """A connection, or a log sink (`via` is `log`), and the id under which it speaks."""

    connection: str
    participant: str
    id: str
    via: str


PARTS: Mapping[str, tuple[Any, str]] = {
    "members": (MemberAt, "participant"),
    "rights": (RightAt, "right"),
    "grants": (GrantAt, "grant"),
    "proposals": (ProposalAt, "open proposal"),
    "streams": (StreamAt, "stream"),
    "pauses": (PauseAt, "pause"),
    "connections": (ConnectionAt, "connection"),
}


class Moment:
    """The state of a space behind the record `seq`, at the time `now`.

    Attributes:
        space: The name of the space.
        seq: The place of the last record that counts.
        now: The time of that record.
        owner: The participant that cannot be revoked or kicked; empty where there is none.
        members: All participants that the space has ever known, removed ones too.
        rights: All capabilities that they hold, in the order of their arrival.
        grants: The grants and invitations of which something is still held.
        streams: The active streams.
        pauses: The pauses in force at `now`.
        connections: The connections and log sinks.
        paths: The files of its journal, in their order; none where the log has none.
    """

    def __init__(
        self,
        space: Space,
        *,
        seq: int,
        now: datetime,
        proposals: Callable[[], Iterable[Proposal]],
        paths: Sequence[Path] = (),
    ) -> None:
        state = space.state
        self.space = space.name
        self.paths = tuple(paths)
        self.seq = seq
        self.now = now
        self.owner = state.owner
        self.members = tuple(_member(member, now) for member in state.members.values())
        self.rights = tuple(
            _right(space, member, held) for member in state.members.values() for held in member.rights.held
        )
        self.grants = tuple(_grants(space))
        self.streams = tuple(
            StreamAt(
                stream.id,
                stream.owner.runtime_id,
                tuple(stream.writer_ids),
                tuple(target.runtime_id for target in stream.target),
                stream.created,
            )
            for stream in state.streams.values()
        )
        self.pauses = tuple(
            PauseAt(member.name, member.pause.until, member.pause.by)
            for member in state.members.values()
            if member.pause is not None and _is_paused(member, now)
        )
        self.connections = tuple(
            ConnectionAt(connection.name, connection.participant, connection.runtime_id, connection.via)
            for connection in (*state.connections.values(), *state.sinks.values())
        )
        self._read_proposals = proposals
        self._proposals: tuple[ProposalAt, ...] | None = None

    @property
    def proposals(self) -> tuple[ProposalAt, ...]:
        """The open proposals, the oldest first. The first use reads the calls of the log up to here."""
        if self._proposals is None:
            self._proposals = tuple(map(ProposalAt.of, self._read_proposals()))
        return self._proposals

    def frame(self, part: str = "members") -> pd.DataFrame:
        """A part as a table, with the fields of its rows as columns, also where it has no rows.

        Args:
            part: `members`, `rights`, `grants`, `proposals`, `streams`, `pauses` or `connections`.

        Raises:
            NoSuchName: when a moment has no such part.
        """
        from mew_lab.log.shown_frame import ShownFrame

        row, _ = self._part(part)
        return ShownFrame(list(getattr(self, part)), columns=list(row._fields))

    def _part(self, part: str) -> tuple[Any, str]:
        if part not in PARTS:
            raise NoSuchName(f"a moment has no part {one_line(str(part), 40)!r}; it has {', '.join(PARTS)}")
        return PARTS[part]

    def __repr__(self) -> str:
        counts = ", ".join(
            count_of(len(getattr(self, part)), noun)
            for part, (_, noun) in PARTS.items()
            if part != "proposals" or self._proposals is not None
        )
        return f"<Moment of {visible(self.space)} behind #{self.seq}, {self.now:%Y-%m-%d %H:%M:%S.%f}Z: {counts}>"

    def _repr_html_(self) -> str:
        title = f"{one_line(self.space)} behind #{self.seq}, {self.now:%Y-%m-%d %H:%M:%S.%f}Z"
        parts = [f"<b>{_escape(title)}</b>"]
        for part, (row, noun) in PARTS.items():
            if part == "proposals" and self._proposals is None:
                continue
            rows = getattr(self, part)
            if rows:
                parts.append(_table(count_of(len(rows), noun), row._fields, rows))
        return f"<div>{''.join(parts)}</div>"


def _table(title: str, names: Iterable[str], rows: tuple[tuple[Any, ...], ...]) -> str:
    head = "".join(f"<th>{_escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{_escape(_cell(value))}</td>' for value in row)}</tr>" for row in rows[:SHOWN]
    )
    more = f"<p>and {len(rows) - SHOWN} more</p>" if len(rows) > SHOWN else ""
    return (
        f"<details open><summary>{_escape(title)}</summary><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}</details>"
    )


def _escape(text: str) -> str:
    return html.escape(visible(text))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, bool):
        return "yes" if value else ""
    return one_line(", ".join(value) if isinstance(value, tuple) else str(value), 160)


def _member(member: Member, now: datetime) -> MemberAt:
    return MemberAt(
        member.name,
        tuple(connection.runtime_id for connection in member.connections),
        len(member.rights.held),
        member.inviter,
        _is_paused(member, now),
        member.shut_down,
        member.kicked,
    )


def _is_paused(member: Member, now: datetime) -> bool:
    return member.pause is not None and (member.pause.until is None or now < member.pause.until)


def _right(space: Space, member: Member, held: Held) -> RightAt:
    end = space.state.ends.get(held.grant) if held.limited else None
    return RightAt(
        member.name,
        held.capability.text,
        held.grant,
        held.granter,
        end.expires_at if end else None,
        end.uses if end else None,
    )


def _grants(space: Space) -> Iterable[GrantAt]:
    patterns: dict[tuple[str, str, str], list[str]] = {}
    for member in space.state.members.values():
        for held in member.rights.held:
            if held.grant:
                patterns.setdefault((held.grant, held.granter, member.name), []).append(held.capability.text)
    for (grant, giver, participant), texts in patterns.items():
        end = space.state.ends.get(grant)
        yield GrantAt(
            grant,
            giver,
            participant,
            tuple(texts),
            end.expires_at if end else None,
            end.uses if end else None,
            end.max_uses if end else None,
        )


# --- open proposals ---

_DECIDING = frozenset({"mcp/proposal", "mcp/withdraw", "mcp/reject"})
_MOST, _WEIGHT = 100_000, 256 * 1024 * 1024  # proposals that are held, and their characters


class OpenProposals:
    """The proposals of a log that are open after the records so far; `take` each record in order.

    Of the requests of a log it needs those that refer to a proposal.
    """

    def __init__(self) -> None:
        self._ledger = CallLedger(limit=_MOST, weight=_WEIGHT)
        self._forgotten: list[Proposal] = []

    def take(self, record: Record) -> None:
        """Takes the next record."""
        if record.raw is None or record.verdict != "accepted":
            return
        entry = RecordedEntry(record)
        proposals = self._ledger.proposals
        if entry.kind in _DECIDING or (
            entry.kind == "mcp/request" and any(proposals.get(id) is not None for id in entry.correlation_id)
        ):
            changes = self._ledger.observe(entry)
            self._forgotten += [
                change.proposal
                for change in changes
                if change.what == "forgotten" and not change.proposal.decided
            ]

    @property
    def open(self) -> tuple[Proposal, ...]:
        """The open proposals, the oldest first; rejected ones are among them, since they still stand."""
        return (*self._forgotten, *self._ledger.proposals.undecided)
