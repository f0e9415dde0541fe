"""Parses the text of a filter into its tree.

The language
------------
    kind ~ "mcp/*" and latency > 2s and from in (agent, helper) and payload.params.name == "write_file"

- A condition is a field, an operator and a value. Operators: `==`, `!=`, `<`, `<=`, `>`, `>=`; `~` and `!~` with a glob
  (`*` any text, `?` one character, a backslash quotes); `=~` with a regular expression of RE2, anywhere in the text;
  `in (a, b)`; `has` (an element of a list, a member of an object, or a text in a text); `exists`.
- `seq 10..20` and `time 12:30..12:45` are ranges, both ends included; `seq in (1, 10..20)` holds some of them.
- A field of the payload is a path: `payload.params.name`, `payload.items[0]`, `payload."a.b"`.
- `any` and `all` before a list or a path say whether one element or each must satisfy the condition.
- A word alone searches the text of the message, in any case; `"two words"` and words with operators in them stand in
  quotation marks. `-word` excludes. `from:x`, `kind:x` and so on search one field, `since:5m` the time.
- Conditions are joined by `and`, `or`, `not` and parentheses; side by side they are joined by `and`, which binds more
  than `or`. In capitals they mean the same.
- A value is a word, a number or a text in quotation marks with the escapes of JSON. A number takes the unit `ms`, `s`,
  `m`, `h` or `d` where the field is a duration, and `B`, `KiB`, `MiB` or `GiB` where it is a size. A moment is `12:30`,
  `-5m` or ISO 8601.

`fields` states what missing values mean. A filter is bounded in its length, its terms, its nesting and the length of its
regular expressions; the parser is LALR(1), so its time is linear.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from lark import Lark, Token, Tree, UnexpectedInput
from lark.lexer import Lexer

from mew_lab.errors import FilterError
from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.filter.fields import FIELDS, PAYLOAD, FilterField
from mew_lab.log.filter.literals import FilterClock, read_moment, read_number, read_quantity, unescape
from mew_lab.log.filter.patterns import check_expression, from_glob, from_word
from mew_lab.log.filter.scanner import fault, scan
from mew_lab.log.filter.tree import (
    Comparison,
    Conjunction,
    Disjunction,
    FilterTree,
    Inversion,
    Presence,
    Quantifier,
    Reference,
    TextSearch,
    Value,
)
from mew_lab.protocol.text import mend_surrogates

__all__ = ["GRAMMAR", "parse_filter"]

GRAMMAR = r"""
start: disjunction?
disjunction: conjunction (OR conjunction)*
conjunction: factor (AND? factor)*
?factor: NOT factor -> inversion
       | MINUS primary -> inversion
       | primary
?primary: OPEN disjunction CLOSE -> group
        | QUANTIFIER? FIELD OPERATOR value -> comparison
        | QUANTIFIER? FIELD HAS value -> comparison
        | QUANTIFIER? FIELD IN OPEN value (COMMA value)* CLOSE -> membership
        | QUANTIFIER? FIELD IN BARE -> membership
        | FIELD BARE -> membership
        | FIELD EXISTS -> presence
        | QUICK value -> quick
        | WORD -> word
        | STRING -> word
?value: BARE | STRING
%declare OR AND NOT MINUS OPEN CLOSE QUANTIFIER FIELD OPERATOR HAS IN COMMA EXISTS QUICK BARE STRING WORD
"""
_ORDERS = ("<", "<=", ">", ">=")
_CONSTANTS: dict[str, Value] = {"true": True, "false": False, "null": None}


class _ScannerAdapter(Lexer):
    def __init__(self, _: object) -> None:
        pass

    def lex(self, data: Any, *_: object) -> Iterator[Token]:
        for token in scan(data):
            yield Token(token.type, token.text, start_pos=token.start, end_pos=token.end)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer=_ScannerAdapter)


def parse_filter(text: str, *, clock: FilterClock | None = None) -> FilterTree:
    """The tree of a filter; that of an empty text accepts every message.

    Args:
        clock: What `-5m` and `12:30` are relative to; by default now, in UTC.

    Raises:
        FilterError: the text is no filter; the message points at the fault and says what is meant.
    """
    if not isinstance(text, str):
        raise FilterError(f'A filter is a text, such as "kind == chat", not {str(text)[:40]!r}.')
    text = mend_surrogates(text)
    try:
        parsed = _parser().parse(text)
    except UnexpectedInput as unexpected:
        raise _syntax_fault(text, unexpected) from None
    return _Builder(text, clock or FilterClock()).build(parsed)


def _syntax_fault(text: str, unexpected: UnexpectedInput) -> FilterError:
    token = getattr(unexpected, "token", None)
    if not isinstance(token, Token) or token.type == "$END":
        end = len(text.rstrip())
        start = max(text.rstrip().rfind(" ") + 1, 0)
        return fault(text, start, end, f"A condition is missing after {text[start:end]}.")
    start, end = token.start_pos or 0, token.end_pos or 0
    word = str(token)
    if token.type in ("AND", "OR"):
        problem = f"{word} needs a condition before it; to search for the word, put it in quotes."
    elif token.type == "CLOSE":
        problem = "A condition or a value is missing before this parenthesis."
    elif token.type == "COMMA":
        problem = "A value is missing before this comma."
    elif token.type == "BARE":
        problem = f"{word} is no range: write 10..20."
    else:
        problem = f"{word} cannot stand here; to search for it, put it in quotes."
    return fault(text, start, end, problem)


class _Builder:
    """Makes the tree of a filter from the tree of the parser, and reads its values."""

    def __init__(self, text: str, clock: FilterClock) -> None:
        self._text = text
        self._clock = clock

    def build(self, node: Any) -> FilterTree:
        if isinstance(node, Token):  # a rule with one token is that token
            return self._search(node)
        parts = node.children
        rule = str(node.data)
        if rule == "start":
            return self.build(parts[0]) if parts else Conjunction(())
        if rule in ("disjunction", "conjunction"):
            for part, after in pairwise(parts):
                self._check_unit(part, after)
            built = tuple(self.build(part) for part in parts if not _is_join(part))
            if len(built) == 1:
                return built[0]
            return Disjunction(built) if rule == "disjunction" else Conjunction(built)
        if rule == "inversion":
            return Inversion(self.build(parts[1]))
        if rule == "group":
            return self.build(parts[1])
        if rule == "word":
            return self._search(parts[0])
        if rule == "quick":
            return self._quick(*parts)
        if rule == "presence":
            return Presence(self._reference(parts[0]))
        return self._condition(rule, parts)

    def _check_unit(self, part: Any, after: Any) -> None:
        """Raises an error for a unit that stands apart from its number, where it would be a word to search for."""
        while getattr(part, "data", "") == "inversion":
            part = part.children[-1]
        if getattr(part, "data", "") != "comparison" or getattr(after, "data", "") != "word":
            return
        value, [word] = part.children[-1], after.children
        field = next(self._reference(token).field for token in part.children if token.type == "FIELD")
        if (
            value.type == "BARE"
            and word.type == "WORD"
            and word in field.units
            and read_number(value) is not None
        ):
            meant = f'write {value}{word}, or "{word}" to search for it.'
            raise self._fault(word, f"A unit stands directly behind its number: {meant}")

    def _fault(self, token: Token, problem: str) -> FilterError:
        return fault(self._text, token.start_pos or 0, token.end_pos or 0, problem)

    def _string(self, token: Token) -> str:
        """The text of a value, the escapes of a quoted one read."""
        if token.type != "STRING":
            return str(token)
        read = unescape(str(token))
        if isinstance(read, str):
            return read
        at = (token.start_pos or 0) + 1 + read
        raise fault(
            self._text, at, at + 2, r"This is no escape: write \" \\ \n \t \r or \u with four digits, or \\."
        )

    def _search(self, token: Token) -> FilterTree:
        word = self._string(token)
        if not word:
            raise self._fault(token, "The quotation marks need a word between them.")
        return TextSearch(from_word(word))

    def _quick(self, name: Token, value: Token) -> FilterTree:
        word = self._string(value)
        if not word:
            raise self._fault(value, f"{name}: needs a word after it.")
        if str(name) == "since":
            moment = read_moment(f"-{word}", self._clock) or read_moment(word, self._clock)
            if moment is None:
                raise self._fault(
                    value,
                    f"since:{word[:40]} is no time: write since:5m, since:90s, since:2h or since:21:37.",
                )
            return Comparison(Reference(FIELDS["time"]), ">=", moment)
        names = ("verdict", "code") if str(name) == "verdict" else (str(name),)
        tests = [Comparison(Reference(FIELDS[each]), "contains", from_word(word)) for each in names]
        return Disjunction(tuple(tests)) if len(tests) > 1 else tests[0]

    def _reference(self, token: Token) -> Reference:
        name = str(token)
        if name in FIELDS:
            return Reference(FIELDS[name])
        return Reference(PAYLOAD, tuple(self._path(token)))

    def _path(self, token: Token) -> Iterator[str]:
        name, at = str(token), len("payload")
        while at < len(name):
            if name[at] == "[":
                end = name.index("]", at)
                yield name[at + 1 : end].lstrip("0") or "0"
                at = end + 1
            elif name[at + 1] == '"':
                end = at + 2
                while name[end] != '"':
                    end += 2 if name[end] == "\\" else 1
                start = (token.start_pos or 0) + at + 1
                quoted = Token("STRING", name[at + 2 : end], start_pos=start, end_pos=start + end - at)
                yield self._string(quoted)
                at = end + 1
            else:
                end = at + 1
                while end < len(name) and name[end] not in ".[":
                    end += 1
                yield name[at + 1 : end]
                at = end

    def _condition(self, rule: str, parts: Sequence[Token]) -> FilterTree:
        quantifier: Quantifier = ""
        if parts[0].type == "QUANTIFIER":
            quantifier = "all" if parts[0] == "all" else "any"
        field, *rest = parts[1:] if quantifier else parts
        reference = self._reference(field)
        if quantifier and reference.field.type not in ("list", "json"):
            lists = ", ".join(name for name, each in FIELDS.items() if each.type == "list")
            raise self._fault(
                parts[0], f"{field} is no list; any and all stand before {lists} and payload paths."
            )
        if rule == "comparison":
            return self._compare(reference, rest[0], rest[1], quantifier)
        values = [token for token in rest if token.type in ("BARE", "STRING")]
        alone = all(token.type != "OPEN" for token in rest)
        tests = [self._member(reference, token, quantifier, alone) for token in values]
        if quantifier == "all":
            return self._all_in(tests, values[0])
        if len(tests) == 1:
            return tests[0]
        if reference.field.type in ("text", "list"):
            values_of = tuple(test.value for test in tests if isinstance(test, Comparison))
            return Comparison(reference, "in", values_of, quantifier)
        return Disjunction(tuple(tests))

    def _all_in(self, tests: Sequence[FilterTree], token: Token) -> FilterTree:
        if len(tests) == 1:
            return tests[0]
        # Each element is one of the values where no element differs from all of them: that is one comparison.
        values: list[Value] = []
        for test in tests:
            if not isinstance(test, Comparison):
                raise self._fault(token, "all stands before a list of values, not of ranges.")
            values.append(test.value)
        first = tests[0]
        assert isinstance(first, Comparison)
        return Comparison(first.reference, "in", tuple(values), "all")

    def _member(self, reference: Reference, token: Token, quantifier: Quantifier, alone: bool) -> FilterTree:
        low, dots, high = str(token).partition("..")
        if alone and not dots:
            name = reference.field.name
            raise self._fault(
                token, f"in takes a list, such as {name} in ({token}), or a range, such as 10..20."
            )
        if token.type == "BARE" and dots and reference.field.type in ("integer", "seconds", "time", "json"):
            start = token.start_pos or 0
            first = Token("BARE", low, start_pos=start, end_pos=start + len(low))
            last = Token("BARE", high, start_pos=start + len(low) + 2, end_pos=token.end_pos)
            if not low or not high:
                raise self._fault(token, f"{token} is no range: write 10..20.")
            bounds = (self._value(reference, ">=", first), self._value(reference, "<=", last))
            if reference.field.type != "json":
                return Conjunction(
                    (Comparison(reference, ">=", bounds[0]), Comparison(reference, "<=", bounds[1]))
                )
            raise self._fault(token, "A payload path takes no range: write it >= 10 and it <= 20.")
        return Comparison(reference, "==", self._value(reference, "==", token), quantifier)

    def _compare(
        self, reference: Reference, operator: Token, token: Token, quantifier: Quantifier
    ) -> FilterTree:
        op, type = str(operator), reference.field.type
        if op in ("~", "!~", "=~"):
            if type not in ("text", "list", "json"):
                raise self._fault(
                    operator,
                    f"{op} compares text, and {reference.field.name} is no text; write == or < or >.",
                )
            expression = self._expression(op, token)
            matches = Comparison(
                reference, "!matches" if op == "!~" and quantifier else "matches", expression, quantifier
            )
            return Inversion(matches) if op == "!~" and not quantifier else matches
        if op.lower() == "has":
            if type not in ("text", "list", "json"):
                raise self._fault(operator, f"{reference.field.name} is no list and no text; write ==.")
            if type == "text":
                word = self._string(token)
                return Comparison(reference, "contains", from_word(word))
            if type == "list":
                return Comparison(reference, "==", self._string(token), quantifier)
            return Comparison(reference, "has", self._value(reference, "==", token), quantifier)
        value = self._value(reference, op, token)
        if op == "!=" and not quantifier:
            return Inversion(Comparison(reference, "==", value))
        return Comparison(reference, op, value, quantifier)

    def _expression(self, op: str, token: Token) -> str:
        pattern = self._string(token)
        expression = pattern if op == "=~" else from_glob(pattern)
        if op == "=~" and (why := check_expression(expression)):
            raise self._fault(token, f"This is no regular expression of RE2: {why}.")
        return expression

    def _value(self, reference: Reference, op: str, token: Token) -> Value:
        """The value of a token in the type of the field.

        Raises:
            FilterError: it has another type.
        """
        type, name, text = reference.field.type, reference.field.name, self._string(token)
        quoted = token.type == "STRING"
        try:
            if type in ("text", "list"):
                if op in ("==", "!=") and (why := _unknown_value(reference.field, text)):
                    raise self._fault(token, why)
                return text
            if type == "json":
                value = text if quoted else _CONSTANTS.get(text, text)
                if value is text and not quoted and (number := read_number(text)) is not None:
                    value = number
                if op in _ORDERS and (value is None or isinstance(value, bool)):
                    raise self._fault(token, f"{text} has no order: {op} compares numbers or texts.")
                return value
            if type == "time":
                moment = read_moment(text, self._clock)
                if moment is None:
                    raise self._fault(
                        token, f"{text[:40]} is no time: write 12:30, 12:30:05, -5m or 2026-01-31T12:30:00Z."
                    )
                return moment
            if type == "severity":
                if text.lower() not in SEVERITIES:
                    raise self._fault(token, f"{text[:40]} is no severity: they are {', '.join(SEVERITIES)}.")
                return SEVERITIES.index(text.lower())
            if quoted:
                raise self._fault(token, f"{name} is a number: write it without quotation marks.")
            quantity = read_quantity(text, reference.field.units)
            if isinstance(quantity, str):
                raise self._fault(token, quantity)
            return quantity
        except OverflowError:
            raise self._fault(token, "This number is too large.") from None


def _unknown_value(field: FilterField, text: str) -> str:
    """The fault of a text with which a field of a closed list of values is compared; empty where it is none."""
    if not field.closed or not text or text in field.examples:
        return ""
    near = difflib.get_close_matches(text[:40].lower(), field.examples, n=1)
    hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(field.examples)}."
    return f"{text[:40]} is no {field.name} of a message; {hint}"


def _is_join(part: Token | Tree[Any]) -> bool:
    return isinstance(part, Token) and part.type in ("AND", "OR")
