"""The control of the gateway's benchmark: a bare relay that parses each message and echoes it to all."""

from __future__ import annotations

import json

from websockets.asyncio.server import ServerConnection, broadcast, serve

connected: set[ServerConnection] = set()


async def relay(socket: ServerConnection) -> None:
    connected.add(socket)
    try:
        async for raw in socket:
            json.loads(raw)
            broadcast(connected, raw)
    finally:
        connected.discard(socket)


async def start() -> int:
    server = await serve(relay, "127.0.0.1", 0, compression=None)
    return int(server.sockets[0].getsockname()[1])
