"""Replays a journal: feeds its events to a new Space, and reports the first difference.

A journal has one record for each event, followed by the records of the messages that the space then sent. So records
are taken one by one: a record that the fresh space predicts must be equal to the prediction, and any other record is
the next event. The resulting space is in the state of the space that wrote the journal, at its end.

This module knows no gateway, no token, and connections only by name. Frames that were passed on are not in a journal,
because they change nothing. Of a refused frame the journal has the size, and any bytes of that size replace it.

Spec: §3.6.8.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from mew_lab.errors import JournalError, MewError, ReplayMismatch
from mew_lab.log.files import files_of
from mew_lab.log.line import read_line, read_members, write_line
from mew_lab.log.reading import vantage_of
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.miss import quote
from mew_lab.space.core import Space
from mew_lab.space.events import (
    Enrolled,
    Event,
    FrameReceived,
    GrantEnded,
    Joined,
    Left,
    Limited,
    Mint,
    Noted,
    Oversize,
    Received,
    Record,
    RefusedBefore,
    Reported,
    Void,
    WelcomesDue,
    outline,
)
from mew_lab.space.opening import reopen
from mew_lab.space.snapshot import restore, snapshot
from mew_lab.space.turn import Turn

__all__ = [
    "CAUSED",
    "SERVED",
    "SNAPSHOT",
    "Player",
    "Replayed",
    "event_of",
    "replay",
    "replay_records",
    "snapshot_records",
]

SNAPSHOT = "snapshot"
SERVED = "served"  # the note with a port and settings
PART = 1024 * 1024  # characters of a snapshot in one line
CAUSED = frozenset(
    {"sent", "lapsed", "name_freed"}
)  # events of records that are always an effect, never the cause
AROUND = 24  # characters of context before a difference
QUOTED = 256  # characters of a stream's name that the refusal of a frame repeats, bytes beyond ASCII escaped
NUMBERED = re.compile(r"[0-9]{1,15}\Z")
ESCAPE = re.compile(r"\\x([89a-f][0-9a-f])")
CUT_ESCAPE = re.compile(r"\\(x[89a-f]?)?\Z")


class Replayed(NamedTuple):
    """The result of a replay without a difference.

    `space` has the state after the last of `events` events, at `last`. `unwritten` are the records of the last event
    that the journal lacks, because its gateway ended while it wrote them. `void` names the participants whose tokens
    were void at the end; `connections` is the highest number in the name of a connection. `unknown` counts the refused
    messages that could not be checked again, because only their beginning is kept; `faults` are sentences on what of the
    files was left out.
    """

    space: Space
    events: int
    last: datetime
    unwritten: tuple[Record, ...]
    void: frozenset[str]
    connections: int
    unknown: int = 0
    carried: Mapping[str, Any] = MappingProxyType({})
    """The data of pruned records besides the space: the enrolled capabilities, port and settings."""
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.events} event{'' if self.events == 1 else 's'}, no difference"
        if self.unwritten:
            text += (
                f"; the last one's records end {len(self.unwritten)} short, as when its gateway was killed"
            )
        if self.unknown:
            alone = self.unknown == 1
            text += (
                f"; {self.unknown} refused message{' was' if alone else 's were'} not checked again, since only "
                f"{'its' if alone else 'their'} beginning is kept"
            )
        return "; ".join([text, *self.faults])


def replay(
    path: str | os.PathLike[str], *, observe: Callable[[Record], None] = lambda record: None
) -> Replayed:
    """Replays the journal in a file and the files that continue it; calls `observe` with each confirmed record.

    Raises:
        ReplayMismatch: at the first record that differs.
        JournalError: when there is no journal, or it cannot be replayed at all, such as one seen by a participant.
    """
    faults: list[str] = []
    result = replay_records(files_of(path).read(faults), name=str(path), observe=observe)
    return result._replace(faults=tuple(faults))


def replay_records(
    records: Iterable[Record],
    *,
    name: str = "the journal",
    observe: Callable[[Record], None] = lambda record: None,
) -> Replayed:
    """Like `replay`, for records in memory.

    Raises:
        ReplayMismatch: at the first record that differs.
        JournalError: when they cannot be replayed at all.
    """
    player = Player(name)
    for record in records:
        player.take(record)
        observe(record)
    return player.end()


class Player:
    """A replay, record by record: `take` each, read `space` in between, and `end` it.

    `observe_turn` is called with each turn before it is committed, while the rights are those of its decision.
    """

    def __init__(self, name: str, *, observe_turn: Callable[[Space, Turn], object] | None = None) -> None:
        self._name = name
        self._observe_turn = observe_turn
        self._space: Space | None = None
        self._predicted: deque[Record] = deque()
        self._events = 0
        self._last = datetime.min.replace(tzinfo=UTC)
        self._void: set[str] = set()
        self._connections = 0
        self._unknown = 0
        self._parts: list[str] = []
        self._awaited = 0  # parts of a snapshot still to come
        self._carried: Mapping[str, Any] = {}
        self._on_trust = False  # the prediction follows a refusal that could not be checked again

    @property
    def space(self) -> Space:
        """The space after the records so far; there is none before the first."""
        assert self._space is not None
        return self._space

    def take(self, record: Record) -> None:
        """Replays the next record.

        Raises:
            ReplayMismatch: when a fresh space would have recorded something else.
            JournalError: when it cannot be replayed.
        """
        if record.event == "opened":
            self._open(record)
        elif self._space is None:
            raise self._impossible(record, "it does not begin with the opening of a space")
        elif self._predicted:
            self._compare(record, self._predicted.popleft())
        elif self._awaited:
            self._restore(self._space, record)
        else:
            self._step(self._space, record)
        self._last = record.now

    def pass_over(self, *, records: int, messages: int, keep_ids: bool = False) -> None:
        """Goes on behind records that were left out: they changed only these counters, and which ids are taken.

        Args:
            records: The `seq` of the last of them.
            messages: The number of the gateway's own messages so far.
            keep_ids: Whether the ids that are taken are known all the same.
        """
        state = self.space.state
        state.records, state.messages = records, messages
        if not keep_ids:
            state.forget_ids()

    @property
    def between(self) -> bool:
        """Whether all records of the last event are taken."""
        return self._space is not None and not self._predicted and not self._awaited

    def end(self) -> Replayed:
        """The result of the replay."""
        if self._space is None:
            raise JournalError(f"{self._name} cannot be replayed: it holds no record", path=self._name)
        return Replayed(
            self._space,
            self._events,
            self._last,
            tuple(self._predicted),
            frozenset(self._void),
            self._connections,
            self._unknown,
            self._carried,
        )

    def _open(self, record: Record) -> None:
        """Takes an `opened`: a space begins, or a file continues another one."""
        about = read_members(record.detail) or {}
        if (vantage := vantage_of(about)) != "gateway":
            who = {
                "tap": "a tap, which decides nothing",
                "agent": "a coding agent, which is in no space",
            }.get(vantage, "a participant, which receives no refused or private messages")
            raise self._impossible(record, f"it was recorded by {who}; replay the journal of the gateway")
        if "previous" in about:
            if self._space is None:
                raise self._impossible(
                    record, f"it continues {quote(about['previous'])}; name the first file"
                )
            if about.get("epoch") == self._space.epoch:
                return
        if self._predicted:
            self._compare(record, self._predicted.popleft())
        try:
            self._space = reopen(record)
        except MewError as fault:
            raise self._impossible(record, str(fault)) from None
        self._void.clear()
        pruned = about.get("pruned", about.get("branched"))
        self._parts.clear()
        parts = pruned.get("parts") if isinstance(pruned, dict) else 0
        if type(parts) is not int or parts < 0:
            raise self._impossible(record, "it does not state the number of parts of its snapshot")
        self._awaited = parts

    def _restore(self, space: Space, record: Record) -> None:
        """Takes a part of the snapshot that replaces pruned records; the last part restores the space."""
        if record.event != SNAPSHOT:
            raise self._impossible(record, f"{self._awaited} more parts of its snapshot are missing here")
        self._parts.append(record.detail)
        self._awaited -= 1
        if self._awaited:
            return
        try:
            members = json.loads("".join(self._parts))
            restore(space, compact(members["state"]))
            self._void = set(map(str, members["void"]))
            self._connections = int(members["connections"])
            self._carried = {
                "enrolled": dict(members["enrolled"]),
                "port": int(members["port"]),
                "settings": dict(members.get("settings", {})),
            }
        except (KeyError, TypeError, ValueError, RecursionError, MewError) as fault:
            raise self._impossible(record, f"its snapshot cannot be read ({fault})") from None
        self._parts.clear()

    def _step(self, space: Space, record: Record) -> None:
        if record.event in CAUSED:
            self._compare(record, None)
        try:
            event = event_of(record)
            turn = space.plan(event, record.now)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, MewError) as fault:
            raise self._impossible(record, f"its {record.event} cannot be read ({fault})") from None
        if self._observe_turn is not None:
            self._observe_turn(space, turn)
        turn.commit()
        self._events += 1
        self._on_trust = type(event) is RefusedBefore
        self._unknown += self._on_trust
        if numbered := NUMBERED.search(record.connection):
            self._connections = max(self._connections, int(numbered[0]))
        for effect in turn.effects:
            if type(effect) is Record:
                self._predicted.append(effect)
            elif type(effect) is Void:
                self._void.add(effect.participant)
            elif type(effect) is Mint:
                self._void.discard(effect.participant)
        self._compare(record, self._predicted.popleft() if self._predicted else None)

    def _compare(self, journaled: Record, made: Record | None) -> None:
        """Raises ReplayMismatch when a journaled record differs from that of the fresh space. Spec: §3.6.8."""
        if made is not None and (journaled == made or journaled == read_line(write_line(made))):
            return
        if made is not None and self._on_trust and _is_same_refusal(journaled, made):
            return
        where = f"#{journaled.seq} of {self._name}"
        if made is None:
            difference = f"{where} ({_describe(journaled)}) is nothing that a fresh space would record"
        else:
            field = next(key for key in Record._fields if getattr(journaled, key) != getattr(made, key))
            ours, theirs = _around(getattr(made, field), getattr(journaled, field))
            difference = (
                f"{where} ({_describe(journaled)}) differs in {field}: it says {theirs}, a fresh space {ours}"
            )
        raise ReplayMismatch(difference, index=journaled.seq, expected=journaled, actual=made)

    def _impossible(self, record: Record, why: str) -> JournalError:
        return JournalError(f"{self._name} cannot be replayed at #{record.seq}: {why}", path=self._name)


def snapshot_records(
    replayed: Replayed,
    space: str,
    about: Mapping[str, Any],
    why: str,
    *,
    now: datetime,
    enrolled: Mapping[str, str],
    port: int,
    settings: Mapping[str, Any] | None,
) -> list[Record]:
    """The first records of a journal that begins with the state of a replay; a replay restores them.

    Args:
        about: What the first record states; its member `why` gets the number of parts of the snapshot.
        enrolled: The newest capabilities of each enrolment, as text, besides those that the replay carried.
        port: The port that was noted last; 0 where none was, and then it is carried.
        settings: The settings that were noted last; None where none were, and then they are carried.
    """
    carried = replayed.carried
    detail = compact(
        {
            "state": json.loads(snapshot(replayed.space)),
            "void": sorted(replayed.void),
            "connections": replayed.connections,
            "enrolled": {**carried.get("enrolled", {}), **enrolled},
            "port": port or carried.get("port", 0),
            "settings": carried.get("settings", {}) if settings is None else settings,
        }
    )
    parts = [detail[at : at + PART] for at in range(0, len(detail), PART)]
    about = {**about, why: {**about[why], "parts": len(parts)}}
    return [
        Record(0, now, "opened", space, detail=compact(about)),
        *(Record(0, now, SNAPSHOT, space, detail=part) for part in parts),
    ]


def _is_same_refusal(journaled: Record, made: Record) -> bool:
    """Whether both are the same refusal to the same receivers with the same id; the reasons may differ."""
    if made.event != "sent" or journaled._replace(raw=made.raw) != made:
        return False
    theirs, ours = (read_members(record.raw or "") or {} for record in (journaled, made))
    return all(theirs.get(key) == ours.get(key) for key in ("protocol", "id", "ts", "from", "to"))


def event_of(record: Record) -> Event:
    """The event of a record; a record of any other kind is a note of the host.

    Raises:
        KeyError, TypeError, ValueError: when a member is missing or wrong.
    """
    connection = record.connection or None
    speaker = (record.participant, record.runtime_id or record.participant, record.via)
    match record.event:
        case "unreadable":
            raise ValueError(record.detail)
        case "enrolled":
            return Enrolled(record.participant, tuple(json.loads(record.detail)))
        case "joined":
            runtime_id = record.detail if record.verdict == "accepted" else record.runtime_id
            return Joined(record.connection, record.participant, runtime_id, record.via)
        case "left":
            return Left(record.connection, record.detail)
        case "received":
            text = record.raw if record.received is None else record.received
            if text is None:
                raise ValueError("the text is missing")
            if outline(record) is not None:
                return RefusedBefore(record)
            return Received(text, connection, *speaker)
        case "frame":
            return FrameReceived(record.connection, _frame(record.code, **json.loads(record.detail)), False)
        case "oversize":
            about = json.loads(record.detail)
            named = about.get("id", "")
            if not isinstance(named, str):
                raise ValueError("the id of its message is no text")
            return Oversize(connection, about["size"], about["sha256"], *speaker, named)
        case "limited":
            return Limited(record.connection, json.loads(record.detail)["messages"])
        case "reported":
            return Reported(record.participant, record.detail, record.via)
        case "grant_ended":
            return GrantEnded()
        case "welcomes_due":
            return WelcomesDue()
    return Noted(record.event, record.participant, record.detail)


def _frame(code: str, *, stream_id: str, size: int) -> bytes:
    """A frame of that size whose refusal has the same text, which quotes its first bytes."""
    if code == "invalid_frame":
        return bytes(size)
    if len(stream_id) == QUOTED:  # it was cut there, perhaps within an escape
        stream_id = CUT_ESCAPE.sub(lambda match: match[0] + "x80"[len(match[0]) - 1 :], stream_id)
    quoted = ESCAPE.sub(lambda match: chr(int(match[1], 16)), stream_id).encode("latin-1")
    return b"#" + quoted + (b"#" + bytes(size))[: max(0, size - 1 - len(quoted))]


def _describe(record: Record) -> str:
    kind = (read_members(record.raw) or {}).get("kind") if record.raw is not None else None
    return f"{record.event} {quote(kind)}" if isinstance(kind, str) else record.event


def _around(theirs: Any, ours: Any) -> tuple[str, str]:
    """Both values in quotes; two texts begin shortly before their first difference."""
    if not isinstance(theirs, str) or not isinstance(ours, str):
        return quote(str(theirs)), quote(str(ours))
    parted = next((n for n, pair in enumerate(zip(theirs, ours, strict=False)) if len({*pair}) > 1), None)
    at = max(0, (min(len(theirs), len(ours)) if parted is None else parted) - AROUND)
    more = "…" if at else ""
    return more + quote(theirs[at:]), more + quote(ours[at:])
