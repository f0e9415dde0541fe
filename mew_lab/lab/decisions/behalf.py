"""Tells on whose behalf a proposal is made: the chat message that it, or the reasoning that it belongs to, answers.

The proposer names the message; that the message was said, by whom and to whom, is what the ledger of the human's own
seat knows.

Spec: §3.5, threat 42.
"""

from __future__ import annotations

from mew_lab.ledger.calls import Proposal
from mew_lab.ledger.chats import ChatLedger
from mew_lab.ledger.reasoning import ReasoningLedger
from mew_lab.protocol.visible import one_line

__all__ = ["Behalf"]

MAX_NAMED = 20  # ids that are looked up
MAX_ADDRESSEES = 20
MAX_TEXT = 200  # characters of a message
MAX_MESSAGES = 3


class Behalf:
    """Finds the messages that asked for a proposal."""

    def __init__(self, chats: ChatLedger, reasoning: ReasoningLedger) -> None:
        self._chats = chats
        self._reasoning = reasoning

    def of(self, proposal: Proposal) -> str:
        """Whose messages asked for the proposal, as one line; empty where it names none that is known."""
        lines: dict[str, None] = {}
        for id in proposal.envelope.correlation_id[:MAX_NAMED]:
            sequence = self._reasoning.get(id)
            own = sequence.about if sequence and sequence.owner == proposal.proposer else ()
            for about in (id, *own):
                message = self._chats.get(about)
                if message is None or message.sender == proposal.proposer:
                    continue
                who, text = one_line(message.sender, 60), one_line(message.text, MAX_TEXT)
                if message.to and proposal.proposer not in message.to:
                    whom = one_line(", ".join(message.to[:MAX_ADDRESSEES]), 60)
                    lines[f"refers to what {who} said to {whom}: “{text}”"] = None
                else:
                    lines[f"asked by {who}: “{text}”"] = None
        more = f"; and {len(lines) - MAX_MESSAGES} more messages" if len(lines) > MAX_MESSAGES else ""
        return "; ".join(tuple(lines)[:MAX_MESSAGES]) + more
