"""Draws pictures of a log, live or from a file: traffic, response times, and envelopes by sender and addressee.

`rate(log)`, `latency(log)`, `talk(log)` and `sequence(exchange)` return a `Drawing` that a cell shows and the saved
notebook keeps. A picture is bounded: at most 240 bars, the newest 2000 points, 12 participants; it states what it
leaves out. This module does not know the source of the records.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.log.drawing import Drawing, SvgShape, lasted, shape, text_line
from mew_lab.log.entries import entries_of
from mew_lab.log.log import Log
from mew_lab.log.pairs import Pair, pairs_of, spread
from mew_lab.log.sequence import sequence
from mew_lab.protocol.families import FAMILIES, family_index
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.visible import middle
from mew_lab.space.events import Record

__all__ = ["Series", "latency", "latency_of", "rate", "rate_of", "sequence", "series_of", "talk"]

MOST_BARS, MOST_POINTS, MOST_NAMES = 240, 2000, 12
_WIDTH, _LEFT, _RIGHT = 720, 48, 8
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_MARKS = {
    "answered": "is-mcp",
    "fulfilled": "is-capability",
    "rejected": "is-error",
    "withdrawn": "is-participant",
}


class Series(NamedTuple):
    """Counts by family (in the order of `FAMILIES`), one tuple for each `step` seconds from `first` on."""

    first: float
    step: float
    counts: tuple[tuple[int, ...], ...]

    @property
    def totals(self) -> tuple[int, ...]:
        """The number of messages of each family."""
        return tuple(map(sum, zip(*self.counts, strict=True))) if self.counts else (0,) * len(FAMILIES)


def series_of(moments: Iterable[tuple[float, str]], *, most: int = MOST_BARS) -> Series:
    """Counts (moment, kind) pairs in at most `most` equal intervals of a round length, one second at least."""
    pairs = list(moments)
    if not pairs:
        return Series(0.0, 1.0, ())
    low, high = min(t for t, _ in pairs), max(t for t, _ in pairs)
    step = float(next((length for length in _STEPS if (high - low) / length < most - 1), 0)) or math.ceil(
        (high - low) / (most - 1)
    )
    first = math.floor(low / step) * step
    counts = [[0] * len(FAMILIES) for _ in range(int((high - first) // step) + 1)]
    for t, kind in pairs:
        counts[int((t - first) // step)][family_index(kind)] += 1
    return Series(first, step, tuple(map(tuple, counts)))


def rate(log: Log) -> Drawing:
    """Messages per second by family, over the whole log."""
    return rate_of(series_of((entry.t, entry.kind) for entry in entries_of(_records_of(log))))


def rate_of(series: Series) -> Drawing:
    """Messages per second by family: stacked bars, with the labels of the families below."""
    width, height, top = _WIDTH, 200, 24
    total = sum(series.totals)
    if not total:
        return _nothing("Messages per second", "No messages yet.")
    room, floor = width - _LEFT - _RIGHT, height - 52
    each = room / len(series.counts)
    ceiling = _round_up(max(map(sum, series.counts)) / series.step)
    scale = (floor - top) / ceiling
    shapes = _scale(width, floor, [(value, floor - value * scale) for value in (0.0, ceiling / 2, ceiling)])
    heights = [0] * len(series.counts)
    for place, family in enumerate(FAMILIES):
        bars = []
        for n, counts in enumerate(series.counts):
            if not counts[place]:
                continue
            low, tall = floor - heights[n] / series.step * scale, counts[place] / series.step * scale
            heights[n] += counts[place]
            bars.append(
                f"M{_LEFT + n * each:.1f} {low:.1f}h{max(1.0, each - 0.5):.1f}v{-tall:.1f}h{-max(1.0, each - 0.5):.1f}z"
            )
        if bars:
            shapes.append(shape("path", css=f"filled is-{family.name}", d="".join(bars)))
    end = series.first + series.step * len(series.counts)
    shapes += [
        text_line(4, 14, f"messages per second, mean of each {lasted(series.step)}", "faint"),
        text_line(_LEFT, floor + 14, _moment(series.first), "faint"),
        text_line(width - _RIGHT, floor + 14, _moment(end), "faint", text_anchor="end"),
    ]
    totals, x = [], float(_LEFT)
    for family, count in zip(FAMILIES, series.totals, strict=True):
        if count:
            shapes += [
                shape("rect", css=f"filled is-{family.name}", x=x, y=height - 16, width=3, height=12),
                text_line(x + 7, height - 6, f"{family.label} {count}"),
            ]
            x += 22 + 6.2 * len(f"{family.label} {count}")
            totals.append(f"{family.name} {count}")
    lines = [f"{total} messages in {lasted(end - series.first)}: {', '.join(totals)}"]
    return Drawing("Messages per second", lines[0], width, height, tuple(shapes), tuple(lines))


def latency(log: Log) -> Drawing:
    """Times from requests to their responses and from proposals to decisions, over the whole log."""
    pairs, ledger = pairs_of(entries_of(_records_of(log)))
    return latency_of(pairs, waiting=(len(ledger.requests.open()), len(ledger.proposals.open())))


def latency_of(pairs: Sequence[Pair], *, waiting: tuple[int, int] = (0, 0)) -> Drawing:
    """Like `latency`, from pairs: two strips on a logarithmic scale, a point for each answer."""
    width, tall = _WIDTH, 128
    if not pairs and not any(waiting):
        return _nothing("Answers and decisions", "Nothing was asked or proposed yet.")
    low = min((pair.t for pair in pairs), default=0.0)
    span = max((pair.t for pair in pairs), default=0.0) - low or 1.0
    shapes: list[SvgShape] = []
    lines: list[str] = []
    for n, (strip, name) in enumerate((("request", "Requests"), ("decision", "Decisions"))):
        ours = [pair for pair in pairs if pair.strip == strip]
        line = _summary(name, ours, waiting[n])
        lines.append(line)
        top, floor = n * tall + 24, (n + 1) * tall - 12
        bounds = _decades([pair.seconds for pair in ours])
        marks = [(10.0**p, _height(10.0**p, bounds, top, floor)) for p in range(bounds[0], bounds[1] + 1)]
        shapes += [text_line(4, top - 10, line), *_scale(width, floor, marks, durations=True)]
        dots: dict[str, list[str]] = {}
        for pair in ours[-MOST_POINTS:]:
            x = _LEFT + 6 + (pair.t - low) / span * (width - _LEFT - _RIGHT - 12)
            y = _height(pair.seconds, bounds, top, floor)
            dots.setdefault(pair.how, []).append(_dot(pair.how, x, y))
        for how, drawn in dots.items():
            css = "arrow" if how in ("rejected", "withdrawn") else "dots"
            shapes.append(shape("path", css=f"{css} drawn {_MARKS[how]}", d="".join(drawn)))
    title = "Answers and decisions: ● answered or approved, × rejected, ○ withdrawn"
    return Drawing(title, "; ".join(lines), width, 2 * tall + 4, tuple(shapes), tuple(lines))


def _summary(name: str, pairs: Sequence[Pair], waiting: int) -> str:
    durations = spread(pair.seconds for pair in pairs)
    waits = f"; {waiting} waiting" if waiting else ""
    if not durations.of:
        return f"{name}: none ended{waits}"
    shown = f", the newest {MOST_POINTS} drawn" if durations.of > MOST_POINTS else ""
    return f"{name}: median {lasted(durations.p50)}, p95 {lasted(durations.p95)}, of {durations.of}{shown}{waits}"


def talk(log: Log) -> Drawing:
    """Envelopes counted by sender and addressee; an envelope without addressee counts for everybody."""
    cells: Counter[tuple[str, str]] = Counter()
    for entry in entries_of(_records_of(log)):
        sender = _member(entry.sender)
        for whom in {_member(name) for name in entry.to} or {"everybody"}:
            cells[sender, whom] += 1
    if not cells:
        return _nothing("Messages by sender and addressee", "No messages yet.")
    busy: Counter[str] = Counter()
    for (sender, whom), count in cells.items():
        busy[sender] += count
        busy[whom] += 0 if whom == "everybody" else count
    busy.pop("everybody", None)
    names = [name for name, _ in busy.most_common(MOST_NAMES)]
    columns, left, side, row = ["everybody", *names], 132, 72, 28
    width, height = left + side * len(columns), 44 + row * len(names) + 20
    most = max(cells.values())
    shapes = [text_line(4, 36, "from ↓  to →", "faint")]
    shapes += [
        text_line(left + side * (n + 0.5), 36, middle(name, 10), "code", text_anchor="middle")
        for n, name in enumerate(columns)
    ]
    lines = []
    for n, sender in enumerate(names):
        y = 44 + row * n
        shapes += [
            shape("line", css="rule", x1=0, y1=y, x2=width, y2=y),
            text_line(left - 12, y + 18, middle(sender, 17), "code", text_anchor="end"),
        ]
        for m, whom in enumerate(columns):
            if count := cells[sender, whom]:
                x, size = left + side * m + 8, max(3.0, (side - 12) * count / most)
                shapes += [
                    shape("rect", css="filled is-mcp", x=x, y=y + 22, width=size, height=3),
                    text_line(x + side / 2 - 8, y + 18, str(count), text_anchor="middle"),
                ]
                lines.append(f"{sender} → {whom}: {count}")
    hidden = len(busy) - len(names)
    note = f"{hidden} participants with fewer messages are not shown" if hidden else ""
    if note:
        shapes.append(text_line(4, height - 6, note, "faint"))
    about = "; ".join(lines[:40])
    return Drawing(
        "Messages by sender and addressee",
        about,
        width,
        height,
        tuple(shapes),
        (*lines, *filter(None, [note])),
    )


# --- scales ---


def _records_of(log: Log) -> Iterable[Record]:
    if not isinstance(log, Log):
        raise ConfigError(
            f"a chart draws a Log, such as lab.log or mew_lab.open_log(path), not {type(log).__name__}; "
            "charts.talk(lab.log) takes no .df"
        )
    return log.records


def _nothing(title: str, why: str) -> Drawing:
    return Drawing(title, why, 360, 32, (text_line(8, 20, why, "faint"),), (why,))


def _scale(
    width: int, floor: float, marks: Iterable[tuple[float, float]], *, durations: bool = False
) -> list[SvgShape]:
    shapes: list[SvgShape] = []
    for value, y in marks:
        shapes += [
            shape("line", css="rule" if y >= floor else "thin", x1=_LEFT, y1=y, x2=width - _RIGHT, y2=y),
            text_line(
                _LEFT - 6, y + 4, _decade(value) if durations else f"{value:g}", "faint", text_anchor="end"
            ),
        ]
    return shapes


def _decade(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _round_up(value: float) -> float:
    """The next round number: 1, 2, 3, 4, 5, 6, 8, 10, 20 … (and 0.1, 0.2 …)."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(round(n * power, 9) for n in (1, 2, 3, 4, 5, 6, 8, 10) if n * power >= value * (1 - 1e-9))


def _decades(seconds: Sequence[float]) -> tuple[int, int]:
    """The exponents of ten that enclose the values, from a millisecond to some days, at least two apart."""
    values = [min(max(value, 1e-3), 1e6) for value in seconds] or [1e-3, 1.0]
    low = math.floor(math.log10(min(values)) + 1e-9)
    return low, max(low + 2, math.ceil(math.log10(max(values)) - 1e-9))


def _height(seconds: float, bounds: tuple[int, int], top: float, floor: float) -> float:
    place = (math.log10(min(max(seconds, 1e-3), 1e6)) - bounds[0]) / (bounds[1] - bounds[0])
    return floor - min(max(place, 0.0), 1.0) * (floor - top)


def _dot(how: str, x: float, y: float) -> str:
    if how == "rejected":
        return f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6"
    if how == "withdrawn":
        return f"M{x - 3:.1f} {y:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"
    return f"M{x:.1f} {y:.1f}h0"


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g} s"


def _member(name: str) -> str:
    return "gateway" if name == GATEWAY else name
