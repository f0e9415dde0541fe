"""Settles which agent takes a message to nobody: the first whose acknowledgement the gateway puts in order.

An agent that would answer says so (`chat/acknowledge`, status `processing`) and goes on only if no other said it
before: all see one stream in one order, so no two take it. Spec: §3.4.1, SDK "Implementation Notes" of chat.
"""

from __future__ import annotations

from mew_lab.errors import MewError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["PROCESSING", "Claims"]

PROCESSING = "processing"
MAX_REMEMBERED = 10_000


class Claims:
    """Who was the first to take on which message; the newest messages alone."""

    def __init__(self) -> None:
        self._first: BoundedDict[str, str] = BoundedDict(MAX_REMEMBERED)

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""
        says_so = envelope.kind == "chat/acknowledge" and envelope.payload.get("status") == PROCESSING
        if not says_so and envelope.kind != "reasoning/start":
            return
        for id in envelope.correlation_id:
            self._first.setdefault(id, envelope.sender)

    def taken(self, id: str, *, by_others_than: str) -> bool:
        """Whether somebody else has taken it on."""
        return self._first.get(id, by_others_than) != by_others_than

    async def take(self, participant: MEWParticipant, message: Envelope) -> bool:
        """Says that `participant` takes it on; whether it was the first. Who may not say so, does so unsaid."""
        payload = {"status": PROCESSING}
        if participant.can_send("chat/acknowledge", payload, message.sender):
            try:
                await participant.saying.say_accepted(
                    "chat/acknowledge", payload, to=message.sender, about=message.id
                )
            except MewError:  # refused, or lost: nobody heard it
                return False
        return not self.taken(message.id, by_others_than=participant.client.id)
