"""Shows a JSON value on a card so that nothing of it is hidden and nothing is cut in silence.  Pure.

What is long is folded: its beginning stands there with its size, and the whole is sent when somebody opens it. It knows
no card and no decision. Spec: threats 16, 17.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from mew_lab.lab.decisions.cards import FOLD_LINES, LONG_NAME, folded, is_folded, lines_of, whole
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.sdk.request_rows import ID, is_routine, row_name

__all__ = ["argument", "compare_lines", "folded", "lines_of", "mark", "whole"]

TITLED = 40  # characters of a value that the title of a card shows whole
MOST_COMPARED = 400  # lines, and characters of a line, that are compared one by one

Pairs = Sequence[tuple[str, str]]


def argument(pointer: str, value: str) -> dict[str, Any]:
    """One row as the views get it: its pointer, a short name that no other row has, and its value as visible text.

    `routine` marks what needs no reading: what the title says whole, or every request says, and the request's own id;
    `key` is equal for equal values. What is `folded` is a beginning.
    """
    lines, name, is_cut = lines_of(value), row_name(pointer), is_folded(pointer, value)
    short = pointer == ID or sum(map(len, lines)) <= TITLED
    key = sha256(value.encode("utf-8", "replace")).hexdigest()[:24]
    row = {
        "pointer": visible(pointer),
        "name": middle(name, LONG_NAME),
        "routine": is_routine(pointer, value) and short and not is_cut,
    }
    if not is_cut:
        return row | {"text": "\n".join(lines), "key": key}
    structure = value[:1] in "[{"
    head = [one_line(value, 160)] if structure else [one_line(line, 160) for line in lines[:2]]
    size = (
        f"{len(lines) - 2} {'items' if value[:1] == '[' else 'fields'}"
        if structure
        else f"{len(lines)} lines"
    )
    if len(lines) <= FOLD_LINES:
        size = f"{sum(map(len, lines))} characters"
    if len(name) > LONG_NAME:
        size += f" under a name of {len(name)} characters"
    return row | {"text": "\n".join(head), "folded": size, "key": key}


def mark(name: str, value: str, last: Mapping[str, str]) -> list[str]:
    """How an argument compares with that of the last call: what kind of difference, and what it was."""
    if name not in last:
        return ["new", ""]
    return ["same", ""] if last[name] == value else ["differs", one_line(last[name], 160)]


def compare_lines(was: str, now: str) -> list[list[str]]:
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
