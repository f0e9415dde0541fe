"""Paces what is shown of one stream, and tells what was skipped.

A watch begins with what is held, 256 KiB at most, and goes on with what comes: 256 KiB a second of what is sent, on
average. What does not fit is skipped, the older first, and each skip is told in bytes. A paused watch stands still; what
came meanwhile follows when it goes on, as far as it fits. A picture costs what it weighs, and the next waits until that
is paid.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from mew_lab.views.streams.frame_buffer import EACH, FrameBuffer, FramePosition, FrameStore
from mew_lab.views.streams.readers import (
    HEX_LINES,
    FrameDecoder,
    HexReader,
    JsonReader,
    NumberReader,
    PictureReader,
    TextReader,
)
from mew_lab.views.streams.row import Kind

__all__ = ["RATE", "StreamWatch", "reader_of"]

RATE = 256 * 1024  # bytes a second, and at once


def reader_of(kind: Kind, *, format: str = "") -> FrameDecoder:
    """A reader of that kind; `format` is what the stream's request said."""
    if kind == "json":
        return JsonReader()
    if kind == "hex":
        return HexReader()
    if kind == "numbers":
        return NumberReader(format)
    return PictureReader() if kind == "image" else TextReader()


class StreamWatch:
    """One look at one stream. `skipped` counts the bytes that were too much so far."""

    def __init__(
        self,
        shelf: FrameStore,
        held: FrameBuffer,
        kind: Kind,
        *,
        format: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.paused = False
        self.skipped = 0
        self._shelf = shelf
        self._held = held
        self._clock = clock
        self._reader = reader_of(kind, format=format)
        self._place = FramePosition()
        self._began = False
        self._budget: float = RATE
        self._then = clock()

    @property
    def waits(self) -> bool:
        """Whether there may be something to show that was not shown yet."""
        return not self.paused and (not self._began or self._place != self._held.end or self._budget <= 0)

    def next(self) -> dict[str, Any]:
        """What is to be shown now; empty when there is nothing. `before`, the first time: the bytes before it."""
        now = self._clock()
        self._budget = min(RATE, self._budget + (now - self._then) * RATE)
        self._then = now
        if self.paused or (self._budget <= 0 and self.kind != "image"):
            return {}
        update = self._read()
        if self._budget > 0:
            shown = self._reader.take()
            if shown:
                self._budget -= len(json.dumps(shown))
                update |= shown
        return update

    def _read(self) -> dict[str, Any]:
        most = {"image": EACH, "hex": HEX_LINES * 16}.get(self.kind, max(1, int(self._budget)))
        some = self._shelf.after(self._held, self._place, most=most)
        missing = some.start.bytes - self._place.bytes
        pieces = [(data, True) for data in some.frames]
        if len(pieces) == 1 and self.kind != "image" and len(pieces[0][0]) > most:
            missing += len(pieces[0][0]) - most
            pieces = [(pieces[0][0][-most:], False)]
        if missing:
            self._reader.gap(missing)
        update: dict[str, Any] = {}
        if not self._began:
            self._began = True
            update["before"] = missing
        elif missing and self.kind != "hex":
            self.skipped += missing
            update["skipped"] = self.skipped
        for data, whole in pieces:
            self._reader.read(data, whole=whole)
        self._place = some.end
        return update
