"""Defines the columns of the feed, from which the page and the saved picture are drawn.

`VALUES` turns the members of a row into text for the picture; cells.js does so for the page, under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.rows import Row
from mew_lab.views.ui.pictures import clock_time

__all__ = ["COLUMNS", "DEFAULT", "SIGNS", "VALUES", "FeedColumn", "select_columns"]

SIGNS = {"accepted": "✓", "refused": "✗", "sent": "·"}


class FeedColumn(NamedTuple):
    """One column of the feed. `COLUMNS["what"]._replace(width=300)` makes another one.

    Attributes:
        width: In pixels; 0 takes the remaining width.
        hover: The name of the value in the tooltip.
        code: Whether the code font is used. Such a column is two fifths wider in a view of 1100 px or more.
        narrow: The width in a view of less than 900 px; 0 means the same width.
        least: The least width of a view, in pixels, that shows the column.
    """

    name: str
    title: str
    width: int
    align: Literal["left", "right"] = "left"
    hover: str = ""
    code: bool = False
    narrow: int = 0
    least: int = 0


COLUMNS: Mapping[str, FeedColumn] = {
    column.name: column
    for column in (
        FeedColumn("seq", "#", 56, "right", narrow=44),
        FeedColumn("time", "+s", 60, "right", "moment", least=560),
        FeedColumn("clock", "received", 76, "right", "moment"),
        FeedColumn("from", "from", 120, hover="from", code=True, narrow=112),
        FeedColumn("to", "to", 108, hover="to", code=True, least=620),
        FeedColumn("kind", "kind", 172, hover="kind", code=True, narrow=32),
        FeedColumn("what", "what", 0, hover="what"),
        FeedColumn("context", "context", 96, hover="context", code=True),
        FeedColumn("follows", "↳", 44, "right", "follows", least=400),
        FeedColumn("verdict", "verdict", 116, code=True, narrow=22),
        FeedColumn("size", "bytes", 64, "right"),
    )
}
DEFAULT = ("seq", "time", "from", "to", "kind", "what", "follows", "verdict")

HOVERS = ("moment", *COLUMNS)

# The columns of a saved picture; `follows` changes later, so it is not among them.
VALUES: Mapping[str, Callable[[Row], str]] = {
    "seq": lambda row: str(row.seq),
    "time": lambda row: clock_time(row.t),
    "clock": lambda row: clock_time(row.t),
    "from": lambda row: row.sender,
    "to": lambda row: ", ".join(row.to),
    "kind": lambda row: row.kind,
    "what": lambda row: f"{row.what} ⇠{row.correlates}" if row.correlates else row.what,
    "context": lambda row: row.context,
    "verdict": lambda row: f"{SIGNS.get(row.verdict, '')} {row.code}".strip(),
    "size": lambda row: str(row.size),
}


def select_columns(wanted: Iterable[str | FeedColumn]) -> tuple[FeedColumn, ...]:
    """The columns of these names, in this order; an own FeedColumn must have the name of one of COLUMNS.

    Raises:
        MewError: a name or a tooltip is unknown, a name occurs twice, or there is no name at all.
    """
    known = ", ".join(COLUMNS)
    if isinstance(wanted, str):
        raise MewError(f"columns is a list of names such as {list(DEFAULT)}; there are {known}")
    columns = []
    for item in wanted:
        column = COLUMNS.get(item) if isinstance(item, str) else item
        if not isinstance(column, FeedColumn) or column.name not in COLUMNS:
            raise MewError(f"the feed has no column {_quote_name(item)}; there are {known}")
        if column.hover and column.hover not in HOVERS:
            raise MewError(
                f"a tooltip cannot show {_quote_name(column.hover)}; it can show {', '.join(HOVERS)}"
            )
        columns.append(column)
    names = [column.name for column in columns]
    if not names or len(set(names)) < len(names):
        raise MewError(f"name at least one column, and each of them once; there are {known}")
    return tuple(columns)


def _quote_name(column: Any) -> str:
    return repr(column.name if isinstance(column, FeedColumn) else column)[:80]
