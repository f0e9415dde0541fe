"""What runs until it is told to stop?  A space without anybody in front of it, and a bridge into a space elsewhere.

Both print through `say` and end when `ended` is set; they read no arguments and catch no signals.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mew_lab.bridge.mcp import McpBridge
from mew_lab.errors import MewError
from mew_lab.log.journal import journal_path
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.workbench.host import Host

__all__ = ["bridge", "serve"]

Say = Callable[[str], object]


async def serve(
    name: str,
    *,
    owner: str,
    enrolled: Iterable[tuple[str, str]],
    folder: Path,
    journal: Path | None,
    host: str,
    port: int,
    say: Say,
    ended: asyncio.Event,
) -> None:
    """Serves a space; tells its address, its journal, and for each participant the line that joins as it.

    Args:
        enrolled: Participants besides the owner, each with its profile.
        folder: Where token files and, unless `journal` names a file, the journal are put.

    Raises:
        MewError: when the space cannot be opened, the port is not to be had, or the journal cannot be made.
    """
    path = journal or journal_path(folder, space=name, now=datetime.now(UTC))
    one = Host(name, folder=folder, journal=path, host=host, port=port)
    try:
        await one.open(owner=owner, can="human")
        names = [owner]
        for participant, profile in enrolled:
            one.enrol(participant, profile)
            names.append(participant)
        say(f"space {name} at {one.url}")
        say(f"journal {path}")
        for participant in names:
            words = [
                "mew-lab",
                "join",
                one.url,
                "--space",
                name,
                "--token-file",
                str(one.token_file(participant)),
            ]
            say(f"{participant}: {shlex.join(words)}")
        await ended.wait()
    finally:
        await one.close()
    say(f"space {name} is down; the journal stays in {path}")


async def bridge(
    url: str,
    command: Sequence[str],
    *,
    space: str,
    token: Token,
    participant: str,
    env: Sequence[str],
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

    server = McpBridge(participant, list(command), env=tuple(env), cwd=Path.cwd(), on_end=on_end)
    say(f"starting {server.command_line}")
    try:
        await server.start(MEWClient(url, space=space, token=token, participant_id=participant))
        say(f"{participant} has joined {space} at {url}")
        await ended.wait()
    finally:
        await server.stop()
    if why:
        raise MewError(why[0])
