"""Defines the fields of the filter language: the one table of names, types, values and SQL columns.

A field is a column of the log's table, a path into the payload, or a fact from the ledger or the diagnosis. The
predicate, the SQL and the completion read this table and nothing else.

Rules for what a message does not have
--------------------------------------
They are stated here and nowhere else; predicate.py and sql.py implement them, and a property test holds both equal.

- A text field of a message without it is the empty text, as in the table of the log. A list field is the empty list.
- A number, a time, a severity or a payload path of a message without it is missing. So is a payload path when the
  payload is no object. A member that is `null` is not missing.
- A comparison with a missing value is false. There is no third truth value: `x != y` is exactly `not x == y`, and
  `x !~ y` is exactly `not x ~ y`, so both are true where `x` is missing.
- A comparison with a list, or with a payload path that holds an array, is true where it is true of any element; `any x
  == y` says the same, and `all x == y` means each element. Of no elements, both are false. Behind `any` and `all`,
  `!=` and `!~` compare each element. Arrays in arrays are not searched.
- `exists` is true of a text or list that is not empty, and of any other value that is not missing.

Rules for values
----------------
- Numbers are compared exactly, however they are written: `1` equals `1.0` and `1e0`, and 2^53 + 1 is not 2^53.
  Integers beyond 64 bits are doubles, as everywhere in the log.
- A number never equals a text: `1` is not `"1"`. An unquoted word is a number, `true`, `false` or `null` only where it
  is written like that and is compared with a payload path; a text field reads it as text.
- Texts are ordered by code points. `==`, `~`, `=~`, `<` and `>` regard case; `has` on a text, `field:word` and the text
  search do not.
- A severity is below those after it: note, warn, error, fatal.

Differences between the two engines of regular expressions
----------------------------------------------------------
Both are RE2, so both run in linear time and refuse look-around and references. They differ in their versions, and so
in the Unicode tables of `\\p{…}` and of case folding. Python hands them text in which a lone surrogate is impossible:
such texts, which only a refused message has, are matched with U+FFFD in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from mew_lab.log.diagnose.diagnosis import RULES
from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.table import COLUMNS
from mew_lab.protocol.kinds import KINDS

__all__ = [
    "FIELDS",
    "NO_FACTS",
    "PAYLOAD",
    "QUICK",
    "SEARCHED",
    "STATES",
    "Facts",
    "FieldType",
    "FilterField",
    "nearest_field",
]

STATES = (
    *("waiting", "answered", "unknown", "resolved", "sent", "refused"),
    *("open", "rejected", "fulfilled", "withdrawn", "claimed", "cancelled"),
    *("active", "concluded", "left", "requested", "closed", "stands", "revoked", "ended"),
)
"""The states of all that the ledger tracks; `claimed` is a message under an id that another message has taken."""

FieldType = Literal["text", "list", "integer", "seconds", "time", "severity", "json"]


class Facts(NamedTuple):
    """Facts about a message that follow from other messages.

    Attributes:
        state: The state of the call that the message opens, in the words of the ledger; empty for other messages.
        latency: Seconds from a request to its answer, or from a proposal to its first decision; None without one.
        decided_by: The participant that decided the proposal of this message.
        severity: The highest severity of the findings of the diagnosis about it.
        rules: The rules that made these findings.
    """

    state: str = ""
    latency: float | None = None
    decided_by: str = ""
    severity: str = ""
    rules: tuple[str, ...] = ()


NO_FACTS = Facts()


class FilterField(NamedTuple):
    """One field.

    Attributes:
        about: One line on its meaning; with the section of the specification.
        column: The name of its column in the table `entries` of an index.
        value: The function of an entry and its facts; it returns the value that the rules above describe.
        of_entry: The same function of the entry alone; None for a field that needs facts.
        examples: Values to complete it with, besides those that occur in the log.
        closed: Whether `examples` are all its values, so that a comparison with another one is a fault.
        units: The factors of the units that a number of it may have.
    """

    name: str
    type: FieldType
    about: str
    value: Callable[[RecordedEntry, Facts], Any]
    of_entry: Callable[[RecordedEntry], Any] | None = None
    examples: tuple[str, ...] = ()
    units: Mapping[str, float] = {}
    closed: bool = False

    @property
    def column(self) -> str:
        """The quoted name of its column in the table `entries` of an index."""
        return f'"{self.name}"'

    @property
    def needs_facts(self) -> bool:
        """Whether its value follows from other messages."""
        return self.of_entry is None


_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_TYPES: Mapping[str, FieldType] = {
    "place": "integer",
    "seq": "integer",
    "size": "integer",
    "deliveries": "integer",
    "receivers": "list",
    "time": "time",
    "to": "list",
    "correlation_id": "list",
}
_EXAMPLES = {
    "time": ("-5m", "-1h", "-1d", "12:30"),
    "kind": (*(kind for kind in KINDS if "*" not in kind),),
    "verdict": ("accepted", "refused", "sent"),
    "via": ("memory", "websocket", "http"),
    "method": ("tools/call", "tools/list", "resources/read", "resources/list", "prompts/get", "prompts/list"),
}
_OMITTED = ("payload", "raw", "detail")


def _ignore_facts(of_entry: Callable[[RecordedEntry], Any], entry: RecordedEntry, _: Facts) -> Any:
    return of_entry(entry)


def _of_columns() -> list[FilterField]:
    fields = []
    for column in COLUMNS:
        if column.name in _OMITTED:
            continue
        name = column.name
        type = _TYPES.get(name, "text")
        value = partial(_ignore_facts, column.value)
        units = _BYTES if name == "size" else {}
        fields.append(
            FilterField(name, type, column.about, value, column.value, _EXAMPLES.get(name, ()), units)
        )
    return fields


def _get_raw(entry: RecordedEntry) -> str:
    return entry.raw


def _get_payload(entry: RecordedEntry) -> Any:
    return entry.payload


PAYLOAD = FilterField(
    "payload",
    "json",
    "the payload; payload.params.name is a path into it, payload.items[0] an element, §3.1",
    partial(_ignore_facts, _get_payload),
    _get_payload,
)

FIELDS: Mapping[str, FilterField] = {
    field.name: field
    for field in (
        *_of_columns(),
        PAYLOAD,
        FilterField(
            "text", "text", "the exact text of the message", partial(_ignore_facts, _get_raw), _get_raw
        ),
        FilterField(
            "state",
            "text",
            "the state of what the message opens: a request, a proposal, a chat, reasoning, a stream or a grant",
            lambda _, facts: facts.state,
            examples=STATES,
            closed=True,
        ),
        FilterField(
            "latency",
            "seconds",
            "seconds from a request to its answer, or from a proposal to its first decision",
            lambda _, facts: facts.latency,
            examples=("500ms", "2s", "1m"),
            units=_SECONDS,
        ),
        FilterField(
            "decided_by",
            "text",
            "the participant that decided the proposal of the message",
            lambda _, facts: facts.decided_by,
        ),
        FilterField(
            "diag.severity",
            "severity",
            "the highest severity of the findings about the message",
            lambda _, facts: facts.severity,
            examples=SEVERITIES,
        ),
        FilterField(
            "diag.rule",
            "list",
            "the rules of the diagnosis that the message breaks",
            lambda _, facts: facts.rules,
            examples=tuple(RULES),
        ),
    )
}

QUICK = ("from", "to", "kind", "tool", "id", "context", "verdict", "since")
"""The fields of the short form `field:word`, besides which any text field may be named."""

SEARCHED = ("from", "to", "kind", "context", "verdict", "code")
"""The fields that a text search reads, joined by line breaks; it reads the exact text of the message, too."""

_OTHER_NAMES = {
    "sender": "from",
    "receiver": "to",
    "recipient": "to",
    "addressee": "to",
    "type": "kind",
    "duration": "latency",
    "took": "latency",
    "timestamp": "time",
    "error": "code",
    "correlation": "correlation_id",
    "number": "seq",
    "raw": "text",
    "name": "tool",
    "severity": "diag.severity",
    "rule": "diag.rule",
    "status": "state",
}


def nearest_field(name: str) -> str:
    """The field that was probably meant by an unknown name; empty where none is near."""
    import difflib  # only where something is wrong

    lower = name.lower()
    if lower in FIELDS:
        return lower
    if lower in _OTHER_NAMES:
        return _OTHER_NAMES[lower]
    root, dot, rest = lower.partition(".")
    if dot and (root in ("params", "result", "arguments", "error") or root in FIELDS):
        return f"payload.{name}"
    near = difflib.get_close_matches(lower[:40], FIELDS, n=1)
    if not near and dot:
        near = [f"payload.{rest}"] if difflib.get_close_matches(root, ["payload"]) else []
    return near[0] if near else ""
