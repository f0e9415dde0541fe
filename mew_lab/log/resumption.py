"""Replays as much of a journal as a space needs that goes on from it: its state, exactly as a full replay leaves it.

`StateReplay` leaves out what changes nothing; here the rest of the state is restored too:

- the gateway's own ids: a message that was refused over HTTP may have taken one that no record shows, so it is replayed;
- the count of refused frames: each of them is replayed;
- the ids that requests, proposals and chat messages have taken: of each participant the newest, as many as a space
  remembers;
- the last event: it is replayed with the records that it caused, since a killed gateway may have left some unwritten.

This rests on the journal being what its gateway wrote. So it is for journals whose chain was verified, and whose space
has obeyed the same rules from its first record (`goes_quickly`); others are replayed in full. `resume_verified` does
both at once: another process verifies while this one replays, and the replay counts only where the chain has no flaw.

Spec: §3.6.8, rulings R6 and R20.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mew_lab.log.integrity import Integrity
from mew_lab.log.integrity_process import IntegrityProcess
from mew_lab.log.line import read_line, read_members
from mew_lab.log.reading import (
    LineReader,
    UnreadLine,
    is_torn,
    open_regular,
    opening_of,
    split_lines,
    stored_length,
)
from mew_lab.log.replay import CAUSED, SNAPSHOT, Replayed
from mew_lab.log.state_history import find_record
from mew_lab.log.state_replay import LineHeader, LinePlace, StateReplay, top_level
from mew_lab.protocol.kinds import HANDLES
from mew_lab.space.core import RULES, Space
from mew_lab.space.events import Record, outline
from mew_lab.space.reports import Resolutions
from mew_lab.space.state import EDITION, Handle, State

__all__ = ["Resumption", "goes_quickly", "note_resolution", "resume_quickly", "resume_verified"]

RECENT = 50_000  # records at the end that are read for the views
_MARK_EVERY = 1000  # records between two places that are kept for that
_FREE = ("memory", "log")  # connections of the gateway's own process, whose bytes nobody pays
_LASTING = frozenset({"capability/grant", "space/invite"})
_TAKERS = frozenset(HANDLES) - _LASTING
_TAKING = frozenset(kind.encode() for kind in {*_TAKERS, "chat"} - RULES.keys())
_OUTLINED = b',"detail":"{\\"size\\":'
_TAIL = 16 * 1024 * 1024  # bytes at the end of a file in which its last event is looked for
_UNCHECKED = "duplicate_id"  # a refusal that takes no id, and that only the ids of before explain


class _Mark(NamedTuple):
    """A line: how many records, messages and unknown ones came before it, and where it begins."""

    records: int
    envelopes: int
    unknown: int
    file: int
    start: int


class Resumption(NamedTuple):
    """A journal that was replayed as far as its space needs it.

    `used` are the bytes of lines that each participant has caused, `enrolled` the newest capabilities of each enrolment
    as text, `notes` the newest note of each kind, `resolutions` what was reported of calls. `before` counts the records,
    messages and unknown messages that `recent` leaves out.
    """

    replayed: Replayed
    used: dict[str, int]
    enrolled: dict[str, str]
    notes: dict[str, str]
    resolutions: Resolutions
    before: tuple[int, int, int]
    paths: tuple[Path, ...]
    mark: _Mark

    def recent(self) -> Iterator[Record]:
        """The newest records of the journal."""
        for number in range(self.mark.file, len(self.paths)):
            with open_regular(self.paths[number], buffering=1 << 18) as file:
                file.seek(self.mark.start if number == self.mark.file else 0)
                for line in split_lines(file):
                    record = read_line(line) if not isinstance(line, UnreadLine) else None
                    if record is not None:
                        yield record


def goes_quickly(paths: Sequence[Path], integrity: Integrity) -> bool:
    """Whether a journal may be resumed without a full replay: all of it is chained, under one edition of the rules."""
    chained = integrity.flaw is None and integrity.chained > 0 and not integrity.unchained
    return chained and opening_of(paths[0]).get("edition") == EDITION


def resume_verified(
    paths: Sequence[Path], *, name: str, until: int | None = None, with_heads: bool = True
) -> tuple[Integrity, Resumption | None]:
    """Verifies the chain of a journal and replays it; None instead of the replay where it does not go quickly.

    It does neither where kept heads do not vouch for it; `check_evidence` says so.

    Args:
        name: The name of the journal in errors.
        until: The `seq` of the last record that counts; None for all.
        with_heads: Whether the kept heads are to be in the chain.

    Raises:
        ReplayMismatch: when the journal is vouched for, and a fresh space would have recorded something else.
        JournalError: when it is vouched for and cannot be replayed, or when it cannot be read.
    """
    resumed, fault = None, None
    with IntegrityProcess(paths[0], with_heads=with_heads) as verification:
        if opening_of(paths[0]).get("edition") == EDITION:
            try:
                resumed = resume_quickly(paths, name=name, until=until)
            except Exception as error:  # lines that were changed may hold anything
                fault = error
        integrity = verification.wait()
    if not goes_quickly(paths, integrity) or (with_heads and integrity.doubts):
        return integrity, None
    if fault is not None:
        raise fault
    return integrity, resumed


def resume_quickly(
    paths: Sequence[Path], *, name: str, recent: int = RECENT, until: int | None = None
) -> Resumption | None:
    """Replays the journal in these files, in their order; None where its last event is too far from its end.

    Args:
        recent: The number of the newest records that `Resumption.recent` is to read.
        until: The `seq` of the last record that counts; None for all.

    Raises:
        ReplayMismatch: when a fresh space would have recorded something else.
        JournalError: when it cannot be replayed.
    """
    last = _find_last_event(paths) if until is None else _find_event(paths, until)
    if last is None:
        return None
    replay = _ExactReplay(name, last)
    marks: list[_Mark] = []
    for number, path in enumerate(paths):
        start = 0
        with open_regular(path, buffering=1 << 18) as file:
            for whole in split_lines(file):
                line, length = b"" if isinstance(whole, UnreadLine) else whole, stored_length(whole)
                if number + 1 == len(paths) and is_torn(whole):
                    break
                if replay.records % _MARK_EVERY == 0:
                    marks.append(_Mark(replay.records, replay.envelopes, replay.unknown, number, start))
                if until is not None and replay.is_at_end and _seq_of(line) > until:
                    break
                if not line.isspace():
                    replay.take_next(line, LinePlace(number, start, length))
                start += length
    replayed = replay.end()
    far = (mark for mark in reversed(marks) if replay.records - mark.records >= recent)
    mark = next(far, _Mark(0, 0, 0, 0, 0))
    return Resumption(
        replayed,
        replay.used,
        replay.enrolled,
        replay.notes,
        replay.resolutions,
        (mark.records, mark.envelopes, mark.unknown),
        tuple(paths),
        mark,
    )


def note_resolution(resolutions: Resolutions, record: Record) -> None:
    """Takes the next record of a journal, of any kind."""
    resolutions.take(record)
    if resolutions and record.event == "received" and record.verdict == "accepted":
        members = read_members(record.raw or "") or {}
        if members.get("kind") in HANDLES and isinstance(members.get("id"), str):
            resolutions.forget(members["id"])


def _find_event(paths: Sequence[Path], seq: int) -> int | None:
    """The `seq` of the newest record up to `seq` that is no effect of another; None where there is none."""
    while seq > 0:
        record = find_record(paths, seq)
        if record is None:
            return None
        if record.event not in CAUSED:
            return seq
        seq -= 1
    return None


def _seq_of(line: bytes) -> int:
    record = read_line(line)
    return record.seq if record is not None else 0


def _find_last_event(paths: Sequence[Path]) -> int | None:
    """The `seq` of the newest record that is no effect of another; None where it is not near the end."""
    for number in reversed(range(len(paths))):
        size = paths[number].stat().st_size
        begin = max(0, size - _TAIL)
        with open_regular(paths[number]) as file:
            file.seek(begin)
            data = file.read(_TAIL)
        starts = [*([] if begin else [0]), *_starts(data)]
        reader = LineReader(paths)
        for start, end in zip(reversed(starts), [len(data), *reversed(starts)], strict=False):
            record = reader.record(number, begin + start, end - start)
            if record is not None and record.event not in CAUSED and record.event != "opened":
                return record.seq
        if begin:
            return None
    return None


def _starts(data: bytes) -> list[int]:
    """Where lines begin in a part of a file, without its first line, which may have begun before."""
    starts, at = [], data.find(b"\n") + 1
    while at:
        starts.append(at)
        at = data.find(b"\n", at) + 1
    return starts


class _ExactReplay(StateReplay):
    """A `StateReplay` whose space may go on; `last` is the `seq` of the last event."""

    def __init__(self, name: str, last: int) -> None:
        super().__init__(name, observe=self._on_change)
        self.records = self.envelopes = self.unknown = self._events = 0
        self.used: dict[str, int] = {}
        self.enrolled: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.resolutions = Resolutions()
        self._last = b'{"seq":%d,' % last
        self.is_at_end = False
        """Whether the last event was taken."""
        self._payer = ""
        self._line = b""
        self._taken = _TakenIds()

    def take_next(self, line: bytes, place: LinePlace) -> None:
        """Takes the next line of the journal."""
        self._line = line
        self.records += 1
        if line.startswith(self._last):
            record = read_line(line)
            space = self.space
            self.is_at_end = True
            if record is not None and space is not None and self._complete:
                self.envelopes += record.raw is not None
                self._note_event(record)
                self._taken.restore(space)
                note_resolution(self.resolutions, record)
                self.force(record, place)
                return
        self.take_line(line, place)
        if self._payer:
            self.used[self._payer] = self.used.get(self._payer, 0) + max(len(line), place.length)

    def _leaves_out(self, header: LineHeader, line: bytes, mark: int) -> bool:
        if header.event == "received" and header.verdict == "refused":
            takes_id = not header.connection and header.code != _UNCHECKED
            if takes_id or line.find(_OUTLINED, 0, mark) >= 0:
                return False
        if not super()._leaves_out(header, line, mark):
            return False
        self.envelopes += 1
        if header.event == "received":
            self._events += 1
            self._payer = header.participant if header.via and header.via not in _FREE else ""
            if header.verdict == "accepted" and self._kind in _TAKING:
                id = self._id.decode() if self._id.isascii() else _read_id(line)
                self._take_id(header.participant, self._kind.decode(), id)
        return True

    def take(self, record: Record, place: LinePlace | None = None) -> None:
        self.envelopes += record.raw is not None
        if record.event not in CAUSED:
            self._note_event(record)
        self.resolutions.take(record)
        super().take(record, place)
        if record.event == "received" and record.verdict == "accepted":
            kind = (read_members(record.raw or "") or {}).get("kind")
            if isinstance(kind, str) and (kind in _TAKERS or kind == "chat"):
                self._take_id(record.participant, kind, _read_id(self._line))

    def _note_event(self, record: Record) -> None:
        if record.event not in ("opened", SNAPSHOT):
            self._events += 1
        self._payer = record.participant if record.via and record.via not in _FREE else ""
        self.unknown += outline(record) is not None
        if record.event == "enrolled":
            self.enrolled[record.participant] = record.detail
        elif record.raw is None and record.event not in ("opened", SNAPSHOT):
            self.notes[record.event] = record.detail

    def _changes(self, record: Record) -> bool:
        if record.event == "frame":
            return True
        if record.event == "received" and record.verdict == "refused":
            return not record.connection and record.code != _UNCHECKED
        return super()._changes(record)

    def _messages_before(self, group: list[Record]) -> int:
        # Exact here; a refused message may have taken an id before the one that its refusal shows.
        return self._messages_so_far()

    def _on_change(self, group: Sequence[Record], place: LinePlace | None, messages: int) -> None:
        space = self.space
        if space is not None and group[0].event == SNAPSHOT:
            self._taken.begin(space)

    def _take_id(self, participant: str, kind: str, id: str) -> None:
        self.resolutions.forget(id)
        member = self._player.space.state.members.get(participant)
        if member is not None:
            self._taken.add(id, kind, participant, member.admissions)

    def end(self) -> Replayed:
        """The result of the replay, as a full one has it."""
        _ = self.space
        replayed = self.replayed
        return replayed._replace(events=self._events, unknown=self.unknown)


class _TakenIds:
    """The ids that messages took, in their order, with the participants and their admissions."""

    def __init__(self) -> None:
        self._earlier: list[tuple[str, Handle]] = []  # of a snapshot
        self._chats = State(())
        self._names: dict[str, int] = {}
        self._participants = array("L")
        self._admissions = array("L")
        self._proposals = bytearray()  # 1 for a proposal
        self._ids: list[str] = []  # kept as they pass: to read them again would cost a call for each

    def begin(self, space: Space) -> None:
        """Takes those of a snapshot."""
        self._earlier = list(space.state.handles.items())
        self._chats.chats = space.state.chats.copy()
        self._chats.chats_of = {name: ids.copy() for name, ids in space.state.chats_of.items()}

    def add(self, id: str, kind: str, participant: str, admission: int) -> None:
        if kind == "chat":
            self._chats.take_chat(id, participant)
            return
        self._proposals.append(kind == "mcp/proposal")
        self._participants.append(self._names.setdefault(participant, len(self._names)))
        self._admissions.append(admission)
        self._ids.append(id)

    def restore(self, space: Space) -> None:
        """Gives the space the ids that it remembers: the newest, up to the shares of its participants."""
        limits = space.state.limits
        share = max(1, limits.handles // limits.share) if limits.share > 1 else limits.handles
        names = list(self._names)
        kept: list[tuple[str, Handle]] = []
        seen: set[str] = set()
        own: Counter[str] = Counter()

        def keep(id: str, handle: Handle) -> None:
            if id not in seen and own[handle.participant] < share and len(kept) < limits.handles:
                seen.add(id)
                own[handle.participant] += 1
                kept.append((id, handle))

        for at in reversed(range(len(self._ids))):
            name, proposal = names[self._participants[at]], bool(self._proposals[at])
            keep(self._ids[at], Handle(name, self._admissions[at], proposal=proposal))
            if len(kept) >= limits.handles:
                break
        for id, handle in reversed(self._earlier):
            keep(id, handle)
        space.state.forget_ids()
        for id, handle in reversed(kept):
            space.state.take_handle(id, handle)
        space.state.chats, space.state.chats_of = self._chats.chats, self._chats.chats_of


def _read_id(line: bytes) -> str:
    mark = line.find(b',"envelope":')
    id = top_level(line, mark)[1] if mark > 0 else None
    if id is not None and id.isascii():
        return id.decode()
    record = read_line(line)
    return str((read_members(record.raw or "") or {}).get("id", "")) if record is not None else ""
