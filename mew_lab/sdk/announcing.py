"""Who is told that the tools of this participant are others now?  Everybody, once a turn of the loop.

A cell that defines ten tools tells it once. Where it may not or cannot be said it is not: who lists the tools the
next time sees them. Spec: §3.1 (notifications), MCP "List Changed Notification".
"""

from __future__ import annotations

import asyncio
from typing import Any

from mew_lab.sdk.sender import MessageSender

__all__ = ["Announcing"]


class Announcing:
    """The notifications of one participant about its own lists. `answerer` may have a `changed`, as a ToolBox has."""

    def __init__(self, saying: MessageSender, answerer: Any) -> None:
        self._saying = saying
        self._due: set[str] = set()
        changed = getattr(answerer, "changed", None)
        if changed is not None:
            changed.add(self._changed)

    def _changed(self, what: str) -> None:
        if not self._due:
            try:
                asyncio.get_running_loop().call_soon(self._tell)
            except RuntimeError:  # changed on another thread, or before there is a loop
                return
        self._due.add(what)

    def _tell(self) -> None:
        due, self._due = sorted(self._due), set()
        for what in due:
            payload = {"jsonrpc": "2.0", "method": f"notifications/{what}/list_changed"}
            self._saying.quietly("mcp/request", payload)
