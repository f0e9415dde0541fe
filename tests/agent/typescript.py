"""Reads the TypeScript of the SDK specification, and writes its examples as Python.

Five rules change an example, and nothing else:

1. camelCase becomes snake_case.
2. `new` is dropped.
3. An object of options, as a constructor takes it, becomes keywords.
4. Milliseconds by position become `timeout=` in seconds.
5. An arrow becomes a lambda or a def.

The rest is the language: blocks become indented, `===` becomes `==`, `this` is `self`, a template is a join of its
parts, and a member of an object that is JSON is read by `member`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

_TOKEN = re.compile(
    r"(?P<gap>\s+|//[^\n]*|/\*.*?\*/)|(?P<number>\d+(?:\.\d+)?)|(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<template>`(?:\\.|[^`\\])*`)|(?P<name>[A-Za-z_$][\w$]*)|(?P<mark>=>|===|!==|\?\.|&&|\|\||[-+*/<>=!?:;,.(){}\[\]|&])",
    re.DOTALL,
)
_INFIX = {"===": "==", "!==": "!=", "&&": "and", "||": "or", "<": "<", ">": ">", "+": "+", "-": "-", "*": "*"}
_WORDS = {"true": "True", "false": "False", "null": "None", "undefined": "None", "this": "self"}
_OPEN, _CLOSE = "([{<", ")]}>"
LEAST_MS = 100  # no count of a call is as great, and no time is shorter


def snake(name: str) -> str:
    """The first rule; names of classes and constants stay."""
    if not name[:1].islower():
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def tokens_of(code: str) -> list[str]:
    found, at = [], 0
    while at < len(code):
        match = _TOKEN.match(code, at)
        assert match is not None, f"no TypeScript: {code[at : at + 40]!r}"
        if match.lastgroup != "gap":
            found.append(match[0])
        at = match.end()
    return found


@dataclass
class Parameter:
    """One parameter, or one field: `of` are the tokens of its type."""

    name: str
    of: list[str]
    optional: bool = False

    @property
    def arity(self) -> int:
        """Of a handler: how many arguments it is called with."""
        return sum(one == ":" for one in self.of)

    @property
    def members(self) -> list[str]:
        """The names of the members, where the type is an object."""
        named = [one for one in self.of if one != "?"]
        return [name for name, after in pairwise(named) if after == ":"]


@dataclass
class Declaration:
    """An interface, a class or an enum; `methods` have no body."""

    kind: str
    name: str
    base: str = ""
    fields: list[Parameter] = field(default_factory=list)
    methods: dict[str, tuple[list[Parameter], list[str]]] = field(default_factory=dict)


@dataclass
class Block:
    """One block of code: what it declares, the values that stand in it by themselves, and its program in Python."""

    declared: list[Declaration] = field(default_factory=list)
    loose: Declaration = field(
        default_factory=lambda: Declaration("class", "")
    )  # fields and methods without a class
    values: list[Any] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)


def read(code: str) -> Block:
    """The block of this code. What is no TypeScript, such as a numbered list, ends it."""
    listed = None if "`" in code else re.search(r"^\d+\. ", code, re.MULTILINE)
    return _Reader(tokens_of(code[: listed.start()] if listed else code)).read()


class _Reader:
    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.block = Block()
        self.hoisted: list[str] = []
        self.names = 0
        self.types: dict[str, list[str]] = {}

    # --- tokens ---

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        assert not expected or token in expected, (
            f"{expected} expected, {self.tokens[self.at : self.at + 8]} found"
        )
        self.at += 1
        return token

    def skip(self, *marks: str) -> bool:
        if self.peek() in marks:
            self.at += 1
            return True
        return False

    def closing(self, at: int) -> int:
        """The place of the bracket that closes the one at this place."""
        depth = 0
        for place in range(at, len(self.tokens)):
            depth += (self.tokens[place] in "([{") - (self.tokens[place] in ")]}")
            if depth == 0:
                return place
        raise AssertionError("a bracket is not closed")

    def type_until(self, *ends: str) -> list[str]:
        found, depth = [], 0
        while not (depth == 0 and self.peek() in ends):
            depth += (self.peek() in _OPEN) - (self.peek() in _CLOSE)
            found.append(self.take())
        return found

    # --- items ---

    def read(self) -> Block:
        while self.peek():
            self.item()
        return self.block

    def item(self) -> None:
        first = self.peek()
        if first in ("interface", "enum"):
            self.block.declared.append(self.declaration(self.take()))
        elif self.skip("type"):
            name = self.take()
            self.take("=")
            self.types[name] = self.type_until(";")
            self.take(";")
        elif first == "class" and not self.has_bodies():
            self.block.declared.append(self.declaration(self.take()))
        elif first in "{[" or first[0] in "'\"":
            self.block.values.append(ast.literal_eval(self.expression()))
        elif self.is_member():
            if body := self.member(self.block.loose):
                self.block.methods += body
        else:
            self.block.program += self.statement()

    def has_bodies(self) -> bool:
        open_ = next(n for n in range(self.at, len(self.tokens)) if self.tokens[n] == "{")
        inner = self.tokens[open_ + 1 : self.closing(open_)]
        return any(one == ")" and after == "{" for one, after in pairwise(inner))

    def is_member(self) -> bool:
        if self.peek() in ("if", "for", "try", "class", "const", "let"):
            return False
        at = self.at + (self.peek() in ("async", "await"))
        if not self.tokens[at].isidentifier():
            return False
        after = self.tokens[at + 1] if at + 1 < len(self.tokens) else ""
        if after == ":" or self.tokens[at + 2 : at + 4][1:] == [":"]:
            return True
        if after != "(":
            return False
        end = self.closing(at + 1)
        return end + 1 < len(self.tokens) and self.tokens[end + 1] in (":", "{")

    def declaration(self, kind: str) -> Declaration:
        made = Declaration(kind, self.take())
        if self.skip("extends"):
            made.base = self.take()
        self.take("{")
        while not self.skip("}"):
            if kind == "enum":
                name = self.take()
                self.take("=")
                made.fields.append(Parameter(name, [self.take()]))
                self.skip(",")
            else:
                self.member(made)
        return made

    def member(self, of: Declaration) -> list[str]:
        """One member; the lines of a method with a body."""
        while self.peek() in ("private", "protected", "async", "await"):
            self.take()
        name = self.take()
        optional = self.skip("?")
        if self.peek() != "(":
            self.take(":")
            of.fields.append(Parameter(name, self.type_until(";"), optional))
            self.take(";")
            return []
        parameters, defaults = self.parameters()
        returns = self.type_until(";", "{") if self.skip(":") else []
        if self.skip(";"):
            of.methods[name] = (parameters, returns)
            return []
        self.skip(";")
        head = ", ".join(["self", *(p.name + defaults.get(p.name, "") for p in parameters)])
        return [f"async def {snake(name)}({head}):", *self.body()]

    def parameters(self) -> tuple[list[Parameter], dict[str, str]]:
        made, defaults = [], {}
        self.take("(")
        while not self.skip(")"):
            name, optional = self.take(), self.skip("?")
            of = self.type_until(",", ")", "=") if self.skip(":") else []
            made.append(Parameter(snake(name), self.types.get("".join(of), of), optional))
            if self.skip("="):
                defaults[made[-1].name] = f"={self.expression()}"
            self.skip(",")
        return made, defaults

    # --- statements ---

    def body(self) -> list[str]:
        lines: list[str] = []
        if self.skip("{"):
            while not self.skip("}"):
                lines += self.statement()
        else:
            lines = self.statement()
        return [f"    {line}" for line in lines or ["pass"]]

    def statement(self) -> list[str]:
        outer, self.hoisted = self.hoisted, []
        lines = self.one_statement()
        lines, self.hoisted = [*self.hoisted, *lines], outer
        return lines

    def one_statement(self) -> list[str]:
        if self.skip("if"):
            self.take("(")
            condition = self.expression()
            self.take(")")
            return [f"if {condition}:", *self.body()]
        if self.skip("for"):
            self.take("(")
            self.take("const", "let")
            name = snake(self.take())
            self.take("of")
            over = self.expression()
            self.take(")")
            return [f"for {name} in {over}:", *self.body()]
        if self.skip("try"):
            tried = self.body()
            self.take("catch")
            self.take("(")
            name = snake(self.take())
            self.take(")")
            return ["try:", *tried, f"except Exception as {name}:", *self.body()]
        if self.skip("class"):
            name = self.take()
            self.take("extends")
            base = self.take()
            self.take("{")
            lines: list[str] = []
            while not self.skip("}"):
                lines += self.member(self.block.loose)
            return [f"class {name}({base}):", *(f"    {line}" for line in lines)]
        if self.skip("const", "let"):
            name = self.expression().strip("[]") if self.peek() == "[" else snake(self.take())
            self.take("=")
            line = f"{name} = {self.expression()}"
        else:
            line = self.expression()
            if self.skip("="):
                line = f"{_target(line)} = {self.expression()}"
        self.skip(";")
        return [line]

    # --- expressions ---

    def expression(self) -> str:
        left = self.unary()
        while self.peek() in _INFIX:
            left = f"{left} {_INFIX[self.take()]} {self.unary()}"
        return left

    def unary(self) -> str:
        if self.skip("await"):
            return f"await {self.unary()}"
        if self.skip("!"):
            return f"not {self.unary()}"
        return self.postfix(self.primary())

    def postfix(self, left: str) -> str:
        while True:
            if self.skip(".", "?."):
                name = self.take()
                if name == "some":
                    left = f"some({left}, {self.arguments()})"
                elif self.peek() == "(":
                    left = f"{left}.{snake(name)}({self.arguments(in_ms=True)})"
                elif left == "self" or left.startswith("self."):
                    left = f"{left}.{snake(name)}"
                else:
                    left = f"member({left}, {name!r})"
            elif self.peek() == "(":
                own = left in ("set_timeout", "log")
                left = f"{'' if own else 'self.'}{left}({self.arguments(in_ms=not own)})"
            else:
                return left

    def arguments(self, *, in_ms: bool = False, as_keywords: bool = False) -> str:
        made: list[str] = []
        self.take("(")
        while not self.skip(")"):
            if as_keywords and self.peek() == "{":
                made += [f"{snake(key)}={value}" for key, value in self.members()]
            else:
                made.append(self.expression())
            self.skip(",")
        if in_ms and made and made[-1].isdecimal() and int(made[-1]) >= LEAST_MS:
            made[-1] = f"timeout={int(made[-1]) / 1000}"
        return ", ".join(made)

    def members(self) -> Iterator[tuple[str, str]]:
        self.take("{")
        while not self.skip("}"):
            key = self.take().strip("'\"")
            yield key, self.expression() if self.skip(":") else snake(key)
            self.skip(",")

    def primary(self) -> str:
        token = self.peek()
        if token == "async" or self.is_arrow():
            return self.arrow()
        if token == "{":
            return "{" + ", ".join(f"{key!r}: {value}" for key, value in self.members()) + "}"
        if token == "[":
            self.take()
            items = []
            while not self.skip("]"):
                items.append(self.expression())
                self.skip(",")
            return f"[{', '.join(items)}]"
        if self.skip("("):
            inner = self.expression()
            self.take(")")
            return f"({inner})"
        self.take()
        if token == "new":
            return f"{self.take()}({self.arguments(as_keywords=True)})"
        if token[0] == "`":
            return _template(token[1:-1])
        if token[0] in "'\"":
            return repr(ast.literal_eval(f"{token[0] * 3}{token[1:-1]}{token[0] * 3}"))
        return _WORDS.get(token, snake(token))

    def is_arrow(self) -> bool:
        if self.peek(1) == "=>":
            return True
        return self.peek() == "(" and self.tokens[self.closing(self.at) + 1 :][:1] == ["=>"]

    def arrow(self) -> str:
        self.skip("async")
        if self.peek() != "(":
            names = [snake(self.take())]
        elif self.peek(1) == "{":
            self.take("(")
            names = [key for key, _ in self.members()]
            self.take(")")
        else:
            names = [one.name for one in self.parameters()[0]]
        self.take("=>")
        if self.peek() != "{":
            return f"lambda {', '.join(names)}: {self.expression()}".replace("lambda :", "lambda:")
        self.names += 1
        name = f"arrow_{self.names}"
        body = self.body()
        self.hoisted += [f"async def {name}({', '.join(names)}):", *body]
        return name


def _target(line: str) -> str:
    return re.sub(r"^member\((\w+), '(\w+)'\)$", lambda match: f"{match[1]}.{snake(match[2])}", line)


def _template(text: str) -> str:
    parts = re.split(r"\$\{(.*?)\}", text.replace("\\`", "`"), flags=re.DOTALL)
    made = [
        _Reader(tokens_of(part)).expression() if n % 2 else repr(part.replace("\\n", "\n"))
        for n, part in enumerate(parts)
    ]
    return made[0] if len(made) == 1 else f"''.join(map(str, [{', '.join(made)}]))"


# --- what the language has of itself ---


def member(of: Any, name: str) -> Any:
    """The member of an object: of JSON by its key, the length of a list, the text of an error."""
    if isinstance(of, Mapping):
        return of.get(name)
    if isinstance(of, Exception) and name == "message":
        return str(of)
    return len(of) if name == "length" else getattr(of, snake(name))


def some(items: Sequence[Any] | None, holds: Callable[[Any], bool]) -> bool:
    """`Array.some`."""
    return any(map(holds, items or ()))
