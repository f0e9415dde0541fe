"""Which messages does a participant take?  Shape and payload of the kinds on which it acts; pure.

The gateway checks the envelope, not the payload's meaning, so every receiver does. What peers in the field
leave out (`jsonrpc`, a JSON-RPC `id`, the `context` of a cancel, an empty payload) is not asked for. Reasoning
is somebody's own business: nothing is done about it here, so only its cancel is looked at.

Spec: §4.3, §8.2, ruling R5.
"""

from __future__ import annotations

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import KINDS
from mew_lab.protocol.visible import one_line

__all__ = ["malformed"]

ACTED_ON = frozenset(
    kind for kind in KINDS if kind.split("/")[0] in ("mcp", "chat", "participant")
) | frozenset({"capability/grant", "capability/revoke", "capability/grant-ack", "reasoning/cancel"})
CORRELATED = frozenset({"mcp/response", "mcp/withdraw", "mcp/reject", "chat/acknowledge", "chat/cancel"})


def malformed(envelope: Envelope) -> str:
    """Why this message is dropped; empty when it is well-formed, or of another kind."""
    if envelope.kind not in ACTED_ON:
        return ""
    if not envelope.id or not envelope.sender:
        return "it has no id or no sender"
    if envelope.kind in CORRELATED and not envelope.correlation_id:
        return "it does not say in correlation_id what it is about"
    payload = envelope.payload
    if envelope.kind == "mcp/response" and ("result" in payload) is (payload.get("error") is not None):
        return "a response holds either a result or an error"
    if envelope.kind == "participant/forget" and _below_0(payload.get("entries")):
        return "payload.entries: nobody can forget fewer than none"
    try:
        KINDS[envelope.kind].model(envelope.kind).model_validate(payload)
    except ValueError as fault:  # the model's own error; its text has a place and a sentence a fault
        place, said = [*str(fault).splitlines(), "", ""][1:3]
        return one_line(f"payload.{place}: {said.split(' [type=')[0].strip()}", 200)
    return ""


def _below_0(entries: object) -> bool:
    return isinstance(entries, int) and entries < 0
