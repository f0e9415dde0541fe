"""The values that a lab's methods return to a person: readable as text, and shown as tables in a notebook.

They use neither IPython nor HTML. All of them await to themselves, so `await lab.who()` is legal everywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Self

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line

__all__ = ["Listing", "Note", "SentEnvelope"]

WIDTH = 60  # characters of one cell in the text form
MOST_LINES = 500  # rows in the text form


class _Settled:
    """A value that awaits to itself at once."""

    def __await__(self) -> Generator[Any, None, Self]:
        return self
        yield  # makes this a generator, as __await__ must be


def _plain(value: object) -> str:
    return one_line(str(value), WIDTH)


class Listing(_Settled):
    """Rows under named columns; `empty` is the sentence shown when there are none, `note` one line below them.

    Iterating gives the rows, `len` their number, `str` an aligned table of the last 500, with long cells cut. `rows`
    has all rows uncut.
    """

    def __init__(
        self,
        title: str,
        columns: tuple[str, ...],
        rows: list[tuple[Any, ...]],
        *,
        empty: str = "nothing here",
        note: str = "",
    ) -> None:
        self.title = title
        self.columns = columns
        self.rows = tuple(rows)
        self.empty = empty
        self.note = note

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self.rows[index]

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __str__(self) -> str:
        lines = [self.title] if self.title else []
        if self.rows:
            cells = [
                self.columns,
                *(tuple(_plain(value) for value in row) for row in self.rows[-MOST_LINES:]),
            ]
            widths = [max(len(row[n]) for row in cells) for n in range(len(self.columns))]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in cells
            ]
            if len(self.rows) > MOST_LINES:
                lines.append(f"{len(self.rows) - MOST_LINES} earlier rows are not shown; .rows has all")
        else:
            lines.append(self.empty)
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    __repr__ = __str__


class Note(_Settled):
    """One sentence about the outcome of an operation."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


class SentEnvelope(_Settled):
    """An envelope that the gateway has accepted."""

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope

    @property
    def id(self) -> str:
        """The envelope's id."""
        return self.envelope.id

    def __str__(self) -> str:
        to = f" to {', '.join(self.envelope.to)}" if self.envelope.to else ""
        return f"{self.envelope.kind}{to} as {self.envelope.sender} ({self.envelope.id})"

    __repr__ = __str__
