"""Reads the capabilities that a welcome tells; what a pattern cannot mean gives no right.

What else a welcome tells is read in `ledger.members` and `ledger.streams`. Spec: §3.8.1.
"""

from __future__ import annotations

from typing import Any

from mew_lab.errors import ConfigError
from mew_lab.ledger.members import Welcome, read_welcome
from mew_lab.ledger.members import described_member as member
from mew_lab.protocol.permit import CapabilitySet

__all__ = ["Welcome", "member", "read_welcome", "understood"]


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
