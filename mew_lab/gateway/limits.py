"""The limits of one server, and the token bucket that bounds the rate of a participant.

A participant that reaches a limit on a count gets the error `limit_exceeded`. A rate is not such a limit: a WebSocket
above its rate is read later, and no message is lost.

Spec: §5.2 (rulings on limits before admission).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mew_lab.transport.listener import PATIENCE, STRANGERS

__all__ = ["UNREAD", "Bucket", "Limits", "Rates"]

UNREAD = 5.0  # seconds that a connection goes unread at most
COSTLY = (
    0.005  # seconds of the loop from which a message counts by its time: others cost too little to be timed
)
PORTION = 0.02  # seconds of its rate that a slowed connection is read at a time: a turn for each message would cost more


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server; sizes in bytes, times in seconds."""

    connections: int = 512
    """WebSockets of one space."""
    unauthenticated: int = STRANGERS
    """Connections that have not shown a token yet, of the whole server; the oldest is closed for the next."""
    first_frame: float = PATIENCE
    """How long a connection may take for its request, and a WebSocket without a token for its join frame."""
    join_bytes: int = 4096
    """The longest join frame."""
    header_wait: float = 0.3
    """How long a WebSocket with a token in its header may take for a join frame."""
    probe: float = 2.0
    """How long an old connection may take to show that it lives, when a new one claims its id."""
    ping: float = 20.0
    """Seconds between pings of a WebSocket; one that does not answer within as many more is gone."""
    refusal_delay: float = 0.05
    """How long the answer to a wrong token waits."""
    body: float = 30.0
    """How long the body of a request may take."""
    messages_per_second: float = 1000.0
    """Messages of one participant, over all its connections and HTTP, in the long run."""
    burst: int = 2000
    """Messages of one participant at once."""
    bytes_per_second: float = 8 * 1024 * 1024.0
    """Bytes of one participant, over all its connections and HTTP, in the long run."""
    burst_bytes: int = 16 * 1024 * 1024
    """Bytes of one participant at once; one message never counts for more."""
    loop_share: float = 0.25
    """The part of the loop's time that the costly messages of one participant may take in the long run."""
    burst_time: float = 0.5
    """Seconds of the loop that they may take at once."""


class _Level:
    """An amount that time fills and use empties. It may fall below zero, but not far."""

    __slots__ = ("_at", "_least", "_left", "_most", "_rate")

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate = rate
        self._most = most
        self._least = min(0.0, 1.0 - UNREAD * rate)
        self._left = most
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """Takes `amount`; returns the rest, which may be negative."""
        most = self._most
        left = self._left + (now - self._at) * self._rate
        left = (left if left < most else most) - (amount if amount < most else most)
        self._left = left = left if left > self._least else self._least
        self._at = now
        return left

    def until(self, amount: float, now: float) -> float:
        """Seconds until the level reaches `amount`."""
        return (amount - self._left) / self._rate - (now - self._at)

    @property
    def portion(self) -> float:
        """The amount for which a slowed connection waits."""
        return max(1.0, min(self._most / 2, PORTION * self._rate))


class Bucket:
    """The rate of one participant in messages, bytes and time: full at first, filled by time, emptied by messages."""

    __slots__ = ("_bytes", "_levels", "_messages", "_time")

    def __init__(self, limits: Limits, now: float) -> None:
        self._messages = _Level(limits.messages_per_second, float(limits.burst), now)
        self._bytes = _Level(limits.bytes_per_second, float(limits.burst_bytes), now)
        self._time = _Level(1000 * limits.loop_share, 1000 * limits.burst_time, now)  # in milliseconds
        self._levels = (self._messages, self._bytes, self._time)

    def take(self, size: int, now: float, *, messages: int = 1) -> bool:
        """Counts a message of `size` bytes in any case; returns whether one more is within the rate."""
        return (self._messages.take(messages, now) >= 1.0) & (self._bytes.take(size, now) >= 1.0)

    def spend(self, seconds: float, now: float) -> bool:
        """Counts the time that a message occupied the loop; returns False where one more is above the rate by that."""
        return seconds < COSTLY or self._time.take(1000 * seconds, now) >= 1.0

    def wait(self, now: float) -> float:
        """Seconds until one more message is within the rate; 0 when it is now."""
        return max(0.0, *(level.until(1.0, now) for level in self._levels))

    def pause(self, now: float) -> float:
        """Seconds for which a connection is not to be read; 0 when one more message is within the rate now.

        It is longer than `wait`, so that a portion of messages is then read at once, but never over `UNREAD`.
        """
        if not self.wait(now):
            return 0.0
        return min(UNREAD, max(level.until(level.portion, now) for level in self._levels))

    def retry_after(self, now: float) -> int:
        """Whole seconds after which a client may try again, for `Retry-After`."""
        return max(1, math.ceil(self.wait(now)))


class Rates:
    """One bucket for each participant, shared by WebSocket and HTTP."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def of(self, space: str, participant: str, now: float) -> Bucket:
        """The participant's bucket; a full one at the first call."""
        key = (space, participant)
        if key not in self._buckets:
            self._buckets[key] = Bucket(self._limits, now)
        return self._buckets[key]
