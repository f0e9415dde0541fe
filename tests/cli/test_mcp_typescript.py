"""`mew-lab mcp` with the official TypeScript client: it waits on while there is progress, and calls again when it gave up.

Node and the client come from the lock file of the conformance suite, which depends on the client.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ..bridge.conftest import until
from .test_mcp import ENVIRONMENT, OpenDesk, desk
from .test_tap_conformance import suite

__all__ = ["desk", "suite"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Calls the tool with the options that stand in its arguments, and prints what it gets as lines of JSON.
SCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const { command, args, calls } = JSON.parse(process.argv[2]);
const say = (what) => console.log(JSON.stringify(what));
const client = new Client({ name: "ts", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
for (const options of calls) {
  const onprogress = (progress) => say({ progress });
  const call = { name: "calc_add", arguments: { a: 2, b: 3 } };
  try {
    say({ result: await client.callTool(call, undefined, { onprogress, ...options }) });
  } catch (fault) {
    say({ fault: fault.message });
  }
}
await client.close();
"""


@asynccontextmanager
async def typescript(
    suite: list[str], words: list[str], calls: list[dict[str, Any]]
) -> AsyncIterator[list[dict[str, Any]]]:
    """What the client prints, as it comes; the client has ended afterwards."""
    node, script = suite[0], Path(suite[1]).parents[4] / "client.mjs"
    script.write_text(SCRIPT)
    task = json.dumps({"command": sys.executable, "args": words, "calls": calls})
    process = await asyncio.create_subprocess_exec(
        node, str(script), task, stdout=asyncio.subprocess.PIPE, env=ENVIRONMENT
    )
    said: list[dict[str, Any]] = []

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said.append(json.loads(line))

    reading = asyncio.create_task(read())
    yield said
    await reading
    assert await process.wait() == 0


async def test_a_client_that_resets_its_limit_at_each_progress_waits_for_a_person(
    desk: OpenDesk, suite: list[str], tmp_path: Path
) -> None:
    calls = [{"timeout": 12_000, "resetTimeoutOnProgress": True}]
    async with typescript(suite, desk.words(tmp_path), calls) as said:
        id = await desk.proposed()
        async with asyncio.timeout(120):
            while len(said) < 4:  # four times five seconds are longer than its limit  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await desk.human.approve(id)
    *progress, last = said
    assert all("progress" in one for one in progress)
    assert last["result"]["content"][0]["text"] == "5" and desk.executed == [(2, 3)]


async def test_a_client_that_gives_up_finds_its_call_when_it_calls_again(
    desk: OpenDesk, suite: list[str], tmp_path: Path
) -> None:
    calls = [{"timeout": 5_000}, {"timeout": 60_000}]
    async with typescript(suite, desk.words(tmp_path), calls) as said:
        id = await desk.proposed()
        async with asyncio.timeout(120):
            while not any("fault" in one for one in said):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await until(lambda: [one.id for one in desk.open] == [id])
        await desk.human.approve(id)
    faults = [one["fault"] for one in said if "fault" in one]
    assert len(faults) == 1 and "timed out" in faults[0]
    assert said[-1]["result"]["content"][0]["text"] == "5"
    assert desk.executed == [(2, 3)] and len(list(desk.human.proposals)) == 1
