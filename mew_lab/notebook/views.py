"""Which views has a lab, and when are they made?  At first use, one of each; shown twice it is the same.

A part is a module of widgets/ of that name, whose `view_of(lab)` puts the widget on its seam of the workbench; so a part
more is one word here. It knows nothing of what they show.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from mew_lab.workbench.lab import Lab

__all__ = ["PARTS", "Views", "close_views"]

# Each part with what it shows, as `%mew` tells it.
PARTS: dict[str, str] = {
    "approvals": "the cards of the proposals that wait for you",
    "feed": "the live table of every envelope",
}

_all: WeakSet[Views] = WeakSet()


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
            self._made[name] = import_module(f"mew_lab.notebook.widgets.{name}").view_of(self._lab)
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
