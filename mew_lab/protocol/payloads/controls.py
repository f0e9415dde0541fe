"""Payloads of participant controls. Where no field is required, the payload may be absent and counts as `{}`.

Spec: §3.9.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mew_lab.protocol.payloads.payload import Payload

__all__ = [
    "ParticipantClear",
    "ParticipantCompact",
    "ParticipantCompactDone",
    "ParticipantForget",
    "ParticipantPause",
    "ParticipantRequestStatus",
    "ParticipantRestart",
    "ParticipantResume",
    "ParticipantShutdown",
    "ParticipantStatus",
]


# Two types, so that what came as 60 does not go out as 60.0.
Seconds = Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ParticipantPause(Payload):
    """Stop sending new work. Without `timeout_seconds`, until resumed; else finite and above 0.

    Spec: §3.9.1.
    """

    reason: str | None = None
    timeout_seconds: Seconds | None = None


class ParticipantResume(Payload):
    """A pause is over.

    Spec: §3.9.2.
    """


class ParticipantRequestStatus(Payload):
    """Tell how you are; `fields` limits the metrics asked for.

    Spec: §3.9.3.
    """

    fields: list[str] | None = None


class ParticipantStatus(Payload):
    """Telemetry. `messages_in_context` counts the envelopes kept for the active context; more metrics are
    allowed.

    Spec: §3.9.4.
    """

    messages_in_context: int = Field(ge=0)
    tokens: int | None = None
    max_tokens: int | None = None
    latency_ms: int | float | None = None
    status: str | None = None


class ParticipantForget(Payload):
    """Drop context from one end. `entries` counts messages, or tokens where the participant counts so.

    Spec: §3.9.5.
    """

    direction: Literal["oldest", "newest"]
    entries: int | None = None


class ParticipantCompact(Payload):
    """Free some working memory, down to `target_tokens` if that is supported.

    Spec: §3.9.6.
    """

    reason: str | None = None
    target_tokens: int | None = None


class ParticipantCompactDone(Payload):
    """The compaction is over, or was skipped.

    Spec: §3.9.7.
    """

    freed_tokens: int | None = None
    freed_messages: int | None = None
    status: str | None = None
    skipped: bool | None = None
    reason: str | None = None


class ParticipantClear(Payload):
    """Erase the whole context, scratchpads and working memories.

    Spec: §3.9.8.
    """


class ParticipantRestart(Payload):
    """Go back to the baseline.

    Spec: §3.9.9.
    """


class ParticipantShutdown(Payload):
    """End all activity without restarting.

    Spec: §3.9.10.
    """
