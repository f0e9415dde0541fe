"""The streams in a saved notebook: rows of a plain table, and the last lines of the stream that was looked into.

The table escapes its cells (`ui.pictures`).
"""

from __future__ import annotations

from mew_lab.protocol.visible import one_line
from mew_lab.views.streams.kinds import Kind
from mew_lab.views.streams.model import StreamsModel
from mew_lab.views.streams.row import StreamRow
from mew_lab.views.streams.watch import StreamWatch
from mew_lab.views.ui.pictures import clock_time, picture

__all__ = ["CODE", "COLUMNS", "cells_of", "last_lines"]

COLUMNS = ("stream", "what for", "owner", "writers", "to", "type", "state", "frames", "bytes", "since")
CODE = ("stream", "owner", "writers", "to", "type")
LAST_LINES = 20


def cells_of(row: StreamRow, traffic: tuple[int, int, float]) -> tuple[str, ...]:
    """The cells of a row, in the order of COLUMNS; `traffic` as `StreamsModel.traffic` tells it."""
    state = f"{row.state}: {one_line(row.reason, 120)}" if row.reason else row.state
    type = " ".join(filter(None, (row.content_type, row.format)))
    to = ", ".join(row.target) or "everybody"
    who = (one_line(row.owner, 60), one_line(", ".join(row.writers), 120), one_line(to, 120))
    counts = (str(traffic[0]), str(traffic[1])) if row.reaches else ("not for you", "")
    words = (one_line(row.id, 60), one_line(row.description, 200))
    return (*words, *who, one_line(type, 80), state, *counts, clock_time(row.since))


def last_lines(streaming: StreamsModel, key: int, kind: Kind) -> str:
    """A table of the last 20 lines that are held of a stream, read in that way; empty when it is not kept any more."""
    held, row = streaming.buffer(key), streaming.row(key)
    if held is None or row is None:
        return ""
    shown = StreamWatch(streaming.frames, held, kind, format=row.format).next()
    if kind == "image":
        size = f"{shown['type']}, {shown['width']} × {shown['height']}" if "type" in shown else "no picture"
        lines = [f"{size} {shown.get('note', '')}".strip()]
    elif kind == "json":
        lines = [("" if good else "not JSON: ") + text for _, good, text, _ in shown.get("rows", [])]
    elif kind == "hex":
        lines = [f"{offset:08x}  {data:<47}  {text}" for offset, data, text in shown.get("lines", [])]
    elif kind == "numbers":
        lines = ["  ".join("–" if one is None else f"{one:g}" for one in p) for p in shown.get("points", [])]
    else:
        lines = str(shown.get("text", "")).rstrip("\n").split("\n")
    cells = [(one_line(line, 400),) for line in lines[-LAST_LINES:]]
    way = {"json": "JSON lines", "hex": "hexadecimal"}.get(kind, kind)
    title = f"{row.id} of {row.owner} as {way}: the last {len(cells)} lines of {held.end.bytes} bytes"
    return picture(title, (row.id,), cells, code=(row.id,))
