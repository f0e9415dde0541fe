"""Keeps since when each page has shown what it shows, so that a click which is faster than a person is refused.

A page says that a face of a card is in sight, and is told that it was heard; only then its own clock begins, so that no
delay on the way makes an honest click too fast. It does not know what is shown, nor how a decision is taken.

Spec: ruling R29.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from mew_lab.workbench import cards

__all__ = ["Showings"]

MOST = 10_000


class Showings:
    """Which page has shown which face of which proposal, and for how long."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: OrderedDict[tuple[str, str, int, str], float] = OrderedDict()
        # Pages are heard on any thread.
        self._lock = threading.Lock()

    def begin(self, view: str, proposal: str, seq: int, digest: str) -> None:
        """The page shows it from now on, or has done so for longer."""
        with self._lock:
            self._since.setdefault((view, proposal, seq, digest), self._clock())
            while len(self._since) > MOST:
                self._since.popitem(last=False)

    def refusal(self, view: object, proposal: str, seq: int, digest: str) -> str:
        """Why a click in that page decides nothing yet, as a sentence; empty when it was shown for long enough."""
        if not isinstance(view, str):
            return "Nothing was decided: the page did not say which view was clicked. Run its cell again."
        with self._lock:
            since = self._since.get((view, proposal, seq, digest))
        if since is None:
            return "Nothing was decided: this view has not shown the whole card yet. Look at it, then press again."
        shown = self._clock() - since
        if shown < cards.ARMING:
            least = f"{cards.ARMING:g} s are the least"
            return (
                f"Nothing was decided: the view had shown this for {shown:.2f} s, and {least}. Press again."
            )
        return ""
