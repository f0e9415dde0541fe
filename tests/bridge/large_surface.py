"""A surface of many tools over stdio, whose list no pipe takes at once; its argument is the time for last answers."""

import asyncio
import signal
import sys

from mew_lab.bridge import mcp_server
from mew_lab.sdk.signal import Signal


class Large:
    """A surface with 1,000 tools."""

    def __init__(self):
        self.changed = Signal()

    def initialized(self):
        return {"serverInfo": {"name": "large", "version": "1"}}

    async def answer(self, method, params, *, on_progress=None):
        tool = {"description": "x" * 1000, "inputSchema": {"type": "object"}}
        return {"tools": [{"name": f"t{number}", **tool} for number in range(1000)]}


async def main():
    mcp_server.LAST_ANSWERS = float(sys.argv[1])
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await mcp_server.serve_stdio(mcp_server.mcp_server(Large()), ended=ended)


asyncio.run(main())
