"""The views of a lab: one of each, made at first use; shown twice it is the same.

A part is a folder of that name, whose `view_of(lab)` puts the widget on its seam of the workbench. To load
them takes half a second, and several from a cold disk: in a kernel it is done beside what the person does, once a space
is up. This module knows nothing of what they show.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol
from weakref import WeakSet, ref

from mew_lab.lab.decisions.limited_grants import LimitedGrants
from mew_lab.lab.rows import LiveRows
from mew_lab.lab.session import Session

__all__ = ["PARTS", "ViewedSession", "Views", "close_views", "prepare"]

_all: WeakSet[Views] = WeakSet()


# What each part shows, as `%mew` tells it.
PARTS: dict[str, str] = {
    "approvals": "the cards of the proposals that wait for you",
    "chat": "what is said, who has seen it, and what you say",
    "feed": "the live table of every envelope",
    "grants": "who may do what, and by whose gift; grant and revoke",
    "panel": "the control room: all parts in one place",
    "reasoning": "who reasons about what, step by step; cancels it",
    "roster": "who is in the space, and how each of them is; steer and invite",
    "streams": "every stream of the space, and what comes on it",
    "timeline": "messages per second, how long answers took, and an exchange as a diagram",
    "tools": "every tool, a form for its arguments, and what became of your calls",
}


class ViewedSession(Session, Protocol):
    """What the views need of a space.

    Attributes:
        rows: The rows of the feed; `granting` gives and takes back capabilities.
        on_down: What is called when the space is down, with the lab.
    """

    @property
    def rows(self) -> LiveRows: ...
    @property
    def granting(self) -> LimitedGrants: ...
    @property
    def on_down(self) -> list[Callable[[Any], None]]: ...


class Views:
    """`lab.view`: the widgets of one lab. To be used on the kernel's main thread, as all display is."""

    def __init__(self, session: ViewedSession) -> None:
        self._session = session
        self._made: dict[str, Any] = {}
        _all.add(self)
        me = ref(self)

        def end_views(_lab: Any) -> None:
            if (views := me()) is not None:
                views._end_all()

        session.on_down.append(end_views)

    def __getattr__(self, name: str) -> Any:
        if name not in PARTS:
            raise AttributeError(f"lab.view has no {name!r}; its parts are {', '.join(PARTS)}")
        if name not in self._made:
            self._made[name] = _makers()[name](self._session, self)
            if self._session.closed:
                self._end_all()
        return self._made[name]

    def _end_all(self) -> None:
        for view in tuple(self._made.values()):
            view.end(
                f"{self._session.name} is down: what is shown here is over. Start it again, then run this cell again."
            )

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


def prepare() -> None:
    """Begins to load the parts, where a kernel may have to show them; returns at once."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None and not _makers.cache_info().currsize:
        # Without threads (Pyodide) they are loaded when one is asked for.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=_load, name="mew_lab-views", daemon=True).start()


def _load() -> None:
    # What cannot be loaded is told to whoever asks for it.
    with contextlib.suppress(ImportError):
        _makers()


@cache
def _makers() -> Mapping[str, Callable[[ViewedSession, Views], Any]]:
    from mew_lab.views.approvals import widget as approvals
    from mew_lab.views.chat import widget as chat
    from mew_lab.views.feed import widget as feed
    from mew_lab.views.grants import widget as grants
    from mew_lab.views.panel import widget as panel
    from mew_lab.views.reasoning import widget as reasoning
    from mew_lab.views.roster import widget as roster
    from mew_lab.views.streams import widget as streams
    from mew_lab.views.timeline import widget as timeline
    from mew_lab.views.tools import widget as tools

    return {
        "approvals": lambda session, _: approvals.view_of(session, session.granting),
        "chat": lambda session, _: chat.view_of(session, session.rows),
        "feed": lambda session, _: feed.view_of(session, session.rows),
        "grants": lambda session, _: grants.view_of(session, session.granting),
        "panel": panel.view_of,
        "reasoning": lambda session, _: reasoning.view_of(session, session.rows),
        "roster": lambda session, _: roster.view_of(session),
        "streams": lambda session, _: streams.view_of(session),
        "timeline": lambda session, _: timeline.view_of(session, session.rows),
        "tools": lambda session, _: tools.view_of(session),
    }
