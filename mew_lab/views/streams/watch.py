"""Limits the rate at which the frames of one stream are sent to a view, and counts the skipped bytes.

A watch begins with the held frames, at most 256 KiB, and continues with new frames, on average 256 KiB a second. The
older bytes that do not fit are skipped, and each skip is reported in bytes. A paused watch sends nothing; the frames of
the pause follow afterwards, as far as they fit. A picture uses up the rate by its size, and the next one waits.
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

RATE = 256 * 1024  # bytes a second on average, and bytes at once


def reader_of(kind: Kind, *, format: str = "") -> FrameDecoder:
    """A reader of that kind; `format` is the format in the stream's request."""
    if kind == "json":
        return JsonReader()
    if kind == "hex":
        return HexReader()
    if kind == "numbers":
        return NumberReader(format)
    return PictureReader() if kind == "image" else TextReader()


class StreamWatch:
    """The frames of one stream for one view, at a limited rate. `skipped` counts the bytes skipped so far."""

    def __init__(
        self,
        store: FrameStore,
        buffer: FrameBuffer,
        kind: Kind,
        *,
        format: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.paused = False
        self.skipped = 0
        self._store = store
        self._buffer = buffer
        self._clock = clock
        self._reader = reader_of(kind, format=format)
        self._place = FramePosition()
        self._began = False
        self._budget: float = RATE
        self._then = clock()

    @property
    def waits(self) -> bool:
        """Whether there may be frames that were not shown yet."""
        return not self.paused and (not self._began or self._place != self._buffer.end or self._budget <= 0)

    def next(self) -> dict[str, Any]:
        """The content to be shown now, empty for none. The first one has `before`, the number of bytes before it."""
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
        unread = self._store.after(self._buffer, self._place, most=most)
        missing = unread.start.bytes - self._place.bytes
        pieces = [(data, True, at) for data, at in zip(unread.frames, unread.times, strict=True)]
        if len(pieces) == 1 and self.kind != "image" and len(pieces[0][0]) > most:
            missing += len(pieces[0][0]) - most
            pieces = [(pieces[0][0][-most:], False, pieces[0][2])]
        if missing:
            self._reader.gap(missing)
        update: dict[str, Any] = {}
        if not self._began:
            self._began = True
            update["before"] = missing
        elif missing and self.kind != "hex":
            self.skipped += missing
            update["skipped"] = self.skipped
        for data, whole, at in pieces:
            if isinstance(self._reader, NumberReader):
                self._reader.at = at
            self._reader.read(data, whole=whole)
        self._place = unread.end
        return update
