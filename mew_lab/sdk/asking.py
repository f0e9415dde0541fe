"""What becomes of what this participant asked for?  Its open calls, told by the books, the echo and the
connection.

It sends a request or a proposal and brings the call to its one end; whether to request or to propose was
decided before. Every end is somebody's word: an answer, a rejection, a withdraw, a refusal of the gateway,
a leave, the end of the connection, or the caller's own limit of time.

Spec: §3.1, §3.2, §3.3, rulings R17, R18.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mew_lab.errors import (
    ConnectionLost,
    LocalProtocolError,
    MewError,
    NoReply,
    ProposalRejected,
    ProposalWithdrawn,
    ToolFailed,
)
from mew_lab.ledger.calls import CallIndex, Change, Proposal
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.violations import require
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call, Calls
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.results import result_of

__all__ = ["Asking"]

logger = logging.getLogger(__name__)
MAX_REASON = 300  # characters of a peer's reason inside an error


class Asking:
    """The open calls of one participant."""

    def __init__(
        self,
        client: MEWClient,
        *,
        calls: Calls,
        proposals: CallIndex[Proposal],
        request_timeout: float | None,
    ) -> None:
        self._client = client
        self._calls = calls
        self._proposals = proposals
        self._request_timeout = request_timeout
        self._open: dict[str, Call] = {}

    def __len__(self) -> int:
        return len(self._open)

    def sent(self, id: str) -> Envelope | None:
        """The request or proposal of that id that is open."""
        call = self._open.get(id)
        return call.envelope if call else None

    def ask(
        self,
        to: Sequence[str],
        payload: Mapping[str, Any],
        *,
        what: str,
        timeout: float | None,
        resilient: bool = False,
        kind: str | None = None,
        about: Sequence[str] = (),
    ) -> Call:
        """Sends an MCP request, or a proposal of it; `kind` None requests where that is permitted.

        `about` is what it correlates to, such as the reasoning that led to it.

        Raises:
            CapabilityViolation: neither is.
            ConnectionLost: there is no connection.
            LocalProtocolError: it cannot be sent, or not to these.

        Spec: §3.2, SDK "Smart MCP Request Routing".
        """
        client = self._client
        if not to:
            raise LocalProtocolError(f"Cannot ask for {what}: name at least one participant", section="§3.2")
        if client.id in to:  # its own echo is never handled as a request
            raise LocalProtocolError(f"{client.id!r} cannot call itself over the space; call the function")
        request = {"jsonrpc": "2.0", "id": self._calls.next_id(), **payload}
        permitted = client.capabilities.permit
        if kind is None:
            propose = not permitted("mcp/request", to, request).allowed
            kind = (
                "mcp/proposal"
                if propose and permitted("mcp/proposal", to, payload).allowed
                else "mcp/request"
            )
        draft = {"kind": kind, "to": to, "payload": request if kind == "mcp/request" else dict(payload)}
        draft |= {"correlation_id": about} if about else {}
        require(client.capabilities, draft, name=client.id)
        if timeout is None and kind == "mcp/request":
            timeout = self._request_timeout
        return self._begin(draft, what=what, timeout=timeout, resilient=resilient)

    def _begin(self, draft: Mapping[str, Any], *, what: str, timeout: float | None, resilient: bool) -> Call:
        envelope = self._client.complete(draft)
        call = Call(envelope, what=what, withdraw=self._withdraw, resilient=resilient)
        self._open[call.id] = call
        call.when_done(lambda: self._forget(call))
        if call.kind == "mcp/request":
            self._calls.expect(envelope, lambda response: self._answered(call, response))
        if timeout is not None:
            call.expire_after(timeout, self._expired)
        try:
            self._client.post(envelope)
        except MewError as fault:
            call.fail(fault)
            raise
        return call

    def withdraw_all(self, reason: str) -> None:
        """Ends everything that is open, at once: proposals are withdrawn, of requests the answer is not awaited.

        Spec: §3.3.1, §3.9.9.
        """
        for call in tuple(self._open.values()):
            if self._executing(call):
                self._stop_waiting(call, reason)
            else:
                self._post_withdraw(call, reason)
                me = self._client.id
                ended = ProposalWithdrawn(proposal=call.id, by=me, reason=one_line(reason, MAX_REASON))
                call.fail(ended, state="withdrawn", by=me)

    # --- what happens ---

    def echoed(self, envelope: Envelope) -> None:
        """The gateway accepted a message of ours: the addressees stand in it as they are called now."""
        call = self._open.get(envelope.id)
        if call is None:
            return
        call.asked = envelope.to
        if call.asked and not self._present(call):
            here = ", ".join(sorted(self._client.participants)) or "nobody else"
            call_off = NoReply(
                f"Nobody can answer {call.what}: no participant {', '.join(call.asked)} is in space "
                f"{self._client.space!r} now. Here: {one_line(here, MAX_REASON)}",
                after_s=0.0,
                waiting_for=call.what,
            )
            if call.kind == "mcp/proposal":
                self._post_withdraw(call, "invalid")
            call.fail(call_off)

    def changed(self, change: Change) -> None:
        """The ledger learnt something of a proposal."""
        proposal = change.proposal
        call = self._open.get(proposal.id)
        if call is None or call.kind != "mcp/proposal" or proposal.proposer != self._client.id:
            return
        if change.what == "fulfilled" and proposal.request is not None:
            call.asked = proposal.request.to
            call.move("fulfilled", by=proposal.by)
            self._end_if_alone(call)
        elif change.what == "answered" and proposal.response is not None:
            self._answered(call, proposal.response.envelope, by=proposal.by)
        elif change.what == "withdrawn":
            ended = ProposalWithdrawn(
                proposal=proposal.id, by=proposal.by, reason=one_line(proposal.reason, MAX_REASON)
            )
            call.fail(ended, state="withdrawn", by=proposal.by)
        elif change.what == "rejected" and call.resilient:
            call.move("rejected", by=proposal.rejections[-1].by)
        elif change.what == "rejected":
            by, reason = proposal.rejections[-1]
            said = one_line(reason, MAX_REASON) or "no reason given"
            call.fail(ProposalRejected(proposal=proposal.id, by=by, reason=said), state="rejected", by=by)
        elif change.what == "claimed":
            claim = proposal.claims[-1]
            logger.warning(
                "%s of %s about %s is not believed: %s", claim.kind, claim.by, call.what, claim.why
            )

    def refused(self, id: str, error: MewError) -> bool:
        """The gateway did not accept a message of ours; whether somebody waited for it."""
        call = self._open.get(id)
        if call is not None:
            call.fail(error)
        return call is not None

    def left(self) -> None:
        """Somebody left: what only they could have answered has no answer."""
        for call in tuple(self._open.values()):
            self._end_if_alone(call)

    def lost(self, error: MewError | None) -> None:
        """The connection is gone. A proposal that nobody has decided still stands in the space."""
        final = self._client.state == "disconnected"
        why = error or "the participant left the space"
        for call in tuple(self._open.values()):
            if final or self._executing(call):
                said = f"The connection ended before {call.what} was answered, and it may have run: {why}"
                call.fail(ConnectionLost(said, close_code=getattr(error, "close_code", None)))

    def _answered(self, call: Call, response: Envelope, *, by: str = "") -> None:
        by = by or response.sender
        try:
            result = result_of(response.payload, method=str(call.payload.get("method")), what=call.what)
        except ToolFailed as fault:
            call.fail(fault, by=by)
        else:
            call.finish(result, by=by)

    def _expired(self, call: Call) -> None:
        proposal = self._proposals.get(call.id) if call.kind == "mcp/proposal" else None
        waited = call.age
        if call.kind == "mcp/request":
            said = f"{', '.join(call.to)} did not answer {call.what} within {waited:.3g} s; it may have run"
            self._cancel_at_target(call, "timeout")
        elif proposal is not None and proposal.decided:
            said = f"{proposal.by} fulfilled {call.what}, but nobody answered within {waited:.3g} s"
        else:
            said = f"Nobody fulfilled {call.what} within {waited:.3g} s; the proposal was withdrawn"
            self._post_withdraw(call, "timeout")
        call.fail(NoReply(said, after_s=waited, waiting_for=call.what))

    async def _withdraw(self, call: Call, reason: str) -> None:
        if call.done:
            return
        if self._executing(call):  # a fulfilled proposal cannot be taken back any more
            self._stop_waiting(call, reason)
        else:
            await self._client.send(_withdrawal(call, reason))

    def _stop_waiting(self, call: Call, reason: str) -> None:
        if call.kind == "mcp/request":
            self._cancel_at_target(call, reason)
        what = "It was a request" if call.kind == "mcp/request" else f"{call.by} fulfilled it"
        said = (
            f"Stopped waiting for {call.what} after {call.age:.3g} s ({one_line(reason, MAX_REASON)}). "
            f"{what}, so it may have been executed"
        )
        call.fail(NoReply(said, after_s=call.age, waiting_for=call.what), by=self._client.id)

    # --- means ---

    def _forget(self, call: Call) -> None:
        self._open.pop(call.id, None)
        self._calls.forget(call.id)

    def _end_if_alone(self, call: Call) -> None:
        if self._executing(call) and not self._present(call):
            gone = NoReply(
                f"{', '.join(call.asked)} left space {self._client.space!r} before answering "
                f"{call.what}; it may have run",
                after_s=call.age,
                waiting_for=call.what,
            )
            call.fail(gone)

    def _executing(self, call: Call) -> bool:
        return call.kind == "mcp/request" or call.state == "fulfilled"

    def _present(self, call: Call) -> bool:
        return any(one in self._client.participants or one == self._client.id for one in call.asked)

    def _post_withdraw(self, call: Call, reason: str) -> None:
        self._quietly(_withdrawal(call, reason))

    def _cancel_at_target(self, call: Call, reason: str) -> None:
        payload = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": call.payload.get("id"), "reason": reason},
        }
        if self._client.capabilities.permit("mcp/request", call.to, payload).allowed:
            self._quietly(
                {"kind": "mcp/request", "to": call.to, "correlation_id": [call.id], "payload": payload}
            )

    def _quietly(self, draft: Mapping[str, Any]) -> None:
        try:
            self._client.post(draft)
        except (ConnectionLost, LocalProtocolError) as fault:  # nobody waits for it
            logger.info("%s was not sent: %s", draft["kind"], fault)


def _withdrawal(call: Call, reason: str) -> dict[str, Any]:
    return {"kind": "mcp/withdraw", "correlation_id": [call.id], "payload": {"reason": reason}}
