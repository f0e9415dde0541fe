"""Makes a table of records. Columns are data: a name, a type, what it says, and one function.

A user's own list of columns is as good as `COLUMNS`. The order of the rows is the order in which the gateway
received them: `time` is its clock, `ts` what the sender claims, and nothing here sorts by it.

Reads nothing from disk; knows no kinds but by their names. pandas is loaded by the first table, not before.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.log.line import read_members
from mew_lab.protocol.describe import describe
from mew_lab.protocol.text import utf8_size
from mew_lab.space.events import Record, outline

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "Column", "Entry", "to_frame"]

# Records that are parsed at a time: so few that what is parsed stays in the processor's cache and dies young.
BATCH = 64
# Values that become a part of a column at a time.
CHUNK = 256 * BATCH
# Up to so many different values, equal ones of a column are kept once; a column of ids is soon left alone.
SHARED = 4096


class Entry(NamedTuple):
    """What a column's function gets: a record, and what its message says (`{}` where it holds none)."""

    record: Record
    members: dict[str, Any]
    payload: dict[str, Any]


class Column(NamedTuple):
    """One column of the table.

    `dtype` is the pandas name of its type (`object` for text, which is `""` where there is none;
    `mew_payload` for the payload of the message whose exact text the function gives), `about` one line on
    what it says, with the section of the specification, `value` what makes it of an entry.
    """

    name: str
    dtype: str
    about: str
    value: Callable[[Entry], Any]


def _said(key: str) -> Callable[[Entry], str]:
    """A text among the members; a stranger's file may hold anything else in its place."""

    def value(entry: Entry) -> str:
        found = entry.members.get(key)
        return found if type(found) is str else ""

    return value


def _listed(key: str) -> Callable[[Entry], tuple[str, ...]]:
    def value(entry: Entry) -> tuple[str, ...]:
        found = entry.members.get(key)
        if type(found) is list:
            return tuple([one for one in found if type(one) is str])
        return (found,) if type(found) is str else ()

    return value


def _method(entry: Entry) -> str:
    found = entry.payload.get("method")
    return found if type(found) is str else ""


def _tool(entry: Entry) -> str:
    payload = entry.payload
    if payload.get("method") != "tools/call" or type(params := payload.get("params")) is not dict:
        return ""
    found = params.get("name")
    return found if type(found) is str else ""


def _size(entry: Entry) -> int:
    raw = entry.record.raw
    if raw is None:
        return 0
    if (known := outline(entry.record)) is not None:
        return known.size
    return utf8_size(raw)


def _what(entry: Entry) -> str:
    kind = entry.members.get("kind")
    if kind is None and (known := outline(entry.record)) is not None:
        return str(known)
    return describe(kind, entry.payload) if type(kind) is str else ""


COLUMNS: tuple[Column, ...] = (
    Column("seq", "int64", "place in the journal", attrgetter("record.seq")),
    Column("time", "datetime64[us, UTC]", "when the gateway received or made it", attrgetter("record.now")),
    Column("event", "object", "received, sent, joined …", attrgetter("record.event")),
    Column("from", "object", "the sender's id as the message says, §3.1", _said("from")),
    Column("to", "object", "the addressees, a tuple, §3.1", _listed("to")),
    Column("kind", "object", "§3.1", _said("kind")),
    Column("what", "object", "the message in a few words", _what),
    Column("context", "object", "§3.1", _said("context")),
    Column("correlation_id", "object", "the ids that it answers, a tuple, §3.1", _listed("correlation_id")),
    Column(
        "verdict", "object", "accepted, refused or sent; empty where unseen", attrgetter("record.verdict")
    ),
    Column("code", "object", "why it was refused, §3.8", attrgetter("record.code")),
    Column("pattern", "object", "the capability that allowed it, §4", attrgetter("record.pattern")),
    Column("grant", "object", "the grant that capability came from, §3.6.1", attrgetter("record.grant")),
    Column("id", "object", "§3.1", _said("id")),
    Column("ts", "object", "the time that the sender claims, §3.1", _said("ts")),
    Column("method", "object", "its JSON-RPC method, §3.2", _method),
    Column("tool", "object", "the tool that it calls, §3.2", _tool),
    Column("participant", "object", "who it came from, by the token", attrgetter("record.participant")),
    Column("connection", "object", "the connection that it came by", attrgetter("record.connection")),
    Column("via", "object", "memory, websocket or http", attrgetter("record.via")),
    Column("detail", "object", "what else the record says", attrgetter("record.detail")),
    Column("size", "int64", "bytes of the exact text", _size),
    Column("payload", "mew_payload", "a dict, read from the exact text when asked", attrgetter("record.raw")),
    Column(
        "raw",
        "object",
        "the exact text; of a long one that was refused the beginning",
        attrgetter("record.raw"),
    ),
)


def to_frame(
    records: Iterable[Record], columns: Sequence[Column] = COLUMNS, *, events: bool = False
) -> pd.DataFrame:
    """One row an envelope, accepted or refused, in the order received.

    Takes the records one after the other and keeps none of them, so a file need not fit into memory twice.

    Args:
        events: Also a row for each record without a message: joins, leaves, decisions …
    """
    import pandas as pd

    from mew_lab.log.payloads import PayloadArray, PayloadDtype

    series: list[list[pd.Series[Any]]] = [[] for _ in columns]
    values: list[list[Any]] = [[] for _ in columns]
    shared: list[dict[Any, Any]] = [{} for _ in columns]

    def settle() -> None:
        for column, done, new, seen in zip(columns, series, values, shared, strict=True):
            kept = _share(new, seen) if column.dtype == "object" else new
            if column.dtype == PayloadDtype.name:
                done.append(pd.Series(PayloadArray.of_messages(kept)))
            else:
                done.append(pd.Series(kept, dtype=column.dtype))
            new.clear()

    found = (record for record in records if events or record.raw is not None)
    rows = 0
    while entries := [_entry(record) for record in islice(found, BATCH)]:
        for column, new in zip(columns, values, strict=True):
            new += map(column.value, entries)
        rows += len(entries)
        if rows % CHUNK < BATCH:
            settle()
    settle()
    whole = {}
    for column in columns:  # one after the other, so that only one of them stands there twice
        whole[column.name] = pd.concat(series.pop(0), ignore_index=True)
    return pd.DataFrame(whole, copy=False)


def _entry(record: Record) -> Entry:
    members = read_members(record.raw) if record.raw is not None else None
    if members is None:
        return Entry(record, {}, {})
    payload = members.get("payload")
    return Entry(record, members, payload if type(payload) is dict else {})


def _share(values: list[Any], seen: dict[Any, Any]) -> list[Any]:
    """The values, equal ones being one object as long as there are few."""
    if len(seen) > SHARED:
        return values
    share = seen.setdefault
    try:
        return [share(value, value) for value in values]
    except TypeError:  # a user's column of lists or dicts
        return values
