"""Makes the moments of a log: reads what has been added since the last one, and restores the state of the space.

Spec: §3.6.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mew_lab.errors import JournalError, MewError, ReplayMismatch
from mew_lab.ledger.calls import CallLedger, Proposal, is_quorum_missing
from mew_lab.log.audit import RecordMatches
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.files import Files, JournalSource
from mew_lab.log.line import read_line, read_members, write_line
from mew_lab.log.moment import Moment
from mew_lab.log.reading import UnreadLine, is_journal, is_torn, open_regular, split_lines
from mew_lab.log.recorded_past import PastMoment, RecordedPast, judge_recorded, lacks_opening
from mew_lab.log.replay import CAUSED
from mew_lab.log.sidecar import has_index
from mew_lab.log.state_history import StateHistory, find_record, lines_at
from mew_lab.log.state_replay import ALWAYS, LinePlace
from mew_lab.log.what_if import BEFORE_RIGHTS, OtherRights, WhatIf, judge_alone, replay_changed
from mew_lab.protocol.text import mend_surrogates
from mew_lab.space.core import RULES
from mew_lab.space.events import Record, outline

__all__ = ["Moments", "OpenProposals", "RecordedLog"]

MOST_PLACES = 50_000  # lines that are read one by one; more of them are found faster by reading all
_CHANGES = """(list_contains($1, event) OR (
    event = 'received' AND verdict = 'accepted' AND (list_contains($2, kind) OR "grant" <> '')
))"""
_CHANGING = f"SELECT file, start, length, event <> 'opened' FROM entries WHERE {_CHANGES} ORDER BY place"
_JUDGED = f"""SELECT file, start, length, {_CHANGES} AND event <> 'opened' FROM entries
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

    space: str

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
        self._past: RecordedPast | None = None
        self._first: Record | None = None
        self._last: int | None = None

    @property
    def _is_told(self) -> bool:
        """Whether the log cannot be replayed, so that its messages alone tell its past."""
        self._first = self._first or next(iter(self._log.records), None)
        first = self._first
        return first is not None and lacks_opening(first) and (not self._paths() or first.event == "opened")

    def span(self) -> tuple[int, int]:
        """The `seq` of the first state that can be told, and that of the newest record."""
        if self._is_told:
            assert self._first is not None
            if self._last is None or self._log.source is None:  # a live one grows
                self._last = max(record.seq for record in self._log.records)
            return self._first.seq, self._last
        history = self.history()
        return history.first, history.last

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
            history.read_places(paths, _places(found), end=LinePlace(*ends[0]), last=int(last))
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
        if self._is_told:
            return self._at_told(seq)
        history = self.history()
        space = history.restore(seq)
        begun = history.snapshot if seq == history.first else None
        record = begun or self.record(seq)
        return Moment(
            space, seq=seq, now=record.now, proposals=lambda: self._proposals(seq), paths=self._paths()
        )

    def _at_told(self, seq: int) -> PastMoment:
        record = self.record(seq)
        self._past = self._past or RecordedPast(lambda: self._log.records)
        self._past.go_to(seq)
        space = self._log.space
        return PastMoment(
            self._past, space=space, seq=seq, now=record.now, proposals=lambda: self._proposals(seq)
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
        if self._is_told and not exact:
            return judge_recorded(RecordedPast(lambda: self._log.records), self._log.records, rights)
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
        return None if many or doubtful else (line for line, _ in lines_at(paths, _places(places)))

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


def _places(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[LinePlace, bool]]:
    return ((LinePlace(*place), has_effects) for *place, has_effects in rows)


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
        if (
            entry.kind in _DECIDING
            or (
                entry.kind == "mcp/request"
                and any(proposals.get(id) is not None for id in entry.correlation_id)
            )
            or (entry.kind == "mcp/response" and is_quorum_missing(entry))
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
