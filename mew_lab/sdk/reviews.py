"""Keeps what other reviewers say of proposals, and judges whether enough of them have said yes.

A participant may tell in its status which proposals a person has before her eyes, and to which she has said yes:
`x-review: {"open": [ids], "yes": {id: digest}}`. The digest is that of what she was shown, so a yes to an edit, or to
another proposal under the same id, is none to this one. Each such member takes the place of the one before; a status
without it changes nothing. What a participant said falls when its connection leaves; what comes from none that is
present, such as by HTTP alone, says nothing, for it would never fall.

A `Quorum` names the participants whose yes counts. An executor that has one refuses every call for which too few of them
say yes at that moment, by the sender's own right too, and uses nothing up. A request is no yes: rules and scripts send
requests. Nor is a yes of the proposer, who asked for the call.

Spec: ruling R39.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.ledger.calls import QUORUM_MISSING, RPC_MEMBERS, Proposal, shown
from mew_lab.ledger.options import chosen_option, without_choice
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import member
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import Envelope, digest
from mew_lab.protocol.payloads.controls import ParticipantStatus
from mew_lab.protocol.payloads.system import SystemPresence
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.quorum import Quorum
from mew_lab.sdk.signal import Signal
from mew_lab.sdk.tools import RpcError

__all__ = ["MAX_IDS", "REVIEW", "Reviews", "judge_quorum"]

REVIEW = "x-review"  # a member of a status
MAX_IDS = 32  # ids of one status, in `open` and in `yes`
MAX_ID = 256  # characters of such an id
MAX_REVIEWERS = 1000  # connections whose last review is kept
NOT_EXECUTED = -32001


class Review(NamedTuple):
    """What one connection says: the proposals before its person's eyes, and those that she approves, by digest."""

    open: frozenset[str] = frozenset()
    yes: Mapping[str, str] = {}


class Reviews:
    """The last review of each other connection.

    `changed` is called with the ids of the proposals that a review began or ceased to name. `logical` maps the id of a
    connection to the name of its participant, `present` says of such an id whether it is connected.
    """

    def __init__(
        self,
        *,
        present: Callable[[str], bool],
        logical: Callable[[str], str] = str,
        on_fault: Callable[[Exception], object] = lambda fault: None,
    ) -> None:
        self._present = present
        self._logical = logical
        self._reviews: BoundedDict[str, Review] = BoundedDict(MAX_REVIEWERS, refresh=True)
        self.changed: Signal[frozenset[str]] = Signal(on_fault=on_fault)

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handlers of statuses and of the presence of others."""
        dispatcher.on(ParticipantStatus, self._note_status)
        dispatcher.on(SystemPresence, self._note_presence)

    def name(self, id: str) -> str:
        """The participant that an id means."""
        return self._logical(id)

    def say_yes(self, proposal: str, digest: str) -> frozenset[str]:
        """The participants that approve a proposal with exactly that digest, each once; nobody for an empty one."""
        return frozenset(
            self._logical(sender)
            for sender, review in tuple(self._reviews.items())
            if digest
            and proposal in review.yes
            and hmac.compare_digest(review.yes[proposal].encode(), digest.encode())
        )

    def approvals(self, proposal: str) -> dict[str, str]:
        """The participants that approve a proposal in some form, each with the digest of that form."""
        reviews = tuple(self._reviews.items())
        return {
            self._logical(sender): review.yes[proposal]
            for sender, review in reviews
            if proposal in review.yes
        }

    def look_at(self, proposal: str) -> frozenset[str]:
        """The participants that have a proposal before their eyes."""
        reviews = tuple(self._reviews.items())
        return frozenset(self._logical(sender) for sender, review in reviews if proposal in review.open)

    def lose(self) -> None:
        """Forgets all, because the connection ended: what was said meanwhile was missed."""
        ids = frozenset[str]().union(*(_ids(review) for review in self._reviews.values()))
        self._reviews.clear()
        self._tell(ids)

    def _note_status(self, envelope: Envelope, payload: ParticipantStatus) -> None:
        told = envelope.payload.get(REVIEW)
        if isinstance(told, dict) and self._present(envelope.sender):
            self._put(envelope.sender, _read(told))

    def _note_presence(self, envelope: Envelope, payload: SystemPresence) -> None:
        if payload.event == "leave" and payload.participant:
            self._put(payload.participant.id, Review())

    def _put(self, sender: str, review: Review) -> None:
        before = self._reviews.pop(sender, Review())
        if review != Review():
            self._reviews[sender] = review
        said = {id for id in {*before.yes, *review.yes} if before.yes.get(id) != review.yes.get(id)}
        self._tell(frozenset(said | (before.open ^ review.open)))

    def _tell(self, ids: frozenset[str]) -> None:
        if ids:
            self.changed(ids)


def _ids(review: Review) -> frozenset[str]:
    return review.open | frozenset(review.yes)


def _read(told: Mapping[str, Any]) -> Review:
    ids, yes = told.get("open"), told.get("yes")
    listed = ids[:MAX_IDS] if isinstance(ids, list) else []
    stated = islice(yes.items(), MAX_IDS) if isinstance(yes, dict) else ()
    return Review(
        frozenset(id for id in listed if isinstance(id, str) and len(id) <= MAX_ID),
        {
            id: value
            for id, value in stated
            if len(id) <= MAX_ID and isinstance(value, str) and len(value) == 64 and value.isascii()
        },
    )


def judge_quorum(
    quorum: Quorum,
    reviews: Reviews,
    request: Envelope,
    proposals: Sequence[Proposal],
    *,
    unseen: bool = False,
) -> RpcError | None:
    """The refusal of a request for which too few deciders have said yes; None where enough have.

    Args:
        proposals: Those that it fulfils; none where it is sent by its sender's own right.
        unseen: Whether it may also fulfil one that was not seen here.
    """
    why = "nobody has seen that proposal here since this executor joined; propose it again" if unseen else ""
    if not proposals and not unseen:
        why = "a call by its sender's own right has no yes of anybody; propose it"
    missing: dict[str, None] = {}
    for proposal in proposals:
        proposer = reviews.name(proposal.proposer)
        yes = frozenset[str]()
        fault = _find_fault(proposal)
        if not fault:
            yes = reviews.say_yes(proposal.id, _digest_of(proposal, request))
            fault = quorum.describe_missing(yes, proposer=proposer)
        if fault:
            of = f"for proposal {one_line(proposal.id, 80)}, " if len(proposals) > 1 else ""
            why = why or f"{of}{fault}"
            missing |= dict.fromkeys(quorum.find_missing(yes, proposer=proposer))
    if not why:
        return None
    named = [*missing] if proposals else [*quorum.deciders]
    data = {"code": QUORUM_MISSING, "missing": named, "count": quorum.count, "deciders": [*quorum.deciders]}
    return RpcError(NOT_EXECUTED, f"Not executed, and nothing is used up: {why}", data=data)


def _find_fault(proposal: Proposal) -> str:
    """Why no yes to a proposal can count; empty where it can."""
    if not proposal.to:  # the digest does not name the target that a decider chose
        return "it names no target, so nobody could say yes to one; propose it again with its target"
    if proposal.anew:  # a yes to the earlier one may still be on its way
        return "its id was used before, for another proposal; propose it under a new one"
    return ""


def _digest_of(proposal: Proposal, request: Envelope) -> str:
    """The digest that a person was shown of exactly this request, as an edit where it differs from the proposal.

    Empty where it is no approval of that proposal, byte for byte.
    """
    try:
        before = shown(proposal.envelope)
        after = _without_rpc_members(shown(request)["payload"])
        asked = proposal.permission
        if asked is not None and asked.default is not None and chosen_option(asked, after) == asked.default:
            after = without_choice(asked, after)  # a yes without an option means this one (R41)
        proposed = _without_rpc_members(before["payload"])
        if are_equal(after, proposed):
            return proposal.digest
        params = after.get("params")
        if not isinstance(params, dict) or member(params, "name") != member(proposed.get("params"), "name"):
            return ""
        if not are_equal({**after, "params": None}, {**proposed, "params": None}):
            return ""
        return digest({**before, "payload": {**before["payload"], "params": params}})
    except MewError:  # its text can be read in two ways
        return ""


def _without_rpc_members(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in RPC_MEMBERS}
