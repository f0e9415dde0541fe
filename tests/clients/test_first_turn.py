"""The first request of Claude Code to its model, in a space of nineteen participants: whether it offers the tools of all.

MEW_LAB_TURNS has the numbers of turns: with a token that the gate has served before, and each with a token that is new to
it; the default is 5,3. A table is printed at the end, with `-s`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from mew_lab.bridge.mcp_config import read_mcp_config

from ..bridge.real_servers import npm_server
from .coding_agents import program_of, run_agent
from .model_server import ModelServer
from .space import Space, environment, serve

BEFORE, NEW = (int(number) for number in os.environ.get("MEW_LAB_TURNS", "5,3").split(","))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * (BEFORE + NEW))]
SMALL = [f"bed{n}" for n in range(13)]  # with world, three servers, the person and the client they are 19
PREFIX = "mcp__garden__"
PROMPT = 'CALL world_water {"bed": "north"}'


@asynccontextmanager
async def large_space(folder: Path) -> AsyncIterator[Space]:
    """A space with `world`, three servers of npm, and participants of one tool each."""
    files = folder / "files"
    files.mkdir()
    commands = {
        "every": [*npm_server("@modelcontextprotocol/server-everything"), "stdio"],
        "memory": npm_server("@modelcontextprotocol/server-memory"),
        "files": [*npm_server("@modelcontextprotocol/server-filesystem"), str(files)],
    }
    servers = {name: {"command": words[0], "args": words[1:]} for name, words in commands.items()}
    servers["memory"]["env"] = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    config = folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    trusted = [server.digest for server in read_mcp_config(config).servers.values()]
    options = [
        "--mcp-config",
        str(config),
        *(word for digest in trusted for word in ("--trust-config", digest)),
    ]
    enrolled = {"world": "tool", **dict.fromkeys(SMALL, "tool"), "coder": "agent"}
    enrolled |= {f"new{n}": "agent" for n in range(NEW)}
    async with serve(folder / "space", enrolled, *options) as space:
        await space.plant()
        await space.decide()
        for name in SMALL:
            small = await space.join(name)
            small.register_tool(lambda: "dry", name="look")
            await space.enter(small)
        yield space


async def first_lists(space: Space, state: Path) -> set[str]:
    """The whole list of the gate for `coder`, by a client that asks until all that are known to have tools are in it."""
    server = json.loads(await space.settings("claude"))["mcpServers"]["garden"]
    where = StdioServerParameters(
        command=server["command"], args=server["args"], env=environment(space.home, XDG_STATE_HOME=str(state))
    )
    known = {f"{name}_look" for name in SMALL}
    known |= {"world_water", "every_echo", "memory_read_graph", "files_read_text_file"}
    async with Client(where) as client:
        listed: set[str] = set()
        while not known <= listed:
            listed = {tool.name for tool in (await client.list_tools()).tools}
    return listed


async def turn(space: Space, place: Path, name: str, whole: set[str], state: Path | None) -> tuple[bool, str]:
    """Runs one turn with the token of `name`: whether its first request had all tools, and a row of the table."""
    settings = await space.settings("claude", name=name)
    done = len(space.executed)
    async with ModelServer() as model:
        begun = time.monotonic()
        await run_agent("claude", place, settings, model.root, PROMPT, state=state)
        took = time.monotonic() - begun
    offered = {tool.removeprefix(PREFIX) for tool in model.turns[0].tools if tool.startswith(PREFIX)}
    executed = len(space.executed) - done
    row = f"{name}: {len(offered & whole)} of {len(whole)} tools, {executed} executed, {took:.0f} s, load {os.getloadavg()[0]:.0f}"
    return offered == whole, row


async def test_every_first_request_has_all_tools_with_a_token_that_the_gate_has_served_before(
    tmp_path: Path,
) -> None:
    program_of("claude")
    async with large_space(tmp_path) as space:
        state = tmp_path / "state"
        whole = await first_lists(space, state)
        assert len(whole) >= 47
        before = [await turn(space, tmp_path / f"turn{n}", "coder", whole, state) for n in range(BEFORE)]
        new = [await turn(space, tmp_path / f"new{n}", f"new{n}", whole, None) for n in range(NEW)]
        assert space.executed == space.approved
    rows = [f"{sum(had for had, _ in group)} of {len(group)} had all" for group in (before, new)]
    print("\nserved before: {}\nnew: {}".format(*rows))
    print("\n".join(row for _, row in [*before, *new]))
    assert all(had for had, _ in before), rows
