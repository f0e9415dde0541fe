"""What all payloads have in common: types are those of JSON, unknown fields are kept."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["CapabilityPattern", "Payload"]

CapabilityPattern = dict[str, Any]
"""A capability as it travels; `mew_lab.protocol.permit.Capability` is the compiled one."""


class Payload(BaseModel):
    """A payload that follows the specification, with whatever else its sender put in.

    Nothing is converted: a number sent as text is a fault to be shown, not to be repaired.
    `model_dump(exclude_unset=True)` gives back what was read. Names are the wire's.

    Spec: §3 (payload).
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
