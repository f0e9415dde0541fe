"""Defines the columns of the feed, from which the page and the saved picture are drawn.

`VALUES` turns the members of a row into text for the picture; cells.js does so for the page, under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.rows import Row
from mew_lab.log.diagnose.findings import LogFinding
from mew_lab.log.drawing import lasted
from mew_lab.views.feed.calls import CallState
from mew_lab.views.ui.pictures import clock_time

__all__ = ["COLUMNS", "DEFAULT", "SIGNS", "VALUES", "FeedColumn", "RowFacts", "select_columns"]

SIGNS = {"accepted": "✓", "refused": "✗", "sent": "·"}


class FeedColumn(NamedTuple):
    """One column of the feed. `COLUMNS["route"]._replace(width=300)` makes another one.

    Attributes:
        title: Its heading.
        width: In pixels; 0 takes the remaining width.
        hover: The name of the value in the tooltip.
        code: Whether the code font is used.
        narrow: The width in a view of less than 800 px; 0 means the same width.
        least: The least width of a view, in pixels, that shows the column unless it was chosen.
        about: What it shows, in the menu of the columns.
    """

    name: str
    title: str
    width: int
    align: Literal["left", "right"] = "left"
    hover: str = ""
    code: bool = False
    narrow: int = 0
    least: int = 0
    about: str = ""


COLUMNS: Mapping[str, FeedColumn] = {
    column.name: column
    for column in (
        FeedColumn("seq", "#", 56, "right", "seq", narrow=44, least=352, about="The number of the message"),
        FeedColumn("time", "Time", 80, "left", "moment", narrow=72, least=544, about="When it was received"),
        FeedColumn("elapsed", "+s", 72, "right", "moment", about="Seconds since the first message"),
        FeedColumn("route", "From → To", 196, hover="route", about="The sender and the addressees"),
        FeedColumn("from", "From", 120, hover="from", code=True, about="The sender alone"),
        FeedColumn("to", "To", 120, hover="to", code=True, about="The addressees alone"),
        FeedColumn("kind", "Kind", 160, hover="kind", code=True, about="The kind, as in the protocol"),
        FeedColumn("what", "What", 0, hover="what", about="What the message says"),
        FeedColumn(
            "took", "Took", 76, hover="took", narrow=72, least=400, about="Time to the answer or the decision"
        ),
        FeedColumn(
            "finding",
            "Finding",
            80,
            least=800,
            about="Faults and oddities that the diagnosis finds",
        ),
        FeedColumn("context", "Context", 96, hover="context", code=True, about="The context of a reasoning"),
        FeedColumn("follows", "Answers", 72, "right", about="How many messages answer this one"),
        FeedColumn("verdict", "Verdict", 132, code=True, about="Why the gateway let it pass, or not"),
        FeedColumn("size", "Bytes", 72, "right", about="The size of its text"),
    )
}
DEFAULT = ("seq", "time", "route", "what", "took", "finding")

HOVERS = ("moment", *COLUMNS)


class RowFacts(NamedTuple):
    """What is known about rows besides their messages: the states of their calls, and the findings about them."""

    call: Callable[[int], CallState | None]
    findings: Callable[[int], Sequence[LogFinding]]
    name: Callable[[int], str] = "#{}".format


WORDS = ("waiting", "refused", "unknown", "resolved")  # the states that stand in the place of a duration


def _took(row: Row, facts: RowFacts) -> str:
    state = facts.call(row.seq)
    if state is None or not state.state:
        return ""
    return state.state if state.state in WORDS else lasted(state.seconds)


def _finding(row: Row, facts: RowFacts) -> str:
    return "; ".join(f"{finding.severity}: {finding.sentence}" for finding in facts.findings(row.seq))


def _what(row: Row, facts: RowFacts) -> str:
    what = f"{row.what} ⇠{facts.name(row.correlates)}" if row.correlates else row.what
    return f"Denied ({row.code}): {what}" if row.verdict == "refused" else what


# The columns of a saved picture; `follows` changes later, so it is not among them.
VALUES: Mapping[str, Callable[[Row, RowFacts], str]] = {
    "seq": lambda row, facts: facts.name(row.seq),
    "time": lambda row, _: clock_time(row.t),
    "elapsed": lambda row, _: clock_time(row.t),
    "route": lambda row, _: f"{row.sender} → {', '.join(row.to)}" if row.to else row.sender,
    "from": lambda row, _: row.sender,
    "to": lambda row, _: ", ".join(row.to),
    "kind": lambda row, _: row.kind,
    "what": _what,
    "took": _took,
    "finding": _finding,
    "context": lambda row, _: row.context,
    "verdict": lambda row, _: f"{SIGNS.get(row.verdict, '')} {row.code}".strip(),
    "size": lambda row, _: str(row.size),
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
            raise MewError(f"The feed has no column {_quote_name(item)}; there are {known}")
        if column.hover and column.hover not in HOVERS:
            raise MewError(
                f"A tooltip cannot show {_quote_name(column.hover)}; it can show {', '.join(HOVERS)}"
            )
        columns.append(column)
    names = [column.name for column in columns]
    if not names or len(set(names)) < len(names):
        raise MewError(f"Name at least one column, and each of them once; there are {known}")
    return tuple(columns)


def _quote_name(column: Any) -> str:
    return repr(column.name if isinstance(column, FeedColumn) else column)[:80]
