"""Gives a coding agent the tools of a space: a gate of its own, which its MCP client reaches for as long as it lives.

The gate is a participant beside the agent, so what it may not send is proposed. It is served on the loopback, with a
token that is made here and that no file has. An agent whose MCP client does not take HTTP starts `mew-lab mcp`, which
passes its messages on and reads the token from a file that only this user can read. With the end of the agent the server
ends, so that the token opens nothing any more, and the file is removed.

Spec: §3.1, §3.2; Agent Client Protocol 1, "session/new"; threat 40.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Hashable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mew_lab.bridge.acp_once import AllowedOnce
from mew_lab.gateway.auth import mint, write_token_file
from mew_lab.log.child_process import PACKAGE
from mew_lab.sdk.participant import MEWParticipant

if TYPE_CHECKING:
    from mew_lab.bridge.gate import McpGate

__all__ = ["AgentTools"]

FILE_SPACE = "gate"  # the folder of the token file, within one of its own


class AgentTools:
    """The gate of one agent. `server` is its name among the MCP servers of the agent; no other has that name.

    Args:
        participant: the participant that speaks for the agent; the gate starts and stops it.
        on_join: called before it joins, such as to enrol it.
        limits: those of `McpGate`.
    """

    def __init__(
        self, participant: MEWParticipant, *, on_join: Callable[[], object] = lambda: None, **limits: float
    ) -> None:
        self.participant = participant
        self._on_join = on_join
        self.server = f"mew-{secrets.token_hex(3)}"
        self.allowed = AllowedOnce(self.server)
        self._limits = limits
        self._token = mint()
        self._folder: Path | None = None
        self._url = ""
        self._gate: McpGate | None = None
        self._parts = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<AgentTools {self.server}: {self._url or 'not open'}>"

    async def open(self) -> None:
        """Joins the space and listens, if it does not yet; raises as `McpGate.start` and `McpHttpServer`."""
        if self._gate is not None:
            return
        gate_type, server_type = await asyncio.to_thread(_load)
        self._on_join()
        async with AsyncExitStack() as parts:
            gate = await parts.enter_async_context(gate_type(self.participant, **self._limits))
            server = await parts.enter_async_context(
                server_type(gate.server, token=self._token, token_name="the token of this agent")
            )
            self._gate, self._url = gate, server.url
            self._parts = parts.pop_all()

    def entry(self, *, http: bool) -> dict[str, Any]:
        """The gate as a session of the Agent Client Protocol names an MCP server. It must not be shown.

        Args:
            http: whether the agent takes servers over HTTP.
        """
        if http:
            bearer = {"name": "Authorization", "value": f"Bearer {self._token.reveal()}"}
            return {"type": "http", "name": self.server, "url": self._url, "headers": [bearer]}
        words = ["-P", "-m", "mew_lab.cli", "mcp", self._url, "--token-file", str(self._write_token())]
        path = {"name": "PYTHONPATH", "value": str(PACKAGE)}
        return {"name": self.server, "command": sys.executable, "args": words, "env": [path]}

    def _write_token(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="mew-lab-"))
        return write_token_file(self._folder, FILE_SPACE, self.participant.client.id or "agent", self._token)

    def take_allowed(
        self, participant: str, tool: str, arguments: Mapping[str, Any], *, span: Hashable, now: float
    ) -> str:
        """The permission that counts for a call of that tool, as `AllowedOnce.take` gives it."""
        name = self._gate.name_of(participant, tool) if self._gate is not None else ""
        return self.allowed.take(name, arguments, span=span, now=now) if name else ""

    async def close(self) -> None:
        """Ends the server, withdraws the calls that wait, leaves the space and removes the file of the token."""
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        self._gate = None
        await self._parts.aclose()


def _load() -> Any:
    from mew_lab.bridge.gate import McpGate
    from mew_lab.bridge.mcp_http import McpHttpServer

    return McpGate, McpHttpServer
