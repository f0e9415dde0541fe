"""A link inside one process: two ends of one queue.

It uses no thread, no socket and no task: each end receives the messages of the other. Both ends belong to one event
loop. The size of a queue is not bounded here; `unread` returns it.
"""

from __future__ import annotations

import asyncio
from collections import deque

from mew_lab.transport.link import LinkClosed

__all__ = ["MemoryLink", "pair"]

HIGH_WATER = 64  # messages unread before `send` waits for the reader


class MemoryLink:
    """One end of a pair. Use `pair()` to make two."""

    __slots__ = ("_arrived", "_closed", "_inbox", "_other", "_room", "_size")

    def __init__(self) -> None:
        self._other: MemoryLink = self
        self._inbox: deque[str | bytes] = deque()
        self._size = 0
        self._arrived: asyncio.Future[None] | None = None  # the reader of this end waits on it
        self._room: asyncio.Future[None] | None = None  # senders of the other end wait on it
        self._closed: LinkClosed | None = None

    @property
    def unread(self) -> int:
        """The characters and bytes that this end has put and the other has not received yet."""
        return self._other._size

    @property
    def closed(self) -> LinkClosed | None:
        """The way in which the link was closed; None while it is open."""
        return self._closed

    def put(self, message: str | bytes) -> int:
        """Sends without waiting, also for a slow reader; returns the present `unread`.

        Raises:
            LinkClosed: when either end has closed.
        """
        if self._closed:
            raise LinkClosed(self._closed.code, self._closed.reason)
        other = self._other
        other._inbox.append(message)
        other._size = unread = other._size + len(message)
        arrived = other._arrived
        if arrived is not None and not arrived.done():
            arrived.set_result(None)
        return unread

    async def send(self, message: str | bytes) -> None:
        """Sends one whole message; waits while the other end has many unread.

        Raises:
            LinkClosed: when either end has closed.
        """
        other = self._other
        while len(other._inbox) >= HIGH_WATER and not self._closed:
            if other._room is None:
                other._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(other._room)  # so that a cancelled sender cancels no other
        self.put(message)

    async def receive(self) -> str | bytes:
        """The next whole message, in order. One task at a time may wait here.

        Raises:
            LinkClosed: when all messages were received and either end has closed.
        """
        while not self._inbox:
            if self._closed:
                raise LinkClosed(self._closed.code, self._closed.reason)
            if self._arrived is not None:
                raise RuntimeError("another task is receiving on this link already")
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        message = self._inbox.popleft()
        self._size -= len(message)
        if self._room is not None and len(self._inbox) < HIGH_WATER // 2:
            self._release()
        return message

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes both directions. A second call does nothing."""
        self.shut(code, reason)

    def shut(self, code: int = 1000, reason: str = "", *, drop: bool = False) -> None:
        """Closes both directions at once; with `drop`, unread messages are dropped. A second call does nothing."""
        for end in (self, self._other):
            if end._closed is None:
                end._closed = LinkClosed(code, reason)
            if drop:
                end._inbox.clear()
                end._size = 0
            if end._arrived is not None and not end._arrived.done():
                end._arrived.set_result(None)
            end._release()

    def _release(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)


def pair() -> tuple[MemoryLink, MemoryLink]:
    """The two ends of a new link: each receives the messages of the other."""
    here, there = MemoryLink(), MemoryLink()
    here._other, there._other = there, here
    return here, there
