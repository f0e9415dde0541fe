"""Holds the last frames of each stream, with a limit for each stream and one for all.

A stream may bring more than fits into memory. The store keeps the newest 8 MiB of each stream and 64 MiB in all. When
all together are too many, the stream that holds most loses frames, so a flood drops its own frames alone. A frame costs
64 bytes beside its data, so empty frames count too. Positions count the dropped frames.

One lock guards the frames, which the loop's thread adds while a writer reads. It is held for a few statements, and for
one copy of a list at most.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

__all__ = ["ALL_TOGETHER", "EACH", "FrameBuffer", "FramePosition", "FrameRange", "FrameStore"]

EACH = 8 * 1024 * 1024
ALL_TOGETHER = 64 * 1024 * 1024
FRAME_COST = 64
RELIEF = 1024 * 1024  # bytes dropped at once when all together are too many, so that it happens seldom


class FramePosition(NamedTuple):
    """A position in a stream, as the numbers of frames and of bytes before it."""

    frames: int = 0
    bytes: int = 0


class FrameRange(NamedTuple):
    """Consecutive frames from `start` to `end`, and when each of them arrived, in seconds of the epoch."""

    frames: list[bytes]
    start: FramePosition
    end: FramePosition
    times: list[float]


class FrameBuffer:
    """The frames of one stream: `start` is the position of the oldest, `end` of the next; `cost` is their size."""

    def __init__(self, start: FramePosition | None = None) -> None:
        self.frames: deque[bytes] = deque()
        self.times: deque[float] = deque()
        self.start = self.end = start or FramePosition()
        self.cost = 0


class FrameStore:
    """The frames of all streams of a space."""

    def __init__(
        self, *, each: int = EACH, together: int = ALL_TOGETHER, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self.cost = 0
        self._each = each
        self._together = together
        self._held: set[FrameBuffer] = set()
        self._lock = threading.Lock()

    def add(self, held: FrameBuffer, data: bytes) -> None:
        """Adds the next frame of a stream; older frames may be dropped for it."""
        with self._lock:
            self._held.add(held)
            held.frames.append(data)
            held.times.append(self._clock())
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
        """Drops all held frames of a stream."""
        with self._lock:
            self._shrink(held, -1)
            self._held.discard(held)

    def after(self, held: FrameBuffer, place: FramePosition, *, most: int) -> FrameRange:
        """The newest whole frames behind `place`, at most `most` bytes together, but at least the newest one."""
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
            times = list(islice(held.times, len(held.times) - len(frames), None))
            return FrameRange(frames[::-1], start, held.end, times)

    def first(self, held: FrameBuffer, most: int = 50) -> list[bytes]:
        """The oldest held frames of a stream, at most `most` of them."""
        with self._lock:
            return list(islice(held.frames, most))

    def everything(self, held: FrameBuffer) -> FrameRange:
        """All held frames of a stream."""
        with self._lock:
            return FrameRange(list(held.frames), held.start, held.end, list(held.times))

    def _shrink(self, held: FrameBuffer, most: int) -> None:
        while held.frames and held.cost > most:
            data = held.frames.popleft()
            held.times.popleft()
            held.start = FramePosition(held.start.frames + 1, held.start.bytes + len(data))
            held.cost -= len(data) + FRAME_COST
            self.cost -= len(data) + FRAME_COST
