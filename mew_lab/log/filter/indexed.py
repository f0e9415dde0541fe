"""Evaluates a filter in the index of a log: conditions on columns in the index, those on messages in the lines.

A filter has two truth values, so each part of it is a set of rows, and `and`, `or` and `not` combine these sets. Parts
on columns are evaluated first, by SQL. Of the rows that they leave, the messages are read from the journal in one pass,
and the predicate judges them: it stays the only reader of JSON. Lines that cannot pass, because a text that the filter
needs does not stand in them, are not parsed (`needles`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import orjson

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.fields import NO_FACTS
from mew_lab.log.filter.needles import Needle, needles_of
from mew_lab.log.filter.patterns import BytesSearch, compile_bytes_search, compile_search
from mew_lab.log.filter.predicate import compile_predicate, needs_facts
from mew_lab.log.filter.sql import compile_sql
from mew_lab.log.filter.tree import (
    Conjunction,
    Disjunction,
    FilterTree,
    Inversion,
    TextSearch,
    references,
)
from mew_lab.log.line import read_members

if TYPE_CHECKING:
    from mew_lab.log.index import LogIndex

__all__ = ["Rows", "select_places"]

BLOCK = 1 << 18  # bytes of lines that are read at a time; they stay in the cache of the processor
FEW = 5_000  # rows that are read one by one

Rows = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Source = Literal["columns", "message", "record"]
"""What a part of a filter reads: columns of the index, the text of the message, or the whole record."""


def select_places(index: LogIndex, tree: FilterTree, *, events: bool = True) -> Rows | None:
    """The places of the rows that pass a filter, in their order; with `events`, those of records without a message too.

    None where the filter reads facts from the ledger or the diagnosis that the index does not have.
    """
    selection = _Selection(index)
    if not selection.knows(tree):
        return None
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
        self._columns = index.known_facts | index.column_names

    def knows(self, tree: FilterTree) -> bool:
        """Whether the index has all facts that the filter reads."""
        return all(
            reference.field.name in self._columns
            for reference in references(tree)
            if reference.field.needs_facts
        )

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
        names = ("place", "file", "start", "length", "body", "size", "message")
        spans = self._index.columns(names)
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
