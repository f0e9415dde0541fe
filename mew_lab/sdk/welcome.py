"""What does a welcome tell?  Who one is, what one may do, who is there, which streams are open; pure.

What a gateway sends is read as carefully as anything else: what is no participant, no pattern or no stream is
left out. Spec: §3.7, §3.8.1, §3.10.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import CapabilitySet

__all__ = ["Welcome", "member", "read_welcome", "understood"]


class Welcome(NamedTuple):
    """What one welcome tells: `participants` are the others, `patterns` one's own capabilities."""

    id: str
    patterns: list[dict[str, Any]]
    participants: dict[str, list[dict[str, Any]]]


def read_welcome(envelope: Envelope) -> Welcome | None:
    """What it tells; None when it names nobody, or is addressed to somebody else than it names."""
    you = envelope.payload.get("you")
    id = you.get("id") if isinstance(you, dict) else None
    if not isinstance(you, dict) or not isinstance(id, str) or (envelope.to and id not in envelope.to):
        return None
    others = envelope.payload.get("participants")
    members = (member(one) for one in (others if isinstance(others, list) else ()))
    return Welcome(id, _patterns(you), {one[0]: one[1] for one in members if one and one[0] != id})


def member(one: object) -> tuple[str, list[dict[str, Any]]] | None:
    """The id and the patterns of one entry `{"id", "capabilities"}`; None when it is none."""
    if not isinstance(one, dict) or not isinstance(one.get("id"), str):
        return None
    return one["id"], _patterns(one)


def understood(patterns: list[dict[str, Any]]) -> tuple[CapabilitySet, list[ConfigError]]:
    """What can be made of these rights, and the faults of those that cannot be read: they give none."""
    readable, faults = [], []
    for pattern in patterns:
        try:
            CapabilitySet([pattern])
        except ConfigError as fault:
            faults.append(fault)
        else:
            readable.append(pattern)
    return CapabilitySet(readable), faults


def _patterns(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    patterns = one.get("capabilities")
    return [one for one in patterns if isinstance(one, dict)] if isinstance(patterns, list) else []
