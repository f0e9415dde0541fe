"""The nodes of a parsed filter: data only. Values are read already: a pattern is the text of an RE2 expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mew_lab.log.filter.fields import FilterField

__all__ = [
    "Comparison",
    "Conjunction",
    "Disjunction",
    "FilterTree",
    "Inversion",
    "Presence",
    "Quantifier",
    "Reference",
    "TextSearch",
    "Value",
    "references",
]

Value = str | int | float | bool | datetime | tuple["Value", ...] | None
Quantifier = Literal["", "any", "all"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A field; of the payload with the path into it."""

    field: FilterField
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a field with a value.

    Attributes:
        op: `==`, `!=`, `<`, `<=`, `>`, `>=`; `matches` and `!matches` of a pattern; `has`; `contains` of a pattern in
            the text of the short form; `in` of a tuple.
        value: Of the type that the field has; the rank of a severity. Of a payload path, any JSON scalar.
        quantifier: Only behind `any` and `all` is `op` one of `!=` and `!matches`.
    """

    reference: Reference
    op: str
    value: Value
    quantifier: Quantifier = ""


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether a field has a value."""

    reference: Reference


@dataclass(frozen=True, slots=True)
class TextSearch:
    """Whether a pattern matches somewhere in the message."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Inversion:
    """Not."""

    part: FilterTree


@dataclass(frozen=True, slots=True)
class Conjunction:
    """All of the parts; without parts, every message."""

    parts: tuple[FilterTree, ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """Any of the parts."""

    parts: tuple[FilterTree, ...]


FilterTree = Conjunction | Disjunction | Inversion | Comparison | Presence | TextSearch


def references(tree: FilterTree) -> Iterator[Reference]:
    """The fields that a filter reads, in its order; a text search reads none."""
    if isinstance(tree, Conjunction | Disjunction):
        for part in tree.parts:
            yield from references(part)
    elif isinstance(tree, Inversion):
        yield from references(tree.part)
    elif not isinstance(tree, TextSearch):
        yield tree.reference
