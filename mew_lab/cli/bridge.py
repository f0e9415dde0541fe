"""`mew-lab bridge`: connects an MCP server to a space of another process as a participant, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.remote import is_url
from mew_lab.cli import shell
from mew_lab.errors import MewError
from mew_lab.lab.labs import token_from
from mew_lab.ledger.unknown_calls import DAY
from mew_lab.protocol.address import Address
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.result_store import ResultLimits

__all__ = ["bridge", "run"]

Say = Callable[[str], object]


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: An option is missing; or as `bridge`.
    """
    if not options.as_id:
        raise MewError("Cannot bridge: the server needs a participant id; give one with --as ID")
    shell.check_address(options.url, options)
    token = token_from(file=options.token_file, variable=options.token_env)

    async def work() -> None:
        await bridge(
            options.url,
            options.words,
            space=options.space,
            token=token,
            participant=options.as_id,
            env=options.env,
            headers=dict(_header(text) for text in options.header),
            transport=options.transport,
            start_timeout=options.init_timeout,
            restarts=options.restarts,
            owner=options.owner or "",
            sampling=options.sampling,
            roots=options.root,
            strict_unknown=options.strict_unknown,
            repeats_within=DAY if options.repeats_within is None else options.repeats_within,
            results=_limits(options),
            say=shell.say,
            ended=shell.end_on_signal(),
        )

    with shell.new_runner() as runner:
        runner.run(work())


def _limits(options: argparse.Namespace) -> ResultLimits:
    """What is kept of results that no message can hold."""
    names = zip(ResultLimits._fields, ("result_bytes", "results_bytes", "results_seconds"), strict=True)
    stated = {field: getattr(options, name) for field, name in names}
    return ResultLimits()._replace(**{k: told for k, told in stated.items() if told is not None}).checked()


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise MewError("Cannot bridge: --header takes NAME: VALUE, such as 'Authorization: Bearer ${TOKEN}'")
    return name.strip(), value.strip()


async def bridge(
    url: str,
    command: Sequence[str],
    *,
    space: str,
    token: Token,
    participant: str,
    env: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    transport: str | None = None,
    start_timeout: float = 20.0,
    restarts: int = 0,
    owner: str = "",
    sampling: bool = False,
    roots: Sequence[str] | None = None,
    strict_unknown: bool = False,
    repeats_within: float = DAY,
    results: ResultLimits | None = None,
    say: Say,
    ended: asyncio.Event,
) -> None:
    """Runs an MCP server as a participant of the space at `url`, until `ended` is set or the server ends.

    Raises:
        MewError: The server does not start or answer, the gateway does not admit it, or the server ends by itself.
    """
    why: list[str] = []

    def on_end(reason: str) -> None:
        why.append(reason)
        ended.set()

    remote = len(command) == 1 and is_url(command[0])
    server = McpBridge(
        participant,
        command[0] if remote else list(command),
        env=tuple(env),
        cwd=Path.cwd(),
        headers=headers,
        transport=transport,
        on_end=on_end,
        start_timeout=start_timeout,
        restarts=restarts,
        owner=owner,
        sampling=sampling,
        roots=roots,
        strict_unknown=strict_unknown,
        repeats_within=repeats_within,
        results=results,
    )
    say(f"{'connecting to' if remote else 'starting'} {server.command_line}")
    try:
        await server.start(MEWClient(url, space=space, token=token, participant_id=participant))
        say(f"{participant} has joined {space} at {Address(url)}")
        await ended.wait()
    finally:
        await server.stop()
    if why:
        raise MewError(why[0])
