"""How much may anybody ask of this gateway?  Numbers, and the bucket that counts messages.

Every limit has the code `limit_exceeded`; whoever meets one is told so, and nobody else notices.

Spec: §5.2 (rulings on limits before admission).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Bucket", "Limits", "Rates"]


TELL_EVERY = 0.1  # seconds between two errors to somebody who sends too much


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one server grants; sizes in bytes, times in seconds."""

    connections: int = 512
    """WebSockets of one space."""
    unauthenticated: int = 64
    """WebSockets that have not shown a token yet, of the whole server."""
    first_frame: float = 5.0
    """How long a WebSocket without a token may take for its join frame."""
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


class Bucket:
    """Counts the messages of one participant: full at first, filled by time, emptied by messages."""

    __slots__ = ("_at", "_left", "_limits", "_refused", "_told")

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._left = float(limits.burst)
        self._at = now
        self._refused = 0  # messages refused since the sender was told
        self._told = now - TELL_EVERY

    def take(self, now: float) -> bool:
        """Whether one more message is within the limit at `now`."""
        limits = self._limits
        left = min(limits.burst, self._left + (now - self._at) * limits.messages_per_second)
        self._at = now
        if left < 1.0:
            self._left = left
            self._refused += 1
            return False
        self._left = left - 1.0
        return True

    def to_tell(self, now: float) -> int:
        """How many refused messages to tell the sender of at `now`; 0 when it was told a moment ago."""
        if now - self._told < TELL_EVERY:
            return 0
        count, self._refused, self._told = self._refused, 0, now
        return count


class Rates:
    """One bucket for each participant, whatever way its messages come."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def of(self, space: str, participant: str, now: float) -> Bucket:
        """The participant's bucket; a full one at the first call."""
        key = (space, participant)
        if key not in self._buckets:
            self._buckets[key] = Bucket(self._limits, now)
        return self._buckets[key]
