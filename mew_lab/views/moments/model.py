"""The state of a space at each place of its log, as tables of texts.

`LogPlaces` reads a log once, in steps, and then what has been added. It knows the places at which the state changes, and
from where to where each proposal was open. `tables_of` turns a moment into the tables that a view shows. Nothing here
knows a widget.

Spec: §3.6, §3.9, §3.10.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple, Protocol

from mew_lab.ledger.members import MEMBER_KINDS
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.moment import MemberAt, Moment, ProposalAt, RightAt
from mew_lab.log.moments import OpenProposals
from mew_lab.log.state_replay import ALWAYS
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line
from mew_lab.space.core import RULES
from mew_lab.space.events import Record

__all__ = ["LogPlaces", "PlacedLog", "StateTable", "describe_record", "tables_of"]

MOST_TEXT = 160  # characters of a cell
_DECIDING = frozenset({"mcp/proposal", "mcp/withdraw", "mcp/request"})
Clock = Callable[[datetime], str]


class PlacedLog(Protocol):
    """The log that is read."""

    @property
    def records(self) -> Iterable[Record]: ...
    def held_after(self, seq: int, most: int) -> list[Record]: ...


class StateTable(NamedTuple):
    """One part of the state: its name, its title, its columns, and its rows as texts."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class _Span(NamedTuple):
    """A proposal, and the record with which it was no longer open."""

    proposal: ProposalAt
    end: int


class LogPlaces:
    """The places of a log: its records in short, where the state changes, and which proposals were open when.

    Attributes:
        last: The `seq` of the last record that was read; -1 before the first.
        changes: The places at which the state may change, in their order.
    """

    def __init__(self, log: PlacedLog) -> None:
        self._log = log
        self._unread: Iterator[Record] | None = None
        self._proposals = OpenProposals()
        self._open: dict[str, ProposalAt] = {}
        self._closed: list[_Span] = []
        self.last = -1
        self.changes: list[int] = []
        self._has_events = True  # of a gateway of mew_lab; else what it sends tells who comes

    def read(self, most: int) -> bool:
        """Reads at most `most` further records; returns whether all have been read."""
        if self._unread is None:
            self._unread = iter(self._log.records)
        records = list(islice(self._unread, most)) or self._log.held_after(self.last, most)
        for record in records:
            self._take(record)
            self.last = record.seq
        return not records

    def _take(self, record: Record) -> None:
        if self.last < 0:
            self._has_events = record.event == "opened"
        if not self._has_events and record.verdict == "sent" and RecordedEntry(record).kind in MEMBER_KINDS:
            self.changes.append(record.seq)
            return
        if record.raw is None:
            if record.event in ALWAYS:
                self.changes.append(record.seq)
            return
        if record.verdict != "accepted":
            return
        kind = RecordedEntry(record).kind
        changes = kind in RULES
        if kind in _DECIDING:
            self._proposals.take(record)
            now = {proposal.id: proposal for proposal in self._proposals.open}
            for id in self._open.keys() - now.keys():
                self._closed.append(_Span(self._open.pop(id), record.seq))
                changes = True
            for id in now.keys() - self._open.keys():
                self._open[id] = ProposalAt.of(now[id])
                changes = True
        if changes:
            self.changes.append(record.seq)

    def proposals(self, seq: int) -> tuple[ProposalAt, ...] | None:
        """The proposals that were open behind the record `seq`, the oldest first; None where that is not read yet."""
        if seq > self.last:
            return None
        found = [span.proposal for span in self._closed if span.proposal.seq <= seq < span.end]
        found += [proposal for proposal in self._open.values() if proposal.seq <= seq]
        return tuple(sorted(found, key=lambda proposal: proposal.seq))

    def next_change(self, seq: int) -> int | None:
        """The first place after `seq` at which the state changes."""
        at = bisect_right(self.changes, seq)
        return self.changes[at] if at < len(self.changes) else None

    def previous_change(self, seq: int) -> int | None:
        """The last place before `seq` at which the state changes."""
        at = bisect_left(self.changes, seq)
        return self.changes[at - 1] if at else None


def describe_record(record: Record) -> str:
    """What a record says, in one line: a message with its sender, or an event."""
    if record.raw is None:
        who = f" {record.participant}" if record.participant else ""
        return one_line(f"{record.event}{who}", MOST_TEXT)
    entry = RecordedEntry(record)
    refused = f"refused {record.code}: " if entry.refused else ""
    return one_line(f"{refused}{entry.sender}: {entry.kind or 'unreadable'} {entry.what}", MOST_TEXT)


def tables_of(moment: Moment, proposals: Sequence[ProposalAt] | None, clock: Clock) -> tuple[StateTable, ...]:
    """The tables of a moment. Without `proposals`, which may not be read yet, their table is left out.

    Args:
        clock: Writes a time for the reader.
    """
    here = {connection.participant for connection in moment.connections}
    tables = [
        _table(
            "members",
            "Participants",
            ("Participant", "State", "Permissions", "Invited by"),
            (
                (
                    member.participant,
                    _state(member.participant in here, member),
                    "unknown" if member.rights is None else str(member.rights),
                    member.inviter,
                )
                for member in moment.members
            ),
        ),
        _table(
            "pauses",
            "Pauses",
            ("Participant", "Until", "By"),
            (
                (pause.participant, clock(pause.until) if pause.until else "resumed", pause.by)
                for pause in moment.pauses
            ),
        ),
        _table(
            "streams",
            "Streams",
            ("Stream", "Owner", "Writers", "To"),
            (
                (
                    stream.stream,
                    stream.owner,
                    ", ".join(stream.writers),
                    ", ".join(stream.target) or "everybody",
                )
                for stream in moment.streams
            ),
        ),
        _table(
            "rights",
            "Permissions",
            ("Participant", "Permission", "From", "Ends"),
            (
                (right.participant, right.pattern, _origin(right), _end(right, clock))
                for right in sorted(moment.rights, key=lambda right: not right.grant)  # what was given first
            ),
        ),
    ]
    if proposals is not None:
        rows = (
            (f"#{one.seq}", one.proposer, ", ".join(one.to), one.tool or one.method, clock(one.time))
            for one in proposals
        )
        tables.insert(
            1, _table("proposals", "Open proposals", ("Record", "From", "To", "Tool", "Since"), rows)
        )
    return tuple(tables)


def _table(name: str, title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> StateTable:
    return StateTable(name, title, columns, tuple(tuple(map(_cell, row)) for row in rows))


def _cell(text: str) -> str:
    return middle(text, MOST_TEXT)


def _state(here: bool, member: MemberAt) -> str:
    if member.removed:
        return "removed"
    if member.shut_down:
        return "shut down"
    if member.paused:
        return "paused"
    return "present" if here else "absent"


def _origin(right: RightAt) -> str:
    if not right.grant:
        return right.giver or "configuration"
    return f"{right.giver or 'invitation'}, {middle(right.grant, 20)}"


def _end(right: RightAt, clock: Clock) -> str:
    ends = [clock(right.expires_at)] if right.expires_at else []
    if right.uses is not None:
        ends.append(f"{count_of(right.uses, 'use')} left")
    return ", ".join(ends)
