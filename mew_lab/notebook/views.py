"""Which views has a lab, and when are they made?  At first use, one of each; shown twice it is the same.

A part is a module of widgets/ of that name, whose `view_of(lab)` puts the widget on its seam of the workbench. Each is
loaded when it is asked for: ipywidgets takes its time. This module knows nothing of what they show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

if TYPE_CHECKING:
    from mew_lab.workbench.lab import Lab

__all__ = ["PARTS", "Views", "close_views"]

_all: WeakSet[Views] = WeakSet()


def _approvals(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.approvals import view_of

    return view_of(lab)


def _chat(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.chat import view_of

    return view_of(lab)


def _feed(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.feed import view_of

    return view_of(lab)


def _grants(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.grants import view_of

    return view_of(lab)


def _panel(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.panel import view_of

    return view_of(lab)


def _reasoning(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.reasoning import view_of

    return view_of(lab)


def _roster(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.roster import view_of

    return view_of(lab)


def _streams(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.streams import view_of

    return view_of(lab)


def _timeline(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.timeline import view_of

    return view_of(lab)


def _tools(lab: Lab) -> Any:
    from mew_lab.notebook.widgets.tools import view_of

    return view_of(lab)


class Part(NamedTuple):
    """What a part shows, as `%mew` tells it, and what makes it."""

    about: str
    make: Callable[[Lab], Any]


PARTS: dict[str, Part] = {
    "approvals": Part("the cards of the proposals that wait for you", _approvals),
    "chat": Part("what is said, who has seen it, and what you say", _chat),
    "feed": Part("the live table of every envelope", _feed),
    "grants": Part("who may do what, and by whose gift; grant and revoke", _grants),
    "panel": Part("the control room: all parts in one place", _panel),
    "reasoning": Part("who reasons about what, step by step; cancels it", _reasoning),
    "roster": Part("who is in the space, and how each of them is; steer and invite", _roster),
    "streams": Part("every stream of the space, and what comes on it", _streams),
    "timeline": Part("messages per second, how long answers took, and an exchange as a diagram", _timeline),
    "tools": Part("every tool, a form for its arguments, and what became of your calls", _tools),
}


class Views:
    """`lab.view`: the widgets of one lab. To be used on the kernel's main thread, as all display is."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._made: dict[str, Any] = {}
        _all.add(self)

    def __getattr__(self, name: str) -> Any:
        if name not in PARTS:
            raise AttributeError(f"lab.view has no {name!r}; its parts are {', '.join(PARTS)}")
        if name not in self._made:
            self._made[name] = PARTS[name].make(self._lab)
        return self._made[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *PARTS]

    def made(self, name: str) -> Any:
        """The view of that name if somebody asked for it so far, else None."""
        return self._made.get(name)

    def close(self) -> None:
        """Ends all views; the pages that show them lose them."""
        while self._made:
            self._made.popitem()[1].close()

    def __repr__(self) -> str:
        return f"lab.view: {', '.join(PARTS)}"


def close_views() -> None:
    """Ends the views of every lab. A lab that is down keeps its views until then: they can still be read."""
    for views in tuple(_all):
        views.close()
