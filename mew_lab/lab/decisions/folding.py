"""Which rows of a card are shown only in part until somebody opens them, and how the whole of one reads. Pure.

A value stands on lines that hide nothing. What is long is folded, in each view and in each text alike. Spec: threats 16,
17, 36.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.request_rows import row_name

__all__ = ["FOLD_LINES", "LONG_NAME", "folded", "is_folded", "lines_of", "unopened", "whole"]

FOLD_LINES, FOLD_CHARACTERS = 6, 480
LONG_NAME = 80  # characters of a row's name


def lines_of(text: str) -> list[str]:
    """A JSON value as lines that hide nothing: structure indented, a string broken after each `\\n` that it
    holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [visible(text)]
    if isinstance(value, str):
        # Quoted as JSON, where a line end is `\n` and a backslash is doubled, so nothing is ambiguous.
        quoted = json.dumps(value, ensure_ascii=False)
        return [visible(line) for line in _broken(quoted)]
    if isinstance(value, dict | list) and len(text) > 100:
        # One line an item: denser than full indentation, and a long item still stands there whole.
        pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        items = [("" if key is None else f"{_compact(key)}: ") + _compact(item) for key, item in pairs]
        first, last = "{}" if isinstance(value, dict) else "[]"
        return [
            first,
            *(f"  {visible(item)}{',' * (n < len(items))}" for n, item in enumerate(items, 1)),
            last,
        ]
    return [visible(text)]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _broken(quoted: str) -> list[str]:
    """Breaks a quoted string after each escaped line end, and not after an escaped backslash before an n."""
    lines, start, at = [], 0, 0
    while (at := quoted.find("\\", at)) >= 0:
        end = quoted[at + 1 : at + 2] == "n"
        at += 2
        if end and at < len(quoted) - 1:
            lines.append(quoted[start:at])
            start = at
    return [*lines, quoted[start:]]


def is_folded(pointer: str, value: str) -> bool:
    """Whether the row is shown only in part until somebody opens it."""
    lines = lines_of(value)
    too_long = len(lines) > FOLD_LINES or sum(map(len, lines)) > FOLD_CHARACTERS
    return too_long or len(row_name(pointer)) > LONG_NAME


def folded(rows: Sequence[tuple[str, str]]) -> set[int]:
    """Which of the rows are folded."""
    return {n for n, row in enumerate(rows) if is_folded(*row)}


def whole(pointer: str, value: str) -> str:
    """The whole of a row that is folded: its value, below its name where that is long."""
    name = row_name(pointer)
    return "\n".join([*([name] if len(name) > LONG_NAME else []), *lines_of(value)])


def unopened(rows: Sequence[tuple[str, str]], opened: set[int]) -> str:
    """Why what is folded and was not opened may not be approved; empty when all of it was."""
    closed = sorted(folded(rows) - opened)
    names = ", ".join(one_line(row_name(rows[n][0]), 40) for n in closed[:3])
    return f"not approved, because {names} was not opened; open what is folded first" if closed else ""
