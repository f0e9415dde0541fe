"""Makes tables of records: a row is the ledger's entry of a record, and a column is a function of the entry.

A column is data: a name, a type, a line of text and one function. A user may pass another list of columns in place of
`COLUMNS`. Rows are in the order in which the gateway received the messages. `time` is its clock and `ts` the claim of
the sender; no row is sorted by it.

This module reads nothing from disk and knows kinds only by name. The first table loads pandas.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.ledger.calls import method_of, tool_of
from mew_lab.log.entries import RecordedEntry, is_message
from mew_lab.protocol.describe import describe
from mew_lab.protocol.text import utf8_size
from mew_lab.space.events import Record, outline

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "Column", "describe_entry", "share_equal", "to_frame"]

# Records that are parsed at a time: few enough that the parsed data stays in the processor's cache.
BATCH = 64
# Values that are added to a column at a time.
CHUNK = 256 * BATCH
# Up to so many different values, equal values of a column are stored once; columns of ids soon exceed it.
SHARED = 4096


SHOWN = ("seq", "from", "to", "kind", "what")
"""The columns of the table of messages that are displayed unless others are chosen."""


class Column(NamedTuple):
    """One column of the table.

    `dtype` is the pandas name of its type: `object` or `str` for text, which is `""` where there is none; `mew_text` for
    text that a log of files reads on access; `mew_payload` for the payload of the message whose exact text the function
    returns. `about` is one line on its meaning, with the section
    of the specification. `value` is the function of an entry. `several` is set where it returns a tuple of texts.
    """

    name: str
    dtype: str
    about: str
    value: Callable[[RecordedEntry], Any]
    several: bool = False


def _get_from(entry: RecordedEntry) -> str:
    """The `from` of the message itself, which in a refused one may be the reason of refusal."""
    name = entry.members.get("from")
    return name if type(name) is str else ""


def _get_ts(entry: RecordedEntry) -> str:
    ts = entry.members.get("ts")
    return ts if type(ts) is str else ""


def _get_method(entry: RecordedEntry) -> str:
    return method_of(entry.payload)


def _get_tool(entry: RecordedEntry) -> str:
    payload = entry.payload
    if payload.get("method") != "tools/call":
        return ""
    return tool_of(payload) or ""


def _get_size(entry: RecordedEntry) -> int:
    raw = entry.record.raw
    if raw is None:
        return 0
    if (known := outline(entry.record)) is not None:
        return known.size
    return utf8_size(raw)


def describe_entry(entry: RecordedEntry) -> str:
    """A short description of the message of an entry; empty where it has none."""
    kind = entry.members.get("kind")
    if kind is None and (known := outline(entry.record)) is not None:
        return str(known)
    return describe(kind, entry.payload) if type(kind) is str else ""


COLUMNS: tuple[Column, ...] = (
    Column(
        "place",
        "int64",
        "its number among all records in the order of reading, from 1; no two rows share one",
        attrgetter("place"),
    ),
    Column("seq", "int64", "place in the journal; journals of several sessions repeat it", attrgetter("seq")),
    Column(
        "time",
        "datetime64[us, UTC]",
        "the time when the gateway received or made it",
        attrgetter("record.now"),
    ),
    Column("event", "object", "received, sent, joined …", attrgetter("record.event")),
    Column("from", "object", "the sender's id as the message states it, §3.1", _get_from),
    Column("to", "object", "the addressees, a tuple, §3.1", attrgetter("to"), several=True),
    Column("kind", "object", "§3.1", attrgetter("kind")),
    Column("what", "mew_text", "a short description of the message", describe_entry),
    Column("context", "str", "§3.1", attrgetter("context")),
    Column(
        "correlation_id",
        "object",
        "the ids that it answers, a tuple, §3.1",
        attrgetter("correlation_id"),
        several=True,
    ),
    Column("verdict", "object", "accepted, refused or sent; empty where unseen", attrgetter("verdict")),
    Column("code", "object", "the reason of a refusal, §3.8", attrgetter("code")),
    Column("pattern", "object", "the capability that allowed it, §4", attrgetter("pattern")),
    Column("grant", "object", "the grant that conferred that capability, §3.6.1", attrgetter("grant")),
    Column("id", "str", "§3.1", attrgetter("id")),
    Column("ts", "str", "the time that the sender claims, §3.1", _get_ts),
    Column("method", "object", "its JSON-RPC method, §3.2", _get_method),
    Column("tool", "object", "the tool that it calls, §3.2", _get_tool),
    Column(
        "participant", "object", "the participant that the token belongs to", attrgetter("record.participant")
    ),
    Column("connection", "object", "the connection that sent it", attrgetter("record.connection")),
    Column("via", "object", "memory, websocket or http", attrgetter("record.via")),
    Column(
        "receivers",
        "object",
        "the connections that a private message went to, or all receivers in a log of the peers; a tuple",
        attrgetter("record.to"),
        several=True,
    ),
    Column("deliveries", "int64", "the number of those receivers", lambda entry: len(entry.record.to)),
    Column("detail", "object", "further details of the record", attrgetter("record.detail")),
    Column("size", "int64", "bytes of the exact text", _get_size),
    Column(
        "payload", "mew_payload", "a dict, parsed from the exact text on access", attrgetter("record.raw")
    ),
    Column(
        "raw",
        "mew_text",
        "the exact text; only the beginning of a long refused one",
        attrgetter("record.raw"),
    ),
)


def to_frame(
    records: Iterable[Record], columns: Sequence[Column] = COLUMNS, *, events: bool = False, first: int = 1
) -> pd.DataFrame:
    """One row an envelope, accepted or refused, in the order received.

    The records are read one after the other and not kept, so a file need not fit into memory twice.

    Args:
        events: Also a row for each record without a message: joins, leaves, decisions …
        first: The place of the first record.
    """
    import numpy as np
    import pandas as pd

    from mew_lab.log.payloads import PayloadArray, PayloadDtype, TextArray, TextDtype
    from mew_lab.log.shown_frame import ShownFrame

    series: list[list[pd.Series[Any]]] = [[] for _ in columns]
    values: list[list[Any]] = [[] for _ in columns]
    shared: list[dict[Any, Any]] = [{} for _ in columns]

    def append_chunk() -> None:
        for column, done, new, seen in zip(columns, series, values, shared, strict=True):
            kept = share_equal(new, seen) if column.dtype == "object" else new
            if column.dtype == PayloadDtype.name:
                done.append(pd.Series(PayloadArray.of_messages(kept)))
            elif column.dtype == TextDtype.name:
                done.append(pd.Series(TextArray(np.fromiter(kept, dtype=object, count=len(kept)))))
            else:
                done.append(pd.Series(kept, dtype=column.dtype))
            new.clear()

    wanted = ((record, place) for place, record in enumerate(records, first) if events or is_message(record))
    rows = 0
    while entries := list(starmap(RecordedEntry, islice(wanted, BATCH))):
        for column, new in zip(columns, values, strict=True):
            new += map(column.value, entries)
        rows += len(entries)
        if rows % CHUNK < BATCH:
            append_chunk()
    append_chunk()
    whole = {}
    for column in columns:  # one after the other, so that only one of them is in memory twice
        whole[column.name] = pd.concat(series.pop(0), ignore_index=True)
    return ShownFrame(whole, copy=False)


def share_equal(values: list[Any], seen: dict[Any, Any]) -> list[Any]:
    """The values, with one object for equal ones while there are few different ones."""
    if len(seen) > SHARED:
        return values
    share = seen.setdefault
    try:
        return [share(value, value) for value in values]
    except TypeError:  # a user's column of lists or dicts
        return values
