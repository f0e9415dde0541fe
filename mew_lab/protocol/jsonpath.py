"""Selects values by JSONPath (RFC 9535) and counts every step.

The library parses the path and this module evaluates it, because the evaluation of the library is bounded neither in
nodes nor, with its expressions, in time. `match` and `search` run on google-re2 and need a literal expression in the
path, because the sender would choose an expression from a message.

Spec: §4.2 (What the Gateway Does).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jsonpath_rfc9535 as rfc9535
from jsonpath_rfc9535 import filter_expressions as filters
from jsonpath_rfc9535 import segments, selectors

from mew_lab.errors import ConfigError
from mew_lab.protocol.coerce import is_number
from mew_lab.protocol.node import Meter
from mew_lab.protocol.strings import Regex

__all__ = ["JSONPath", "children", "descendants", "equal", "filters", "rfc9535", "segments", "selectors"]

MAX_PATH: Final = (
    256  # characters, as of an expression; the parser of the library is slow, and peers write paths
)
_NOTHING: Final = object()
"""What a query that selects no value stands for in a comparison (RFC 9535, 2.3.5.2.2)."""
_DOT: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\.", re.DOTALL)
_ORDER: Final[Mapping[str, Callable[[Any, Any, Meter], bool]]] = {
    "==": lambda a, b, meter: equal(a, b, meter),
    "!=": lambda a, b, meter: not equal(a, b, meter),
    "<": lambda a, b, meter: _less(a, b, meter),
    ">": lambda a, b, meter: _less(b, a, meter),
    "<=": lambda a, b, meter: _less(a, b, meter) or equal(a, b, meter),
    ">=": lambda a, b, meter: _less(b, a, meter) or equal(a, b, meter),
}


@dataclass(frozen=True, slots=True)
class JSONPath:
    """A compiled path. `$` is the value that it is evaluated on."""

    text: str
    _query: rfc9535.JSONPathQuery = field(repr=False, compare=False)
    _expressions: Mapping[str, Regex] = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str, *, key: str) -> JSONPath:
        """Compiles `text`.

        Raises:
            ConfigError: naming `key`.
        """
        if len(text) > MAX_PATH:
            raise ConfigError(
                f"a JSONPath of {len(text)} characters; at most {MAX_PATH} are allowed", key=key
            )
        try:
            query = rfc9535.compile(text)
        except (
            Exception
        ) as fault:  # the parser raises more than its own errors on what it does not understand
            raise ConfigError(
                f"'{text}' is no JSONPath ({type(fault).__name__}: {fault}); a key that begins with $ is "
                "read as one, so a member of that very name is written $['$name']",
                key=key,
            ) from None
        return cls(text, query, _expressions(query, key=key))

    @property
    def query(self) -> rfc9535.JSONPathQuery:
        """The path as the library parsed it."""
        return self._query

    def expression(self, call: Any) -> Regex:
        """The compiled expression of a `match` or `search` of this path."""
        return self._expressions[_expression_name(call)]

    def select(self, value: object, meter: Meter) -> Iterator[object]:
        """The selected values, one by one, repeated where the path selects them more than once."""
        return self._walk(self._query, value, value, meter)

    def _walk(
        self, query: rfc9535.JSONPathQuery, start: object, root: object, meter: Meter
    ) -> Iterator[object]:
        values: Iterator[object] = iter((start,))
        for segment in query.segments:
            values = self._step(segment, values, root, meter)
        return values

    def _step(
        self, segment: segments.JSONPathSegment, values: Iterator[object], root: object, meter: Meter
    ) -> Iterator[object]:
        deep = isinstance(segment, segments.JSONPathRecursiveDescentSegment)
        for value in values:
            for node in descendants(value, meter, itself=True) if deep else (value,):
                for selector in segment.selectors:
                    meter.spend()
                    yield from self._pick(selector, node, root, meter)

    def _pick(
        self, selector: selectors.JSONPathSelector, value: object, root: object, meter: Meter
    ) -> Iterator[object]:
        if isinstance(selector, selectors.NameSelector):
            if isinstance(value, dict) and selector.name in value:
                yield value[selector.name]
        elif isinstance(selector, selectors.IndexSelector):
            if isinstance(value, list) and -len(value) <= selector.index < len(value):
                yield value[selector.index]
        elif isinstance(selector, selectors.SliceSelector):
            if isinstance(value, list) and selector.slice.step != 0:
                for index in range(*selector.slice.indices(len(value))):
                    meter.spend()
                    yield value[index]
        else:
            # What is left selects among all children: the wildcard, or a filter with its test.
            test = selector.expression if isinstance(selector, selectors.FilterSelector) else None
            for child in children(value):
                meter.spend()
                if test is None or self._true(test, child, root, meter):
                    yield child

    def _true(self, test: Any, current: object, root: object, meter: Meter) -> bool:
        """Whether a filter's test holds for `current`."""
        meter.spend()
        if isinstance(test, filters.FilterExpression):
            return self._true(test.expression, current, root, meter)
        if isinstance(test, filters.PrefixExpression):
            return not self._true(test.right, current, root, meter)
        if isinstance(test, filters.LogicalExpression):
            left = self._true(test.left, current, root, meter)
            return left if left == (test.operator == "||") else self._true(test.right, current, root, meter)
        if isinstance(test, filters.ComparisonExpression):
            left_value = self._value(test.left, current, root, meter)
            return _ORDER[test.operator](left_value, self._value(test.right, current, root, meter), meter)
        if isinstance(test, filters.FilterQuery):
            return next(self._ask(test, current, root, meter), _NOTHING) is not _NOTHING
        text = self._value(test.args[0], current, root, meter)
        return isinstance(text, str) and self._expressions[_expression_name(test)].accepts(text, meter)

    def _value(self, term: Any, current: object, root: object, meter: Meter) -> object:
        """The value of one side of a comparison, or of an argument."""
        meter.spend()
        if isinstance(term, filters.FilterExpressionLiteral):
            return term.value
        if isinstance(term, filters.FilterQuery):
            return next(self._ask(term, current, root, meter), _NOTHING)
        if term.name == "length":
            sized = self._value(term.args[0], current, root, meter)
            return len(sized) if isinstance(sized, (str, list, dict)) else _NOTHING
        values = list(self._ask(term.args[0], current, root, meter))
        if term.name == "count":
            return len(values)
        return values[0] if len(values) == 1 else _NOTHING

    def _ask(
        self, query: filters.FilterQuery, current: object, root: object, meter: Meter
    ) -> Iterator[object]:
        start = current if isinstance(query, filters.RelativeFilterQuery) else root
        return self._walk(query.query, start, root, meter)


def children(value: object) -> Iterator[object]:
    """The values of an object's members, the elements of an array, nothing of anything else."""
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value) if isinstance(value, list) else iter(())


def descendants(value: object, meter: Meter, *, itself: bool = False) -> Iterator[object]:
    """Every value below `value`, parents before children; with `itself`, `value` first. A step a value."""
    if itself:
        meter.spend()
        yield value
    # A stack of its own: a value may be nested deeper than the interpreter's.
    waiting = [children(value)]
    while waiting:
        for child in waiting[-1]:
            meter.spend()
            yield child
            waiting.append(children(child))
            break
        else:
            waiting.pop()


def equal(left: object, right: object, meter: Meter) -> bool:
    """Whether two JSON values are the same: numbers by value, never a boolean; objects in any
    order."""
    pairs = [(left, right)]
    while pairs:
        meter.spend()
        first, second = pairs.pop()
        if isinstance(first, dict) and isinstance(second, dict):
            meter.spend(len(first) // meter.MEMBERS)
            if first.keys() != second.keys():
                return False
            pairs.extend((first[name], second[name]) for name in first)
        elif isinstance(first, list) and isinstance(second, list):
            if len(first) != len(second):
                return False
            pairs.extend(zip(first, second, strict=True))
        elif isinstance(first, bool) != isinstance(second, bool) or first != second:
            return False
        elif isinstance(first, str):
            meter.spend(len(first) // meter.COMPARED)
    return True


def _less(left: object, right: object, meter: Meter) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        meter.spend(min(len(left), len(right)) // meter.COMPARED)
        return left < right
    return is_number(left) and is_number(right) and left < right


def _expression_name(call: Any) -> str:
    """The expression of a call for google-re2: a dot is no line's end (RFC 9485), `search` finds anywhere."""
    written = _DOT.sub(lambda part: r"[^\n\r]" if part[0] == "." else part[0], call.args[1].value)
    return f"(?s:.*)(?:{written})(?s:.*)" if call.name == "search" else written


def _expressions(query: rfc9535.JSONPathQuery, *, key: str) -> dict[str, Regex]:
    """Compiles the expressions of `match` and `search` anywhere in the path."""
    expressions: dict[str, Regex] = {}
    waiting: list[Any] = [selector for segment in query.segments for selector in segment.selectors]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (selectors.FilterSelector, filters.FilterExpression)):
            waiting.append(part.expression)
        elif isinstance(part, filters.PrefixExpression):
            waiting.append(part.right)
        elif isinstance(part, (filters.LogicalExpression, filters.ComparisonExpression)):
            waiting += (part.left, part.right)
        elif isinstance(part, filters.FilterQuery):
            waiting += (selector for segment in part.query.segments for selector in segment.selectors)
        elif isinstance(part, filters.FunctionExtension):
            waiting += part.args
            if part.name in ("match", "search"):
                if not isinstance(part.args[1], filters.StringLiteral):
                    raise ConfigError(
                        f"{part.name}() needs its expression written out as a string: one taken from the "
                        "message would be the sender's",
                        key=key,
                    )
                expressions[_expression_name(part)] = Regex.of(_expression_name(part), key=key)
    return expressions
