"""Draws a view for a saved notebook: a plain HTML table, with every text escaped, without script and links."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import visible

__all__ = ["MOST_ROWS", "NO_ERROR", "box", "clock_time", "element", "picture", "snapshot"]

MOST_ROWS = 200
# Characters beyond which a word may be broken: were short ones broken too, their columns would shrink to a letter.
LONG_WORD = 24

_CELL = "padding:2px 8px;text-align:left;vertical-align:top;border-bottom:1px solid rgba(128,128,128,.3)"
_CODE = f"{_CELL};font-family:monospace;white-space:pre-wrap"
_NOTE = "padding:4px 8px;font-size:11px;opacity:.75"
# A notebook that is opened again has no model for the live view, and JupyterLab says so in a line of text alone.
_ERROR = ".jp-OutputArea:has(.mew-stored)>.jp-OutputArea-child>.jupyter-widgets:not(:has(*))"
NO_ERROR = f"<style>{_ERROR}{{display:none}}</style>"


def picture(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    notes: Iterable[str] = (),
    empty: str = "",
    of: str = "row",
    code: Iterable[str] = (),
) -> str:
    """An HTML table of the last 200 rows at most; a note says how many rows are left out.

    Args:
        notes: Sentences below the table; one without text is left out.
        empty: What would fill it, as a sentence, shown where there is no row.
        of: What a row is.
        code: The columns that are set in a fixed-width font.
    """
    fixed = {columns.index(name) for name in code}
    shown = rows[-MOST_ROWS:]
    head = "".join(f'<th scope="col" style="{_CELL}">{_text(name)}</th>' for name in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_style(cell, _CODE if n in fixed else _CELL)}">{_text(cell)}</td>'
            for n, cell in enumerate(row)
        )
        + "</tr>"
        for row in shown
    )
    hidden = len(rows) - len(shown)
    left_out = f"Not shown: {count_of(hidden, f'earlier {of}')}." if hidden else ""
    below = filter(None, [left_out, *notes, "" if rows else empty])
    lines = "".join(f'<div style="{_NOTE}">{_text(note)}</div>' for note in below)
    whole = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    table = f'<table style="border-collapse:collapse;font-size:12px">{whole}</table>'
    return f'<div><div style="{_NOTE}"><b>{_text(title)}</b></div>{table if rows else ""}{lines}</div>'


def _style(cell: str, style: str) -> str:
    longest = max(map(len, cell.split()), default=0)
    return f"{style};overflow-wrap:anywhere" if longest > LONG_WORD else style


def _text(value: str) -> str:
    # A cell may have several lines; all other invisible characters are escapes.
    return "<br>".join(html.escape(visible(line), quote=True) for line in value.split("\n"))


def element(name: str, *children: str, style: str = "") -> str:
    """An element with these children, which are HTML already; a style sheet is given as one text."""
    return f'<{name} style="{style}">{"".join(children)}</{name}>'


def box(text: str, style: str = "", name: str = "span") -> str:
    """An element that holds this text, escaped."""
    return element(name, _text(text), style=style)


def snapshot(
    drawn: str, moment: datetime, *, ended: bool = False, hidden: bool = False, masked: str = ""
) -> str:
    """A drawn view as a notebook stores it, under one line that says when it was and how to get the live view.

    The style sheet of a live view in the same cell hides it, by its class. `ended` says that the space has stopped, and
    `masked` how many likely secrets it lacks.
    A sanitizer of HTML may leave `NO_ERROR` out.
    """
    over = " · the space has stopped" if ended else ""
    over += f" · {masked}" if masked else ""
    line = box(
        f"Snapshot of {_clock(moment, '%Y-%m-%d %H:%M')} · run the notebook from the top for the live view{over}",
        _NOTE,
        "div",
    )
    return f'<div class="mew-stored"{" hidden" if hidden else ""}>{NO_ERROR}{line}{drawn}</div>'


def clock_time(seconds: float | datetime) -> str:
    """The time of day in the zone of this machine, such as `14:03:22`.

    Where MEW_LAB_SEED is set, two runs must look the same anywhere: there it is `14:03:22 UTC`.
    """
    moment = seconds if isinstance(seconds, datetime) else datetime.fromtimestamp(seconds, UTC)
    return _clock(moment, "%H:%M:%S")


def _clock(moment: datetime, form: str) -> str:
    if os.environ.get("MEW_LAB_SEED"):
        return f"{moment.astimezone(UTC):{form}} UTC"
    return f"{moment.astimezone():{form}}"
