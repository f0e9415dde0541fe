"""The columns of the feed: one table of data, from which the page and the picture are drawn.

How a row's value becomes text stands here for the picture and in feed_cells.js for the page, under the same names. It
knows no widget.
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
    """One column. Make another of it with `COLUMNS["what"]._replace(width=300)`.

    `width` is in pixels, 0 takes what is left; `narrow` the width where the view is narrower than 900 px, 0 the same.
    Where the view is narrower than `least` the column is left out. `hover` names the value that the mouse shows,
    `code` sets it in the code font, and makes it wider by two fifths where the view has 1100 px or more.
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

# What a saved picture shows; what follows a row changes, so it is not in it.
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
    """The columns of these names, in this order; a FeedColumn of your own has a known name and what else you like.

    Raises:
        MewError: when there is no such column, none at all, or one of them twice.
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
                f"the mouse cannot show {_quote_name(column.hover)}; it can show {', '.join(HOVERS)}"
            )
        columns.append(column)
    names = [column.name for column in columns]
    if not names or len(set(names)) < len(names):
        raise MewError(f"name at least one column, and each of them once; there are {known}")
    return tuple(columns)


def _quote_name(column: Any) -> str:
    return repr(column.name if isinstance(column, FeedColumn) else column)[:80]
