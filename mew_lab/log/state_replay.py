"""Replays only those records of a journal that change the state of its space.

How it works
------------
Of a long session few records change members, rights, streams, pauses or connections. A `StateReplay` takes every record
of a journal in order, reads no more of a line than it must to see that it changes nothing, and gives the others to a
`Player`. The verdicts are those of the journal: an accepted message that changes nothing is not judged again. The
result is that of a full replay at a small part of its cost, as long as the journal is what a gateway wrote;
`integrity.verify_chain` shows that.

These records change the state:

```
opened, snapshot, enrolled, joined, left    always, and some notes of the space itself
grant_ended, welcomes_due                   always
received, accepted                          the kinds on which the gateway acts (`RULES`), and uses of a counted grant
```

Each of them is replayed with the records that it caused, and compared. The counters of records and of the gateway's own
messages are read from the records that are left out. Two parts of the state are not restored, since no record shows
them in a few steps: the ids that requests, proposals and chat messages have taken, and the count of refused frames of
the last second.

Spec: §3.6.8, ruling R20.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mew_lab.errors import JournalError, MewError
from mew_lab.log.line import read_line, read_members
from mew_lab.log.replay import CAUSED, SNAPSHOT, Player, Replayed
from mew_lab.space.core import RULES, Space
from mew_lab.space.events import JOURNAL_HEAD, RESUMED, Record

__all__ = ["ALWAYS", "LineHeader", "LinePlace", "StateReplay", "top_level"]

ALWAYS = frozenset(
    {
        *("opened", SNAPSHOT, "enrolled", "joined", "left", "grant_ended", "welcomes_due"),
        *(RESUMED, JOURNAL_HEAD, "unreadable"),
    }
)
CACHED = 4096  # headers
LONGEST = 600  # bytes of a cached header
_MARK = b',"envelope":'
_EVENT = b',"event":"'
_LATEST = 80  # bytes of a line before its event
_KIND, _ID = re.compile(rb'"kind": ?"([^"\\]*)"'), re.compile(rb'"id": ?"([^"\\]*)"')
_RULES = frozenset(kind.encode() for kind in RULES)


class LinePlace(NamedTuple):
    """The place of a line: its file by number, its first byte there, and its length in bytes."""

    file: int
    start: int
    length: int


class LineHeader(NamedTuple):
    """The part of a header that many lines have in common."""

    event: str
    verdict: str
    grant: str
    participant: str
    connection: str
    code: str
    pattern: str
    via: str


def top_level(line: bytes, mark: int) -> tuple[bytes | None, bytes | None]:
    """The kind and id of the accepted envelope behind `mark`, as they are spelt; None where its beginning has them not.

    Before the first nested object a quoted name with a colon behind it is a member: in a string it would be escaped.
    """
    start = mark + len(_MARK) + 1
    nested = line.find(b"{", start)
    end = nested if nested >= 0 else len(line)
    kind, id = _KIND.search(line, start, end), _ID.search(line, start, end)
    return kind[1] if kind else None, id[1] if id else None


class StateReplay:
    """A replay of the records that change the state of a space: `take` each record, or `take_line` each line.

    Args:
        name: The name of the journal, for errors.
        observe: Called with each record that has changed the state and those that it caused, the place of the first,
            and the number of the gateway's own messages before it.
        keep_ids: Whether the ids that are taken are kept, because the caller records them in `space.state`.
    """

    def __init__(
        self,
        name: str,
        *,
        observe: Callable[[Sequence[Record], LinePlace | None, int], object] = lambda *_: None,
        keep_ids: bool = False,
    ) -> None:
        self._keep_ids = keep_ids
        self._name = name
        self._player = Player(name)
        self._observe = observe
        self._group: list[Record] = []  # a record that changes the state, and those that it caused
        self._place: LinePlace | None = None  # of the first of them
        self._kind = b""  # of the last accepted message that was left out
        self._messages = 0
        self._sent = b""  # the newest line of the gateway's own messages, unread
        self._own = b"gw-"
        self._epoch: int | None = None
        self._complete = False  # whether all records of the last event that was replayed were there
        self._headers: dict[bytes, LineHeader] = {}
        self.failed: Sequence[Record] = ()
        """The record whose replay failed, with those that it caused, where it was not the one taken last."""
        self.sessions = 0
        """The number of spaces that the records open: 1 for one journal."""

    @property
    def space(self) -> Space | None:
        """The space after the records so far; None before the first."""
        self._flush()
        return self._player.space if self._epoch is not None else None

    @property
    def holds_back(self) -> bool:
        """Whether the last event is replayed with the next one, or with the next use of `space`."""
        return bool(self._group)

    def take_line(self, line: bytes, place: LinePlace | None = None) -> None:
        """Takes the next line of a journal, which is whole and not blank.

        Raises:
            ReplayMismatch: when a fresh space would have recorded something else.
            JournalError: when it cannot be replayed.
        """
        header, mark = self.read_header(line)
        if header is not None and self._leaves_out(header, line, mark):
            return
        record = read_line(line)
        if record is None:
            where = f"at byte {place.start} " if place else ""
            raise JournalError(
                f"{self._name} cannot be replayed: its line {where}cannot be read", path=self._name
            )
        self.take(record, place)

    def read_header(self, line: bytes) -> tuple[LineHeader | None, int]:
        """The header of a line that ends with an envelope, and where it ends; None for any other line."""
        mark = line.find(_MARK)
        start = line.find(_EVENT, 0, _LATEST)
        if not 0 < start < mark:
            return None, -1
        data = line[start + 1 : mark]
        known = self._headers.get(data)
        if known is not None:
            return known, mark
        fields = read_members(b"{" + data + b"}")
        if fields is None:
            return None, -1
        header = LineHeader(*(fields.get(name, "") for name in LineHeader._fields))
        if not all(isinstance(text, str) for text in header):
            return None, -1
        if len(data) < LONGEST:
            if len(self._headers) >= CACHED:
                self._headers.clear()
            self._headers[data] = header
        return header, mark

    def _leaves_out(self, header: LineHeader, line: bytes, mark: int) -> bool:
        """Whether the line, whose envelope begins at `mark`, changes nothing but counters."""
        event, verdict, grant, *_ = header
        if event == "sent":
            if self._group:
                return False
            self._sent = line
            return True
        if event != "received":
            return False
        if verdict == "accepted":
            kind, id = top_level(line, mark)
            if kind is None or id is None or kind in _RULES:
                return False
            self._kind, self._id = kind, id
            self._flush()
            if (grant and self._is_counted(grant)) or id.startswith(self._own):
                return False
        elif verdict != "refused":
            return False
        else:
            self._flush()
        return self._complete

    def take(self, record: Record, place: LinePlace | None = None) -> None:
        """Takes the next record, as `take_line` does its line.

        Raises:
            ReplayMismatch: when a fresh space would have recorded something else.
            JournalError: when it cannot be replayed.
        """
        if record.event == "opened":
            self._open(record, place)
        elif record.event in CAUSED:
            if self._group:
                self._group.append(record)
            else:
                self._count(record.raw)
        else:
            self._flush()
            if not self._complete:
                self._player.take(record)  # a part of a snapshot, or what cannot stand here
                self._messages = self._player.space.state.messages
                self._complete = self._player.between
                if self._complete:
                    self._observe([record], place, self._messages)
            elif self._changes(record):
                self._group, self._place = [record], place
            elif record.verdict == "accepted":
                self._count(record.raw)

    def force(self, record: Record, place: LinePlace | None = None) -> None:
        """Takes the next record and replays it, whether or not it changes anything; the ids that are taken are right.

        Raises:
            ReplayMismatch, JournalError: as `take`.
        """
        self._flush()
        self._keep_ids = True
        self._group, self._place = [record], place

    @property
    def replayed(self) -> Replayed:
        """The result of the replay.

        Raises:
            JournalError: when there was no record.
        """
        self._flush()
        return self._player.end()

    def _changes(self, record: Record) -> bool:
        if record.event != "received":
            return record.event in ALWAYS
        if record.verdict != "accepted":
            return False
        kind = (read_members(record.raw or "") or {}).get("kind")
        return (isinstance(kind, str) and kind in RULES) or (
            bool(record.grant) and self._is_counted(record.grant)
        )

    def _is_counted(self, grant: str) -> bool:
        """Whether a message by this grant costs a use."""
        end = self._player.space.state.ends.get(grant) if self._epoch is not None else None
        return end is not None and end.counted

    def _open(self, record: Record, place: LinePlace | None) -> None:
        about = read_members(record.detail) or {}
        if "previous" in about and self._epoch is not None and about.get("epoch") == self._epoch:
            return  # a file continues another one, perhaps within an event
        self._flush()
        self._player.take(record)
        self._epoch = self._player.space.epoch
        self._own = b"gw-%016x-" % self._epoch
        self._messages, self._sent = 0, b""
        self._complete = self._player.between
        self.sessions += 1
        self._observe([record], place, 0)

    def _flush(self) -> None:
        """Replays the record that changes the state, with those that it caused."""
        if not self._group:
            return
        group, self._group = self._group, []
        before = self._messages_before(group)
        self._player.pass_over(records=group[0].seq - 1, messages=before, keep_ids=self._keep_ids)
        try:
            for record in group:
                self._player.take(record)
        except MewError:
            self.failed = group
            raise
        self._messages, self._sent = self._player.space.state.messages, b""
        self._complete = self._player.between
        self._observe(group, self._place, before)

    # --- the counter of the gateway's own messages ---

    def _messages_before(self, group: list[Record]) -> int:
        """The number of its messages before an event: one less than the first that the event made."""
        numbers = (self._number(record.raw) for record in group)
        first = next((number for number in numbers if number is not None), None)
        if first is not None:
            return first - 1
        return self._messages_so_far()

    def _messages_so_far(self) -> int:
        """The number of the newest of its messages."""
        if self._sent:
            record = read_line(self._sent)
            self._count(record.raw if record is not None else None)
        return self._messages

    def _count(self, raw: str | None) -> None:
        number = self._number(raw)
        if number is not None:
            self._messages, self._sent = number, b""

    def _number(self, raw: str | None) -> int | None:
        """The number in the id of a message, where the gateway assigned it."""
        if raw is None or self._epoch is None:
            return None
        id: Any = (read_members(raw) or {}).get("id")
        start = f"gw-{self._epoch:016x}-"
        if not isinstance(id, str) or not id.startswith(start):
            return None
        number = id[len(start) :]
        return int(number) if re.fullmatch("[0-9]{1,18}", number) else None
