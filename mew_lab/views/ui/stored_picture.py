"""Keeps the picture that a notebook stores beside a live view up to date.

How it works
------------
A view that is displayed makes two outputs: the picture, under a display id, and the live view. An update of the picture
goes to that id alone. A front end draws an updated output anew, so the live view is an output of its own: it keeps its
focus, its scroll position and whatever is half typed in it. The style sheet of a live view hides a picture of the same
cell. A front end without widgets, a page of nbconvert, and a notebook that is opened without its kernel show the
picture.

`mark` is called whenever a view may have changed. The picture follows some seconds later, so that a flood costs one
update in `QUIET` seconds, and a decision is stored within `SOON` seconds. What is the same as before is not published,
so that a quiet space leaves the notebook saved. `store` publishes at once, as the end of a space does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["StoredPicture"]

FIRST = 1.0  # seconds after the display until the picture may be seen where no live view came
SOON, QUIET = 2.0, 10.0  # least seconds between two updates, after a decision and after anything else


class StoredPicture:
    """The stored picture of one view.

    Args:
        publish: Publishes a bundle of MIME types; its keyword arguments are those of IPython's display publisher.
        draw: What would be seen now, and the bundle that shows it. It is called on any thread.
        fault: Takes an exception that no caller receives.
        id: The display id.
    """

    def __init__(
        self,
        publish: Callable[..., Any],
        draw: Callable[[], tuple[object, Mapping[str, str]]],
        fault: Callable[[BaseException], None],
        id: str,
    ) -> None:
        self._publish, self._draw, self._fault = publish, draw, fault
        self._transient = {"display_id": id}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._due = 0.0
        self._stored = 0.0
        self._ended = False
        self._drawings = 0  # how many were begun; an older one is not published after a newer one
        self._last: object = None  # what was published last

    def show(self, bundle: Mapping[str, str]) -> None:
        """Publishes the picture as a new output of the running cell."""
        self._publish(data=dict(bundle), metadata={}, transient=self._transient)
        self._ended, self._stored, self._last = False, time.monotonic(), None
        self._begin(FIRST)

    def mark(self, *, decided: bool = False) -> None:
        """Says that the view has changed; `decided` where a decision has. Cheap, and for any thread."""
        timer, gap = self._timer, SOON if decided else QUIET
        if timer is not None and not decided:
            return
        left = max(0.1, self._stored + gap - time.monotonic())
        if timer is None or time.monotonic() + left < self._due - 0.1:
            self._begin(left)

    def store(self, *, last: bool = False) -> None:
        """Publishes the picture as it is now, on the calling thread; after the `last` nothing follows."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            self._stored = time.monotonic()
            self._ended = self._ended or last
            self._drawings += 1
            drawing = self._drawings
        try:
            seen, bundle = self._draw()
            with self._lock:
                if drawing == self._drawings and seen != self._last:
                    self._last = seen
                    self._publish(data=dict(bundle), metadata={}, transient=self._transient, update=True)
        except Exception as error:
            self._fault(error)

    def end(self) -> None:
        """Ends the updates."""
        with self._lock:
            self._ended = True
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _begin(self, seconds: float) -> None:
        with self._lock:
            if self._ended:
                return
            if self._timer is not None:
                self._timer.cancel()
            self._due = time.monotonic() + seconds
            self._timer = threading.Timer(seconds, self.store)
            self._timer.daemon = True
            try:
                self._timer.start()
            except RuntimeError:
                # No threads here (Pyodide): the picture follows at the end of the space.
                self._timer = None
