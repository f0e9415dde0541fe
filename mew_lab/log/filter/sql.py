"""Compiles a filter to a WHERE clause of DuckDB, with parameters: no text of the user stands in the SQL.

The clause reads the columns of the table `entries`, the JSON of the message and its exact text; the caller names the
expressions of the last two. `fields` states the rules for missing values. DuckDB reads JSON more leniently than the
log does: of duplicate keys it takes the first one where the log takes the last, and it accepts `1e400` and NaN. Only
texts that the gateway did not accept can hold these, so for them the predicate decides: `recheck` selects them.

A value of JSON is extracted once for each comparison: the comparison is the function of a list that holds the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.filter.fields import SEARCHED, FilterField
from mew_lab.log.filter.patterns import from_word, literal_of
from mew_lab.log.filter.predicate import ARRAY_INDEX
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
)

__all__ = ["SqlFilter", "compile_sql"]

_PARAMETER = re.compile(r"\$[0-9]+")
_TRUE, _FALSE = "true", "false"
_SQL = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class SqlFilter(NamedTuple):
    """A filter in SQL.

    Attributes:
        where: The condition on a row of `entries`, with `?` for each parameter. NULL means false.
        parameters: The parameters in their order.
        columns: The names of the columns that it reads, besides `verdict`.
        reads_text: Whether the filter reads the message, so that the rows of `recheck` need the predicate.
        reads_exact_text: Whether it reads the exact text, not only its JSON.
    """

    where: str
    parameters: list[Any]
    columns: frozenset[str]
    reads_text: bool
    reads_exact_text: bool

    @property
    def recheck(self) -> str:
        """The condition of the rows whose messages only the predicate can judge; `false` where there are none."""
        return "coalesce(\"verdict\", '') NOT IN ('accepted', 'sent')" if self.reads_text else _FALSE


def compile_sql(tree: FilterTree, *, message: str = '"json"', text: str = '"raw"') -> SqlFilter:
    """The clause of a filter.

    Args:
        message: The SQL expression of the message as JSON; NULL where there is none or where it is not valid.
        text: The SQL expression of the exact text of the message; NULL where there is none.
    """
    compiler = _Compiler(message, text)
    named = compiler.compile(tree)
    parameters: list[Any] = []

    def take(match: re.Match[str]) -> str:
        parameters.append(compiler.parameters[match[0]])
        return "?"

    where = _PARAMETER.sub(take, named)
    return SqlFilter(
        where, parameters, frozenset(compiler.columns), compiler.reads_text, compiler.reads_exact_text
    )


class _Compiler:
    def __init__(self, message: str, text: str) -> None:
        self._message = message
        self._text = text
        self.parameters: dict[str, Any] = {}
        self.columns: set[str] = set()
        self.reads_text = False
        self.reads_exact_text = False
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
            return self._presence(tree.reference)
        return self._comparison(tree)

    def _join(self, word: str, parts: Sequence[FilterTree], empty: str) -> str:
        return f"({f' {word} '.join(map(self.compile, parts))})" if parts else empty

    def _parameter(self, value: Any) -> str:
        name = f"${len(self.parameters)}"
        self.parameters[name] = value
        return name

    def _search(self, pattern: str) -> str:
        self.reads_text = self.reads_exact_text = True
        self.columns.update(SEARCHED)
        expression = self._parameter(pattern)
        columns = [
            f"coalesce(array_to_string(\"{name}\", ', '), '')"
            if name == "to"
            else f"coalesce(\"{name}\", '')"
            for name in SEARCHED
        ]
        return (
            f"(coalesce(regexp_matches({self._text}, {expression}), false) "
            f"OR regexp_matches(concat_ws(chr(10), {', '.join(columns)}), {expression}))"
        )

    def _presence(self, reference: Reference) -> str:
        field = reference.field
        if field.type == "json":
            return f"({self._json(reference)} IS NOT NULL)"
        if field.type in ("text", "severity"):
            return f"({self._column(field)} <> '')"
        if field.type == "list":
            return f"(len({self._column(field)}) > 0)"
        self.columns.add(field.name)
        return f"({field.column} IS NOT NULL)"

    def _column(self, field: FilterField) -> str:
        """The column of a text or a list, without NULL."""
        if field.name == "text":
            self.reads_text = self.reads_exact_text = True
            return f"coalesce({self._text}, '')"
        self.columns.add(field.name)
        if field.type == "list":
            return f"coalesce({field.column}, CAST([] AS VARCHAR[]))"
        return f"coalesce({field.column}, '')"

    def _json(self, reference: Reference) -> str:
        """The expression of the value at a path of the payload; SQL NULL where it is missing."""
        self.reads_text = True
        path = reference.path
        value = f"json_extract({self._message}, {self._parameter(_pointer(('payload', *path)))})"
        if path and not ARRAY_INDEX.fullmatch(path[0]):
            return value
        # A payload that is an array has no members.
        payload = f"json_type(json_extract({self._message}, '/payload'))"
        return f"CASE WHEN {payload} = 'OBJECT' THEN {value} END"

    # --- comparisons ---

    def _comparison(self, comparison: Comparison) -> str:
        field, op, value = comparison.reference.field, comparison.op, comparison.value
        if field.type == "json":
            return self._compare_json(comparison)
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
        self.columns.add(field.name)
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

    def _bounded(self, number: str, bound: _Bound | bool, cast: str = "") -> str:
        if isinstance(bound, bool):
            return f"({number} IS NOT NULL)" if bound else _FALSE
        return f"({cast or number} {_SQL[bound.op]} {self._parameter(bound.value)})"

    def _compare_json(self, comparison: Comparison) -> str:
        op, value, name = comparison.op, comparison.value, "value"
        extracted = self._json(comparison.reference)
        test = self._json_has(name, value) if op == "has" else self._json_comparison(name, comparison)
        return f"list_transform([{extracted}], lambda {name}: {test})[1]"

    def _json_comparison(self, name: str, comparison: Comparison) -> str:
        op, value = comparison.op, comparison.value
        one = self._json_test(name, op, value)
        elements = _of_elements(
            f"json_extract({name}, '$[*]')",
            self._json_test("element", op, value),
            comparison.quantifier == "all",
        )
        return f"(CASE WHEN {name} IS NULL THEN false WHEN json_type({name}) = 'ARRAY' THEN {elements} ELSE {one} END)"

    def _json_has(self, name: str, value: Value) -> str:
        elements = _of_elements(
            f"json_extract({name}, '$[*]')", self._json_test("element", "==", value), of_all=False
        )
        others = ""
        if isinstance(value, str):
            pointer = self._parameter(_pointer((value,)))
            word = self._parameter(from_word(value))
            others = (
                f" WHEN 'OBJECT' THEN json_extract({name}, {pointer}) IS NOT NULL"
                f" WHEN 'VARCHAR' THEN regexp_matches(json_extract_string({name}, '$'), {word})"
            )
        return f"(CASE coalesce(json_type({name}), '') WHEN 'ARRAY' THEN {elements}{others} ELSE false END)"

    def _json_test(self, json: str, op: str, value: Value) -> str:
        """The condition on one value of JSON, which is not missing."""
        if op in ("!=", "!matches"):
            return f"(NOT {self._json_test(json, op.replace('!=', '==').lstrip('!'), value)})"
        if op == "in":
            assert isinstance(value, tuple)
            return f"({' OR '.join([self._json_test(json, '==', each) for each in value])})"
        text = f"json_extract_string({json}, '$')"
        if value is None:
            return f"(json_type({json}) = 'NULL')"
        if isinstance(value, bool):
            word = self._parameter("true" if value else "false")
            return f"(CASE WHEN json_type({json}) = 'BOOLEAN' THEN {text} = {word} ELSE false END)"
        if isinstance(value, str):
            test = self._compare_text(text, op, value)
            return f"(CASE WHEN json_type({json}) = 'VARCHAR' THEN {test} ELSE false END)"
        assert isinstance(value, int | float)
        integer = self._bounded(json, _integer_bound(op, value), f"TRY_CAST({text} AS HUGEINT)")
        double = self._bounded(json, _double_bound(op, value), f"TRY_CAST({text} AS DOUBLE)")
        return (
            f"(CASE json_type({json}) WHEN 'UBIGINT' THEN {integer} WHEN 'BIGINT' THEN {integer} "
            f"WHEN 'DOUBLE' THEN {double} ELSE false END)"
        )


def _pointer(path: Sequence[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


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
