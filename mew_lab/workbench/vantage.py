"""What does a participant see of a space that runs elsewhere?  Turns what arrives into records for the log.

Verdicts and refusals of others are not among it: the gateway tells those to nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient
from mew_lab.space.events import Record

__all__ = ["watch"]


def watch(
    client: MEWClient,
    *,
    space: str,
    observe: Callable[[Record], None],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Hands every envelope that the client receives to `observe`."""
    numbers = count(1)

    def take(envelope: Envelope) -> None:
        observe(
            Record(
                next(numbers), clock(), "received", space, envelope.sender, via="websocket", raw=envelope.raw
            )
        )

    client.on_message(take)
