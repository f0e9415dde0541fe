"""Finds the lines of a journal that hold a text, without reading what they say.

A file is read in parts that end with a line, and is not mapped into memory: it may be cut while it is searched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mew_lab.log.line import read_members
from mew_lab.log.reading import LINE_LIMIT, open_regular

__all__ = ["FoundLine", "FoundLines", "LinePart", "Needle", "find_lines", "read_parts"]

PART = 1 << 18  # bytes that are read at a time; they stay in the cache of the processor
_LINE_FEED, _BACKSLASH = 10, 92
_SLASH = b"\\/"
_BLANK = np.zeros(256, dtype=bool)
_BLANK[[*b" \t\n\r\x0b\x0c"]] = True

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
        return _lines_with(self._texts_in(_spellings_in(octets, self._has_slash)), octets, ends)

    @property
    def _has_slash(self) -> bool:
        return any(b"/" in text for text in self.texts)

    def _texts_in(self, spellings: Sequence[bytes]) -> tuple[bytes, ...]:
        """The texts of which a line of a part must hold one; `spellings` are those that may occur in the part."""
        return (*self.texts, *(text for text in spellings if text != _SLASH or self._has_slash))


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
    with open_regular(path, buffering=0) as file:
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


def find_lines(path: Path, needles: Sequence[Needle]) -> Iterator[FoundLines | None]:
    """The lines that may hold a text of each needle, by parts of the file; None where it has a line that is too long."""
    for part in read_parts(path):
        if part is None:
            yield None
            return
        data, begins = part.data, part.begins
        octets = _octets_of(data)
        blank = [
            n
            for n in np.flatnonzero(_BLANK[octets[begins]]).tolist()
            if not data[begins[n] : part.ends[n]].strip()
        ]
        spellings = _spellings_in(octets, any(needle._has_slash for needle in needles))
        first, *others = (needle._texts_in(spellings) for needle in needles)
        found = []
        rows = _lines_with(first, octets, part.ends)
        for n, begin, end in zip(rows.tolist(), begins[rows].tolist(), part.ends[rows].tolist(), strict=True):
            line = data[begin:end]
            for texts in others:
                if texts[0] not in line and not any(text in line for text in texts[1:]):
                    break
            else:
                if n not in blank:
                    found.append(FoundLine(n - bisect_left(blank, n), part.start + begin, line))
        yield FoundLines(found, len(part.ends) - len(blank))
