"""Writes a record as one line and reads it back: a flat header, then the exact text of the message.

`{"seq":12,…,"envelope":{…}}`: the envelope is always last. A text that holds a line break or is no JSON object is in
the header instead, as `text` or, when it is not valid Unicode, as `base64`. Either way it is read back byte for byte.

In a journal one more member follows, `"chain"`: the SHA-256, in hexadecimal, of the `chain` of the previous line (64
zeros where there is none) and of all bytes of this line before `,"chain"`. So no line can be changed, inserted or
removed without a change in the chain of every later line.

A line with a member `"same"` refers to an earlier one for a part of its message (references.py). It is read when it was
restored, and `read_line` takes no other.

This module opens no file and does not know the meaning of a message.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from mew_lab.errors import ProtocolError
from mew_lab.log.json_text import read_json, write_json
from mew_lab.protocol.envelope import MAX_DEPTH, compact
from mew_lab.protocol.text import parse_timestamp
from mew_lab.space.events import Record

__all__ = [
    "MARK",
    "NO_CHAIN",
    "chain_line",
    "is_deep",
    "members_of",
    "read_line",
    "read_members",
    "split_chain",
    "write_line",
]

NO_CHAIN = b"0" * 64
_CHAIN = b',"chain":"'
CHAIN_BYTES = len(_CHAIN) + 64 + 2  # with the end of the line's object
_CHAINED = re.compile(rb',"chain":"([0-9a-f]{64})"\}\Z')

MARK = b',"envelope":'
"""What stands before the message of a line."""
_EVENT = b',"event":'
_BEFORE_EVENT = 70  # bytes of a line within which the event of an ordinary one begins
_END = ord("}")
_LONG_HEADER = 1000  # bytes; a longer header is not remembered
_SOME_TIME = "2000-01-01T00:00:00Z"
_ONLY_TEXT = {str}
_MANY = MAX_DEPTH + 1
MAX_SEQ = 2**63 - 1
_NOTHING: Mapping[str, Any] = {}
_newest: tuple[str | None, Mapping[str, Any]] = (
    None,
    _NOTHING,
)  # the message of the newest line, with its members
_COMMON = ("event", "space", "participant", "connection", "via", "verdict", "code", "pattern")
_RARE = ("grant", "runtime_id")  # in the header only where they are not empty
_CHECKED = frozenset({"accepted", "sent"})  # texts that the space has read strictly, or made itself


def read_members(text: str | bytes, *, exact: bool = False) -> dict[str, Any] | None:
    """The members of the JSON object in `text`; None when it holds none, or one nested over 64 deep.

    It is lenient and fast: the last of duplicate keys counts, and integers beyond 64 bits become floats.

    Args:
        exact: Whether integers of any size keep their value, which takes longer.
    """
    try:
        members = read_json(text)
    except ValueError:
        return None
    if type(members) is not dict:
        return None
    # To split is several times faster than to count.
    if isinstance(text, str):
        opened = len(text.split("{", _MANY)) + len(text.split("[", _MANY)) - 2
    else:
        opened = len(text.split(b"{", _MANY)) + len(text.split(b"[", _MANY)) - 2
    if opened > MAX_DEPTH and _too_deep(members):
        return None
    if not exact:
        return members
    try:
        whole: dict[str, Any] = json.loads(text)
    except ValueError:  # an integer of more digits than Python reads
        return members
    return whole


def is_deep(value: Any, levels: int = MAX_DEPTH - 8) -> bool:
    """Whether a value is nested deeper than in a payload of a message that can be read."""
    parts = value.values() if type(value) is dict else value if type(value) is list else ()
    for part in parts:  # most values are flat
        if type(part) is dict or type(part) is list:
            return _too_deep(value, levels)
    return False


def _too_deep(value: Any, levels: int = MAX_DEPTH) -> bool:
    level = [value]
    for _ in range(levels):
        level = [
            part
            for whole in level
            for part in (whole.values() if type(whole) is dict else whole)
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return False
    return True


def _header(record: Record, **exact: str) -> bytes:
    fields: dict[str, Any] = {
        "seq": record.seq,
        "now": record.now,
        "event": record.event,
        "space": record.space,
        "participant": record.participant,
        "connection": record.connection,
        "via": record.via,
        "verdict": record.verdict,
        "code": record.code,
        "pattern": record.pattern,
        "detail": record.detail,
        "received": record.received,
    }
    if record.to:
        fields["to"] = record.to
    fields |= {key: value for key in _RARE if (value := getattr(record, key))}
    if exact:
        fields |= exact
    try:
        return write_json(fields)
    except TypeError:  # lone surrogates: readers of JSON differ on them, so they are written as escapes
        spelt = {
            key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
            for key, value in fields.items()
        }
        return write_json(spelt)


@lru_cache(maxsize=4096)
def _usual(*texts: str) -> bytes:
    """The header of an ordinary record from `event` on; it is cached, because most messages of a space share it."""
    *usual, grant = texts
    fields: dict[str, Any] = dict(zip(_COMMON, usual, strict=True)) | {"detail": "", "received": None}
    if grant:
        fields["grant"] = grant
    return write_json(fields)[1:-1]


def _usual_header(record: Record) -> bytes | None:
    """The cached header for a record whose only own member is its time; None for others."""
    if record.detail or record.received is not None or record.to or record.runtime_id:
        return None
    try:
        usual = _usual(*record[2:10], record.grant)
    except TypeError:
        return None
    return b'{"seq":%d,"now":%b,%b}' % (record.seq, write_json(record.now), usual)


def write_line(record: Record) -> bytes:
    """The record as one line, including its line break."""
    raw = record.raw
    if raw is None:
        return _header(record) + b"\n"
    try:
        data = raw.encode()
    except UnicodeEncodeError:
        exact = base64.b64encode(raw.encode("utf-8", "surrogatepass")).decode()
        return _header(record, base64=exact) + b"\n"
    one_line = b"\n" not in data and b"\r" not in data
    if one_line and (record.verdict in _CHECKED or read_members(data) is not None):
        return b"".join(((_usual_header(record) or _header(record))[:-1], MARK, data, b"}\n"))
    return _header(record, text=raw) + b"\n"


def chain_line(line: bytes, before: bytes) -> tuple[bytes, bytes]:
    """A line of `write_line` with its chain, which follows from that of the previous line; and that chain."""
    body = line[:-2]
    chain = sha256(before + body).hexdigest().encode()
    return body + _CHAIN + chain + b'"}\n', chain


def split_chain(line: bytes) -> tuple[bytes, bytes]:
    """The bytes of a line that its chain covers, and the chain, which is empty where there is none."""
    data = line.rstrip(b"\r\n")
    if data[-2:] != b'"}':  # the envelope is last
        return data, b""
    match = _CHAINED.search(data, max(0, len(data) - CHAIN_BYTES))
    return (data[: match.start()], match[1]) if match else (data, b"")


def read_line(data: bytes) -> Record | None:
    """The record in a line; None when the line is not a complete record."""
    global _newest
    data = data.rstrip(b"\r\n")
    chained = data[-CHAIN_BYTES : -CHAIN_BYTES + len(_CHAIN)] == _CHAIN and data[-2:] == b'"}'
    at = data.find(MARK, 0, -CHAIN_BYTES if chained else None)
    raw: str | None = None
    try:
        if at > 0:
            exact = data[at + len(MARK) : -CHAIN_BYTES if chained else -1]
            members = read_members(exact) if data[-1] == _END else None
            if members is None:
                return None
            record = _read_ordinary(data, at, exact) or _record(_read_header(data, at), exact.decode())
            if record is not None:
                _newest = record.raw, members
            return record
        if chained:
            data = data[:-CHAIN_BYTES] + b"}"
        header = read_json(data)
        if "text" in header:
            raw = header["text"]
        elif "base64" in header:
            raw = base64.b64decode(header["base64"], validate=True).decode("utf-8", "surrogatepass")
        elif "envelope" in header:  # another program rewrote the line: the exact text is lost already
            raw = compact(json.loads(data)["envelope"])
        return _record(header, raw)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, ProtocolError):
        return None  # no JSON, no object, or a header with wrong or missing members


def members_of(record: Record) -> Mapping[str, Any]:
    """The members of the message of a record, not to be changed; none where it has no JSON object.

    Those of the newest line are known from reading it: a reader mostly asks for them before it reads the next.
    """
    text, members = _newest
    raw = record.raw
    if raw is not None and text is raw:
        return members
    return (read_members(raw) if raw else None) or _NOTHING


def _read_header(data: bytes, at: int) -> dict[str, Any]:
    # A header that is an object by itself shows that the mark stood at the top level.
    header: dict[str, Any] = read_json(data[:at] + b"}")
    return header


@lru_cache(maxsize=4096)
def _read_common(header: bytes) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """The members of a record before and behind its text, from a header without number and time; None for a rare one.

    It is cached, because most messages of a space share their header but for its number and time.
    """
    # A member that stands twice, or is spelt with an escape, could be another number or time.
    if b'"seq"' in header or b'"now"' in header or b"\\u" in header:
        return None
    try:
        record = _record({**read_json(b"{" + header[1:] + b"}"), "seq": 0, "now": _SOME_TIME}, "")
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return None if record is None else (record[2:12], record[13:])


def _read_ordinary(data: bytes, at: int, exact: bytes) -> Record | None:
    """The record in a line with its message at `at`; None where its header is not that of an ordinary line."""
    event = data.find(_EVENT, 0, _BEFORE_EVENT)
    if event < 0 or at - event > _LONG_HEADER:
        return None
    common = _read_common(data[event:at])
    if common is None:
        return None
    try:
        own = read_json(data[:event] + b"}")
    except ValueError:
        return None  # the event does not stand at the top level
    seq, now = own.get("seq"), parse_timestamp(own.get("now"))
    if now is None or len(own) != 2 or type(seq) is not int or not -MAX_SEQ <= seq <= MAX_SEQ:
        return None
    return Record._make((seq, now, *common[0], exact.decode(), *common[1]))


def _record(header: dict[str, Any], raw: str | None) -> Record | None:
    if "same" in header:  # what it refers to is not in it
        return None
    get = header.get
    now = parse_timestamp(header["now"])
    if now is None:
        raise ValueError("a header has a time")
    seq, received, to = header["seq"], get("received"), get("to")
    texts = (
        header["event"],
        get("space", ""),
        get("participant", ""),
        get("connection", ""),
        get("via", ""),
        get("verdict", ""),
        get("code", ""),
        get("pattern", ""),
        get("detail", ""),
        get("grant", ""),
        get("runtime_id", ""),
    )
    if {*map(type, texts)} != _ONLY_TEXT or type(seq) is not int or not -MAX_SEQ <= seq <= MAX_SEQ:
        return None
    if not (received is None or type(received) is str) or not (raw is None or type(raw) is str):
        return None
    if to is None:
        return Record(seq, now, *texts[:9], received, raw, (), *texts[9:])
    if type(to) is not list or not {*map(type, to)} <= _ONLY_TEXT:
        return None
    return Record(seq, now, *texts[:9], received, raw, tuple(to), *texts[9:])
