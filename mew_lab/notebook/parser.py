"""Parses the line after `%mew` into a `ParsedLine`, or raises one sentence about the mistake.

Words are split as in a shell. `$name` and `{expression}` are replaced after the splitting, so a value with spaces stays
one word. Nothing is replaced inside single quotes, JSON and cell bodies.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple, NoReturn

from IPython.core.error import UsageError
from IPython.utils.text import DollarFormatter

from mew_lab.errors import ConfigError, ProtocolError
from mew_lab.lab.call_check import hint
from mew_lab.notebook.commands import COMMANDS, Command
from mew_lab.protocol.envelope import read_strict

__all__ = ["ParsedLine", "Word", "parse", "read_body", "split"]


class Word(NamedTuple):
    """One word of a line: its text, its position, and whether it is literal, without variables to replace."""

    text: str
    start: int
    end: int
    literal: bool


class ParsedLine(NamedTuple):
    """The meaning of a line. `tail` is text, a dict, a list of words or None, by the format in the command's row."""

    command: str
    options: argparse.Namespace
    tail: Any = None
    help: bool = False


_PART = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\{\[]+|[{\[])""", re.DOTALL)
_BRACKETS = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|[][{}]""")
_VARIABLE = re.compile(r"\$[A-Za-z_]|\{[^{}]")
_ALONE = re.compile(r"\$[A-Za-z_][\w.]*|\{[^{}]+\}")


class _Fill(DollarFormatter):
    """IPython's own replacement of `$name` and `{expression}`; it also keeps the values that it used."""

    def __init__(self) -> None:
        self.met: list[Any] = []

    def format_field(self, value: Any, format_spec: str) -> Any:
        self.met.append(value)
        return super().format_field(value, format_spec)


def split(line: str, at: int = 0) -> Iterator[Word]:
    """Yields the words of a line from `at` on, split as in a POSIX shell.

    Raises:
        UsageError: A quote is not closed; the words before it were yielded already.
    """
    end = len(line)
    while (at := _next(line, at)) < end:
        start, text, literal = at, "", False
        while at < end and not line[at].isspace():
            if line[at] in "{[" and (close := _find_closing(line, at)):
                text += line[at:close]
                at = close
                continue
            part = _PART.match(line, at)
            if part is None:
                raise UsageError(f"%mew: a quote is not closed, from {line[at : at + 30]}")
            single, double, escaped, plain = part.groups()
            literal = literal or single is not None
            text += single or (re.sub(r'\\(["\\$`])', r"\1", double) if double else escaped or plain or "")
            at = part.end()
        yield Word(text, start, at, literal)


def _find_closing(line: str, at: int) -> int:
    """The position after the bracket that closes the one at `at`; 0 for none. JSON and {expressions} stay one word."""
    depth = 0
    for part in _BRACKETS.finditer(line, at):
        if part[0] in ("{", "["):
            depth += 1
        elif part[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return part.end()
    return 0


def _next(line: str, at: int) -> int:
    while at < len(line) and line[at].isspace():
        at += 1
    return at


class _CommandParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"%mew {self.prog}: {message}; usage: %mew {self.prog} {COMMANDS[self.prog].usage}".rstrip()
        )


@cache
def _parser(name: str) -> _CommandParser:
    command = COMMANDS[name]
    parser = _CommandParser(prog=name, add_help=False, allow_abbrev=False)
    group = parser.add_mutually_exclusive_group()
    for option in command.options:
        settings = dict(option.settings)
        settings.pop("dest", None)
        if option.is_flag:
            (group if option.flag in command.either else parser).add_argument(
                option.flag, dest=option.dest, **settings
            )
        else:
            parser.add_argument(option.dest, metavar=option.flag, **settings)
    return parser


def parse(line: str, *, names: Mapping[str, Any], body: str | None = None) -> ParsedLine:
    """Parses a line, and the body of the cell where it is a cell magic.

    `names` are the variables that `$name` and `{expression}` may use.

    Raises:
        UsageError: One line with the mistake and the usage.
    """
    words = split(line)
    first = next(words, None)
    if first is None or first.text in ("--help", "-h"):
        return ParsedLine("help", argparse.Namespace(command=None))
    name = first.text
    if name not in COMMANDS:
        raise UsageError(
            f"%mew: there is no sub-command {name!r}{hint(name, COMMANDS)}; %mew help lists them"
        )
    command = COMMANDS[name]
    if command.lenient and line[first.end :].strip() not in ("--help", "-h"):
        return ParsedLine(name, argparse.Namespace())
    head, tail_at = _head(name, line, first.end)
    if any(word.text in ("--help", "-h") for word in head):
        return ParsedLine(name, argparse.Namespace(), help=True)
    if body is not None and not command.body:
        raise UsageError(
            f"%%mew {name}: this sub-command takes no cell body; write %mew {name} {command.usage}".rstrip()
        )
    options = _options(name, [_fill(name, word, names) for word in head])
    if name == "help" and options.command is not None and options.command not in COMMANDS:
        unknown = options.command
        raise UsageError(f"%mew help: there is no sub-command {unknown!r}{hint(unknown, COMMANDS)}")
    rest = line[tail_at:].strip()
    if body is not None:
        if rest:
            raise UsageError(
                f"%%mew {name}: there is text on the line ({rest[:30]!r}) and a cell body; give one of them"
            )
        return ParsedLine(name, options, _from_body(name, command, body))
    return ParsedLine(name, options, _tail(name, command, rest, names) if rest else None)


def _head(name: str, line: str, at: int) -> tuple[list[Word], int]:
    """The words for argparse, and the position where the tail begins.

    The tail begins at the first word that is no option after every position is filled, or after `--`. The tail itself is
    not split here: prose may hold an apostrophe.
    """
    command = COMMANDS[name]
    flags = {option.flag: option for option in command.options if option.is_flag}
    places = sum(not option.is_flag for option in command.options) if command.tail else len(line)
    head: list[Word] = []
    value_follows = False
    while (at := _next(line, at)) < len(line):
        is_option = line.startswith("--", at) or line[at : at + 3].rstrip() == "-h"
        if not value_follows and not is_option and places == 0:
            return head, at
        word = next(split(line, at))
        at = word.end
        if value_follows:
            value_follows = False
        elif word.text == "--" and command.tail:
            return head, at
        elif is_option:
            flag, equals, _ = word.text.partition("=")
            if flag not in flags and flag not in ("--help", "-h"):
                _parser(name).error(f"there is no option {flag!r}{hint(flag, flags)}")
            value_follows = flag in flags and not equals and not flags[flag].alone
        else:
            places -= 1
        head.append(word)
    return head, at


def _options(name: str, words: list[str]) -> argparse.Namespace:
    options, unknown = _parser(name).parse_known_args(words)
    if unknown:
        flags = [option.flag for option in COMMANDS[name].options if option.is_flag]
        _parser(name).error(f"unexpected argument {unknown[0]!r}{hint(unknown[0].split('=')[0], flags)}")
    for option in COMMANDS[name].options:
        if option.settings.get("action") == "append":
            setattr(options, option.dest, tuple(getattr(options, option.dest) or ()))
    return options


# --- variables ----------------------------------------------------------------------------------------------


def _fill(name: str, word: Word, names: Mapping[str, Any]) -> str:
    return _evaluate(name, word, names)[0]


def _evaluate(name: str, word: Word, names: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The word with its variables replaced, and their values."""
    if word.literal or not _VARIABLE.search(word.text):
        return word.text, []
    fill = _Fill()
    try:
        return str(fill.vformat(word.text, [], names)), fill.met
    except Exception as fault:
        raise UsageError(
            f"%mew {name}: {word.text} has no value ({type(fault).__name__}: {fault}); "
            f"define it first, or write '{word.text}' in single quotes for the text itself"
        ) from None


def _value(name: str, word: Word, names: Mapping[str, Any]) -> Any:
    """The value after the `=`: a single variable keeps its type, JSON is parsed, anything else is text."""
    with contextlib.suppress(ProtocolError):
        if word.text.startswith(("{", "[")):
            return read_strict(f'{{"value":{word.text}}}')["value"]
    text, met = _evaluate(name, word, names)
    if met and _ALONE.fullmatch(word.text):
        return str(met[0]) if isinstance(met[0], PurePath) else met[0]
    try:
        return read_strict(f'{{"value":{text}}}')["value"]
    except (ProtocolError, KeyError):
        return text


# --- the tail -----------------------------------------------------------------------------------------------


def _tail(name: str, command: Command, rest: str, names: Mapping[str, Any]) -> Any:
    if command.tail == "text":
        if rest[0] in "'\"" and rest[-1] == rest[0] and len(quoted := list(split(rest))) == 1:
            # so that a text may end with a question mark, which IPython reads as help
            return _fill(name, quoted[0], names)
        try:
            return str(_Fill().vformat(rest, [], names)) if _VARIABLE.search(rest) else rest
        except Exception:
            return rest  # prose may hold a dollar or a brace
    if command.tail == "filter":
        return rest  # quotation marks, dollars and braces mean something in a filter
    if command.tail == "command":
        return [_fill(name, word, names) for word in split(rest)]
    if rest.startswith("{") and (command.tail == "body" or _is_json_object(rest)):
        if (behind := rest[_find_closing(rest, 0) :].strip()).startswith("--"):
            raise UsageError(
                f"%mew {name}: {behind[:30]!r} stands behind the object; write %mew {name} {command.usage}"
            )
        return read_body(name, rest)
    if command.tail == "body":
        raise UsageError(
            f"%mew {name}: the payload must be a JSON object, not {rest[:30]!r}; write %mew {name} {command.usage}, or "
            f"use %%mew {name} …"
        )
    return _pairs(name, rest, names)


def _is_json_object(rest: str) -> bool:
    """Whether the text begins with JSON and not with an {expression}."""
    return re.match(r'\{\s*(["}])|\{.*:', rest, re.DOTALL) is not None


def _pairs(name: str, rest: str, names: Mapping[str, Any]) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for word in split(rest):
        key, equals, value = word.text.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(
                f"%mew {name}: {word.text[:40]!r} is not an argument; write name=value words or one JSON object"
            )
        if key in pairs:
            raise UsageError(f"%mew {name}: the argument {key} is given twice")
        pairs[key] = _value(name, word._replace(text=value), names)
    return pairs


def _from_body(name: str, command: Command, body: str) -> Any:
    return body.strip("\n") if command.tail == "text" else read_body(name, body)


def read_body(name: str, text: str) -> dict[str, Any]:
    """The object in a body: strict JSON where it begins with `{`, else YAML.

    Raises:
        UsageError: One line with the position of the fault.
    """
    from mew_lab.settings.documents import read_yaml  # PyYAML only for a body in YAML

    try:
        if text.lstrip().startswith("{"):
            return read_strict(text)
        value = read_yaml(text)
    except (ProtocolError, ConfigError) as fault:
        sentence = str(fault).replace("the message is not strict JSON", "the body is not strict JSON")
        raise UsageError(f"%mew {name}: {sentence.replace('this text is', 'the body is')}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(
            f"%mew {name}: the body must be an object of names and values, not {json.dumps(value)[:30]}"
        )
    return value
