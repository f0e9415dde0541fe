"""A target in a process of its own, to be killed: it writes down which proposals it executes, before and after."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.tools import ToolBox


async def run(url: str, token: str, folder: Path) -> None:
    executed = os.open(folder / "executed", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    tools = ToolBox(name="git")

    @tools.add
    async def push(n: int) -> str:
        request = ASKED.get()
        assert request is not None
        os.write(executed, f"{request.correlation_id[0]}\n".encode())
        await asyncio.sleep(0.005 * (n % 5))
        return f"pushed {n}"

    client = MEWClient(url, space="demo", token=token)
    async with MEWParticipant(client, tools=tools, state=lambda: folder / "state"):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
