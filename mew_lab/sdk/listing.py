"""Which tools does a participant list?  Asks it, page by page; it remembers nothing.

Spec: §3.1, SDK "Tool Discovery".
"""

from __future__ import annotations

from typing import Any

from mew_lab.sdk.correlations import Correlations

__all__ = ["list_tools"]

MAX_PAGES = 100  # a list without end must end


async def list_tools(
    correlations: Correlations, participant: str, *, timeout: float | None, limit: int | None = None
) -> list[dict[str, Any]]:
    """The entries of `tools/list`; what is no entry is left out.

    Args:
        timeout: seconds for each page.
        limit: no further page is asked for once there are as many entries; the last page counts whole.

    Raises:
        CapabilityViolation: the request is not permitted; it is never proposed.
        ToolFailed, NoReply, ConnectionLost: as a call.
    """
    tools: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    followed: set[str] = set()
    for _ in range(MAX_PAGES):
        payload = {"method": "tools/list", **({"params": params} if params else {})}
        what = f"{participant}/tools/list"
        answer = await correlations.call(
            (participant,), payload, what=what, timeout=timeout, kind="mcp/request"
        )
        page = answer if isinstance(answer, dict) else {}
        listed, cursor = page.get("tools"), page.get("nextCursor")
        tools += [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
        if not isinstance(cursor, str) or cursor in followed or (limit is not None and len(tools) >= limit):
            break
        followed.add(cursor)
        params = {"cursor": cursor}
    return tools
