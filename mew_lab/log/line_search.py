"""Finds the lines of a journal that hold a text, without reading what they say.

A file is read in parts that end with a line, and is not mapped into memory: it may be cut while it is searched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mew_lab.log.line import read_members
from mew_lab.log.reading import LINE_LIMIT

__all__ = ["FoundLine", "FoundLines", "LinePart", "Needle", "find_in_lines", "find_lines", "read_parts"]

PART = 1 << 17  # bytes that are read at a time; they stay in the cache of the processor
_LINE_FEED, _BACKSLASH = 10, 92
_SLASH = b"\\/"
_BLANK = np.zeros(256, dtype=bool)
_BLANK[[*b" \t\n\r\x0b\x0c"]] = True

Array = np.ndarray[Any, np.dtype[np.int64]]
Find = Callable[[bytes, int], int]
"""Returns the offset of the next match in some bytes from an offset on; -1 where there is none."""


class Needle(NamedTuple):
    """Texts of plain ASCII of which a line must hold at least one.

    A string of JSON may be spelt with escapes, and a record may hold its message in base64. A line with either is taken
    for one that holds the text.
    """

    texts: frozenset[bytes]

    def lines(self, data: bytes, ends: Array) -> Array:
        """The numbers of the lines that hold one of the texts, or may hold it; `ends` are the offsets of line feeds."""
        return _lines_with(self._texts_in(_spellings_in(data, self._has_slash)), data, ends)

    @property
    def _has_slash(self) -> bool:
        return any(b"/" in text for text in self.texts)

    def _texts_in(self, spellings: Sequence[bytes]) -> tuple[bytes, ...]:
        """The texts of which a line of a part must hold one; `spellings` are those that may occur in the part."""
        return (*self.texts, *(text for text in spellings if text != _SLASH or self._has_slash))


def _spellings_in(data: bytes, slash: bool) -> list[bytes]:
    """The beginnings of other spellings that may occur in some lines; with `slash`, also that of a `/`."""
    octets = np.frombuffer(data, dtype=np.uint8)
    return [text for text in (b"\\u00", b'se64"', *((_SLASH,) if slash else ())) if _may_hold(octets, text)]


def _may_hold(octets: np.ndarray[Any, np.dtype[np.uint8]], text: bytes) -> bool:
    """Whether the first bytes of a text occur, two or three; several times faster than a search for a rare text."""
    few = text[:2] if text[0] == _BACKSLASH else text[:3]
    last = max(len(octets) - len(few) + 1, 0)
    same = octets[:last] == few[0]
    for n in range(1, len(few)):
        same &= octets[n : last + n] == few[n]
    return bool(same.any())


def _lines_with(texts: Sequence[bytes], data: bytes, ends: Array) -> Array:
    """The numbers of the lines that hold one of the texts."""
    found = [find_in_lines(data, ends, lambda data, at, text=text: data.find(text, at))[0] for text in texts]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


class LinePart(NamedTuple):
    """A part of a file: whole lines, the offset of the first, and the offsets of their line feeds within the part."""

    start: int
    data: bytes
    ends: Array

    @property
    def begins(self) -> Array:
        """The offsets of the lines within the part."""
        return np.concatenate(([0], self.ends[:-1] + 1)) if len(self.ends) else self.ends


class FoundLine(NamedTuple):
    """A line without its line feed: the number of its row among those of its part, from 0, and its offset."""

    row: int
    start: int
    line: bytes


class FoundLines(NamedTuple):
    """The lines that were found in a part of a file, and the number of all rows of the part; blank lines have no row."""

    lines: list[FoundLine]
    rows: int


def read_parts(path: Path) -> Iterator[LinePart | None]:
    """The parts of a file, without a torn last line. None, as the last one, before a line that is too long."""
    start, rest = 0, b""
    with path.open("rb", buffering=0) as file:
        while data := file.read(PART):
            data = rest + data if rest else data
            cut = data.rfind(b"\n") + 1
            rest = data[cut:]
            if cut:
                part = data[:cut]
                ends = np.flatnonzero(np.frombuffer(part, dtype=np.uint8) == _LINE_FEED)
                if np.diff(ends, prepend=-1).max() > LINE_LIMIT:
                    yield None
                    return
                yield LinePart(start, part, ends)
                start += cut
            if len(rest) > LINE_LIMIT:
                yield None
                return
    if rest and read_members(rest) is not None:
        yield LinePart(start, rest + b"\n", np.array([len(rest)]))


def find_in_lines(data: bytes, ends: Array, find: Find) -> tuple[Array, Array]:
    """The numbers of the lines with a match, and the offset of the first match in each."""
    found, at = [], find(data, 0)
    while at >= 0:
        found.append(at)
        end = data.find(b"\n", at)
        at = find(data, end) if end >= 0 else -1
    offsets = np.array(found, dtype=np.int64)
    return np.searchsorted(ends, offsets), offsets


def find_lines(path: Path, needles: Sequence[Needle]) -> Iterator[FoundLines | None]:
    """The lines that may hold a text of each needle, by parts of the file; None where it has a line that is too long."""
    for part in read_parts(path):
        if part is None:
            yield None
            return
        data, begins = part.data, part.begins
        blank = [
            n
            for n in np.flatnonzero(_BLANK[np.frombuffer(data, dtype=np.uint8)[begins]]).tolist()
            if not data[begins[n] : part.ends[n]].strip()
        ]
        spellings = _spellings_in(data, any(needle._has_slash for needle in needles))
        first, *others = (needle._texts_in(spellings) for needle in needles)
        found = []
        rows = _lines_with(first, data, part.ends)
        for n, begin, end in zip(rows.tolist(), begins[rows].tolist(), part.ends[rows].tolist(), strict=True):
            line = data[begin:end]
            for texts in others:
                if texts[0] not in line and not any(text in line for text in texts[1:]):
                    break
            else:
                if n not in blank:
                    found.append(FoundLine(n - bisect_left(blank, n), part.start + begin, line))
        yield FoundLines(found, len(part.ends) - len(blank))
