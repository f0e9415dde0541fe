"""Finds the lines of a journal that hold a text, without reading what they say.

Lines are read, and never mapped into memory: a file may be cut while it is searched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Needle", "find_in_lines"]

_BACKSLASH = 92

Array = np.ndarray[Any, np.dtype[np.int64]]
Find = Callable[[bytes, int], int]
"""Returns the offset of the next match in some bytes from an offset on; -1 where there is none."""


class Needle(NamedTuple):
    """Texts of plain ASCII of which a line must hold at least one.

    A string of JSON may be spelt with escapes, and a record may hold its message in base64. A line with either is taken
    for one that holds the text.
    """

    texts: frozenset[bytes]

    def is_in(self, line: bytes) -> bool:
        """Whether a line holds one of the texts, or may hold it in another spelling."""
        return any(text in line for text in self.texts) or any(text in line for text in self._spellings())

    def lines(self, data: bytes, ends: Array) -> Array:
        """The numbers of the lines that hold one of the texts, or may hold it; `ends` are the offsets of line feeds."""
        octets = np.frombuffer(data, dtype=np.uint8)
        spelt = [text for text in self._spellings() if _may_hold(octets, text)]
        found = [_lines_with(text, data, ends) for text in (*self.texts, *spelt)]
        return found[0] if len(found) == 1 else np.unique(np.concatenate(found))

    def _spellings(self) -> tuple[bytes, ...]:
        slash = (b"\\/",) if any(b"/" in text for text in self.texts) else ()
        return (b"\\u00", b'se64"', *slash)


def _may_hold(octets: np.ndarray[Any, np.dtype[np.uint8]], text: bytes) -> bool:
    """Whether the first bytes of a text occur, two or three; several times faster than a search for a rare text."""
    few = text[:2] if text[0] == _BACKSLASH else text[:3]
    last = max(len(octets) - len(few) + 1, 0)
    same = octets[:last] == few[0]
    for n in range(1, len(few)):
        same &= octets[n : last + n] == few[n]
    return bool(same.any())


def _lines_with(text: bytes, data: bytes, ends: Array) -> Array:
    return find_in_lines(data, ends, lambda data, at: data.find(text, at))[0]


def find_in_lines(data: bytes, ends: Array, find: Find) -> tuple[Array, Array]:
    """The numbers of the lines with a match, and the offset of the first match in each."""
    found, at = [], find(data, 0)
    while at >= 0:
        found.append(at)
        end = data.find(b"\n", at)
        at = find(data, end) if end >= 0 else -1
    offsets = np.array(found, dtype=np.int64)
    return np.searchsorted(ends, offsets), offsets
