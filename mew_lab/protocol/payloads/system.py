"""Payloads of the messages that the gateway sends in its own name.

Spec: §3.7, §3.8, §3.10.8.
"""

from __future__ import annotations

from typing import Any, Literal

from mew_lab.protocol.payloads.payload import CapabilityPattern, Payload

__all__ = ["ActiveStream", "ParticipantInfo", "SystemError", "SystemPresence", "SystemWelcome"]


class ParticipantInfo(Payload):
    """A participant as the gateway describes it; without capabilities in a leave."""

    id: str
    capabilities: list[CapabilityPattern] | None = None


class ActiveStream(Payload):
    """An open stream, with all fields of its request, custom ones included.

    `created` is an ISO 8601 time. Without `target` everybody gets the frames; without `authorized_writers`
    only the owner writes (`writers`).

    Spec: §3.8.1, §3.10.8.
    """

    stream_id: str
    owner: str
    direction: Literal["upload", "download"]
    created: str
    authorized_writers: list[str] | None = None
    expected_size_bytes: int | None = None
    description: str | None = None
    content_type: str | None = None
    format: str | None = None
    target: list[str] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def writers(self) -> tuple[str, ...]:
        """The ids that may write; the owner always may."""
        return tuple(dict.fromkeys((self.owner, *(self.authorized_writers or ()))))


class SystemPresence(Payload, kind="system/presence"):
    """Announces a join or leave. `event` is `join` or `leave`; receivers ignore others, such as `invited`.

    Spec: §3.7.
    """

    event: str
    participant: ParticipantInfo


class SystemWelcome(Payload, kind="system/welcome"):
    """The receiver's own id and capabilities, the other participants, and the open streams. The capabilities in it
    count.

    Spec: §3.8.1.
    """

    you: ParticipantInfo
    participants: list[ParticipantInfo]
    active_streams: list[ActiveStream] | None = None


class SystemError(Payload, kind="system/error"):
    """A refusal, to the sender of its cause alone. A capability violation also has `attempted_kind` and
    `your_capabilities`.

    Spec: §3.8.2.
    """

    error: str
    message: str | None = None
    code: str | None = None
    attempted_kind: str | None = None
    your_capabilities: list[CapabilityPattern] | None = None
