"""The moments view: a slider over the places of a log, and the state of the space at the chosen one.

A view requests a place; only its newest request is answered. The writer restores the state, and reads the log further in
steps in between, for the open proposals and the places at which the state changes. A saved notebook has the tables of
the moment that was shown last.

Spec: §3.6.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol

from mew_lab.errors import MewError
from mew_lab.log.files import JournalSource
from mew_lab.log.index import LogIndex
from mew_lab.log.moments import Moments
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.space.events import Record
from mew_lab.views.moments.model import LogPlaces, StateTable, describe_record, tables_of
from mew_lab.views.ui.live import LiveView
from mew_lab.views.ui.pictures import clock_time, picture

__all__ = ["MomentsView", "ViewedLog", "view_of"]

STEP = 2_000  # records that are read in one message
MOST_VIEWS = 16
MOST_ROWS, MOST_PICTURED = 200, 12


class ViewedLog(Protocol):
    """The log of a gateway, from files or live."""

    space: str

    @property
    def records(self) -> Iterable[Record]: ...
    @property
    def source(self) -> JournalSource | None: ...
    @property
    def index(self) -> LogIndex: ...
    def held_after(self, seq: int, most: int) -> list[Record]: ...


class _Shown:
    """The moment at one place, ready to be sent."""

    def __init__(self, seq: int, now: datetime, what: str, tables: tuple[StateTable, ...]) -> None:
        self.seq = seq
        self.now = now
        self.what = what
        self.tables = tables


def view_of(log: ViewedLog) -> MomentsView:
    """Makes the view of a log."""
    return MomentsView(log)


class MomentsView(LiveView):
    """The state of a space at any place of its log. Show it as often as you like."""

    part = "moments"
    title = "moments"
    interval = 0.05

    def __init__(self, log: ViewedLog, **settings: Any) -> None:
        self._log = log
        # Only the writer uses these.
        self._moments = Moments(log)
        self._places = LogPlaces(log)
        self._unread: BoundedDict[str, tuple[int, int]] = BoundedDict(MOST_VIEWS)  # waits for its proposals
        self._span: tuple[int, int, int] = (0, -1, 0)
        # The newest request of each view: its number, the place (None: the last one), and where to go from there.
        self._wanted: BoundedDict[str, tuple[int, int | None, str]] = BoundedDict(MOST_VIEWS)
        self._shown: _Shown | None = None
        super().__init__(**settings)

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        return {"space": visible(self._log.space)}

    def _news(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        done = self._read_on()
        answered: dict[str, tuple[int, int]] = {}
        for view in list(self._wanted):
            number, seq, way = self._wanted.pop(view)
            self._unread.pop(view, None)
            items.append({"view": view, "n": number} | self._answer(view, number, seq, way, answered))
        for view, (number, seq) in list(self._unread.items()):
            if seq <= self._places.last:
                del self._unread[view]
                items.append({"view": view, "n": number} | self._answer(view, number, seq, "", answered))
        self._unread.update(answered)
        if not done or self._wanted:
            self.wake()
        return items

    def _read_on(self) -> bool:
        """Reads a part of the log; returns whether all of it is read."""
        try:
            return self._places.read(STEP)
        except MewError as fault:
            self.fault(fault)
            return True

    def _answer(
        self, view: str, number: int, seq: int | None, way: str, waiting: dict[str, tuple[int, int]]
    ) -> dict[str, Any]:
        try:
            shown = self._show(seq, way)
        except MewError as fault:
            return {"t": "unfit", "sentence": one_line(visible(str(fault)), 600)}
        first, last, _ = self._span
        if not any(table.name == "proposals" for table in shown.tables):
            waiting[view] = (number, shown.seq)
        return {
            "t": "moment",
            "first": first,
            "last": last,
            "seq": shown.seq,
            "time": shown.now.timestamp(),
            "what": visible(shown.what),
            "reading": view in waiting,
            "tables": [_pack(table) for table in shown.tables],
        }

    def _show(self, seq: int | None, way: str) -> _Shown:
        first, last = self._moments.span()
        self._span = (first, last, len(self._places.changes))
        at = last if seq is None else min(max(seq, first), last)
        if way:
            found = self._places.next_change(at) if way == "next" else self._places.previous_change(at)
            at = min(max(at if found is None else found, first), last)
        moment = self._moments.at(at)
        record = self._moments.record(at) if at > first else None
        what = describe_record(record) if record is not None else "The beginning of the log"
        tables = tables_of(moment, self._places.proposals(at), clock_time)
        self._shown = _Shown(at, moment.now, what, tables)
        self._mark()
        return self._shown

    def _mark(self) -> None:
        """Says that the picture in the notebook has changed."""
        if self._host is not None:
            self._host.mark()

    # Messages from the views.

    def _messages(self) -> Mapping[str, Callable[..., None]]:
        return {"at": self._take_request}

    def _take_request(
        self, view: str, n: int, seq: int | None, way: Literal["", "next", "previous"] = ""
    ) -> None:
        self._wanted[view] = (n, seq, way)
        self.wake()

    # Pictures.

    def _static_text(self) -> str:
        shown = self._shown
        if shown is None:
            return f"The state of {self._log.space or 'a space'} at each place of its log"
        return f"State of {self._log.space or 'a space'} behind #{shown.seq}: {shown.what}"

    def _static_html(self) -> str:
        try:
            shown = self._shown or _first_shown(self._log)
        except MewError as fault:
            return picture("The state at each place of the log", (), (), notes=[one_line(str(fault), 600)])
        title = f"State behind #{shown.seq}, {clock_time(shown.now)}: {shown.what}"
        tables = (
            picture(
                f"{table.title}: {len(table.rows)}",
                table.columns,
                table.rows[:MOST_PICTURED],
                notes=_more(table, MOST_PICTURED),
                code=_code(table),
            )
            for table in shown.tables
        )
        return picture(title, (), ()) + "".join(tables)


def _first_shown(log: ViewedLog) -> _Shown:
    """The last moment of a log, for a picture that is drawn before any view has asked."""
    moments = Moments(log)
    _, last = moments.span()
    moment = moments.at(last)
    record = moments.record(last)
    tables = tables_of(moment, moment.proposals, clock_time)
    return _Shown(last, moment.now, describe_record(record), tables)


def _code(table: StateTable) -> tuple[str, ...]:
    return ("Permission",) if table.name == "rights" else ()


def _more(table: StateTable, most: int) -> list[str]:
    """How many rows of a table are not among the first so many, as a sentence or none."""
    left = len(table.rows) - most
    return [f"{count_of(left, 'more row')} not shown."] if left > 0 else []


def _pack(table: StateTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "columns": table.columns,
        "rows": [[visible(cell) for cell in row] for row in table.rows[:MOST_ROWS]],
        "more": " ".join(_more(table, MOST_ROWS)),
    }
