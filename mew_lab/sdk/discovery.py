"""Which tools does another participant have?  Asks it, page by page; it remembers nothing.

Spec: §3.1, SDK "Tool Discovery".
"""

from __future__ import annotations

from typing import Any

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.asking import Asking
from mew_lab.sdk.client import MEWClient

__all__ = ["Discovery", "list_tools"]

MAX_PAGES = 100  # a list without end must end


async def list_tools(asking: Asking, participant: str, *, timeout: float | None) -> list[dict[str, Any]]:
    """The entries of `tools/list`; what is no entry is left out.

    Raises:
        CapabilityViolation: the request is not permitted; it is never proposed.
        ToolFailed, NoReply, ConnectionLost: as a call.
    """
    tools: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        payload = {"method": "tools/list", **({"params": params} if params else {})}
        what = f"{participant}/tools/list"
        answer = await asking.ask((participant,), payload, what=what, timeout=timeout, kind="mcp/request")
        page = answer if isinstance(answer, dict) else {}
        listed, cursor = page.get("tools"), page.get("nextCursor")
        tools += [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
        if not isinstance(cursor, str) or cursor == params.get("cursor"):
            break
        params = {"cursor": cursor}
    return tools


class Discovery:
    """Whose tools one participant knows."""

    def __init__(self, client: MEWClient, asking: Asking) -> None:
        self._client = client
        self._asking = asking

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""

    def lost(self) -> None:
        """The connection ended; another may follow."""
