"""Keeps what became of the requests that fulfilled a proposal, or that this human sent for one: every answer, in words.

The ledger of calls believes one request and one answer (R17). A request of this human that crossed with a withdraw, or
with a request of another, is no outcome there, and was sent all the same: here it is kept with its answers.

Spec: §3.2.1, §3.3.1, rulings R17, R18.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mew_lab.lab.decisions.cards import Card, answer_of
from mew_lab.ledger.calls import Proposal
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import middle, one_line

__all__ = ["Outcomes"]

MAX_ANSWERS = 5  # kept of one request
MAX_SENT = 3  # requests of this human's kept of one proposal


@dataclass(slots=True)
class _Request:
    id: str
    to: tuple[str, ...]
    answers: dict[str, str] = field(default_factory=dict)  # who -> what, as one line
    more: int = 0


class Outcomes:
    """The requests of the cards that are kept; `forget` ends what is held of one."""

    def __init__(self) -> None:
        self._sent: dict[str, dict[str, _Request]] = {}  # proposal -> requests of this human's
        self._believed: dict[str, _Request] = {}  # proposal -> the request that fulfilled it
        self._cards: dict[str, set[str]] = {}  # request -> proposals

    def requested(self, card: Card, request: Envelope, *, mine: bool, believed: bool) -> None:
        """A request for a proposal went through the space: one of this human's, or the one that fulfilled it."""
        sent = self._sent.get(card.id, {})
        known = sent.get(request.id) or _Request(request.id, request.to)
        if mine and (request.id in sent or len(sent) < MAX_SENT):
            self._sent.setdefault(card.id, {})[request.id] = known
        if believed:
            self._believed[card.id] = self._sent.get(card.id, {}).get(request.id, known)
        if (mine and request.id in self._sent.get(card.id, {})) or believed:
            self._cards.setdefault(request.id, set()).add(card.id)

    def answered(self, response: Envelope, cards: dict[str, Card]) -> list[str]:
        """The proposals that an answer is about, once it is noted; `cards` are those that are kept."""
        about: list[str] = []
        for id in dict.fromkeys(response.correlation_id):
            for proposal in self._cards.get(id, ()):
                known = [self._sent.get(proposal, {}).get(id), self._believed.get(proposal)]
                request = next((one for one in known if one is not None and one.id == id), None)
                if request is not None and proposal in cards:
                    self._take(request, response, cards[proposal])
                    about.append(proposal)
        return about

    def _take(self, request: _Request, response: Envelope, card: Card) -> None:
        if response.sender not in request.to or response.sender in request.answers:
            return
        if len(request.answers) >= MAX_ANSWERS:
            request.more += 1
            return
        request.answers[response.sender] = answer_of(
            response, method=card.method, what=card.tool or card.method
        )

    def sent(self, proposal: str) -> str:
        """The id of the last request that this human sent for it; empty when there is none."""
        return next(reversed(self._sent.get(proposal, {})), "")

    def said(self, card: Card, proposal: Proposal) -> str:
        """What came of it, as one line; empty while there is nothing to say."""
        parts = []
        believed = self._believed.get(card.id)
        if believed is not None and believed.id == proposal.fulfilment:
            parts.append(_answers(believed, card))
        for request in self._sent.get(card.id, {}).values():
            if request.id != proposal.fulfilment:
                answers = _answers(request, card, named=True) or "not answered yet"
                parts.append(f"request {middle(request.id, 40)} was sent as you all the same: {answers}")
        return "; ".join(filter(None, parts))

    def forget(self, proposal: str) -> None:
        """Its card is not kept any more."""
        for request in (
            *self._sent.pop(proposal, {}).values(),
            *filter(None, [self._believed.pop(proposal, None)]),
        ):
            about = self._cards.get(request.id, set())
            about.discard(proposal)
            if not about:
                self._cards.pop(request.id, None)


def _answers(request: _Request, card: Card, *, named: bool = False) -> str:
    """Who answered what; the name alone is left out where only one could, and it is not the proposer."""
    named = named or len(set(request.to)) > 1 or card.proposer in request.to
    parts = []
    for who, text in request.answers.items():
        own = ", who proposed it" if who == card.proposer else ""
        parts.append(f"{one_line(who, 64)}{own}: {text}" if named else text)
    if request.more:
        parts.append(f"{request.more} more answered")
    return "; ".join(parts)
