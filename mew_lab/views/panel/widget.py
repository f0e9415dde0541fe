"""Shows all parts of a space on one page.

The participants are in a strip at the left, the approvals at the right, always in sight. The messages and the other
parts are in tabs between them. A narrow page has one column, approvals first. The parts are the views of `lab.view`
themselves, so a part that is shown twice has one state. A part in a tab is drawn when its tab is first chosen.

The panel knows the names, the titles and the places of the parts, and nothing of their content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mew_lab.lab.actions import ParticipantActions
from mew_lab.lab.entry_feed import Follower
from mew_lab.lab.listing import Note
from mew_lab.lab.session import Session
from mew_lab.ledger.entry import Entry
from mew_lab.log.log import Log
from mew_lab.views.feed.extract import log_name, save_log
from mew_lab.views.ui.acts import Act, ActingView
from mew_lab.views.ui.live import LiveView
from mew_lab.views.ui.pictures import box, element

__all__ = ["OF_LOG", "PARTS_SHOWN", "PanelView", "PartPlace", "RoomCounts", "panel_of_log", "view_of"]

# The stored picture: approvals come first in it, and stand at the right where there is room for two columns.
_FRAME = "border:1px solid rgba(128,128,128,.45);border-radius:4px"
_ROOM = "display:flex;flex-wrap:wrap;gap:8px 16px;padding:8px 12px"
_HEAD = "align-items:baseline;border-bottom:1px solid rgba(128,128,128,.3)"
_COLUMN = "flex:1 1 320px;min-width:0;overflow-x:auto"
_TITLE = "font-size:15px;font-weight:600"
_COUNT = "font-size:12px;padding:0 8px;border-radius:4px;background:rgba(128,128,128,.15)"


class PartPlace(NamedTuple):
    """The place of a part, "side", "strip" or "tab", and its title."""

    place: str
    title: str


# Tabs in this order. Approvals come first in the page, for screen readers and the Tab key.
PARTS_SHOWN: Mapping[str, PartPlace] = {
    "approvals": PartPlace("side", "Approvals"),
    "roster": PartPlace("strip", "Participants"),
    "feed": PartPlace("tab", "Messages"),
    "reasoning": PartPlace("tab", "Reasoning"),
    "chat": PartPlace("tab", "Chat"),
    "streams": PartPlace("tab", "Streams"),
    "tools": PartPlace("tab", "Tools"),
    "timeline": PartPlace("tab", "Timeline"),
    "grants": PartPlace("tab", "Permissions"),
    "rules": PartPlace("tab", "Rules"),
}


# The page of a log from files: nothing in it acts on a space.
OF_LOG: Mapping[str, PartPlace] = {
    "feed": PartPlace("tab", "Messages"),
    "timeline": PartPlace("tab", "Timeline"),
    "moments": PartPlace("tab", "State"),
}


class RoomCounts(NamedTuple):
    """The counts in the panel's header: participants that are present, messages, proposals that wait for a decision."""

    participants: int
    messages: int
    waiting: int


class ReportedSession(Session, Protocol):
    """A session that can be written as one HTML page."""

    def report(self, path: str | Path, *, overwrite: bool = False) -> Note:
        """Writes the session to a file, as `Lab.report` does."""


def view_of(session: ReportedSession, views: Any) -> PanelView:
    """Makes the panel of this space; `views` has each part as an attribute, as `lab.view` has."""
    parts = {name: getattr(views, name) for name in PARTS_SHOWN}
    roster, approvals = parts["roster"], parts["approvals"]
    steering = ParticipantActions(session)

    async def report() -> Note:
        target = (Path.cwd() / log_name(session.space, view.clock())).with_suffix(".html")
        return await asyncio.to_thread(session.report, target)

    async def save() -> str:
        return f"Wrote the messages to {await save_log(session.log, Path.cwd(), view.clock())}."

    view = PanelView(
        session.space,
        parts,
        lambda: RoomCounts(roster.present, len(session.log), approvals.open_cards),
        acts={
            "pause": steering.pause_all,
            "resume": steering.resume_all,
            "report": report,
            "save": save,
        },
        submit=session.loop.submit,
        paused=lambda: roster.paused_agents,
    )
    session.loop.call(lambda: session.following.add(view.waker, earlier=False))
    view.on_close(lambda: session.loop.post(lambda: session.following.remove(view.waker)))
    return view


def panel_of_log(log: Log) -> PanelView:
    """Makes the panel of a log from files, with the views that it can fill."""
    parts = {name: getattr(log.view, name) for name in OF_LOG}
    counts = RoomCounts(len(log.participants()), len(log), 0)
    return PanelView(log.space or "log", parts, lambda: counts)


class _Waker(Follower):
    """Wakes the panel after each envelope, for the counts may have changed."""

    def __init__(self, view: PanelView) -> None:
        self._view = view

    def take(self, entry: Entry) -> None:
        self._view.wake()


class PanelView(ActingView):
    """All parts of one space. It may be shown several times. Closing it closes no part.

    Args:
        space: The name of the space, and `parts` its views by name.
        counts: Returns the counts of the header; for any thread.
        paused: Returns the agents that this human has paused; for any thread.
        acts: What the buttons of the header do, by the names that the front end uses; those without an act are hidden.
    """

    part = "panel"
    title = "panel"
    interval = 0.5
    beats = True

    def __init__(
        self,
        space: str,
        parts: Mapping[str, LiveView],
        counts: Callable[[], RoomCounts],
        acts: Mapping[str, Act] | None = None,
        paused: Callable[[], Sequence[str]] = tuple,
        **settings: Any,
    ) -> None:
        self._space = space
        self.parts = parts
        self._counts = counts
        self._paused = paused
        self._header_acts = dict(acts or {})
        self.waker = _Waker(self)
        super().__init__(**settings)
        for part in parts.values():
            part.on_decision.append(self.store_decision)

    def _acts(self) -> Mapping[str, Act]:
        return self._header_acts

    def _snapshot(self, start: int) -> dict[str, Any]:
        # The host of the page knows how to draw the part of a name.
        parts = [
            {"name": name, "place": place.place, "title": place.title}
            for name, place in {**PARTS_SHOWN, **OF_LOG}.items()
            if name in self.parts
        ]
        return {"parts": parts, "space": self._space, "acts": sorted(self._header_acts)}

    def _heading(self) -> dict[str, Any]:
        badges = {name: part.badge() for name, part in self.parts.items()}
        return {"badges": badges, "counts": self._counts()._asdict(), "paused": len(self._paused())}

    def _static_text(self) -> str:
        return f"Panel of {self._space}: " + "; ".join(repr(part) for part in self.parts.values())

    def _static_html(self) -> str:
        # The room in short: what waits, then what was said last; each part's own picture has the rest.
        counts = self._counts()
        pills = [
            f"{counts.participants} participant{'s' * (counts.participants != 1)}",
            f"{counts.messages} message{'s' * (counts.messages != 1)}",
        ]
        if counts.waiting:
            pills.append(f"{counts.waiting} need{'s' * (counts.waiting == 1)} your approval")
        titled = [(PARTS_SHOWN[name].title, part.badge()) for name, part in self.parts.items()]
        pills += [f"{title} {badge}" for title, badge in titled[2:] if badge]
        head = element(
            "div", box(self._space, _TITLE), *(box(text, _COUNT) for text in pills), style=f"{_ROOM};{_HEAD}"
        )
        brief = [part._brief_html() for part in self.parts.values()]
        columns = [element("div", drawn, style=_COLUMN) for drawn in brief if drawn]
        return element(
            "div", head, element("div", *columns, style=f"{_ROOM};flex-direction:row-reverse"), style=_FRAME
        )
