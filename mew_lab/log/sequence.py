"""Draws an exchange as a sequence diagram.

Each participant has a lifeline, and each envelope an arrow with its number, its time and a summary. The arrow of a
refused envelope is dashed and ends in a cross before any lifeline. An envelope without addressee goes to everybody,
with a ring at each lifeline. In a wide diagram the summaries stand at the right, in a narrow one below each arrow; they
are wrapped in both. This module does not know the source of an exchange.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import NamedTuple

from mew_lab.ledger.entry import Entry
from mew_lab.log.chains import Exchange
from mew_lab.log.drawing import Drawing, SvgShape, lasted, shape, text_line
from mew_lab.log.redaction import shown_mask, told
from mew_lab.protocol.families import family_of
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible

__all__ = ["MOST_LIFELINES", "sequence", "sequence_lines"]

MOST_LIFELINES = 12
_ROW, _HEAD, _LINE = 28, 36, 15
_OTHERS = "others"
_NARROW = 336  # the width of a narrow diagram in pixels, where its lifelines fit


class _Layout(NamedTuple):
    """The measures of a diagram: `text` is the width of the summaries at the right, 0 where they stand below."""

    gutter: int
    column: int
    text: int
    letters: int
    lines: int

    @property
    def narrow(self) -> bool:
        return not self.text


_WIDE = _Layout(gutter=112, column=128, text=460, letters=66, lines=2)


class _Lifelines:
    """The columns of the participants; those beyond `MOST_LIFELINES` share the last one."""

    def __init__(self, exchange: Exchange, narrow: bool) -> None:
        names = list(dict.fromkeys("gateway" if who == GATEWAY else who for who in exchange.participants))
        self.names = names if len(names) <= MOST_LIFELINES else [*names[: MOST_LIFELINES - 1], _OTHERS]
        self.hidden = len(names) - len(self.names) + 1 if len(names) > MOST_LIFELINES else 0
        self._place = {name: n for n, name in enumerate(names[: MOST_LIFELINES - bool(self.hidden)])}
        column = max(52, (_NARROW - 40) // len(self.names))
        self.layout = _Layout(gutter=40, column=column, text=0, letters=44, lines=3) if narrow else _WIDE

    def x(self, who: str) -> float:
        place = self._place.get("gateway" if who == GATEWAY else who, len(self.names) - 1)
        return self._x_of(place)

    @property
    def all_x(self) -> list[float]:
        return [self._x_of(place) for place in range(len(self.names))]

    def _x_of(self, place: int) -> float:
        return self.layout.gutter + self.layout.column * (place + 0.5)


def sequence(exchange: Exchange, *, narrow: bool = False, masks: bool = True) -> Drawing:
    """The sequence diagram of an exchange, with at most 12 lifelines; further participants share one.

    Args:
        narrow: Whether it is to be read at a width of 360 px; with many participants it is wider all the same.
        masks: Whether it has no likely secrets, as what is stored; not for what is shown alone.
    """
    mask = shown_mask() if masks else None
    abouts = {step.seq: told(step, mask) for step in exchange.steps}
    lifelines = _Lifelines(exchange, narrow)
    layout = lifelines.layout
    right = layout.gutter + layout.column * len(lifelines.names) + 8
    width = right + layout.text
    numbers = {step.id: step.seq for step in reversed(exchange.steps) if step.id}
    began = exchange.steps[0].t
    texts = [_wrap(step, abouts[step.seq], numbers, began, layout) for step in exchange.steps]
    tops, bottom = list[int](), _HEAD
    for lines in texts:
        tops.append(bottom)
        bottom += _ROW + _LINE * (len(lines) if narrow else len(lines) - 1)
    bottom += 8
    left_out = _left_out(exchange)
    height = bottom + (20 if left_out else 4)
    shapes: list[SvgShape] = [
        shape("rect", css="chosen", x=0, y=top, width=width, height=after - top)
        for step, top, after in zip(exchange.steps, tops, [*tops[1:], bottom - 8], strict=True)
        if step.seq == exchange.selected.seq
    ]
    for name, x in zip(lifelines.names, lifelines.all_x, strict=True):
        label = f"{lifelines.hidden} others" if name is _OTHERS else name
        box = layout.column - 12 if not narrow else layout.column - 4
        shapes += [
            shape("line", css="rule", x1=x, y1=_HEAD - 8, x2=x, y2=bottom),
            shape("rect", css="box", x=x - box / 2, y=4, width=box, height=24, rx=4),
            text_line(x, 20, middle(label, max(4, (box - 4) // 7)), "code strong", text_anchor="middle"),
        ]
    for step, top, lines in zip(exchange.steps, tops, texts, strict=True):
        shapes.append(_row(step, abouts[step.seq], top, lifelines, lines, began, right))
    if left_out:
        shapes.append(text_line(8, height - 6, left_out, "faint"))
    lines_of = sequence_lines(exchange, abouts)
    if mask is not None and mask.found:
        lines_of = (*lines_of, f"{mask}.")
    count = count_of(len(exchange.steps), "message")
    return Drawing(
        f"Exchange of {count} in {lasted(exchange.seconds)} around {exchange.selected.name}",
        one_line(" · ".join(lines_of), 2000),
        width,
        height,
        tuple(shapes),
        lines_of,
    )


def _wrap(step: Entry, about: str, numbers: dict[str, int], began: float, layout: _Layout) -> list[str]:
    """The summary of a message in lines."""
    answers = [numbers[id] for id in step.correlation_id if id in numbers and numbers[id] != step.seq]
    when = f"+{max(0.0, step.t - began):.3f} s · " if layout.narrow else ""
    related = f"↳{step.sign}{answers[0]} " if answers else ""
    refused = f"✗ {step.code} " if step.refused else ""
    text = one_line(f"{when}{related}{refused}{visible(about)}", layout.letters * layout.lines)
    return textwrap.wrap(text, layout.letters)[: layout.lines] or [""]


def sequence_lines(exchange: Exchange, abouts: Mapping[int, str]) -> tuple[str, ...]:
    """The diagram as lines of text, one for each envelope; `abouts` are what they are about, by their numbers."""
    began, lines = exchange.steps[0].t, []
    for step in exchange.steps:
        whom = ", ".join(step.to[:MOST_LIFELINES]) or "everybody"
        refused = f" ✗ refused: {step.code}" if step.refused else ""
        when = f"{step.name} +{max(0.0, step.t - began):.3f} s"
        text = f"{when} {step.sender} → {whom}: {step.kind} {abouts[step.seq]}{refused}"
        lines.append(one_line(text, 240))
    more = _left_out(exchange)
    return (*lines, more) if more else tuple(lines)


def _left_out(exchange: Exchange) -> str:
    return f"{exchange.left_out} more related messages are not shown." if exchange.left_out else ""


def _row(
    step: Entry, about: str, top: int, lifelines: _Lifelines, lines: list[str], began: float, right: float
) -> SvgShape:
    family, layout = family_of(step.kind), lifelines.layout
    y = top + 20
    whom = ", ".join(step.to[:MOST_LIFELINES]) or "everybody"
    if layout.narrow:
        left, first = layout.gutter + 4, y + 18
        times = []
    else:
        left, first = int(right), y
        times = [text_line(104, y, f"+{max(0.0, step.t - began):.3f} s", "faint", text_anchor="end")]
    return shape(
        "g",
        shape("title", text=one_line(f"{step.name} {step.sender} → {whom}: {step.kind} {about}", 400)),
        text_line(layout.gutter - 6 if layout.narrow else 44, y, step.name, "faint", text_anchor="end"),
        *times,
        *_arrow(step, y, lifelines),
        shape(
            "rect",
            css=f"filled is-{family.name}",
            x=left,
            y=first - 12,
            width=3,
            height=16 + _LINE * (len(lines) - 1),
        ),
        *(text_line(left + 8, first + _LINE * n, line, "halo") for n, line in enumerate(lines)),
        css=f"is-{'error' if step.refused else family.name}",
        data_seq=step.seq,
    )


def _arrow(step: Entry, y: float, lifelines: _Lifelines) -> list[SvgShape]:
    x, room = lifelines.x(step.sender), min(18, max(6, lifelines.layout.column // 7))
    start = shape("circle", css="filled", cx=x, cy=y, r=3)
    if step.to:
        ends = sorted({lifelines.x(who) for who in step.to} - {x})
    else:
        ends = [other for other in lifelines.all_x if other != x]
    if not ends:
        whole = shape("path", css="arrow drawn", d=f"M{x:g} {y - 6:g} h24 v10 h-18")
        heads = [] if step.refused else [_head(x + 6, y + 4, -1)]
        mark = [_cross(x + 24, y)] if step.refused else []
        return [whole, *heads, *mark, start, _name(x + 30, y, step, "start", room)]
    nearest = min(ends, key=lambda end: abs(end - x))
    name = _name((x + nearest) / 2, y, step, "middle", room)
    if step.refused:
        stop = x + (nearest - x) * 0.55
        return [
            shape("path", css="arrow drawn dashed", d=f"M{x:g} {y:g} H{stop:g}"),
            _cross(stop, y),
            start,
            name,
        ]
    reach = "".join(f"M{x:g} {y:g} H{end:g}" for end in (min([*ends, x]), max([*ends, x])) if end != x)
    if not step.to:
        rings = [shape("circle", css="ring drawn", cx=end, cy=y, r=3) for end in ends]
        return [shape("path", css="arrow drawn dotted", d=reach), *rings, start, name]
    heads = [_head(end, y, 1 if end > x else -1) for end in ends]
    return [shape("path", css="arrow drawn", d=reach), *heads, start, name]


def _head(x: float, y: float, way: int) -> SvgShape:
    return shape("path", css="filled", d=f"M{x:g} {y:g} l{-8 * way} -4 v8 z")


def _cross(x: float, y: float) -> SvgShape:
    return shape("path", css="cross drawn", d=f"M{x - 5:g} {y - 5:g} l10 10 m0 -10 l-10 10")


def _name(x: float, y: float, step: Entry, anchor: str, room: int = 18) -> SvgShape:
    """The kind above the arrow, without its family where there is no room for both; the bar has its colour."""
    kind = step.kind or "unreadable"
    shown = kind if len(kind) <= room else kind.rpartition("/")[2]
    return text_line(x, y - 6, one_line(shown, room), "code halo", text_anchor=anchor)
