"""Reads entries from the records of a journal: each envelope that a gateway recorded, parsed once.

Spec: §3.6.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mew_lab.ledger.entry import Entry
from mew_lab.log.line import members_of, read_members
from mew_lab.protocol.envelope import compact
from mew_lab.space.events import Record

__all__ = [
    "GRANT",
    "PAYLOAD",
    "SOURCE",
    "TIME",
    "RecordedEntry",
    "author",
    "entries_of",
    "entry_of",
    "is_message",
    "lacking",
    "lacks",
    "number_after",
    "owner_of",
    "seconds_between",
]

GRANT = "grant"
"""The permission was granted, and the log does not say by which grant or invitation."""
SOURCE = "source"
"""The log does not say whether the permission was configured or granted."""
PAYLOAD = "payload"
"""The log has the message without its payload."""
TIME = "time"
"""The log has the message without its time; that of its record is the time of an earlier or a later message."""
_LACKING = '{"not_recorded":'  # begins the detail of such a record, and no other detail of a message


class RecordedEntry(Entry):
    """The entry of a record, with the record: one row of a table.

    Attributes:
        seq: The record's place in the journal, or another number that the reader gives it.
        record: The record itself, with what the gateway noted about the message.
        place: The number of the record in the order of reading, from 1; 0 where that is not known.
    """

    def __init__(self, record: Record, place: int = 0, seq: int | None = None) -> None:
        super().__init__(record.seq if seq is None else seq, *_arguments(record, members_of(record)))
        self.record = record
        self.place = place


def owner_of(entry: RecordedEntry) -> str:
    """The participant that sent a message, by its own name; by the id of its connection where that is not known."""
    return entry.record.participant or entry.sender


def entry_of(record: Record, seq: int, members: Mapping[str, Any] | None = None, *, sign: str = "#") -> Entry:
    """The entry with number `seq` of a record that holds an envelope; `members` are its members, where known."""
    entry = Entry(seq, *_arguments(record, members_of(record) if members is None else members))
    entry.sign = sign
    return entry


def _arguments(record: Record, members: Mapping[str, Any]) -> tuple[Any, ...]:
    """What an `Entry` takes behind its number."""
    return (
        record.now.timestamp(),
        record.raw or "",
        record.verdict,
        record.code,
        record.pattern,
        author(record, members),
        members,
        record.grant,
    )


def entries_of(records: Iterable[Record]) -> Iterator[Entry]:
    """The envelopes among the records, with the numbers that the feed shows."""
    last = 0
    for record in records:
        if record.raw is not None:
            last = number_after(record, last)
            yield entry_of(record, last)


def number_after(record: Record, last: int) -> int:
    """The number of the message in a record behind the message `last`: the record's own, or the next that is free."""
    return max(record.seq, last + 1)


def lacking(record: Record, *parts: str) -> Record:
    """The record of a message from a log in another form, with a note of what that log does not hold of it."""
    return record._replace(detail=f"{_LACKING}{compact(parts)}}}") if parts else record


def lacks(record: Record, part: str) -> bool:
    """Whether the log in another form, from which a record came, did not hold this part of it.

    Without such a note an empty value means that there is none: no grant behind a permission is a configured one.
    """
    if not record.detail.startswith(_LACKING):
        return False
    parts = (read_members(record.detail) or {}).get("not_recorded")
    return isinstance(parts, list) and part in parts


def seconds_between(began: Entry, ended: Entry) -> float | None:
    """The seconds from one message to another; None where the log does not hold the time of one of them."""
    for entry in (began, ended):
        if isinstance(entry, RecordedEntry) and lacks(entry.record, TIME):
            return None
    return max(0.0, ended.t - began.t)


def is_message(record: Record) -> bool:
    """Whether a record is of a message: one with its text, or the refusal of one whose text was not kept."""
    return record.raw is not None or (record.event == "received" and record.verdict == "refused")


def author(record: Record, members: Mapping[str, Any]) -> str:
    """The id of the sender; the `from` of a refused envelope is ignored, because it may be the reason of refusal."""
    stated = "" if record.verdict == "refused" else members.get("from")
    return (stated if isinstance(stated, str) else "") or record.runtime_id or record.participant
