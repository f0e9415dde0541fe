"""`McpSeat`: a participant of this process through which MCP clients use the space, over HTTP on this machine.

The library of the gate loads for a second, so it is loaded at the first use, in a thread.

Spec: §3.1, §3.2; MCP "Streamable HTTP".
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from mew_lab.bridge.client_settings import CLIENTS, ClientSettings, claude_entry, write_settings
from mew_lab.bridge.offers import LISTING
from mew_lab.gateway.auth import ensure_token_file, read_token_file, short_allowed
from mew_lab.gateway.keyring import variable
from mew_lab.lab.host import capabilities_of
from mew_lab.lab.seat import Seat
from mew_lab.lab.session import Session
from mew_lab.protocol.token import remember
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.settings.waiting import ANSWER_AFTER

__all__ = ["McpSeat", "open_mcp_seat", "with_lists"]

OFFERED = "mcp"  # the folder of the tokens of clients in `.mew`


@explains_arguments
class McpSeat(Seat):
    """A participant that MCP clients speak through. `url` is their address, `token_file` the file with their token."""

    def __init__(
        self,
        session: Session,
        participant: MEWParticipant,
        *,
        name: str,
        url: str,
        token_file: Path,
        answer_after: float,
        parts: AsyncExitStack,
    ) -> None:
        super().__init__(session, participant, name=name, what=f"MCP clients at {url}")
        self.url = url
        self.token_file = token_file
        self._answer_after = answer_after
        self._parts = parts  # closed in reverse order: the server, then the gate

    def __repr__(self) -> str:
        others = ", ".join(client for client in CLIENTS if client != "zed")
        return (
            f"MCP clients take part as {self.name} at {self.url}. Claude Code is told so:\n{self.line}\n"
            f".settings(CLIENT) shows what to paste for {others}"
        )

    @property
    def line(self) -> str:
        """A shell line that adds the space to a coding agent, which reads the token from its file."""
        entry = json.dumps(claude_entry({"url": self.url, "headers": {"Authorization": "Bearer TOKEN"}}))
        read = f'"$(cat {shlex.quote(str(self.token_file))})"'
        return f"claude mcp add-json {shlex.quote(self.lab.space)} '{entry}'".replace("TOKEN", f"'{read}'")

    def settings(self, client: str) -> ClientSettings:
        """What to paste into the settings of a client, such as `codex`, and where; the last line of a cell shows it.

        Raises:
            MewError: No settings are known for that client, or it cannot keep the token out of them.
        """
        return write_settings(
            client,
            space=self.lab.space,
            url=self.url,
            variable=variable(self.name).replace(".", "_"),  # no shell sets one with a dot
            token_file=self.token_file,
            answer_after=self._answer_after,
        )

    async def aclose(self) -> None:
        """Ends the server, withdraws the calls that wait, and leaves the space."""
        await self._parts.aclose()


def with_lists(can: str | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The patterns of a profile, or the given ones, and the right to ask what others offer."""
    return [*capabilities_of(can), *LISTING]


async def open_mcp_seat(
    session: Session,
    participant: MEWParticipant,
    *,
    folder: Path,
    name: str,
    port: int,
    state: Callable[[], Path | None],
    bare_names: str = "",
    **limits: float,
) -> McpSeat:
    """Joins the space with a gate and serves it.

    Args:
        folder: the `.mew` of the space, for the token of the clients.
        port: 0 takes a free one.
        state: gives the user's folder for state, where no server of this lab has access to it.
        bare_names: as `McpGate` has it.
        limits: `answer_after`, `decide_within`, `run_within`, `grace` and `withdraw_after` of the gate.

    Raises:
        ConfigError: The port is taken, or the token file cannot be used.
    """
    gate_type, memory_type, server_type = await asyncio.to_thread(_load)
    file = ensure_token_file(folder, OFFERED, name)
    token = read_token_file(file, short=short_allowed())
    remember(token)
    async with AsyncExitStack() as parts:
        gate = await parts.enter_async_context(
            gate_type(
                participant,
                lists=memory_type(state, space=session.space, token=token, name=name),
                bare_names=bare_names,
                **limits,
            )
        )
        named = f"the token in {file}"
        server = await parts.enter_async_context(
            server_type(gate.server, token=token, token_name=named, port=port)
        )
        own = parts.pop_all()
    return McpSeat(
        session,
        participant,
        name=name,
        url=server.url,
        token_file=file,
        answer_after=limits.get("answer_after", ANSWER_AFTER),
        parts=own,
    )


def _load() -> Any:
    from mew_lab.bridge.gate import McpGate
    from mew_lab.bridge.list_memory import ListMemory
    from mew_lab.bridge.mcp_http import McpHttpServer

    return McpGate, ListMemory, McpHttpServer
