"""Tells on whose behalf a proposal is made: the chat message that it, or the reasoning that it belongs to, answers.

The proposer names the message; that the message was said, by whom and to whom, is what the human's own seat heard.

Spec: §3.5, threat 42.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from mew_lab.ledger.calls import Proposal
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import MAX_NAME
from mew_lab.protocol.visible import one_line

__all__ = ["Behalf"]

T = TypeVar("T")

MAX_KEPT = 2_000  # chat messages, and beginnings of reasoning
MAX_FROM_ONE = 500  # of one sender, so that nobody drives out the others
MAX_NAMED = 20  # ids that are looked up
SHOWN = 200
MOST_TOLD = 3


class _Said(NamedTuple):
    sender: str
    to: tuple[str, ...]
    text: str


class Behalf:
    """What was asked lately, and by whom."""

    def __init__(self) -> None:
        self._chats: dict[str, BoundedDict[str, _Said]] = {}
        self._reasons: dict[str, BoundedDict[str, tuple[str, ...]]] = {}

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""
        sender = envelope.sender
        if len(sender) > MAX_NAME or len(envelope.id) > MAX_NAME * 2:
            return
        if envelope.kind == "chat" and isinstance(text := envelope.payload.get("text"), str):
            said = _Said(sender, envelope.to[:MAX_NAMED], one_line(text, SHOWN))
            _keep(self._chats, sender, envelope.id, said)
        elif envelope.kind == "reasoning/start":
            _keep(self._reasons, sender, envelope.id, envelope.correlation_id[:MAX_NAMED])

    def of(self, proposal: Proposal) -> str:
        """Whose messages asked for the proposal, as one line; empty where it names none that was heard."""
        own: Mapping[str, tuple[str, ...]] = self._reasons.get(proposal.proposer, {})
        found: dict[str, None] = {}
        for id in proposal.envelope.correlation_id[:MAX_NAMED]:
            for about in (id, *own.get(id, ())):
                said = next((chats[about] for chats in self._chats.values() if about in chats), None)
                if said is None or said.sender == proposal.proposer:
                    continue
                who = one_line(said.sender, 60)
                if said.to and proposal.proposer not in said.to:
                    found[
                        f"refers to what {who} said to {one_line(', '.join(said.to), 60)}: “{said.text}”"
                    ] = None
                else:
                    found[f"asked by {who}: “{said.text}”"] = None
        more = f"; and {len(found) - MOST_TOLD} more messages" if len(found) > MOST_TOLD else ""
        return "; ".join(tuple(found)[:MOST_TOLD]) + more


def _keep(kept: dict[str, BoundedDict[str, T]], sender: str, id: str, value: T) -> None:
    """Keeps it; where there are too many, the sender with the most loses its oldest."""
    kept.setdefault(sender, BoundedDict(MAX_FROM_ONE))[id] = value
    while sum(map(len, kept.values())) > MAX_KEPT:
        most = max(kept, key=lambda one: len(kept[one]))
        kept[most].popitem(last=False)
        if not kept[most]:
            del kept[most]
