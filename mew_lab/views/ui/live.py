"""Keeps a view in the browser in step with Python, whatever the kernel does meanwhile.

A `LiveWidget` is one ES module beside its Python file. It has no synced state worth saving: everything
travels in custom messages, which are neither stored in a notebook nor replayed. So a view that appears
(again) requests a snapshot, and one writer per widget sends the changes:

- One writer. Any thread may `post` an item or `wake` the writer; only the writer sends, at most once in
  `interval`, all that has gathered as one message. Two threads that send on one widget corrupt each other,
  and a front end drowns in messages long before it drowns in bytes.
- Every loss is noticed. A cell that floods makes the Jupyter server drop messages, and their items are not sent again.
  So each message has a number, `no`, and a view that misses one requests a snapshot, which holds everything. A message
  without items repeats the last number: after a failure, and a few times in the quiet that follows the last message.
- A view with `beats` gets such a message each second, as long as its page sends a ping now and then. A page that
  receives none for some seconds has no kernel, and disables its buttons.
- Any thread. A message from the browser is handled on the thread that the kernel happens to use: the main
  one, a subshell's, another. Handlers check, hand over, return; they wait for nothing and print nothing. Exceptions
  are kept in `faults` and logged: a print here would appear in whichever cell ran last.
- The main thread may be busy. From ipykernel 7.4 on a widget's messages follow the last cell that touched it,
  back to the main thread; `free_the_comm` undoes that for our widgets, so that a blocked cell does not block
  its own answer.

The content of a view is up to its subclass.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, NamedTuple
from weakref import WeakSet

import anywidget

from mew_lab.errors import MewError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.visible import one_line
from mew_lab.views.ui.messages import read_message
from mew_lab.views.ui.pictures import snapshot
from mew_lab.views.ui.preferences import preferences
from mew_lab.views.ui.stored_picture import StoredPicture

__all__ = [
    "ClickProbe",
    "LiveWidget",
    "attended",
    "can_click_while_waiting",
    "count_while",
    "free_the_comm",
    "is_displayed_here",
    "message_threads",
]

log = logging.getLogger("mew_lab.views")
log.addHandler(logging.NullHandler())

# Threads on which messages from any front end were handled so far: no front end declares whether it uses subshells,
# so this is observed.
message_threads: set[str] = set()

# The number of the last message is said again after so many seconds of quiet, then twice as many, up to the latter.
FIRST_REMINDER, LAST_REMINDER = 1.0, 64.0
PING, HEARD_FOR = 4.0, 12.0  # between a page's signs of life, and for how long each keeps the beats going


# All widgets of this kernel: a setting that one view changes is told to each.
_widgets: WeakSet[LiveWidget] = WeakSet()


class ClickProbe(NamedTuple):
    """Whether a click in this kernel's front end is handled while a cell runs.

    Attributes:
        awaiting: Whether it is handled while a cell awaits.
        blocking: Whether it is handled while a cell blocks the main thread.
        advice: The alternative for the person where it is not; else empty.
    """

    awaiting: bool
    blocking: bool
    advice: str


def can_click_while_waiting() -> ClickProbe:
    """Examines the kernel, and the threads on which earlier messages arrived, without waiting."""
    kernel = _kernel()
    if kernel is None:
        return ClickProbe(
            False, False, "There is no notebook front end here: decide in code, or set a policy."
        )
    text = _version()
    numbers = [int(part) for part in re.findall(r"\d+", text)[:2]]
    version, name = (*numbers, 0, 0)[:2], f"ipykernel {text}"
    if version < (7, 0):
        advice = "click first, then await in the next cell, or install ipykernel 7.4."
        return ClickProbe(False, False, f"{name} handles clicks only between cells: {advice}")
    subshells = bool(getattr(kernel, "_supports_kernel_subshells", False)) and message_threads != {"main"}
    if version < (7, 4):
        advice = f"With {name} this front end's clicks are handled only between cells: install ipykernel 7.4."
        return ClickProbe(subshells, subshells, "" if subshells else advice)
    blocking = subshells and _routable()
    advice = f"With {name} and this front end a click is handled while a cell awaits: use await."
    return ClickProbe(True, blocking, "" if blocking else advice)


def _kernel() -> Any:
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None)


def _version() -> str:
    """The version of ipykernel; the kernel reports that of IPython as its implementation version."""
    try:
        return metadata.version("ipykernel")
    except metadata.PackageNotFoundError:
        return "0"


def attended(kernel: Any) -> bool:
    """Whether the running cell was sent by a front end with a human; False for nbclient and similar runners."""
    request = kernel.get_parent("shell") or {}
    return bool(request.get("content", {}).get("allow_stdin", False))


def _running_cell(kernel: Any) -> str:
    """The id of the request to run the cell that runs now."""
    return str((kernel.get_parent("shell") or {}).get("header", {}).get("msg_id", ""))


def is_displayed_here(view: LiveWidget) -> bool:
    """Whether the cell that runs now displays this view already."""
    kernel = _kernel()
    return kernel is not None and view.displayed_in != "" and view.displayed_in == _running_cell(kernel)


def _routable() -> bool:
    """Whether the one private method that `free_the_comm` replaces is still where it was."""
    try:
        from ipykernel.comm.comm import BaseComm
    except ImportError:
        return False
    return callable(getattr(BaseComm, "_reply_subshell_for", None))


def free_the_comm(comm: Any) -> bool:
    """Delivers the messages of this comm to the shell that the front end chose; returns whether this was needed.

    ipykernel 7.4 delivers a comm's incoming messages to the shell that last published on it. For a widget of an
    ordinary cell that is the main shell, so a blocking cell would wait for a click that waits for the cell.
    """
    if not hasattr(comm, "_reply_subshell_for"):
        return False
    comm._reply_subshell_for = lambda data, default: default
    return True


def _utc_now() -> datetime:
    return datetime.now(UTC)


class LiveWidget(anywidget.AnyWidget):
    """A view that is fed by one writer; subclasses define the snapshot, the changes and the handling of messages.

    `interval` is the least time between two messages in seconds. `faults` holds the last 50 exceptions that no
    caller received. `last_ping` is the time (time.monotonic) of the last sign of life of a view.
    """

    interval = 0.05
    title = "view"
    beats = False

    def __init__(self, *, clock: Callable[[], datetime] = _utc_now, **traits: Any) -> None:
        self.faults: deque[BaseException] = deque(maxlen=50)
        self.last_ping: float | None = None
        self.clock = clock
        # A page that was reloaded sent no `bye`: the oldest views are forgotten.
        self._views: BoundedDict[str, int] = BoundedDict(16)
        # How many were sent; only the writer counts.
        self._batches, self._over = 0, ""
        self._outbox: deque[dict[str, Any]] = deque()
        self._head: dict[str, Any] = {}  # that all views have; only the writer uses it
        # End the subscriptions that a subclass has begun.
        self._ends: list[Callable[[], object]] = []
        # Guards the five below; held for a few statements only, never while anything is sent.
        self._changed = threading.Condition()
        self._asked: dict[str, int] = {}
        self._dirty = False
        self._ended = False
        self._writer: threading.Thread | None = None
        self._threadless = False
        self._stored: StoredPicture | None = None
        # The id of the request to run the cell that displayed this view last.
        self.displayed_in = ""
        # What is called when a decision has changed the view.
        self.on_decision: list[Callable[[], None]] = []
        super().__init__(**traits)
        self.freed = free_the_comm(self.comm)
        self.on_msg(self._on_message)
        _widgets.add(self)

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
        """Whether some front end shows this widget, as far as its messages tell."""
        return bool(self._views)

    def post(self, item: dict[str, Any]) -> None:
        """Sends the item to all views with the next message."""
        self._outbox.append(item)
        self.wake()

    def wake(self) -> None:
        """Tells the writer that there is something new; cheap enough for every row of a log."""
        if self._stored is not None:
            self._stored.mark()
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
        if self._stored is not None:
            self._stored.store(last=True)

    def store_picture(self) -> None:
        """Stores the picture as it is now, where the view was displayed."""
        if self._stored is not None:
            self._stored.store()

    def store_decision(self) -> None:
        """Brings the picture that the notebook stores up to date soon, for a decision has changed it."""
        if self._stored is not None:
            self._stored.mark(decided=True)
        for callback in self.on_decision:
            callback()

    def close(self) -> None:
        """Ends the subscription, the writer, then the widget; the second call does nothing."""
        with self._changed:
            if self._ended:
                return
            self._ended = True
            self._changed.notify_all()
        if self._stored is not None:
            self._stored.end()
        for end in self._ends:
            end()
        writer = self._writer
        if writer is not None and writer is not threading.current_thread():
            writer.join(2)
        super().close()

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
            before = self._batches
            if called:
                self._flush()
            looked = time.monotonic()
            if self._batches != before:
                pause, due = FIRST_REMINDER, looked + FIRST_REMINDER
            elif looked >= due or (due == math.inf and self._beating()):
                self._remind()
                pause = FIRST_REMINDER if self._beating() else pause * 2
                due = looked + pause if pause <= LAST_REMINDER else math.inf

    def _beating(self) -> bool:
        return self.beats and time.monotonic() - (self.last_ping or -math.inf) < HEARD_FOR

    def _flush(self) -> None:
        try:
            if items := self._gather():
                self._batches += 1
                self.send({"t": "batch", "no": self._batches, "items": items})
        except Exception as error:
            self.fault(error)
            # The items that were taken are in no message: the views notice the gap, and request a snapshot.
            self._batches += 1
            self._remind()

    def _remind(self) -> None:
        if not self._views:
            return
        try:
            self.send({"t": "batch", "no": self._batches, "items": []})
        except Exception as error:
            self.fault(error)

    def _gather(self) -> list[dict[str, Any]]:
        with self._changed:
            asked, self._asked = self._asked, {}
        # Without a thread of its own each ping is answered by itself.
        beat = self.beats and (1.0 if self._threadless else PING)
        about: dict[str, Any] = {"t": "snapshot", "over": self._over, "beat": beat}
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

    # Messages from the views.

    def _on_message(self, _widget: Any, message: Any, _buffers: Any) -> None:
        try:
            is_main = threading.current_thread() is threading.main_thread()
            message_threads.add("main" if is_main else "subshell")
            if not isinstance(message, dict):
                return
            take = self.messages.get(str(message.get("t")))
            members = {name: value for name, value in message.items() if name != "t"}
            if take is not None and (given := read_message(take, members)) is not None:
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
            self._views[view] = self._asked[view] = max(0, from_)
        self.wake()

    def _forget_view(self, view: str) -> None:
        self._views.pop(view, None)

    def _change_setting(self, view: str, name: str, value: Any) -> None:
        try:
            preferences.change(name, value)
        except MewError as refusal:
            # What could not be kept holds in this kernel; what is not valid changes nothing.
            self.fault(refusal)
        item = {"t": "settings", "settings": preferences.read()}
        for widget in tuple(_widgets):
            widget.post(item)

    # Pictures.

    def __repr__(self) -> str:
        with contextlib.suppress(Exception):
            return one_line(self._static_text(), 200)
        return f"<{self.title}>"

    def _ipython_display_(self) -> None:
        """Displays the picture, which later updates replace, and beside it the live view, which they leave alone.

        Raises:
            NotImplementedError: There is no kernel; IPython then takes the MIME bundle.
        """
        from IPython import get_ipython

        shell = get_ipython()
        kernel = _kernel()
        if kernel is None:
            raise NotImplementedError
        self.displayed_in = _running_cell(kernel)
        if self._stored is None:
            publish = shell.display_pub.publish
            self._stored = StoredPicture(publish, self._draw, self.fault, f"mew-lab-{self.model_id}")
        data, metadata = self._bundle()
        live = {kind: value for kind, value in data.items() if not kind.startswith("text/")}
        # Hidden until the first update: a page that shows the live view has its style sheet by then.
        self._stored.show(self._picture(hidden=bool(live)))
        if live:
            shell.display_pub.publish(live, metadata)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data, metadata = self._bundle(**kwargs)
        return self._picture() | data, metadata

    def _bundle(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live view, where there may be one, and its text."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        data = dict(data) | {"text/plain": repr(self)}
        kernel = _kernel()
        # A page made without a human would keep the live view, which needs a kernel, in place of the picture.
        if os.environ.get("MEW_LAB_RENDER") == "html" or (kernel is not None and not attended(kernel)):
            data = {kind: value for kind, value in data.items() if kind.startswith("text/")}
        return data, metadata

    def _picture(self, *, hidden: bool = False) -> dict[str, str]:
        """The picture as it is now, and its text; without HTML where it cannot be drawn."""
        return self._draw(hidden=hidden)[1]

    def _draw(self, *, hidden: bool = False) -> tuple[object, dict[str, str]]:
        """What would be seen now, and the bundle that shows it."""
        text, drawn = repr(self), None
        data = {"text/plain": text}
        try:
            drawn = self._static_html()
            data["text/html"] = snapshot(drawn, self.clock(), ended=bool(self._over), hidden=hidden)
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
