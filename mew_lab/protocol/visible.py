"""Writes text for a person: every invisible character becomes an escape.

Text from a participant may contain characters that show nothing, reorder the text around them, or move a cursor. These
are controls, formats (bidirectional ones among them), tags, fillers, variation selectors, unusual spaces and lone
surrogates. `visible` writes each as an escape; all other characters stay. `one_line` and `middle` also cut the text, by
the functions of `text`. None of them escapes HTML.
"""

from __future__ import annotations

import re
import unicodedata

from mew_lab.protocol.text import cut, cut_middle

__all__ = ["for_terminal", "middle", "one_line", "visible", "visible_json", "visible_lines"]

# Letters and marks by category that show as nothing at all: combining grapheme joiner, Hangul fillers, Khmer
# inherent vowels, Mongolian and other variation selectors, the empty Braille pattern.
_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
_BLANKS = re.compile(f"[{_BLANK}]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Nearly all text is ASCII, Latin letters and the usual dashes and quotes; one scan in C says so.
_PLAIN = re.compile("[ -~\u00a1-\u00ac\u00ae-\u024f\u2010-\u2027\u2030-\u205e]*").fullmatch
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """The text with every invisible character as an escape (`\\n`, `\\u202e`, `\\U000e0041`).

    A backslash of the text itself stays unchanged. Where the difference matters, pass the text as a JSON string, in
    which it is doubled.
    """
    if _PLAIN(text) or (text.isprintable() and not _BLANKS.search(text)):
        return text
    return "".join(c if " " <= c <= "~" or not _is_hidden(c) else _escape(c) for c in text)


def _is_hidden(c: str) -> bool:
    category = unicodedata.category(c)
    return category in _HIDDEN or (category == "Zs" and c != " ") or _BLANKS.match(c) is not None


def _escape(c: str) -> str:
    if c in _NAMES:
        return _NAMES[c]
    code = ord(c)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_COLOUR = re.compile(r"(\x1b\[(?:0|38;5;[0-9]{1,3})m)")  # those that we use


def for_terminal(text: str) -> str:
    """The text for a terminal: line breaks and plain colours stay, all other hidden characters are escaped.

    It is the last filter, after texts of peers have been made visible.
    """
    if _PLAIN(text):
        return text
    lines = (_COLOUR.split(line) for line in text.split("\n"))
    return "\n".join(
        "".join(part if at % 2 else visible(part) for at, part in enumerate(line)) for line in lines
    )


def visible_lines(text: str) -> str:
    """The visible text of several lines: line ends and tabs stay, as a terminal shows them."""
    if _PLAIN(text):
        return text
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))


def visible_json(text: str) -> str:
    """JSON text with every invisible character as an escape of JSON, so that its meaning stays."""
    if _PLAIN(text):
        return text
    return "".join(c if " " <= c <= "~" or c == "\n" or not _is_hidden(c) else _json_escape(c) for c in text)


def _json_escape(c: str) -> str:
    units = c.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def one_line(text: str, limit: int = 120) -> str:
    """The visible text in at most `limit` characters, the end cut with an ellipsis."""
    # What is cut away need not be escaped first: a megabyte would cost milliseconds for a line of a table.
    shown = visible(text[: limit + 1])
    return cut(shown, limit)


def middle(text: str, limit: int = 24) -> str:
    """A long id, shortened in its middle so that both ends can be compared."""
    return cut_middle(visible(text), limit)
