"""What does a draft become when a participant sends it?  A whole envelope, or a refusal before it leaves; pure.

It knows no connection and no clock: id, time and sender are given. Whether the gateway takes the message is
not known here.

Spec: §3, §4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mew_lab.errors import LocalProtocolError, ProtocolError
from mew_lab.protocol.envelope import MAX_DEPTH, PROTOCOL, Envelope, too_deep
from mew_lab.protocol.kinds import is_reserved
from mew_lab.protocol.text import timestamp, utf8_size
from mew_lab.protocol.visible import one_line

__all__ = ["completed", "tool_call"]


def completed(
    draft: Envelope | Mapping[str, Any], *, id: str, now: datetime, sender: str, limit: int
) -> Envelope:
    """The envelope that a draft becomes; one that lacks nothing is returned as it is, with its text.

    `protocol`, `id`, `ts` and `from` are added where they lack; a single `to` or `correlation_id` becomes a
    list. `limit` is the size in bytes of the longest message that the gateway takes.

    Raises:
        LocalProtocolError: it is no envelope, not JSON, too large, or not this sender's to send.

    Spec: §3.
    """
    given = draft.members if isinstance(draft, Envelope) else draft
    members = {"protocol": PROTOCOL, "id": "", "ts": timestamp(now), "from": sender, **given}
    members["id"] = members["id"] or id
    for key in ("to", "correlation_id"):
        value = members.get(key)
        if value is None:
            members.pop(key, None)
        else:
            members[key] = [value] if isinstance(value, str) else list(value)
    kind = members.get("kind")
    if members["from"] != sender:
        raise LocalProtocolError(
            f"Cannot send {kind} from {members['from']!r}: this is {sender!r}; leave `from` out",
            code="identity_mismatch",
            section="§4.1",
        )
    if isinstance(kind, str) and is_reserved(kind):
        raise LocalProtocolError(
            f"Cannot send {kind} as {sender!r}: it is reserved for the gateway",
            code="reserved_kind",
            section="§4.1",
        )
    try:
        same = isinstance(draft, Envelope) and members == draft.members
        envelope = draft if isinstance(draft, Envelope) and same else Envelope.of(members)
    except ProtocolError as fault:
        said = f"Cannot send {one_line(str(kind), 80)} as {sender!r}: {fault}"
        raise LocalProtocolError(said, code=fault.code, section=fault.section) from None
    size = utf8_size(envelope.raw)
    if size > limit:  # the gateway could not say to which message its refusal belongs
        raise LocalProtocolError(
            f"Cannot send {envelope.kind} as {sender!r}: it has {size} bytes, and a message takes "
            f"at most {limit}. Send less at once",
            code="message_too_large",
        )
    if too_deep(envelope.raw):  # nor here
        raise LocalProtocolError(
            f"Cannot send {envelope.kind} as {sender!r}: it is nested more than {MAX_DEPTH} levels deep",
            code="invalid_json",
        )
    return envelope


def tool_call(target: str, arguments: Mapping[str, Any] | None) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Whom a call of `participant/tool` is addressed to, and its payload."""
    participant, _, tool = target.partition("/")
    if not participant or not tool:
        raise LocalProtocolError(
            f"{one_line(target, 80)!r} names no tool: it reads participant/tool, such as git/git_log"
        )
    return (participant,), {
        "method": "tools/call",
        "params": {"name": tool, "arguments": dict(arguments or {})},
    }
