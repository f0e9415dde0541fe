"""How does a browser see every envelope, once, in order, at thousands a second?

The log is the only truth; the feed has a cursor in it. The writer sends the rows after the cursor, in one
message in a twentieth of a second. Each message says after which row it begins: a view that misses one
notices, and asks again from the last row that it has, which moves the cursor back; a view that has the rows
already ignores them. So a reload, a second view and a message that the server dropped are one and the same
case. What the views could not hold anyway (they keep 20 000 rows) is not sent. The exact text of an envelope
travels only when somebody opens its row.

It does not know how rows are made.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from mew_lab.notebook.widgets.live import INSTALL, LiveWidget, front_end
from mew_lab.notebook.widgets.pictures import MOST_ROWS, clock_time, picture
from mew_lab.protocol.visible import visible
from mew_lab.workbench.cards import Row, Rows

if TYPE_CHECKING:
    from mew_lab.workbench.lab import Lab

__all__ = ["FeedView", "view_of"]

_ESM, _CSS = front_end("feed")

RING = 20_000
CHUNK = 2_000
RAW = 64 * 1024
_SIGNS = {"accepted": "✓", "refused": "✗", "sent": "·"}


def view_of(lab: Lab) -> FeedView:
    """The one of this lab."""
    return FeedView(lab.rows)


class FeedView(LiveWidget):
    """The live table of one log. Show it as often as you like."""

    _esm = _ESM
    _css = _CSS
    title = "feed"
    interval = 0.05

    def __init__(self, source: Rows, **traits: Any) -> None:
        self._source = source
        # Only the writer moves the cursor.
        self._cursor = 0
        self._head: tuple[str, int] = ("", -1)
        self._texts: deque[tuple[str, int, bool]] = deque(maxlen=100)
        super().__init__(**traits)
        self._leave = source.subscribe(self.wake)

    # What the writer sends.

    def _snapshot(self, start: int) -> dict[str, Any]:
        last = self._source.last_seq
        # A view from another life of this log may have seen more than there is.
        start = start if start <= last else 0
        self._cursor = min(self._cursor, max(start, last - RING))
        self._head = self._source.title()
        first = self._source.since(0, 1)
        began = round(first[0].t, 3) if first else None
        return {"last": last, "start": start, "ring": RING, "began": began} | self._heading()

    def _heading(self) -> dict[str, Any]:
        name, members = self._head
        return {"space": visible(name), "members": members}

    def _news(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        last = self._source.last_seq
        after = max(self._cursor, last - RING)
        rows = self._source.since(after, CHUNK) if last > after else []
        if rows:
            # `after` vouches for what is missing between it and the first row: it is not held any more.
            items.append({"t": "rows", "after": self._cursor, "rows": [_packed(row) for row in rows]})
            self._cursor = rows[-1].seq
            if self._cursor < last:
                self.wake()
        if (head := self._source.title()) != self._head:
            self._head = head
            items.append({"t": "head"} | self._heading())
        while self._texts:
            items.append(self._text(*self._texts.popleft()))
        return items

    def _text(self, view: str, seq: int, whole: bool) -> dict[str, Any]:
        raw = self._source.raw(seq)
        text = (
            visible(raw if whole else raw[:RAW]) or "The text is not held here any more: lab.log.df has it."
        )
        return {
            "t": "raw",
            "view": view,
            "seq": seq,
            "text": text,
            "more": 0 if whole else max(0, len(raw) - RAW),
        }

    # What the views send.

    def _handle(self, message: dict[str, Any]) -> None:
        view, seq = message.get("view"), message.get("seq")
        if (
            message.get("t") == "raw"
            and isinstance(view, str)
            and isinstance(seq, int)
            and 0 < seq <= self._source.last_seq
        ):
            self._texts.append((view[:40], seq, message.get("all") is True))
            self.wake()

    # Pictures.

    def _static_text(self) -> str:
        name, members = self._source.title()
        count = self._source.last_seq
        return f"Feed of {name}: {count} envelope{'' if count == 1 else 's'}, {members} members"

    def _static_html(self) -> str:
        last = self._source.last_seq
        rows = self._source.since(max(0, last - MOST_ROWS), MOST_ROWS)
        cells = [
            (
                str(row.seq),
                clock_time(row.t),
                row.sender,
                ", ".join(row.to),
                row.kind,
                row.what,
                f"⇠ {row.correlates}" if row.correlates else "",
                f"{_SIGNS.get(row.verdict, '')} {row.code}".strip(),
            )
            for row in rows
        ]
        name, members = self._source.title()
        title = f"{name}, {members} members, as of {clock_time(self.clock())}, {last} envelopes"
        notes = [
            f"{last - len(rows)} earlier envelopes are not shown: lab.log.df has all."
            if last > len(rows)
            else "",
            "" if rows else 'Nothing was said yet. lab.chat("hello") fills this.',
            f"A picture. The live view {INSTALL}.",
        ]
        columns = ("#", "received", "from", "to", "kind", "what", "answers", "verdict")
        return picture(title, columns, cells, notes=filter(None, notes), code=("#", "from", "to", "kind"))


def _packed(row: Row) -> list[Any]:
    """A row as the views get it; the order of feed.js."""
    return [
        row.seq,
        round(row.t, 3),
        visible(row.sender),
        visible(", ".join(row.to)),
        visible(row.kind),
        visible(row.what),
        visible(row.context),
        row.correlates,
        f"{_SIGNS.get(row.verdict, '')} {visible(row.code)}".strip(),
        row.size,
    ]
