"""Bounds from above what a pattern may cost on a message of some size, without a message.

A message of `size` bytes holds at most `size / 2` values, `size` characters of text, and objects 64 deep. Both bounds
are pessimistic: the sum over all capabilities of a set shows whether every message of that size can be judged.

Spec: §4.2.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from mew_lab.protocol.jsonpath import JSONPath, filters, rfc9535, segments, selectors
from mew_lab.protocol.node import Budget, Node
from mew_lab.protocol.pattern import (
    MAX_DEPTH,
    AnyOf,
    Anywhere,
    Field,
    Glob,
    KeyGlob,
    Negation,
    ObjectPattern,
    Regex,
)
from mew_lab.protocol.strings import is_expression

__all__ = ["REFERENCE", "compile_cost", "steps"]

REFERENCE: Final = 1024
"""Bytes of a message that every set of capabilities must be able to judge, with any content."""
MOST: Final = 1 << 40
"""A bound that is larger than this is not followed further."""
_NUMBER: Final = re.compile(r"\{(?:[0-9]+,)?([0-9]+)")
_CLASS_INSTRUCTIONS: Final = 1_300  # of a class of Unicode, such as \pL
_MOST_REPEATED: Final = 1_000  # by google-re2, also when repetitions are nested
_PATH_STEPS: Final = 10  # a character: the library's parser is slow
_NODE_STEPS: Final = 10


class Candidates(NamedTuple):
    """The values that a pattern is matched against, by their number.

    No part of the message is contained in more than `often` of them at the same depth.
    """

    values: int
    often: int = 1


ONE: Final = Candidates(1)
"""The value itself."""


def steps(pattern: Node | None, size: int = REFERENCE, *, seen: Candidates = ONE) -> int:
    """The most steps that `pattern` costs on a message of `size` bytes; None costs nothing."""
    if pattern is None or seen.values * seen.often > MOST:
        return 0 if pattern is None else MOST
    characters = size * seen.often
    match pattern:
        case Glob():
            each = Budget.AFFIX if pattern.is_affix else Budget.GLOB
            guarded = characters // Budget.GUARDED if pattern.guard else 0
            spelled = pattern.spelling_cost(seen.values, characters, Budget) if pattern.spells_unsafe else 0
            return seen.values + characters // each + guarded + spelled
        case Regex():
            return seen.values + Budget.expression(characters, seen.values, pattern.program_size)
        case Negation():
            guarded = characters // Budget.GUARDED if pattern.guard else 0
            return guarded + steps(pattern.inner, size, seen=seen)
        case AnyOf():
            return sum(seen.values + steps(alternative, size, seen=seen) for alternative in pattern.others)
        case ObjectPattern():
            named = 0 if pattern.free is None else _naming(pattern, size, seen)
            return named + sum(_member(member, size, seen) for member in pattern.members)
    return 0


def _naming(pattern: Node, size: int, seen: Candidates) -> int:
    """The cost to find out whether closed objects, anywhere below `pattern` too, have a member that it does not name.

    A part of a pattern looks at each member of a message at most once by itself, and once below a key that is a glob.
    """
    names = _children(size, seen)
    cost = 4 * seen.values + names.values + 16
    if isinstance(pattern, AnyOf):
        return cost + sum(_naming(alternative, size, seen) for alternative in pattern.others)
    if isinstance(pattern, ObjectPattern):
        cost += len(pattern.members) * seen.values
        for member in pattern.members:
            if isinstance(member, Field):
                continue
            if isinstance(member.selector, KeyGlob):
                cost += 3 * (names.values + steps(member.selector.glob, size, seen=names))
            cost += 3 * names.values + _naming(member.pattern, size, names)
        return min(MOST, cost)
    return cost


def _member(member: Any, size: int, seen: Candidates) -> int:
    if isinstance(member, Field):
        return steps(member.pattern, size, seen=seen)
    parts = member.pattern.alternatives if isinstance(member.pattern, AnyOf) else (member.pattern,)
    searched, selected = _selected(member.selector, size, seen)
    return min(MOST, sum(searched + steps(part, size, seen=selected) for part in parts))


def _selected(selector: KeyGlob | Anywhere | JSONPath, size: int, seen: Candidates) -> tuple[int, Candidates]:
    """The cost of a search, and the values that it selects."""
    if isinstance(selector, Anywhere):
        candidates = _below(size, seen)
        return candidates.values, candidates
    if isinstance(selector, KeyGlob):
        candidates = _children(size, seen)
        return candidates.values + steps(selector.glob, size, seen=candidates), candidates
    return _walk(selector, selector.query, size, seen)


def _children(size: int, seen: Candidates) -> Candidates:
    return Candidates(seen.often * (size // 2), seen.often)


def _below(size: int, seen: Candidates) -> Candidates:
    """Everything below values that may lie in each other, as deep as a message may be."""
    often = seen.often * (1 if seen.values == 1 else MAX_DEPTH)
    return Candidates(often * (size // 2 + 1), often)


def _walk(
    path: JSONPath, query: rfc9535.JSONPathQuery, size: int, seen: Candidates
) -> tuple[int, Candidates]:
    cost = 0
    for segment in query.segments:
        if isinstance(segment, segments.JSONPathRecursiveDescentSegment):
            seen = Candidates(seen.values + _below(size, seen).values, _below(size, seen).often)
            cost += seen.values
        values = 0
        for selector in segment.selectors:
            cost += seen.values
            if isinstance(selector, selectors.NameSelector | selectors.IndexSelector):
                values += seen.values
                continue
            children = _children(size, seen).values
            cost += children
            values += children
            if isinstance(selector, selectors.FilterSelector):
                cost += children * _test(path, selector.expression, size)
        seen = Candidates(values, seen.often * len(segment.selectors))
    return cost, seen


def _test(path: JSONPath, part: Any, size: int) -> int:
    """The cost of one test of a filter, or of one side of a comparison, for one value."""
    match part:
        case filters.FilterExpressionLiteral():
            return 1
        case filters.FilterQuery():
            return 1 + _walk(path, part.query, size, Candidates(1))[0]
        case filters.FilterExpression():
            return 1 + _test(path, part.expression, size)
        case filters.PrefixExpression():
            return 1 + _test(path, part.right, size)
        case filters.LogicalExpression():
            return 1 + _test(path, part.left, size) + _test(path, part.right, size)
        case filters.ComparisonExpression():
            sides = (part.left, part.right)
            plain = any(isinstance(side, filters.FilterExpressionLiteral) for side in sides)
            return 2 + sum(_test(path, side, size) for side in sides) + (0 if plain else size)
    cost = 2 + sum(_test(path, argument, size) for argument in part.args)  # what is left is a function
    if part.name in ("match", "search"):
        cost += steps(path.expression(part), size)
    return cost


def compile_cost(pattern: Any) -> int:
    """The steps that are charged for compiling a pattern, estimated from its JSON alone."""
    if isinstance(pattern, str):
        return _NODE_STEPS + len(pattern) // 4 + (_instructions(pattern) if is_expression(pattern) else 0)
    if isinstance(pattern, dict):
        return _NODE_STEPS + sum(_key_cost(name) + compile_cost(part) for name, part in pattern.items())
    if isinstance(pattern, list):
        return _NODE_STEPS + sum(map(compile_cost, pattern))
    return _NODE_STEPS


def _key_cost(name: str) -> int:
    if not name.startswith("$"):
        return len(name) // 4
    called = _instructions(name) if "match" in name or "search" in name else 0
    return len(name) * _PATH_STEPS + called


def _instructions(expression: str) -> int:
    """The approximate number of instructions of an expression of google-re2, before it is compiled."""
    numbers = [int(digits) for digits in _NUMBER.findall(expression)[:64] if len(digits) < 5]
    repeated = 1
    for number in numbers:
        repeated = min(
            _MOST_REPEATED, max(1, repeated * number if "){" in expression else max(repeated, number))
        )
    classes = expression.count("\\p") + expression.count("\\P") + expression.count("[[:")
    return min(len(expression), 512) * repeated + classes * _CLASS_INSTRUCTIONS * repeated
