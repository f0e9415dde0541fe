"""Splits a filter into the tokens of its grammar, and makes the errors that show the place of a fault.

Whether a word is a field, an operator or a text to search for depends on its neighbours: `in`, `has` and `exists` are
operators only after a field, `any` and `all` only before one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mew_lab.errors import FilterError
from mew_lab.log.filter.fields import FIELDS, QUICK, nearest_field
from mew_lab.protocol.visible import visible

__all__ = [
    "MAX_CHARACTERS",
    "MAX_DEPTH",
    "MAX_STEPS",
    "MAX_TERMS",
    "OPERATORS",
    "FilterToken",
    "fault",
    "scan",
]

MAX_CHARACTERS = 2000
MAX_TERMS = 100  # comparisons, words and values of lists
MAX_DEPTH = 30  # parentheses in parentheses
MAX_STEPS = 32  # of a path
_SHOWN = 60  # characters of a filter on each side of a fault

OPERATORS = ("==", "!=", "~", "!~", "=~", "<", "<=", ">", ">=")
_SPACE = re.compile(r"[ \t\r\n]*")
_STEP = r"""(?:\.(?:[^\s.()\[\]",<>=!~]+|"(?:[^"\\]|\\.)*")|\[[0-9]{1,9}\])"""
_REFERENCE = re.compile(rf"[A-Za-z_][A-Za-z_0-9]*{_STEP}*", re.DOTALL)
_OPERATOR = re.compile(r"==|!=|=~|!~|<=|>=|<|>|~|=|!")
_WORD = re.compile(r'[^\s()"]+')
_BARE = re.compile(r'[^\s()",]+')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_QUICK = re.compile(r"([A-Za-z_.]+):(?!//)")
_IN = re.compile(r"[iI][nN](?=[\s(])")
_HAS = re.compile(r"[hH][aA][sS](?=[\s\"])")
_EXISTS = re.compile(r"[eE][xX][iI][sS][tT][sS](?=[\s()]|\Z)")
_QUANTIFIER = re.compile(r"(any|all)[ \t\r\n]+", re.IGNORECASE)
_JOINS = {"and": "AND", "or": "OR", "not": "NOT"}
# The operators of other languages of filters: searched for as words, they would find nothing.
_FOREIGN_JOINS = {"&&": "and", "||": "or"}
_RANGE = "in 10..20"
_FOREIGN_OPERATORS = {
    "contains": "has", "includes": "has",
    "matches": "=~", "regexp": "=~", "rlike": "=~",
    "like": "~", "ilike": "~", "glob": "~", "startswith": '~ "text*"', "endswith": '~ "*text"',
    "eq": "==", "equals": "==", "is": "==", "ne": "!=", "neq": "!=",
    "gt": ">", "gte": ">=", "ge": ">=", "lt": "<", "lte": "<=", "le": "<=", "between": _RANGE,
}  # fmt: skip


class FilterToken(NamedTuple):
    """One token: its type in the grammar, its text, and its place in the filter."""

    type: str
    text: str
    start: int
    end: int


def fault(text: str, start: int, end: int, problem: str) -> FilterError:
    """The error about the part of a filter between two places, with a line that points at it."""
    first = max(0, start - _SHOWN)
    before = ("…" if first else "") + visible(text[first:start]).replace("\n", " ").replace("\t", " ")
    part = visible(text[start : max(end, start)]).replace("\n", " ").replace("\t", " ")
    after = visible(text[end : end + _SHOWN]).replace("\n", " ").replace("\t", " ")
    part = part if len(part) <= 2 * _SHOWN else part[: 2 * _SHOWN] + "…"
    carets = "^" * max(1, len(part))
    shown = f"{before}{part}{after}".rstrip()
    return FilterError(
        f"{problem}\n  {shown}\n  {' ' * len(before)}{carets}", filter=text, start=start, end=end
    )


def scan(text: str) -> Iterator[FilterToken]:
    """Yields the tokens of a filter.

    Raises:
        FilterError: the text is too long, or a part of it is no token.
    """
    if len(text) > MAX_CHARACTERS:
        raise fault(
            text[:MAX_CHARACTERS],
            MAX_CHARACTERS - 1,
            MAX_CHARACTERS,
            f"The filter has {len(text)} characters; a filter has at most {MAX_CHARACTERS}.",
        )
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[int] = []  # the places of the open parentheses
        self._terms = 0

    def scan(self) -> Iterator[FilterToken]:
        text = self._text
        while self._skip() < len(text):
            start, char = self._at, text[self._at]
            if char in "()":
                yield self._parenthesis(start, char)
            elif char == '"':
                yield self._string()
            elif char == "-" and text[start + 1 : start + 2].strip():
                self._at += 1
                yield FilterToken("MINUS", "-", start, self._at)
            else:
                yield from self._term()
        if self._open:
            at = self._open[-1]
            raise self._fault(at, at + 1, "This parenthesis is not closed: add ).")

    def _fault(self, start: int, end: int, problem: str) -> FilterError:
        return fault(self._text, start, end, problem)

    def _skip(self) -> int:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._at

    def _count(self, start: int, end: int) -> None:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise self._fault(start, end, f"A filter has at most {MAX_TERMS} words and values.")

    def _parenthesis(self, start: int, char: str) -> FilterToken:
        if char == "(":
            self._open.append(start)
            if len(self._open) > MAX_DEPTH:
                raise self._fault(
                    start, start + 1, f"A filter has at most {MAX_DEPTH} parentheses in each other."
                )
        elif self._open:
            self._open.pop()
        else:
            raise self._fault(start, start + 1, "This parenthesis closes nothing: leave it out, or add (.")
        self._at += 1
        return FilterToken("OPEN" if char == "(" else "CLOSE", char, start, self._at)

    def _string(self) -> FilterToken:
        start = self._at
        match = _STRING.match(self._text, start)
        if match is None:
            raise self._fault(start, start + 1, 'A quotation mark is not closed: add ".')
        self._at = match.end()
        self._count(start, self._at)
        return FilterToken("STRING", match[1], start, self._at)

    def _term(self) -> Iterator[FilterToken]:
        text, start = self._text, self._at
        quantifier = _QUANTIFIER.match(text, start)
        if quantifier is not None and self._is_reference(quantifier.end()):
            self._at = quantifier.end()
            yield FilterToken("QUANTIFIER", quantifier[1].lower(), start, start + 3)
            yield from self._condition()
        elif self._is_reference(start):
            yield from self._condition()
        else:
            self._check_foreign(quantifier.end() if quantifier else start)
            yield from self._word()

    def _check_foreign(self, at: int) -> None:
        """Raises an error for a field that an operator of another language follows."""
        match = _REFERENCE.match(self._text, at)
        if match is None or (match[0] not in FIELDS and _root(match[0]) not in FIELDS):
            return
        spaces = _SPACE.match(self._text, match.end())
        word = _BARE.match(self._text, spaces.end()) if spaces and spaces[0] else None
        meant = _FOREIGN_OPERATORS.get(word[0].lower()) if word else None
        if meant == _RANGE and match[0] not in FIELDS:  # a path in the payload takes none
            meant = f">= 10 and {match[0]} <= 20"
        if word is not None and meant is not None:
            said = f"{match[0]} {word[0]}"
            raise self._fault(
                word.start(),
                word.end(),
                f'{word[0]} is no operator; did you mean {meant}? To search for the words, write "{said}".',
            )

    def _is_reference(self, at: int) -> bool:
        """Whether a field begins there, that is, whether an operator follows."""
        match = _REFERENCE.match(self._text, at)
        if match is None:
            return False
        spaces = _SPACE.match(self._text, match.end())
        after = spaces.end() if spaces else match.end()
        if _OPERATOR.match(self._text, after):
            return True
        if after == match.end():
            return False
        known = _root(match[0]) in FIELDS or match[0] in FIELDS
        if _IN.match(self._text, after):
            return known or self._text[after + 2 :].lstrip().startswith("(")
        if not known:
            return False
        if _HAS.match(self._text, after) or _EXISTS.match(self._text, after):
            return True
        bare = _BARE.match(self._text, after)
        return (
            match[0] in ("place", "seq", "time", "size", "latency") and bare is not None and ".." in bare[0]
        )

    def _condition(self) -> Iterator[FilterToken]:
        """The tokens of a field, its operator and its values."""
        text, start = self._text, self._at
        match = _REFERENCE.match(text, start)
        assert match is not None  # _is_reference has seen it
        self._at = match.end()
        self._check_field(match[0], start)
        yield FilterToken("FIELD", match[0], start, self._at)
        at = self._skip()
        if word := _EXISTS.match(text, at):
            self._at = word.end()
            self._count(at, self._at)
            yield FilterToken("EXISTS", word[0], at, self._at)
        elif word := _IN.match(text, at):
            self._at = word.end()
            yield FilterToken("IN", "in", at, self._at)
            yield from self._list() if text[self._skip() : self._at + 1] == "(" else self._single("in")
        elif word := _HAS.match(text, at):
            self._at = word.end()
            yield FilterToken("HAS", "has", at, self._at)
            yield from self._single("has")
        elif operator := _OPERATOR.match(text, at):
            self._at = operator.end()
            self._check_operator(operator[0], at)
            yield FilterToken("OPERATOR", operator[0], at, self._at)
            yield from self._single(operator[0])
        else:
            yield from self._single(match[0])

    def _single(self, after: str) -> Iterator[FilterToken]:
        yield self._value(after)
        at = self._at
        if self._text[at : at + 1] == ",":
            raise self._fault(at, at + 1, "A comma stands in a list alone: write from in (agent, helper).")

    def _check_field(self, name: str, start: int) -> None:
        if name in FIELDS or (_root(name) == "payload"):
            if len(re.findall(_STEP, name, re.DOTALL)) > MAX_STEPS:
                raise self._fault(start, self._at, f"A path has at most {MAX_STEPS} steps.")
            return
        if name.startswith("payload."):
            return
        near = nearest_field(name)
        hint = f"; did you mean {near}?" if near else f". Fields are {', '.join(FIELDS)}."
        raise self._fault(start, start + len(name), f"There is no field {visible(name[:60])}{hint}")

    def _check_operator(self, operator: str, at: int) -> None:
        meant = {"=": "==", "!": "!="}.get(operator)
        if meant:
            raise self._fault(at, at + 1, f"{operator} is no operator; did you mean {meant}?")

    def _list(self) -> Iterator[FilterToken]:
        text = self._text
        opened = self._at
        self._at += 1
        yield FilterToken("OPEN", "(", opened, self._at)
        while True:
            at = self._skip()
            char = text[at : at + 1]
            if not char:
                raise self._fault(opened, opened + 1, "This parenthesis is not closed: add ).")
            if char == "," or char == ")":
                self._at += 1
                yield FilterToken("COMMA" if char == "," else "CLOSE", char, at, self._at)
                if char == ")":
                    return
            elif char == "(":
                raise self._fault(at, at + 1, "A list of values has no parentheses in it.")
            else:
                yield self._value("in (")

    def _value(self, after: str) -> FilterToken:
        at = self._skip()
        if self._text[at : at + 1] == '"':
            return self._string()
        match = _BARE.match(self._text, at)
        if match is None:
            raise self._fault(
                at, at + 1, f'A value is missing after {after}: write a word, a number or "a text".'
            )
        self._at = match.end()
        self._count(at, self._at)
        return FilterToken("BARE", match[0], at, self._at)

    def _word(self) -> Iterator[FilterToken]:
        text, start = self._text, self._at
        match = _WORD.match(text, start)
        assert match is not None  # the next character is no space, no parenthesis and no quotation mark
        word = match[0]
        quick = _QUICK.match(word)
        if quick is not None:
            self._at = start + quick.end()
            yield self._quick(quick[1], start)
            at = self._at
            if text[at : at + 1] in ("", " ", "\t", "\r", "\n", ")", "("):
                raise self._fault(start, at, f"{quick[0]} needs a word after it.")
            yield self._string() if text[at] == '"' else self._rest(at)
            return
        if operator := _OPERATOR.match(word):
            raise self._fault(
                start,
                start + operator.end(),
                f"{operator[0]} needs a field before it, such as kind == chat; to search for it, put it in quotes.",
            )
        if meant := _FOREIGN_JOINS.get(word):
            raise self._fault(
                start,
                match.end(),
                f"{word} joins no conditions; did you mean {meant}? To search for it, put it in quotes.",
            )
        if word.strip("-") == "":
            raise self._fault(start, match.end(), f"{word} needs a word after it.")
        self._at = match.end()
        join = _JOINS.get(word) or (_JOINS.get(word.lower()) if word.isupper() else None)
        if join is None:
            self._count(start, self._at)
        yield FilterToken(join or "WORD", word, start, self._at)

    def _quick(self, name: str, start: int) -> FilterToken:
        lower = name.lower()
        field = FIELDS.get(lower)
        if lower not in QUICK and (field is None or field.type != "text"):
            known = ", ".join(f"{each}:" for each in QUICK)
            near = nearest_field(name)
            if field is not None:
                problem = (
                    f"{lower}: finds no words in it; write a comparison such as {lower} == {_example(lower)}."
                )
            else:
                meant = f" Did you mean {near}:?" if near else f" Those are {known}."
                problem = f"There is no field {name}:.{meant} To search for the text, put it in quotes."
            raise self._fault(start, start + len(name) + 1, problem)
        return FilterToken("QUICK", lower, start, self._at)

    def _rest(self, at: int) -> FilterToken:
        match = _WORD.match(self._text, at)
        assert (
            match is not None
        )  # its first character is neither a space nor a parenthesis nor a quotation mark
        self._at = match.end()
        self._count(at, self._at)
        return FilterToken("BARE", match[0], at, self._at)


def _root(reference: str) -> str:
    return re.split(r"[.\[]", reference, maxsplit=1)[0]


def _example(name: str) -> str:
    field = FIELDS[name]
    if field.examples:
        return field.examples[0]
    return {"integer": "10", "time": "12:30", "list": "human"}.get(field.type, "x")
