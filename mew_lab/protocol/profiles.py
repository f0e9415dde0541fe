"""The capabilities of usual participants: lists of patterns to read and to copy. They are data alone.

- `human`: the owner's everyday seat. Acts, proposes, decides on proposals, supervises: controls participants,
  grants and revokes, opens streams. Whom the space consists of (`space/invite`, `space/kick`) is left to
  `admin`.
- `proposer`: the restricted starter profile, and what it takes to be polite: acknowledging, cancelling its
  own questions, reasoning in the open.
- `agent`: the proposer, and what it takes to find tools and to be steered: asks which tools there are, opens
  streams of its own, tells that it has compacted. Calls of tools it still proposes.
- `tool`: answers, tells when its tools or resources change and how it is; asks for nothing.
- `observer`: reads along, can be seen to have read, and says how it is.
- `admin`: everything that a participant may send.

No profile made for an agent (`agent`, `proposer`, `tool`, `observer`) can pause, resume, clear, restart or shut down
anybody, nor change what others may do.

Spec: §4.1 (Example Capability Sets), §7.3.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["PROFILES", "STARTER"]

STARTER: Final[list[dict[str, Any]]] = [
    {"kind": "chat"},
    {"kind": "mcp/proposal"},
    {"kind": "mcp/withdraw"},
    {"kind": "mcp/response"},
    {"kind": "capability/grant-ack"},
    {"kind": "participant/status"},
]
"""What an invite may always give."""

_PROPOSER: Final[list[dict[str, Any]]] = [
    *STARTER,
    {"kind": ["chat/acknowledge", "chat/cancel"]},
    {"kind": ["reasoning/start", "reasoning/thought", "reasoning/conclusion", "reasoning/cancel"]},
]

PROFILES: Final[dict[str, list[dict[str, Any]]]] = {
    "human": [
        {"kind": ["chat", "chat/acknowledge", "chat/cancel"]},
        {"kind": ["mcp/request", "mcp/response", "mcp/proposal", "mcp/withdraw", "mcp/reject"]},
        {"kind": "reasoning/*"},
        {"kind": "participant/*"},
        {"kind": "capability/*"},
        {"kind": "stream/*"},
    ],
    "proposer": _PROPOSER,
    "agent": [
        *_PROPOSER,
        {"kind": "mcp/request", "payload": {"method": ["tools/list", "resources/list", "notifications/*"]}},
        {"kind": ["stream/request", "stream/close"]},
        {"kind": "participant/compact-done"},
    ],
    "tool": [
        {"kind": "mcp/response"},
        {"kind": "mcp/request", "payload": {"method": "notifications/*/list_changed"}},
        {"kind": "mcp/reject"},
        {"kind": ["chat", "chat/acknowledge"]},
        {"kind": "capability/grant-ack"},
        {"kind": "participant/status"},
    ],
    "observer": [
        {"kind": "chat/acknowledge"},
        {"kind": "capability/grant-ack"},
        {"kind": "participant/status"},
    ],
    "admin": [{"kind": "*"}],
}
