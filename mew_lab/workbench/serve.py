"""What runs until it is told to stop?  A space without anybody in front of it, and a bridge into a space elsewhere.

Both print through `say` and end when `ended` is set; they read no arguments and catch no signals.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mew_lab.bridge.mcp import McpBridge
from mew_lab.errors import MewError
from mew_lab.gateway.keyring import variable
from mew_lab.gateway.space_file import SpaceFile
from mew_lab.log.journal import journal_path
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.workbench.host import Host
from mew_lab.workbench.resuming import Past

__all__ = ["bridge", "serve", "serve_again", "serve_file"]

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

    async def open_() -> list[str]:
        await one.open(owner=owner, can="human")
        return [owner]

    await _serve(one, path, open_, enrolled=enrolled, say=say, ended=ended)


async def serve_file(
    file: SpaceFile,
    *,
    person: str | None,
    enrolled: Iterable[tuple[str, str]] = (),
    journal: Path | None,
    host: str,
    port: int,
    auto_start: bool = True,
    say: Say,
    ended: asyncio.Event,
) -> None:
    """Serves the space that a space.yaml describes, with its programs; tells what `serve` tells.

    Args:
        person: Who owns it where the file names no owner; None: nobody does.
        enrolled: Participants besides those of the file, each with its profile.
        auto_start: Whether the programs of the file are started.

    Raises:
        MewError: when the space cannot be opened, the port is not to be had, or the journal cannot be made.
    """
    config = file.config
    path = journal or journal_path(file.folder, space=config.name, now=datetime.now(UTC))
    one = Host(config.name, folder=file.folder, journal=path, host=host, port=port)

    async def open_() -> list[str]:
        for remark in file.remarks:
            say(f"note: {remark}")
        await one.open_file(file, person=person, fault=say)
        return list(one.keys)

    async def start() -> None:
        if auto_start:
            await one.start_programs(file, tell=say, fault=say)

    await _serve(one, path, open_, start, enrolled=enrolled, say=say, ended=ended)


async def serve_again(
    journal: Path,
    *,
    enrolled: Iterable[tuple[str, str]] = (),
    host: str,
    port: int,
    say: Say,
    ended: asyncio.Event,
) -> None:
    """Serves a space that ran before, on from its journal, on its port where that is free; tells what `serve` tells.

    Raises:
        MewError: when the journal cannot be read or gone on with, or the port is not to be had.
    """
    past = Past(journal)
    one = Host(past.name, folder=past.folder, journal=None, host=host, port=port, past=past)

    async def open_() -> list[str]:
        person = past.owner or "human"
        await one.resume(person=person)
        return [person, *(name for name in one.keys if name != person)]

    await _serve(one, journal, open_, enrolled=enrolled, say=say, ended=ended)


async def _serve(
    one: Host,
    journal: Path,
    open_: Callable[[], Awaitable[list[str]]],
    start: Callable[[], Awaitable[None]] | None = None,
    *,
    enrolled: Iterable[tuple[str, str]],
    say: Say,
    ended: asyncio.Event,
) -> None:
    try:
        names = await open_()
        for participant, profile in enrolled:
            one.enrol(participant, profile)
            names += [participant] if participant not in names else []
        say(f"space {one.name} at {one.url}")
        say(f"journal {journal}")
        for participant in names:
            say(f"{participant}: {_join_line(one, participant)}")
        if start is not None:
            await start()
        await ended.wait()
    finally:
        await one.close()
    say(f"space {one.name} is down; the journal stays in {journal}")


def _join_line(one: Host, participant: str) -> str:
    key = one.keys.get(participant)
    by_environment = key is not None and key.file is None
    token = (
        ["--token-env", variable(participant)]
        if by_environment
        else ["--token-file", str(one.token_file(participant))]
    )
    return shlex.join(["mew-lab", "join", one.url, "--space", one.name, *token])


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
