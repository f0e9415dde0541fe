"""Compiles conditions on columns to a WHERE clause of DuckDB, with parameters: no text of the user stands in the SQL.

The clause reads the columns of the table `entries`. `fields` states the rules for missing values. Of a text search it
has the part on columns; what reads messages is judged by the predicate (indexed.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.filter.fields import SEARCHED, FilterField
from mew_lab.log.filter.patterns import literal_of
from mew_lab.log.filter.tree import (
    Comparison,
    Conjunction,
    Disjunction,
    FilterTree,
    Inversion,
    Presence,
    TextSearch,
    Value,
)

__all__ = ["SqlFilter", "compile_sql"]

_PARAMETER = re.compile(r"\$[0-9]+")
_TRUE, _FALSE = "true", "false"
_SQL = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class SqlFilter(NamedTuple):
    """A filter in SQL: a condition on a row of `entries`, with `?` for each of the parameters. NULL means false."""

    where: str
    parameters: list[Any]


def compile_sql(tree: FilterTree) -> SqlFilter:
    """The clause of a filter that reads columns alone."""
    compiler = _Compiler()
    named = compiler.compile(tree)
    parameters: list[Any] = []

    def take(match: re.Match[str]) -> str:
        parameters.append(compiler.parameters[match[0]])
        return "?"

    return SqlFilter(_PARAMETER.sub(take, named), parameters)


class _Compiler:
    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}
        self._inverted = 0  # inversions around what is compiled

    def compile(self, tree: FilterTree) -> str:
        if isinstance(tree, Conjunction):
            return self._join("AND", tree.parts, _TRUE)
        if isinstance(tree, Disjunction):
            return self._join("OR", tree.parts, _FALSE)
        if isinstance(tree, Inversion):
            # The index of DuckDB skips blocks of rows by a bare comparison alone, so NULL is made false only here.
            self._inverted += 1
            part = self.compile(tree.part)
            self._inverted -= 1
            return f"(NOT {part})"
        if isinstance(tree, TextSearch):
            return self._search(tree.pattern)
        if isinstance(tree, Presence):
            return self._presence(tree.reference.field)
        return self._comparison(tree)

    def _join(self, word: str, parts: Sequence[FilterTree], empty: str) -> str:
        return f"({f' {word} '.join(map(self.compile, parts))})" if parts else empty

    def _parameter(self, value: Any) -> str:
        name = f"${len(self.parameters)}"
        self.parameters[name] = value
        return name

    def _search(self, pattern: str) -> str:
        columns = [
            f"coalesce(array_to_string(\"{name}\", ', '), '')"
            if name == "to"
            else f"coalesce(\"{name}\", '')"
            for name in SEARCHED
        ]
        return f"regexp_matches(concat_ws(chr(10), {', '.join(columns)}), {self._parameter(pattern)})"

    def _presence(self, field: FilterField) -> str:
        if field.type in ("text", "severity"):
            return f"({self._column(field)} <> '')"
        if field.type == "list":
            return f"(len({self._column(field)}) > 0)"
        return f"({field.column} IS NOT NULL)"

    def _column(self, field: FilterField) -> str:
        """The column of a text or a list, without NULL."""
        if field.type == "list":
            return f"coalesce({field.column}, CAST([] AS VARCHAR[]))"
        return f"coalesce({field.column}, '')"

    # --- comparisons ---

    def _comparison(self, comparison: Comparison) -> str:
        field, op, value = comparison.reference.field, comparison.op, comparison.value
        if field.type == "severity":
            ranks = [name for rank, name in enumerate(SEVERITIES) if _holds(rank, op, value)]
            names = ", ".join(map(self._parameter, ranks))
            return f"({self._column(field)} IN ({names}))" if ranks else _FALSE
        if field.type == "text":
            return self._compare_text(self._column(field), op, value)
        if field.type == "list":
            column = self._column(field)
            if op == "contains":
                return f"regexp_matches(array_to_string({column}, ', '), {self._parameter(value)})"
            return _of_elements(
                column, self._compare_text("element", op, value), comparison.quantifier == "all"
            )
        if field.type == "time":
            return self._known(f"{field.column} {_SQL[op]} {self._parameter(value)}")
        assert isinstance(value, int | float)
        bound = _integer_bound(op, value) if field.type == "integer" else _double_bound(op, value)
        return self._known(self._bounded(field.column, bound))

    def _known(self, condition: str) -> str:
        """The condition, false in place of NULL where an inversion would make it true."""
        return f"coalesce({condition}, false)" if self._inverted else f"({condition})"

    def _compare_text(self, column: str, op: str, value: Value) -> str:
        if op == "matches" and (literal := literal_of(str(value))) is not None:
            text = self._parameter(literal[0])
            return f"starts_with({column}, {text})" if literal[1] else f"({column} = {text})"
        if op in ("matches", "contains"):
            return f"regexp_matches({column}, {self._parameter(value)})"
        if op == "!matches":
            return f"(NOT regexp_matches({column}, {self._parameter(value)}))"
        if op == "in":
            assert isinstance(value, tuple)
            return f"({column} IN ({', '.join(map(self._parameter, value))}))"
        return f"({column} {_SQL[op]} {self._parameter(value)})"

    def _bounded(self, number: str, bound: _Bound | bool) -> str:
        if isinstance(bound, bool):
            return f"({number} IS NOT NULL)" if bound else _FALSE
        return f"({number} {_SQL[bound.op]} {self._parameter(bound.value)})"


def _of_elements(elements: str, test: str, of_all: bool) -> str:
    if of_all:
        others = f"list_filter({elements}, lambda element: NOT {test})"
        return f"(len({elements}) > 0 AND len({others}) = 0)"
    return f"(len(list_filter({elements}, lambda element: {test})) > 0)"


def _holds(rank: int, op: str, value: Value) -> bool:
    assert isinstance(value, int)
    return {
        "==": rank == value,
        "<": rank < value,
        "<=": rank <= value,
        ">": rank > value,
        ">=": rank >= value,
    }[op]


# --- exact comparisons of numbers ---
# DuckDB compares an integer with a double as doubles. So each comparison is restated here for integers alone, and for
# doubles alone, with a bound of the same type.


class _Bound(NamedTuple):
    op: str
    value: int | float


def _integer_bound(op: str, value: int | float) -> _Bound | bool:
    """The comparison of an integer with a number, restated with an integer; True or False where it always holds so."""
    if isinstance(value, float) and not value.is_integer():
        if op in ("==", "!="):
            return op == "!="
        low = math.floor(value)
        return _Bound("<=", low) if op in ("<", "<=") else _Bound(">=", low + 1)
    bound = int(value)
    if abs(bound) >= 2**100:  # beyond every integer of JSON here, and every column
        return {"==": False, "!=": True, "<": bound > 0, "<=": bound > 0, ">": bound < 0, ">=": bound < 0}[op]
    return _Bound(op, bound)


def _double_bound(op: str, value: int | float) -> _Bound | bool:
    """The comparison of a double with a number, restated with a double."""
    nearest = float(value)
    if nearest == value:
        return _Bound(op, nearest)
    if op in ("==", "!="):
        return op == "!="
    if op in ("<", "<="):
        return _Bound("<" if nearest > value else "<=", nearest)
    return _Bound(">" if nearest < value else ">=", nearest)
