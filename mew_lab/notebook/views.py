"""Which views has a lab, and when are they made?  At first use, one of each; shown twice it is the same.

It knows which widget takes which seam of the workbench, and nothing of what they show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from mew_lab.notebook.widgets.approvals import ApprovalsView
    from mew_lab.notebook.widgets.feed import FeedView
    from mew_lab.workbench.lab import Lab

__all__ = ["Views", "close_views"]

_all: WeakSet[Views] = WeakSet()


class Views:
    """`lab.view`: the widgets of one lab. To be used on the kernel's main thread, as all display is."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._made: dict[str, Any] = {}
        _all.add(self)

    @property
    def approvals(self) -> ApprovalsView:
        """The cards of the proposals that wait for you."""
        from mew_lab.notebook.widgets.approvals import ApprovalsView

        view: ApprovalsView = self._made.get("approvals") or ApprovalsView(self._lab.decisions)
        self._made["approvals"] = view
        return view

    @property
    def feed(self) -> FeedView:
        """The live table of every envelope."""
        from mew_lab.notebook.widgets.feed import FeedView

        view: FeedView = self._made.get("feed") or FeedView(self._lab.rows)
        self._made["feed"] = view
        return view

    def made(self, name: str) -> Any:
        """The view of that name if somebody asked for it so far, else None."""
        return self._made.get(name)

    def close(self) -> None:
        """Ends all views; the pages that show them lose them."""
        while self._made:
            self._made.popitem()[1].close()

    def __repr__(self) -> str:
        return "lab.view: approvals, feed"


def close_views() -> None:
    """Ends the views of every lab. A lab that is down keeps its views until then: they can still be read."""
    for views in tuple(_all):
        views.close()
