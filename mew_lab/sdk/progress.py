"""Relays the progress of a request that is being answered to its sender, where the sender asked for it.

Spec: §3.1, MCP "Progress".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Protocol

from mew_lab.errors import MewError
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED

__all__ = ["OnProgress", "progress_relay"]

METHOD = "notifications/progress"
EVERY = 0.1  # seconds between two reports of one request; the last one is always relayed


class OnProgress(Protocol):
    """What takes the progress of a request: how much is done, of how much if that is known, and a text."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


def progress_relay(participant: MEWParticipant) -> OnProgress | None:
    """What relays progress to the sender of the request that `participant` is answering; None where none is wanted."""
    asked = ASKED.get()
    if asked is None or (token := _token_of(asked.payload)) is None:
        return None
    last = -EVERY

    async def relay(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last
        now = asyncio.get_running_loop().time()
        if now - last < EVERY and (total is None or progress < total):
            return
        last = now
        report = {"progressToken": token, "progress": progress, "total": total, "message": message}
        known = {name: value for name, value in report.items() if value is not None}
        draft = {
            "kind": "mcp/request",
            "to": [asked.sender],
            "correlation_id": [asked.id],
            "payload": {"jsonrpc": "2.0", "method": METHOD, "params": known},
        }
        if participant.can_send(draft):
            with contextlib.suppress(MewError):
                participant.client.post(draft)

    return relay


def _token_of(payload: Mapping[str, object]) -> str | int | None:
    """The progress token of a request; None where it has none."""
    params = payload.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None
