"""Shows all parts of a space on one page.

The participants are on the left, the messages in the middle, the approvals on the right. The other parts are below
them, in tabs with counts. A narrow page has one column, approvals first. The parts are the widgets of `lab.view`
themselves, so a part that is shown twice has one state. A part in a tab is drawn when its tab is first chosen.

The panel knows the names and the places of the parts, and nothing of their content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.lab.entry_feed import Follower
from mew_lab.lab.session import Session
from mew_lab.ledger.entry import Entry
from mew_lab.views.ui.front_end import front_end
from mew_lab.views.ui.live import LiveWidget
from mew_lab.views.ui.pictures import box, element

__all__ = ["PLACES", "PanelView", "view_of"]

_ESM, _CSS = front_end("panel")

# The stored picture: approvals come first in it, and stand at the right where there is room for two columns.
_FRAME = "border:1px solid rgba(128,128,128,.45);border-radius:4px"
_ROOM = "display:flex;flex-wrap:wrap;gap:8px 16px;padding:8px 12px"
_HEAD = "align-items:baseline;border-bottom:1px solid rgba(128,128,128,.3)"
_COLUMN = "flex:1 1 320px;min-width:0;overflow-x:auto"
_TITLE = "font-size:15px;font-weight:600"
_COUNT = "font-size:12px;padding:0 8px;border-radius:4px;background:rgba(128,128,128,.15)"

# The place of each part; tabs in this order. Approvals come first in the page, for screen readers and the Tab key.
PLACES: Mapping[str, str] = {
    "approvals": "top",
    "roster": "left",
    "feed": "middle",
    "reasoning": "tab",
    "chat": "tab",
    "streams": "tab",
    "tools": "tab",
    "timeline": "tab",
    "grants": "tab",
}


def view_of(session: Session, views: Any) -> PanelView:
    """Makes the panel of this space; `views` has each part as an attribute, as `lab.view` has."""
    view = PanelView(session.space, {name: getattr(views, name) for name in PLACES})
    session.loop.call(lambda: session.following.add(view.waker, earlier=False))
    view.on_close(lambda: session.loop.post(lambda: session.following.remove(view.waker)))
    return view


class _Waker(Follower):
    """Wakes the panel after each envelope, for the counts may have changed."""

    def __init__(self, view: PanelView) -> None:
        self._view = view

    def take(self, entry: Entry) -> None:
        self._view.wake()


class PanelView(LiveWidget):
    """All parts of one space. It may be shown several times. Closing it closes no part."""

    _esm = _ESM
    _css = _CSS
    title = "panel"
    interval = 0.5

    def __init__(self, space: str, parts: Mapping[str, LiveWidget], **traits: Any) -> None:
        self._space = space
        self._parts = parts
        self._badges: dict[str, str] = {}
        self.waker = _Waker(self)
        super().__init__(**traits)
        for part in parts.values():
            part.on_decision.append(self.store_decision)

    def on_close(self, leave: Any) -> None:
        """Sets the function that ends the subscription of this view."""
        self._leave = leave

    def _snapshot(self, start: int) -> dict[str, Any]:
        self._badges = self._collect_badges()
        # `ref` is the name of another anywidget for the page.
        parts = [
            {"name": name, "place": PLACES[name], "ref": f"anywidget:{part.model_id}"}
            for name, part in self._parts.items()
        ]
        return {"parts": parts, "badges": self._badges, "space": self._space}

    def _news(self) -> list[dict[str, Any]]:
        badges = self._collect_badges()
        if badges == self._badges:
            return []
        self._badges = badges
        return [{"t": "badges", "badges": badges}]

    def _collect_badges(self) -> dict[str, str]:
        return {name: part.badge() for name, part in self._parts.items()}

    def _static_text(self) -> str:
        return f"Panel of {self._space}: " + "; ".join(repr(part) for part in self._parts.values())

    def _static_html(self) -> str:
        # The room in short: what waits, then what was said last; each part's own picture has the rest.
        counts = [f"{name} {badge}" for name, badge in self._collect_badges().items() if badge]
        head = element(
            "div", box(self._space, _TITLE), *(box(text, _COUNT) for text in counts), style=f"{_ROOM};{_HEAD}"
        )
        brief = [part._brief_html() for part in self._parts.values()]
        columns = [element("div", drawn, style=_COLUMN) for drawn in brief if drawn]
        return element(
            "div", head, element("div", *columns, style=f"{_ROOM};flex-direction:row-reverse"), style=_FRAME
        )
