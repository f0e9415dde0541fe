"""What does an earlier answer of a tool give for a parameter?  Under a key of its name, or of its kind; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from mew_lab.agent.offline.finding import MAX_SEEN, Text
from mew_lab.agent.offline.fitting import as_number
from mew_lab.agent.offline.picking import numbers, pick
from mew_lab.agent.offline.wants import Want, stems_of_name
from mew_lab.agent.offline.wording import stems

__all__ = ["recall"]

MAX_RECALLED = 50
MAX_LEAVES = 500


def recall(text: Text, wanted: Want, *, role: str, whole: bool = False) -> list[Any]:
    """What one answer gives for a parameter, the likeliest first.

    Args:
        role: the kind of value, "number" for one.
        whole: only whole numbers.
    """
    leaves = _parsed(text.text)
    if leaves is None:
        return _alike(text, wanted, role, whole)
    # What stands in quotes in JSON is no quotation.
    values = Text.of("\n".join(str(value) for _, value in leaves))
    return [*_keyed(leaves, wanted, role, whole), *_alike(values, wanted, role, whole)]


def _parsed(text: str) -> list[tuple[str, Any]] | None:
    """The values of a JSON answer with their keys; None where it is no JSON."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return list(islice(_leaves(json.loads(text[:MAX_SEEN])), MAX_LEAVES))
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and depth < 8:
        for name, inner in list(value.items())[:200]:
            yield from _leaves(inner, f"{key} {name}"[-200:], depth + 1)
    elif isinstance(value, list) and depth < 8:
        for inner in value[:200]:
            yield from _leaves(inner, key, depth + 1)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield key, value


def _keyed(leaves: Sequence[tuple[str, Any]], wanted: Want, role: str, whole: bool) -> list[Any]:
    """The values whose keys best match the parameter's name."""
    names = set(stems(wanted.key)) | wanted.labels | ({"id"} if "id" in wanted.roles else set())
    best, most = [], 0
    for key, leaf in leaves:
        points = len(names & set(stems_of_name(key)))
        said = _of_kind(Text.of(str(leaf)[:2000]), wanted, role, whole, leaf) if points else []
        if said and points > most:
            best, most = said[:1], points
        elif said and points == most:
            best += said[:1]
    return best


def _of_kind(text: Text, wanted: Want, role: str, whole: bool, leaf: Any) -> list[Any]:
    if role == "number":
        value = as_number(leaf, whole=whole)
        return [] if value is None else [value]
    if role in ("id", "name", "place", "language", "currency"):
        return [str(leaf)]
    found = pick(wanted, text, frozenset(), role=role)
    return [found.value] if found else []


def _alike(text: Text, wanted: Want, role: str, whole: bool) -> list[Any]:
    """The values of the right kind, in the order of the text; of numbers the last, where results stand."""
    if role == "number":
        found = [as_number(one.value, whole=whole) for one in numbers(wanted, text)]
        return [value for value in found if value is not None][-1:]
    if role not in ("time", "datetime", "zone", "path", "email", "url", "id"):
        return []
    values: list[Any] = []
    used: set[int] = set()
    while len(values) < MAX_RECALLED and (picked := pick(wanted, text, used, role=role)):
        if not picked.places or picked.places <= used:
            break
        used |= picked.places
        values.append(picked.value)
    return values
