"""The payload models by kind, one file a chapter of the specification. All of them are loaded here.

A model describes; it refuses nothing on the wire: the gateway checks the payloads of the kinds on which it
acts, and no others. Only `mew_lab.protocol.kinds` asks for these, so that a participant which never looks at
a model never loads one.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mew_lab.protocol.payloads import chat, controls, mcp, reasoning, space_management, streams, system
from mew_lab.protocol.payloads.payload import Payload

__all__ = ["KIND_OF", "MODELS"]

MODELS: Final[Mapping[str, type[Payload]]] = MappingProxyType(
    {
        "mcp/request": mcp.McpRequest,
        "mcp/response": mcp.McpResponse,
        "mcp/proposal": mcp.McpProposal,
        "mcp/withdraw": mcp.McpWithdraw,
        "mcp/reject": mcp.McpReject,
        "chat": chat.Chat,
        "chat/acknowledge": chat.ChatAcknowledge,
        "chat/cancel": chat.ChatCancel,
        "reasoning/start": reasoning.ReasoningStart,
        "reasoning/thought": reasoning.ReasoningThought,
        "reasoning/conclusion": reasoning.ReasoningConclusion,
        "reasoning/cancel": reasoning.ReasoningCancel,
        "capability/grant": space_management.CapabilityGrant,
        "capability/revoke": space_management.CapabilityRevoke,
        "capability/grant-ack": space_management.CapabilityGrantAck,
        "space/invite": space_management.SpaceInvite,
        "space/invite-ack": space_management.SpaceInviteAck,
        "space/kick": space_management.SpaceKick,
        "system/presence": system.SystemPresence,
        "system/welcome": system.SystemWelcome,
        "system/error": system.SystemError,
        "participant/pause": controls.ParticipantPause,
        "participant/resume": controls.ParticipantResume,
        "participant/request-status": controls.ParticipantRequestStatus,
        "participant/status": controls.ParticipantStatus,
        "participant/forget": controls.ParticipantForget,
        "participant/compact": controls.ParticipantCompact,
        "participant/compact-done": controls.ParticipantCompactDone,
        "participant/clear": controls.ParticipantClear,
        "participant/restart": controls.ParticipantRestart,
        "participant/shutdown": controls.ParticipantShutdown,
        "stream/request": streams.StreamRequest,
        "stream/open": streams.StreamOpen,
        "stream/close": streams.StreamClose,
        "stream/grant-write": streams.StreamGrantWrite,
        "stream/revoke-write": streams.StreamRevokeWrite,
        "stream/transfer-ownership": streams.StreamTransferOwnership,
        "stream/write-granted": streams.StreamWriteGranted,
        "stream/write-revoked": streams.StreamWriteRevoked,
        "stream/ownership-transferred": streams.StreamOwnershipTransferred,
    }
)
"""All 40 kinds of §3."""

KIND_OF: Final[Mapping[type[Payload], str]] = MappingProxyType(
    {model: kind for kind, model in MODELS.items()}
)
"""The kind that each model describes."""
