"""Builds HTML in which text from any source stays text; `tag` alone makes tags.

Children that are text are escaped, and invisible characters are written as escapes. The permitted tags and attributes
cannot load, link or run anything; `picture` alone makes an image, whose bytes stand in the HTML and were checked. Long
text is cut, with the length of the rest. No object of this package is used here.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from mew_lab.protocol.coerce import is_number
from mew_lab.protocol.content import picture_of
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible

__all__ = [
    "CODE",
    "FAINT",
    "MOST_CELL",
    "MOST_TEXT",
    "Html",
    "bounded",
    "box",
    "escape",
    "escape_lines",
    "lines",
    "picture",
    "table",
    "tag",
]

TAGS = frozenset(
    "b body code dd details div dl dt h1 h2 main p pre section span summary table tbody td th thead tr".split()  # noqa: SIM905
)
ATTRIBUTES = frozenset({"class", "colspan", "dir", "scope", "style", "title"})
MOST_ROWS = 200
MOST_TEXT = 20_000  # characters of one text
MOST_CELL = 1_000  # characters of one cell of a table
MOST_TITLE = 500  # characters of an attribute
LONG_WORD = 80  # characters beyond which a word in a cell is broken

# JupyterLab's variables, each with a fallback for front ends without them.
_FONT = "font:13px var(--jp-ui-font-family, system-ui, sans-serif);color:var(--jp-ui-font-color1, inherit)"
_LINE = "1px solid var(--jp-border-color2, rgba(128,128,128,.3))"
CODE = "font-family:var(--jp-code-font-family, monospace);font-size:12px"
FAINT = "font-size:12px;color:var(--jp-ui-font-color2, inherit)"
_CELL = f"padding:2px 8px;font-size:12px;text-align:left;vertical-align:top;border-bottom:{_LINE}"
_NUMBER = f"{_CELL};text-align:right;font-variant-numeric:tabular-nums"


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: str) -> Html:
    """An element with these children and attributes.

    Raises:
        ValueError: The tag or an attribute is not on the list.
    """
    if name not in TAGS:
        raise ValueError(f"<{name}> is not a permitted tag")
    written = ""
    for key, value in attributes.items():
        if key not in ATTRIBUTES:
            raise ValueError(f"{key} is not a permitted attribute")
        written += f' {key}="{html.escape(one_line(str(value), MOST_TITLE), quote=True)}"'
    return Html(f"<{name}{written}>{''.join(map(_child, children))}</{name}>")


def _child(child: Any) -> str:
    if isinstance(child, Html):
        return child
    return escape(bounded(str(child), MOST_TEXT))


def escape(text: str) -> str:
    """One line of text as markup that shows it."""
    return html.escape(visible(text), quote=True)


def escape_lines(text: str) -> Html:
    """Text of several lines as markup that shows it."""
    return Html("\n".join(map(escape, text.split("\n"))))


def left_out(more: int, whole: str = "") -> str:
    """A note on the number of characters that are not shown; `whole` names the full text, such as `.text`."""
    return f"not shown: {count_of(more, 'more character')}" + (f"; {whole} has all" if whole else "")


def bounded(text: str, limit: int, *, whole: str = "") -> str:
    """The text, or its first `limit` characters and the number of omitted ones."""
    return text if len(text) <= limit else f"{text[:limit]}… [{left_out(len(text) - limit, whole)}]"


def lines(text: str, *, limit: int = MOST_TEXT, whole: str = "") -> Html:
    """Text of several lines in a fixed-width block, cut at `limit` with a note; `whole` names the full text."""
    style = f"{CODE};white-space:pre-wrap;word-break:break-word;margin:4px 0"
    block = tag("pre", escape_lines(text[:limit]), style=style, dir="ltr")
    if len(text) <= limit:
        return block
    rest = tag("div", left_out(len(text) - limit, whole), style=FAINT)
    return Html(block + rest)


def picture(data: object, alt: str) -> Html:
    """An image, of the base64 text that a peer sent; or a line of text, where it is not one that may be shown.

    Its address is made here, of the checked bytes and the type that they state; what the peer calls it does not count.

    Args:
        alt: The text for a reader who does not see it.
    """
    checked = picture_of(data)
    if checked.kind != "image":
        return tag("div", checked.text, style=FAINT)
    written = html.escape(one_line(alt, MOST_TITLE), quote=True)
    style = "display:block;max-width:100%;margin:4px 0"
    return Html(f'<img src="data:{checked.mime};base64,{checked.text}" alt="{written}" style="{style}">')


def table(
    columns: Iterable[str], rows: Iterable[Iterable[Any]], *, notes: Iterable[Any] = (), whole: str = ""
) -> Html:
    """A plain table of the last 200 rows, each cell of at most 1000 characters.

    Notes give the number of omitted rows; `whole` names the full table.
    """
    names, all_rows = list(columns), [list(row) for row in rows]
    shown = all_rows[-MOST_ROWS:]
    # A column is right-aligned when it has numbers only; a mixed column is aligned like text.
    styles = [
        _NUMBER if shown and all(is_number(row[n]) for row in shown) else _CELL for n in range(len(names))
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
        [f"Not shown: {count_of(len(all_rows) - len(shown), 'earlier row')}{has}"]
        if len(all_rows) > len(shown)
        else []
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


def box(*children: Any) -> Html:
    """The outermost element of a display that is not a table."""
    return tag("div", *children, style=_FONT)
