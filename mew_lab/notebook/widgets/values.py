"""How does a JSON value stand on a card, so that nothing of it is hidden and nothing is cut in silence?  Pure.

What is long is folded: its beginning stands there with its size, and the whole is sent when somebody opens it. It knows
no card and no decision. Spec: threats 16, 17.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from mew_lab.protocol.visible import one_line, visible

__all__ = ["argument", "compared", "folded", "lines_of", "mark"]

FOLD_LINES, FOLD_CHARACTERS = 6, 480
MOST_COMPARED = 400  # lines, and characters of a line, that are compared one by one

Pairs = Sequence[tuple[str, str]]


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


def _is_folded(lines: list[str]) -> bool:
    return len(lines) > FOLD_LINES or sum(map(len, lines)) > FOLD_CHARACTERS


def folded(arguments: Pairs) -> set[int]:
    """Which arguments are shown only in part until somebody opens them."""
    return {n for n, (_, value) in enumerate(arguments) if _is_folded(lines_of(value))}


def argument(name: str, value: str) -> dict[str, Any]:
    """One argument as the views get it; `key` is equal for equal values."""
    lines = lines_of(value)
    key = sha256(value.encode("utf-8", "replace")).hexdigest()[:24]
    if not _is_folded(lines):
        return {"name": visible(name), "text": "\n".join(lines), "key": key}
    structure = value[:1] in "[{"
    head = [one_line(value, 160)] if structure else [one_line(line, 160) for line in lines[:2]]
    size = (
        f"{len(lines) - 2} {'items' if value[:1] == '[' else 'fields'}"
        if structure
        else f"{len(lines)} lines"
    )
    if len(lines) <= FOLD_LINES:
        size = f"{sum(map(len, lines))} characters"
    return {"name": visible(name), "text": "\n".join(head), "folded": size, "key": key}


def mark(name: str, value: str, last: Mapping[str, str]) -> list[str]:
    """How an argument compares with that of the last call: what kind of difference, and what it was."""
    if name not in last:
        return ["new", ""]
    return ["same", ""] if last[name] == value else ["differs", one_line(last[name], 160)]


def compared(was: str, now: str) -> list[list[str]]:
    """Two values as lines, each with its sign: ` ` in both, `-` before, `+` now; what is equal and far off is left
    out and counted. Empty where it is too much to compare: then both stand there whole."""
    old, new = lines_of(was), lines_of(now)
    if max(len(old), len(new)) > MOST_COMPARED or max(map(len, old + new)) > MOST_COMPARED:
        return []
    rows: list[list[str]] = []
    for how, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if how == "equal":
            same = old[a:b]
            rows += (
                [[" ", line] for line in same]
                if len(same) <= 4
                else [[" ", same[0]], ["…", f"{len(same) - 2} equal lines"], [" ", same[-1]]]
            )
        else:
            rows += [["-", line] for line in old[a:b]] + [["+", line] for line in new[c:d]]
    return rows
