"""Payloads of requests, responses, proposals and their ends: the JSON-RPC of MCP, unchanged.

`jsonrpc` and `id` are not required: peers omit them, and a log must still be readable. The diagnosis reports missing
members.

Spec: §3.1 – §3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from mew_lab.protocol.payloads.payload import Payload

__all__ = [
    "REASON_CODES",
    "McpError",
    "McpProposal",
    "McpReject",
    "McpRequest",
    "McpResponse",
    "McpWithdraw",
]

REASON_CODES: Final[Mapping[str, str]] = {
    "disagree": "does not agree with the action",
    "inappropriate": "not suitable here",
    "unsafe": "could cause harm",
    "busy": "handling other work",
    "incapable": "tools or access are missing",
    "policy": "against a policy",
    "duplicate": "already being handled",
    "invalid": "malformed or impossible",
    "timeout": "too old",
    "resource_limit": "would exceed a limit",
    "no_longer_needed": "not needed any more",
    "other": "another reason",
}
"""The suggested reasons of a withdraw or reject, each with its meaning for the proposer. Any other string is as valid
and is shown as it is. Spec: §3.3.3."""


class McpRequest(Payload, kind="mcp/request"):
    """A JSON-RPC request, or a notification when it has no `id`.

    Spec: §3.1.1.
    """

    method: str
    params: dict[str, Any] | None = None
    jsonrpc: str | None = None
    id: str | int | None = None


class McpError(Payload):
    """The error of a JSON-RPC response."""

    code: int
    message: str
    data: Any = None


class McpResponse(Payload, kind="mcp/response"):
    """A JSON-RPC response: `result`, or `error`.

    `id` repeats the request's JSON-RPC id; the request's envelope stands in `correlation_id`.

    Spec: §3.1.2.
    """

    result: Any = None
    error: McpError | None = None
    jsonrpc: str | None = None
    id: str | int | None = None


class McpProposal(Payload, kind="mcp/proposal"):
    """The request that its sender may not send: the same structure, `jsonrpc` and `id` usually absent.

    Spec: §3.2.
    """

    method: str
    params: dict[str, Any] | None = None
    jsonrpc: str | None = None
    id: str | int | None = None


class McpWithdraw(Payload, kind="mcp/withdraw"):
    """Withdraws an own proposal. `reason` is one of REASON_CODES or any other text.

    Spec: §3.3.1.
    """

    reason: str | None = Field(default=None, examples=list(REASON_CODES))


class McpReject(Payload, kind="mcp/reject"):
    """Rejects a proposal. `reason` is one of REASON_CODES or any other text.

    Spec: §3.3.2.
    """

    reason: str | None = Field(default=None, examples=list(REASON_CODES))
