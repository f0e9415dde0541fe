"""Lays out the exact text of an envelope for reading: the same text, with lines and indents.

The text is not parsed into values and serialised again. Numbers keep their digits, and a name that occurs twice stays.
Text that is no JSON loses only the blanks between its words. The code is not recursive, for a peer chooses the depth.
"""

from __future__ import annotations

import re

from mew_lab.protocol.visible import visible

__all__ = ["lay_out"]

STEP, DEEPEST = 2, 30  # blanks a level, and levels: deeper text, which a peer may send, would leave the page
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_OPEN = {"{": "}", "[": "]"}
_SIGNS = frozenset("{}[],:")


def lay_out(text: str, limit: int) -> str:
    """JSON text with a line for each member and element, and with escapes for invisible characters.

    The result is empty for a text that does not begin like an object or an array. Indents stop at 30 levels. The
    result ends at about `limit` characters, with an ellipsis.
    """
    if text.lstrip(" \t\r\n")[:1] not in _OPEN:
        return ""
    parts: list[str] = []
    size = depth = 0
    before = ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        shown = token if token in _SIGNS else visible(token)
        closes = token in ("}", "]")
        if closes:
            depth = max(0, depth - 1)
        if before in _OPEN:
            part = shown if token == _OPEN[before] else _line(depth) + shown
        elif before == "," or closes:
            part = _line(depth) + shown
        elif before == ":":
            part = f" {shown}"
        else:
            part = shown
        if token in _OPEN:
            depth += 1
        size += len(part)
        parts.append(part)
        if size > limit:
            parts.append("…")
            break
        before = token
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + " " * (STEP * min(depth, DEEPEST))
