"""Evaluates a filter in the index of a log: conditions on columns in the index, those on messages in the lines.

A filter has two truth values, so each part of it is a set of rows, and `and`, `or` and `not` combine these sets. Parts
on columns are evaluated first, by SQL. Of the rows that they leave, the messages are read from the journal in one pass,
and the predicate judges them: it stays the only reader of JSON. Lines that cannot pass, because a text that the filter
needs does not stand in them, are not parsed (`Needle`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import orjson

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.fields import NO_FACTS
from mew_lab.log.filter.patterns import BytesSearch, compile_bytes_search, compile_search, literals_of
from mew_lab.log.filter.predicate import compile_predicate, needs_facts
from mew_lab.log.filter.sql import compile_sql
from mew_lab.log.filter.tree import (
    Comparison,
    Conjunction,
    Disjunction,
    FilterTree,
    Inversion,
    Presence,
    Reference,
    TextSearch,
    Value,
    references,
)
from mew_lab.log.line import read_members

if TYPE_CHECKING:
    from mew_lab.log.index import LogIndex

__all__ = ["Needle", "Rows", "needles_of", "select_places"]


BLOCK = 1 << 18  # bytes of lines that are read at a time; they stay in the cache of the processor
FEW = 5_000  # rows that are read one by one

Rows = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Source = Literal["columns", "message", "record"]
"""What a part of a filter reads: columns of the index, the text of the message, or the whole record."""


def select_places(index: LogIndex, tree: FilterTree, *, events: bool = True) -> Rows:
    """The places of the rows that pass a filter, in their order; with `events`, those of records without a message too.

    Where the filter reads facts from the ledger or the diagnosis, the index must have them.
    """
    selection = _Selection(index)
    if selection.source(tree) == "columns":
        sql = compile_sql(tree)
        return index.rows(sql.where, sql.parameters, events=events, view=selection.view(tree))
    return selection.select(tree, events)


class _Message(RecordedEntry):
    """The entry of a record of which only the message is known."""

    def __init__(self, raw: str, members: Mapping[str, Any]) -> None:
        self.raw = raw
        self.members = members


class _Selection:
    """One evaluation. A mask has an element for each row of the index, in their order."""

    def __init__(self, index: LogIndex) -> None:
        self._index = index
        self._columns = index.column_names

    def source(self, tree: FilterTree) -> Source | None:
        """What a part of a filter reads; None where it must be taken apart."""
        if isinstance(tree, Inversion):
            return self.source(tree.part)
        if isinstance(tree, Conjunction | Disjunction):
            sources = {self.source(part) for part in tree.parts}
            return sources.pop() if len(sources) == 1 else None if sources else "columns"
        if isinstance(tree, TextSearch):
            return None
        field = tree.reference.field
        if field.type == "json" or field.name == "text":
            return "message"
        return "columns" if field.name in self._columns else "record"

    def view(self, tree: FilterTree) -> str:
        """The view of the index that a filter on columns is evaluated in."""
        if not needs_facts(tree):
            return "entries"
        facts = self._index.view_of_facts({reference.field.name for reference in references(tree)})
        # A message without facts has no row there.
        if facts is None or compile_predicate(tree)(_Message("", {}), NO_FACTS):
            return "judged"
        return facts

    def select(self, tree: FilterTree, events: bool) -> Rows:
        spans = self._index.fetch(
            "SELECT place, file, start, length, body, size, message FROM lines ORDER BY place"
        )
        self._places: Rows = spans["place"]
        self._spans = spans
        message = np.asarray(spans["message"], dtype=bool)
        self._apart = message & (spans["body"] == 0)  # texts that are escaped in their lines, or in no line
        self._in_lines = message & ~self._apart
        wanted = np.ones(len(self._places), dtype=bool) if events else message
        return np.asarray(self._places[self._mask(tree, wanted)], dtype=np.int64)

    def _mask(self, tree: FilterTree, wanted: Mask) -> Mask:
        """The rows among the wanted ones that pass."""
        source = self.source(tree)
        if source == "columns":
            sql = compile_sql(tree)
            places = self._index.rows(sql.where, sql.parameters, events=True, view=self.view(tree))
            return self._of_places(places) & wanted
        if source == "message":
            return self._judge_messages(tree, wanted)
        if source == "record":
            return self._judge_records(tree, wanted)
        if isinstance(tree, Inversion):
            return wanted & ~self._mask(tree.part, wanted)
        if isinstance(tree, TextSearch):
            return self._search(tree, wanted)
        assert isinstance(tree, Conjunction | Disjunction)
        return self._join(tree, wanted)

    def _join(self, tree: Conjunction | Disjunction, wanted: Mask) -> Mask:
        join = type(tree)
        parts: list[FilterTree] = []
        for source in ("columns", None, "message", "record"):  # the fastest first
            several = tuple(part for part in tree.parts if self.source(part) == source)
            parts += [join(several)] if several and source else several
        found = np.zeros_like(wanted)
        for part in parts:
            passing = self._mask(part, wanted)
            if join is Conjunction:
                wanted = found = passing
            else:
                found, wanted = found | passing, wanted & ~passing
        return found

    def _of_places(self, places: Rows) -> Mask:
        mask = np.zeros(len(self._places), dtype=bool)
        mask[np.searchsorted(self._places, places)] = True
        return mask

    def _search(self, search: TextSearch, wanted: Mask) -> Mask:
        sql = compile_sql(search)  # what it reads of the columns
        found = self._of_places(self._index.rows(sql.where, sql.parameters, events=True)) & wanted
        find = compile_bytes_search(search.pattern)
        left = wanted & ~found
        for block in self._blocks(left & self._in_lines):
            found[list(_search_block(find, block))] = True
        matches = compile_search(search.pattern)
        for row, raw in self._texts_apart(left):
            found[row] = matches(raw)
        return found

    # --- parts that the predicate judges ---

    def _judge_messages(self, tree: FilterTree, wanted: Mask) -> Mask:
        predicate = compile_predicate(tree)
        needs_raw = any(reference.field.name == "text" for reference in references(tree))
        found = np.zeros_like(wanted)
        if predicate(
            _Message("", {}), NO_FACTS
        ):  # what a record without a message, or without a text, counts as
            found |= wanted & ~self._in_lines
        message, passing = _Message("", {}), list[int]()
        for block in self._blocks(wanted & self._in_lines, next(iter(needles_of(tree)), None)):
            data = block.data
            for row, begin, end in zip(block.rows, block.begins, block.ends, strict=True):
                try:
                    # It was read when it was indexed, so its nesting is not checked again.
                    message.members = orjson.loads(data[begin:end])
                    if needs_raw:
                        message.raw = data[begin:end].decode()
                    if predicate(message, NO_FACTS):
                        passing.append(row)
                except (ValueError, AttributeError):  # no JSON, or no object
                    if not self._index.is_as_indexed:
                        raise self._index.changed(row) from None
                    # DuckDB takes it for JSON, as no other reader does: it is no message.
        found[passing] = True
        for row, raw in self._texts_apart(wanted):
            found[row] = predicate(_Message(raw, read_members(raw) or {}), NO_FACTS)
        return found

    def _judge_records(self, tree: FilterTree, wanted: Mask) -> Mask:
        predicate = compile_predicate(tree)
        found = np.zeros_like(wanted)
        rows = np.flatnonzero(wanted)
        places = self._places[rows]
        for row, place, record in zip(rows, places.tolist(), self._index.records(places), strict=True):
            found[row] = predicate(RecordedEntry(record, place), NO_FACTS)
        return found

    # --- texts ---

    def _texts_apart(self, wanted: Mask) -> Iterator[tuple[int, str]]:
        """The wanted rows whose texts do not stand in lines as they are, with these texts."""
        rows = np.flatnonzero(wanted & self._apart)
        before = 0
        for places in self._index.batches(self._places[rows], 4096):
            several, before = rows[before : before + len(places)], before + len(places)
            texts = self._index.texts(places)
            yield from ((row, text or "") for row, text in zip(several.tolist(), texts, strict=True))

    def _blocks(self, wanted: Mask, needle: Needle | None = None) -> Iterator[_Block]:
        """The messages of the wanted rows, by parts of the files; only those whose lines may hold the needle."""
        rows = np.flatnonzero(wanted)
        files, starts, lengths = (self._spans[name][rows] for name in ("file", "start", "length"))
        bodies = starts + self._spans["body"][rows]
        ends, sizes = starts + lengths, self._spans["size"][rows]
        most = BLOCK if len(rows) > FEW else 0
        first = 0
        while first < len(rows):
            last = first + 1
            if most:
                of_file = int(np.searchsorted(files, files[first], side="right"))
                last = max(last, first + int(np.searchsorted(ends[first:of_file], starts[first] + most)))
            base = int(starts[first])
            data = self._index.reader.read(int(files[first]), base, int(ends[last - 1]) - base)
            if len(data) < ends[last - 1] - base:
                raise self._index.changed(int(rows[first]))
            chosen = np.arange(first, last)
            if needle is not None and most:  # a line is parsed in the time that it takes to look for more
                chosen = chosen[needle.lines(data, np.asarray(ends[first:last] - base))]
            begins = bodies[chosen] - base
            yield _Block(data, rows[chosen].tolist(), begins.tolist(), (begins + sizes[chosen]).tolist())
            first = last


class _Block(NamedTuple):
    """A part of a file, and the messages in it: their rows, and the offsets of their texts."""

    data: bytes
    rows: list[int]
    begins: list[int]
    ends: list[int]


def _search_block(search: BytesSearch, block: _Block) -> Iterator[int]:
    """The rows of a block with a match within the text of the message."""
    data, rows, begins, ends = block
    row, at = 0, begins[0] if rows else 0
    while row < len(rows):
        span = search(data, at, len(data))
        if span is None:
            return
        row = bisect_left(ends, span[1], row)
        if row == len(rows):
            return
        begin, end = begins[row], ends[row]
        # A match that begins before the text may hide one within it.
        if span[0] >= begin or search(data, begin, end) is not None:
            yield rows[row]
        row += 1
        at = begins[row] if row < len(rows) else len(data)


# --- what the lines of messages that pass must hold ---

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
