"""`mew-lab mcp`: offers a running space to MCP clients as one server, over stdio to one client, or over HTTP.

Over stdio it ends with its client, and the calls that wait are withdrawn at once. Over HTTP it runs until it is
interrupted, and a client that is gone may come back for its calls.

The library of MCP loads for most of a second, and a client over stdio waits. So `EarlyAnswers` begins before that, and
what is imported here takes no time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mew_lab.bridge.early_answers import EarlyAnswers
from mew_lab.cli import shell
from mew_lab.errors import MewError, NotAdmitted
from mew_lab.gateway.auth import ensure_token_file, read_token_file, short_allowed, token_from
from mew_lab.protocol.token import Token
from mew_lab.settings.environment import state_folder
from mew_lab.transport.folder import hide
from mew_lab.version import VERSION

if TYPE_CHECKING:
    from mew_lab.bridge.call_memory import CallMemory
    from mew_lab.bridge.gate import McpGate

__all__ = ["run", "serve"]

TAKEN = 4409  # the code with which a gateway refuses an id that is connected already
OFFERED = "mcp"  # the folder of the tokens of clients in `.mew`


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: An option is missing; or as `serve`.
    """
    shell.check_address(options.url, options)
    token = token_from(file=options.token_file, variable=options.token_env)
    early = None
    if options.http is None:
        key = [VERSION, options.space, token.reveal(), options.as_id, options.bare_names]
        early = EarlyAnswers(state_folder(), key=key, url=options.url)
        early.start()
    gc.disable()  # a collection finds nothing while modules are loaded
    from mew_lab.bridge.gate import McpGate
    from mew_lab.bridge.list_memory import ListMemory
    from mew_lab.sdk.client import MEWClient
    from mew_lab.sdk.participant import MEWParticipant

    gc.enable()
    memory = _memory(options.url, options.space, token, options.as_id)

    async def work() -> None:
        client = MEWClient(
            options.url, space=options.space, token=token, participant_id=options.as_id or None
        )
        gate = McpGate(
            MEWParticipant(client, state=state_folder),
            answer_after=options.answer_after,
            decide_within=options.decide_within,
            run_within=options.run_within,
            grace=options.grace,
            withdraw_after=options.withdraw_after,
            memory=memory,
            lists=ListMemory(state_folder, space=options.space or "", token=token, name=options.as_id or ""),
            bare_names=options.bare_names,
        )
        try:
            await serve(
                gate,
                http=options.http,
                token_file=options.client_token_file,
                ended=shell.end_on_signal(),
                say=shell.say,
                early=early,
            )
        except NotAdmitted as fault:
            holder = memory.find_holder() if fault.close_code == TAKEN else ""
            if holder:
                raise NotAdmitted(f"{fault}. On this computer, {holder} has it", space=fault.space) from None
            raise

    with shell.new_runner() as runner:
        runner.run(work())


async def serve(
    gate: McpGate,
    *,
    http: int | None,
    ended: asyncio.Event,
    say: Callable[[str], object],
    token_file: Path | None = None,
    early: EarlyAnswers | None = None,
) -> None:
    """Serves clients until the one over stdio ends, `ended` is set, or the space is lost for good.

    Over HTTP, on the port `http`, every request must carry the token in `token_file`; None means a file below `.mew`,
    which is created where it is missing.

    `early` has read stdin until now.

    Raises:
        MewError: The gateway does not admit the participant, or removes it; the port is taken.
    """
    from mew_lab.bridge.mcp_server import serve_stdio

    client, loop = gate.participant.client, asyncio.get_running_loop()
    if early is not None:
        early.on_difference = lambda listed: loop.call_soon_threadsafe(gate.note_other_list, listed)
    client.on_disconnected(lambda _: ended.set() if client.state == "disconnected" else None)
    async with gate:
        if http is None:
            await serve_stdio(gate.server, ended=ended, early=early)
        else:
            from mew_lab.bridge.mcp_http import (
                McpHttpServer,  # what it needs takes a client over stdio too long
            )

            place = token_file or _token_file(client.id)
            token = read_token_file(place, short=short_allowed())
            named = "the token in the file that mew-lab mcp prints"
            async with McpHttpServer(gate.server, token=token, token_name=named, port=http) as server:
                say(f"{client.space} is offered at {server.url} as {client.id}, with the token in {place}")
                await ended.wait()
    if isinstance(client.failure, MewError):
        raise client.failure


def _memory(url: str, space: str, token: Token, as_id: str | None) -> CallMemory:
    """What this participant's gate remembers over a crash, in a file below `.mew`."""
    from mew_lab.bridge.call_memory import CallMemory
    from mew_lab.protocol.envelope import digest

    folder = Path.cwd() / ".mew"
    folder.mkdir(mode=0o700, exist_ok=True)
    hide(folder)
    name = digest([url, space, token.reveal(), as_id])[:16]
    return CallMemory(folder / OFFERED / "calls" / f"{name}.json")


def _token_file(participant: str) -> Path:
    """The token file of the clients of a participant; created where it is missing."""
    folder = Path.cwd() / ".mew"
    path = ensure_token_file(folder, OFFERED, participant)
    hide(folder)
    return path
