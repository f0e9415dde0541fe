"""Completes a filter: its fields, the paths of payloads, the operators of a field and the values that occur in a log.

It never raises an exception, and knows only the samples that it is given, so that it answers while a person types.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.fields import FIELDS, NO_FACTS, PAYLOAD, QUICK, FilterField
from mew_lab.protocol.visible import visible
from mew_lab.space.events import Record

__all__ = ["FilterCompletion", "FilterCompletions", "FilterSamples", "complete_filter", "write_value"]

MOST_SAMPLES = 2000  # newest messages whose values are offered
MOST_VALUES = 50
MOST_PATHS = 300
DEEPEST = 5
MAX_VALUE = 80  # characters of a value that is offered
_BARE = re.compile(r"""[^\s()",]+""")
_STEP = re.compile(r"[A-Za-z_$@-][A-Za-z0-9_$@/-]*")
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
_REFERENCE = r"""[A-Za-z_][A-Za-z_0-9]*(?:\.(?:[^\s.()\[\]",<>=!~]+|"[^"]*")|\[[0-9]+\])*"""
_VALUE = re.compile(
    rf"(?:^|[\s(])({_REFERENCE})\s*(?:==|!=|~|!~|<=?|>=?|\s+has\s)\s*(\"[^\"]*|[^\s()\",=~<>!]*)$"
)
_LISTED = re.compile(
    rf"(?:^|[\s(])({_REFERENCE})\s+in\s*\((?:[^()]*,)?\s*(\"[^\"]*|[^\s()\",]*)$", re.IGNORECASE
)
_OPERATOR = re.compile(rf"(?:^|[\s(])({_REFERENCE})\s+([=!~<>a-z]*)$")
_QUICK = re.compile(r"(?:^|[\s(])-?([A-Za-z_]+):(\"[^\"]*|[^\s()\"]*)$")
_WORD = re.compile(r"(?:^|[\s(-])([A-Za-z_][^\s()\"]*|)$")
_OPERATORS: Mapping[str, tuple[str, ...]] = {
    "text": ("==", "!=", "~", "!~", "=~", "in", "has", "exists"),
    "list": ("==", "!=", "~", "!~", "=~", "in", "has", "exists"),
    "json": ("==", "!=", "~", "!~", "=~", "<", "<=", ">", ">=", "in", "has", "exists"),
    "integer": ("==", "!=", "<", "<=", ">", ">=", "in", "exists"),
    "seconds": ("==", "!=", "<", "<=", ">", ">=", "in", "exists"),
    "time": ("<", "<=", ">", ">=", "exists"),
    "severity": ("==", "!=", "<", "<=", ">", ">=", "in", "exists"),
}
_RESERVED = {"true", "false", "null"}


class FilterCompletion(NamedTuple):
    """One completion: the text that takes the place of the fragment, and `field`, `operator`, `value` or `word`."""

    text: str
    type: str


class FilterCompletions(NamedTuple):
    """The completions of the end of a filter, and the fragment that each of them replaces."""

    completions: list[FilterCompletion]
    fragment: str


class FilterSamples:
    """The values of fields, and the paths of payloads, in some messages; the most frequent values come first."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        newest = [record for record in records[-MOST_SAMPLES:] if record.raw is not None]
        self._entries = [RecordedEntry(record) for record in newest]

    def values(self, field: FilterField, path: Sequence[str] = ()) -> list[str]:
        """The values of a field as a filter writes them."""
        counts: Counter[str] = Counter()
        for entry in self._entries:
            value = _follow(entry.payload, path) if field is PAYLOAD else field.value(entry, NO_FACTS)
            for each in value if isinstance(value, list | tuple) else (value,):
                if isinstance(each, str | int | float) and each != "" and len(str(each)) <= MAX_VALUE:
                    counts[write_value(each)] += 1
        found = [value for value, _ in counts.most_common(MOST_VALUES)]
        return found + [value for value in map(write_value, field.examples) if value not in counts]

    def paths(self) -> list[str]:
        """The paths that occur in the payloads, as a filter writes them; the most frequent first."""
        counts: Counter[str] = Counter()
        for entry in self._entries:
            _count_paths(entry.payload, "payload", counts, DEEPEST)
            if len(counts) > 10 * MOST_PATHS:
                break
        return [path for path, _ in counts.most_common(MOST_PATHS)]


def _count_paths(value: Mapping[str, Any], path: str, counts: Counter[str], depth: int) -> None:
    for key, below in value.items():
        if len(key) > MAX_VALUE:
            continue
        step = f"{path}.{key if _STEP.fullmatch(key) else json.dumps(key)}"
        counts[step] += 1
        if isinstance(below, dict) and depth > 1:
            _count_paths(below, step, counts, depth - 1)


def _follow(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def write_value(value: Any) -> str:
    """A value as a filter writes it: in quotation marks where it would not be read as the same value otherwise."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return json.dumps(value)
    text = str(value)
    plain = _BARE.fullmatch(text) and not _NUMBER.fullmatch(text) and text not in _RESERVED
    if plain and ".." not in text and visible(text) == text and "\\" not in text:
        return text
    return json.dumps(text, ensure_ascii=visible(text) != text)


def complete_filter(text: str, samples: FilterSamples | None = None) -> FilterCompletions:
    """What may complete the end of a filter; the fragment is the end of `text` that the completions replace."""
    samples = samples or FilterSamples()
    if match := _LISTED.search(text) or _VALUE.search(text):
        return _pick(samples, match[1], match[2])
    if match := _QUICK.search(text):
        name, fragment = match[1].lower(), match[2]
        if name in QUICK and name in FIELDS:
            return _pick(samples, name, fragment)
        return FilterCompletions([], fragment)
    if text.count('"') % 2:
        return FilterCompletions([], "")
    match = _OPERATOR.search(text)
    if match and (field := _field_of(match[1])) is not None:
        operators = [name for name in _OPERATORS[field.type] if name.startswith(match[2])]
        if operators:
            found = [FilterCompletion(name, "operator") for name in operators]
            return FilterCompletions(found, match[2])
    match = _WORD.search(text)
    fragment = match[1] if match else ""
    lower = fragment.lower()
    names = [name for name in FIELDS if name.startswith(lower)]
    if lower.startswith("payload"):
        names += [path for path in samples.paths() if path.startswith(fragment) and path != fragment]
    words = [word for word in ("and", "or", "not") if lower and word.startswith(lower)]
    fields = [FilterCompletion(name, "field") for name in names]
    return FilterCompletions([*fields, *(FilterCompletion(word, "word") for word in words)], fragment)


def _field_of(reference: str) -> FilterField | None:
    if reference in FIELDS:
        return FIELDS[reference]
    return PAYLOAD if reference.startswith(("payload.", "payload[")) else None


def _pick(samples: FilterSamples, reference: str, fragment: str) -> FilterCompletions:
    field = _field_of(reference)
    if field is None:
        return FilterCompletions([], fragment)
    path = _read_path(reference) if field is PAYLOAD else ()
    begun = fragment.removeprefix('"').lower()
    found = [
        value
        for value in _values_of(samples, field, path)
        if value.removeprefix('"').lower().startswith(begun)
    ]
    if fragment.startswith('"'):
        found = [value if value.startswith('"') else json.dumps(value, ensure_ascii=False) for value in found]
    return FilterCompletions([FilterCompletion(value, "value") for value in found], fragment)


def _values_of(samples: FilterSamples, field: FilterField, path: Sequence[str]) -> Iterable[str]:
    if field.name == "decided_by":  # it follows from other messages; those that decide send some
        return samples.values(FIELDS["from"])
    if field.name == "text" or field.type == "integer":
        return ()
    if field.type == "time":
        return field.examples
    return samples.values(field, path)


def _read_path(reference: str) -> list[str]:
    steps = re.findall(r'\.("[^"]*"|[^.\[\]]+)|\[([0-9]+)\]', reference)
    return [name.strip('"') or index for name, index in steps]
