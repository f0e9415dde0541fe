"""Follows the calls that run in a space, with their progress, for a person who may want to cancel one.

Only the participants that a call was addressed to are believed about its progress. What is followed is the ledger of the
person, so every view tells the same.

Spec: §3.1, MCP "Progress", "Cancellation"; rulings R17, R35.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Literal, NamedTuple

from mew_lab.lab.decisions.cards import answer_of
from mew_lab.ledger.calls import MAX_CALLS, Proposal, Request, method_of, tool_of, unasked
from mew_lab.ledger.unknown_calls import has_effect
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import middle
from mew_lab.sdk.correlations import cancellation_of
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.progress import Progress, read_progress, token_of
from mew_lab.sdk.signal import Signal

__all__ = ["CallEnd", "RunningCall", "RunningCalls", "concerns", "fulfilled_by", "may_cancel"]

MOST = 50  # calls that are told at once
MAX_KEPT = 1000  # reports of progress
TELLING = ("mcp/request", "mcp/response", "system/presence", "system/error")


class RunningCall(NamedTuple):
    """A call that runs.

    Attributes:
        id: The id of its request, by which it is cancelled.
        text: Its requester, where that is another, and its tool.
        since: When its request came; epoch, seconds.
        progress: What its target reported last; None before that.
        may_cancel: Whether the person of the lab may cancel it.
        about: The ids of the request, and of the proposals that it names.
        fulfils: The ids of the proposals that it carries out.
    """

    id: str
    text: str
    since: float
    progress: Progress | None
    may_cancel: bool
    about: frozenset[str]
    fulfils: tuple[str, ...] = ()


class CallEnd(NamedTuple):
    """What became of a call that ran: `done`, `failed` or `unknown`, in words, and when; epoch, seconds."""

    how: Literal["done", "failed", "unknown"]
    text: str
    at: float


class RunningCalls:
    """The calls that run, as the participant of a person sees them."""

    def __init__(self, me: MEWParticipant, *, clock: Callable[[], float]) -> None:
        self._me = me
        self._clock = clock
        self._progress: BoundedDict[str, Progress] = BoundedDict(MAX_KEPT)
        self._since: BoundedDict[int, float] = BoundedDict(MAX_CALLS)  # by the places of the requests
        self.changed: Signal[None] = Signal(on_fault=me.client.report)
        me.client.on_message(self._observe, kinds=TELLING)
        me.rights.on_capabilities_changed(lambda _: self.changed(None))  # which cancels may be sent

    def all(self) -> list[RunningCall]:
        """The calls that run and may have an effect, the oldest first; any thread.

        Of very many, those that the person sent are told rather than others.
        """
        me = self._me.client.id
        told = sorted(self.open(), key=lambda request: request.sender != me)[:MOST]
        return [self._tell(request) for request in sorted(told, key=lambda request: request.seq)]

    def end_of(self, id: str) -> CallEnd:
        """What became of a call that `all` has told before, and tells no more; any thread."""
        request = self._me.ledger.calls.requests.get(id)
        response = None if request is None else request.response
        at = (response.t if response is not None else 0.0) or self._clock()
        if request is None or response is None or request.state == "unknown":
            return CallEnd("unknown", "ended; it is not known whether it took effect", at)
        what = tool_of(request.payload) or method_of(request.payload)
        answer = answer_of(response.envelope, method=request.method, what=what)
        if request.state == "refused" or answer.failed:
            return CallEnd("failed", f"failed: {answer.text}", at)
        return CallEnd("done", "ran", at)

    async def cancel(self, id: str) -> str:
        """Cancels the call of that request; returns one sentence, and raises as `cancel` of a participant."""
        target = ", ".join(middle(name, 40) for name in self._me.find_running(id).to[:3])
        await self._me.cancel(id)
        return (
            f"{target} was asked to stop. The outcome is its answer if one still comes, else it is not known."
        )

    def open(self) -> list[Request]:
        """The requests that run and may have an effect, the oldest first."""
        waiting = self._me.ledger.calls.requests.open()
        return [request for request in waiting if has_effect(request.method)]

    def _tell(self, request: Request) -> RunningCall:
        me, envelope = self._me.client.id, request.envelope
        tool = tool_of(request.payload) or method_of(request.payload)
        by = "" if request.sender == me else f"{middle(request.sender, 40)}: "
        return RunningCall(
            request.id,
            f"{by}{middle('/'.join([', '.join(request.to[:3]), tool]), 100)}",
            request.entry.t or self._since.get(request.seq) or self._clock(),
            self._progress.get(request.id),
            may_cancel(self._me, envelope),
            frozenset((request.id, *envelope.correlation_id)),
            tuple(proposal.id for proposal in fulfilled_by(self._me, envelope)),
        )

    def _observe(self, envelope: Envelope) -> None:
        request = self._me.ledger.calls.requests.get(envelope.id)
        if request is not None and request.seq not in self._since and has_effect(request.method):
            # Only a gateway knows when a request came to it, so its time here is kept.
            self._since[request.seq] = self._clock()
        if envelope.kind == "mcp/request" and (read := read_progress(envelope.payload)) is not None:
            self._take_progress(envelope, *read)
        self.changed(None)

    def _take_progress(self, report: Envelope, token: object, progress: Progress) -> None:
        requests = self._me.ledger.calls.requests
        named = [request for id in report.correlation_id if (request := requests.get(id)) is not None]
        if not named and type(token) in (int, str):  # of other peers, that correlate to nothing
            calls = self.open()[:MOST]
            asking = [one for one in calls if one.sender in report.to or not report.to]
            named = [one for one in asking if token_of(one.payload.get("params")) == token]
        for request in named:
            if request.state == "waiting" and not unasked(report.sender, request.to):
                self._progress[request.id] = progress


def may_cancel(me: MEWParticipant, request: Envelope) -> bool:
    """Whether this participant may send a cancel that the target, where it is one of ours, heeds."""
    if not me.can_send(cancellation_of(request, "")):
        return False
    own = any(proposal.proposer == me.client.id for proposal in fulfilled_by(me, request))
    owns = all(me.can_send("space/kick", {"participant_id": name}) for name in request.to)
    return request.sender == me.client.id or own or owns


def fulfilled_by(me: MEWParticipant, request: Envelope) -> list[Proposal]:
    """The proposals that a request carries out, as this participant knows them."""
    named = (me.proposals.get(id) for id in request.correlation_id)
    return [proposal for proposal in named if proposal is not None and proposal.fulfilment == request.id]


def concerns(call: RunningCall, only: Set[str]) -> bool:
    """Whether a view of these ids alone shows a call; of none it shows all."""
    return not only or not only.isdisjoint(call.about)
