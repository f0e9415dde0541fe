"""The streams view: a human sees the streams of a space, and reads one while it runs.

The list goes to the views as rows: a whole row when it has changed, its counts alone at most twice a second. The bytes
of a stream are read here, in Python. They go as visible text, numbers or a whole picture to the one view that has opened
the stream, at most 256 KiB a second; the view shows how many bytes were skipped. A page has at most 200 rows: the
human's own, the watched, the open and the newest ones first. It shows how many are left out.

`StreamActions` performs the actions that a page requests; a refusal is the gateway's sentence. No path and no file name
comes from a page or a peer.

Spec: §3.10.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.session import Session
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.views.streams.actions import StreamActions
from mew_lab.views.streams.model import StreamsModel
from mew_lab.views.streams.readers import is_numeric
from mew_lab.views.streams.row import Kind, StreamRow
from mew_lab.views.streams.watch import StreamWatch
from mew_lab.views.ui.acts import Act, ActingView, ActResult
from mew_lab.views.ui.pictures import MOST_ROWS, clock_time, picture
from mew_lab.views.ui.sent_rows import SentRows

__all__ = ["StreamsView", "view_of"]

COUNTS_EVERY = 0.5
MOST_OTHERS = 200
MOST_WATCHES = 16
EMPTY = "No streams yet. A participant or you can open one."
EMPTY_CODE = 'await lab.me.participant.streams.request_stream(description="…")'


def view_of(session: Session) -> StreamsView:
    """Makes the view of this space."""
    streaming = StreamsModel(session.me.participant)
    session.loop.call(lambda: streaming.follow(session.following))
    return StreamsView(streaming, loop=session.loop)


class StreamsView(ActingView):
    """The streams of one lab. Show it as often as you like; each view shows a stream of its own choice.

    `streaming` (rows and held frames) and `actions` (such as `actions.save(key)`) serve code in the notebook.
    """

    part = "streams"
    title = "streams"
    interval = 0.1

    def __init__(self, streaming: StreamsModel, *, loop: LoopThread, **settings: Any) -> None:
        self.streaming = streaming
        self.actions = StreamActions(streaming)
        # Filled by any thread; only the writer uses the members below.
        self._wishes: deque[Callable[[], None]] = deque(maxlen=1000)
        self._watches: BoundedDict[str, tuple[int, StreamWatch]] = BoundedDict(MOST_WATCHES)
        self._sent: SentRows[int, StreamRow] = SentRows()
        self._counts: dict[int, tuple[int, int, int]] = {}
        self._counted = 0.0
        self._looked: tuple[int, Kind] | None = None
        super().__init__(submit=loop.submit, **settings)
        self.on_close(streaming.changed.add(self.wake))
        self.on_close(lambda: loop.post(streaming.stop))

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        rows = self._listed()
        counts = [[row.key, *self._traffic(row.key)] for row in rows]
        return {
            "rows": [_pack(row) for row in rows],
            "counts": counts,
            "empty": EMPTY,
            "code": EMPTY_CODE,
        }

    def _news(self) -> list[dict[str, Any]]:
        while self._wishes:
            self._wishes.popleft()()
        items = self._list_news()
        for view, (key, watch) in list(self._watches.items()):
            if view not in self._views:
                del self._watches[view]
            elif shown := watch.next():
                items.append({"t": "shown", "view": view, "key": key, "kind": watch.kind} | shown)
        if any(watch.waits for _, watch in self._watches.values()):
            self.wake()
        return items

    def _list_news(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        rows = {row.key: row for row in self._listed()}
        changed, gone, is_cut = self._sent.take(rows)
        if is_cut:
            self.wake()
        if gone:
            items.append({"t": "gone", "keys": gone})
        if changed:
            items.append({"t": "rows", "rows": [_pack(row) for row, _ in changed]})
        now = time.monotonic()
        counts = {key: self._traffic(key) for key in rows}
        moved = [[key, *count] for key, count in counts.items() if self._counts.get(key) != count]
        if moved and now - self._counted < COUNTS_EVERY:
            self.wake()
        elif moved:
            self._counted, self._counts = now, counts
            items.append({"t": "counts", "counts": moved})
        return items

    def _traffic(self, key: int) -> tuple[int, int, int]:
        frames, size, rate = self.streaming.traffic(key)
        return frames, size, round(rate)

    def _listed(self) -> list[StreamRow]:
        rows = self.streaming.rows()
        if len(rows) <= MOST_ROWS:
            return rows
        watched = {key for key, _ in self._watches.values()}
        first = sorted(
            rows, key=lambda row: (row.mine or row.key in watched, row.state == "open", row.key), reverse=True
        )
        return sorted(first[:MOST_ROWS], key=lambda row: row.key)

    def _heading(self) -> dict[str, Any]:
        rows = self.streaming.rows()
        number = {state: sum(row.state == state for row in rows) for state in ("open", "requested")}
        left_out = max(0, len(rows) - MOST_ROWS) + self.streaming.over_left_out + self.streaming.untold
        others = self.streaming.others()[:MOST_OTHERS]
        return {
            "open": number["open"],
            "requested": number["requested"],
            "ended": len(rows) - number["open"] - number["requested"] + self.streaming.over_left_out,
            "leftOut": left_out,
            "others": [[name, one_line(name, 60)] for name in others],
            "mayRequest": self.streaming.may_request(),
        }

    # Requests of the views.

    def _messages(self) -> Mapping[str, Callable[..., None]]:
        return {"look": self._look, "pause": self._pause}

    # The writer alone changes the watches, so each of these leaves it the work.

    def _look(self, view: str, key: int, kind: Kind | None = None) -> None:
        self._wish(lambda: self._watch(view, key, kind))

    def _pause(self, view: str, on: bool) -> None:
        def pause() -> None:
            if view in self._watches:
                self._watches[view][1].paused = on

        self._wish(pause)

    def _wish(self, work: Callable[[], None]) -> None:
        self._wishes.append(work)
        self.wake()

    def _watch(self, view: str, key: int, kind: Kind | None) -> None:
        self._watches.pop(view, None)
        held, row = self.streaming.buffer(key), self.streaming.row(key)
        if held is None or row is None or view not in self._views:
            return
        chosen = kind or row.kind
        self._watches[view] = (row.key, StreamWatch(self.streaming.frames, held, chosen, format=row.format))
        self._looked = (row.key, chosen)

    def _acts(self) -> Mapping[str, Act]:
        return {
            "open": self._open,
            "close": self._close,
            "grant": self._grant_write,
            "revoke": self._revoke_write,
            "transfer": self._transfer,
            "save": self._save,
            "kind": self._kind,
        }

    def _kind(self, key: int) -> ActResult:
        """The kind in which a stream is shown first: a text that has only numbers so far is a curve."""
        row, held = self.streaming.row(key), self.streaming.buffer(key)
        kind: Kind = row.kind if row is not None else "text"
        if kind == "text" and held is not None and is_numeric(self.streaming.frames.first(held)):
            kind = "numbers"
        return ActResult(kind, {"kind": kind})

    async def _open(
        self,
        direction: str = "",
        description: str = "",
        content_type: str = "",
        format: str = "",
        target: str = "",
    ) -> ActResult:
        fields = {
            "direction": direction.strip(),
            "description": description.strip(),
            "content_type": content_type.strip(),
            "format": format.strip(),
            "target": target,
        }
        row = await self.actions.open(**{name: text for name, text in fields.items() if text})
        return ActResult(f"{row.id} is open; you own it.", {"key": row.key})

    async def _close(self, key: int) -> ActResult:
        await self.actions.close(key)
        return ActResult(f"{self._label_of(key)} is closed.")

    async def _grant_write(self, key: int, participant: str) -> ActResult:
        await self.actions.grant_write(key, _chosen(participant))
        return ActResult(f"{participant} may now write to {self._label_of(key)}.")

    async def _revoke_write(self, key: int, participant: str) -> ActResult:
        await self.actions.revoke_write(key, _chosen(participant))
        return ActResult(f"{participant} may no longer write to {self._label_of(key)}.")

    async def _transfer(self, key: int, participant: str) -> ActResult:
        await self.actions.transfer_ownership(key, _chosen(participant))
        return ActResult(f"{self._label_of(key)} belongs to {participant} now.")

    async def _save(self, key: int, kind: Kind | None = None) -> ActResult:
        saved = await self.actions.save(key, kind=kind)
        missing = f" No longer held: {count_of(saved.missing, 'earlier byte')}." if saved.missing else ""
        return ActResult(
            f"Wrote {count_of(saved.bytes, 'byte')} of {self._label_of(key)} to {saved.path}.{missing}"
        )

    def _label_of(self, key: int) -> str:
        row = self.streaming.row(key)
        return row.id if row else "The stream"

    def badge(self) -> str:
        """The number of open streams, as text; empty for none."""
        number = sum(row.state == "open" for row in self.streaming.rows())
        return f"{number} open" if number else ""

    # Saved pictures.

    def _static_text(self) -> str:
        head = self._heading()
        return f"Streams: {head['open']} open, {head['requested']} requested, {head['ended']} closed"

    def _static_html(self) -> str:
        rows, head = self._listed(), self._heading()
        cells = [cells_of(row, self.streaming.traffic(row.key)) for row in rows]
        title = f"Streams: {head['open']} open, {head['ended']} closed"
        note = f"{head['leftOut']} more are not shown." if head["leftOut"] else ""
        empty = f"{EMPTY} In code: {EMPTY_CODE}"
        table = picture(title, COLUMNS, cells, notes=[note], empty=empty, code=CODE)
        return table + (last_lines(self.streaming, *self._looked) if self._looked else "")


def _chosen(participant: str) -> str:
    if not participant:
        raise MewError("No participant was chosen, so nothing was done. Choose one first.")
    return participant


def _pack(row: StreamRow) -> dict[str, Any]:
    """A row as the views get it, with visible text."""
    return {
        "key": row.key,
        "id": visible(row.id),
        "state": row.state,
        "reason": visible(row.reason),
        "owner": visible(row.owner),
        "writers": [visible(name) for name in row.writers],
        "target": [visible(name) for name in row.target],
        "direction": visible(row.direction),
        "description": visible(row.description),
        "type": visible(row.content_type),
        "format": visible(row.format),
        "encoding": visible(row.encoding),
        "expected": row.expected,
        "since": round(row.since, 3),
        "until": None if row.until is None else round(row.until, 3),
        "late": row.late,
        "mine": row.mine,
        "reaches": row.reaches,
        "may": sorted(row.may),
        "kind": row.kind,
    }


COLUMNS = ("description", "stream", "owner", "writers", "to", "type", "state", "frames", "bytes", "since")
CODE = ("stream", "owner", "writers", "to", "type")
LAST_LINES = 20


def cells_of(row: StreamRow, traffic: tuple[int, int, float]) -> tuple[str, ...]:
    """The cells of a row, in the order of COLUMNS; `traffic` is the result of `StreamsModel.traffic`."""
    state = f"{row.state}: {one_line(row.reason, 120)}" if row.reason else row.state
    type = " ".join(filter(None, (row.content_type, row.format)))
    to = ", ".join(row.target) or "everybody"
    participants = (one_line(row.owner, 60), one_line(", ".join(row.writers), 120), one_line(to, 120))
    counts = (str(traffic[0]), str(traffic[1])) if row.reaches else ("not for you", "")
    names = (one_line(row.description, 200), one_line(row.id, 60))
    return (*names, *participants, one_line(type, 80), state, *counts, clock_time(row.since))


def last_lines(streaming: StreamsModel, key: int, kind: Kind) -> str:
    """A table of the last 20 held lines of a stream, read as `kind`; empty when the stream is no longer kept."""
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
        lines = [
            "  ".join("–" if value is None else f"{value:g}" for value in p) for p in shown.get("points", [])
        ]
    else:
        lines = str(shown.get("text", "")).rstrip("\n").split("\n")
    cells = [(one_line(line, 400),) for line in lines[-LAST_LINES:]]
    way = {"json": "JSON lines", "hex": "hexadecimal"}.get(kind, kind)
    last = f"{count_of(len(cells), 'line')} of {count_of(held.end.bytes, 'byte')}"
    title = f"{row.id} of {row.owner} as {way}: the last {last}"
    return picture(title, (row.id,), cells, code=(row.id,))
