"""Checks received messages: shape and payload of the kinds on which a participant acts. Pure.

The gateway checks the envelope, but not the meaning of the payload, so every receiver does. Members that other
participants often omit (`jsonrpc`, a JSON-RPC `id`, the `context` of a cancel, an empty payload) are not required.
A response that is no correct answer (`answer_fault`) still ends the wait for it; its effect is unknown.
Participants act on no reasoning but its cancel, so only that is checked.

The check of a payload builds its model; `check_payload` returns the model, so that the payload is read only once.

Spec: §4.3, §8.2, ruling R5.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mew_lab.protocol.coerce import member, text_of
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import KINDS
from mew_lab.protocol.visible import one_line

if TYPE_CHECKING:
    from mew_lab.protocol.payloads.payload import Payload

__all__ = [
    "OUTCOME_UNKNOWN",
    "SENT_UNKNOWN",
    "CheckedPayload",
    "ReceivedMessage",
    "answer_fault",
    "check_payload",
    "first_unknown",
    "malformed",
    "read_payload",
    "unknown_outcome",
]

OUTCOME_UNKNOWN = "outcome_unknown"  # `error.data.code` of an answer by an executor that lost the call (R35)
SENT_UNKNOWN = "It was sent. Whether it took effect is not known."

ACTED_ON = frozenset(
    kind for kind in KINDS if kind.split("/")[0] in ("mcp", "chat", "participant")
) | frozenset({"capability/grant", "capability/revoke", "capability/grant-ack", "reasoning/cancel"})
CORRELATED = frozenset({"mcp/response", "mcp/withdraw", "mcp/reject", "chat/acknowledge", "chat/cancel"})


class CheckedPayload(NamedTuple):
    """The payload as its model, None where none was built; `fault` is the reason to drop the message, or empty."""

    payload: Payload | None
    fault: str


_UNCHECKED = CheckedPayload(None, "")


class ReceivedMessage(Protocol):
    """What is checked of a message whose members have the types of an envelope, such as an `Envelope`."""

    @property
    def id(self) -> str: ...
    @property
    def sender(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def correlation_id(self) -> tuple[str, ...]: ...
    @property
    def payload(self) -> Mapping[str, Any]: ...


def check_payload(envelope: ReceivedMessage) -> CheckedPayload:
    """Checks a message of a kind on which participants act; a message of another kind passes, without a model."""
    if envelope.kind not in ACTED_ON:
        return _UNCHECKED
    if not envelope.id or not envelope.sender:
        return CheckedPayload(None, "it has no id or no sender")
    if envelope.kind in CORRELATED and not envelope.correlation_id:
        return CheckedPayload(None, "it does not say in correlation_id what it is about")
    payload = envelope.payload
    if envelope.kind == "mcp/response":
        return CheckedPayload(_find_model(envelope.kind).read(payload), "")
    method, entries = payload.get("method"), payload.get("entries")
    if envelope.kind == "mcp/proposal" and isinstance(method, str) and not method.strip():
        return CheckedPayload(None, "payload.method: it is empty, so there is nothing to approve")
    if envelope.kind == "participant/forget" and isinstance(entries, int) and entries < 0:
        return CheckedPayload(None, "payload.entries: nobody can forget fewer than none")
    try:
        return CheckedPayload(_find_model(envelope.kind).model_validate(payload), "")
    except ValueError as fault:  # the model's own error; its text has a place and a sentence a fault
        place, sentence = [*str(fault).splitlines(), "", ""][1:3]
        return CheckedPayload(None, one_line(f"payload.{place}: {sentence.split(' [type=')[0].strip()}", 200))


@cache  # bounded, though peers invent kinds: only those in ACTED_ON come here
def _find_model(kind: str) -> type[Payload]:
    return KINDS[kind].model(kind)


def answer_fault(payload: Mapping[str, Any]) -> str:
    """What is wrong with the answer in a response, as a predicate such as "holds neither …"; empty for a correct one.

    Such a response still ends the wait for an answer: its sender has no other answer to give, and the caller would
    wait for ever. What it says of the outcome of its call, `unknown_outcome` tells.

    Spec: §3.1.2, JSON-RPC 2.0 "Response object".
    """
    error = payload.get("error")
    for name in ("jsonrpc", "id"):
        if not isinstance(value := payload.get(name), str | int | None) or isinstance(value, bool):
            return f"has a member {name} of another type: {_quote(value)}"
    if "result" in payload:
        return "holds both a result and an error" if error is not None else ""
    if error is None:
        return "holds neither a result nor an error"
    if not isinstance(error, Mapping):
        return f"has an error that is no object: {_quote(error)}"
    code, message = error.get("code"), error.get("message")
    if not isinstance(code, int) or isinstance(code, bool):
        return (
            f"has an error whose code is no integer: {_quote(code)}"
            if "code" in error
            else "has an error without a code"
        )
    if not isinstance(message, str):
        return f"has an error whose message is no text: {_quote(message)}"
    return ""


def unknown_outcome(payload: Mapping[str, Any]) -> str:
    """Why the answer in a response leaves open whether the call took effect; empty where the answer settles it.

    The reason is the predicate of `answer_fault`, or says that the executor told so. An error with a message whose code
    is a text, such as `NOT_FOUND` of peers, is no correct answer, but it settles the call: its executor says that the
    call failed, and the errors of foreign executors stay failures. Spec: R35.
    """
    error = payload.get("error")
    if member(error, "data", "code") == OUTCOME_UNKNOWN:
        return "says that the outcome is not known"
    if isinstance(error, Mapping) and isinstance(error.get("code"), str):
        return answer_fault({**payload, "error": {**error, "code": 0}})
    return answer_fault(payload)


def first_unknown(payload: Mapping[str, Any]) -> str:
    """The id of the unknown call that an executor names when it refuses to repeat that call; empty for other answers."""
    data = member(payload, "error", "data")
    return text_of(data.get("request")) if member(data, "code") == OUTCOME_UNKNOWN else ""


def _quote(value: object) -> str:
    return one_line(repr(value) if isinstance(value, str) else str(value), 80)


def malformed(envelope: ReceivedMessage) -> str:
    """The reason to drop this message; empty when it is well-formed, or of another kind."""
    return check_payload(envelope).fault


def read_payload(envelope: Envelope) -> Payload:
    """The payload of an unchecked message of a known kind, as far as it follows its model.

    A member that does not fit is omitted, and a required one is then None. A participant reads messages of the gateway
    in this way, because other gateways omit much.
    """
    return KINDS[envelope.kind].model(envelope.kind).read(envelope.payload)
