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


class ParticipantPause(Payload, kind="participant/pause"):
    """Pauses its addressees. Without `timeout_seconds`, until a resume; else finite and above 0.

    Spec: §3.9.1.
    """

    reason: str | None = None
    timeout_seconds: Seconds | None = None


class ParticipantResume(Payload, kind="participant/resume"):
    """Ends a pause.

    Spec: §3.9.2.
    """


class ParticipantRequestStatus(Payload, kind="participant/request-status"):
    """Requests a status; `fields` limits the metrics.

    Spec: §3.9.3.
    """

    fields: list[str] | None = None


class ParticipantStatus(Payload, kind="participant/status"):
    """Telemetry. `messages_in_context` counts the envelopes kept for the active context; more metrics are
    allowed.

    Spec: §3.9.4.
    """

    messages_in_context: int = Field(ge=0)
    tokens: int | None = None
    max_tokens: int | None = None
    latency_ms: int | float | None = None
    status: str | None = None


class ParticipantForget(Payload, kind="participant/forget"):
    """Drops context from one end. `entries` counts messages, or tokens where the participant counts tokens.

    Spec: §3.9.5.
    """

    direction: Literal["oldest", "newest"]
    entries: int | None = None


class ParticipantCompact(Payload, kind="participant/compact"):
    """Frees some working memory, down to `target_tokens` if that is supported.

    Spec: §3.9.6.
    """

    reason: str | None = None
    target_tokens: int | None = None


class ParticipantCompactDone(Payload, kind="participant/compact-done"):
    """Reports that a compaction is done, or was skipped.

    Spec: §3.9.7.
    """

    freed_tokens: int | None = None
    freed_messages: int | None = None
    status: str | None = None
    skipped: bool | None = None
    reason: str | None = None


class ParticipantClear(Payload, kind="participant/clear"):
    """Erases the whole context, scratchpads and working memories.

    Spec: §3.9.8.
    """


class ParticipantRestart(Payload, kind="participant/restart"):
    """Restores the baseline.

    Spec: §3.9.9.
    """


class ParticipantShutdown(Payload, kind="participant/shutdown"):
    """Ends all activity without a restart.

    Spec: §3.9.10.
    """
