"""Compiles a filter to a predicate of an entry: closures over the values, with nothing left to look up.

`fields` states the rules for missing values; sql.py implements the same rules, and a property test holds both equal.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.fields import FIELDS, PAYLOAD, SEARCHED, Facts, FilterField
from mew_lab.log.filter.patterns import compile_search, from_word
from mew_lab.log.filter.tree import (
    Comparison,
    Conjunction,
    Disjunction,
    FilterTree,
    Inversion,
    Presence,
    Reference,
    TextSearch,
    Value,
    references,
)

__all__ = ["ARRAY_INDEX", "FilterPredicate", "compile_predicate", "needs_facts"]

FilterPredicate = Callable[[RecordedEntry, Facts], bool]
_Test = Callable[[Any], bool]

_MISSING = object()
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_RANKS = {severity: rank for rank, severity in enumerate(SEVERITIES)}


def needs_facts(tree: FilterTree) -> bool:
    """Whether a filter reads fields that follow from other messages."""
    return any(reference.field.needs_facts for reference in references(tree))


def compile_predicate(tree: FilterTree) -> FilterPredicate:
    """A function that states whether an entry with these facts passes a filter; it never raises an exception."""
    if isinstance(tree, Conjunction):
        return _all_of([compile_predicate(part) for part in tree.parts])
    if isinstance(tree, Disjunction):
        return _any_of([compile_predicate(part) for part in tree.parts])
    if isinstance(tree, Inversion):
        part = compile_predicate(tree.part)
        return lambda entry, facts: not part(entry, facts)
    if isinstance(tree, TextSearch):
        return _search(tree.pattern)
    if isinstance(tree, Presence):
        return _on_value(tree.reference, _is_present(tree.reference.field))
    return _compare(tree)


def _any_of(tests: list[FilterPredicate]) -> FilterPredicate:
    def passes(entry: RecordedEntry, facts: Facts) -> bool:
        for test in tests:  # noqa: SIM110 - a generator would cost more than the tests
            if test(entry, facts):
                return True
        return False

    return passes


def _all_of(tests: list[FilterPredicate]) -> FilterPredicate:
    def passes(entry: RecordedEntry, facts: Facts) -> bool:
        for test in tests:  # noqa: SIM110
            if not test(entry, facts):
                return False
        return True

    return passes


def _search(pattern: str) -> FilterPredicate:
    matches = compile_search(pattern)
    getters = [FIELDS[name].value for name in SEARCHED]

    def passes(entry: RecordedEntry, facts: Facts) -> bool:
        if matches(entry.raw):
            return True
        texts = [get(entry, facts) for get in getters]
        return matches("\n".join([text if isinstance(text, str) else ", ".join(text) for text in texts]))

    return passes


def _on_value(reference: Reference, test: _Test) -> FilterPredicate:
    """The predicate that applies a test to the value of a field."""
    if reference.field is PAYLOAD:
        path = tuple((step, int(step) if ARRAY_INDEX.fullmatch(step) else -1) for step in reference.path)

        def passes_at_path(entry: RecordedEntry, _: Facts) -> bool:
            value = entry.members.get("payload", _MISSING)
            if not isinstance(value, dict):
                return test(_MISSING)
            for step, index in path:
                if isinstance(value, dict):
                    value = value.get(step, _MISSING)
                elif isinstance(value, list) and 0 <= index < len(value):
                    value = value[index]
                else:
                    return test(_MISSING)
            return test(value)

        return passes_at_path
    if (of_entry := reference.field.of_entry) is not None:
        return lambda entry, _: test(of_entry(entry))
    get = reference.field.value
    return lambda entry, facts: test(get(entry, facts))


def _is_present(field: FilterField) -> _Test:
    if field.type == "json":
        return lambda value: value is not _MISSING
    if field.type in ("text", "list", "severity"):
        return bool
    return lambda value: value is not None


def _compare(comparison: Comparison) -> FilterPredicate:
    type, op, value = comparison.reference.field.type, comparison.op, comparison.value
    if type == "json":
        test = _any_or_all_json(comparison, _json_test(op, value))
    elif type == "severity":
        rank = _COMPARE[op]
        ranks = {name for name, at in _RANKS.items() if rank(at, value)}
        test = ranks.__contains__
    elif type == "list" and op == "contains":
        matches = compile_search(str(value))
        test = lambda texts: matches(", ".join(texts))  # noqa: E731
    elif type == "list":
        test = _any_or_all(_text_test(op, value), comparison.quantifier == "all")
    elif type == "text":
        test = _text_test(op, value)
    else:
        test = _number_test(op, value)
    return _on_value(comparison.reference, test)


def _text_test(op: str, value: Value) -> _Test:
    if op in ("matches", "contains"):
        return compile_search(str(value))
    if op == "!matches":
        matches = compile_search(str(value))
        return lambda text: not matches(text)
    if op == "in":
        assert isinstance(value, tuple)
        return frozenset(value).__contains__
    compare = _COMPARE[op]
    return lambda text: compare(text, value)


def _number_test(op: str, value: Value) -> _Test:
    compare = _COMPARE[op]
    return lambda number: number is not None and compare(number, value)


def _any_or_all(test: _Test, of_all: bool) -> _Test:
    if of_all:
        return lambda values: bool(values) and all(test(value) for value in values)
    return lambda values: any(test(value) for value in values)


# --- values of JSON ---


def _any_or_all_json(comparison: Comparison, test: _Test) -> _Test:
    many = _any_or_all(test, comparison.quantifier == "all")
    if comparison.op == "has":
        return test

    def passes(value: Any) -> bool:
        if type(value) is list:
            return many(value)
        return value is not _MISSING and test(value)

    return passes


def _json_test(op: str, value: Value) -> _Test:
    if op == "!matches":
        matches = _json_test("matches", value)
        return lambda other: not matches(other)
    if op == "!=":
        equal = _json_test("==", value)
        return lambda other: not equal(other)
    if op == "in":
        assert isinstance(value, tuple)
        tests = [_json_test("==", each) for each in value]
        return lambda other: any(test(other) for test in tests)
    if op == "matches":
        search = compile_search(str(value))
        return lambda other: type(other) is str and search(other)
    if op == "has":
        return _json_has(value)
    if value is None or isinstance(value, bool):
        return lambda other: other is value
    compare = _COMPARE[op]
    if isinstance(value, str):
        return lambda other: type(other) is str and compare(other, value)
    return lambda other: (type(other) is int or type(other) is float) and compare(other, value)


def _json_has(value: Value) -> _Test:
    equal = _json_test("==", value)
    contains = compile_search(from_word(value)) if isinstance(value, str) else None

    def has(other: Any) -> bool:
        if type(other) is list:
            return any(equal(element) for element in other)
        if contains is None:
            return False
        return value in other if type(other) is dict else type(other) is str and contains(other)

    return has
