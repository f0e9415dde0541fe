"""Draws an exchange as a sequence diagram.

Each participant has a lifeline, and each envelope an arrow with its number, its time and a summary. The arrow of a
refused envelope is dashed and ends in a cross before any lifeline. An envelope without addressee goes to everybody,
with a ring at each lifeline. This module does not know the source of an exchange.
"""

from __future__ import annotations

from mew_lab.ledger.entry import Entry
from mew_lab.log.chains import Exchange
from mew_lab.log.drawing import Drawing, SvgShape, lasted, shape, text_line
from mew_lab.protocol.families import family_of
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible

__all__ = ["MOST_LIFELINES", "sequence", "sequence_lines"]

MOST_LIFELINES = 12
_GUTTER, _COLUMN, _TEXT, _ROW, _HEAD = 112, 128, 460, 28, 36
_OTHERS = "others"


class _Lifelines:
    """The columns of the participants; those beyond `MOST_LIFELINES` share the last one."""

    def __init__(self, exchange: Exchange) -> None:
        names = list(dict.fromkeys("gateway" if who == GATEWAY else who for who in exchange.participants))
        self.names = names if len(names) <= MOST_LIFELINES else [*names[: MOST_LIFELINES - 1], _OTHERS]
        self.hidden = len(names) - len(self.names) + 1 if len(names) > MOST_LIFELINES else 0
        self._place = {name: n for n, name in enumerate(names[: MOST_LIFELINES - bool(self.hidden)])}

    def x(self, who: str) -> float:
        place = self._place.get("gateway" if who == GATEWAY else who, len(self.names) - 1)
        return _GUTTER + _COLUMN * (place + 0.5)

    @property
    def all_x(self) -> list[float]:
        return [_GUTTER + _COLUMN * (place + 0.5) for place in range(len(self.names))]


def sequence(exchange: Exchange) -> Drawing:
    """The sequence diagram of an exchange, with at most 12 lifelines; further participants share one."""
    lifelines = _Lifelines(exchange)
    right = _GUTTER + _COLUMN * len(lifelines.names) + 8
    bottom = _HEAD + _ROW * len(exchange.steps) + 8
    left_out = _left_out(exchange)
    height = bottom + (20 if left_out else 4)
    numbers = {step.id: step.seq for step in reversed(exchange.steps) if step.id}
    shapes: list[SvgShape] = [
        shape("rect", css="chosen", x=0, y=_HEAD + _ROW * n, width=right + _TEXT, height=_ROW)
        for n, step in enumerate(exchange.steps)
        if step.seq == exchange.selected.seq
    ]
    for name, x in zip(lifelines.names, lifelines.all_x, strict=True):
        label = f"{lifelines.hidden} others" if name is _OTHERS else name
        shapes += [
            shape("line", css="rule", x1=x, y1=_HEAD - 8, x2=x, y2=bottom),
            shape("rect", css="box", x=x - 58, y=4, width=116, height=24, rx=4),
            text_line(x, 20, middle(label, 17), "code strong", text_anchor="middle"),
        ]
    began = exchange.steps[0].t
    for n, step in enumerate(exchange.steps):
        shapes.append(_row(step, _HEAD + _ROW * n, lifelines, numbers, began, right))
    if left_out:
        shapes.append(text_line(8, height - 6, left_out, "faint"))
    lines = sequence_lines(exchange)
    count = count_of(len(exchange.steps), "message")
    return Drawing(
        f"Exchange of {count} in {lasted(exchange.seconds)} around #{exchange.selected.seq}",
        one_line(" · ".join(lines), 2000),
        right + _TEXT,
        height,
        tuple(shapes),
        lines,
    )


def sequence_lines(exchange: Exchange) -> tuple[str, ...]:
    """The diagram as lines of text, one for each envelope."""
    began, lines = exchange.steps[0].t, []
    for step in exchange.steps:
        whom = ", ".join(step.to[:MOST_LIFELINES]) or "everybody"
        refused = f" ✗ refused: {step.code}" if step.refused else ""
        text = f"#{step.seq} +{max(0.0, step.t - began):.3f} s {step.sender} → {whom}: {step.kind} {step.what}{refused}"
        lines.append(one_line(text, 240))
    more = _left_out(exchange)
    return (*lines, more) if more else tuple(lines)


def _left_out(exchange: Exchange) -> str:
    return f"{exchange.left_out} more related envelopes are not shown." if exchange.left_out else ""


def _row(
    step: Entry, top: float, lifelines: _Lifelines, numbers: dict[str, int], began: float, right: float
) -> SvgShape:
    family = family_of(step.kind)
    y = top + 20
    answers = [numbers[id] for id in step.correlation_id if id in numbers and numbers[id] != step.seq]
    related = f"↳{answers[0]} " if answers else ""
    refused = f"✗ {step.code} " if step.refused else ""
    whom = ", ".join(step.to[:MOST_LIFELINES]) or "everybody"
    return shape(
        "g",
        shape("title", text=one_line(f"#{step.seq} {step.sender} → {whom}: {step.kind} {step.what}", 400)),
        text_line(44, y, str(step.seq), "faint", text_anchor="end"),
        text_line(104, y, f"+{max(0.0, step.t - began):.3f} s", "faint", text_anchor="end"),
        *_arrow(step, y, lifelines),
        shape("rect", css=f"filled is-{family.name}", x=right, y=y - 12, width=3, height=16),
        text_line(right + 8, y, one_line(f"{related}{refused}{visible(step.what)}", 64)),
        css=f"is-{'error' if step.refused else family.name}",
        data_seq=step.seq,
    )


def _arrow(step: Entry, y: float, lifelines: _Lifelines) -> list[SvgShape]:
    x = lifelines.x(step.sender)
    start = shape("circle", css="filled", cx=x, cy=y, r=3)
    if step.to:
        ends = sorted({lifelines.x(who) for who in step.to} - {x})
    else:
        ends = [other for other in lifelines.all_x if other != x]
    if not ends:
        whole = shape("path", css="arrow drawn", d=f"M{x:g} {y - 6:g} h24 v10 h-18")
        heads = [] if step.refused else [_head(x + 6, y + 4, -1)]
        mark = [_cross(x + 24, y)] if step.refused else []
        return [whole, *heads, *mark, start, _name(x + 30, y, step, "start")]
    nearest = min(ends, key=lambda end: abs(end - x))
    name = _name((x + nearest) / 2, y, step, "middle")
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


def _name(x: float, y: float, step: Entry, anchor: str) -> SvgShape:
    return text_line(x, y - 6, one_line(step.kind or "unreadable", 21), "code halo", text_anchor=anchor)
