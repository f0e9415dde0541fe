"""The capabilities of usual participants: lists of patterns to read and to copy. They are data alone.

- `human`: the seat of the owner. It calls, proposes, decides on proposals, controls participants, grants and revokes,
  and opens streams. It does not change who is in the space.
- `proposer`: the restricted starter profile, with acknowledging, cancelling its own questions, and reasoning.
- `agent`: the proposer, with the lists of what others offer and completions of their arguments, streams of its own, and
  reports of compactions. It proposes calls of tools.
- `tool`: answers requests, sends what no message can hold by a stream, reports progress, announces changes of its tools
  and resources, and reports its status.
- `observer`: reads messages, acknowledges chat, and reports its status.
- `admin`: everything that a participant may send.

`OWNER` is no profile: the owner of a space that is opened here holds it beside `human`, to invite and to remove
participants. Views do not offer to pass it on.

No profile of an agent (`agent`, `proposer`, `tool`, `observer`) can pause, resume, clear, restart or shut down a
participant, or change the capabilities of others.

Spec: §4.1 (Example Capability Sets), §7.3.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["OWNER", "PROFILES", "SEE", "STARTER", "refer_to_patterns"]

SEE: Final = "How patterns are written: notebooks/reference/patterns.ipynb"
"""Stands beside each field in which a person may write a pattern, and behind the error about one."""

STARTER: Final[list[dict[str, Any]]] = [
    {"kind": "chat"},
    {"kind": "mcp/proposal"},
    {"kind": "mcp/withdraw"},
    {"kind": "mcp/response"},
    {"kind": "capability/grant-ack"},
    {"kind": "participant/status"},
]
"""What an invite may always give."""

OWNER: Final[list[dict[str, Any]]] = [{"kind": ["space/invite", "space/kick"]}]
"""What the owner of a space holds beside the profile `human`. Spec: §3.6.5, §3.6.7."""

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
        {
            "kind": "mcp/request",
            "payload": {
                "method": [
                    "tools/list",
                    "resources/list",
                    "resources/templates/list",
                    "prompts/list",
                    "completion/complete",
                    "notifications/*",
                ]
            },
        },
        {"kind": ["stream/request", "stream/close"]},
        {"kind": "participant/compact-done"},
    ],
    "tool": [
        {"kind": "mcp/response"},
        {
            "kind": "mcp/request",
            "payload": {
                "method": [
                    "notifications/*/list_changed",
                    "notifications/progress",
                    "notifications/message",
                    "notifications/resources/updated",
                ]
            },
        },
        {"kind": "mcp/reject"},
        {"kind": "stream/request", "payload": {"kept": "mew-result://**"}},
        {"kind": "stream/close"},
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


def refer_to_patterns(reason: str) -> str:
    """The reason why something is no pattern, followed by where the language of patterns is explained."""
    return f"{reason}{'' if reason.endswith(('.', '?')) else '.'} {SEE}"
