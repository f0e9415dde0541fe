"""What a participant may send about its own messages, whatever its capabilities, at a gateway of ours.

The gateway accepts it where every message in `correlation_id` is the sender's own, and remembered. Its welcome names the
kinds in `x-mew-lab.own`.

Spec: §3.3.1, §3.4.2, ruling R36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

__all__ = ["MAX_IDS", "MAX_REASON", "OWN", "is_modest"]

OWN: Mapping[str, str] = MappingProxyType({"mcp/withdraw": "mcp/proposal", "chat/cancel": "chat"})
"""The kinds, each with the kind of message that it ends."""
MAX_IDS = 16  # R36
MAX_REASON = 64  # characters (R36): enough for a reason, too few to say something without a capability


def is_modest(payload: Mapping[str, Any], about: Sequence[str]) -> bool:
    """Whether it names 1 to 16 messages and says nothing but a short reason."""
    reason = payload.get("reason", "")
    return (
        1 <= len(about) <= MAX_IDS
        and payload.keys() <= {"reason"}
        and isinstance(reason, str)
        and len(reason) <= MAX_REASON
    )
