"""Makes RE2 expressions of globs, words and the user's own expressions, and compiles them.

The text of an expression means the same to this module and to DuckDB. Where google-re2 is not installed, globs and
words run all the same, and the user's own expressions are refused: another engine could need endless time for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

try:
    import re2
except ImportError:
    re2 = None

from mew_lab.protocol.text import mend_surrogates

__all__ = [
    "MAX_EXPRESSION",
    "BytesSearch",
    "check_expression",
    "compile_bytes_search",
    "compile_search",
    "from_glob",
    "from_word",
    "literal_of",
    "literals_of",
]

BytesSearch = Callable[[bytes, int, int], tuple[int, int] | None]
"""Returns the span of the first match between two offsets of some bytes, which are UTF-8; None where there is none."""

MAX_EXPRESSION = 256  # characters of a regular expression
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_QUOTED = re.compile(r"\\(.)", re.DOTALL)
_CHARACTER = r"(?:[^\\.+*?()|\[\]{}^$\x00]|\\[\\.+*?()|\[\]{}^$])"
_LITERAL = f"({_CHARACTER}*)"
_WHOLE = re.compile(rf"\(\?s\)\^{_LITERAL}(\.\*)?\$", re.DOTALL)
_GLOB = re.compile(rf"\(\?s\)\^((?:\.\*?|{_CHARACTER})*)\$", re.DOTALL)
_PARTS = re.compile(rf"{_CHARACTER}+", re.DOTALL)
_TOKENS = re.compile(r"\.\*|\\?.", re.DOTALL)
_INNER = re.compile(rf"\(\?s\)\^\.\*({_CHARACTER}*)(\.\*)?\$", re.DOTALL)
_WORD = re.compile(rf"\(\?is\){_LITERAL}", re.DOTALL)


def _quote(text: str) -> str:
    """The expression that matches exactly this text."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\x00", r"\x00")


def from_glob(glob: str) -> str:
    """The expression for the whole of a text: `*` is any text, `?` one character, a backslash quotes the next one."""
    parts, at = [], 0
    while at < len(glob):
        char = glob[at]
        if char == "\\" and at + 1 < len(glob):
            at += 1
            parts.append(_quote(glob[at]))
        elif char == "*":
            if parts[-1:] != [".*"]:
                parts.append(".*")
        else:
            parts.append("." if char == "?" else _quote(char))
        at += 1
    return f"(?s)^{''.join(parts)}$"


def from_word(word: str) -> str:
    """The expression for a word anywhere in a text, in any case."""
    return f"(?is){_quote(word)}"


def literal_of(expression: str) -> tuple[str, bool] | None:
    """The text that a glob stands for, and whether it is only the beginning; None for any other expression."""
    plain = _WHOLE.fullmatch(expression)
    return (_QUOTED.sub(r"\1", plain[1]), plain[2] is not None) if plain else None


def literals_of(expression: str) -> list[str]:
    """The texts between the wildcards of a glob; none for any other expression."""
    glob = _GLOB.fullmatch(expression)
    return [_QUOTED.sub(r"\1", part) for part in _PARTS.findall(glob[1])] if glob else []


def check_expression(expression: str) -> str:
    """The reason why a text is no regular expression of RE2; empty where it is one."""
    if len(expression) > MAX_EXPRESSION:
        return f"a regular expression has at most {MAX_EXPRESSION} characters"
    if re2 is None:
        return (
            "google-re2 is not installed, which a regular expression needs; a glob such as a*b needs nothing"
        )
    try:
        _compile(expression)
    except re2.error as fault:
        why = fault.args[0] if fault.args else ""
        return why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
    return ""


def _compile(expression: str | bytes) -> Any:
    if re2 is None:
        return re.compile(_without_backtracking(str(expression)))
    options = re2.Options()
    options.log_errors = False
    return re2.compile(expression, options)


def _without_backtracking(expression: str) -> str:
    """The expression of a glob or a word for the engine of Python, which then takes linear time.

    Where a part between two `*` matches, the first match of it is as good as any other.
    """
    if not expression.startswith("(?s)^"):
        return expression
    parts = [""]
    for token in _TOKENS.findall(expression[5:-1]):
        if token == ".*":
            parts.append("")
        else:
            parts[-1] += token
    first, *inner = parts
    return "".join(
        [
            r"(?s)\A",
            first,
            *(f"(?>.*?{part})" for part in inner[:-1]),
            *(f".*{part}" for part in inner[-1:]),
            r"\Z",
        ]
    )


def compile_search(expression: str) -> Callable[[str], bool]:
    """A function that states whether an expression matches somewhere in a text."""
    search = _compile(expression).search

    def matches(text: str) -> bool:
        try:
            return search(text) is not None
        except UnicodeEncodeError:
            return search(mend_surrogates(text)) is not None

    return _compare(expression, matches) or matches


def compile_bytes_search(expression: str) -> BytesSearch:
    """A function that finds the first match of an expression in some bytes."""
    find = _compile(expression.encode()).search

    def search(data: bytes, start: int, end: int) -> tuple[int, int] | None:
        match = find(data, start, end)
        return match.span() if match is not None else None

    return search


def _compare(expression: str, matches: Callable[[str], bool]) -> Callable[[str], bool] | None:
    """A faster function for a whole text, for the beginning of one and for a word; None for other expressions."""
    if (plain := literal_of(expression)) is not None:
        literal, is_prefix = plain
        if is_prefix:
            return lambda text: text.startswith(literal)
        return lambda text: text == literal
    if inner := _INNER.fullmatch(expression):
        part = _QUOTED.sub(r"\1", inner[1])
        return (lambda text: part in text) if inner[2] else (lambda text: text.endswith(part))
    if (word_form := _WORD.fullmatch(expression)) and expression.isascii():
        word = _QUOTED.sub(r"\1", word_form[1]).lower()
        # Some letters beyond ASCII are upper or lower case of an ASCII letter; RE2 knows them.
        return lambda text: word in text.lower() if text.isascii() else matches(text)
    return None
