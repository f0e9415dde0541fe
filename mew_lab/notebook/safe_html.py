"""A builder of HTML in which text from anywhere stays text: the only way to a tag.

Children that are text are escaped, and characters that a reader would not see are written as escapes. There is no tag
and no attribute here that could load, link or run anything. Text that is longer than a person reads is cut, and the
length of the rest is told. It knows no object of this package.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from mew_lab.protocol.visible import one_line, visible

__all__ = ["CODE", "FAINT", "MOST_CELL", "MOST_TEXT", "Html", "bounded", "box", "lines", "table", "tag"]

TAGS = frozenset(
    {"b", "code", "details", "div", "pre", "span", "summary", "table", "tbody", "td", "th", "thead", "tr"}
)
ATTRIBUTES = frozenset({"dir", "scope", "style", "title"})
MOST_ROWS = 200
MOST_TEXT = 20_000  # characters of one text
MOST_CELL = 1_000  # characters of one cell of a table
MOST_TITLE = 500  # characters of an attribute
LONG_WORD = 80  # characters beyond which a word in a cell is broken: short ones stay whole

# JupyterLab's variables, each with a fallback for front ends without them.
_FONT = "font:13px var(--jp-ui-font-family, system-ui, sans-serif);color:var(--jp-ui-font-color1, inherit)"
_LINE = "1px solid var(--jp-border-color2, rgba(128,128,128,.3))"
CODE = "font-family:var(--jp-code-font-family, monospace);font-size:12px"
FAINT = "font-size:12px;color:var(--jp-ui-font-color2, inherit)"
_CELL = f"padding:2px 8px;font-size:12px;text-align:left;vertical-align:top;border-bottom:{_LINE}"
_NUMBER = f"{_CELL};text-align:right;font-variant-numeric:tabular-nums"


class Html(str):
    """Text that is markup already. Only this module makes one."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: str) -> Html:
    """An element with these children and attributes.

    Raises:
        ValueError: for a tag or attribute that is not on the list.
    """
    if name not in TAGS:
        raise ValueError(f"<{name}> is not among the tags that may be written")
    written = ""
    for key, value in attributes.items():
        if key not in ATTRIBUTES:
            raise ValueError(f"the attribute {key} is not among those that may be written")
        written += f' {key}="{html.escape(one_line(str(value), MOST_TITLE), quote=True)}"'
    return Html(f"<{name}{written}>{''.join(map(_child, children))}</{name}>")


def _child(child: Any) -> str:
    if isinstance(child, Html):
        return child
    return _escape(bounded(str(child), MOST_TEXT))


def _escape(text: str) -> str:
    return html.escape(visible(text), quote=True)


def left_out(more: int, whole: str = "") -> str:
    """A note on the characters that are not shown; `whole` names what has all of them, such as `.text`."""
    return f"{more:,} more characters are not shown".replace(",", " ") + (
        f"; {whole} has all" if whole else ""
    )


def bounded(text: str, limit: int, *, whole: str = "") -> str:
    """The text, or its first `limit` characters and how many are left out."""
    return text if len(text) <= limit else f"{text[:limit]}… [{left_out(len(text) - limit, whole)}]"


def lines(text: str, *, limit: int = MOST_TEXT, whole: str = "") -> Html:
    """Text of several lines in a fixed-width block; what is over the limit is named, not shown, and `whole` has it."""
    cut = text[:limit]
    body = Html("\n".join(_escape(line) for line in cut.split("\n")))
    style = f"{CODE};white-space:pre-wrap;word-break:break-word;margin:4px 0"
    block = tag("pre", body, style=style, dir="ltr")
    if len(text) <= limit:
        return block
    rest = tag("div", left_out(len(text) - limit, whole), style=FAINT)
    return Html(block + rest)


def table(
    columns: Iterable[str], rows: Iterable[Iterable[Any]], *, notes: Iterable[Any] = (), whole: str = ""
) -> Html:
    """A plain table of at most 200 rows, the last ones, each cell of at most 1000 characters.

    Notes say how much is not shown, and that `whole` has all of it.
    """
    names, every = list(columns), [list(row) for row in rows]
    shown = every[-MOST_ROWS:]
    # A column is right-aligned when all of it is numbers; one of names and numbers reads like text.
    styles = [
        _NUMBER if shown and all(_is_number(row[n]) for row in shown) else _CELL for n in range(len(names))
    ]
    head = tag(
        "tr", *(tag("th", name, scope="col", style=style) for name, style in zip(names, styles, strict=True))
    )
    body = [
        tag("tr", *(_cell(value, style, whole) for value, style in zip(row, styles, strict=True)))
        for row in shown
    ]
    has = f"; {whole} has all" if whole else ""
    earlier = (
        [f"{len(every) - len(shown)} earlier rows are not shown{has}"] if len(every) > len(shown) else []
    )
    below = [tag("div", note, style=FAINT) for note in [*earlier, *notes] if note]
    return tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", *body), style="border-collapse:collapse;margin:4px 0"),
        *below,
        style=_FONT,
    )


def _cell(value: Any, style: str, whole: str) -> Html:
    if isinstance(value, Html):
        return tag("td", value, style=style)
    text = bounded(str(value), MOST_CELL, whole=whole)
    is_long = max(map(len, text.split()), default=0) > LONG_WORD
    return tag("td", text, style=f"{style};overflow-wrap:anywhere;min-width:20em" if is_long else style)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def box(*children: Any) -> Html:
    """The outermost element of a picture that is no table."""
    return tag("div", *children, style=_FONT)
