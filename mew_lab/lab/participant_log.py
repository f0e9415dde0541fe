"""What does a participant see of a space that runs elsewhere?  Turns what arrives into records for the log.

Verdicts and refusals of others are not among it: the gateway tells those to nobody else. A token that an invitation
brought is left out: the log holds the placeholder that stands in the gateway's own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.sdk.client import MEWClient
from mew_lab.space.events import TOKEN_PLACEHOLDER, Record

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
        raw = _without_token(envelope)
        observe(Record(next(numbers), clock(), "received", space, envelope.sender, via="websocket", raw=raw))

    client.on_message(take)


def _without_token(envelope: Envelope) -> str:
    if envelope.kind != "space/invite-ack" or "token" not in envelope.payload:
        return envelope.raw
    payload = {**envelope.payload, "token": TOKEN_PLACEHOLDER}
    return compact({**envelope.members, "payload": payload})
