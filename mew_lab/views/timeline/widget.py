"""The timeline view: messages per second, the durations of answers and decisions, and an exchange as a diagram.

Counts, durations and the selected exchange are sent as data, changes at most four times a second. A drawing is sent as a
list of shapes. The page makes each node from a short list of tags, so markup in a text never enters the page. A saved
notebook has the drawings as images, because JupyterLab removes SVG, but no image, from a notebook that is not trusted.
The tables have the same content as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mew_lab.errors import JournalError
from mew_lab.lab.entry_feed import EntryFeed, Follower
from mew_lab.lab.loop import LoopThread, the_loop
from mew_lab.lab.rows import Rows
from mew_lab.lab.session import Session
from mew_lab.log.charts import latency_of, rate_of
from mew_lab.log.drawing import STYLE, Drawing, lasted
from mew_lab.log.entries import entry_of, number_after
from mew_lab.log.log import Log
from mew_lab.log.pairs import Pair
from mew_lab.log.sequence import sequence
from mew_lab.protocol.families import FAMILIES
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, visible
from mew_lab.views.timeline.exchanges import ExchangeSelection
from mew_lab.views.timeline.model import KindCounts, TrafficStats
from mew_lab.views.ui.acts import Act, ActingView, ActResult
from mew_lab.views.ui.log_rows import NewestRecords
from mew_lab.views.ui.pictures import MOST_ROWS, picture

if TYPE_CHECKING:
    from mew_lab.log.chains import Exchange

__all__ = ["TimelineView", "view_of", "view_of_log"]

STRIPS = ("request", "decision")
MOST_POINTS = 500
MOST_WAITING = 5
HOUR, DAY = 3600, 86400


def view_of(session: Session, rows: Rows) -> TimelineView:
    """Makes the view of this space."""
    stats, exchanges = TrafficStats(), ExchangeSelection(session.following)
    view = TimelineView(
        stats, exchanges, rows, loop=session.loop, me=session.me.name, timeout=session.timeout
    )
    session.loop.call(lambda: session.following.add(stats))
    view.on_close(lambda: session.loop.post(lambda: session.following.remove(stats)))
    view.on_close(lambda: session.loop.post(exchanges.close))
    return view


def view_of_log(log: Log, newest: NewestRecords) -> TimelineView:
    """Makes the view of a log from files: of its newest messages, with nothing to come."""
    stats, following = TrafficStats(), EntryFeed(log)
    following.add(stats, earlier=False)
    for record in newest.records:
        following.observe(record)
    exchanges = ExchangeSelection(_EndedLog(newest))
    return TimelineView(stats, exchanges, newest.rows, loop=the_loop(), me="", ended=newest.end())


class _EndedLog:
    """Feeds the messages of a log from files to a follower at once, for none come later."""

    def __init__(self, newest: NewestRecords) -> None:
        self._newest = newest

    def add(self, follower: Follower) -> None:
        last = 0
        for record in self._newest.records:
            if record.raw is not None:
                last = number_after(record, last)
                follower.take(entry_of(record, last, sign=self._newest.sign))

    def remove(self, follower: Follower) -> None:
        pass

    def caught_up(self, follower: Follower) -> bool:
        return True


class TimelineView(ActingView):
    """Messages per second, the durations of answers and decisions, and the selected exchange."""

    part = "timeline"
    more_css = STYLE
    title = "timeline"
    interval = 0.25

    def __init__(
        self,
        stats: TrafficStats,
        exchanges: ExchangeSelection,
        rows: Rows,
        *,
        loop: LoopThread,
        me: str,
        ended: datetime | None = None,
        timeout: float = 30.0,
        **settings: Any,
    ) -> None:
        self._log_end = ended  # when a log from files ends
        self._stats = stats
        self._exchanges = exchanges
        self._rows = rows
        self._loop = loop
        self._me = me
        self._timeout = timeout
        # The state that was last sent; only the writer changes these.
        self._sent_count = -1
        self._second, self._minute = 0, 0
        self._answered = dict.fromkeys(STRIPS, 0)
        self._shown: Exchange | None = None
        if ended is not None:
            settings["clock"] = lambda: ended
        super().__init__(submit=loop.submit, **settings)
        for source in (stats, exchanges):
            self.on_close(source.changed.add(self.wake))

    # The interface for code in the notebook.

    def select(self, which: str | int) -> Drawing:
        """Shows the exchange of the envelope with that id, or that number in the feed; returns its diagram.

        As the value of a cell the diagram is saved in the notebook.

        Raises:
            JournalError: when there is no such envelope, or it is no longer held.
        """
        doing = f"looking for the exchange of {which!r:.80}"
        return sequence(self._loop.run(self._exchanges.select(which), timeout=self._timeout, doing=doing))

    @property
    def diagram(self) -> Drawing | None:
        """The present diagram of the selected exchange; None when none is selected."""
        exchange = self._exchanges.selected
        return None if exchange is None else sequence(exchange)

    @property
    def rate(self) -> Drawing:
        """A drawing of the messages per second in the last hour."""
        return rate_of(self._stats.series(HOUR))

    @property
    def latency(self) -> Drawing:
        """A drawing of the durations of the newest answered requests and decided proposals."""
        pairs = sorted(
            (pair for strip in STRIPS for pair in self._stats.pairs(strip)), key=lambda pair: pair.t
        )
        requests, proposals = (len(self._stats.waiting(strip)) for strip in STRIPS)
        return latency_of(pairs, waiting=(requests, proposals))

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        return {
            "space": visible(self._rows.title()[0]),
            "ended": None if self._log_end is None else round(self._log_end.timestamp(), 3),
            "sign": self._rows.sign,
            "families": [[family.name, family.label] for family in FAMILIES],
            "seconds": _pack_counts(self._stats.seconds()),
            "minutes": _pack_counts(self._stats.minutes()),
            "points": {strip: self._points(self._stats.pairs(strip, MOST_POINTS)) for strip in STRIPS},
            "told": {strip: self._strip(strip) for strip in STRIPS},
            "exchange": self._exchange(self._exchanges.selected),
            "count": self._stats.count,
        }

    def _news(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        count, selected = self._stats.count, self._exchanges.selected
        if count != self._sent_count:
            self._sent_count = count
            seconds, minutes = self._stats.seconds(self._second - 1), self._stats.minutes(self._minute - 1)
            # The last second and minute may still grow, so they are sent again with the next news.
            self._second = seconds[-1].start if seconds else 0
            self._minute = minutes[-1].start if minutes else 0
            points = {}
            for strip in STRIPS:
                answered = self._stats.answered(strip)
                fresh = min(answered - self._answered[strip], MOST_POINTS)
                self._answered[strip] = answered
                points[strip] = self._points(self._stats.pairs(strip, fresh))
            strips = {strip: self._strip(strip) for strip in STRIPS}
            items.append(
                {
                    "t": "stats",
                    "seconds": _pack_counts(seconds),
                    "minutes": _pack_counts(minutes),
                    "points": points,
                    "told": strips,
                    "count": count,
                }
            )
        if selected is not self._shown:
            self._shown = selected
            items.append({"t": "exchange"} | self._exchange(selected))
        return items

    def _points(self, pairs: list[Pair]) -> list[list[Any]]:
        return [
            [
                pair.asked,
                visible(pair.asker),
                pair.seq,
                round(pair.t, 3),
                round(pair.seconds, 4),
                pair.how,
                visible(pair.by),
                self._what(pair.asked),
            ]
            for pair in pairs
        ]

    def _strip(self, strip: str) -> dict[str, Any]:
        waiting, waits = self._stats.waiting(strip), self._stats.spread(strip)
        mine = sum(pair.by == self._me for pair in self._stats.pairs(strip)) if strip == "decision" else 0
        oldest = [
            [entry.seq, round(entry.t, 3), visible(entry.sender), self._what(entry.seq)]
            for entry in waiting[:MOST_WAITING]
        ]
        return {
            "of": waits.of,
            "p50": waits.p50,
            "p95": waits.p95,
            "mine": mine,
            "waiting": len(waiting),
            "oldest": oldest,
        }

    def _what(self, seq: int) -> str:
        row = next(iter(self._rows.since(seq - 1, 1)), None)
        return visible(row.what) if row is not None and row.seq == seq else ""

    def _exchange(self, exchange: Exchange | None) -> dict[str, Any]:
        if exchange is None:
            return {"drawing": None}
        return {
            "drawing": sequence(exchange, masks=False).data(),
            "narrow": sequence(exchange, narrow=True, masks=False).data(),
            "chosen": exchange.selected.seq,
            "id": visible(exchange.selected.id),
            "steps": [[visible(cell) for cell in row] for row in _steps(exchange)],
        }

    # Requests of the views.

    def _acts(self) -> Mapping[str, Act]:
        return {"select": self._select, "clear": self._clear}

    async def _select(self, which: str) -> ActResult:
        if not which.strip():
            raise JournalError(
                "Cannot show an exchange: no message was given. Enter its number in the list, or its id."
            )
        exchange = await self._exchanges.select(which.strip())
        count = count_of(len(exchange.steps), "message")
        return ActResult(f"Exchange of {exchange.selected.name}: {count}.")

    async def _clear(self) -> ActResult:
        self._exchanges.forget()
        return ActResult("No exchange is selected.")

    # Saved pictures.

    def _static_text(self) -> str:
        count = self._stats.count
        return f"Timeline of {self._rows.title()[0]}: {count_of(count, 'message')}; {_summary(self)}"

    def _static_html(self) -> str:
        count, name = self._stats.count, self._rows.title()[0]
        title = f"{name}, timeline: {count_of(count, 'message')}; {_summary(self)}"
        spans = [self._stats.series(seconds).totals for seconds in (300, HOUR, DAY)]
        cells = [
            (family.label, *(str(span[index]) for span in spans))
            for index, family in enumerate(FAMILIES)
            if spans[2][index]
        ]
        columns = ("Kind", "last 5 min", "last hour", "last day")
        nothing = 'No messages yet. lab.chat("hello") sends one.'
        empty = "" if count else nothing if self._log_end is None else "There is no message in this log."
        parts = [picture(title, columns, cells, empty=empty)]
        if count:
            parts += [f"<div>{drawing.html()}</div>" for drawing in (self.rate, self.latency)]
        selected = self._exchanges.selected
        if selected is not None:
            drawn = sequence(selected)
            parts.append(f'<div style="overflow-x:auto">{drawn.html()}</div>')
            steps = ("#", "+s", "From", "To", "Kind", "What", "Verdict")
            parts.append(picture(drawn.title, steps, _steps(selected), code=("From", "To", "Kind")))
        return f"<div>{''.join(parts)}</div>"


def _summary(view: TimelineView) -> str:
    waits = view._stats.spread("decision")
    waiting = len(view._stats.waiting("decision"))
    took = f"median decision {lasted(waits.p50)} of {waits.of}" if waits.of else "no decision yet"
    return f"{took}, {waiting} waiting"


def _pack_counts(beats: list[KindCounts]) -> list[list[Any]]:
    """The starts of seconds or minutes, each with the counts that are not zero, by the index of the family."""
    return [
        [beat.start, [[index, count] for index, count in enumerate(beat.counts) if count]] for beat in beats
    ]


def _steps(exchange: Exchange) -> list[tuple[str, ...]]:
    began = exchange.steps[0].t
    return [
        (
            step.name,
            f"{max(0.0, step.t - began):.3f}",
            middle(step.sender, 64),
            ", ".join(middle(name, 64) for name in step.to[:12]) or "everybody",
            middle(step.kind, 64),
            step.what,
            f"✗ {step.code}" if step.refused else "",
        )
        for step in exchange.steps[:MOST_ROWS]
    ]
