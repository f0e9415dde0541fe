"""The table of messages that await an answer: calls, questions in plain text, and messages that await acceptance.

How it works
------------
Every message of this participant that awaits something is one `Wait` in `Correlations`, under the id of its envelope.
Its class decides what answers it:

    AnswerWait     its own echo, where the gateway has nothing else to say; or the message of one kind that answers it,
                   such as participant/status of an addressee, or stream/open of the gateway
    RequestWait    the mcp/response of a participant that the request was addressed to
    ProposalWait   its state in the ledger of calls: answered, rejected, withdrawn
    ChatWait       the chat of an addressee, or its notice that none comes; it also ends when the reasoning about it is
                   cancelled

Only answers of addressees count, by the rule of the ledger (`ledger.calls.unasked`). The gateway may replace a logical
name in `to` by a runtime id; the echo of the message shows it.

Each wait ends exactly once and then leaves the table. It ends with its answer, a `system/error` that names it, the leave
or the shutdown of the last participant that could answer, the end of the connection (unless it is a proposal that still
stands), its timeout, or a withdrawal by its caller. Where others must know of the end, a message is sent: an
mcp/withdraw, a notifications/cancelled or a chat/cancel. The timeout of a request ends the wait alone: the call goes on
at its target, and its answer is recorded (R35). A cancelled call that runs ends with its answer where one still comes,
else it is unknown. A wait whose error says that it was withdrawn ends when the gateway has
accepted that message, or says why that is not so (`_take_back_first`).

Everything runs on one loop, on the reading task, so nothing is locked. A proposal without a timeout of its own waits for
people without a limit.

Spec: §3.1, §3.2, §3.3, §3.4, §3.8.2, §3.9.3, §3.9.6, §3.10, rulings R1, R4, R16, R17, R18.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from mew_lab.errors import (
    ConnectionLost,
    LocalProtocolError,
    MewError,
    NoReply,
    OutcomeLost,
    OutcomeUnknown,
    ProposalRejected,
    ProposalWithdrawn,
    Refused,
    StillRunning,
    ToolFailed,
)
from mew_lab.ledger.calls import CallIndex, Change, Proposal, unasked
from mew_lab.ledger.members import GATEWAYS
from mew_lab.ledger.reasoning import ReasoningChange
from mew_lab.ledger.unknown_calls import has_effect
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import SENT_UNKNOWN, read_payload
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.payloads import KIND_OF
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.protocol.violations import refusal, require
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.progress import PROGRESS, read_progress, token_of
from mew_lab.sdk.results import result_of
from mew_lab.sdk.signal import run_later
from mew_lab.sdk.tools import CANCELLED

__all__ = ["ACCEPTED_WITHIN", "MAX_WAITS", "UNANSWERED", "Correlations", "cancellation_of"]

logger = logging.getLogger(__name__)
ACCEPTED_WITHIN = 10.0  # seconds for the gateway to echo or refuse a message
TAKEN_BACK_WITHIN = 2.0  # seconds for the gateway to accept a withdrawal, for whose end the caller waits
CANCELLED_WITHIN = 10.0  # seconds in which a target that was cancelled may still tell what it did
GRACE = 2.0  # seconds in which a participant whose reasoning was cancelled may still answer
MAX_REASON = 300  # characters of a peer's reason inside an error
MAX_WAITS = 10_000  # as many calls as the ledger holds; the end of one more could not be observed
# acknowledgements after which no answer comes
UNANSWERED = frozenset({"rate_limited", "declined", "dropped"})
# The state of a wait by the error that ends it.
_STATES: Mapping[type[NoReply], str] = {
    NoReply: "failed",
    OutcomeUnknown: "unknown",
    StillRunning: "running",
}
Model = TypeVar("Model", bound=Payload)
Result = TypeVar("Result")


class Wait(Call, ABC):
    """One message of this participant that awaits an answer.

    Attributes:
        answers: The kinds of message that may answer it. The table passes only these, and only from addressees.
        accepted: Whether its echo came.
    """

    answers: frozenset[str] = frozenset()

    def __init__(self, client: MEWClient, envelope: Envelope, *, what: str, resilient: bool = False) -> None:
        client.check_loop()
        super().__init__(envelope, what=what, withdraw=_take_back, resilient=resilient)
        self.accepted = False
        self._client = client
        self._shut_down: dict[str, str] = {}  # an addressee -> the participant that shut it down
        self.reported_as: list[int | str] = []
        self.begin: Callable[[Wait, float], object] | None = None
        """Adds another wait to the table of this one; set by the table."""

    def echo(self, envelope: Envelope) -> None:
        """Records the echo: the gateway accepted the message; its `to` holds the ids that the space uses."""
        self.accepted = True
        self.asked = envelope.to

    def answer(self, envelope: Envelope) -> None:
        """Takes a message of one of the kinds `answers` from an addressee."""

    def leave(self) -> None:
        """Ends the wait if, after the leave of a participant or its shutdown, no addressee can answer."""

    def note_shutdown(self, names: Sequence[str], *, by: str) -> None:
        """Records that these participants were shut down: the gateway relays no answer of theirs any more (R14)."""
        silenced = [name for name in self.asked if name in names]
        self._shut_down.update(dict.fromkeys(silenced, by))
        if silenced:
            self.leave()

    def lose(self, error: MewError | None, *, final: bool) -> None:
        """Handles the end of the connection; `final` when no other follows."""
        self._end_lost(f"The connection ended before {self._awaited}", error)

    @abstractmethod
    def expire(self) -> None:
        """Ends the wait at its timeout."""

    async def take_back(self, reason: str) -> None:
        """Ends the wait because its caller withdraws it."""

    # --- for the subclasses ---

    @property
    def _awaited(self) -> str:
        """What has not happened yet, such as `git/git_log was answered`."""
        return f"{self.what} was answered"

    @property
    def present(self) -> bool:
        """Whether an addressee is in the space and was not shut down."""
        here = self._client.participants
        asked = [name for name in self.asked if name not in self._shut_down]
        return any(name in here or name == self._client.id for name in asked)

    @property
    def _end_of_addressees(self) -> str:
        """How the addressees came to be unable to answer, such as `git left space 'demo' before answering`."""
        names = ", ".join(self.asked)
        by = ", ".join(dict.fromkeys(one_line(by, 80) for by in self._shut_down.values()))
        if by:
            return f"{by} shut {names} down before it answered"
        return f"{names} left space {self._client.space!r} before answering"

    def _end_lost(self, message: str, error: MewError | None, *, state: str = "failed") -> None:
        self.fail(ConnectionLost(message, close_code=getattr(error, "close_code", None)), state=state)

    def _end_by(self, error: type[NoReply], message: str, *, state: str = "", by: str = "") -> None:
        """Ends it with such an error, in `state` or in that of the error (`_STATES`)."""
        fault = error(message, after_s=self.age, waiting_for=self.what)
        self.fail(fault, state=state or _STATES[error], by=by)

    def _post(self, draft: Mapping[str, Any]) -> str:
        """Posts a message that no caller awaits; returns why it was not posted, empty where it was."""
        kind, fitting = draft["kind"], self._client.fit(draft)
        if fitting is None:
            logger.debug("%s may not send %s, so it was not sent", self._client.id, kind)
            return f"{self._client.id} may not send {kind}"
        try:
            self._client.post(fitting)
        except (ConnectionLost, LocalProtocolError) as fault:
            logger.info("%s was not sent: %s", kind, fault)
            return f"its {kind} could not be sent"
        return ""

    def _take_back_first(self, draft: Mapping[str, Any], then: Callable[[str], None]) -> None:
        """Sends the message that takes this one back; calls `then` with the reason why it may still stand.

        The reason is empty where the gateway has accepted the message.
        """
        kind, fitting = draft["kind"], self._client.fit(draft)
        if fitting is None:
            then(f"{self._client.id} may not send {kind}, so it stays open")
            return
        echo = AnswerWait(self._client, self._client.complete(fitting), timeout=TAKEN_BACK_WITHIN)

        def end(result: asyncio.Future[Any]) -> None:
            fault = None if result.cancelled() else result.exception()
            if fault is None:
                then("")
            elif isinstance(fault, Refused):
                then(f"the gateway refused its {kind} ({fault.code}), so it stays open")
            else:
                then(f"the gateway did not confirm its {kind}, so it may still be open")

        echo.when_ended(end)
        try:
            assert self.begin is not None
            self.begin(echo, TAKEN_BACK_WITHIN)
        except (ConnectionLost, LocalProtocolError) as fault:
            echo.fail(fault)
            logger.info("%s was not sent: %s", kind, fault)


class AnswerWait(Wait):
    """Awaits the acceptance of the message by the gateway, and then its answer, where it has one.

    Its result is the echo, or what `read` makes of the answer.

    Args:
        timeout: Seconds until the message must be accepted, and answered.
        answer: The type of the answer; None where the acceptance is all.
        read: Makes the result from the envelope and the payload of an answer; None means that it does not answer this.
        by_gateway: Whether the gateway answers, and no addressee.

    Spec: §3.8.2, §3.9.3, §3.9.6, §3.10, §5.4, rulings R1, R16.
    """

    def __init__(
        self,
        client: MEWClient,
        envelope: Envelope,
        *,
        timeout: float,
        answer: type[Payload] | None = None,
        read: Callable[[Envelope, Payload], object] = lambda envelope, payload: (envelope, payload),
        by_gateway: bool = False,
    ) -> None:
        super().__init__(client, envelope, what=envelope.kind)
        self.timeout = timeout
        self.answers = frozenset() if answer is None else frozenset({KIND_OF[answer]})
        self._read = read
        self._by_gateway = by_gateway
        # An addressee may take its time; the gateway says at once whether it takes the message.
        of_addressee = answer is not None and not by_gateway
        self.accepted_within = min(timeout, ACCEPTED_WITHIN) if of_addressee else timeout
        if by_gateway:
            self.asked = tuple(GATEWAYS)

    def echo(self, envelope: Envelope) -> None:
        self.accepted = True
        if not self.answers:
            self.finish(envelope, by=GATEWAY)
            return
        self.expire_after(self.timeout - self.age, self.expire)
        if not self._by_gateway:
            self.asked = envelope.to
            self.leave()

    def answer(self, envelope: Envelope) -> None:
        result = self._read(envelope, read_payload(envelope))
        if result is not None:
            self.finish(result, by=envelope.sender)

    def leave(self) -> None:
        if self.accepted and not self._by_gateway and not self.present:  # the gateway never leaves
            names = ", ".join(sorted(self.asked))
            message = f"Nobody can answer {self.kind}: no participant {names} is in space {self._client.space!r} now"
            self.fail(NoReply(message, after_s=0.0, waiting_for=names))

    def expire(self) -> None:
        within, who = self.timeout, "the gateway"
        if not self.accepted:
            within = self.accepted_within
            message = f"The gateway neither accepted nor refused {self._named} within {within:g} s"
        elif self._by_gateway:
            [answer] = self.answers
            message = f"The gateway accepted {self._named}, but no {answer} came within {within:g} s"
        else:
            who = ", ".join(self.to)
            message = (
                f"{who} did not answer {self.kind} within {within:g} s; it may be busy, or not support it"
            )
        self.fail(NoReply(message, after_s=within, waiting_for=who))

    @property
    def _awaited(self) -> str:
        if not self.accepted:
            return f"{self._named} was accepted"
        return f"the gateway answered {self.kind}" if self._by_gateway else f"{self.kind} was answered"

    @property
    def _named(self) -> str:
        return f"{self.kind} of {self._client.id!r}"


class ChatWait(Wait):
    """Awaits the chat that answers a question in plain text.

    It ends without an answer when the last addressee leaves or declines (`UNANSWERED`), or `GRACE` seconds after the
    reasoning about it was cancelled. Its withdrawal is sent as chat/cancel.

    Spec: §3.4, §3.4.1, §3.4.2, §3.5.1, §3.5.5.
    """

    answers = frozenset({"chat", "chat/acknowledge"})

    def __init__(self, client: MEWClient, envelope: Envelope, *, what: str) -> None:
        super().__init__(client, envelope, what=what)
        self._declined: set[str] = set()

    def echo(self, envelope: Envelope) -> None:
        super().echo(envelope)
        self._end_if_absent("is not in")

    def answer(self, envelope: Envelope) -> None:
        if envelope.kind == "chat":
            self.finish(str(envelope.payload.get("text", "")), by=envelope.sender)
        elif (status := envelope.payload.get("status")) in UNANSWERED:
            self._declined.add(envelope.sender)
            if self._declined >= set(self.asked):
                message = f"{', '.join(self.asked)} will not answer {self.what}: {status}; ask again later"
                self._end_by(NoReply, message, by=envelope.sender)

    def cancel(self, *, by: str, reason: str) -> None:
        """Limits the wait to `GRACE` seconds, because the reasoning about it was cancelled."""
        if self.left <= GRACE:  # else repeated cancels would put off the end
            return
        why = f" ({reason})" if reason else ""
        message = f"{one_line(by, 80)} cancelled the reasoning about {self.what}{why}, and no answer came"
        self.expire_after(GRACE, lambda: self._end_by(NoReply, message, by=by))

    def leave(self) -> None:
        if self._shut_down and self.accepted and not self.present:
            self._end_by(NoReply, f"{self._end_of_addressees} {self.what}")
        self._end_if_absent("left before answering, and no other addressee is in")

    def expire(self) -> None:
        names, waited = ", ".join(self.asked), self.age

        def end(why: str) -> None:
            so = f"the question was not withdrawn: {why}" if why else "the question was withdrawn"
            self._end_by(NoReply, f"{names} did not answer within {waited:.3g} s; {so}")

        self._take_back_first(self._cancellation("timeout"), end)

    async def take_back(self, reason: str) -> None:
        stated, ended = one_line(reason, 200), asyncio.get_running_loop().create_future()

        def end(why: str) -> None:
            if why:
                self._end_by(
                    NoReply, f"Stopped waiting for {self.what} ({stated}). It was not withdrawn: {why}"
                )
            else:
                message = f"The question was withdrawn ({stated})"
                self._end_by(NoReply, message, state="withdrawn", by=self._client.id)
            if not ended.done():
                ended.set_result(None)

        self._take_back_first(self._cancellation(reason), end)
        await ended

    def _end_if_absent(self, why: str) -> None:
        if self.accepted and not self.present:
            names, space = ", ".join(self.asked), self._client.space
            self._end_by(NoReply, f"{names} {why} space {space!r}: nobody can answer {self.what}")

    def _cancellation(self, reason: str) -> dict[str, Any]:
        about = {"to": self.to, "correlation_id": [self.id]}
        return {"kind": "chat/cancel", **about, "payload": {"reason": reason}}


class CallWait(Wait):
    """A request or a proposal that awaits its result."""

    def echo(self, envelope: Envelope) -> None:
        super().echo(envelope)
        if self.asked and not self.present:
            here = ", ".join(sorted(self._client.participants)) or "nobody else"
            fault = NoReply(
                f"Nobody can answer {self.what}: no participant {', '.join(self.asked)} is in space "
                f"{self._client.space!r} now. Present: {one_line(here, MAX_REASON)}",
                after_s=0.0,
                waiting_for=self.what,
            )
            self._end_unanswerable(fault)

    def leave(self) -> None:
        if not self.accepted or not self.executing or self.present:
            return
        how = f"{self._end_of_addressees} {self.what}"
        if len(set(self.asked)) == 1 and not self._shut_down:  # as the ledger has it (R35)
            self._end_by(OutcomeUnknown, f"{how}. {SENT_UNKNOWN}")
        else:
            self._end_by(NoReply, f"{how}; it may have run")

    def lose(self, error: MewError | None, *, final: bool) -> None:
        if not final and not self.executing:
            return  # an undecided proposal still stands in the space
        why = error or "the participant left the space"
        message = f"The connection ended before {self._awaited}: {why}"
        if not self.executing:
            message += ". It was not withdrawn, so it may be approved and run all the same"
            self._end_lost(message, error, state="running")
            return
        message += f". {SENT_UNKNOWN}" if self.accepted else ". It may have been sent, and it may have run"
        code = getattr(error, "close_code", None)
        lost = OutcomeLost(message, after_s=self.age, waiting_for=self.what, close_code=code)
        self.fail(lost, state="unknown")

    @property
    def executing(self) -> bool:
        """Whether it may be running, so that it cannot be withdrawn."""
        return True

    def conclude(self, response: Envelope, *, by: str) -> None:
        """Ends it with the result or the error of a response."""
        try:
            result = result_of(response.payload, method=str(self.payload.get("method")), what=self.what)
        except ToolFailed as fault:
            self.fail(fault, by=by)
        except OutcomeUnknown as fault:
            self.fail(fault, state="unknown", by=by)
        else:
            self.finish(result, by=by)

    def _end_running(self, message: str) -> None:
        """Ends the wait, and not the call."""
        self._end_by(StillRunning, f"{message}. It was sent and may still run")

    def _cancel(self, request: Envelope, reason: str, what: str) -> None:
        """Cancels the request that runs; it ends with the answer where one still comes, else as unknown.

        Where the cancel cannot be sent, the call goes on, and the wait for it ends.
        """
        if why := self._post(cancellation_of(request, reason)):
            self._stop_waiting(reason, f"{what}, and was not cancelled: {why}")
        else:
            self.limit_after_cancel(reason)

    def limit_after_cancel(self, reason: str) -> None:
        """Ends the wait some seconds after its request was cancelled, where no answer comes until then."""
        stated = one_line(reason, MAX_REASON)
        message = (
            f"{self.what} was cancelled after {self.age:.3g} s ({stated}), and no answer came. {SENT_UNKNOWN}"
        )
        if self.left > CANCELLED_WITHIN:  # else a second cancel would put off the end
            self.expire_after(CANCELLED_WITHIN, lambda: self._end_by(OutcomeUnknown, message))

    def _end_unanswerable(self, fault: NoReply) -> None:
        """Ends it because no addressee is there."""
        self.fail(fault)

    def _stop_waiting(self, reason: str, what: str) -> None:
        message = (
            f"Stopped waiting for {self.what} after {self.age:.3g} s ({one_line(reason, MAX_REASON)}). "
            f"{what}, so it may have been executed"
        )
        self._end_by(StillRunning, message, by=self._client.id)


class RequestWait(CallWait):
    """Awaits the mcp/response to a request. Spec: §3.1, ruling R17."""

    answers = frozenset({"mcp/response"})

    def answer(self, envelope: Envelope) -> None:
        self.conclude(envelope, by=envelope.sender)

    def expire(self) -> None:
        message = f"{', '.join(self.to)} did not answer {self.what} within {self.age:.3g} s"
        if self.accepted:
            self._end_running(message)
        else:
            self._end_by(NoReply, f"{message}; it may have run")

    async def take_back(self, reason: str) -> None:
        if has_effect(str(self.payload.get("method"))):
            self._cancel(self.envelope, reason, "It was a request")
        else:  # it is not answered, and there is nothing to know of it
            self.end_call(reason)

    def end_call(self, reason: str) -> None:
        self._post(cancellation_of(self.envelope, reason))
        self._stop_waiting(reason, "It was a request")


class ProposalWait(CallWait):
    """Awaits the answer to the fulfilment of a proposal, from the ledger. Spec: §3.2, §3.3, rulings R17, R18."""

    def __init__(
        self,
        client: MEWClient,
        envelope: Envelope,
        *,
        what: str,
        resilient: bool,
        proposals: CallIndex[Proposal],
    ) -> None:
        super().__init__(client, envelope, what=what, resilient=resilient)
        self._proposals = proposals
        self._gives_up = False  # what ends it then is told by `_give_up`
        self._end_if_running: Callable[[], None] | None = None

    @property
    def executing(self) -> bool:
        return self.state == "fulfilled"

    def lose(self, error: MewError | None, *, final: bool) -> None:
        # Else the wait for the withdrawal is lost too, and ends this one.
        if not self._gives_up or self.executing:
            super().lose(error, final=final)

    def follow(self, change: Change) -> None:
        """Applies a change of the proposal in the ledger of calls."""
        proposal = change.proposal
        if proposal.proposer != self._client.id:
            return
        if change.what == "fulfilled" and proposal.request is not None:
            self.asked = proposal.request.to
            self.move("fulfilled", by=proposal.by)
            if self.accepted and not self.present:  # when it is back, another approval of this may reach it
                self.leave()
        elif change.what in ("answered", "unknown") and change.entry is proposal.response:
            self.conclude(proposal.response.envelope, by=proposal.by)
        elif change.what == "unknown" and change.entry.kind == "mcp/request":
            by = one_line(change.entry.sender, 80)
            self._end_by(
                OutcomeUnknown, f"{by} used the id of the approval of {self.what} again. {SENT_UNKNOWN}"
            )
        elif change.what == "reopened":  # a quorum was missing: another approval may follow (R39)
            self.state, self.by = "open", ""
        elif change.what == "withdrawn":
            if self._gives_up:
                return
            reason = one_line(proposal.reason, MAX_REASON)
            ended = ProposalWithdrawn(proposal=proposal.id, by=proposal.by, reason=reason)
            self.fail(ended, state="withdrawn", by=proposal.by)
        elif change.what == "rejected":
            by, reason = proposal.rejections[-1]
            self.move("rejected", by=by)
            if self.resilient:
                return
            # It gives up, so nobody shall approve it any more. Spec: §3.3.2.
            stated = one_line(reason, MAX_REASON) or "no reason given"
            rejected = ProposalRejected(proposal=proposal.id, by=by, reason=stated)
            self._give_up("rejected", lambda why: self.fail(rejected, state="rejected", by=by))
        elif change.what == "forgotten":
            self._end_by(
                NoReply, f"Too many proposals are open, so {self.what} was dropped here; its end is not known"
            )
        elif change.what == "claimed":
            claim = proposal.claims[-1]
            logger.warning(
                "%s of %s about %s is not believed: %s", claim.kind, claim.by, self.what, claim.why
            )

    def expire(self) -> None:
        proposal = self._proposals.get(self.id)
        waited = self.age
        if proposal is not None and proposal.decided:
            self._end_running(
                f"{proposal.by} approved {self.what}, but nobody answered within {waited:.3g} s"
            )
            return

        def end(why: str) -> None:
            message = f"Nobody approved {self.what} within {waited:.3g} s; the proposal was "
            message += f"not withdrawn: {why}" if why else "withdrawn"
            self.fail(NoReply(message, after_s=waited, waiting_for=self.what))

        def end_running() -> None:
            before = f"{self.by} approved {self.what} before it could be withdrawn after {waited:.3g} s"
            self._end_running(before)

        self._give_up("timeout", end, end_running)

    async def take_back(self, reason: str) -> None:
        if self.executing:
            proposal = self._proposals.get(self.id)
            if proposal is not None and proposal.request is not None:
                self._cancel(proposal.request.envelope, reason, f"{self.by} approved it")
            return
        draft = self._withdrawal(reason)
        fitting = self._client.fit(draft)
        if fitting is None:
            require(self._client.capabilities, draft, name=self._client.id)
            return
        echo = AnswerWait(self._client, self._client.complete(fitting), timeout=ACCEPTED_WITHIN)
        assert self.begin is not None
        self.begin(echo, ACCEPTED_WITHIN)
        await echo.own_outcome()

    def end_call(self, reason: str) -> None:
        if self.executing:
            self._stop_waiting(reason, f"{self.by} approved it")
            return
        me, stated = self._client.id, one_line(reason, MAX_REASON)

        def end(why: str) -> None:
            if why:
                message = f"Stopped waiting for {self.what} ({stated}). It was not withdrawn: {why}"
                self._end_by(NoReply, message, by=me)
            else:
                withdrawn = ProposalWithdrawn(proposal=self.id, by=me, reason=stated)
                self.fail(withdrawn, state="withdrawn", by=me)

        self._give_up(reason, end, lambda: self._stop_waiting(reason, f"{self.by} approved it"))

    def _end_unanswerable(self, fault: NoReply) -> None:
        self._give_up("invalid", lambda why: self.fail(fault))

    def _give_up(
        self,
        reason: str,
        end: Callable[[str], None],
        end_running: Callable[[], None] | None = None,
    ) -> None:
        """Withdraws it, once, and then calls `end` with the reason why it may still stand.

        Where an approval came first, in the gateway's order, the call goes on: then it calls the `end_running` that was
        given last, also while it withdraws.
        """
        if end_running is not None:
            self._end_if_running = end_running
        if self._gives_up:
            return
        self._gives_up = True

        def finish(why: str) -> None:
            if not self.executing:
                end(why)
            elif self._end_if_running is not None:
                self._end_if_running()

        self._take_back_first(self._withdrawal(reason), finish)

    def _withdrawal(self, reason: str) -> dict[str, Any]:
        return {"kind": "mcp/withdraw", "correlation_id": [self.id], "payload": {"reason": reason}}


def cancellation_of(request: Envelope, reason: str) -> dict[str, Any]:
    """The draft of the message that cancels a request. Spec: MCP "Cancellation"."""
    id = request.payload.get("id")
    params = {"requestId": request.id if id is None else id, "reason": reason}
    return {
        "kind": "mcp/request",
        "to": request.to,
        "correlation_id": [request.id],
        "payload": {"jsonrpc": "2.0", "method": CANCELLED, "params": params},
    }


class Correlations:
    """The waits of one participant.

    Args:
        proposals: The proposals of the ledger of calls.
        request_timeout: The default timeout of a request in seconds; None waits without a limit.
        limit: The number of waits that may be open at once.
    """

    def __init__(
        self,
        client: MEWClient,
        *,
        proposals: CallIndex[Proposal],
        request_timeout: float | None,
        limit: int = MAX_WAITS,
    ) -> None:
        self._client = client
        self._proposals = proposals
        self._request_timeout = request_timeout
        self._limit = limit
        self._waits: dict[str, Wait] = {}
        # What reports of progress name beside the ids of requests: tokens, and the fulfilments of proposals.
        self._reported: dict[int | str, Wait] = {}
        self._last_id = 0  # the last JSON-RPC id

    def __len__(self) -> int:
        return len(self._waits)

    def waiting(self, kind: str) -> dict[str, Envelope]:
        """The envelopes of a kind that await an answer, by their ids, the oldest first."""
        return {id: wait.envelope for id, wait in self._waits.items() if wait.kind == kind}

    # --- sending ---

    async def send_accepted(
        self, draft: Envelope | Mapping[str, Any], *, timeout: float = ACCEPTED_WITHIN
    ) -> Envelope:
        """Sends a message; returns its echo, which all participants receive alike.

        Raises:
            Refused: the gateway refused it.
            NoReply: the gateway neither accepted nor refused it within `timeout` seconds.
            LocalProtocolError: it cannot be sent.
            ConnectionLost: there is no connection, or it ended meanwhile.

        Spec: §3.8.2, §5.4, ruling R1.
        """
        wait = AnswerWait(self._client, self._client.complete(draft), timeout=timeout)
        self._begin(wait, timeout)
        echo: Envelope = await wait.own_outcome()
        return echo

    def call(
        self,
        to: Sequence[str],
        payload: Mapping[str, Any],
        *,
        what: str = "",
        timeout: float | None,
        resilient: bool = False,
        kind: str | None = None,
        about: Sequence[str] = (),
        context: str | None = None,
        progress: bool = False,
        proposal_progress: bool = False,
    ) -> Call:
        """Sends an MCP request, or a proposal of it; returns the call.

        Args:
            what: its name in messages, such as `git/git_log`; without one, the addressees and the method.
            timeout: seconds; None takes `request_timeout` for a request, and no limit for a proposal.
            resilient: whether a proposal waits on after a rejection.
            kind: `mcp/request` or `mcp/proposal`; None requests where that is permitted, else proposes.
            about: the messages that it correlates to, such as the reasoning that led to it.
            context: the sequence that it belongs to.
            progress: whether a request asks its target for reports of its progress, where that is permitted.
            proposal_progress: the same for a proposal.

        Raises:
            CapabilityViolation: it is not permitted.
            ConnectionLost: there is no connection.
            LocalProtocolError: it cannot be sent, or not to these addressees, or `limit` waits are open.

        Spec: §3.2, SDK "Smart MCP Request Routing".
        """
        client, what = self._client, what or f"{', '.join(to)}/{payload.get('method')}"
        if not to:
            raise LocalProtocolError(f"Cannot call {what}: name at least one participant", section="§3.2")
        # Its own echo is never handled as a request; what it proposes to itself, another requests of it (R41).
        if client.id in to and kind != "mcp/proposal":
            raise LocalProtocolError(f"{client.id!r} cannot call itself over the space; call the function")
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, **payload}
        permitted = client.capabilities.permit
        if kind is None:
            propose = not permitted("mcp/request", to, request).allowed
            kind = (
                "mcp/proposal"
                if propose and permitted("mcp/proposal", to, payload).allowed
                else "mcp/request"
            )
        sent = request if kind == "mcp/request" else dict(payload)
        # A proposal's token goes into the request of another, so it is none that this may use itself.
        token = self._last_id if kind == "mcp/request" else f"p-{secrets.token_hex(6)}"
        progress = progress if kind == "mcp/request" else proposal_progress
        if progress and permitted(kind, to, asking := _with_token(sent, token)).allowed:
            sent = asking
        draft: dict[str, Any] = {"kind": kind, "to": to, "payload": sent}
        draft |= {"correlation_id": about} if about else {}
        draft |= {"context": context} if context else {}
        draft |= {"x-resilient": True} if resilient and kind == "mcp/proposal" else {}
        if client.fit(draft) is None:
            require(client.capabilities, draft, name=client.id)
        envelope = client.complete(draft)
        if kind == "mcp/request":
            timeout = self._request_timeout if timeout is None else timeout
            wait: Wait = RequestWait(client, envelope, what=what, resilient=resilient)
        else:
            wait = ProposalWait(client, envelope, what=what, resilient=resilient, proposals=self._proposals)
        self._begin(wait, timeout)
        if progress:
            self._let_report(token, wait)
        return wait

    def ask(self, text: str, to: Sequence[str], *, timeout: float | None = None) -> Call:
        """Sends `text` as a chat; awaiting the returned call gives the text of the answer.

        Args:
            timeout: seconds until it is withdrawn; None waits without a limit.

        Raises:
            CapabilityViolation: this participant may not chat.
            LocalProtocolError: it is addressed to nobody, or `limit` waits are open.
            ConnectionLost: there is no connection.

        Spec: §3.4.
        """
        client = self._client
        if not to:
            raise LocalProtocolError(
                "Cannot ask a question without an addressee: name at least one participant"
            )
        draft = {"kind": "chat", "to": to, "payload": {"text": text}}
        require(client.capabilities, draft, name=client.id)
        what = f"{', '.join(to)}: {one_line(text, 60)}"
        return self._begin(ChatWait(client, client.complete(draft), what=what), timeout)

    async def send_answered(
        self, envelope: Envelope, *, answer: type[Model], timeout: float
    ) -> tuple[Envelope, Model]:
        """Sends a message; returns the envelope and the payload of the addressee's answer.

        Raises:
            Refused: the gateway refused it (CapabilityViolation: it may not be sent).
            NoReply: no answer came within `timeout` seconds, or the participant is absent.
            LocalProtocolError: it cannot be sent.
            ConnectionLost: there is no connection, or it ended meanwhile.

        Spec: §3.9.3, §3.9.6.
        """
        wait = AnswerWait(self._client, envelope, answer=answer, timeout=timeout)
        self._begin(wait, wait.accepted_within)
        reply: tuple[Envelope, Model] = await wait.own_outcome()
        return reply

    async def send_settled(
        self,
        envelope: Envelope,
        *,
        answer: type[Model],
        timeout: float,
        read: Callable[[Model], Result | None],
    ) -> Result:
        """Sends a message that the gateway answers; returns the result of `read` for the payload of its `answer`.

        Args:
            read: called as soon as an answer comes, after the handlers of the participant; None waits on.

        Raises:
            Refused: the gateway refused it.
            NoReply: the gateway did not answer within `timeout` seconds.
            LocalProtocolError: it cannot be sent.
            ConnectionLost: there is no connection, or it ended meanwhile.

        Spec: §3.10, ruling R16.
        """
        wait = AnswerWait(
            self._client,
            envelope,
            answer=answer,
            timeout=timeout,
            read=lambda envelope, payload: read(cast(Model, payload)),
            by_gateway=True,
        )
        self._begin(wait, timeout)
        result: Result = await wait.own_outcome()
        return result

    def limit_after_cancel(self, id: str, reason: str) -> None:
        """Limits the wait for a call of this participant whose request was cancelled."""
        if isinstance(wait := self._waits.get(id), CallWait):
            wait.limit_after_cancel(reason)

    def withdraw_all(self, reason: str) -> None:
        """Ends every call at once: proposals are withdrawn, requests are no longer awaited.

        Spec: §3.3.1, §3.9.9.
        """
        for wait in tuple(self._waits.values()):
            wait.end_call(reason)

    # --- events ---

    def echo(self, envelope: Envelope) -> None:
        """Records the echo of an own message: the gateway accepted it."""
        wait = self._waits.get(envelope.id)
        if wait is not None and not wait.accepted:
            wait.echo(envelope)

    def follow(self, change: Change) -> None:
        """Passes a change of a proposal to the wait for it."""
        wait = self._waits.get(change.call.id)
        if isinstance(wait, ProposalWait):
            wait.follow(change)
            if change.what == "fulfilled" and not wait.done and change.proposal.request is not None:
                self._let_report(change.proposal.request.id, wait)

    def cancel_questions(self, change: ReasoningChange) -> None:
        """Ends the questions that a cancelled sequence of reasoning is about. Spec: §3.5.5."""
        sequence = change.sequence
        for id in sequence.about:
            wait = self._waits.get(id)
            if isinstance(wait, ChatWait) and not unasked(sequence.owner, wait.asked):
                wait.cancel(by=sequence.by, reason=sequence.reason)

    def observe(self, envelope: Envelope) -> None:
        """Handles one well-formed message of the space, after the other parts of the participant."""
        if not self._waits:
            return
        related = envelope.correlation_id
        if envelope.kind == "mcp/request" and envelope.payload.get("method") == PROGRESS:
            self._note_progress(envelope)
            return
        for id in dict.fromkeys(related) if related else ():
            wait = self._waits.get(id)
            if wait is None or envelope.kind not in wait.answers:
                continue
            if not unasked(envelope.sender, wait.asked):
                wait.answer(envelope)
            elif isinstance(wait, RequestWait):
                logger.warning(
                    "%s claims to answer %s, which it was not asked", one_line(envelope.sender, 80), id
                )
        if envelope.kind == "participant/shutdown":
            for wait in tuple(self._waits.values()):
                wait.note_shutdown(envelope.to, by=envelope.sender)
        elif envelope.kind == "system/presence" and envelope.sender == GATEWAY:
            for wait in tuple(self._waits.values()) if envelope.payload.get("event") == "leave" else ():
                wait.leave()

    def _note_progress(self, report: Envelope) -> None:
        """Passes a report of progress to the call that it correlates to; to that of its token where it names none."""
        read = read_progress(report.payload)
        if read is None:
            return
        token, progress = read
        named = [self._waits.get(id) or self._reported.get(id) for id in dict.fromkeys(report.correlation_id)]
        if not named and type(token) in (int, str):
            named = [self._reported.get(token)]
        for wait in named:
            if isinstance(wait, CallWait) and wait.executing and not unasked(report.sender, wait.asked):
                run_later(wait.note_progress(progress), self._client.report)
                return

    def refuse(self, error: Envelope) -> bool:
        """Ends the waits that a `system/error` of the gateway names; returns whether there were any.

        Spec: §3.8.2.
        """
        client = self._client
        waits = [self._waits[id] for id in dict.fromkeys(error.correlation_id) if id in self._waits]
        for wait in waits:
            wait.fail(refusal(error, sent=wait.envelope, name=client.id, capabilities=client.capabilities))
        return bool(waits)

    def lose(self, error: MewError | None) -> None:
        """Passes the end of the connection to all waits."""
        final = self._client.state == "disconnected"
        for wait in tuple(self._waits.values()):
            wait.lose(error, final=final)

    # --- the table ---

    def _begin(self, wait: Wait, timeout: float | None, *, is_end: bool = False) -> Wait:
        """Sends the message of a wait; one that ends another has room beyond the limit."""
        if (len(self._waits) >= self._limit and not is_end) or wait.id in self._waits:
            why = (
                "a message of that id waits already"
                if wait.id in self._waits
                else f"{self._limit} waits are open"
            )
            raise LocalProtocolError(f"Cannot send {wait.kind} as {self._client.id!r} and wait for it: {why}")
        self._waits[wait.id] = wait
        wait.begin = partial(self._begin, is_end=True)
        wait.when_done(self._forget)
        if timeout is not None:
            wait.expire_after(timeout, wait.expire)
        try:
            self._client.post(wait.envelope)
        except Exception as fault:
            wait.fail(fault)
            raise
        return wait

    def _forget(self, wait: Call) -> None:
        self._waits.pop(wait.id, None)
        for key in wait.reported_as if isinstance(wait, Wait) else ():
            self._reported.pop(key, None)

    def _let_report(self, key: int | str, wait: Wait) -> None:
        self._reported[key] = wait
        wait.reported_as.append(key)


def _with_token(request: Mapping[str, Any], token: int | str) -> dict[str, Any]:
    """The payload of a call with a token of progress; one that has its own keeps it. Spec: MCP "Progress"."""
    params = request.get("params")
    if not isinstance(params, Mapping) or token_of(params) is not None:
        return dict(request)
    own = {**mapping_of(params.get("_meta")), "progressToken": token}
    return {**request, "params": {**params, "_meta": own}}


async def _take_back(call: Call, reason: str) -> None:
    if isinstance(call, Wait) and not call.done:
        await call.take_back(reason)
