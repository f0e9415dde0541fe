"""Describes the outcome of a proposal: the answers to the request that fulfilled it, and to the requests of this human.

The ledger of calls accepts one request as the fulfilment of a proposal (R17). A request of this human may cross with a
withdraw, or with a request of another participant. It then fulfils nothing there, and executors of ours refuse it. Its
id is kept here, because a foreign executor may have carried it out (R32). The answers come from the ledger; their text
stays here when the ledger has forgotten the request.

Spec: §3.2.1, §3.3.1, rulings R17, R18, R32.
"""

from __future__ import annotations

from mew_lab.lab.decisions.cards import Answer, Card, answer_of
from mew_lab.ledger.calls import CallIndex, Proposal, Request, error_text, is_quorum_missing
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import SENT_UNKNOWN
from mew_lab.protocol.visible import middle, one_line

__all__ = ["Outcomes"]

MAX_SENT = 3  # requests of this human that are kept for one proposal


class Outcomes:
    """The requests for each kept card; `forget` removes those of one card.

    `requests` are those of the ledger, which has observed a message before it comes here.
    """

    def __init__(self, requests: CallIndex[Request]) -> None:
        self._requests = requests
        self._sent: dict[
            str, dict[str, str]
        ] = {}  # proposal -> requests of this human -> what became of them
        self._fulfilments: dict[str, tuple[str, str]] = {}  # proposal -> its fulfilment, and the answers
        self._failed: set[str] = set()  # proposals whose fulfilment was answered with a failure
        self._cards: dict[str, set[str]] = {}  # request -> proposals

    def note_request(self, card: Card, request: Envelope, *, mine: bool, believed: bool) -> None:
        """Records a request for a proposal: one of this human's, or the one that fulfilled it."""
        sent = self._sent.get(card.id, {})
        mine = mine and (request.id in sent or len(sent) < MAX_SENT)
        if mine:
            self._sent.setdefault(card.id, {}).setdefault(request.id, "")
        if believed:
            self._fulfilments[card.id] = (request.id, "")
            self._failed.discard(card.id)
        if mine or believed:
            self._cards.setdefault(request.id, set()).add(card.id)

    def find_proposals(self, response: Envelope) -> list[str]:
        """The proposals whose requests a response answers."""
        return [
            id for request in dict.fromkeys(response.correlation_id) for id in self._cards.get(request, ())
        ]

    def last_sent(self, proposal: str) -> str:
        """The id of the last request that this human sent for the proposal; empty when there is none."""
        return next(reversed(self._sent.get(proposal, {})), "")

    def describe(self, card: Card, proposal: Proposal, *, me: str | None) -> str:
        """The outcome of the proposal as one line; empty while there is none."""
        parts = []
        id, text = self._fulfilments.get(card.id, ("", ""))
        if id and id == proposal.fulfilment:
            request = self._requests.get(id)
            if request is not None and request.entry is proposal.request:
                text = _tell_answers(request, card)
                if any(_read(answer, card).failed for answer in request.answers):
                    self._failed.add(card.id)
                else:  # a true answer may come after one that did not tell
                    self._failed.discard(card.id)
            elif proposal.response is not None and (not text or proposal.state == "answered"):
                text = _tell_answer(proposal.response, card)
                if _read(proposal.response, card).failed:
                    self._failed.add(card.id)
            self._fulfilments[card.id] = (id, text)
            if proposal.state == "unknown" and proposal.response is None:
                text = f"no answer came. {SENT_UNKNOWN}"
            parts.append(text)
            if proposal.resolution is not None:
                parts.append(f"found out: it {one_line(str(proposal.resolution), 160)}")
        sent = self._sent.get(card.id, {})
        for id in sent:
            if id == proposal.fulfilment:
                continue
            request = self._requests.get(id)
            if request is not None and request.sender == me and card.id in request.entry.correlation_id:
                none = f"no answer came. {SENT_UNKNOWN}" if request.state == "unknown" else "not answered yet"
                answers = _tell_answers(request, card, named=True) or none
                executed = f"request {middle(id, 40)} was sent as you all the same: {answers}"
                sent[id] = _tell_late(request) if request.state == "refused" else executed
            parts.append(sent[id] or f"request {middle(id, 40)} was sent as you; its answer is not known")
        return "; ".join(filter(None, parts))

    def has_failed(self, proposal: str) -> bool:
        """Whether the proposal was fulfilled and a participant answered that the call failed."""
        return proposal in self._failed

    def forget(self, proposal: str) -> None:
        """Discards the requests for a proposal whose card is dropped."""
        self._failed.discard(proposal)
        fulfilment, _ = self._fulfilments.pop(proposal, ("", ""))
        for request in (*self._sent.pop(proposal, ()), fulfilment):
            proposals = self._cards.get(request, set())
            proposals.discard(proposal)
            if not proposals:
                self._cards.pop(request, None)


def _tell_late(request: Request) -> str:
    """Why a request was not executed; where a quorum is missing, in the words of its executor."""
    answer = request.response
    if answer is not None and is_quorum_missing(answer):
        return f"{one_line(answer.sender, 64)} refused your request: {one_line(error_text(answer), 300)}"
    return f"your request: {request.late}; not executed"


def _tell_answers(request: Request, card: Card, *, named: bool = False) -> str:
    """The answers with their senders.

    A sender is omitted where only one participant could answer and it is not the proposer; an agent that asks for a
    permission answers itself (R41).
    """
    by_itself = card.permission is None and card.proposer in request.to
    named = named or len(set(request.to)) > 1 or by_itself
    parts = []
    for answer in request.answers:
        own = ", who proposed it" if by_itself and answer.sender == card.proposer else ""
        text = _tell_answer(answer, card)
        parts.append(f"{one_line(answer.sender, 64)}{own}: {text}" if named else text)
    claims = {claim.by for claim in request.claims if claim.kind == "mcp/response" and claim.by in request.to}
    if more := claims - {answer.sender for answer in request.answers}:
        parts.append(f"{len(more)} more answered")
    return "; ".join(parts)


def _tell_answer(answer: Entry, card: Card) -> str:
    return _read(answer, card).text


def _read(answer: Entry, card: Card) -> Answer:
    return answer_of(answer.envelope, method=card.method, what=card.tool or card.method)
