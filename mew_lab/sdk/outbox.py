"""What waits to be handed to a link, and what becomes of it when there is none?  A queue; it knows no envelope.

Three rules:
1. In the order in which it came, and never twice: what a link was being handed when it broke is not repeated,
   because nobody can know whether it arrived.
2. Whoever awaits a message is told its end; what nobody awaits is counted, and the count told.
3. Only what was put here while there was no link is kept for the next one, where that was asked for, and only
   so much. Who sent on a link that broke has been told of the break, and may have acted on it; and a frame would
   come out of a silence into a stream that went on without it.

Spec: SDK "Layer 1".
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mew_lab.errors import ConnectionLost
from mew_lab.protocol.text import utf8_size

__all__ = ["MAX_KEPT", "MAX_KEPT_BYTES", "MAX_UNSENT", "Outbox"]

MAX_UNSENT = 10_000  # messages that wait for a link which takes none
MAX_KEPT = 1000  # messages that wait for the next link
MAX_KEPT_BYTES = 8 * 1024 * 1024  # and their size together

BROKEN = "the connection ended before this message was sent"
ON_ITS_WAY = "the connection broke while this message was on its way, so nobody can know whether it arrived"


class Waiting(NamedTuple):
    """One message; `sent` is done when the link has taken it, `keeper` names who put it here for the next link."""

    message: str | bytes
    sent: asyncio.Future[None] | None
    keeper: str = ""

    @property
    def size(self) -> int:
        """Bytes of it."""
        message = self.message
        return len(message) if isinstance(message, bytes) else utf8_size(message)


class Outbox:
    """The messages of one connection that no link has taken yet. `lost` is told how many unawaited ones ended,
    and why."""

    def __init__(self, *, keep: bool, lost: Callable[[int, str], None]) -> None:
        self._keep = keep
        self._lost = lost
        self._waiting: deque[Waiting] = deque()
        self._held: Waiting | None = None  # being handed to the link
        self._bytes = 0  # of those that are kept

    def __len__(self) -> int:
        return len(self._waiting) + (self._held is not None)

    def add(self, message: str | bytes, *, sent: asyncio.Future[None] | None) -> None:
        """Puts a message behind all others, for the link that there is.

        Raises:
            ConnectionLost: the link has not taken anything for very long.
        """
        if len(self._waiting) >= MAX_UNSENT:
            raise ConnectionLost(f"{MAX_UNSENT} messages wait already, and the gateway takes none")
        self._waiting.append(Waiting(message, sent))

    def keep(self, message: str | bytes, *, sent: asyncio.Future[None] | None, sender: str) -> bool:
        """Puts a message behind all others, for the next link; False where it is not kept: `sender` must be known.

        Raises:
            ConnectionLost: too many wait already, or too much.
        """
        if not self._keep or not sender:
            return False
        one = Waiting(message, sent, sender)
        if len(self._waiting) >= MAX_KEPT or self._bytes + one.size > MAX_KEPT_BYTES:
            raise ConnectionLost(
                f"the queue for the next connection is full: it takes {MAX_KEPT} messages and "
                f"{MAX_KEPT_BYTES // 1024 // 1024} MiB"
            )
        self._waiting.append(one)
        self._bytes += one.size
        return True

    def take(self) -> str | bytes | None:
        """The next message to hand to the link, None when there is none; `taken` is to follow."""
        while self._waiting:
            one = self._waiting.popleft()
            if one.sent is None or not one.sent.cancelled():  # who cancelled does not want it sent any more
                self._held = one
                return one.message
        return None

    def taken(self) -> None:
        """The link has it."""
        if self._held is not None and self._held.sent is not None and not self._held.sent.done():
            self._held.sent.set_result(None)
        self._held = None

    def interrupted(self) -> None:
        """The link is gone, another may follow: what was kept for it goes on waiting, the rest ends."""
        held, self._held = self._held, None
        ended = [one for one in self._waiting if not one.keeper]
        self._waiting = deque(one for one in self._waiting if one.keeper)
        self._bytes = sum(one.size for one in self._waiting)
        if held is not None:
            self._end([held], ON_ITS_WAY)
        self._end(ended, BROKEN)

    def claim(self, sender: str) -> None:
        """A link is there again, and `sender` is who one is now: what another name wrote is refused."""
        others = [one for one in self._waiting if one.keeper not in ("", sender)]
        self._waiting = deque(one for one in self._waiting if one.keeper in ("", sender))
        if others:
            was = others[0].keeper
            self._end(others, f"it was written as {was!r}, and the gateway calls this client {sender!r} now")

    def end(self, why: str) -> None:
        """No link will come: everything ends."""
        held, self._held = self._held, None
        waiting, self._waiting, self._bytes = self._waiting, deque(), 0
        if held is not None:
            self._end([held], ON_ITS_WAY)
        self._end(waiting, why)

    def _end(self, these: deque[Waiting] | list[Waiting], why: str) -> None:
        for one in these:
            if one.sent is not None and not one.sent.done():
                one.sent.set_exception(ConnectionLost(why))
        unawaited = sum(one.sent is None for one in these)
        if unawaited:
            self._lost(unawaited, why)
