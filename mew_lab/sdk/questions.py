"""What was answered to what this participant asked in words?  A chat message, and the chat that correlates to it.

A question waits like a call does, and always ends: by an answer of somebody whom it was addressed to; by the last of
them leaving, or acknowledging with a status that says that no answer will come; by the cancelling of the reasoning
about it, unless an answer comes within `GRACE`; by its own limit of time; or by taking it back, which is said as
`chat/cancel`.

Spec: §3.4, §3.4.1, §3.4.2, §3.5.1, §3.5.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.errors import ConnectionLost, LocalProtocolError, NoReply
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.violations import refusal, require
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.sender import MessageSender, Names, drafted, names

__all__ = ["GRACE", "UNANSWERED", "Questions"]

GRACE = 2.0  # seconds in which whoever reasoned about a question may still say why it stopped
UNANSWERED = frozenset(
    {"rate_limited", "declined", "dropped"}
)  # statuses of an acknowledgement after which none comes
MAX_ABOUT = 100  # sequences of reasoning that are followed for one question


class Questions:
    """The open questions of one participant."""

    def __init__(self, saying: MessageSender) -> None:
        self._saying = saying
        self._open: dict[str, Call] = {}
        self._declined: dict[str, set[str]] = {}  # question -> who will not answer
        self._reasoning: dict[str, str] = {}  # a reasoning about a question -> the question

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, text: str, to: Names, *, timeout: float | None = None) -> Call:
        """Says `text` to somebody; `await` the text of the answer.

        Args:
            timeout: seconds until it is given up, which is said; None waits on.

        Raises:
            CapabilityViolation: this participant may not chat.
            LocalProtocolError: it is addressed to nobody.
            ConnectionLost: there is no connection.
        """
        client = self._saying.client
        asked = names(to)
        if not asked:
            raise LocalProtocolError("A question needs somebody to answer it: name at least one participant")
        draft = drafted("chat", {"text": text}, to=asked)
        require(client.capabilities, draft, name=client.id)
        envelope = client.complete(draft)
        call = Call(envelope, what=f"{', '.join(asked)}: {one_line(text, 60)}", withdraw=self._taken_back)
        self._open[call.id] = call
        call.when_done(lambda: self._forget(call))
        if timeout is not None:
            call.expire_after(timeout, self._expired)
        try:
            client.post(envelope)
        except (ConnectionLost, LocalProtocolError) as fault:
            call.fail(fault)
            raise
        return call

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""
        if not self._open:
            return
        if envelope.sender == GATEWAY:
            self._from_gateway(envelope)
        elif envelope.id in self._open and envelope.sender == self._saying.client.id:
            asked = self._open[envelope.id]
            asked.asked = envelope.to
            self._miss(asked, "is not in")
        elif envelope.kind == "chat":
            for id in envelope.correlation_id:
                call = self._open.get(id)
                if call is not None and envelope.sender in call.asked:
                    call.finish(str(envelope.payload.get("text", "")), by=envelope.sender)
        elif envelope.kind == "chat/acknowledge":
            self._acknowledged(envelope)
        elif envelope.kind == "reasoning/start":
            for id in envelope.correlation_id:
                call = self._open.get(id)
                followed = sum(question == id for question in self._reasoning.values())
                if call is not None and envelope.sender in call.asked and followed < MAX_ABOUT:
                    self._reasoning[envelope.id] = id
        elif envelope.kind == "reasoning/cancel":
            self._cancelled(envelope)

    def _acknowledged(self, envelope: Envelope) -> None:
        """Ends what everybody who was asked has declined to answer."""
        status = envelope.payload.get("status")
        if status not in UNANSWERED:
            return
        for id in envelope.correlation_id:
            call = self._open.get(id)
            if call is None or envelope.sender not in call.asked:
                continue
            declined = self._declined.setdefault(id, set())
            declined.add(envelope.sender)
            if declined >= set(call.asked):
                said = f"{', '.join(call.asked)} will not answer {call.what}: {status}; ask again later"
                call.fail(NoReply(said, after_s=call.age, waiting_for=call.what), by=envelope.sender)

    def _cancelled(self, envelope: Envelope) -> None:
        """Ends, after a moment, what somebody reasoned about."""
        call = self._open.get(self._reasoning.get(envelope.context or "", ""))
        if call is None:
            return
        reason = envelope.payload.get("reason")
        why = f" ({one_line(reason, 200)})" if isinstance(reason, str) and reason else ""
        said = f"{one_line(envelope.sender, 80)} cancelled the reasoning about {call.what}{why}, and no answer came"

        def end(call: Call) -> None:
            call.fail(NoReply(said, after_s=call.age, waiting_for=call.what), by=envelope.sender)

        call.expire_after(GRACE, end)

    def lost(self) -> None:
        """The connection ended: what is open cannot be known to be heard."""
        for call in tuple(self._open.values()):
            call.fail(ConnectionLost(f"The connection ended before {call.what} was answered"))

    def _from_gateway(self, envelope: Envelope) -> None:
        client = self._saying.client
        if envelope.kind == "system/error":
            for id in envelope.correlation_id:
                call = self._open.get(id)
                if call is not None:
                    name, held = client.id, client.capabilities
                    call.fail(refusal(envelope, sent=call.envelope, name=name, capabilities=held))
        elif envelope.kind == "system/presence" and envelope.payload.get("event") == "leave":
            gone = _member(envelope.payload)
            for call in tuple(self._open.values()):
                if gone in call.asked:
                    self._miss(call, "left before answering, and nobody else was asked in")

    def _miss(self, call: Call, why: str) -> None:
        """Ends a question that nobody here could answer."""
        client = self._saying.client
        if not any(one == client.id or one in client.participants for one in call.asked):
            said = f"{', '.join(call.asked)} {why} space {client.space!r}: nobody can answer {call.what}"
            call.fail(NoReply(said, after_s=call.age, waiting_for=call.what))

    def _forget(self, call: Call) -> None:
        self._open.pop(call.id, None)
        self._declined.pop(call.id, None)
        for reasoning in [one for one, question in self._reasoning.items() if question == call.id]:
            del self._reasoning[reasoning]

    def _expired(self, call: Call) -> None:
        said = f"{', '.join(call.asked)} did not answer within {call.age:.3g} s; the question was taken back"
        self._saying.quietly("chat/cancel", {"reason": "timeout"}, to=call.to, about=call.id)
        call.fail(NoReply(said, after_s=call.age, waiting_for=call.what))

    async def _taken_back(self, call: Call, reason: str) -> None:
        if call.done:
            return
        self._saying.quietly("chat/cancel", {"reason": reason}, to=call.to, about=call.id)
        said = f"The question was taken back ({one_line(reason, 200)})"
        call.fail(
            NoReply(said, after_s=call.age, waiting_for=call.what),
            state="withdrawn",
            by=self._saying.client.id,
        )


def _member(payload: Mapping[str, Any]) -> str:
    participant = payload.get("participant")
    return str(participant.get("id", "")) if isinstance(participant, dict) else ""
