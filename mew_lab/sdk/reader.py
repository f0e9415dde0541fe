"""Holds the unread frames of a stream for one reader: in order, bounded in bytes, and without silent gaps.

It has no reference to a stream or a connection. Several readers of one stream each get all frames; they share the bytes.

Spec: §3.10.3.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Literal

from mew_lab.errors import LocalProtocolError, MewError
from mew_lab.sdk.signal import OwnEvent

__all__ = ["LIMIT", "FrameReader", "Overflow", "wait_for_room"]

LIMIT = 4 * 1024 * 1024  # default limit of unread bytes of a reader
FRAME_COST = 64  # bytes that a frame counts beside its data, as empty frames cost memory, too
HOLD = 5.0  # seconds that readers may keep their connection waiting at a time

Overflow = Literal["raise", "drop_oldest", "wait"]


class FrameReader:
    """The frames of one stream from now on: `async for data in reader`. Ends when the stream is closed.

    Frames from before the close can still be read. `limit` is the number of unread bytes that it holds; each frame
    counts 64 more than its data, and one frame is always taken. `overflow` decides about frames beyond the limit:

    - `raise`: they are missed, and the reader gets a MewError with their number at that position; further reads
      give the frames after the gap.
    - `drop_oldest`: the newest frames are kept; only `missed_frames` and `missed_bytes` count the others.
    - `wait`: the participant reads nothing more from its connection until half is read, which slows the gateway
      down. Everything on that connection waits, answers included; so it waits at most 5 s at a time, then goes on
      as `raise`. A gateway closes connections that stay behind (that of mew_lab: 8 MiB waiting for 10 s).

    Attributes:
        missed_frames: the number of frames that did not fit; `missed_bytes` is the size of their data.
        held: the number of bytes that it holds now.
    """

    def __init__(self, name: str, *, limit: int = LIMIT, overflow: Overflow = "raise") -> None:
        self.name = name
        self.missed_frames = 0
        self.missed_bytes = 0
        self.held = 0
        self._frames: deque[bytes] = deque()
        self._untold_frames = self._untold_bytes = 0
        self._overdue = False
        self._ended = False
        self._error: MewError | None = None
        self._more = OwnEvent(f"This reader of {name}")
        self._less = asyncio.Event()
        self.bound(limit, overflow)

    def __repr__(self) -> str:
        return f"<FrameReader of {self.name}: {len(self._frames)} frames, {self.held} bytes unread>"

    def bound(self, limit: int, overflow: Overflow) -> None:
        """Sets the limit in bytes and the way of overflow.

        Raises:
            LocalProtocolError: `overflow` is unknown, or the limit is not positive.
        """
        if limit < 1 or overflow not in ("raise", "drop_oldest", "wait"):
            raise LocalProtocolError(
                f"Cannot read {self.name} with limit={limit!r}, overflow={overflow!r}: limit is at least 1, and "
                "overflow is 'raise', 'drop_oldest' or 'wait'"
            )
        self.limit = limit
        self.overflow = overflow

    # --- the reader ---

    def __aiter__(self) -> FrameReader:
        return self

    async def __anext__(self) -> bytes:
        self._more.check()
        while True:
            if self._frames:
                return self._pop()
            if self._untold_frames:
                raise self._gap()
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._ended:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()

    def close(self) -> None:
        """Ends the reader and drops unread frames. A second call does nothing."""
        self._frames.clear()
        self.held = 0
        self._untold_frames = self._untold_bytes = 0
        self.end()

    async def __aenter__(self) -> FrameReader:
        return self

    async def __aexit__(self, *fault: object) -> None:
        self.close()

    # --- the stream ---

    def put(self, data: bytes) -> bool:
        """Adds a frame; returns whether the caller should `wait_for_room` before the next one."""
        if self._ended:
            return False
        cost = len(data) + FRAME_COST
        full = bool(self._frames) and self.held + cost > self.limit
        if self._untold_frames or (full and (self.overflow == "raise" or self._overdue)):
            self._untold_frames += 1
            self._untold_bytes += len(data)
            self._count_missed(data)
        else:
            while self.overflow == "drop_oldest" and self._frames and self.held + cost > self.limit:
                self._count_missed(self._pop())
            self._frames.append(data)
            self.held += cost
        self._more.set()
        return self.overflow == "wait" and not self._overdue and self.held > self.limit

    def end(self, error: MewError | None = None) -> None:
        """Ends the reader behind its last frame, where it raises `error` once. Later calls change nothing."""
        if not self._ended:
            self._ended = True
            self._error = error
        self._more.set()
        self._less.set()

    async def has_room(self) -> None:
        """Waits until at least half of the limit is free, or the stream ended."""
        while self.held > self.limit // 2 and not self._ended:
            self._less.clear()
            await self._less.wait()

    def overdue(self) -> None:
        """Ends the waiting for this reader: until it has room again, frames that do not fit are missed."""
        self._overdue = self.held > self.limit // 2

    def _pop(self) -> bytes:
        data = self._frames.popleft()
        self.held -= len(data) + FRAME_COST
        if self.held <= self.limit // 2:
            self._overdue = False
            self._less.set()
        return data

    def _count_missed(self, data: bytes) -> None:
        self.missed_frames += 1
        self.missed_bytes += len(data)

    def _gap(self) -> MewError:
        frames, size = self._untold_frames, self._untold_bytes
        self._untold_frames = self._untold_bytes = 0
        return MewError(
            f"This reader of {self.name} fell behind and missed {frames} frames ({size} bytes): it holds at most "
            f"{self.limit} bytes. Read faster, or give read() a higher limit or overflow='wait'"
        )


async def wait_for_room(readers: Sequence[FrameReader], *, within: float | None = None) -> None:
    """Waits until all readers have room, at most `within` seconds (None: 5); then marks the others as overdue."""
    try:
        async with asyncio.timeout(HOLD if within is None else within):
            for reader in readers:
                await reader.has_room()
    except TimeoutError:
        for reader in readers:
            reader.overdue()
