"""`mew-lab mcp`: offers a running space to an MCP client as one server, over stdio, until the client ends."""

from __future__ import annotations

import argparse
import asyncio

from mew_lab.bridge.gate import McpGate
from mew_lab.bridge.mcp_server import serve_stdio
from mew_lab.cli import shell
from mew_lab.errors import MewError
from mew_lab.lab.labs import token_from
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["run", "serve"]


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: An option is missing; or as `serve`.
    """
    shell.check_address(options.url, options)
    token = token_from(file=options.token_file, variable=options.token_env)

    async def work() -> None:
        client = MEWClient(
            options.url, space=options.space, token=token, participant_id=options.as_id or None
        )
        gate = McpGate(
            MEWParticipant(client),
            answer_after=options.answer_after,
            decide_within=options.decide_within,
            grace=options.grace,
        )
        await serve(gate, ended=shell.end_on_signal())

    with shell.new_runner() as runner:
        runner.run(work())


async def serve(gate: McpGate, *, ended: asyncio.Event) -> None:
    """Serves one client over stdio until it ends, `ended` is set, or the space is lost for good.

    Raises:
        MewError: The gateway does not admit the participant, or removes it.
    """
    client = gate.participant.client
    client.on_disconnected(lambda _: ended.set() if client.state == "disconnected" else None)
    async with gate:
        await serve_stdio(gate.server, ended=ended)
    if isinstance(client.failure, MewError):
        raise client.failure
