"""Finds the place that a warning means, so that a view can show it there.  Pure.

A warning quotes what it was found by, after a colon; the place is looked for among the texts that are shown, so it fits
whatever the warning was made from. A warning that quotes nothing that is shown has no place.

Spec: threat 16.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mew_lab.lab.decisions.cards import whole
from mew_lab.protocol.visible import visible
from mew_lab.sdk.request_rows import row_name

__all__ = ["place_warnings"]

# What was invisible, as a text in quotes shows it: an escape whose backslash is not itself escaped.
_UNESCAPED = r"(?<!\\)(?:\\\\)*"
_ESCAPED = re.compile(_UNESCAPED + r"(\\(?:[bfr]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}))")
# A warning that says which character it is, by its number.
_BY_NUMBER = re.compile(r"(?:null byte|control character) in .*: \\u([0-9a-fA-F]{4})")
_BLANK = re.compile(r"\s{60,}")
_SPELT = re.compile(r"\\\\(?:[bfnrt]|u[0-9a-f]{4})|\\\\|\"")  # in an escaped needle
_SHORT = {rf"\\u{ord(c):04x}": re.escape(json.dumps(c)[1:-1]) for c in "\b\f\r\t"}
_READS = re.compile(r" \(reads .*\)\Z")  # what letters in disguise look like
SHORTEST = 2  # characters: what is shorter stands everywhere, and is looked for in the row that is named


def place_warnings(warnings: Sequence[str], arguments: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Each warning as visible text with the row, and the first and the last character in it, that it means.

    The characters are counted as a page counts them, in units of UTF-16. `row` is missing where nothing was found.
    """
    texts = [(row_name(pointer), whole(pointer, value)) for pointer, value in arguments] if warnings else []
    return [{"text": visible(warning)} | _place(visible(warning), texts) for warning in warnings]


def _place(warning: str, texts: Sequence[tuple[str, str]]) -> dict[str, int]:
    names = [name for name, _ in texts]
    named = [n for n, name in enumerate(names) if _is_in(warning, name)]
    named = named or [n for n, name in enumerate(names) if _is_of(warning, name)]
    order = [*named, *(n for n in range(len(texts)) if n not in set(named))]
    if place := _unseen(warning, texts, order):
        return place
    for needle in _needles(warning):
        shown = _as_shown(needle)
        for row in order if len(needle) >= SHORTEST else named:
            if hit := shown.search(texts[row][1]):
                return _span(texts[row][1], row, *hit.span())
    # It means the row, and no characters of it.
    return {"row": named[0], "start": 0, "end": 0} if named else {}


def _unseen(warning: str, texts: Sequence[tuple[str, str]], order: Sequence[int]) -> dict[str, int]:
    """The place of what has no shape of its own: an escape, or blanks; empty where that is not what is warned of."""
    if by_number := _BY_NUMBER.fullmatch(warning):
        # JSON has a short escape for some of them.
        shown = visible(json.dumps(chr(int(by_number[1], 16)), ensure_ascii=False)[1:-1])
        what = re.compile(_UNESCAPED + f"({re.escape(shown)})")
    elif "characters that cannot be seen in " in warning:
        what = _ESCAPED
    elif warning.startswith("long white space in "):
        what = _BLANK
    else:
        return {}
    for row in order:
        if hit := what.search(texts[row][1]):
            return _span(texts[row][1], row, *hit.span(len(hit.groups())))
    return {}


def _own(name: str) -> str:
    return name.rpartition("/")[2] if name.startswith("/") else name


def _is_in(warning: str, name: str) -> bool:
    """Whether the warning says of something that it stands in this row."""
    return bool(own := _own(name)) and re.search(f" in {re.escape(own)}(?=[:.[ ]|\\Z)", warning) is not None


def _is_of(warning: str, name: str) -> bool:
    """Whether the warning names this row: by its label, or by the last member that a JSON pointer names."""
    own = _own(name)
    at = f" {warning}".find(f" {own}")
    if not own or at < 0:
        return False
    return f" {warning}"[at + 1 + len(own) :][:1] in ("", ":", ".", "[", " ")


def _needles(warning: str) -> Iterator[str]:
    """What the warning may quote: all after a colon; the longest first."""
    at = 0
    while (at := warning.find(": ", at) + 2) > 1:
        said = _READS.sub("", warning[at:]).removesuffix("…")
        if said:
            yield said


def _as_shown(needle: str) -> re.Pattern[str]:
    """What finds a quoted text where JSON shows it.

    There a quote and a backslash are escaped, some escapes are shorter, and the text goes on in the next line after each
    line end. A warning spells a line end as `\\n` and leaves a backslash as it is, so `\\n` there may mean either.
    """
    return re.compile(_SPELT.sub(_in_json, re.escape(needle)))


def _in_json(spelt: re.Match[str]) -> str:
    text = spelt[0]
    if text == '"':
        return r'\\?"'
    if text == r"\\":
        return r"\\\\?"
    if text == r"\\n":
        return r"(?:\\n\n?|\\\\n)"
    short = _SHORT.get(text)
    return rf"(?:\\?{text}|{short})" if short else rf"\\?{text}"


def _span(text: str, row: int, start: int, end: int) -> dict[str, int]:
    first = _units(text[:start])
    return {"row": row, "start": first, "end": first + _units(text[start:end])}


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
