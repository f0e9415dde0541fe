"""Reads one message strictly, keeps its exact text, and completes a draft.

How it works. A message takes this way:

```
text     read_strict    members of one JSON object that no two readers can understand differently
members  check_shape    each member of an envelope has its type; payloads are not judged
Draft    complete       missing members are inserted into the text
         Envelope       the complete message: `raw` is its text, `members` are the parsed members
```

An `Envelope` is never rebuilt from its members, so the text that was checked is the text that is sent. `complete`
inserts `protocol`, `id`, `ts` and `from`, wraps a `correlation_id` and replaces `to` within the text. The rest of the
text stays as it was, to the byte.

Strict reading is Python's JSON decoder with hooks, which refuse duplicate keys, NaN and numbers out of range. A hook
for integers costs a call for each of them, so a long text without a long run of digits is decoded without that hook.
The depth of nesting is counted before decoding.

`compact` writes JSON for the wire; `canonical` writes the one form that digests are made of. This module
has no clock and no table of kinds or capabilities.

Spec: §3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from json.decoder import scanstring  # type: ignore[attr-defined]
from math import isinf
from typing import Any, NamedTuple, NoReturn

from mew_lab.errors import ProtocolError
from mew_lab.protocol.steps import Steps
from mew_lab.protocol.text import cut
from mew_lab.protocol.visible import one_line

__all__ = [
    "MAX_DEPTH",
    "MAX_ID",
    "MAX_MESSAGE",
    "MOST_MESSAGE",
    "PROTOCOL",
    "Draft",
    "Envelope",
    "canonical",
    "check_shape",
    "compact",
    "complete",
    "digest",
    "find_id",
    "is_id",
    "read_strict",
    "too_deep",
    "values_in",
]

PROTOCOL = "mew/v0.4"
MAX_MESSAGE = 1024 * 1024  # bytes of UTF-8; a gateway may be configured otherwise
MOST_MESSAGE = 64 * MAX_MESSAGE  # bytes; no gateway of ours takes a longer one
MAX_DEPTH = 64
MAX_ID = 256
LEAST, MOST = -(2**63), 2**64 - 1  # integers that all readers of JSON with 64 bits take alike
SHORT = 19  # characters; an integer of fewer is never out of range
LONGEST = 20  # characters; an integer of more always is
FEW_VALUES = 20_000
"""Values that are read too fast to be counted."""


class Envelope:
    """One message: its exact text and its members. Treat it as immutable.

    `sender` is the member `from`; `to` and `correlation_id` are tuples, empty where absent; `payload` is `{}`
    where absent. `members` holds every top-level member as parsed, unknown ones too. Two envelopes are equal
    when their texts are.
    """

    __slots__ = ("context", "correlation_id", "id", "kind", "members", "payload", "raw", "sender", "to", "ts")

    def __init__(self, members: dict[str, Any], *, raw: str) -> None:
        get = members.get
        self.raw = raw
        self.members = members
        self.id: str = get("id", "")
        self.ts: str = get("ts", "")
        self.sender: str = get("from", "")
        self.kind: str = members["kind"]
        self.to: tuple[str, ...] = tuple(get("to") or ())
        related = get("correlation_id") or ()
        self.correlation_id: tuple[str, ...] = (related,) if isinstance(related, str) else tuple(related)
        self.context: str | None = get("context")
        self.payload: dict[str, Any] = get("payload") or {}

    @classmethod
    def from_members(cls, members: Any, *, raw: str) -> Envelope:
        """The envelope of `members`, which were parsed from `raw`.

        Raises:
            ProtocolError: when the shape is not that of an envelope.

        Spec: §3.
        """
        check_shape(members, raw=raw)
        return cls(members, raw=raw)

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Envelope:
        """The envelope with these members, written as compact JSON.

        Raises:
            ProtocolError: when the shape is not that of an envelope, or a value is not JSON.
        """
        members = dict(members)
        check_shape(members, raw="")
        return cls(members, raw=compact(members))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Envelope) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        to = f" to {one_line(', '.join(self.to), 200)}" if self.to else ""
        return f"<Envelope {one_line(self.kind)} {self.id!r} from {one_line(self.sender)}{to}>"


class Draft(NamedTuple):
    """A received message: read strictly, its shape checked, but possibly incomplete."""

    raw: str
    members: dict[str, Any]


def compact(value: Any) -> str:
    """`value` as compact JSON text, key order kept, characters unescaped.

    Raises:
        ProtocolError: when it contains a value that JSON does not have (NaN, bytes, a lone surrogate …).
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as fault:
        raise ProtocolError(f"this value cannot be written as JSON: {fault}", code="invalid_json") from None
    return text


def canonical(value: Any) -> bytes:
    """The one byte form of a JSON value: keys sorted, compact, UTF-8. Digests are made of it.

    Raises:
        ProtocolError: when it contains a value that JSON does not have.
    """
    try:
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
        ).encode()
    except (TypeError, ValueError, RecursionError) as fault:
        raise ProtocolError(f"this value cannot be written as JSON: {fault}", code="invalid_json") from None


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, as 64 hexadecimal digits."""
    return sha256(canonical(value)).hexdigest()


_A_PIECE = 1_000  # values that are written between two pauses


def read_canonical(value: Any) -> Steps[bytes]:
    """The same bytes as `canonical(value)`, with pauses; raises as that."""
    try:
        text = yield from write_steps(value, lambda part: canonical(part).decode(), sort=True)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as fault:
        raise ProtocolError(f"this value cannot be written as JSON: {fault}", code="invalid_json") from None


def write_steps(
    value: Any, write: Callable[[Any], str], *, comma: str = ",", colon: str = ":", sort: bool = False
) -> Steps[str]:
    """The same text as `write(value)`, with a pause after each thousand values.

    `write` writes JSON with these separators, and the keys of an object in order where `sort` says so.
    """
    if _count(value) < _A_PIECE:
        return write(value)
    parts: list[str] = []
    batch: list[Any] = []
    left = _A_PIECE
    is_object = isinstance(value, dict)
    items = value.items() if is_object else value
    for item in sorted(items) if is_object and sort else items:
        size = _count(item[1] if is_object else item)
        if size > left and batch:
            parts.append(write(dict(batch) if is_object else batch)[1:-1])
            batch, left = [], _A_PIECE
            yield
        if size < _A_PIECE:
            batch.append(item)
            left -= size
            continue
        text = yield from write_steps(
            item[1] if is_object else item, write, comma=comma, colon=colon, sort=sort
        )
        parts.append(f"{write(item[0])}{colon}{text}" if is_object else text)
    if batch:
        parts.append(write(dict(batch) if is_object else batch)[1:-1])
    text = comma.join(parts)
    return f"{{{text}}}" if is_object else f"[{text}]"


def _count(value: Any) -> int:
    """The values in a JSON value, up to a piece."""
    if not isinstance(value, dict | list):
        return 1
    count, waiting = 0, [value]
    while waiting and count < _A_PIECE:
        inner = waiting.pop()
        count += 1 + len(inner)
        if count < _A_PIECE:
            held = inner.values() if isinstance(inner, dict) else inner
            waiting += [one for one in held if isinstance(one, dict | list)]
    return count


# --- strict reading -------------------------------------------------------------------------------------------


class _Unclean(ValueError):
    """Raised inside the decoder's hooks for text that only a lenient reader accepts."""


class _OutOfRange(Exception):
    """Raised inside the decoder's hooks for a number that JSON readers interpret differently."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Unclean(f"the key {twice[:40]!r} stands twice in one object")
    return members


def _constant(name: str) -> NoReturn:
    raise _Unclean(f"{name} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise _OutOfRange(
            f"the number {cut(text, 41)} is too large for a double: readers of JSON take it "
            "differently, so send it as a string"
        )
    return number


def _any_float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise _Unclean(f"the number {text[:20]} is too large for a double")
    return number


def _unread(text: str) -> int:
    return 0


def _int(text: str) -> int:
    if len(text) < SHORT:
        return int(text)
    number = int(text) if len(text) <= LONGEST else None
    if number is None or not LEAST <= number <= MOST:
        raise _OutOfRange(
            f"the integer {cut(text, 41)} lies outside {LEAST} to {MOST}: readers of JSON "
            "take it differently, so send it as a string"
        )
    return number


def _any_int(text: str) -> int:
    if len(text) > 310:
        raise _Unclean(f"the number {text[:20]}… is too large for a double")
    number = int(text)
    try:
        float(number)
    except OverflowError:
        raise _Unclean(f"the number {text[:20]}… is too large for a double") from None
    return number


def _decoder(
    parse_int: Callable[[str], int] | None, parse_float: Callable[[str], float] = _float
) -> Callable[[str], Any]:
    decoder = json.JSONDecoder(
        object_pairs_hook=_pairs, parse_float=parse_float, parse_int=parse_int, parse_constant=_constant
    )
    scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once  # type: ignore[attr-defined]

    def decode(text: str) -> Any:
        if text[:1] == "{":  # nothing stands before it, and mostly nothing behind it
            try:
                value, end = scan(text, 0)
                if end == len(text):
                    return value
            except StopIteration:  # a value is missing
                pass
        return decoder.decode(text)  # also says what is wrong

    return decode


_decode_plain, _decode = _decoder(None, float), _decoder(None)
_decode_checked, _decode_any = _decoder(_int), _decoder(_any_int, _any_float)
_decode_early = _decoder(_int, _any_float)
_decode_unread = _decoder(_unread, _unread)
# A hook for numbers costs a call for each of them. A message of many is looked through first, which costs less.
_FEW = 1024  # characters that hold few numbers
_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_LONG_RUN = b"0" * SHORT


def _decoder_for(data: bytes) -> Callable[[str], Any]:
    """The fastest decoder that finds each number out of range in this text."""
    spelt = data.translate(_DIGITS)
    if _LONG_RUN in spelt:
        return _decode_checked
    # Without such a run, only an exponent of three digits makes a double overflow.
    return _decode if b"e000" in spelt or b"e+000" in spelt else _decode_plain


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NO_BRACKET = re.compile(r"[^\[\]{}]+")
_BLOCK = 32


@lru_cache(maxsize=1)  # the depth and the number of values of a message are counted in the same text
def _without_strings(text: str) -> str:
    """JSON without its strings. In a text that is no JSON, what stands before its first fault is right."""
    if "\\" in text:  # it stands in strings alone; pairs are counted from the left, as readers of JSON do
        text = text.replace("\\\\", "").replace('\\"', "")
    return "".join(text.split('"')[::2])


def too_deep(text: str) -> bool:
    """Whether JSON is nested deeper than any gateway accepts; undefined for text that is no JSON."""
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    depth = 0
    brackets = _NO_BRACKET.sub("", _without_strings(text))
    for at in range(0, len(brackets), _BLOCK):
        block = brackets[at : at + _BLOCK]
        opened = block.count("[") + block.count("{")
        if depth + opened > MAX_DEPTH:  # only then is it worth looking at each
            here = depth
            for bracket in block:
                here += 1 if bracket in "[{" else -1
                if here > MAX_DEPTH:
                    return True
        depth += opened - (len(block) - opened)
    return False


def values_in(text: str) -> int:
    """The approximate number of values in a JSON text, which determines the cost of reading it; 0 for few values."""
    if len(text) <= FEW_VALUES or sum(map(text.count, ",[{")) <= FEW_VALUES:
        return 0
    return sum(map(_without_strings(text).count, ",[{"))


def read_strict(
    text: str | bytes,
    *,
    limit: int = MAX_MESSAGE,
    any_integer: bool = False,
    early_floats: bool = False,
    numbers: bool = True,
) -> dict[str, Any]:
    """Returns the one JSON object in `text`, which every JSON reader interprets alike.

    Refused are duplicate keys, NaN and Infinity, lone surrogates, nesting over 64 and texts over `limit` bytes. So are
    numbers that overflow a double, and integers outside -2^63 to 2^64-1.

    Args:
        any_integer: Accepts integers up to the size of a double, as earlier versions did. A number that overflows is
            then `invalid_json`.
        early_floats: Makes a number that overflows `invalid_json`, as in earlier versions.
        numbers: Without it each number is read as 0, to name a message that was refused because of a number.

    Raises:
        ProtocolError: with `code` `message_too_large`, `invalid_number` or `invalid_json`.

    Spec: §3, §4.2.
    """
    shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
    try:
        if isinstance(text, bytes):
            data, text = text, text.decode()
        else:
            data = text.encode()
        size = len(data)
        if size > limit:
            raise ProtocolError(
                f"the message has {size} bytes; this gateway takes at most {limit}",
                code="message_too_large",
                raw=shown,
            )
        if too_deep(text):
            raise _Unclean(f"it is nested more than {MAX_DEPTH} levels deep")
        early = _decode_any if any_integer else _decode_early if early_floats else None
        if not numbers:
            value = _decode_unread(text)
        elif early is None and size > _FEW:
            value = _decoder_for(data)(text)
        else:
            value = (early or _decode_checked)(text)
        if "\\u" in text and _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise ProtocolError(
            "the message is not valid UTF-8 text or holds a lone surrogate", code="invalid_json", raw=shown
        ) from None
    except _OutOfRange as fault:
        raise ProtocolError(str(fault), code="invalid_number", raw=shown) from None
    except ValueError as fault:
        raise ProtocolError(
            f"the message is not strict JSON: {fault}", code="invalid_json", raw=shown
        ) from None
    if not isinstance(value, dict):
        raise ProtocolError("the message must be a JSON object", code="invalid_json", raw=shown)
    return value


NEAR = 8192  # characters at either end of a text, in which the id of a refused message is looked for
MAX_LATE = 4  # places near the end that look like an id
_TEXT = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_PLAIN_VALUE = rf"(?:{_TEXT}|[-+.\w]++|\[\s*+(?:{_TEXT}\s*+,?\s*+)*+\])"
_PLAIN_MEMBER = rf"{_TEXT}\s*+:\s*+{_PLAIN_VALUE}"
_OPENING = re.compile(r"\s*+\{\s*+")
_LEADING = re.compile(rf"({_TEXT})\s*+:\s*+({_PLAIN_VALUE})\s*+[,}}]\s*+", re.DOTALL)
_LATE_ID = re.compile(r',\s*+"id"\s*+:\s*+')
_TRAILING = re.compile(rf"({_TEXT})\s*+(?:,\s*+{_PLAIN_MEMBER}\s*+)*+\}}\s*+\Z", re.DOTALL)


def find_id(text: str | bytes) -> str:
    """The id of a message that is refused unread; empty where none is found at little cost, or several are.

    Only the members before the first object, and those after the last one, are looked at, within 8192 characters of
    either end. The id in a text that is no JSON is that of its plain members all the same.
    """
    head, tail = (
        part if isinstance(part, str) else part.decode("utf-8", "replace")
        for part in (text[:NEAR], text[-NEAR:])
    )
    opening = _OPENING.match(head)
    if opening is None:
        return ""
    at, found = opening.end(), set()
    while (member := _LEADING.match(head, at)) is not None:
        if _read_text(member[1]) == "id":
            found.add(_read_text(member[2]))
        at = member.end()
    for late in [*_LATE_ID.finditer(tail)][-MAX_LATE:]:
        if (last := _TRAILING.match(tail, late.end())) is not None:
            found.add(_read_text(last[1]))
    return found.pop() if len(found) == 1 else ""


def _read_text(written: str) -> str:
    """The text that a JSON string stands for, if it can be an id; else empty."""
    try:
        value, _ = scanstring(written, 1)
    except ValueError:
        return ""
    return value if written[0] == '"' and is_id(value) else ""


# --- shape ----------------------------------------------------------------------------------------------------


def is_id(value: object) -> bool:
    """Whether a value can be the id of a message: 1 to 256 printable characters."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID and value.isprintable()


def _is_names(value: Any) -> bool:
    if not isinstance(value, list):
        return value is None
    for item in value:  # noqa: SIM110 - most messages have one of these lists, and a generator takes twice the time
        if not isinstance(item, str):
            return False
    return True


class _Shape(NamedTuple):
    """The required type of a member, as a test and as text."""

    holds: Callable[[Any], bool]
    words: str


_SHAPES = {
    "id": _Shape(is_id, f"1 to {MAX_ID} printable characters"),
    "ts": _Shape(lambda value: isinstance(value, str), "an RFC 3339 timestamp in a string"),
    "from": _Shape(lambda value: isinstance(value, str), "a participant id in a string"),
    "to": _Shape(_is_names, "an array of participant ids"),
    "correlation_id": _Shape(_is_names, "an array of message ids"),
    "context": _Shape(lambda value: value is None or isinstance(value, str), "a string"),
    "payload": _Shape(lambda value: isinstance(value, dict), "an object"),
}
# Each value of this type is valid; most members of a message end here, and every message passes here.
_PLAIN = {
    "protocol": str,
    "kind": str,
    "ts": str,
    "from": str,
    "correlation_id": str,
    "context": str,
    "payload": dict,
}


def check_shape(members: Any, *, raw: str) -> None:
    """Checks that these are the members of an envelope, complete or not; payloads are not validated.

    Raises:
        ProtocolError: `unsupported_protocol` or `invalid_envelope`, with a sentence that names the member.

    Spec: §3.
    """
    if not isinstance(members, dict):
        raise ProtocolError("an envelope must be a JSON object", raw=raw)
    kind = members.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ProtocolError("Message kind is required", raw=raw)
    if members.get("protocol", PROTOCOL) != PROTOCOL:
        raise ProtocolError(
            f"Invalid protocol version: {str(members['protocol'])[:40]}; this side speaks {PROTOCOL}",
            code="unsupported_protocol",
            section="§6.1",
            raw=raw,
        )
    for member, value in members.items():
        if type(value) is _PLAIN.get(member):
            continue
        rule = _SHAPES.get(member)
        if rule is not None and not rule.holds(value):
            raise ProtocolError(f"{member} must be {rule.words}", raw=raw)


# --- drafts ---------------------------------------------------------------------------------------------------


_COMPLETE = frozenset({"protocol", "id", "ts", "from"})
_scan = json.JSONDecoder().raw_decode
_BLANK = " \t\n\r"


def _after_blank(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at


def _value_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """(key, start, end) of each top-level value of a text that is known to be one strict JSON object."""
    at = _after_blank(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = scanstring(text, at + 1)
        start = _after_blank(text, _after_blank(text, at) + 1)
        _, end = _scan(text, start)
        yield key, start, end
        at = _after_blank(text, end)
        if text[at] == ",":
            at = _after_blank(text, at + 1)


def complete(draft: Draft, *, id: str, ts: str, sender: str, to: tuple[str, ...] | None = None) -> Envelope:
    """Returns the envelope that a draft becomes for its sender.

    Members that are missing (`protocol`, `id`, `ts`, `from`) are inserted into the text. A `correlation_id` that is a
    string is wrapped into an array. `to`, if passed, replaces that of the draft. A complete draft keeps its text byte
    for byte.

    Spec: §3, §3.6.4, §5.3, §8.1.
    """
    raw, members = draft
    related = members.get("correlation_id")
    if to is None and members.keys() >= _COMPLETE and not isinstance(related, str):
        return Envelope(members, raw=raw)
    missing = {
        key: value
        for key, value in (("protocol", PROTOCOL), ("id", id), ("ts", ts), ("from", sender))
        if key not in members
    }
    replaced: dict[str, Any] = {"correlation_id": [related]} if isinstance(related, str) else {}
    if to is not None:
        replaced["to"] = list(to)
    if replaced:
        for key, start, end in sorted(_value_spans(raw), key=lambda span: -span[1]):
            if key in replaced:
                raw = raw[:start] + compact(replaced[key]) + raw[end:]
    if missing:
        head, tail = raw.split("{", 1)
        raw = f"{head}{compact(missing)[:-1]},{tail}"
    return Envelope({**missing, **members, **replaced}, raw=raw)
