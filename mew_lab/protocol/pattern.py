"""The pattern language of capabilities, compiled once into a tree that can be read.

Patterns and values are JSON; the module handles neither capabilities nor envelopes. A value that is absent, of another
type, or too costly to judge does not match. A negation needs a string, too. The tree is kept (`ObjectPattern.members`,
`AnyOf.alternatives`, `Glob.tokens` …), so that patterns can be compared.

A pattern is read by the rules of an edition: since edition 4 globs judge paths (R33, `strings`), and a payload may be
closed (R34). A closed object has no member that its pattern does not name, by a literal key or by a glob. `loosened`
reads a compiled pattern by the rules before that.

Spec: §4.1 (Capability Matching), §4.2, rulings R33 and R34.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from mew_lab.errors import ConfigError
from mew_lab.protocol.coerce import is_number
from mew_lab.protocol.jsonpath import JSONPath, descendants
from mew_lab.protocol.node import BUDGET, Meter, Node, OverBudget
from mew_lab.protocol.strings import (
    ANY_STRING,
    GUARD_PATH,
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
    "Closed",
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
    "judges_paths",
    "loosened",
    "search_remarks",
    "warnings",
]

MAX_DEPTH: Final = 64  # as of a message (R7): a deeper pattern could match none
_LONGEST_TOKEN: Final = 64  # characters of a progress token that a closed capability leaves free (R34)
_NAMES_PER_STEP: Final = 4  # members of an object whose names are compared for one step of the meter
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
class ProgressToken(Node):
    """A token of progress in `_meta`: a number or a short text."""

    @property
    def source(self) -> object:
        return {}

    def holds(self, value: object, meter: Meter) -> bool:
        return is_progress_token(value)


def is_progress_token(value: object) -> bool:
    """Whether a value is a token of progress that a closed call may have: a number, or a text of 64 characters at most.

    Spec: R34.
    """
    return len(value) <= _LONGEST_TOKEN if isinstance(value, str) else is_number(value)


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

    In a closed object `beside` are the members that stand there by a literal key, else it is None. No other selected
    object may then have members that the pattern does not name, whether it is the one that matches or not.
    """

    selector: KeyGlob | Anywhere | JSONPath
    pattern: Node
    beside: frozenset[str] | None = None

    def holds(self, value: dict[str, object], meter: Meter) -> bool:
        alternatives = self.pattern.alternatives if isinstance(self.pattern, AnyOf) else (self.pattern,)
        return any(
            self._one_holds(alternative, value, meter) and self._one_names(alternative, value, meter)
            for alternative in alternatives
        )

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

    def _one_names(self, pattern: Node, value: dict[str, object], meter: Meter) -> bool:
        if self.beside is None:
            return True
        meter.spend(len(value) // _NAMES_PER_STEP)
        others = {name: item for name, item in value.items() if name not in self.beside}
        return all(_names_all(pattern, item, meter) for item in self.selector.select(others, meter))

    def names_all(self, value: dict[str, object], meter: Meter) -> bool:
        """Whether no object that it selects has members that the pattern of a closed one does not name."""
        return self._one_names(self.pattern, value, meter)


@dataclass(frozen=True, slots=True)
class ObjectPattern(Node):
    """An object, member by member; what it does not name is unconstrained, so `{}` matches any object.

    A closed one has `free`: the members that may stand there without being named, with what their values have to
    match, None for any value. Any other that no key names is refused, so a closed `{}` matches only an object without
    members.
    """

    members: tuple[Field | Selection, ...]
    free: Mapping[str, Node | None] | None = field(hash=False)
    _named: frozenset[str] = field(repr=False, compare=False)
    _exact: tuple[tuple[str, str], ...] = field(repr=False, compare=False)
    _rest: tuple[Field | Selection, ...] = field(repr=False, compare=False)

    @classmethod
    def of(
        cls, members: Iterable[Field | Selection], *, free: Mapping[str, Node | None] | None = None
    ) -> ObjectPattern:
        """Orders the members by cost: literals (which cause most refusals), other fields, searches."""
        members = tuple(members)
        exact = [
            member for member in members if isinstance(member, Field) and isinstance(member.pattern, Literal)
        ]
        fields = [member for member in members if isinstance(member, Field) and member not in exact]
        searches = [member for member in members if isinstance(member, Selection)]
        return cls(
            members,
            free,
            frozenset(member.name for member in members if isinstance(member, Field)),
            tuple((member.name, str(member.pattern.source)) for member in exact),
            (*fields, *searches),
        )

    @property
    def source(self) -> object:
        return {
            member.name if isinstance(member, Field) else member.selector.text: member.pattern.source
            for member in self.members
        }

    @property
    def fields(self) -> dict[str, Node]:
        """The patterns of the members that it names by a literal key."""
        return {member.name: member.pattern for member in self.members if isinstance(member, Field)}

    def holds(self, value: object, meter: Meter) -> bool:
        if not isinstance(value, dict):
            return False
        for name, text in self._exact:
            if value.get(name) != text:
                return False
        for member in self._rest:
            if not member.holds(value, meter):
                return False
        return self.free is None or self.surplus(value, meter) is None

    def surplus(self, value: dict[str, object], meter: Meter) -> str | None:
        """The first member of `value` that a closed object must not have; None where it has none."""
        free = self.free or {}
        meter.spend(1 + (len(value) + len(self.members)) // _NAMES_PER_STEP)
        unnamed = [name for name in value if name not in self._named]
        if not unnamed:
            return None
        globs = [
            member.selector.glob
            for member in self.members
            if isinstance(member, Selection) and isinstance(member.selector, KeyGlob)
        ]
        for name in unnamed:
            if name in free and ((wanted := free[name]) is None or wanted.holds(value[name], meter)):
                continue
            for glob in globs:
                meter.spend()
                if glob.accepts(name, meter):
                    break
            else:
                return name
        return None


def _names_all(pattern: Node, value: object, meter: Meter) -> bool:
    """Whether no object in `value`, at any depth and in lists too, has members that a closed pattern does not name."""
    meter.spend()
    if isinstance(value, list):
        return all(_names_all(pattern, item, meter) for item in value)
    if not isinstance(value, dict) or not value:
        return True
    if isinstance(pattern, AnyOf):
        return any(_names_all(alternative, value, meter) for alternative in pattern.alternatives)
    if not isinstance(pattern, ObjectPattern) or pattern.surplus(value, meter) is not None:
        return False
    return all(
        _names_all(member.pattern, value.get(member.name), meter)
        if isinstance(member, Field)
        else member.names_all(value, meter)
        for member in pattern.members
    )


def judges_paths(node: Node | None) -> bool:
    """Whether a glob over paths is somewhere in a pattern."""
    if isinstance(node, (Glob, Negation)):
        return node.guard == GUARD_PATH
    if isinstance(node, AnyOf):
        return any(map(judges_paths, node.others))
    return isinstance(node, ObjectPattern) and any(judges_paths(member.pattern) for member in node.members)


def loosened(node: Node) -> Node:
    """A compiled pattern by the rules before edition 4: no glob is guarded, no object is closed."""
    if isinstance(node, Glob):
        return node.unguarded
    if isinstance(node, Negation):
        return Negation(node.inner.unguarded) if node.guard and isinstance(node.inner, Glob) else node
    if isinstance(node, AnyOf):
        others = tuple(map(loosened, node.others))
        if all(new is old for new, old in zip(others, node.others, strict=True)):
            return node
        return AnyOf.of(tuple(map(loosened, node.alternatives)))
    if isinstance(node, ObjectPattern):
        inner = [loosened(member.pattern) for member in node.members]
        if node.free is None and all(
            new is member.pattern for new, member in zip(inner, node.members, strict=True)
        ):
            return node
        return ObjectPattern.of(
            Field(member.name, new) if isinstance(member, Field) else Selection(member.selector, new)
            for member, new in zip(node.members, inner, strict=True)
        )
    return node


def compile_pattern(
    pattern: object, *, key: str = "", depth: int = 0, paths: bool = True, closed: Closed | None = None
) -> Node:
    """Compiles any pattern that may stand in a payload.

    `key` is the path to the pattern, for the error; `depth` is its depth of nesting. Without `paths` its globs are not
    guarded, as by the rules before edition 4. `closed` is the place of a pattern that is closed.

    Raises:
        ConfigError: with the key path of the part that is no pattern.

    Spec: §4.1 (Pattern Types).
    """
    if depth > MAX_DEPTH:
        raise ConfigError(f"a pattern is nested more than {MAX_DEPTH} deep; no message is", key=key)
    if isinstance(pattern, str):
        return compile_string(pattern, key=key, paths=paths)
    if isinstance(pattern, (list, tuple)):
        return _any_of(
            compile_pattern(alternative, key=f"{key}[{at}]", depth=depth + 1, paths=paths, closed=closed)
            for at, alternative in enumerate(pattern)
        )
    if isinstance(pattern, Mapping):
        beside = None if closed is None else frozenset(str(name) for name in pattern if not _selects(name))
        members = [
            _member(name, part, key=key, depth=depth, paths=paths, closed=closed, beside=beside)
            for name, part in pattern.items()
        ]
        return ObjectPattern.of(members, free=None if closed is None else _free(closed, pattern))
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
    return [
        f"{place}: '{text}' is a regular expression and matches only '{text[1:-1]}', without the "
        f"slashes; for the text itself write '/\\{text[:-1]}\\//'"
        for place, text in _expressions(pattern, key)
        if not _META.intersection(text)
    ]


def search_remarks(pattern: object, *, key: str = "") -> list[str]:
    """Sentences about expressions that other gateways read otherwise: they search an expression in a text, and here it
    has to match the whole of it."""
    return [
        f"{place}: '{text}' has to match the whole text here, and other gateways search it anywhere in "
        "it; write ^ and $ around it for the whole text everywhere, or .* where anything may stand"
        for place, text in _expressions(pattern, key)
        if _META.intersection(text) and not all(map(_is_anchored, _top_alternatives(text[1:-1])))
    ]


def _expressions(pattern: object, key: str) -> Iterator[tuple[str, str]]:
    """The regular expressions in a pattern, each with its key path."""
    if isinstance(pattern, str) and is_expression(pattern):
        yield key, pattern
    elif isinstance(pattern, (list, tuple)):
        for at, alternative in enumerate(pattern):
            yield from _expressions(alternative, f"{key}[{at}]")
    elif isinstance(pattern, Mapping):
        for name, part in pattern.items():
            yield from _expressions(part, _below(key, name))


_PART: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def _top_alternatives(expression: str) -> list[list[str]]:
    """The alternatives of an expression that stand in no group, each by its parts."""
    return _split_alternatives(_PART.findall(expression))


def _split_alternatives(parts: Iterable[str]) -> list[list[str]]:
    alternatives: list[list[str]] = [[]]
    depth = 0
    for part in parts:
        depth += (part == "(") - (part == ")")
        if part == "|" and depth == 0:
            alternatives.append([])
        else:
            alternatives[-1].append(part)
    return alternatives


def _is_anchored(parts: list[str]) -> bool:
    """Whether a search for it finds no more texts than a match of the whole: both of its ends are fixed, or free."""
    return _is_bound(parts, end=False) and _is_bound(parts, end=True)


def _is_bound(parts: list[str], *, end: bool) -> bool:
    """Whether one end of an alternative is fixed, or free; for a group, in each of its alternatives."""
    if parts[-2:] == [".", "*"] if end else parts[:2] == [".", "*"]:
        return True
    if not parts or parts[-1 if end else 0] in (("$", "\\z") if end else ("^", "\\A")):
        return bool(parts)
    inner = _group_at_end(parts) if end else _group_at_start(parts)
    return inner is not None and all(_is_bound(one, end=end) for one in _split_alternatives(inner))


def _group_at_start(parts: list[str]) -> list[str] | None:
    """The parts within the group with which an alternative begins; None where it does not, or may lack the group."""
    depth = 0
    for at, part in enumerate(parts):
        depth += (part == "(") - (part == ")")
        if depth == 0:
            is_sure = at > 0 and (at + 1 == len(parts) or parts[at + 1] not in ("*", "?", "{"))
            return _within_group(parts[1:at]) if is_sure else None
    return None


def _group_at_end(parts: list[str]) -> list[str] | None:
    """The parts within the group with which an alternative ends; None where it ends with no group."""
    depth = 0
    for at in range(len(parts) - 1, -1, -1):
        depth += (parts[at] == ")") - (parts[at] == "(")
        if depth == 0:
            return _within_group(parts[at + 1 : -1]) if at + 1 < len(parts) else None
    return None


def _within_group(parts: list[str]) -> list[str] | None:
    """The expression in a group without its `?:` or name; None for a group of another kind, such as one of flags."""
    if parts[:1] != ["?"]:
        return parts
    if parts[1:2] == [":"]:
        return parts[2:]
    return parts[parts.index(">") + 1 :] if parts[1:3] in (["P", "<"], ["<"]) and ">" in parts else None


def _word(pattern: object, *, key: str, kind: bool) -> StringNode:
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError("needs a string or a non-empty list of strings, none of them empty", key=key)
    return compile_string(pattern, key=key, kind=kind)


def _any_of(nodes: Iterator[Node]) -> AnyOf:
    flat: list[Node] = []
    for node in nodes:
        flat.extend(node.alternatives if isinstance(node, AnyOf) else (node,))
    return AnyOf.of(tuple(flat))


def _member(
    name: object,
    pattern: object,
    *,
    key: str,
    depth: int,
    paths: bool,
    closed: Closed | None,
    beside: frozenset[str] | None,
) -> Field | Selection:
    path = _below(key, name)
    if not isinstance(name, str):
        raise ConfigError(
            f"the key {name!r} is a {type(name).__name__}; a member's name is a string", key=path
        )
    if closed is not None and (name.startswith("$") or name == "**"):
        raise ConfigError(
            f"the key '{name}' selects at any depth, so it cannot tell which members a closed capability allows: name "
            "them, or leave x-closed out",
            key=path,
        )
    within = None if closed is None else closed.below(name)
    compiled = compile_pattern(pattern, key=path, depth=depth + 1, paths=paths, closed=within)
    if name.startswith("$"):
        return Selection(JSONPath.of(name, key=path), compiled)
    if name == "**":
        return Selection(Anywhere(), compiled)
    if _selects(name):
        # An expression or a negation has no meaning in a key: only the wildcards are read.
        return Selection(KeyGlob(ANY_STRING if name == "*" else Glob.of(name)), compiled, beside)
    return Field(name, compiled)


def _selects(name: object) -> bool:
    return isinstance(name, str) and (name.startswith("$") or is_glob(name))


class Closed(Enum):
    """The place of a closed pattern: a payload, its `params`, their `_meta`, or anything else below `params`."""

    PAYLOAD = "payload"
    PARAMS = "params"
    META = "_meta"
    BELOW = "below"

    def below(self, name: str) -> Closed | None:
        """The place of a member; None where it is not closed."""
        if self is Closed.PAYLOAD:
            return Closed.PARAMS if name == "params" else None
        return Closed.META if self is Closed.PARAMS and name == "_meta" else Closed.BELOW


_CLOSED_META: Final = ObjectPattern.of((), free={"progressToken": ProgressToken()})
_FREE: Final[Mapping[Closed, Mapping[str, Node | None]]] = {
    Closed.PAYLOAD: {"jsonrpc": None, "id": None},
    Closed.PARAMS: {"_meta": _CLOSED_META, "arguments": ObjectPattern.of((), free={})},
    Closed.META: _CLOSED_META.free or {},
    Closed.BELOW: {},
}


def _free(closed: Closed, pattern: Mapping[object, object]) -> Mapping[str, Node | None]:
    return {name: node for name, node in _FREE[closed].items() if name not in pattern}


def _below(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)
