"""Counts the use of this participant's context, sends it as a status, and keeps the last status of each other.

The context itself is kept elsewhere, by an agent for example; its owner counts, or has incoming chat counted. A status
is sent as the answer to a request, and without one when the context nears its limit.

Spec: §3.9.3, §3.9.4, SDK "Context Usage & Status Telemetry", ruling R14.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.chat import Chat
from mew_lab.protocol.payloads.controls import ParticipantRequestStatus, ParticipantStatus
from mew_lab.protocol.payloads.system import SystemPresence
from mew_lab.sdk.arguments import explains_arguments, unexplained
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.sender import MessageSender, Names
from mew_lab.sdk.signal import Signal, at_once

__all__ = ["COOLDOWN", "Status", "Telemetry"]

COOLDOWN = 60.0  # seconds between two statuses without a request, as the usage may swing about the limit
CHARACTERS_A_TOKEN = 4  # an estimate: the tokens of no model are known here
MAX_STATUSES = 1000  # participants whose last status is kept
MAX_KEPT = 16_384  # characters of a message that is kept as a last status
MAX_FIELDS = 100  # of a request that are looked at
STANDARD = frozenset({"messages_in_context", "tokens", "max_tokens", "status"})
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class Status(NamedTuple):
    """A status of `sender`; `payload` may hold more metrics, `about` are the ids that it correlates to.

    Spec: §3.9.4.
    """

    sender: str
    payload: ParticipantStatus
    about: tuple[str, ...]

    @property
    def messages_in_context(self) -> int:
        """Envelopes kept for the active context."""
        return self.payload.messages_in_context

    @property
    def tokens(self) -> int | None:
        """Tokens of that context; None where they are absent."""
        return self.payload.tokens

    @property
    def max_tokens(self) -> int | None:
        """Tokens that it can hold; None where they are absent."""
        return self.payload.max_tokens

    @property
    def status(self) -> str | None:
        """A code such as `active`, `paused`, `near_limit`; None where it is absent."""
        return self.payload.status


@explains_arguments
class Telemetry:
    """The counters of one participant, and the last status of each other.

    `automatic` is whether each chat of another counts as one message with estimated tokens, and a compaction subtracts
    what it freed; set it to False to count otherwise. `condition` is the default `status` of a report.

    Args:
        max_tokens: the size of the context; None where it is not known, and then no limit is reported.
        soft_limit: the part of `max_tokens` from which a status is sent without a request; above 0, at most 1.
        clock: a monotonic clock in seconds.

    Spec: §3.9.4.
    """

    def __init__(
        self,
        sender: MessageSender,
        *,
        max_tokens: int | None = None,
        soft_limit: float = 0.9,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.automatic = True
        self.condition: str | None = None
        self.tokens = 0
        self.messages = 0
        self.statuses: BoundedDict[str, Status] = BoundedDict(MAX_STATUSES, refresh=True)
        self._sender = sender
        self._clock = clock
        self._metrics: dict[str, Callable[[], Any]] = {}
        self._told: Signal[Status] = Signal(on_fault=sender.client.report)
        self._near = False
        self._last_near = -math.inf
        self._max_tokens: int | None = None
        self.soft_limit = soft_limit
        self.max_tokens = max_tokens

    # --- counting ---

    @property
    def max_tokens(self) -> int | None:
        """Tokens that the context can hold; None when that is not known."""
        return self._max_tokens

    @max_tokens.setter
    def max_tokens(self, value: int | None) -> None:
        if value is not None and value < 1:
            raise LocalProtocolError(
                f"max_tokens cannot be {value}: it is above 0, or None when it is not known", section="§3.9.4"
            )
        self._max_tokens = value
        self._watch()

    @property
    def soft_limit(self) -> float:
        """The part of `max_tokens` from which a status is sent without a request."""
        return self._soft_limit

    @soft_limit.setter
    def soft_limit(self, value: float) -> None:
        if not 0 < value <= 1:
            raise LocalProtocolError(
                f"soft_limit cannot be {value}: it is a part of max_tokens, above 0 and at most 1",
                section="§3.9.4",
            )
        self._soft_limit = value
        self._watch()

    @property
    def headroom_tokens(self) -> int | None:
        """Tokens that still fit; None when `max_tokens` is not known."""
        return None if self._max_tokens is None else max(0, self._max_tokens - self.tokens)

    def record_context_usage(self, *, tokens: int = 0, messages: int = 0) -> None:
        """Adds to the totals; negative numbers subtract, and no total falls below 0.

        Spec: SDK "Context Usage & Status Telemetry".
        """
        self.set_context_usage(tokens=self.tokens + tokens, messages=self.messages + messages)

    @unexplained
    def set_context_usage(self, *, tokens: int | None = None, messages: int | None = None) -> None:
        """Sets the totals; None leaves a total unchanged."""
        if tokens is not None:
            self.tokens = max(0, int(tokens))
        if messages is not None:
            self.messages = max(0, int(messages))
        self._watch()

    def add_metric(self, name: str, function: Callable[[], object]) -> Callable[[], None]:
        """Adds a metric to each status: `function()` returns a finite number, a text or a boolean.

        None leaves it out of that status, and so does an exception, which is reported. Returns a function that
        removes the metric.

        Raises:
            LocalProtocolError: the name is not in snake_case, or is one of the standard ones.

        Spec: §3.9.4.
        """
        if not SNAKE_CASE.fullmatch(name) or name in STANDARD:
            raise LocalProtocolError(
                f"A metric cannot be called {name!r}: names are in snake_case, such as latency_ms, and not one of "
                f"{', '.join(sorted(STANDARD))}",
                section="§3.9.4",
            )
        self._metrics[name] = function

        def remove() -> None:
            if self._metrics.get(name) is function:
                del self._metrics[name]

        return remove

    # --- reports ---

    def build_status_payload(
        self, status: str | None = None, *, fields: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The payload of a status: `messages_in_context` always, the rest as far as it is known.

        Args:
            status: a code; None takes the `condition`, such as `paused`, if any.
            fields: the members to which the rest is limited; `latency` includes `latency_ms`. None is no limit.

        Spec: §3.9.3, §3.9.4.
        """
        rest: dict[str, Any] = {"tokens": self.tokens, "max_tokens": self._max_tokens}
        for name, function in tuple(self._metrics.items()):
            if fields is None or _includes(name, fields):
                rest[name] = self._measured(name, function)
        rest["status"] = self.condition
        if fields is not None:
            rest = {name: value for name, value in rest.items() if _includes(name, fields)}
        if status is not None:
            rest["status"] = status
        known = {name: value for name, value in rest.items() if value is not None}
        return {"messages_in_context": self.messages, **known}

    @at_once
    def report_status(
        self, status: str | None = None, *, to: Names = (), about: Names = ()
    ) -> Coroutine[Any, Any, Envelope]:
        """Sends the status of this participant to everybody; awaiting it, which need not be done, gives the envelope.

        Raises:
            CapabilityViolation: this participant may not send `participant/status`.
            ConnectionLost: there is no connection.

        Spec: §3.9.4.
        """
        return self._sender.hand_over(
            "participant/status", self.build_status_payload(status), to=to, about=about
        )

    def tell(self, status: str | None = None, *, about: Names = (), **more: Any) -> Envelope | None:
        """Like `report_status`, for automatic reports: None when it may not or cannot be sent."""
        payload = {**self.build_status_payload(status), **more}
        return self._sender.quietly("participant/status", payload, about=about)

    def report_compaction(
        self, *, freed_tokens: int = 0, freed_messages: int = 0, about: Names = ()
    ) -> Envelope | None:
        """Reports a compaction of the context with what it freed; if `automatic`, subtracts that.

        An agent that compacts by itself calls it. None when the report may not or cannot be sent.

        Spec: §3.9.5 (autonomous compaction), SDK "Context Usage & Status Telemetry".
        """
        if self.automatic:
            self.record_context_usage(tokens=-freed_tokens, messages=-freed_messages)
        more: dict[str, Any] = {"freed_tokens": freed_tokens, "freed_messages": freed_messages}
        if self.headroom_tokens is not None:
            more["headroom_tokens"] = self.headroom_tokens
        return self.tell("compacted", about=about, **more)

    # --- others ---

    def on_status(self, handler: Callable[[Status], object]) -> Callable[[], None]:
        """Calls `handler` with each status of another participant."""
        return self._told.add(handler)

    async def request_participant_status(
        self, target: str, fields: Sequence[str] | None = None, *, timeout: float = 10.0
    ) -> Status:
        """Requests the status of `target` and waits for its answer.

        Args:
            fields: the members to which the answer may be limited, such as `tokens`.
            timeout: seconds.

        Raises:
            Refused: the gateway refused it (CapabilityViolation: this participant may not send it).
            NoReply: no answer came in time, or `target` is absent.
            LocalProtocolError: this participant is paused.
            ConnectionLost: there is no connection, or it ended meanwhile.

        Spec: §3.9.3.
        """
        payload = {} if fields is None else {"fields": list(fields)}
        request = self._sender.complete("participant/request-status", payload, to=target)
        answered = self._sender.correlations.send_answered
        return _status(*await answered(request, answer=ParticipantStatus, timeout=timeout))

    # --- what is received ---

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handlers of statuses and requests of others."""
        dispatcher.on(SystemPresence, self._note_presence)
        dispatcher.on(ParticipantRequestStatus, self._answer)
        dispatcher.on(ParticipantStatus, self._note_status)
        dispatcher.on(Chat, self._count_chat)

    def _note_presence(self, envelope: Envelope, payload: SystemPresence) -> None:
        if payload.event == "leave" and payload.participant:
            self.statuses.pop(payload.participant.id, None)

    def _answer(self, envelope: Envelope, payload: ParticipantRequestStatus) -> None:
        if self._sender.client.id in envelope.to:
            status = self.build_status_payload(fields=payload.fields)
            self._sender.quietly("participant/status", status, to=envelope.sender, about=envelope.id)

    def _note_status(self, envelope: Envelope, payload: ParticipantStatus) -> None:
        if envelope.sender != self._sender.client.id:
            status = _status(envelope, payload)
            if len(envelope.raw) <= MAX_KEPT:
                self.statuses[status.sender] = status
            self._told(status)

    def _count_chat(self, envelope: Envelope, payload: Chat) -> None:
        if envelope.sender != self._sender.client.id and self.automatic:
            # Every chat message passes here, so the totals, which only grow here, are not checked as set ones are.
            self.tokens += -(-len(payload.text) // CHARACTERS_A_TOKEN)
            self.messages += 1
            self._watch()

    def lost(self) -> None:
        """Forgets the statuses of others, because the connection ended."""
        self.statuses.clear()

    def _measured(self, name: str, function: Callable[[], Any]) -> Any:
        try:
            value = function()
        except Exception as fault:
            self._sender.client.report(fault)
            return None
        if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if value is not None:
            message = f"The metric {name} gave a {type(value).__name__}: it must be a finite number, a text or a boolean"
            self._sender.client.report(LocalProtocolError(message, section="§3.9.4"))
        return None

    def _watch(self) -> None:
        if self._max_tokens is None or self.tokens < self._soft_limit * self._max_tokens:
            self._near = False
            return
        now = self._clock()
        if self._near or now - self._last_near < COOLDOWN:
            return
        if self.tell("near_limit", headroom_tokens=self.headroom_tokens) is not None:
            self._near, self._last_near = True, now


def _includes(name: str, fields: Sequence[str]) -> bool:
    """Whether `fields` include a metric: `tokens` includes `max_tokens`, `latency` includes `latency_ms`."""
    return any(f"_{field}_" in f"_{name}_" for field in fields[:MAX_FIELDS])


def _status(envelope: Envelope, payload: ParticipantStatus) -> Status:
    return Status(envelope.sender, payload, envelope.correlation_id)
