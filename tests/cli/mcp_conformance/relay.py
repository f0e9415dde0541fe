"""A relay between the MCP conformance suite and a gate, for what the suite cannot be told.

The suite shows no token, names the server by its own port, and calls the tools, resources and prompts of one
participant by their own names. The relay shows the token, and puts in and takes out the name of the participant.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.bridge.offers import RESULT, WITHDRAW

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Relay:
    """The ASGI application of the relay on `port`; `name` is the participant, and `token` that of the server."""

    def __init__(self, server: McpHttpServer, *, port: int, token: str, name: str) -> None:
        self._server = server
        self._port = port
        self._token = token
        self._prefixes = {"name": f"{name}_", "uri": f"mew://{name}/"}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", scope["method"] == "POST"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        body, prefix = self._put_in(body)
        bodies = iter([{"type": "http.request", "body": body, "more_body": False}] if body else [])

        async def receive_named() -> Any:
            return next(bodies, None) or await receive()

        async def send_named(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [(key, value) for key, value in message["headers"] if key.lower() != b"content-length"]
                message = {**message, "headers": kept}
            elif message["type"] == "http.response.body":
                message = {**message, "body": self._take_out(message.get("body", b""))}
            await send(message)

        headers = self._headers(scope["headers"], body, prefix)
        await self._server({**scope, "headers": headers}, receive_named, send_named)

    def _put_in(self, body: bytes) -> tuple[bytes, str]:
        """The request with the name of the participant, and what was put in."""
        try:
            request = json.loads(body)
            key = NAMED[request["method"]]
            if request["params"][key] in (RESULT, WITHDRAW):
                return body, ""
            prefix = self._prefixes[key]
            request["params"][key] = prefix + request["params"][key]
        except (ValueError, KeyError, TypeError):
            return body, ""
        return json.dumps(request).encode(), prefix

    def _take_out(self, body: bytes) -> bytes:
        for before in ('"name":"', '"name": "'):
            body = body.replace((before + self._prefixes["name"]).encode(), before.encode())
        return body.replace(self._prefixes["uri"].encode(), b"")

    def _headers(self, headers: Any, body: bytes, prefix: str) -> list[tuple[bytes, bytes]]:
        changed = [(b"authorization", f"Bearer {self._token}".encode())]
        for key, value in headers:
            if key == b"host":
                value = value.replace(f":{self._port}".encode(), f":{self._server.port}".encode())
            elif key == b"content-length":
                value = str(len(body)).encode()
            elif key == b"mcp-name":
                value = prefix.encode() + value
            if key != b"authorization":
                changed.append((key, value))
        return changed


@asynccontextmanager
async def relay(server: McpHttpServer, *, token: str, name: str) -> AsyncIterator[str]:
    """The address of a relay to a server."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = Relay(server, port=port, token=token, name=name)
    running = uvicorn.Server(
        uvicorn.Config(app, lifespan="off", log_level="error", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(running.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.should_exit = True
        await serving
