"""`mew-lab mcp`: offers a running space to MCP clients as one server, over stdio to one client, or over HTTP.

Over stdio it ends with its client, and the calls that wait are withdrawn at once. Over HTTP it runs until it is
interrupted, and a client that is gone may come back for its calls. With `--config` it starts nothing, and prints the
settings with which a client starts it. With the address of a gate that runs over HTTP it passes a client over stdio on.

The library of MCP loads for most of a second, and a client over stdio waits. So `EarlyAnswers` begins before that, and
what is imported here takes no time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mew_lab.bridge.client_settings import CLIENTS, write_settings
from mew_lab.bridge.early_answers import EarlyAnswers
from mew_lab.cli import shell
from mew_lab.errors import ConfigError, MewError, NotAdmitted
from mew_lab.gateway.auth import ensure_token_file, read_token_file, short_allowed, token_from
from mew_lab.protocol.address import Address
from mew_lab.protocol.kinds import CLOSE_TAKEN
from mew_lab.protocol.token import Token
from mew_lab.settings.environment import state_folder
from mew_lab.settings.waiting import (
    ANSWER_AFTER,
    DECIDE_WITHIN,
    GRACE,
    RUN_WITHIN,
    WITHDRAW_AFTER,
    check_seconds,
)
from mew_lab.transport.folder import hide
from mew_lab.version import VERSION

if TYPE_CHECKING:
    from mew_lab.bridge.call_memory import CallMemory
    from mew_lab.bridge.gate import McpGate

__all__ = ["add_options", "run", "serve"]

# The limits of a gate, in seconds: the default, and what comes after it.
LIMITS = {
    "answer_after": (ANSWER_AFTER, "a call that still waits is answered as pending"),
    "decide_within": (DECIDE_WITHIN, "a call that nobody decided is refused"),
    "run_within": (RUN_WITHIN, "an approved call that its tool has not answered ends as unknown"),
    "grace": (GRACE, "a call does not wait any longer for a client that is gone"),
    "withdraw_after": (WITHDRAW_AFTER, "a call that its client cancelled is withdrawn"),
}
OFFERED = "mcp"  # the folder of the tokens of clients in `.mew`


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = (
        "ws://… of the gateway; or http://127.0.0.1:… of a gate, to which one client over stdio is passed on"
    )
    parser.add_argument("url", metavar="URL", help=about)
    shell.add_elsewhere(parser)
    about = "instead of a run: prints what to paste into the settings of this client"
    parser.add_argument("--config", choices=CLIENTS, help=about)
    about = "serves over HTTP on 127.0.0.1; default port: a free one; without this option over stdio"
    parser.add_argument("--http", metavar="PORT", nargs="?", type=int, const=0, help=about)
    about = "with --http: the file with the token of the clients; default: a new one below .mew"
    parser.add_argument("--client-token-file", metavar="PATH", type=Path, help=about)
    about = "the participant whose tools have their own names, without its name before them"
    parser.add_argument("--bare-names", metavar="PARTICIPANT", default="", help=about)
    for name, (seconds, then) in LIMITS.items():
        about = f"seconds after which {then}; default: {seconds:g}"
        parser.add_argument(_flag(name), type=_seconds, default=seconds, metavar="S", help=about)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _seconds(word: str) -> float:
    try:
        return check_seconds(float(word), key="seconds")
    except (ValueError, ConfigError):
        raise argparse.ArgumentTypeError(
            f"{word[:20]!r} is no number of seconds above 0, up to 30 days"
        ) from None


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: An option is missing; or as `serve`.
    """
    if options.url.startswith("http://"):
        _pass_on(options)
        return
    shell.check_address(options.url, options)
    token = token_from(file=options.token_file, variable=options.token_env)
    if options.config is not None:
        _print_settings(options)
        return
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
            **{name: getattr(options, name) for name in LIMITS},
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
            holder = memory.find_holder() if fault.close_code == CLOSE_TAKEN else ""
            if holder:
                raise NotAdmitted(f"{fault}. On this computer, {holder} has it", space=fault.space) from None
            raise

    with shell.new_runner() as runner:
        runner.run(work())


def _pass_on(options: argparse.Namespace) -> None:
    """Passes one client over stdio on to a gate that runs over HTTP on this machine.

    Raises:
        MewError: The token is missing; or as `relay`.
    """
    token = token_from(file=options.token_file, variable=options.token_env)
    from mew_lab.bridge.mcp_relay import relay

    async def work() -> None:
        await relay(options.url, token, ended=shell.end_on_signal())

    with shell.new_runner() as runner:
        runner.run(work())


def _print_settings(options: argparse.Namespace) -> None:
    """Prints what to paste into the settings of a client; where it belongs goes to stderr.

    Raises:
        MewError: The client cannot start the gate with these options.
    """
    if options.http is not None:
        raise MewError("Cannot write settings: a client starts the gate itself, so leave out --http")
    if secret := Address(options.url).find_secret():
        raise MewError(f"Cannot write settings: the address has {secret}, and settings hold no secret")
    command = [*_program(), "mcp", options.url, "--space", options.space]
    if options.token_file is not None:
        command += ["--token-file", str(options.token_file.absolute())]
    else:
        command += ["--token-env", options.token_env]
    command += ["--as", options.as_id] if options.as_id else []
    command += ["--bare-names", options.bare_names] if options.bare_names else []
    for name, (usual, _) in LIMITS.items():
        if name != "answer_after" and (seconds := getattr(options, name)) != usual:
            command += [_flag(name), f"{seconds:g}"]
    settings = write_settings(
        options.config,
        space=options.space,
        command=command,
        variable=options.token_env or "",
        answer_after=options.answer_after,
    )
    shell.say(settings.text)
    shell.warn(settings.where)


def _program() -> list[str]:
    """The command `mew-lab` of this interpreter, by its path: a client may have another PATH."""
    beside = Path(sys.executable).parent / "mew-lab"
    return [str(beside)] if beside.is_file() else [sys.executable, "-m", "mew_lab.cli"]


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
    shell.end_when_lost(client, ended)
    async with gate:
        if http is None:
            await serve_stdio(gate.server, ended=ended, early=early)
        else:
            from mew_lab.bridge.mcp_http import (
                McpHttpServer,  # what it needs takes a client over stdio too long
            )

            place = token_file or ensure_token_file(Path.cwd() / ".mew", OFFERED, client.id)
            token = read_token_file(place, short=short_allowed())
            named = "the token in the file that mew-lab mcp prints"
            async with McpHttpServer(gate.server, token=token, token_name=named, port=http) as server:
                say(f"{client.space} is offered at {server.url} as {client.id}, with the token in {place}")
                await ended.wait()
    shell.raise_failure(client)


def _memory(url: str, space: str, token: Token, as_id: str | None) -> CallMemory:
    """What this participant's gate remembers over a crash, in a file below `.mew`."""
    from mew_lab.bridge.call_memory import CallMemory
    from mew_lab.protocol.envelope import digest
    from mew_lab.sdk.connection import identify_gateway

    folder = Path.cwd() / ".mew"
    folder.mkdir(mode=0o700, exist_ok=True)
    hide(folder)
    name = digest([identify_gateway(url), space, token.reveal(), as_id])[:16]
    return CallMemory(folder / OFFERED / "calls" / f"{name}.json")
