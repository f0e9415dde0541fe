"""`mew-lab tools-agent`: checks an agent file, serves it as tools, joins a space with it, or runs one call of it.

Spec: tools-agent.md "MCP Server Project", TA-16, TA-51, TA-52, TA-54, TA-64.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mew_lab.cli import shell
from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import ensure_token_file, read_token_file, short_allowed, token_from
from mew_lab.protocol.filename import folder_name, is_plain
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.tools import RpcError
from mew_lab.tools_agent.agent_file import read_agent_file
from mew_lab.tools_agent.definition import AgentDefinition
from mew_lab.tools_agent.executor import Execution
from mew_lab.tools_agent.home import Home, model_for
from mew_lab.tools_agent.member import ToolsAgent
from mew_lab.tools_agent.remarks import list_ignored, list_remarks
from mew_lab.tools_agent.template import fill_prompt

__all__ = ["add_options", "call", "check", "join", "run", "serve"]

logger = logging.getLogger(__name__)
Say = Callable[[str], object]
SERVED = "tools-agents"  # the folder of their tokens in `.mew`
LOOK_EVERY = 1.0  # seconds between two looks at a served file
MAX_SHOWN = 300  # characters of the arguments or the result of a call, in one line


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    actions = parser.add_subparsers(dest="action", required=True)
    abouts = {
        "serve": "serves the agent to one client over stdio, or to several over HTTP on this machine",
        "join": "runs the agent in a running space, with the tools of the other participants",
        "check": "reports the faults of the agent file, and remarks for its author",
        "call": "runs one call; prints the tools that were called and the result",
    }
    for name, about in abouts.items():
        action = actions.add_parser(name, help=about, description=about, allow_abbrev=False)
        action.add_argument("file", metavar="FILE", type=Path, help="the agent file, YAML or JSON")
        if name == "check":
            continue
        if name == "serve":
            about = "serves over HTTP on 127.0.0.1; default port: a free one; without this option over stdio"
            action.add_argument("--http", metavar="PORT", nargs="?", type=int, const=0, help=about)
            about = "with --http: the file with the token of the clients; default: a new one beside the agent file"
            action.add_argument("--token-file", metavar="PATH", type=Path, help=about)
        elif name == "join":
            action.add_argument("url", metavar="URL", help="ws://… of the gateway")
            shell.add_elsewhere(action)
            about = "also uses tools that it may only propose: such a call waits for a participant that approves it"
            action.add_argument("--propose", action="store_true", help=about)
            about = "proposes each call that needs a permission by the agent file, too; it includes --propose"
            action.add_argument("--interactive", action="store_true", help=about)
        else:
            action.add_argument("tool", metavar="TOOL", help="the name of the tool")
            action.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="its arguments")
        action.add_argument("--model", metavar="NAME", help="another model than that of the agent file")
        shell.add_model_server(action)
        about = "runs an agent file that names supervisors, which review nothing here"
        action.add_argument("--without-supervisors", action="store_true", help=about)


def run(options: argparse.Namespace) -> None:
    """Runs the action of the options.

    Raises:
        MewError: As the functions below.
        SystemExit: 1, when the called tool returned an error.
    """
    if options.action == "join":
        shell.check_address(options.url, options)
    if options.action == "check":
        return check(options.file, say=shell.say)
    how: dict[str, Any] = {
        "model": options.model,
        "base_url": options.base_url,
        "api_key": shell.read_key(options.key_env),
        "without_supervisors": options.without_supervisors,
    }

    async def work() -> bool:
        if options.action == "serve":
            await serve(
                options.file,
                http=options.http,
                token_file=options.token_file,
                ended=shell.end_on_signal(),
                say=shell.say,
                **how,
            )
            return False
        if options.action == "join":
            token = token_from(file=options.token_file, variable=options.token_env)
            client = MEWClient(
                options.url, space=options.space, token=token, participant_id=options.as_id or None
            )
            asking = {"propose": options.propose, "interactive": options.interactive}
            await join(options.file, client, ended=shell.end_on_signal(), say=shell.say, **asking, **how)
            return False
        execution = await call(options.file, options.tool, options.arguments, say=shell.say, **how)
        return execution.is_error

    if asyncio.run(work()):
        raise SystemExit(1)
    return None


def check(file: Path, *, say: Say) -> None:
    """Prints the tools of an agent file, and remarks for its author: also about what has no effect here.

    Raises:
        ConfigError: The file has faults; the message has all of them.
    """
    agent = read_agent_file(file)
    say(f"{file}: {agent.name} {agent.version}, mode {agent.mode}, tools: {_names(agent.tools)}")
    for tool in agent.tools:
        say(f"{tool.name} asks: {one_line(fill_prompt(tool.prompt, {}, tool=tool, preview=True), MAX_SHOWN)}")
    for remark in list_remarks(agent):
        say(f"look at {remark}")


async def serve(
    file: Path,
    *,
    http: int | None,
    ended: asyncio.Event,
    say: Say,
    token_file: Path | None = None,
    **how: Any,
) -> None:
    """Serves an agent file until `ended` is set: over HTTP on the port `http`, or over stdio to one client.

    Over HTTP every request must carry the token in `token_file`; None means a file beside the agent file, which is
    created where it is missing. When the file changes, its tools, prompts and texts are served anew, and clients are
    notified. `how` are arguments of `Home`; `model` names another model than that of the file.

    Raises:
        MewError: The file has faults, one of its servers does not start, or the port is taken.
    """
    from mew_lab.bridge.mcp_http import McpHttpServer
    from mew_lab.bridge.mcp_server import mcp_server, serve_stdio

    async with _home(file, **how) as home:
        following = asyncio.get_running_loop().create_task(_follow(file, home))
        if http is None:
            await serve_stdio(mcp_server(home.agent), ended=ended)
        else:
            place = token_file or _token_file(file)
            token = read_token_file(place, short=short_allowed())
            name_of_token = "the token in the file that serve prints"
            surface = mcp_server(home.agent)
            async with McpHttpServer(surface, token=token, token_name=name_of_token, port=http) as server:
                name, tools = home.agent.agent.name, _names(home.agent.agent.tools)
                say(f"{name} is served at {server.url} with the token in {place}, tools: {tools}")
                await ended.wait()
        following.cancel()


async def _follow(file: Path, home: Home) -> None:
    """Serves the agent file anew whenever it has changed; a file with faults is reported and changes nothing."""
    known = _version(file)
    while True:
        await asyncio.sleep(LOOK_EVERY)
        if (version := _version(file)) in (known, None):
            continue
        known = version
        try:
            agent = await asyncio.to_thread(_read, file)
            later = home.replace(agent)
        except ConfigError as fault:
            logger.warning("%s has changed and is not served: %s", file, fault)
            continue
        logger.info("%s is served anew", file)
        for what in later:
            logger.warning("%s: %s has changed; that takes effect at the next start", file, what)


def _version(file: Path) -> tuple[int, int] | None:
    """The time and size of a file; None where it cannot be found."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


async def join(
    file: Path,
    client: MEWClient,
    *,
    ended: asyncio.Event,
    say: Say,
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    **limits: Any,
) -> None:
    """Runs an agent file as a participant of a space, until `ended` is set or the connection is lost for good.

    Its tools are those of the other participants. The servers of the file are not started; the settings of a server
    apply to the participant of its name. `limits` are arguments of `ToolsAgent` and `Executor`, such as `propose`.

    Raises:
        MewError: The file has faults, or the gateway does not admit it or removes it.
    """
    agent = _read(file).with_model(model)
    thinks = model_for(agent, base_url=base_url, api_key=api_key)
    shell.end_when_lost(client, ended)
    try:
        async with ToolsAgent(agent, client, model=thinks, **limits) as member:
            sentence = f"{client.id} is in {client.space} as {agent.name}, with {thinks.name}, tools: "
            say(sentence + _names(member.agent.tools))
            await ended.wait()
    finally:
        await thinks.aclose()
    shell.raise_failure(client)


async def call(file: Path, tool: str, arguments: str, *, say: Say, **how: Any) -> Execution:
    """Runs one call as a served agent does; prints each tool call, then the result. `how` are arguments of `Home`.

    Raises:
        MewError: The arguments are no JSON object, the agent has no such tool, or as `serve`.
    """
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"The arguments are not JSON: {fault}", key="arguments") from None
    async with _home(file, **how) as home:
        try:
            execution = await home.agent.call(tool, values)
        except RpcError as fault:
            raise ConfigError(fault.message, key="tool") from None
    for record in execution.calls:
        text = json.dumps(dict(record.call.arguments), ensure_ascii=False)
        called = f"called {one_line(record.call.name, 120)} {one_line(text, MAX_SHOWN)}"
        say(f"{called} in {1000 * record.seconds:.0f} ms: {one_line(record.observation, MAX_SHOWN)}")
    say(execution.text)
    return execution


def _token_file(file: Path) -> Path:
    """The token file beside a served agent file; created where it is missing, readable by its owner alone."""
    name = file.stem if is_plain(file.stem) else folder_name(file.stem).replace("_space", "agent")
    return ensure_token_file(file.resolve().parent / ".mew", SERVED, name)


def _home(file: Path, *, model: str | None = None, **how: Any) -> Home:
    return Home(_read(file).with_model(model), folder=file.resolve().parent, **how)


def _read(file: Path) -> AgentDefinition:
    """The agent of a file; what has no effect here is logged."""
    agent = read_agent_file(file)
    for remark in list_ignored(agent):
        logger.warning("%s: %s", file, remark)
    return agent


def _names(tools: Any) -> str:
    return ", ".join(tool.name for tool in tools) or "none"
