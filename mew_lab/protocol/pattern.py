"""The pattern language of capabilities, compiled once into a tree that can be read.

Patterns and values are JSON; the module handles neither capabilities nor envelopes. A value that is absent, of another
type, or too costly to judge does not match. A negation needs a string, too. The tree is kept (`ObjectPattern.members`,
`AnyOf.alternatives`, `Glob.tokens` …), so that patterns can be compared.

Spec: §4.1 (Capability Matching), §4.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from mew_lab.errors import ConfigError
from mew_lab.protocol.jsonpath import JSONPath, descendants
from mew_lab.protocol.node import BUDGET, Meter, Node, OverBudget
from mew_lab.protocol.strings import (
    ANY_STRING,
    AnyString,
    Glob,
    Literal,
    Negation,
    Regex,
    StringNode,
    compile_string,
    is_expression,
    is_glob,
)

__all__ = [
    "BUDGET",
    "AnyOf",
    "AnyString",
    "Anywhere",
    "Constant",
    "Field",
    "Glob",
    "JSONPath",
    "KeyGlob",
    "Literal",
    "Meter",
    "Negation",
    "Node",
    "ObjectPattern",
    "OverBudget",
    "Regex",
    "Selection",
    "compile_pattern",
    "compile_strings",
    "warnings",
]

MAX_DEPTH: Final = 64
_META: Final = frozenset(r".^$*+?{}[]\|()")


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A number, a boolean or null. Numbers match by mathematical value, booleans and null only themselves."""

    value: int | float | bool | None

    @property
    def source(self) -> object:
        return self.value

    def holds(self, value: object, meter: Meter) -> bool:
        if self.value is None or isinstance(self.value, bool):
            return value is self.value
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == self.value


@dataclass(frozen=True, slots=True)
class AnyOf(Node):
    """A list: one of its patterns has to match. No alternative is itself a list; an empty list matches
    nothing."""

    alternatives: tuple[Node, ...]
    literals: frozenset[str] = field(repr=False, compare=False)
    others: tuple[Node, ...] = field(repr=False, compare=False)

    @classmethod
    def of(cls, alternatives: tuple[Node, ...]) -> AnyOf:
        """Joins `alternatives`; literals are looked up at once, however many there are."""
        return cls(
            alternatives,
            frozenset(alternative.text for alternative in alternatives if isinstance(alternative, Literal)),
            tuple(alternative for alternative in alternatives if not isinstance(alternative, Literal)),
        )

    @property
    def source(self) -> object:
        return [alternative.source for alternative in self.alternatives]

    def holds(self, value: object, meter: Meter) -> bool:
        if isinstance(value, str) and value in self.literals:
            return True
        for alternative in self.others:
            meter.spend()
            if alternative.holds(value, meter):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Field:
    """A member by its name. The object has to have it."""

    name: str
    pattern: Node

    def holds(self, value: dict[str, object], meter: Meter) -> bool:
        return self.name in value and self.pattern.holds(value[self.name], meter)


@dataclass(frozen=True, slots=True)
class KeyGlob:
    """A key with wildcards: the values of all members whose names match."""

    glob: Glob | AnyString

    @property
    def text(self) -> str:
        return self.glob.source

    def select(self, value: dict[str, object], meter: Meter) -> Iterator[object]:
        for name, member in value.items():
            meter.spend()
            if self.glob.accepts(name, meter):
                yield member


@dataclass(frozen=True, slots=True)
class Anywhere:
    """The key `**`: every value below the object, at any depth, in objects and arrays."""

    text: str = "**"

    def select(self, value: dict[str, object], meter: Meter) -> Iterator[object]:
        return descendants(value, meter)


@dataclass(frozen=True, slots=True)
class Selection:
    """A member by a key that selects many: some selected value has to match.

    Under a negation at least one string must be selected, and none of them may match the negated pattern. The reading
    "some value is not x" would be met by any second value.
    """

    selector: KeyGlob | Anywhere | JSONPath
    pattern: Node

    def holds(self, value: dict[str, object], meter: Meter) -> bool:
        alternatives = self.pattern.alternatives if isinstance(self.pattern, AnyOf) else (self.pattern,)
        return any(self._one_holds(alternative, value, meter) for alternative in alternatives)

    def _one_holds(self, pattern: Node, value: dict[str, object], meter: Meter) -> bool:
        selected = self.selector.select(value, meter)
        if not isinstance(pattern, Negation):
            return any(pattern.holds(item, meter) for item in selected)
        some_string = False
        for item in selected:
            if isinstance(item, str):
                some_string = True
                if not pattern.accepts(item, meter):
                    return False
        return some_string


@dataclass(frozen=True, slots=True)
class ObjectPattern(Node):
    """An object, member by member; what it does not name is unconstrained, so `{}` matches any object."""

    members: tuple[Field | Selection, ...]
    _exact: tuple[tuple[str, str], ...] = field(repr=False, compare=False)
    _rest: tuple[Field | Selection, ...] = field(repr=False, compare=False)

    @classmethod
    def of(cls, members: list[Field | Selection]) -> ObjectPattern:
        """Orders the members by cost: literals (which cause most refusals), other fields, searches."""
        exact = [
            member for member in members if isinstance(member, Field) and isinstance(member.pattern, Literal)
        ]
        fields = [member for member in members if isinstance(member, Field) and member not in exact]
        searches = [member for member in members if isinstance(member, Selection)]
        return cls(
            tuple(members),
            tuple((member.name, str(member.pattern.source)) for member in exact),
            (*fields, *searches),
        )

    @property
    def source(self) -> object:
        return {
            member.name if isinstance(member, Field) else member.selector.text: member.pattern.source
            for member in self.members
        }

    def holds(self, value: object, meter: Meter) -> bool:
        if not isinstance(value, dict):
            return False
        for name, text in self._exact:
            if value.get(name) != text:
                return False
        for member in self._rest:  # noqa: SIM110 — a generator would cost half of the check
            if not member.holds(value, meter):
                return False
        return True


def compile_pattern(pattern: object, *, key: str = "", depth: int = 0) -> Node:
    """Compiles any pattern that may stand in a payload.

    `key` is the path to the pattern, for the error; `depth` is its depth of nesting.

    Raises:
        ConfigError: with the key path of the part that is no pattern.

    Spec: §4.1 (Pattern Types).
    """
    if depth > MAX_DEPTH:
        raise ConfigError(f"a pattern is nested more than {MAX_DEPTH} deep; no message is", key=key)
    if isinstance(pattern, str):
        return compile_string(pattern, key=key)
    if isinstance(pattern, (list, tuple)):
        return _any_of(
            compile_pattern(alternative, key=f"{key}[{at}]", depth=depth + 1)
            for at, alternative in enumerate(pattern)
        )
    if isinstance(pattern, Mapping):
        members = [_member(name, part, key=key, depth=depth) for name, part in pattern.items()]
        return ObjectPattern.of(members)
    if (
        pattern is None
        or isinstance(pattern, (bool, int))
        or (isinstance(pattern, float) and math.isfinite(pattern))
    ):
        return Constant(pattern)
    raise ConfigError(
        f"a {type(pattern).__name__} is no pattern: use a string, a finite number, true, false, null, a list "
        "or an object",
        key=key,
    )


def compile_strings(pattern: object, *, key: str, kind: bool = False) -> StringNode | AnyOf:
    """Compiles a pattern for `kind` or `to`: a string or a list of strings, none of them empty.

    Raises:
        ConfigError: with the key path.
    """
    if isinstance(pattern, (list, tuple)) and pattern:
        return _any_of(
            _word(alternative, key=f"{key}[{at}]", kind=kind) for at, alternative in enumerate(pattern)
        )
    return _word(pattern, key=key, kind=kind)


def warnings(pattern: object, *, key: str = "") -> list[str]:
    """Sentences about likely mistakes in a pattern: a `/…/` that looks like a path but is a regular expression."""
    if isinstance(pattern, str) and is_expression(pattern) and not _META.intersection(pattern):
        return [
            f"{key}: '{pattern}' is a regular expression and matches only '{pattern[1:-1]}', without the "
            f"slashes; for the text itself write '/\\{pattern[:-1]}\\//'"
        ]
    if isinstance(pattern, (list, tuple)):
        return [
            warning
            for at, alternative in enumerate(pattern)
            for warning in warnings(alternative, key=f"{key}[{at}]")
        ]
    if isinstance(pattern, Mapping):
        return [
            warning for name, part in pattern.items() for warning in warnings(part, key=_below(key, name))
        ]
    return []


def _word(pattern: object, *, key: str, kind: bool) -> StringNode:
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError("needs a string or a non-empty list of strings, none of them empty", key=key)
    return compile_string(pattern, key=key, kind=kind)


def _any_of(nodes: Iterator[Node]) -> AnyOf:
    flat: list[Node] = []
    for node in nodes:
        flat.extend(node.alternatives if isinstance(node, AnyOf) else (node,))
    return AnyOf.of(tuple(flat))


def _member(name: object, pattern: object, *, key: str, depth: int) -> Field | Selection:
    path = _below(key, name)
    if not isinstance(name, str):
        raise ConfigError(
            f"the key {name!r} is a {type(name).__name__}; a member's name is a string", key=path
        )
    compiled = compile_pattern(pattern, key=path, depth=depth + 1)
    if name.startswith("$"):
        return Selection(JSONPath.of(name, key=path), compiled)
    if name == "**":
        return Selection(Anywhere(), compiled)
    if is_glob(name):
        # An expression or a negation has no meaning in a key: only the wildcards are read.
        return Selection(KeyGlob(ANY_STRING if name == "*" else Glob.of(name)), compiled)
    return Field(name, compiled)


def _below(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)
