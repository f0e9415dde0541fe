"""The values that a lab's methods return to a person: readable as text, and shown as tables in a notebook.

They use neither IPython nor HTML. All of them await to themselves, so `await lab.who()` is legal everywhere.
"""

from __future__ import annotations

import keyword
from collections import namedtuple
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Any, Self, overload

from mew_lab.errors import NoSuchRow
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line

__all__ = ["Listing", "Note", "SentEnvelope", "Settled"]

WIDTH = 60  # characters of one cell in the text form
MOST_LINES = 500  # rows in the text form


class Settled:
    """A value that awaits to itself at once."""

    def __await__(self) -> Generator[Any, None, Self]:
        return self
        yield  # makes this a generator, as __await__ must be


class Listing(Settled):
    """Rows under named columns; `empty` is the sentence shown when there are none, `note` one line below them.

    Iterating gives the rows, `len` their number, `str` an aligned table of the last 500, with long cells cut. `rows`
    has all rows uncut. A row is a tuple whose cells are attributes too, by the columns' names: `row.may_send`.
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
        make = _row_type(columns)
        self.rows = tuple(
            make(*row) if type(row) is tuple and len(row) == len(columns) else row for row in rows
        )
        self.empty = empty
        self.note = note

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        try:
            return self.rows[index]
        except IndexError:
            has = f"has {count_of(len(self.rows), 'row')}" if self.rows else f"is empty: {self.empty}"
            raise NoSuchRow(f"There is no row {index}: {self.title or 'this listing'} {has}") from None

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __str__(self) -> str:
        lines = [self.title] if self.title else []
        if self.rows:
            cells = [
                self.columns,
                *(tuple(one_line(str(value), WIDTH) for value in row) for row in self.rows[-MOST_LINES:]),
            ]
            widths = [max(len(row[n]) for row in cells) for n in range(len(self.columns))]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in cells
            ]
            if len(self.rows) > MOST_LINES:
                lines.append(
                    f"Not shown: {count_of(len(self.rows) - MOST_LINES, 'earlier row')}; .rows has all"
                )
        else:
            lines.append(self.empty)
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    __repr__ = __str__


@lru_cache(maxsize=64)
def _row_type(columns: tuple[str, ...]) -> Any:
    """A tuple with the columns as attributes; a name that Python keeps for itself gets a `_` behind it."""
    names = [column.replace(" ", "_") for column in columns]
    names = [f"{name}_" if keyword.iskeyword(name) or hasattr(tuple, name) else name for name in names]
    return namedtuple("Row", names, rename=True)


class Note(Settled):
    """One sentence about the outcome of an operation."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


class SentEnvelope(Settled):
    """A message that the gateway has accepted; `note` is a sentence on what is odd about it, or empty."""

    def __init__(self, envelope: Envelope, *, note: str = "") -> None:
        self.envelope = envelope
        self.note = note

    @property
    def id(self) -> str:
        """The message's id."""
        return self.envelope.id

    def __str__(self) -> str:
        to = f" to {one_line(', '.join(self.envelope.to), 200)}" if self.envelope.to else ""
        note = f"; note: {self.note}" if self.note else ""
        kind, sender = one_line(self.envelope.kind), one_line(self.envelope.sender)
        return f"{kind}{to} as {sender} ({one_line(self.envelope.id)}){note}"

    __repr__ = __str__
