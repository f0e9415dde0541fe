"""Lays the exact text of an envelope out to be read: the same text, with lines and indents.

Nothing is read into values and written again: numbers keep their digits, a name that stands twice stands twice, and
what is no JSON loses nothing but the blanks between its words. Not recursive: depth is hostile.
"""

from __future__ import annotations

import re

from mew_lab.protocol.visible import visible

__all__ = ["lay_out"]

STEP, DEEPEST = 2, 30
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_OPEN = {"{": "}", "[": "]"}
_SIGNS = frozenset("{}[],:")


def lay_out(text: str, limit: int) -> str:
    """JSON text with a line for each member and element; what cannot be seen is an escape.

    Empty for a text that does not begin as an object or array does. Indents end at 30 levels, the whole at about
    `limit` characters, with an ellipsis.
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
