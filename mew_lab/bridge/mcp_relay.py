"""Passes the messages of one MCP client over stdio on to a gate that is served over HTTP on this machine.

A client that takes no servers over HTTP starts it, such as some coding agents. The gate checks all that comes; here
nothing is judged. The library moves the messages both ways, and takes from HTTP headers what a client over stdio writes
into its messages: the revision of the protocol, the method and the name.

Spec: MCP "Transports", 2026-07-28 "Streamable HTTP".
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
from mcp import types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from mew_lab.bridge.library_log import quiet_library
from mew_lab.bridge.mcp_server import run_on_stdio
from mew_lab.errors import MewError
from mew_lab.protocol.address import Address
from mew_lab.protocol.coerce import mapping_of, text_of
from mew_lab.protocol.token import Token

__all__ = ["relay"]

CONNECT_WITHIN = 20.0  # seconds; an answer takes as long as a person takes
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"  # of a request without a handshake
LOOPBACK = ("127.0.0.1", "localhost", "::1")


async def relay(url: str, token: Token, *, ended: asyncio.Event) -> None:
    """Relays until the client over stdio ends, the gate is gone, or `ended` is set.

    Raises:
        MewError: the address is not on this machine, so the token would be sent elsewhere; or the gate is gone.
    """
    gate = Address(url)
    try:
        host = gate.parts.hostname
    except ValueError:
        raise MewError(f"Cannot use {gate}: it is no address of a gate") from None
    if host not in LOOPBACK:
        raise MewError(f"Cannot use {gate}: the token goes to a gate on this machine alone")
    if what := gate.find_secret():
        raise MewError(f"Cannot use {gate}: the address of a gate has no {what}")
    quiet_library()
    headers = {"Authorization": f"Bearer {token.reveal()}"}
    timeout = httpx2.Timeout(None, connect=CONNECT_WITHIN)

    async def pass_on(client: Any, out: Any) -> None:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as http,
            streamable_http_client(url, http_client=http, max_sse_event_size=None) as (answers, requests),
        ):
            await _pass_on(client, out, answers, requests)

    try:
        await run_on_stdio(pass_on, ended=ended)
    except BaseExceptionGroup as faults:
        if faults.subgroup(httpx2.TransportError) is None:
            raise
        raise MewError(f"The gate at {gate} is gone; its space or its agent has ended") from None


async def _pass_on(client: Any, out: Any, answers: Any, requests: Any) -> None:
    handshake = _Handshake()

    async def answer() -> None:
        async for message in answers:
            if isinstance(message, SessionMessage):
                handshake.read_answer(message.message)
                await out.send(message)

    answering = asyncio.ensure_future(answer())
    try:
        async for message in client:
            if isinstance(message, SessionMessage):
                metadata = ClientMessageMetadata(headers=handshake.headers_of(message.message))
                await requests.send(SessionMessage(message.message, metadata))
    finally:
        answering.cancel()


class _Handshake:
    """What of the messages over stdio stands in headers over HTTP."""

    def __init__(self) -> None:
        self._id: object = None  # of the request `initialize`
        self._version = ""

    def read_answer(self, message: Any) -> None:
        """Reads the revision on which client and gate agree."""
        if isinstance(message, types.JSONRPCResponse) and message.id == self._id:
            self._version = text_of(mapping_of(message.result).get("protocolVersion"), 40)

    def headers_of(self, message: Any) -> dict[str, str]:
        """The headers of a message of the client."""
        if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
            self._id, self._version = message.id, ""
            return {}
        params = mapping_of(getattr(message, "params", None))
        own = text_of(mapping_of(params.get("_meta")).get(VERSION_KEY), 40)
        if not own:
            return {MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: own, MCP_METHOD_HEADER: message.method}
        name = text_of(params.get("name")) or text_of(params.get("uri"))
        return headers | ({MCP_NAME_HEADER: encode_header_value(name)} if name else {})
