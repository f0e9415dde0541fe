"""What is a space configured to be?  Settings that are checked; reading them from files is somebody else's work.

Spec: §4.1 (profiles), §5.1.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mew_lab.errors import ConfigError
from mew_lab.protocol.envelope import MAX_MESSAGE
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.space.core import BASELINE
from mew_lab.space.state import is_participant_id

__all__ = ["ParticipantConfig", "SpaceConfig"]


def _participant_id(name: str) -> str:
    if not is_participant_id(name):
        raise ValueError(
            f"{name!r} cannot be a participant id: 1 to 64 of A-Z a-z 0-9 . _ -, not gateway or system"
        )
    return name


def _capabilities(patterns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        CapabilitySet(patterns)
    except ConfigError as fault:
        raise ValueError(str(fault)) from None
    return patterns


ParticipantId = Annotated[str, AfterValidator(_participant_id)]
Capabilities = Annotated[list[dict[str, Any]], AfterValidator(_capabilities)]


class ParticipantConfig(BaseModel):
    """One participant of a space: the patterns that say what it may send."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    capabilities: Capabilities = Field(default_factory=list)


class SpaceConfig(BaseModel):
    """One space: its name, who may join it, and its limits.

    `baseline` is what everyone holds besides their own; `message_bytes` the largest message taken, frames included;
    `queue_bytes` how much may wait for one slow reader before it is cut.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ParticipantId
    participants: dict[ParticipantId, ParticipantConfig] = Field(default_factory=dict)
    owner: ParticipantId | None = None
    baseline: Capabilities = Field(default_factory=lambda: [dict(one) for one in BASELINE])
    message_bytes: int = Field(default=MAX_MESSAGE, ge=1024, le=64 * 1024 * 1024)
    queue_bytes: int = Field(default=8 * 1024 * 1024, ge=64 * 1024)
