"""Holds the frames of a stream that one reader has not read yet: in order, bounded in bytes, and no gap is silent.

It knows no stream and no connection: frames are put in, and the reader takes them out. Several readers of one stream
each have all frames; the bytes are shared.

Spec: §3.10.3.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Literal

from mew_lab.errors import LocalProtocolError, MewError

__all__ = ["LIMIT", "FrameReader", "Overflow", "wait_for_room"]

LIMIT = 4 * 1024 * 1024  # bytes that a reader holds unread unless it says otherwise
FRAME_COST = 64  # bytes that a frame counts beside its data: empty ones must not be free
HOLD = 5.0  # seconds that readers may keep their connection waiting at a time

Overflow = Literal["raise", "drop_oldest", "wait"]


class FrameReader:
    """The frames of one stream from now on: `async for data in reader`. Ends when the stream is closed.

    What was there before the stream closed still comes. `limit` is how many bytes it holds unread (each frame
    counts 64 more than its data; one frame is always taken); what happens beyond it is `overflow`:

    - `raise`: what does not fit is missed, and the reader is told at that very place by a MewError that names
      how much; reading on gives what came after the gap.
    - `drop_oldest`: the newest frames are kept; only `missed_frames` and `missed_bytes` tell.
    - `wait`: the participant takes nothing more from its connection until half is read, so that the gateway
      feels it. Everything on that connection waits, answers included; therefore 5 s at a time at most, after
      which it goes on as `raise`. A gateway cuts who stays behind (ours: 8 MiB waiting for 10 s).

    Attributes:
        missed_frames: how many frames did not fit, in all. `missed_bytes` is their data.
        held: how many bytes it holds now.
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
        self._more = asyncio.Event()
        self._less = asyncio.Event()
        self.bound(limit, overflow)

    def __repr__(self) -> str:
        return f"<FrameReader of {self.name}: {len(self._frames)} frames, {self.held} bytes unread>"

    def bound(self, limit: int, overflow: Overflow) -> None:
        """How much it holds from now on, and what happens beyond.

        Raises:
            LocalProtocolError: there is no such way, or the limit is not positive.
        """
        if limit < 1 or overflow not in ("raise", "drop_oldest", "wait"):
            raise LocalProtocolError(
                f"Cannot read {self.name} with limit={limit!r}, overflow={overflow!r}: limit is at least 1, and "
                "overflow is 'raise', 'drop_oldest' or 'wait'"
            )
        self.limit = limit
        self.overflow = overflow

    # --- who reads ---

    def __aiter__(self) -> FrameReader:
        return self

    async def __anext__(self) -> bytes:
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
        """Takes nothing more, and forgets what was not read. Twice is harmless."""
        self._frames.clear()
        self.held = 0
        self._untold_frames = self._untold_bytes = 0
        self.end()

    async def __aenter__(self) -> FrameReader:
        return self

    async def __aexit__(self, *fault: object) -> None:
        self.close()

    # --- who puts in ---

    def put(self, data: bytes) -> bool:
        """Adds a frame; whether whoever puts should wait, by `wait_for_room`, before the next one."""
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
        """Nothing more comes; `error` is raised once behind the last frame. The first end is the end."""
        if not self._ended:
            self._ended = True
            self._error = error
        self._more.set()
        self._less.set()

    async def has_room(self) -> None:
        """Returns when at least half of it is free, or nothing more comes."""
        while self.held > self.limit // 2 and not self._ended:
            self._less.clear()
            await self._less.wait()

    def overdue(self) -> None:
        """It has been waited for long enough; until it has room again, what does not fit is missed."""
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
    """Returns when all of them have room, or after `within` seconds (None: 5), which those who have none know."""
    try:
        async with asyncio.timeout(HOLD if within is None else within):
            for reader in readers:
                await reader.has_room()
    except TimeoutError:
        for reader in readers:
            reader.overdue()
