"""Holds the last frames of each stream, bounded one by one and together.

A stream of the space may bring more than fits into memory. Of each the newest 8 MiB are kept, of all together 64 MiB.
The stream that holds most gives way, so a flood drops its own frames alone. A frame costs 64 bytes beside its data, so
empty ones are not free. What was dropped is counted.

The one lock guards frames that the loop's thread adds while a writer reads; it is held for a few statements, and for
one copy of a list at most.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

__all__ = ["ALL_TOGETHER", "EACH", "FrameBuffer", "FramePosition", "FrameRange", "FrameStore"]

EACH = 8 * 1024 * 1024
ALL_TOGETHER = 64 * 1024 * 1024
FRAME_COST = 64
RELIEF = 1024 * 1024  # what is dropped at once where all together are too many, so that it is seldom


class FramePosition(NamedTuple):
    """A place in a stream: so many frames and bytes of data came before it."""

    frames: int = 0
    bytes: int = 0


class FrameRange(NamedTuple):
    """Frames that follow each other, from the place `start` to the place `end`."""

    frames: list[bytes]
    start: FramePosition
    end: FramePosition


class FrameBuffer:
    """Those of one stream: `start` is the place of the oldest, `end` where the next will be, `cost` what they take."""

    def __init__(self, start: FramePosition | None = None) -> None:
        self.frames: deque[bytes] = deque()
        self.start = self.end = start or FramePosition()
        self.cost = 0


class FrameStore:
    """The frames of all streams of a space."""

    def __init__(self, *, each: int = EACH, together: int = ALL_TOGETHER) -> None:
        self.cost = 0
        self._each = each
        self._together = together
        self._held: set[FrameBuffer] = set()
        self._lock = threading.Lock()

    def add(self, held: FrameBuffer, data: bytes) -> None:
        """The next frame of a stream; older ones may have to go for it."""
        with self._lock:
            self._held.add(held)
            held.frames.append(data)
            held.end = FramePosition(held.end.frames + 1, held.end.bytes + len(data))
            held.cost += len(data) + FRAME_COST
            self.cost += len(data) + FRAME_COST
            self._shrink(held, self._each)
            if self.cost > self._together:
                relieved = max(0, self._together - RELIEF)
                while self.cost > relieved:
                    most = max(self._held, key=lambda buffer: buffer.cost)
                    self._shrink(most, max(0, most.cost - (self.cost - relieved)))

    def forget(self, held: FrameBuffer) -> None:
        """Drops all that is held of a stream."""
        with self._lock:
            self._shrink(held, -1)
            self._held.discard(held)

    def after(self, held: FrameBuffer, place: FramePosition, *, most: int) -> FrameRange:
        """The newest frames behind `place`, whole ones, of at most `most` bytes together, but the newest in any case."""
        with self._lock:
            frames: list[bytes] = []
            size, start = 0, held.end
            wanted = held.end.frames - max(place.frames, held.start.frames)
            for data in reversed(held.frames):
                if len(frames) >= wanted or (frames and size + len(data) + FRAME_COST > most):
                    break
                frames.append(data)
                size += len(data) + FRAME_COST
                start = FramePosition(start.frames - 1, start.bytes - len(data))
            return FrameRange(frames[::-1], start, held.end)

    def everything(self, held: FrameBuffer) -> FrameRange:
        """All frames of a stream that are held."""
        with self._lock:
            return FrameRange(list(held.frames), held.start, held.end)

    def _shrink(self, held: FrameBuffer, most: int) -> None:
        while held.frames and held.cost > most:
            data = held.frames.popleft()
            held.start = FramePosition(held.start.frames + 1, held.start.bytes + len(data))
            held.cost -= len(data) + FRAME_COST
            self.cost -= len(data) + FRAME_COST
