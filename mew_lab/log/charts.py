"""Draws pictures of a log, live or from a file: traffic, response times, decisions, tokens, cost, and who talks to whom.

`rate(log)`, `latency(log)`, `decisions(log)`, `tokens(log)`, `usage(log)`, `cost(log)`, `talk(log)` and `rules(log)`
return a `Drawing` that a cell shows and the saved notebook keeps; `log.charts.rate()` is the same. Each is drawn from
frames of the log, so all of them together read the log once. `sequence(exchange)` draws one exchange. A picture is
bounded: at most 240 bars, the newest 2000 points, 12 participants; it states what it leaves out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.log.decided_calls import decided_calls
from mew_lab.log.drawing import Drawing, SvgShape, lasted, shape, text_line
from mew_lab.log.frames import FrameSource
from mew_lab.log.pairs import How, Pair, spread
from mew_lab.log.sequence import sequence
from mew_lab.protocol.families import FAMILIES, family_index
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.visible import middle
from mew_lab.rules.backtests import Frontier, learned_frontier

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Charts",
    "Series",
    "cost",
    "decisions",
    "frontier_of",
    "latency",
    "latency_of",
    "rate",
    "rate_of",
    "rules",
    "sequence",
    "series_of",
    "talk",
    "tokens",
    "usage",
]

MOST_BARS, MOST_POINTS, MOST_NAMES = 240, 2000, 12
_WIDTH, _LEFT, _RIGHT = 720, 48, 8
MOST_RULES = 12  # rules whose words stand below a picture
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
    return _count([(t, family_index(kind), 1) for t, kind in moments], most)


def _count(moments: Sequence[tuple[float, int, int]], most: int) -> Series:
    """Counts (moment, index of the family, messages) in intervals, as `series_of` does."""
    if not moments:
        return Series(0.0, 1.0, ())
    low, high = min(t for t, _, _ in moments), max(t for t, _, _ in moments)
    step = float(next((length for length in _STEPS if (high - low) / length < most - 1), 0)) or math.ceil(
        (high - low) / (most - 1)
    )
    first = math.floor(low / step) * step
    counts = [[0] * len(FAMILIES) for _ in range(int((high - first) // step) + 1)]
    for t, family, messages in moments:
        counts[int((t - first) // step)][family] += messages
    return Series(first, step, tuple(map(tuple, counts)))


class Charts:
    """The charts of one log; each is drawn anew from its frames, and all of them read the log once."""

    def __init__(self, log: FrameSource) -> None:
        self._log = log

    def rate(self) -> Drawing:
        """Messages per second by family, over the whole log."""
        return rate(self._log)

    def latency(self) -> Drawing:
        """How long requests waited for their answers, and proposals for the first decision."""
        return latency(self._log)

    def talk(self) -> Drawing:
        """Messages counted by sender and addressee."""
        return talk(self._log)

    def decisions(self) -> Drawing:
        """How long each person and each policy took to decide."""
        return decisions(self._log)

    def tokens(self) -> Drawing:
        """The tokens in the context of each participant that reports them, over time."""
        return tokens(self._log)

    def usage(self) -> Drawing:
        """The tokens that each model has read and written so far, over time."""
        return usage(self._log)

    def cost(self) -> Drawing:
        """The recorded cost of each model, or of each participant that names none, over time."""
        return cost(self._log)

    def rules(self) -> Drawing:
        """What rules that the first half of the decisions suggests would have decided in the other half."""
        return rules(self._log)

    def __repr__(self) -> str:
        return "charts: rate(), latency(), talk(), decisions(), tokens(), usage(), cost(), rules()"


def rate(log: FrameSource) -> Drawing:
    """Messages per second by family, over the whole log."""
    traffic = _frame(log, "traffic")
    places = {family.name: place for place, family in enumerate(FAMILIES)}
    return rate_of(
        _count(
            [
                (t, places[family], messages)
                for t, family, messages in zip(
                    _seconds(traffic), traffic["family"].tolist(), traffic["messages"].tolist(), strict=True
                )
            ],
            MOST_BARS,
        )
    )


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
    marks = [(value, floor - value * scale) for value in (0.0, ceiling / 2, ceiling)]
    shapes = _scale(width - _RIGHT, floor, marks, "{:g}".format)
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


def latency(log: FrameSource) -> Drawing:
    """How long requests waited for their answers, and proposals for the first decision; the ledger says which count."""
    requests, proposals = _frame(log, "requests"), _frame(log, "proposals")
    pairs = [
        Pair("request", row.seq, row.sender, row.answer, row.t + row.latency, row.latency, "answered", row.by)
        for row in _rows(requests[requests["latency"].notna()], by="answered_by", answer="answer")
    ]
    for row in _rows(
        proposals[proposals["latency"].notna()], by="decided_by", state="state", no="rejections"
    ):
        ended: How = "rejected" if row.no else "withdrawn" if row.state == "withdrawn" else "fulfilled"
        pair = Pair("decision", row.seq, row.sender, 0, row.t + row.latency, row.latency, ended, row.by)
        pairs.append(pair)
    pairs.sort(key=lambda pair: pair.t)
    waiting = int((requests["state"] == "waiting").sum()), int((proposals["state"] == "open").sum())
    return latency_of(pairs, waiting=waiting)


class _CallOfFrame(NamedTuple):
    """The cells of a row of `requests` or `proposals` that a chart needs."""

    seq: int
    sender: str
    t: float
    latency: float
    by: str
    answer: int = 0
    state: str = ""
    no: int = 0


def _rows(frame: pd.DataFrame, **columns: str) -> list[_CallOfFrame]:
    names = {"seq": "seq", "sender": "from", "latency": "latency", **columns}
    values = {name: frame[column].tolist() for name, column in names.items()} | {"t": _seconds(frame)}
    known = [values.get(name) or [0 if name == "no" else ""] * len(frame) for name in _CallOfFrame._fields]
    return list(map(_CallOfFrame._make, zip(*known, strict=True)))


def _seconds(frame: pd.DataFrame) -> list[float]:
    """The column `time`, in seconds since the epoch."""
    microseconds: list[int] = frame["time"].astype("int64").tolist()
    return [moment / 1e6 for moment in microseconds]


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
        shapes += [text_line(4, top - 10, line), *_scale(width - _RIGHT, floor, marks, _decade)]
        room = width - _LEFT - _RIGHT - 12
        shapes += _dots(
            (pair.how, _LEFT + 6 + (pair.t - low) / span * room, _height(pair.seconds, bounds, top, floor))
            for pair in ours[-MOST_POINTS:]
        )
    title = "Answers and decisions: ● answered or approved, × rejected, ○ withdrawn"
    return Drawing(title, "; ".join(lines), width, 2 * tall + 4, tuple(shapes), tuple(lines))


def _summary(name: str, pairs: Sequence[Pair], waiting: int) -> str:
    durations = spread(pair.seconds for pair in pairs)
    waits = f"; {waiting} waiting" if waiting else ""
    if not durations.of:
        return f"{name}: none ended{waits}"
    shown = f", the newest {MOST_POINTS} drawn" if durations.of > MOST_POINTS else ""
    return f"{name}: median {lasted(durations.p50)}, p95 {lasted(durations.p95)}, of {durations.of}{shown}{waits}"


def talk(log: FrameSource) -> Drawing:
    """Envelopes counted by sender and addressee; an envelope without addressee counts for everybody."""
    frame = _frame(log, "talk")
    cells: Counter[tuple[str, str]] = Counter()
    for sender, whom, messages in zip(frame["from"], frame["to"], frame["messages"], strict=True):
        cells[_member(sender), _member(whom) or "everybody"] += int(messages)
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


def decisions(log: FrameSource) -> Drawing:
    """How long each person and each policy took to approve or reject a proposal, on a logarithmic scale."""
    frame = _frame(log, "decisions")
    decided = frame[frame["decided_by"] != ""].fillna({"edited": False})
    title = "Decisions: ● approved, ○ approved with an edit, × rejected"
    if not len(decided):
        return _nothing(title, "Nothing was decided yet.")
    times: dict[str, list[tuple[float, How]]] = {}
    columns = ("decided_by", "policy", "decision_latency", "outcome", "edited")
    for by, policy, seconds, outcome, edited in zip(*(list(decided[name]) for name in columns), strict=True):
        how: How = "rejected" if outcome == "rejected" else "withdrawn" if edited else "fulfilled"
        times.setdefault(f"{by}, policy {policy}" if policy else by, []).append((seconds, how))
    names = sorted(times, key=lambda name: -len(times[name]))
    bounds = _decades([seconds for each in times.values() for seconds, _ in each])
    width, left, row, top = _WIDTH, 176, 34, 12
    shown = names[:MOST_NAMES]
    floor = top + row * len(shown)

    def across(seconds: float) -> float:
        return left + _height(seconds, bounds, 0, width - left - 24) * -1 + width - left - 24

    shapes: list[SvgShape] = []
    lines = []
    for power in range(bounds[0], bounds[1] + 1):
        x = across(10.0**power)
        shapes += [
            shape("line", css="thin", x1=x, y1=top, x2=x, y2=floor),
            text_line(x, floor + 16, _decade(10.0**power), "faint", text_anchor="middle"),
        ]
    for n, name in enumerate(shown):
        y = top + row * n + row / 2
        each = times[name]
        durations = spread(seconds for seconds, _ in each)
        median = f"median {lasted(durations.p50)}, of {durations.of}"
        lines.append(f"{name}: {median}, p95 {lasted(durations.p95)}")
        shapes += [
            text_line(8, y, middle(name, 26), "code"),
            text_line(8, y + 13, median, "faint"),
            shape("line", css="rule", x1=left, y1=y, x2=width - 24, y2=y),
        ]
        shapes += _dots((how, across(seconds), y) for seconds, how in each[-MOST_POINTS:])
    lines += _hidden(len(names) - len(shown), "deciders")
    shapes.append(text_line(8, floor + 34, "● approved   ○ approved with an edit   × rejected", "faint"))
    return Drawing(title, "; ".join(lines), width, floor + 44, tuple(shapes), tuple(lines))


def rules(log: FrameSource) -> Drawing:
    """What rules that the first half of the decisions suggests would have decided in the other half."""
    return frontier_of(learned_frontier(decided_calls(_frame(log, "decisions"))))


def frontier_of(frontier: Frontier) -> Drawing:
    """Coverage against wrong approvals, one numbered point for each rule that is added, and the rules below it."""
    title = "Rules: what they cover, and how much of it a person decided otherwise"
    if not frontier.points:
        return _nothing(title, "The decisions suggest no rule.")
    width, height, top = _WIDTH, 220, 28
    room, floor = width - _LEFT - _RIGHT, height - 40
    worst = _round_up(max(0.01, *(point.wrong_rate for point in frontier.points)))
    marks = [(part * worst, floor - part * (floor - top)) for part in (0.0, 0.5, 1.0)]
    shapes = _scale(width - _RIGHT, floor, marks, lambda value: f"{value * 100:g} %")
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = "end" if part == 1 else "middle"  # the last one would be cut by the border
        shapes.append(
            text_line(_LEFT + part * room, floor + 16, f"{part * 100:.0f} %", "faint", text_anchor=anchor)
        )
    shapes += [
        text_line(4, 14, "wrong, of what the rules would have approved", "faint"),
        text_line(width - _RIGHT, floor + 34, "covered, of what was approved", "faint", text_anchor="end"),
    ]
    places = [
        (_LEFT + point.coverage * room, floor - point.wrong_rate / worst * (floor - top))
        for point in frontier.points
    ]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    shapes.append(shape("path", css="drawn cross is-proposal", d=path))
    shapes.append(
        shape("path", css="drawn dots is-proposal", d="".join(f"M{x:.1f} {y:.1f}h0" for x, y in places))
    )
    # Where rules share a place, the number of the first one stands there.
    free = {
        (round(x / 16), round(y / 12)): (point, x, y)
        for point, (x, y) in reversed([*zip(frontier.points, places, strict=True)])
    }
    for point, x, y in free.values():
        shapes.append(text_line(x, y - 7, str(point.rules), text_anchor="middle"))
    shown = frontier.points[:MOST_RULES]
    for n, point in enumerate(shown):
        told = f"{point.rules}  {middle(point.rule.text.removesuffix(', and nothing else: approve'), 108)}"
        shapes.append(text_line(4, height + 12 + 16 * n, told, "faint"))
    below = _hidden(len(frontier.points) - len(shown), "rules")
    shapes += [text_line(4, height + 12 + 16 * len(shown), line, "faint") for line in below]
    height += 16 * (len(shown) + len(below)) + 6
    lines = str(frontier).split("\n")
    return Drawing(title, lines[0], width, height, tuple(shapes), tuple(lines))


def tokens(log: FrameSource) -> Drawing:
    """The tokens in the context of each participant that reports them, over time."""
    frame = _frame(log, "telemetry")
    known = frame[frame["tokens"].notna()].fillna({"max_tokens": 0})
    title = "Tokens in the context of each participant"
    if not len(known):
        return _nothing(title, "No participant has reported its tokens.")
    points: dict[str, list[tuple[float, float]]] = {}
    limits: dict[str, int] = {}
    columns = ("from", "time", "tokens", "max_tokens")
    for name, moment, used, most in zip(*(list(known[column]) for column in columns), strict=True):
        points.setdefault(name, []).append((moment.timestamp(), max(0, int(used))))
        if most > 0:
            limits[name] = int(most)
    return _lines_of(
        title, "tokens", points, _thousands, lambda name, used: _of_limit(used, limits.get(name))
    )


def _of_limit(used: Sequence[float], limit: int | None) -> str:
    of = f" of {limit}" if limit else ""
    return f"{used[-1]:.0f}{of} tokens at last, at most {max(used):.0f}"


def usage(log: FrameSource) -> Drawing:
    """The tokens that each model has read and written so far, over time; those of a cache count as read."""
    title = "Tokens read and written so far, by model"
    frame = _frame(log, "telemetry")
    known = frame[frame["output_tokens"].notna()].fillna({"input_tokens": 0, "cached_tokens": 0})
    if not len(known):
        return _nothing(title, "No tokens of an answer are recorded.")
    points: dict[str, list[tuple[float, float]]] = {}
    parts: dict[str, Counter[str]] = {}
    columns = ("from", "model", "time", "input_tokens", "output_tokens", "cached_tokens")
    for name, model, moment, read, written, cached in zip(
        *(list(known[one]) for one in columns), strict=True
    ):
        series = model or name
        total = parts.setdefault(series, Counter())
        total.update(read=int(read), written=int(written), cached=int(cached))
        points.setdefault(series, []).append((moment.timestamp(), total["read"] + total["written"]))

    def tell(name: str, _: Sequence[float]) -> str:
        part = parts[name]
        return f"{part['read']} tokens read, {part['cached']} of them from a cache, and {part['written']} written"

    return _lines_of(title, "tokens", points, _thousands, tell)


def cost(log: FrameSource) -> Drawing:
    """The recorded cost so far, over time: by model that of each answer, or by participant that of its session."""
    title = "Recorded cost so far in dollars, by model"
    frame = _frame(log, "telemetry")
    points: dict[str, list[tuple[float, float]]] = {}
    totals = set(
        frame[frame["total_cost"].notna()]["from"]
    )  # what a session states wins over what is added up
    columns = ("from", "model", "time", "cost", "total_cost")
    for name, model, moment, one, total in zip(*(list(frame[column]) for column in columns), strict=True):
        if total == total:
            points.setdefault(name, []).append((moment.timestamp(), total))
        elif one == one and name not in totals:
            before = points.setdefault(model or name, [])
            before.append((moment.timestamp(), (before[-1][1] if before else 0.0) + one))
    if not points:
        return _nothing(title, "No cost is recorded; nothing is computed from prices.")
    return _lines_of(title, "USD", points, "{:g}".format, lambda _, used: f"{used[-1]:.4f} USD")


def _lines_of(
    title: str,
    unit: str,
    points: Mapping[str, Sequence[tuple[float, float]]],
    write: Callable[[float], str],
    tell: Callable[[str, Sequence[float]], str],
) -> Drawing:
    """Lines over time, one for each name."""
    names = sorted(points, key=lambda name: -max(used for _, used in points[name]))
    shown = names[:MOST_NAMES]
    low = min(t for name in shown for t, _ in points[name])
    span = max(t for name in shown for t, _ in points[name]) - low or 1.0
    width, top, floor = _WIDTH, 24, 180
    least = 1.0 if unit == "tokens" else 0.001
    ceiling = _round_up(max(least, *(used for name in shown for _, used in points[name])))
    room = width - _LEFT - 140
    marks = [(value, floor - value / ceiling * (floor - top)) for value in (0.0, ceiling / 2, ceiling)]
    shapes = [text_line(4, 14, unit, "faint"), *_scale(_LEFT + room, floor, marks, write)]
    lines, labels = [], list[tuple[float, str, str]]()
    for n, name in enumerate(shown):
        each, css = points[name][-MOST_POINTS:], f"is-{FAMILIES[n % len(FAMILIES)].name}"
        places = [
            (_LEFT + (t - low) / span * room, floor - used / ceiling * (floor - top)) for t, used in each
        ]
        path = "".join(f"{'M' if at == 0 else 'L'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(places))
        shapes.append(shape("path", css=f"arrow drawn {css}", d=path))
        shapes.append(
            shape("path", css=f"dots drawn {css}", d="".join(f"M{x:.1f} {y:.1f}h0" for x, y in places))
        )
        labels.append((places[-1][1], middle(name, 17), css))
        lines.append(f"{name}: {tell(name, [used for _, used in each])}")
    below = 0.0
    for y, name, css in sorted(labels):  # a label below the one before, where they would overlap
        below = max(y + 4, below + 13)
        shapes.append(text_line(_LEFT + room + 12, below, name, "code"))
        shapes.append(shape("path", css=f"dots drawn {css}", d=f"M{_LEFT + room + 6:.1f} {below - 4:.1f}h0"))
    shapes += [
        text_line(_LEFT, floor + 18, _moment(low), "faint"),
        text_line(_LEFT + room, floor + 18, _moment(low + span), "faint", text_anchor="end"),
    ]
    lines += _hidden(len(names) - len(shown), "participants or models")
    height = int(max(floor + 28, below + 12))
    return Drawing(title, "; ".join(lines), width, height, tuple(shapes), tuple(lines))


def _hidden(count: int, what: str) -> list[str]:
    return [f"{count} {what} more are not shown"] if count > 0 else []


def _thousands(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


# --- scales ---


def _frame(log: FrameSource, name: str) -> pd.DataFrame:
    frame = getattr(log, "frame", None)
    if not callable(frame):
        raise ConfigError(
            f"a chart draws a Log, such as lab.log or mew_lab.open_log(path), not {type(log).__name__}; "
            "charts.talk(lab.log) takes no .df"
        )
    made: pd.DataFrame = frame(name)
    return made


def _nothing(title: str, why: str) -> Drawing:
    return Drawing(title, why, 360, 32, (text_line(8, 20, why, "faint"),), (why,))


def _scale(
    right: float, floor: float, marks: Iterable[tuple[float, float]], write: Callable[[float], str]
) -> list[SvgShape]:
    """A line to `right` at each mark, which is a value and its height, with the value before it."""
    shapes: list[SvgShape] = []
    for value, y in marks:
        shapes += [
            shape("line", css="rule" if y >= floor else "thin", x1=_LEFT, y1=y, x2=right, y2=y),
            text_line(_LEFT - 6, y + 4, write(value), "faint", text_anchor="end"),
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


def _dots(points: Iterable[tuple[How, float, float]]) -> list[SvgShape]:
    """The marks of how something ended, at their places."""
    drawn: dict[How, str] = {}
    for how, x, y in points:
        drawn[how] = drawn.get(how, "") + _dot(how, x, y)
    return [
        shape(
            "path",
            css=f"{'arrow' if how in ('rejected', 'withdrawn') else 'dots'} drawn {_MARKS[how]}",
            d=path,
        )
        for how, path in drawn.items()
    ]


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
