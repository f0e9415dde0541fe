"""`mew-lab bridge`: connects MCP servers to a space of another process as participants, until a signal ends it.

The server is a command or an address, or the servers are those of the file of an MCP client. With `--acp` the command is
a coding agent that speaks the Agent Client Protocol.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mew_lab.bridge.acp import AcpBridge
from mew_lab.bridge.acp_agents import AGENTS
from mew_lab.bridge.acp_tools import AgentTools
from mew_lab.bridge.config_consents import AdmittedServer
from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.remote import is_url
from mew_lab.cli import shell
from mew_lab.errors import ConfigError, MewError
from mew_lab.gateway.auth import token_from, token_path
from mew_lab.lab.config_bridges import admit_file
from mew_lab.lab.shared_options import EXECUTOR, RESULTS, add_shared, executor_arguments
from mew_lab.ledger.unknown_calls import DAY
from mew_lab.protocol.address import Address
from mew_lab.protocol.text import count_of
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.group import run_all
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.result_store import ResultLimits
from mew_lab.settings.environment import state_folder

__all__ = ["add_options", "bridge", "run"]

_TOOLS_TOKEN = ("tools_token_file", "tools_token_env")
Say = Callable[[str], object]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("url", metavar="URL", help="ws://… of the gateway")
    shell.add_elsewhere(parser)
    about = "an environment variable to pass to the server; may be repeated"
    parser.add_argument("--env", action="append", default=[], metavar="VARIABLE", help=about)
    about = "seconds to wait for the server's first answer; default: 30, with npx, uvx and their like 300"
    parser.add_argument("--init-timeout", type=float, metavar="SECONDS", help=about)
    about = "a header for a server at a URL, such as 'Authorization: Bearer ${TOKEN}'; may be repeated"
    parser.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help=about)
    about = "the transport of a server at a URL; default: sse where its path ends with /sse, else http"
    parser.add_argument("--transport", choices=("http", "sse"), help=about)
    about = "how often within a minute a server that ends by itself is started again; default: 0"
    parser.add_argument("--restarts", type=int, default=0, metavar="N", help=about)
    about = "the participant that answers for the server where no person decided its call, such as human"
    parser.add_argument("--owner", metavar="ID", help=about)
    about = (
        "lets the server ask the owner for replies of a model; each is approved there (lab.allow_sampling)"
    )
    parser.add_argument("--sampling", action="store_true", help=about)
    about = "a folder that the server is told of; may be repeated"
    parser.add_argument("--root", action="append", metavar="FOLDER", help=about)
    about = "refuses to repeat a call of unknown outcome even where the tool only reads, or is idempotent"
    parser.add_argument("--strict-unknown", action="store_true", help=about)
    about = "how long an equal call counts as such a repeat; default: 24 hours"
    parser.add_argument("--repeats-within", type=float, metavar="SECONDS", help=about)
    shell.add_mcp_config(parser)
    about = "with --mcp-config: a server of the file; default: all; may be repeated"
    parser.add_argument("--server", action="append", default=[], metavar="NAME", help=about)
    about = "the command is a coding agent that speaks ACP, or the name of a known one, such as claude"
    parser.add_argument("--acp", action="store_true", help=about)
    about = "with --acp: its mode; default: the one that asks most, where that is known"
    parser.add_argument("--mode", metavar="MODE", help=about)
    about = "with --acp: the id of an earlier session to go on with"
    parser.add_argument("--session", metavar="ID", help=about)
    about = "with --acp: the folder of which it may read files by this bridge, and write them as you decide"
    parser.add_argument("--files", metavar="FOLDER", help=about)
    about = "with --acp: prompts after which it asks whether to go on"
    parser.add_argument("--turns", type=int, metavar="N", help=about)
    about = "with --acp: minutes of work after which it asks whether to go on"
    parser.add_argument("--minutes", type=float, metavar="N", help=about)
    about = "with --acp: tokens, as the agent counts them, after which it asks whether to go on"
    parser.add_argument("--tokens", type=int, metavar="N", help=about)
    about = "with --acp: the participant by which it uses the tools of the space, such as a proposer"
    parser.add_argument("--tools-as", metavar="ID", help=about)
    token = parser.add_mutually_exclusive_group()
    about = "with --tools-as: the file with that participant's token; the agent is never given it"
    token.add_argument("--tools-token-file", type=Path, metavar="PATH", help=about)
    about = "with --tools-as: the environment variable with that token"
    token.add_argument("--tools-token-env", metavar="NAME", help=about)
    add_shared(parser, EXECUTOR)
    add_shared(parser, RESULTS)
    about = "the command that starts the server, or the URL of a server that runs elsewhere"
    words = parser.add_argument("words", nargs="+", metavar="-- COMMAND", help=about)
    words.required = False  # with "*", the address alone would fill it, and a command behind the options none


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: An option is missing; or as `bridge`.
    """
    if bool(options.words) == (options.mcp_config is not None):
        raise MewError(
            "Cannot bridge: give the command or the URL of a server behind --, or --mcp-config FILE"
        )
    if options.acp:
        _run_agent(options)
        return
    for name in ("mode", "session", "files", "turns", "minutes", "tokens", "tools_as", *_TOOLS_TOKEN):
        if getattr(options, name) is not None:
            raise MewError(f"Cannot bridge: --{name.replace('_', '-')} is for a coding agent; add --acp")
    more = {
        "space": options.space,
        "start_timeout": options.init_timeout,
        "restarts": options.restarts,
        "owner": options.owner or "",
        "sampling": options.sampling,
        "roots": options.root,
        "strict_unknown": options.strict_unknown,
        "repeats_within": DAY if options.repeats_within is None else options.repeats_within,
        "results": ResultLimits.stated(options),
        **executor_arguments(options),
        "say": shell.say,
    }
    if options.mcp_config is not None:
        _run_file(options, more)
        return
    if not options.as_id:
        raise MewError("Cannot bridge: the server needs a participant id; give one with --as ID")
    shell.check_address(options.url, options)
    token = token_from(file=options.token_file, variable=options.token_env)

    async def work() -> None:
        await bridge(
            options.url,
            options.words[0] if len(options.words) == 1 and is_url(options.words[0]) else options.words,
            token=token,
            participant=options.as_id,
            server={
                "env": tuple(options.env),
                "cwd": Path.cwd(),
                "headers": dict(_header(text) for text in options.header),
                "transport": options.transport,
            },
            ended=shell.end_on_signal(),
            **more,
        )

    with shell.new_runner() as runner:
        runner.run(work())


def _run_agent(options: argparse.Namespace) -> None:
    """Runs a coding agent that speaks ACP as a participant."""
    if not options.as_id or not options.words:
        raise MewError(
            "Cannot bridge: a coding agent needs --as ID, and behind -- its command or the name of a known one"
        )
    for name in _TOOLS_TOKEN:
        if options.tools_as is None and getattr(options, name) is not None:
            raise MewError(
                f"Cannot bridge: --{name.replace('_', '-')} is the token of whom --tools-as names; add that"
            )
    shell.check_address(options.url, options)
    token = token_from(file=options.token_file, variable=options.token_env)
    tools_token = None
    if options.tools_as is not None:
        tools_token = token_from(file=options.tools_token_file, variable=options.tools_token_env)
    words = options.words
    agent = words[0] if len(words) == 1 and words[0] in AGENTS else words

    async def work() -> None:
        ended, why = shell.end_on_signal(), list[str]()

        def on_end(reason: str) -> None:
            why.append(reason)
            ended.set()

        tools = None
        if tools_token is not None:
            client = MEWClient(
                options.url, space=options.space, token=tools_token, participant_id=options.tools_as
            )
            tools = AgentTools(MEWParticipant(client, state=state_folder))
        bridge = AcpBridge(
            options.as_id,
            agent,
            env=tuple(options.env),
            mode=options.mode,
            session=options.session or "",
            starters=(options.owner,) if options.owner else (),
            turns=options.turns,
            minutes=options.minutes,
            tokens=options.tokens,
            files=options.files,
            tools=tools,
            restarts=options.restarts,
            start_timeout=options.init_timeout,
            on_end=on_end,
            on_start=shell.say,
            state=state_folder,
        )
        shell.say(f"starting {bridge.command_line}")
        try:
            await bridge.start(
                MEWClient(options.url, space=options.space, token=token, participant_id=options.as_id)
            )
            shell.say(
                f"{options.as_id} has joined {options.space} at {Address(options.url)}; it {bridge.rule}"
            )
            await ended.wait()
        finally:
            await bridge.stop()
        if why:
            raise MewError(why[0])

    with shell.new_runner() as runner:
        runner.run(work())


def _run_file(options: argparse.Namespace, more: Mapping[str, Any]) -> None:
    """Bridges the servers of a file of an MCP client, each as the participant whose token is at hand."""
    for option, value in (
        ("--env", options.env),
        ("--header", options.header),
        ("--transport", options.transport),
    ):
        if value:
            raise MewError(
                f"Cannot bridge: {option} is for one command; of a server in a file it stands there"
            )
    given = options.token_file is not None or options.token_env is not None
    # The servers are asked for only where the address is right.
    folder = Path(".mew", "tokens")
    check = argparse.Namespace(**{**vars(options), "token_file": options.token_file or folder})
    shell.check_address(options.url, check)
    admitted, left_out = admit_file(options.mcp_config, trusted=options.trust_config, only=options.server)
    for name, why in left_out.items():
        shell.warn(f"{one_line(name, 80)} is left out: {why}")
    if not admitted:
        raise MewError(f"Cannot bridge: no server of {options.mcp_config} can be started")
    if (given or options.as_id) and len(admitted) > 1:
        raise MewError(
            f"Cannot bridge: --as and a token are for one server, and {count_of(len(admitted), 'server')} of "
            f"{options.mcp_config} can start; name it with --server NAME, or leave both out"
        )
    servers = {options.as_id or id: server for id, server in admitted.items()}
    tokens: dict[str, Token] = {}
    for id in servers:
        file = options.token_file if given else token_path(folder, options.space, id)
        try:
            tokens[id] = token_from(file=file, variable=options.token_env)
        except ConfigError as fault:
            if given:
                raise
            shell.warn(f"{id} is left out: {fault}; mew-lab serve --enrol {id}=tool writes it")
    servers = {id: server for id, server in servers.items() if id in tokens}

    async def work() -> None:
        ended = shell.end_on_signal()
        failed: list[MewError] = []

        async def run_one(id: str, server: AdmittedServer) -> None:
            own = asyncio.Event()
            watching = asyncio.create_task(_pass_on(ended, own))
            try:
                if not given:
                    await _check_is_tool(options.url, options.space, tokens[id], id)
                await bridge(
                    options.url, server.command, token=tokens[id], participant=id, server=server.options,
                    ended=own, **more,
                )  # fmt: skip
            except MewError as fault:
                failed.append(fault)
                shell.warn(f"{id} is left out: {fault}")
            finally:
                watching.cancel()

        await run_all(run_one(id, server) for id, server in servers.items())
        if len(failed) == len(servers):  # none, where no token is at hand
            raise MewError(f"Cannot bridge: no server of {options.mcp_config} takes part")

    with shell.new_runner() as runner:
        runner.run(work())


async def _check_is_tool(url: str, space: str, token: Token, participant: str) -> None:
    """Checks that a server does not get the place of an agent or a person, whose name its file has taken.

    Raises:
        MewError: The participant may do more than serve tools; or the gateway does not admit it.
    """
    client = MEWClient(url, space=space, token=token, participant_id=participant)
    await client.connect()
    try:
        for kind in ("mcp/request", "mcp/proposal", "capability/grant"):
            if client.capabilities.permit(kind, to=("x",), payload={"method": "tools/call"}).allowed:
                raise MewError(
                    f"{participant!r} is a participant that may do more than a tool ({kind}); name the server otherwise "
                    "in its file, or give its participant with --as and --token-file"
                )
    finally:
        await client.disconnect()


async def _pass_on(ended: asyncio.Event, own: asyncio.Event) -> None:
    await ended.wait()
    own.set()


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise MewError("Cannot bridge: --header takes NAME: VALUE, such as 'Authorization: Bearer ${TOKEN}'")
    return name.strip(), value.strip()


async def bridge(
    url: str,
    command: list[str] | str,
    *,
    space: str,
    token: Token,
    participant: str,
    server: Mapping[str, Any] | None = None,
    say: Say,
    ended: asyncio.Event,
    **options: Any,
) -> None:
    """Runs an MCP server as a participant of the space at `url`, until `ended` is set or the server ends.

    Args:
        command: The program and its arguments, or the address of a server that runs elsewhere.
        server: The options of `McpBridge` that tell how it is reached, and `options` the others.

    Raises:
        MewError: The server does not start or answer, the gateway does not admit it, or the server ends by itself.
    """
    why: list[str] = []

    def on_end(reason: str) -> None:
        why.append(reason)
        ended.set()

    mcp = McpBridge(
        participant, command, **{"cwd": Path.cwd(), **(server or {})}, on_end=on_end, on_start=say, **options
    )
    say(f"{'connecting to' if isinstance(command, str) else 'starting'} {mcp.command_line}")
    try:
        await mcp.start(MEWClient(url, space=space, token=token, participant_id=participant))
        say(f"{participant} has joined {space} at {Address(url)}")
        await ended.wait()
    finally:
        await mcp.stop()
    if why:
        raise MewError(why[0])
