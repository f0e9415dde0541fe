"""Leaves messages, contents and values out of a log that is passed on.

A filter selects the messages that stay. Of the messages that pass another filter only the frame stays: kind, sender,
addressees, the method and the tool; everything else in their payload is `[redacted]`. A value is replaced wherever it
stands in a text, a key, a number or a name, in any spelling of JSON too, and where it overlaps itself or another one. It
is not found where it was encoded otherwise, such as in Base64, or split over several texts. A text that is no JSON may
end within a value, so it is left out as a whole. Likely secrets are masked besides, unless they are to be kept.

Whatever else leaves a log goes through here, too: `masked_records` for a file of records, `shown_mask` and `mask_markup`
for what a notebook stores. MEW_LAB_SECRETS=keep in the environment leaves the outputs of a notebook as they are.

The copy is for reading. Its texts are others than those that the gateway saw, so nothing can be verified by it.

Spec: §3.6.8.
"""

from __future__ import annotations

import html
import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from mew_lab.errors import ConfigError
from mew_lab.ledger.entry import Entry
from mew_lab.log.line import read_members
from mew_lab.protocol.describe import describe
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.likely_secrets import SecretMask, is_secret_name
from mew_lab.protocol.text import count_of
from mew_lab.space.events import Record

__all__ = [
    "REDACTED",
    "LogRedaction",
    "holds_secrets",
    "mask_markup",
    "mask_record",
    "mask_text",
    "masked_markup",
    "masked_records",
    "note_masked",
    "secrets_mask",
    "shown_mask",
    "told",
]

REDACTED = "[redacted]"
MOST_VALUES = 100
DEEPEST = 4  # texts of JSON, each within another
_WORDS = frozenset(
    {"text", "reason", "message", "event", "status"}
)  # of a payload: what a page calls something
_FRAME = frozenset(
    {"protocol", "id", "ts", "from", "to", "kind", "correlation_id", "context"}
)  # of an envelope
_NAMED = frozenset({"tools/call", "prompts/get"})  # the methods whose `name` is that of a tool or a prompt


class FilterableLog(Protocol):
    """The log whose messages are selected."""

    @property
    def records(self) -> Any: ...
    def filter(self, text: str) -> Any: ...


class LogRedaction:
    """What is left out of a log.

    Args:
        filter: The messages that stay; empty for all.
        values: The texts that are replaced wherever they stand.
        contents: A filter of messages of which only the frame stays; empty for none.
        secrets: `mask` or `keep`: what becomes of likely secrets (`protocol.likely_secrets`).

    Attributes:
        left_out: How many messages the filter left out, after `records` was read.
        replaced: How many texts were replaced, and `emptied` how many messages have only their frame.

    Raises:
        ConfigError: a value is empty, or there are more than 100.
    """

    def __init__(
        self, *, filter: str = "", values: Sequence[str] = (), contents: str = "", secrets: str = "keep"
    ) -> None:
        if isinstance(values, str):
            values = (values,)
        if not all(isinstance(value, str) and value.strip() for value in values):
            raise ConfigError("A value to be redacted is a text that is not empty", key="redact")
        if len(values) > MOST_VALUES:
            raise ConfigError(
                f"At most {MOST_VALUES} values can be redacted, and {len(values)} are given", key="redact"
            )
        self.filter = filter
        self.contents = contents
        self._values = {one for value in values for one in (value, _as_utf16(value))}
        self._mask = secrets_mask(secrets)
        self.left_out = self.replaced = self.emptied = 0

    @property
    def is_nothing(self) -> bool:
        """Whether everything stays as it is."""
        return not (self.leaves_out or self._mask)

    @property
    def leaves_out(self) -> bool:
        """Whether messages, contents or values are left out."""
        return bool(self.filter or self.contents or self._values)

    def records(self, log: FilterableLog) -> Iterator[Record]:
        """The records that stay, as they stay.

        Raises:
            FilterError: a filter is none.
        """
        self.left_out = self.replaced = self.emptied = 0
        stay = _passing(log, self.filter) if self.filter else None
        emptied = _passing(log, self.contents) if self.contents else frozenset()
        for record in log.records:
            if stay is not None and _key(record) not in stay:
                self.left_out += record.raw is not None
                continue
            yield self.apply(record, empties=_key(record) in emptied)

    def apply(self, record: Record, *, empties: bool) -> Record:
        """One record as it stays."""
        if self._mask is not None:
            record = mask_record(record._replace(received=None), self._mask)
        if not (empties or self._values):
            return record
        raw = record.raw
        if raw is not None:
            members = read_members(raw)
            if members is None:  # only its beginning is kept, or it is no JSON
                raw = REDACTED if empties or self._values else raw
            else:
                if empties:
                    payload = _frame_of(members.get("payload"), str(members.get("kind")))
                    members = {name: value for name, value in members.items() if name in _FRAME}
                    members["payload"] = payload
                raw = compact(self._value(members))
            self.emptied += empties
        return record._replace(
            raw=raw,
            received=None,
            space=self.text(record.space),
            participant=self.text(record.participant),
            connection=self.text(record.connection),
            detail=REDACTED if empties and record.detail else self.text(record.detail),
            # A permission may name each argument of the calls that it lets pass.
            pattern=REDACTED if empties and record.pattern else self.text(record.pattern),
            to=tuple(map(self.text, record.to)),
            grant=self.text(record.grant),
            runtime_id=self.text(record.runtime_id),
        )

    def text(self, text: str) -> str:
        """A text without the values."""
        spans: list[tuple[int, int]] = []
        ways, shown = list[_Unescaped](), text
        while True:
            for value in self._values:
                for span in _find_all(shown, value):
                    for way in reversed(ways):
                        span = way.find_before(*span)
                    spans.append(span)
            if not self._values or len(ways) == DEEPEST or "\\" not in shown:
                break
            ways.append(way := _Unescaped(shown))
            if way.text == shown:
                break
            shown = way.text
        if not spans:
            return text
        parts, at = list[str](), 0
        for begin, end in _merge(spans):
            parts += [text[at:begin], REDACTED]
            at = end
            self.replaced += 1
        return "".join([*parts, text[at:]])

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            kept: dict[str, Any] = {}
            for key, one in value.items():
                name, n = self.text(key), 1
                while name in kept:  # two keys that differ only in a value
                    n += 1
                    name = f"{self.text(key)} ({n})"
                kept[name] = self._value(one)
            return kept
        if isinstance(value, list):
            return [self._value(one) for one in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and self._values:
            text = json.dumps(value)
            return REDACTED if self.text(text) != text else value
        return value

    def __str__(self) -> str:
        """Such as `3 messages left out by a filter; 2 texts replaced`."""
        parts = []
        if self.filter:
            parts.append(f"{count_of(self.left_out, 'message')} left out by a filter")
        if self.contents:
            parts.append(f"the contents of {count_of(self.emptied, 'message')} left out")
        if self._values:
            parts.append(f"{count_of(self.replaced, 'text')} replaced by {REDACTED}")
        if self._mask is not None and self._mask.found:
            parts.append(str(self._mask))
        return "; ".join(parts)


def _merge(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The spans in order; those that overlap are one."""
    spans.sort()
    begin, end = spans[0]
    for other_begin, other_end in spans[1:]:
        if other_begin < end:
            end = max(end, other_end)
        else:
            yield begin, end
            begin, end = other_begin, other_end
    yield begin, end


_ESCAPE = re.compile(
    r"""\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U(00(?:0\d|10)[0-9a-fA-F]{4})|(["'/\\bfnrt]))"""
)
_SHORT: Mapping[str, str] = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _Unescaped:
    """A text without its escapes, those of JSON and of Python, and the way back to the places of its parts.

    Its parts are in turn what stood as it is, and an escape.
    """

    def __init__(self, before: str) -> None:
        parts, self._new, self._old, at, size = list[str](), [0], [0], 0, 0
        for found in _ESCAPE.finditer(before):
            plain, code = before[at : found.start()], found[1] or found[2] or found[3]
            parts += [plain, chr(int(code, 16)) if code else _SHORT.get(found[4], found[4])]
            size += len(plain)
            self._new += [size, size + 1]
            self._old += [found.start(), found.end()]
            at, size = found.end(), size + 1
        self.text = "".join([*parts, before[at:]])

    def find_before(self, begin: int, end: int) -> tuple[int, int]:
        """The place before of what stands between two places now."""
        first, last = bisect_right(self._new, begin) - 1, bisect_right(self._new, end - 1) - 1
        start = self._old[first] + (0 if first % 2 else begin - self._new[first])
        return start, self._old[last + 1] if last % 2 else self._old[last] + end - self._new[last]


def _find_all(text: str, value: str) -> Iterator[tuple[int, int]]:
    """The places of a value, also where it overlaps itself."""
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + 1)


def _as_utf16(value: str) -> str:
    """The value with two characters, as JSON escapes them, for each that is beyond 16 bits."""
    units = value.encode("utf-16-be", "surrogatepass")
    return "".join(chr(int.from_bytes(units[at : at + 2])) for at in range(0, len(units), 2))


def secrets_mask(secrets: str) -> SecretMask | None:
    """What masks likely secrets, by a word of the user; None where they are kept.

    Raises:
        ConfigError: it is neither `mask` nor `keep`.
    """
    if secrets not in ("mask", "keep"):
        raise ConfigError(f"secrets is 'mask' or 'keep', not {str(secrets)[:40]!r}", key="secrets")
    return SecretMask() if secrets == "mask" else None


# --- likely secrets ---

MASKED: Final = "masked"  # in the first record of a copy: some of its texts are not what was recorded
_TAG = re.compile(r"(<[^>]*>)")
_HELD_BACK = re.compile(r"<(style|script)\b", re.IGNORECASE)
_SHOWN_TEXT = re.compile(r'\b(title|alt)="([^"]*)"')
_AROUND = re.compile(r"(?P<before>\s*).*?(?P<after>\s*)", re.DOTALL)
_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null", "true", "false"})


def mask_text(text: str, mask: SecretMask) -> str:
    """A text that may be JSON, without likely secrets; as it is where it has none."""
    if not mask.may_hold(text):
        return text
    before, members = mask.found, read_members(text)
    masked = mask.text(text) if members is None else compact(mask.value(members))
    return masked if mask.found > before else text


def mask_record(record: Record, mask: SecretMask) -> Record:
    """A record without likely secrets.

    Its line in another form mostly repeats what its message says, so only what that has more is counted.
    """
    raw, received, detail = record.raw, record.received, record.detail
    before, of_line = mask.found, SecretMask()
    changed: dict[str, Any] = {}
    if raw is not None and (masked := mask_text(raw, mask)) != raw:
        changed["raw"] = masked
    if received is not None and (masked := mask_text(received, of_line)) != received:
        changed["received"] = masked
        mask.found = max(mask.found, before + of_line.found)
    if detail and (masked := mask_text(detail, mask)) != detail:
        changed["detail"] = masked
    return record._replace(**changed) if changed else record


def holds_secrets(records: Iterable[Record]) -> bool:
    """Whether there is a likely secret in some records. A copy of others is as it was, and can be verified."""
    mask = SecretMask()
    return any(mask_record(record, mask) is not record for record in records)


def masked_records(records: Iterable[Record], mask: SecretMask) -> Iterator[Record]:
    """The records of a file, its first one included, without likely secrets; the first one says so."""
    for record in records:
        yield note_masked(record) if record.event == "opened" else mask_record(record, mask)


def note_masked(opened: Record) -> Record:
    """The first record of a copy with a note that likely secrets may have been masked in it."""
    return opened._replace(detail=compact({**(read_members(opened.detail) or {}), MASKED: True}))


def told(entry: Entry, mask: SecretMask | None) -> str:
    """What a message is about, in some words, without likely secrets."""
    if mask is None or not entry.kind or not mask.may_hold(entry.raw):
        return entry.what
    return describe(entry.kind, mask.value(entry.payload))


def shown_mask() -> SecretMask | None:
    """What masks likely secrets in what a notebook stores; None where MEW_LAB_SECRETS says `keep`."""
    return None if os.environ.get("MEW_LAB_SECRETS") == "keep" else SecretMask()


def masked_markup(markup: str) -> str:
    """An element of HTML as a notebook stores it, with the number of the likely secrets that it lacks."""
    if (mask := shown_mask()) is None:
        return markup
    shown = mask_markup(markup, mask)
    return f"{shown}<p>{mask}.</p>" if mask.found else shown


def mask_markup(markup: str, mask: SecretMask) -> str:
    """HTML without likely secrets in its texts, tooltips and descriptions.

    A text behind one that is named like a secret is masked whole, as a value of JSON is.
    """
    parts, before, skips = _TAG.split(markup), "", False
    for at, part in enumerate(parts):
        if at % 2:
            skips = _HELD_BACK.match(part) is not None
            if 'title="' in part or 'alt="' in part:
                parts[at] = _SHOWN_TEXT.sub(
                    lambda match: f'{match[1]}="{_mask_escaped(match[2], mask)}"', part
                )
        elif part and not skips:
            text = html.unescape(part).strip(" \n\"':")
            if text and " " not in text and is_secret_name(before) and text not in _TYPES:
                mask.found += 1
                # Its marks stand as its maker wrote them, escaped or not: what stays is the space around it.
                around = _AROUND.fullmatch(part)
                parts[at] = f"{around['before']}[masked: named secret]{around['after']}" if around else ""
            else:
                parts[at] = _mask_escaped(part, mask)
            before = text or before
    return "".join(parts)


def _mask_escaped(text: str, mask: SecretMask) -> str:
    plain = html.unescape(text)
    masked = mask.text(plain)
    return text if masked == plain else html.escape(masked)


_Key = tuple[int, datetime, str | None]


def _passing(log: FilterableLog, text: str) -> frozenset[_Key]:
    return frozenset(map(_key, log.filter(text).records))


def _key(record: Record) -> _Key:
    """What tells a record from all others: the numbers of several journals are the same."""
    return record.seq, record.now, record.raw


def _frame_of(payload: Any, kind: str) -> Any:
    """What stays of a payload: the method, the tool, the shape of an answer; names of arguments do not."""
    if not isinstance(payload, Mapping):
        return REDACTED if payload is not None else None
    frame: dict[str, Any] = {}
    method = payload.get("method") if kind.startswith("mcp/") else None
    for name, value in payload.items():
        if name == "jsonrpc":
            frame[name] = value if value == "2.0" else REDACTED
        elif name == "method" and isinstance(method, str):
            frame[name] = method
        elif name == "params" and isinstance(value, Mapping):
            is_named = method in _NAMED and isinstance(value.get("name"), str)
            kept = {"name": value["name"]} if is_named else {}
            frame[name] = {**kept, **({"arguments": {REDACTED: REDACTED}} if len(value) > len(kept) else {})}
        elif name == "result":
            failed = {"isError": True} if isinstance(value, Mapping) and value.get("isError") is True else {}
            frame[name] = {"content": [{"type": "text", "text": REDACTED}], **failed}
        elif name == "error" and isinstance(value, Mapping):
            code = value.get("code")
            frame[name] = {"code": code if isinstance(code, int) else REDACTED, "message": REDACTED}
        elif name in _WORDS:
            frame[name] = value if name == "event" and value in ("join", "leave") else REDACTED
    return frame
