"""Makes the views of a lab, and of a log: one for each part, made at first use, shown as often as wanted.

Each part is a folder of that name. The `view_of` function of its widget module connects the view to the session.
Loading all parts takes half a second, or several seconds from a cold disk. A kernel therefore loads them on a thread
once a space is up. This module knows nothing of the content of a view.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet, ref

from mew_lab.errors import NoSuchName
from mew_lab.lab.decisions.limited_grants import LimitedGrants
from mew_lab.lab.listing import Note
from mew_lab.lab.rows import Rows
from mew_lab.lab.session import Session
from mew_lab.lab.stop import LabStop
from mew_lab.log.log import Log
from mew_lab.settings.faults import did_you_mean

if TYPE_CHECKING:
    from mew_lab.lab.local_participants import LocalParticipants
    from mew_lab.views.feed.widget import FeedView
    from mew_lab.views.moments.widget import MomentsView
    from mew_lab.views.timeline.widget import TimelineView
    from mew_lab.views.ui.log_rows import NewestRecords

__all__ = ["LOG_PARTS", "PARTS", "LogViews", "ViewedSession", "Views", "close_views", "prepare"]

_all: WeakSet[Views | LogViews] = WeakSet()


# What each part shows, as `%mew help` describes it.
PARTS: dict[str, str] = {
    "approvals": "the proposals that wait for your approval",
    "chat": "the chat messages and their acknowledgements; sends messages",
    "feed": "the messages as a live table",
    "grants": "the permissions of each participant and who gave them; allows and revokes",
    "panel": "the control room: all parts in one place",
    "reasoning": "what the agents think, step by step; cancels it",
    "roster": "the participants and their state; controls and invites them",
    "rules": "your rules: what your decisions suggest, and what approves calls; tries, adopts and stops them",
    "streams": "the streams of the space and their content",
    "timeline": "messages per second, response times, and an exchange as a diagram",
    "tools": "the tools, a form for the arguments of each, and the results of your calls",
    "workshop": "the tools of an agent file: their parameters, prompts and tests",
}


# What each part of `log.view` shows.
LOG_PARTS: dict[str, str] = {
    "feed": "the newest 20,000 messages of a log from files as a table, with what is wrong with each",
    "moments": "the state of the space at each place of the log: participants, permissions, proposals, streams, pauses",
    "timeline": "messages per second of a log from files, its response times, and an exchange as a diagram",
}


class ViewedSession(Session, Protocol):
    """A session with the members that the views need besides.

    Attributes:
        local: The participants that this process brings to the space.
        rows: The rows of the feed.
        granting: Grants and revokes capabilities, within limits.
        stopping: Stops everything that the lab sets going, and goes on.
        on_down: The functions that are called with the lab when the space is down.
    """

    @property
    def local(self) -> LocalParticipants: ...
    @property
    def rows(self) -> Rows: ...
    @property
    def granting(self) -> LimitedGrants: ...
    @property
    def stopping(self) -> LabStop: ...
    @property
    def on_down(self) -> list[Callable[[Any], None]]: ...
    def report(self, path: str | Path, *, overwrite: bool = False) -> Note:
        """Writes the session to a file, as `Lab.report` does."""


class Views:
    """The views of one lab, as `lab.view`; for the kernel's main thread alone, as all display is."""

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
            if name.startswith("_"):  # a display or a completer asks for many of these
                raise AttributeError(name)
            nearest = did_you_mean(name, PARTS)
            nearest = f" ({nearest})" if nearest else ""
            raise NoSuchName(f"lab.view has no {name!r}{nearest}; its parts are {', '.join(PARTS)}")
        if name not in self._made:
            self._made[name] = self._attach(_makers()[name](self._session, self))
            if self._session.closed:
                self._end_all()
        return self._made[name]

    def _attach(self, view: Any) -> Any:
        """The view, with what all views of a lab have."""
        view.resume_cell = _resume_cell(self._session)
        view.follow_stop(self._session.stopping, self._session.loop.submit)
        return view

    def _end_all(self) -> None:
        for view in tuple(self._made.values()):
            view.end(
                f"{self._session.name} has stopped, so this view no longer changes. Start it again, and run this cell."
            )

    def __dir__(self) -> list[str]:
        return list(PARTS)

    def made(self, name: str) -> Any:
        """The view of that name; None when it was not used so far."""
        return self._made.get(name)

    def card(self, proposal: str) -> Any:
        """A view of the card of that proposal alone, for the cell that waits for it."""
        from mew_lab.views.approvals.widget import view_of

        name = f"approvals of {proposal}"
        if name not in self._made:
            self._made[name] = self._attach(view_of(self._session, self._session.granting, only=proposal))
        return self._made[name]

    def close(self) -> None:
        """Closes all views, which removes them from the pages that show them."""
        while self._made:
            self._made.popitem()[1].close()

    def __repr__(self) -> str:
        return f"lab.view: {', '.join(PARTS)}"


class LogViews:
    """The views of one log, as `log.view`; for the kernel's main thread alone."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._made: dict[str, Any] = {}
        self._newest: NewestRecords | None = None
        _all.add(self)

    @property
    def feed(self) -> FeedView:
        """The newest messages of a log from files as a table; `lab.view.feed` shows those of a space.

        Raises:
            NoSuchName: when the log is that of a running space.
        """
        from mew_lab.views.feed.widget import view_of_log

        if "feed" not in self._made:
            self._made["feed"] = view_of_log(self._log, self._read_newest("feed"))
        view: FeedView = self._made["feed"]
        return view

    @property
    def timeline(self) -> TimelineView:
        """The times of those messages, and an exchange as a diagram; `lab.view.timeline` shows those of a space.

        Raises:
            NoSuchName: when the log is that of a running space.
        """
        from mew_lab.views.timeline.widget import view_of_log

        if "timeline" not in self._made:
            self._made["timeline"] = view_of_log(self._log, self._read_newest("timeline"))
        view: TimelineView = self._made["timeline"]
        return view

    def _read_newest(self, part: str) -> NewestRecords:
        from mew_lab.views.ui.log_rows import read_newest

        if self._log.is_live:  # `__getattr__` says where it is
            raise AttributeError(part)
        if self._newest is None:
            self._newest = read_newest(self._log)
        return self._newest

    @property
    def moments(self) -> MomentsView:
        """The state of the space at each place of the log, with a slider."""
        from mew_lab.views.moments.widget import view_of

        if "moments" not in self._made:
            self._made["moments"] = view_of(self._log)
        view: MomentsView = self._made["moments"]
        return view

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NoSuchName(
            f"There is no part {name!r} in log.view; it has {', '.join(dir(self))}. Other parts are those of lab.view."
        )

    def __dir__(self) -> list[str]:
        return [name for name in LOG_PARTS if name == "moments" or not self._log.is_live]

    def close(self) -> None:
        """Closes all views, which removes them from the pages that show them."""
        self._newest = None
        while self._made:
            self._made.popitem()[1].close()

    def __repr__(self) -> str:
        return f"log.view: {', '.join(dir(self))}"


def close_views() -> None:
    """Closes the views of every lab. A lab that is down keeps its views until then, so that they can be read."""
    for views in tuple(_all):
        views.close()


def _resume_cell(session: Session) -> str:
    """The code that goes on with a space of this kernel from its journal in another one; empty where it has none."""
    source = session.log.source
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if session.log.vantage != "gateway" or source is None:
        return ""
    if shell is None or getattr(shell, "kernel", None) is None:
        return ""
    path = Path(source.paths[0])
    with contextlib.suppress(ValueError):
        path = path.resolve().relative_to(Path.cwd())
    lines = ["%load_ext mew_lab"] if "mew_lab" in shell.extension_manager.loaded else []
    lines += ["import mew_lab", f"lab = mew_lab.up(resume={path.as_posix()!r})", "lab.view.approvals"]
    return "\n".join(lines)


def prepare() -> None:
    """Starts a thread that loads the parts, in a kernel alone; returns at once."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None and not _makers.cache_info().currsize:
        # Without threads (Pyodide) they are loaded at first use.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=_load, name="mew_lab-views", daemon=True).start()


def _load() -> None:
    # The first use of a view raises the same error to its caller.
    with contextlib.suppress(ImportError):
        _makers()
        from mew_lab.views.ui import notebook_host

        del notebook_host  # loaded, and with it the widgets of notebooks


@cache
def _makers() -> Mapping[str, Callable[[ViewedSession, Views], Any]]:
    from mew_lab.views.approvals import widget as approvals
    from mew_lab.views.chat import widget as chat
    from mew_lab.views.feed import widget as feed
    from mew_lab.views.grants import widget as grants
    from mew_lab.views.panel import widget as panel
    from mew_lab.views.reasoning import widget as reasoning
    from mew_lab.views.roster import widget as roster
    from mew_lab.views.rules import widget as rules
    from mew_lab.views.streams import widget as streams
    from mew_lab.views.timeline import widget as timeline
    from mew_lab.views.tools import widget as tools
    from mew_lab.views.workshop import widget as workshop

    return {
        "approvals": lambda session, _: approvals.view_of(session, session.granting),
        "chat": lambda session, _: chat.view_of(session, session.rows),
        "feed": lambda session, _: feed.view_of(session, session.rows),
        "grants": lambda session, _: grants.view_of(session, session.granting),
        "panel": panel.view_of,
        "reasoning": lambda session, _: reasoning.view_of(session, session.rows),
        "roster": lambda session, _: roster.view_of(session),
        "rules": lambda session, _: rules.view_of(session),
        "streams": lambda session, _: streams.view_of(session),
        "timeline": lambda session, _: timeline.view_of(session, session.rows),
        "tools": lambda session, _: tools.view_of(session),
        "workshop": lambda session, _: workshop.view_of(session),
    }
