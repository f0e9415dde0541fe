"""Builds pictures as SVG in which no data can become markup; every shape is made by `shape`.

A `Drawing` is a tree of shapes. Their tags and attributes are those of a short list, none of which can run, load or
link anything. Text is escaped, and invisible characters are written as escapes. As SVG, a picture takes the colours of
its page, light or dark, and has its own where there are none. As `data`, it is plain lists, from which a front end
makes the same shapes node by node. This module knows no envelope.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mew_lab.log.redaction import mask_markup, shown_mask
from mew_lab.protocol.families import FAMILIES
from mew_lab.protocol.visible import visible

__all__ = [
    "ATTRIBUTES",
    "DARK",
    "STYLE",
    "TAGS",
    "THEME",
    "Drawing",
    "SvgShape",
    "lasted",
    "shape",
    "text_line",
]

TAGS = frozenset({"circle", "g", "line", "path", "rect", "text", "title", "tspan"})
ATTRIBUTES = frozenset(
    {"class", "cx", "cy", "d", "data-seq", "height", "r", "rx", "text-anchor", "transform", "width"}
    | {"x", "x1", "x2", "y", "y1", "y2"}
)

_INK = "var(--mew-fg2,var(--jp-ui-font-color1,#222))"
_FAINT = "var(--mew-fg3,var(--jp-ui-font-color2,#666))"
_LINE = "var(--mew-line-strong,var(--jp-border-color1,#bbb))"
_GROUND = "var(--mew-bg,var(--jp-layout-color1,#fff))"
_CODE = "var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace)"

STYLE = "\n".join(
    [
        f".mew-drawing{{font:12px var(--jp-ui-font-family,system-ui,sans-serif);fill:{_INK};max-width:none}}",
        f".mew-drawing .ground{{fill:{_GROUND}}}",
        f".mew-drawing .faint{{fill:{_FAINT};font-size:11px}}",
        f".mew-drawing .code{{font-family:{_CODE};font-size:11px}}",
        ".mew-drawing .strong{font-weight:600}",
        ".mew-drawing text{font-variant-numeric:tabular-nums;white-space:pre}",
        f".mew-drawing .halo{{paint-order:stroke;stroke:{_GROUND};stroke-width:3px;stroke-linejoin:round}}",
        f".mew-drawing .rule{{stroke:{_LINE};stroke-width:1;fill:none}}",
        f".mew-drawing .thin{{stroke:{_LINE};stroke-width:1;fill:none;stroke-dasharray:2 3}}",
        f".mew-drawing .box{{stroke:{_LINE};stroke-width:1;fill:{_GROUND}}}",
        ".mew-drawing .chosen{fill:var(--mew-bg2,var(--jp-layout-color2,#eee))}",
        ".mew-drawing .arrow{stroke-width:1.5;fill:none}",
        ".mew-drawing .dotted{stroke-dasharray:2 3}",
        ".mew-drawing .dashed{stroke-dasharray:5 3}",
        ".mew-drawing .dots{stroke-width:5;stroke-linecap:round;fill:none}",
        ".mew-drawing .cross{stroke-width:1.5;fill:none}",
        f".mew-drawing .ring{{fill:{_GROUND};stroke-width:1.5}}",
        *(
            f".mew-drawing .is-{family.name}{{--accent:var(--mew-{family.name},{family.light})}}"
            for family in FAMILIES
        ),
        ".mew-drawing .drawn{stroke:var(--accent)}",
        ".mew-drawing .filled{fill:var(--accent)}",
    ]
)


# The colours of an image on a dark ground; the classes are those of `STYLE`.
DARK = "".join(
    [
        "@media (prefers-color-scheme:dark){.mew-drawing{--mew-fg2:#ddd;--mew-fg3:#aaa;--mew-line-strong:#666;",
        "--mew-bg:#111;--mew-bg2:#2a2a2a;",
        *(f"--mew-{family.name}:{family.dark};" for family in FAMILIES),
        "}}",
    ]
)
THEME = (
    '<style>body[data-jp-theme-light="true"] .mew-picture{color-scheme:light}'
    'body[data-jp-theme-light="false"] .mew-picture{color-scheme:dark}</style>'
)


class SvgShape(NamedTuple):
    """One shape and its content: further shapes, or a text."""

    tag: str
    attributes: Mapping[str, str | float]
    children: tuple[SvgShape, ...] = ()
    text: str = ""

    def data(self) -> list[Any]:
        """`[tag, attributes, children or text]`, ready for JSON."""
        return [
            self.tag,
            dict(self.attributes),
            self.text if self.text else [child.data() for child in self.children],
        ]

    def markup(self) -> str:
        """The shape as SVG text."""
        written = "".join(
            f' {name}="{html.escape(str(value), quote=True)}"' for name, value in self.attributes.items()
        )
        inside = html.escape(self.text) if self.text else "".join(child.markup() for child in self.children)
        return f"<{self.tag}{written}>{inside}</{self.tag}>"


def shape(tag: str, *children: SvgShape, text: str = "", **attributes: str | float) -> SvgShape:
    """A shape with these attributes; `css` is its class, and underscores in names become hyphens.

    Raises:
        ValueError: for a tag or attribute that is not on the list.
    """
    if tag not in TAGS:
        raise ValueError(f"<{tag}> is not among the shapes that may be drawn")
    allowed: dict[str, str | float] = {}
    for key, value in attributes.items():
        name = "class" if key == "css" else key.replace("_", "-")
        if name not in ATTRIBUTES:
            raise ValueError(f"the attribute {name} is not among those that a shape may have")
        allowed[name] = visible(value) if isinstance(value, str) else round(value, 1)
    return SvgShape(tag, allowed, children, visible(text))


def text_line(x: float, y: float, text: str, css: str = "", **attributes: str | float) -> SvgShape:
    """A line of text whose baseline begins at that point."""
    return shape("text", text=text, x=x, y=y, **({"css": css} if css else {}), **attributes)


@dataclass(frozen=True)
class Drawing:
    """A picture that a notebook shows, saves and prints, also in a notebook that is not trusted.

    `title` and `about` are its accessible name and description; `lines` is its content as plain text.
    """

    title: str
    about: str
    width: int
    height: int
    shapes: tuple[SvgShape, ...]
    lines: tuple[str, ...] = ()

    def svg(self, *, masks: bool = True) -> str:
        """A complete SVG document without scripts, links or loaded resources; it takes the colours of its page.

        It has no likely secrets, unless `masks` is False.
        """
        return self._document(STYLE) if not masks else masked_picture(self._document(STYLE))

    def _document(self, style: str) -> str:
        ground = SvgShape("rect", {"class": "ground", "width": self.width, "height": self.height})
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="mew-drawing" role="img" width="{self.width}" '
            f'height="{self.height}" viewBox="0 0 {self.width} {self.height}">'
            f"<title>{html.escape(visible(self.title))}</title><desc>{html.escape(visible(self.about))}</desc>"
            f"<style>{style}</style>{''.join(part.markup() for part in (ground, *self.shapes))}</svg>"
        )

    def data(self) -> dict[str, Any]:
        """The picture as plain data, for a front end that draws it node by node."""
        return {
            "title": visible(self.title),
            "about": visible(self.about),
            "width": self.width,
            "height": self.height,
            "shapes": [part.data() for part in self.shapes],
        }

    def html(self) -> str:
        """The picture as an `img` element; front ends that remove SVG from untrusted pages keep it.

        An image cannot read the variables of its page. It asks for a dark ground instead: JupyterLab's theme tells by a
        rule beside it, and every other page by its own colour scheme.
        """
        inside = base64.b64encode(masked_picture(self._document(STYLE + DARK)).encode()).decode()
        alt = html.escape(visible(f"{self.title}. {self.about}"), quote=True)
        source = f"data:image/svg+xml;base64,{inside}"
        shown = masked_picture(f'<img class="mew-picture" alt="{alt}" style="max-width:none" src="{source}">')
        return f"{THEME}{shown}"

    def __str__(self) -> str:
        mask = shown_mask()
        lines = [line if mask is None else mask.text(line) for line in (self.title, *self.lines)]
        if mask is not None and mask.found:
            lines.append(f"{mask}.")
        return "\n".join(map(visible, lines))

    def _repr_mimebundle_(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/html": self.html(), "text/plain": str(self)}

    def _repr_svg_(self) -> str:
        return self.svg()


def masked_picture(markup: str) -> str:
    """A picture as a notebook stores it."""
    mask = shown_mask()
    return markup if mask is None else mask_markup(markup, mask)


def lasted(seconds: float) -> str:
    """The text of a duration in seconds, with a unit and few digits: `12 ms`, `4.1 s`, `2.3 min`, `5 h`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    for unit, size in (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0)):
        value = seconds / size
        if value < (99.5 if unit != "h" else 47.5) or unit == "d":
            shown = f"{value:.1f}".removesuffix(".0") if value < 9.95 else f"{value:.0f}"
            return f"{shown} {unit}"
    raise AssertionError
