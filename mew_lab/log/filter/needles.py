"""Derives from a filter the texts that the line of each message that passes must hold: other lines are not read.

`Needle` states in which other spellings a line may hold a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from mew_lab.log.filter.patterns import literals_of
from mew_lab.log.filter.tree import (
    Comparison,
    Conjunction,
    Disjunction,
    FilterTree,
    Presence,
    Reference,
    Value,
)

__all__ = ["Needle", "needles_of"]

MOST = 20  # texts of one needle; more are not looked for
_QUOTE = '"'
_PLAIN = re.compile(r'(?:^")?[ !#-\[\]-~]+')  # of ASCII, without quotation marks, backslashes and controls
_ARRAY_INDEX = re.compile(r"[0-9]+")
_ELSEWHERE = ("event", "verdict", "pattern", "what", "detail", "text")
"""Fields whose values are made from the line, or are JSON in JSON."""
_BACKSLASH = 92
_SLASH = b"\\/"

Array = np.ndarray[Any, np.dtype[np.int64]]
Octets = np.ndarray[Any, np.dtype[np.uint8]]


class Needle(NamedTuple):
    """Texts of plain ASCII of which a line must hold at least one.

    A string of JSON may be spelt with escapes, a record may hold its message in base64, and a line may refer to an
    earlier one for a part of it. A line with any of these is taken for one that holds the text.
    """

    texts: frozenset[bytes]

    def lines(self, data: bytes, ends: Array) -> Array:
        """The numbers of the lines that hold one of the texts, or may hold it; `ends` are the offsets of line feeds."""
        octets = _octets_of(data)
        has_slash = any(b"/" in text for text in self.texts)
        return _lines_with((*self.texts, *_spellings_in(octets, has_slash)), octets, ends)


def _spellings_in(octets: Octets, slash: bool) -> list[bytes]:
    """The beginnings of other spellings that may occur in some lines; with `slash`, also that of a `/`."""
    texts = (b"\\u00", b'se64"', b'"same":{"at":', *((_SLASH,) if slash else ()))
    return [text for text in texts if _begins(octets, text[: 2 if text[0] == _BACKSLASH else 3]).any()]


def _octets_of(data: bytes) -> Octets:
    """The bytes with 8 more, so that a word of 8 bytes begins at each."""
    return np.frombuffer(data + bytes(8), dtype=np.uint8)


def _begins(octets: Octets, few: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether these few bytes stand at each offset where they have room."""
    last = len(octets) - len(few) + 1
    same: np.ndarray[Any, np.dtype[np.bool_]] = octets[:last] == few[0]
    for n in range(1, len(few)):
        same &= octets[n : last + n] == few[n]
    return same


def _offsets_of(octets: Octets, text: bytes) -> Array:
    """The offsets of a text in what `_octets_of` gives."""
    # All offsets of two bytes, then those of them where each further word of 8 bytes follows: faster than to look for
    # the text from one line to the next.
    offsets = np.flatnonzero(_begins(octets, text[:2]))
    words = np.ndarray(len(octets) - 7, np.dtype("<u8"), octets, strides=(1,))
    for n in range(2, len(text), 8):
        part = text[n : n + 8]
        mask, value = (1 << 8 * len(part)) - 1, int.from_bytes(part, "little")
        offsets = offsets[: np.searchsorted(offsets, len(words) - n)]
        offsets = offsets[words[offsets + n] & np.uint64(mask) == np.uint64(value)]
    return offsets


def _lines_with(texts: Sequence[bytes], octets: Octets, ends: Array) -> Array:
    """The numbers of the lines that hold one of the texts, in their order; none of the texts holds a line feed."""
    held = np.zeros(len(ends), dtype=bool)
    for text in texts:
        held[np.searchsorted(ends, _offsets_of(octets, text))] = True
    return np.flatnonzero(held)


def needles_of(tree: FilterTree) -> list[Needle]:
    """What the lines of the messages that pass must hold: one text of each needle; the most telling needle first."""
    return sorted(_needles(tree), key=lambda needle: (len(needle.texts), -min(map(len, needle.texts))))


def _needles(tree: FilterTree) -> list[Needle]:
    if isinstance(tree, Conjunction):
        return list(dict.fromkeys(chain.from_iterable(map(_needles, tree.parts))))
    if isinstance(tree, Disjunction):
        parts = [needles_of(part) for part in tree.parts]
        return _needle(chain.from_iterable(part[0].texts for part in parts)) if parts and all(parts) else []
    if isinstance(tree, Comparison):
        return _of_comparison(tree)
    return _of_path(tree.reference) if isinstance(tree, Presence) else []


def _of_comparison(comparison: Comparison) -> list[Needle]:
    reference, op, value = comparison.reference, comparison.op, comparison.value
    field = reference.field
    if field.needs_facts or field.type not in ("text", "list", "json") or field.name in _ELSEWHERE:
        return []
    texts: list[bytes] = []
    if op == "==":
        texts = [_longest_run(value)]
    elif op == "in" and isinstance(value, tuple):
        texts = [_longest_run(each) for each in value]
    elif op == "matches":
        texts = [_longest_run("\n".join(literals_of(str(value))), within=True)]
    return [*_of_path(reference), *(_needle(texts) if texts and all(texts) else [])]


def _of_path(reference: Reference) -> list[Needle]:
    """The names of the members that lead to a value of the payload."""
    steps = [_longest_run(step) for step in reference.path if not _ARRAY_INDEX.fullmatch(step)]
    return [needle for step in steps if len(step) > 2 for needle in _needle([step])]


def _longest_run(value: Value, *, within: bool = False) -> bytes:
    """The longest part of a text that a line holds as it is; with the quotation mark before it where the text begins."""
    text = f"{'' if within else _QUOTE}{value}" if isinstance(value, str) else ""
    return max(_PLAIN.findall(text), key=len, default="").encode()


def _needle(texts: Iterable[bytes]) -> list[Needle]:
    several = frozenset(texts)
    return [Needle(several)] if len(several) <= MOST else []
