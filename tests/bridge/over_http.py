"""Clients of a gate over HTTP: the official one, and connections that a test opens by itself."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.protocol.token import Token

TOKEN = Token("canary-of-a-gate-0123456789abcdef")
BEARER = {"Authorization": f"Bearer {TOKEN.reveal()}"}


@asynccontextmanager
async def client_over_http(server: McpHttpServer, mode: str) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=BEARER, timeout=30) as web:
        async with Client(streamable_http_client(server.url, http_client=web), mode=mode) as client:
            yield client


async def send_raw(
    server: McpHttpServer, body: dict[str, Any], headers: dict[str, str], *, buffer: int | None = None
) -> asyncio.StreamWriter:
    """Sends a request over a connection of its own, which the test closes, and reads nothing of the answer.

    `buffer` are the bytes that the system takes of it all the same.
    """
    data = json.dumps(body).encode()
    every = {
        "Host": f"127.0.0.1:{server.port}", "Content-Type": "application/json", "Content-Length": str(len(data)),
        "Accept": "application/json, text/event-stream", **BEARER, **headers,
    }  # fmt: skip
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.connect(("127.0.0.1", server.port))
    _, writer = await asyncio.open_connection(sock=connection)
    lines = "".join(f"{name}: {value}\r\n" for name, value in every.items())
    writer.write(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + data)
    await writer.drain()
    transport = writer.transport
    assert isinstance(transport, asyncio.ReadTransport)
    transport.pause_reading()
    return writer


async def open_session(server: McpHttpServer) -> dict[str, str]:
    """The headers of a session of the handshake era."""
    accept = {"Accept": "application/json, text/event-stream"}
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    async with httpx2.AsyncClient(headers={**BEARER, **accept}) as web:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        answer = await web.post(server.url, json=body)
        session = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
        await web.post(
            server.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session
        )
    return session
