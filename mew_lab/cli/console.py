"""What stands between a person's terminal and a lab?  Rows out as they come, typed lines in, until either end goes.

It knows what no line means: terminal.py does.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator

from mew_lab.cli.terminal import row_line
from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Row
from mew_lab.lab.lab import Lab
from mew_lab.protocol.visible import visible_json

__all__ = ["Console"]


class Console:
    """A space seen from a terminal: says its rows as they come; `lines` gives what is typed until an end.

    `exact` says each envelope as its text instead of a line for people.
    """

    def __init__(self, lab: Lab, *, say: Callable[[str], object], colour: bool, exact: bool = False) -> None:
        self._lab = lab
        self._say = say
        self._colour = colour
        self._exact = exact
        self._last = 0
        self._start: float | None = None
        # Rows come on the loop's thread and, once at the start, on this one.
        self._printing = threading.Lock()
        self._typed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lost = ""
        lab.rows.subscribe(self._print)
        self._print()
        lab.me.participant.client.on_disconnected(self._gone)

    def lines(self, *, reading: bool) -> Iterator[str]:
        """Typed lines until the input ends.

        Raises:
            MewError: when the connection is gone for good.
        """
        if reading:
            threading.Thread(target=self._read, daemon=True, name="mew-lab-stdin").start()
        while (line := self._typed.get()) is not None:
            yield line
        if self._lost:
            raise MewError(f"the connection to {self._lab.url} has ended: {self._lost}")

    def _read(self) -> None:
        for line in sys.stdin:
            self._typed.put(line)
        self._typed.put(None)

    def _gone(self, *_: object) -> None:
        failure = self._lab.me.participant.client.failure
        if failure is not None:  # otherwise the client connects again by itself
            self._lost = str(failure)
            self._typed.put(None)

    def _print(self) -> None:
        with self._printing:
            for row in self._lab.rows.since(self._last, 10_000):
                self._last = row.seq
                self._say(visible_json(self._lab.rows.raw(row.seq)) if self._exact else self._line(row))

    def _line(self, row: Row) -> str:
        self._start = row.t if self._start is None else self._start
        return row_line(row, start=self._start, colour=self._colour)
