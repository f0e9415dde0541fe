"""Reads entries from the records of a journal: each envelope that a gateway recorded, parsed once.

Spec: §3.6.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mew_lab.ledger.entry import Entry
from mew_lab.log.line import read_members
from mew_lab.space.events import Record

__all__ = ["RecordedEntry", "author", "entries_of", "entry_of"]

_NOTHING: Mapping[str, Any] = {}


class RecordedEntry(Entry):
    """The entry of a record, with the record: one row of a table.

    Attributes:
        seq: The record's place in the journal.
        record: What else the gateway wrote down.
    """

    def __init__(self, record: Record) -> None:
        raw = record.raw or ""
        members = (read_members(raw) or _NOTHING) if raw else _NOTHING
        seq, when, sender = record.seq, record.now.timestamp(), author(record, members)
        super().__init__(
            seq, when, raw, record.verdict, record.code, record.pattern, sender, members, record.grant
        )
        self.record = record


def entry_of(record: Record, seq: int, members: Mapping[str, Any] | None = None) -> Entry:
    """The entry of a record that holds an envelope, which is number `seq`; `members` are its members, where known."""
    raw = record.raw or ""
    if members is None:
        members = read_members(raw) or _NOTHING
    when, sender = record.now.timestamp(), author(record, members)
    return Entry(seq, when, raw, record.verdict, record.code, record.pattern, sender, members, record.grant)


def entries_of(records: Iterable[Record]) -> Iterator[Entry]:
    """The envelopes among the records, numbered from 1 as in the feed."""
    holding = (record for record in records if record.raw is not None)
    return (entry_of(record, seq) for seq, record in enumerate(holding, 1))


def author(record: Record, members: Mapping[str, Any]) -> str:
    """Who has sent it. What a refused envelope says of that may be why it was refused."""
    stated = "" if record.verdict == "refused" else members.get("from")
    return (stated if isinstance(stated, str) else "") or record.runtime_id or record.participant
