"""One moment of a log: the state of a space behind one of its records, as rows and tables.

Spec: §3.6.8.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import NoSuchName
from mew_lab.ledger.calls import Proposal
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.redaction import masked_markup
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.space.core import Space
from mew_lab.space.rights import Held
from mew_lab.space.state import Member

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ConnectionAt", "GrantAt", "MemberAt", "Moment", "PauseAt", "ProposalAt", "RightAt", "StreamAt"]

SHOWN = 30  # rows of a part in a notebook


class MemberAt(NamedTuple):
    """A participant: the ids of its connections, how many rights it holds, who invited it, and what holds it back.

    `rights` is None where they are not recorded.
    `inviter` is empty for a participant of the configuration. `paused` is whether a pause is in force.
    """

    participant: str
    ids: tuple[str, ...]
    rights: int | None
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
        notes: Sentences on what its log does not tell; empty for a journal of mew_lab.
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
        self.notes: tuple[str, ...] = ()
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
        parts = [f"<b>{_escape(title)}</b>", *(f"<p>{_escape(note)}</p>" for note in self.notes)]
        for part, (row, noun) in PARTS.items():
            if part == "proposals" and self._proposals is None:
                continue
            rows = getattr(self, part)
            if rows:
                parts.append(_table(count_of(len(rows), noun), row._fields, rows))
        return masked_markup(f"<div>{''.join(parts)}</div>")


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
