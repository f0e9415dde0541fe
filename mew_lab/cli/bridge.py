"""The command `mew-lab bridge`: lets an MCP server take part in a space elsewhere, until it is told to stop.

It prints through `say` and ends when `ended` is set; it reads no arguments and catches no signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from mew_lab.bridge.mcp import McpBridge
from mew_lab.errors import MewError
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient

__all__ = ["bridge"]

Say = Callable[[str], object]


async def bridge(
    url: str,
    command: Sequence[str],
    *,
    space: str,
    token: Token,
    participant: str,
    env: Sequence[str],
    start_timeout: float = 20.0,
    say: Say,
    ended: asyncio.Event,
) -> None:
    """Lets an MCP server take part in the space at `url`, until `ended` or until the server ends.

    Raises:
        MewError: when the server does not start, the gateway does not let it in, or the server ends by itself.
    """
    why: list[str] = []

    def on_end(reason: str) -> None:
        why.append(reason)
        ended.set()

    server = McpBridge(
        participant, list(command), env=tuple(env), cwd=Path.cwd(), on_end=on_end, start_timeout=start_timeout
    )
    say(f"starting {server.command_line}")
    try:
        await server.start(MEWClient(url, space=space, token=token, participant_id=participant))
        say(f"{participant} has joined {space} at {url}")
        await ended.wait()
    finally:
        await server.stop()
    if why:
        raise MewError(why[0])
