"""Shows a space in a terminal: each envelope as one line, printed when it arrives.

`join` and `tail` use it. Control characters in texts of peers are made visible.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from mew_lab.errors import MewError
from mew_lab.lab.rows import Row, Rows
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.fields import NO_FACTS
from mew_lab.log.filter.predicate import compile_predicate
from mew_lab.log.filter.tree import FilterTree
from mew_lab.protocol.address import Address
from mew_lab.protocol.families import family_of
from mew_lab.protocol.visible import one_line, visible, visible_json
from mew_lab.sdk.client import MEWClient

__all__ = ["Console", "row_line"]

# The ANSI colours nearest to the accents of the families of kinds; the others are grey.
_ACCENTS = {
    "chat": 117,
    "mcp": 32,
    "proposal": 214,
    "error": 202,
    "reasoning": 176,
    "capability": 36,
    "stream": 178,
}
_CALLS = ("mcp/request", "mcp/response")


def row_line(row: Row, *, start: float, colour: bool = False, sign: str = "#") -> str:
    """One envelope as one line: number, seconds since `start`, sender, addressees, kind, summary, refusal.

    `sign` is `~` where the numbers are places in this view alone (R37).
    """
    kind = row.kind or "no kind"
    route = f"{one_line(row.sender, 32)} → {one_line(', '.join(row.to) or 'all', 32)}"
    shown = f"{one_line(kind, 28):<20}"
    if colour:
        accent = _ACCENTS.get(family_of(kind).name, 245)
        shown = f"\x1b[38;5;{accent}m{shown}\x1b[0m"
    parts = [
        f"{sign + str(row.seq):>6}  {row.t - start:>7.2f}  {route:<28}  {shown}  {one_line(row.what, 160)}"
    ]
    if row.kind == "mcp/proposal":
        parts.append(f"({visible(row.id)})")
    if row.correlates:
        parts.append(f"↳{sign}{row.correlates}")
    if row.verdict == "refused":
        parts.append(f"refused: {one_line(row.code, 80) or 'no reason stated'}")
    return "  ".join(parts)


class TypedLines(Protocol):
    """Reads typed lines, as `LinePrompt` does."""

    def lines(self) -> Iterator[str]:
        """Yields them until the input ends, or it is closed."""

    def close(self) -> None:
        """Ends `lines`, on any thread."""


class Console:
    """Prints the rows of a space when they arrive; `lines` gives the typed lines until input or connection ends.

    With `exact` it prints the text of each envelope instead of a summary; with the tree of a filter, only envelopes that
    pass it; with `brief` no lists of tools that somebody asks for, and no answers with them.
    """

    def __init__(
        self,
        rows: Rows,
        client: MEWClient,
        *,
        url: str,
        say: Callable[[str], object],
        colour: bool,
        exact: bool = False,
        brief: bool = False,
        tree: FilterTree | None = None,
    ) -> None:
        self._rows = rows
        self._client = client
        self._url = Address(url)
        self._say = say
        self._colour = colour
        self.exact = exact
        self._brief = brief
        self._passes = compile_predicate(tree) if tree is not None else None
        self._last = 0
        self._start: float | None = None
        # Rows are printed on the loop's thread and, once at the start, on this one.
        self._printing = threading.Lock()
        self._typed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._failure = ""
        self._reader: TypedLines | None = None
        rows.subscribe(self._print)
        self._print()
        client.on_disconnected(self._on_disconnected)

    def lines(self, *, reading: bool | TypedLines) -> Iterator[str]:
        """Yields typed lines until the input or the connection ends; reads none unless `reading`.

        Args:
            reading: whether lines are read from stdin, or what reads them.

        Raises:
            MewError: The connection is lost for good.
        """
        if not isinstance(reading, bool):
            yield from self._read_with(reading)
        elif reading:
            threading.Thread(target=self._read, daemon=True, name="mew-lab-stdin").start()
        while (line := self._typed.get()) is not None:
            yield line
        if self._failure:
            raise MewError(f"The connection to {self._url} has ended: {self._failure}")

    def _read_with(self, reader: TypedLines) -> Iterator[str]:
        self._reader = reader
        if not self._failure:  # it may be lost already
            yield from reader.lines()
        self._typed.put(None)

    def _read(self) -> None:
        for line in sys.stdin:
            self._typed.put(line)
        self._typed.put(None)

    def _on_disconnected(self, *_: object) -> None:
        if self._client.failure is not None:  # otherwise the client connects again by itself
            self._failure = str(self._client.failure)
            self._typed.put(None)
            if self._reader is not None:
                self._reader.close()

    def _print(self) -> None:
        with self._printing:
            for row in self._rows.since(self._last, 10_000):
                self._last = row.seq
                if self._brief and not self.exact and row.plumbing and row.kind in _CALLS:
                    continue
                if self._passes is not None:
                    record = self._rows.record(row.seq)
                    if record is None or not self._passes(RecordedEntry(record, seq=row.seq), NO_FACTS):
                        continue
                self._say(visible_json(self._rows.raw(row.seq)) if self.exact else self._line(row))

    def _line(self, row: Row) -> str:
        self._start = row.t if self._start is None else self._start
        return row_line(row, start=self._start, colour=self._colour, sign=self._rows.sign)
