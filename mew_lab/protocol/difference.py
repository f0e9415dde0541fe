"""Compares JSON values: whether two are equal, a key by which equal ones are found, and the places in which they
differ, in bounds.

A boolean is never a number, numbers are compared by their mathematical value (1 is 1.0), everything else is exact. The
order of the members of an object does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from mew_lab.protocol.coerce import is_number

__all__ = ["ABSENT", "Difference", "are_equal", "differences", "equality_key"]

MAX_DIFFERENCES = 100  # that are told: a request may differ from its proposal in every value


class _Absent:
    """The marker of a missing value on one side; not None, because null is a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


class Difference(NamedTuple):
    """One place: its path (`params.arguments.files[2]`), the proposed value and the sent value."""

    path: str
    proposed: Any
    sent: Any


def differences(proposed: Any, sent: Any) -> tuple[Difference, ...]:
    """The places in which the two values differ, keys in the order of `proposed`; at most 100."""
    if _are_same(proposed, sent):  # as most are; this needs no paths
        return ()
    return tuple(islice(_walk("", proposed, sent), MAX_DIFFERENCES))


def are_equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same one."""
    return _are_same(left, right) or next(_walk("", left, right), None) is None


def equality_key(value: Any) -> str:
    """A digest that is the same for two JSON values exactly where `are_equal` holds."""
    return sha256("".join(_spell(value)).encode("utf-8", "surrogatepass")).hexdigest()


def _spell(value: Any) -> Iterator[str]:
    """The one spelling of all values that are equal to this one, in parts. Values may be nested to any depth."""
    rest: list[tuple[str, Any]] = [("", value)]
    while rest:
        before, value = rest.pop()
        yield before
        if value is ABSENT:
            continue
        if isinstance(value, dict):
            rest.append(("}", ABSENT))
            rest += [(f"{len(key)}:{key}", value[key]) for key in sorted(value, reverse=True)]
            yield "{"
        elif isinstance(value, list | tuple):
            rest.append(("]", ABSENT))
            rest += [("", item) for item in reversed(value)]
            yield "["
        elif isinstance(value, str):
            yield f'"{len(value)}:{value}'
        elif is_number(value):
            whole = not isinstance(value, float) or value.is_integer()
            yield f"{int(value):x};" if whole else f"{value!r};"
        else:
            yield f"{value!r};"


def _are_same(left: Any, right: Any) -> bool:
    """Whether two values are equal and of one type at each place, so that `_walk` finds no difference."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is dict:
        return left.keys() == right.keys() and all(map(_are_same, left.values(), map(right.get, left)))
    if kind is list:
        return len(left) == len(right) and all(map(_are_same, left, right))
    return bool(left == right)


def _walk(path: str, left: Any, right: Any) -> Iterator[Difference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            place = f"{path}.{key}" if path else key
            yield from _walk(place, left.get(key, ABSENT), right.get(key, ABSENT))
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            yield from _walk(
                f"{path}[{index}]",
                left[index] if index < len(left) else ABSENT,
                right[index] if index < len(right) else ABSENT,
            )
    elif isinstance(left, bool) is not isinstance(right, bool) or left != right:
        yield Difference(path, left, right)
