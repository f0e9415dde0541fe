"""The control of the gateway's benchmark: a bare relay that parses each message and echoes it to all."""

from __future__ import annotations

import asyncio
import sys

import orjson
import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve

connected: set[ServerConnection] = set()


async def relay(socket: ServerConnection) -> None:
    connected.add(socket)
    try:
        async for raw in socket:
            assert orjson.loads(raw)["kind"]
            broadcast(connected, raw)
    finally:
        connected.discard(socket)


async def start(port: int = 0) -> int:
    server = await serve(relay, "127.0.0.1", port, compression=None)
    return int(server.sockets[0].getsockname()[1])


async def main(port: int) -> None:
    await start(port)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
