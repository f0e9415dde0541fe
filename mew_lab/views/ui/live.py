"""Keeps a view in the browser in step with Python, whatever the kernel does meanwhile.

A `LiveView` is one ES module beside its Python file, and a plain class here. Pages show it through its outlets: the comm
of a notebook (`notebook_host`), or the socket of a page of its own (`page`). It has no state that an outlet keeps:
everything travels in messages, which are neither stored in a notebook nor replayed. So a page that appears (again)
requests a snapshot, and one writer per view sends the changes:

- One writer. Any thread may `post` an item or `wake` the writer; only the writer sends, at most once in
  `interval`, all that has gathered as one message to each outlet. Two threads that send on one comm corrupt each other,
  and a front end drowns in messages long before it drowns in bytes. What is for one page goes to its outlet alone.
- Every loss is noticed. A cell that floods makes the Jupyter server drop messages, and their items are not sent again.
  So each message has a number of its outlet, `no`, and a page that misses one requests a snapshot, which holds
  everything. A message without items repeats the last number: after a failure, and a few times in the quiet that follows
  the last message.
- A view with `beats` gets such a message each second, as long as its page sends a ping now and then. A page that
  receives none for some seconds has no kernel, and disables its buttons.
- Any thread. A message from the browser is handled on the thread that the kernel happens to use: the main
  one, a subshell's, another. Handlers check, hand over, return; they wait for nothing and print nothing. Exceptions
  are kept in `faults` and logged: a print here would appear in whichever cell ran last.

The content of a view is up to its subclass.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from mew_lab.errors import MewError
from mew_lab.log.redaction import mask_markup, shown_mask
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.visible import one_line
from mew_lab.views.ui.messages import read_message
from mew_lab.views.ui.pictures import snapshot
from mew_lab.views.ui.preferences import preferences

if TYPE_CHECKING:
    from mew_lab.views.ui.notebook_host import NotebookHost, NotebookWidget

__all__ = ["LiveView", "Outlet", "count_while"]

log = logging.getLogger("mew_lab.views")
log.addHandler(logging.NullHandler())

# The number of the last message is said again after so many seconds of quiet, then twice as many, up to the latter.
FIRST_REMINDER, LAST_REMINDER = 1.0, 64.0
PING, HEARD_FOR = 4.0, 12.0  # between a page's signs of life, and for how long each keeps the beats going


# All views of this process: a setting that one view changes is told to each.
_all: WeakSet[LiveView] = WeakSet()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Outlet(Protocol):
    """One way from a view to pages that show it. It sends in order, or loses what it cannot send."""

    def send(self, content: dict[str, Any], /) -> object:
        """Sends one message; for the view's writer alone, which must not wait for long."""


class LiveView:
    """A view that is fed by one writer; subclasses define the snapshot, the changes and the handling of messages.

    `interval` is the least time between two messages in seconds. `part` is the folder of its front end, and `more_css` a
    style sheet besides that of the folder. `parts` are the views that it holds, by name. `resume_cell` is the code of a
    cell that goes on with the space where this kernel is gone; empty for none. `faults` holds the last 50 exceptions
    that no caller received. `last_ping` is the time (time.monotonic) of the last sign of life of a page.
    """

    interval = 0.05
    title = "view"
    part = ""
    more_css = ""
    parts: Mapping[str, LiveView] = {}
    beats = False
    resume_cell = ""

    def __init__(self, *, clock: Callable[[], datetime] = _utc_now) -> None:
        self.faults: deque[BaseException] = deque(maxlen=50)
        self.last_ping: float | None = None
        self.clock = clock
        # The pages, each with its outlet. One that was reloaded sent no `bye`: the oldest are forgotten.
        self._views: BoundedDict[str, Outlet] = BoundedDict(16)
        # How many messages were sent to each outlet; only the writer counts.
        self._numbers: dict[Outlet, int] = {}
        self._over = ""
        self._outbox: deque[dict[str, Any]] = deque()
        self._head: dict[str, Any] = {}  # that all views have; only the writer uses it
        # End the subscriptions that a subclass has begun.
        self._ends: list[Callable[[], object]] = []
        # Guards changes of the pages, and the five below; held for a few statements, never while anything is sent.
        self._changed = threading.Condition()
        self._asked: dict[str, int] = {}
        self._dirty = False
        self._ended = False
        self._writer: threading.Thread | None = None
        self._threadless = False
        self._host: NotebookHost | None = None  # made at the first display in a notebook
        # The id of the request to run the cell that displayed this view last.
        self.displayed_in = ""
        # What is called when a decision has changed the view.
        self.on_decision: list[Callable[[], None]] = []
        _all.add(self)

    # What a subclass says. `_snapshot`, `_heading` and `_news` are called by the writer alone.

    def _snapshot(self, start: int) -> dict[str, Any]:
        """The items for a view that has everything up to `start`."""
        return {}

    def _heading(self) -> dict[str, Any]:
        """What stands above the rows: part of each snapshot, and sent as an item `head` when it has changed."""
        return {}

    def _news(self) -> list[dict[str, Any]]:
        """The items that were not sent yet."""
        return []

    def _messages(self) -> Mapping[str, Callable[..., None]]:
        """The methods that take the messages of a view, on any thread, by `t`; `ui.messages` reads their parameters."""
        return {}

    def _refuse_message(self, kind: str, members: Mapping[str, Any]) -> None:
        """Called when the members of a known message are not as they are declared; an act says so itself."""

    def badge(self) -> str:
        """The count beside the name of this view's tab, such as `3 open`; for any thread."""
        return ""

    def _static_html(self) -> str:
        """The view as it is now, without script."""
        return ""

    def _static_text(self) -> str:
        """The view as one line of plain text."""
        return self.title

    def _brief_html(self) -> str:
        """The most important of the view, for the picture of a page with several views; may be empty."""
        return ""

    # What any thread may call.

    @property
    def messages(self) -> Mapping[str, Callable[..., None]]:
        """The methods that take the messages of a page, by `t`."""
        return {**self._common_messages(), **self._messages()}

    def on_close(self, end: Callable[[], object]) -> None:
        """Has `end` called when the view is closed."""
        self._ends.append(end)

    @property
    def has_view(self) -> bool:
        """Whether some page shows this view, as far as its messages tell."""
        return bool(self._views)

    def attach(self, outlet: Outlet) -> None:
        """Sends what changes to this outlet, too; each of its pages begins with a snapshot."""
        self._numbers.setdefault(outlet, 0)

    def detach(self, outlet: Outlet) -> None:
        """Sends nothing more to this outlet, whose pages are forgotten."""
        self._numbers.pop(outlet, None)
        with self._changed:
            for view, home in tuple(self._views.items()):
                if home is outlet:
                    del self._views[view]

    def post(self, item: dict[str, Any]) -> None:
        """Sends the item to all views with the next message."""
        self._outbox.append(item)
        self.wake()

    def wake(self) -> None:
        """Tells the writer that there is something new; cheap enough for every row of a log."""
        if self._host is not None:
            self._host.mark()
        # Reading the flag without the lock may miss a reset by the writer only before the writer gathers, so
        # what the caller has just added is gathered too.
        if self._dirty:
            return
        with self._changed:
            if self._dirty or self._ended or not self._views:
                return
            self._dirty = True
            if self._writer is None and not self._threadless:
                self._writer = threading.Thread(target=self._write, name=f"mew_lab-{self.title}", daemon=True)
                try:
                    self._writer.start()
                except RuntimeError:
                    # No threads here (Pyodide): what would be the writer's turn is taken by the caller.
                    self._writer, self._threadless = None, True
            self._changed.notify_all()
        if self._threadless:
            self._dirty = False
            self._flush()

    def end(self, text: str) -> None:
        """Tells all views that they no longer change; `text` is the reason, as a sentence."""
        self._over = text
        self.post({"t": "over", "text": text})
        if self._host is not None:
            self._host.store(last=True)

    def store_picture(self) -> None:
        """Stores the picture as it is now, where the view was displayed."""
        if self._host is not None:
            self._host.store()

    def store_decision(self) -> None:
        """Brings the picture that the notebook stores up to date soon, for a decision has changed it."""
        if self._host is not None:
            self._host.mark(decided=True)
        for callback in self.on_decision:
            callback()

    def close(self) -> None:
        """Ends the subscription, the writer, then the widget of notebooks; the second call does nothing."""
        with self._changed:
            if self._ended:
                return
            self._ended = True
            self._changed.notify_all()
        if self._host is not None:
            self._host.end()
        for end in self._ends:
            end()
        writer = self._writer
        if writer is not None and writer is not threading.current_thread():
            writer.join(2)
        if self._host is not None:
            self._host.close()

    def fault(self, error: BaseException) -> None:
        """Keeps an exception that no caller receives, and logs it."""
        self.faults.append(error)
        log.warning("%s: %s: %s", self.title, type(error).__name__, error)

    # The writer.

    def _write(self) -> None:
        looked, pause, due = 0.0, FIRST_REMINDER, math.inf
        while True:
            with self._changed:
                while not self._dirty and not self._ended and (left := due - time.monotonic()) > 0:
                    self._changed.wait(None if left == math.inf else left)
                # More will have gathered by the time the next message may go; an end does not wait for it. To look
                # costs, too, where nothing is to be sent.
                while not self._ended and (left := looked + self.interval - time.monotonic()) > 0:
                    self._changed.wait(left)
                if self._ended:
                    return
                called, self._dirty = self._dirty, False
            sent = self._flush() if called else False
            looked = time.monotonic()
            if sent:
                pause, due = FIRST_REMINDER, looked + FIRST_REMINDER
            elif looked >= due or (due == math.inf and self._beating()):
                self._remind()
                pause = FIRST_REMINDER if self._beating() else pause * 2
                due = looked + pause if pause <= LAST_REMINDER else math.inf

    def _beating(self) -> bool:
        return self.beats and time.monotonic() - (self.last_ping or -math.inf) < HEARD_FOR

    def _flush(self) -> bool:
        """Sends what has gathered; returns whether any number has changed."""
        outlets = tuple(self._numbers)
        try:
            items = self._gather()
        except Exception as error:
            self.fault(error)
            # The items that were taken are in no message: the pages notice the gap, and request a snapshot.
            for outlet in outlets:
                self._advance(outlet)
            self._remind()
            return True
        sent = False
        for outlet in outlets:
            # What is for one page goes to its outlet; for one that is not known it goes to each.
            mine = [
                item
                for item in items
                if "view" not in item or self._views.get(item["view"], outlet) is outlet
            ]
            if mine:
                sent = True
                self._advance(outlet)
                if not self._send(outlet, mine):  # a gap, as above
                    self._send(outlet, [])
        return sent

    def _advance(self, outlet: Outlet) -> None:
        if outlet in self._numbers:  # else it was detached meanwhile
            self._numbers[outlet] += 1

    def _send(self, outlet: Outlet, items: list[dict[str, Any]]) -> bool:
        if (number := self._numbers.get(outlet)) is None:
            return True
        try:
            outlet.send({"t": "batch", "no": number, "items": items})
        except Exception as error:
            self.fault(error)
            return False
        return True

    def _remind(self) -> None:
        with self._changed:
            homes = {id(home) for home in self._views.values()}
        for outlet in tuple(self._numbers):
            if id(outlet) in homes:
                self._send(outlet, [])

    def _gather(self) -> list[dict[str, Any]]:
        with self._changed:
            asked, self._asked = self._asked, {}
        # Without a thread of its own each ping is answered by itself.
        beat = self.beats and (1.0 if self._threadless else PING)
        now = self.clock().timestamp()
        about: dict[str, Any] = {"t": "snapshot", "over": self._over, "beat": beat, "now": now}
        about["resume"] = self.resume_cell
        if asked:
            about["settings"] = preferences.read()
        # The news follow a snapshot, so that a view which had no part in it gets them, and the heading, too.
        snapshots = [self._snapshot(start) | {"view": view} for view, start in asked.items()]
        heading = self._heading() if asked else {}
        items = [shown | heading | about for shown in snapshots]
        if asked and len(asked) == len(self._views):
            self._head = heading
        items += self._news()
        if (heading := self._heading()) != self._head:
            self._head = heading
            items.append({"t": "head"} | heading)
        # An item is posted after what it speaks of has changed, so it follows the news.
        while self._outbox:
            items.append(self._outbox.popleft())
        return items

    # Messages from the pages.

    def receive(self, message: object, outlet: Outlet) -> None:
        """Takes a message from a page of this outlet, on any thread; a malformed one changes nothing."""
        try:
            if not isinstance(message, dict):
                return
            take = self.messages.get(str(message.get("t")))
            members = {name: value for name, value in message.items() if name != "t"}
            if take is not None and (given := read_message(take, members)) is not None:
                if take == self._ask:
                    if outlet not in self._numbers:
                        return  # it was detached, or the view is closed
                    with self._changed:
                        self._views[given["view"]] = outlet
                take(**given)
            elif take is not None:
                self._refuse_message(str(message.get("t")), members)
        except Exception as error:
            self.fault(error)

    def _common_messages(self) -> dict[str, Callable[..., None]]:
        return {
            "ping": self._take_ping,
            "snapshot": self._ask,
            "bye": self._forget_view,
            "setting": self._change_setting,
        }

    def _take_ping(self, view: str) -> None:
        self.last_ping = time.monotonic()
        if self.beats:
            (self._remind if self._threadless else self.wake)()

    def _ask(self, view: str, from_: int = 0) -> None:
        self.last_ping = time.monotonic()
        with self._changed:
            self._asked[view] = max(0, from_)
        self.wake()

    def _forget_view(self, view: str) -> None:
        with self._changed:
            self._views.pop(view, None)

    def _change_setting(self, name: str, value: Any) -> None:
        try:
            preferences.change(name, value)
        except MewError as refusal:
            # What could not be kept holds in this kernel; what is not valid changes nothing.
            self.fault(refusal)
        item = {"t": "settings", "settings": preferences.read()}
        for view in tuple(_all):
            view.post(item)

    # Pictures.

    def __repr__(self) -> str:
        with contextlib.suppress(Exception):
            text, mask = self._static_text(), shown_mask()
            return one_line(text if mask is None else mask.text(text), 200)
        return f"<{self.title}>"

    @property
    def host(self) -> NotebookHost:
        """This view as the notebooks of this kernel show it; made at the first use."""
        if self._host is None:
            from mew_lab.views.ui.notebook_host import NotebookHost

            self._host = NotebookHost(self)
        return self._host

    @property
    def widget(self) -> NotebookWidget:
        """The widget that shows this view in a notebook, such as for a box of ipywidgets."""
        return self.host.widget

    def _ipython_display_(self) -> None:
        self.host.display()

    def _repr_mimebundle_(self, **choices: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.host.bundle(**choices)

    def _display_(self) -> NotebookWidget:
        """What marimo shows in place of this view."""
        return self.widget

    def draw(self, *, hidden: bool = False) -> tuple[object, dict[str, str]]:
        """What would be seen now, and the bundle that shows it: text, and HTML where it can be drawn."""
        text, drawn, mask = repr(self), None, shown_mask()
        data = {"text/plain": text}
        try:
            drawn = self._static_html()
            if mask is not None:
                drawn = mask_markup(drawn, mask)
            masked, ended = "" if mask is None else str(mask), bool(self._over)
            data["text/html"] = snapshot(drawn, self.clock(), ended=ended, hidden=hidden, masked=masked)
        except Exception as error:
            self.fault(error)
        return (text, drawn, self._over), data


@contextlib.contextmanager
def count_while(add: Callable[[int], None]) -> Iterator[None]:
    """Calls `add` with 1 before the block, and with -1 after it."""
    add(1)
    try:
        yield
    finally:
        add(-1)
