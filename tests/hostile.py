"""Hostile connections to one port: `python hostile.py KIND PORT COUNT [TOKEN SERVER]` holds COUNT of them until it is killed.

TOKEN is the file of the token that those of `ADMITTED` show. A connection that the server closes is opened again a second
later. "ready" is printed when each was open once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Hostile = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]

KEY = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
UPGRADE = (
    b"GET /ws?space=demo HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    + KEY
    + b"\r\n"
)
POST = b"POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n"
WRONG = b"Authorization: Bearer wrong-wrong-wrong-wrong\r\n"
DICE = random.Random(7)


def sending(data: bytes) -> Hostile:
    """Sends this, `%s` being the host, and waits for the end of the connection without reading much."""

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
        writer.write(data.replace(b"%s", host))
        await writer.drain()
        while await reader.read(1000):
            pass

    return hostile


def half_closed(data: bytes) -> Hostile:
    """Sends this and the end of its side, and leaves the other side open for good."""

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
        writer.write(data.replace(b"%s", host))
        writer.write_eof()
        await asyncio.sleep(3600)

    return hostile


async def silent_after_the_end(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes
) -> None:
    """Asks what anybody may ask, and does not leave when the other side has ended the connection."""
    writer.write(HEALTH.replace(b"%s", host))
    await asyncio.sleep(3600)


async def slow_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    for byte in POST.replace(b"%s", host) + b"X-Long: " + b"x" * 1000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def no_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    writer.write(POST.replace(b"%s", host) + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\nx\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)


async def no_end_of_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    writer.write(POST.replace(b"%s", host))
    while True:
        writer.write(b"X-More: " + b"x" * 100 + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)


async def slow_reader(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: %s\r\n\r\n".replace(b"%s", host) * 200)
    await asyncio.sleep(3600)


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.write(POST.replace(b"%s", host))
    await asyncio.sleep(0.02)


async def half_a_frame(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    writer.write(UPGRADE.replace(b"%s", host))
    await reader.read(1000)
    writer.write(b"\x81\xff" + (1 << 19).to_bytes(8) + b"abcd" + b"x" * 1000)
    while await reader.read(1000):
        pass


HOSTILE: dict[str, Hostile] = {
    "silent": sending(b""),
    "half a head": sending(POST),
    "a slow head": slow_head,
    "a head without end": no_end_of_head,
    "half a body": sending(POST + b"Content-Length: 1000\r\n\r\n{"),
    "half a body with a wrong token": sending(POST + WRONG + b"Content-Length: 1000\r\n\r\n{"),
    "a body without end": no_end,
    "expects to be told to go on": sending(POST + b"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n"),
    "a slow reader": slow_reader,
    "a TLS hello": sending(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)),
    "the preface of HTTP/2": sending(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)),
    "garbage": sending(DICE.randbytes(3000).replace(b"%s", b"")),
    "garbage behind a request": sending(HEALTH + b"\0\xff garbage\r\n\r\n"),
    "silent behind a request": silent_after_the_end,
    "half a head and its end": half_closed(POST),
    "a request and its end": half_closed(HEALTH),
    "a WebSocket and its end": half_closed(UPGRADE),
    "a frame behind a WebSocket": sending(UPGRADE + b"\x81\x82\0\0\0\0{}"),
    "many requests at once": sending(HEALTH * 500),
    "a wrong token": sending(b"GET /participants HTTP/1.1\r\nHost: %s\r\n" + WRONG + b"\r\n"),
    "a large head": sending(POST + b"X-Large: " + b"x" * 60_000 + b"\r\n"),
    "garbage behind a head": sending(POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\0\0\r\n"),
    "a WebSocket that says nothing": sending(UPGRADE),
    "half a frame": half_a_frame,
    "pings before it is welcome": sending(UPGRADE + b"\x89\x80\0\0\0\0" * 40_000),
    "reset": reset,
}


# --- clients with a token ----------------------------------------------------------------------------------------

WHO = "mallory"  # the participant of the token, at a gateway
AUTHORIZED = b"Host: %s\r\nAuthorization: Bearer %t\r\n"
MAIL = b"/participants/mallory/messages"
MCP = b"Accept: application/json, text/event-stream\r\n"
TOKEN = b""
NUMBERS = itertools.count(1)


def request(method: bytes, path: bytes, body: bytes = b"", *, more: bytes = b"", size: int = -1) -> bytes:
    """An authorized request, whose body has or claims `size` bytes."""
    length = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % (len(body) if size < 0 else size)
    head = method + b" " + path + b" HTTP/1.1\r\n" + AUTHORIZED + more
    return head + length + b"\r\n" + body


def filled(data: bytes, host: bytes) -> bytes:
    return data.replace(b"%s", host).replace(b"%t", TOKEN)


def frame(data: bytes, first: int = 0x81) -> bytes:
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2) if size < 1 << 16 else b""
    return bytes([first]) + (length or b"\xff" + size.to_bytes(8)) + bytes(4) + data


def message(kind: str, payload: Any, **more: Any) -> bytes:
    id = f"m{next(NUMBERS)}"
    return frame(
        json.dumps({"protocol": "mew/v0.4", "id": id, "kind": kind, "payload": payload, **more}).encode()
    )


def call(method: str, params: Any = None) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": next(NUMBERS), "method": method, "params": params or {}}
    ).encode()


def holding(make: Callable[[], bytes], drip: bytes = b"", *, reads: bool = True) -> Hostile:
    """Sends this with the token, then `drip` twice a second, and reads all answers or none."""

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
        writer.write(filled(make(), host))
        await writer.drain()
        while drip:
            writer.write(drip)
            await writer.drain()
            await asyncio.sleep(0.5)
        while reads and await reader.read(1 << 16):
            pass
        await asyncio.sleep(3600)

    return hostile


async def pour(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    make: Callable[[], bytes],
    batch: int,
    host: bytes,
) -> None:
    """Sends without a pause, and reads what comes."""

    async def read() -> None:
        with contextlib.suppress(OSError):
            while await reader.read(1 << 20):
                pass

    reading = asyncio.ensure_future(read())
    try:
        while not reading.done():
            writer.write(b"".join(filled(make(), host) for _ in range(batch)))
            await writer.drain()
            await asyncio.sleep(0)
    finally:
        reading.cancel()


async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    """Joins under one of eight ids, as many as one participant may have connections."""
    id = f"{WHO}-{next(NUMBERS) % 8}"
    words = json.dumps({"type": "join", "space": "demo", "token": TOKEN.decode(), "participantId": id})
    writer.write(UPGRADE.replace(b"%s", host))
    await reader.readuntil(b"\r\n\r\n")
    writer.write(frame(words.encode()))
    received = b""
    while b"system/welcome" not in received:
        data = await reader.read(1 << 16)
        if not data:
            raise ConnectionResetError
        received = received[-20:] + data


def pouring(make: Callable[[], bytes], batch: int = 50) -> Hostile:
    """Joins, and sends such frames without a pause."""

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
        await join(reader, writer, host)
        await pour(reader, writer, make, batch, host)

    return hostile


def asking(make: Callable[[], bytes], batch: int = 5) -> Hostile:
    """Sends such requests without a pause."""

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
        await pour(reader, writer, make, batch, host)

    return hostile


async def never_reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    """Joins; reads nothing of what it says itself."""
    await join(reader, writer, host)
    while True:
        writer.write(message("chat", {"text": "x" * 60_000}))
        await writer.drain()
        await asyncio.sleep(0.01)


async def joins_and_leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes) -> None:
    while True:
        await join(reader, writer, host)
        writer.transport.abort()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(host.partition(b":")[2]))


async def streams_of_a_session(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: bytes
) -> None:
    writer.write(filled(request(b"POST", b"/mcp", INITIALIZE, more=MCP), host))
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    id = head.partition(b"mcp-session-id: ")[2].partition(b"\r")[0]
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(host.partition(b":")[2]))
    writer.write(filled(request(b"GET", b"/mcp", more=MCP + b"Mcp-Session-Id: " + id + b"\r\n"), host))
    while await reader.read(1 << 16):
        pass


def grant_and_revoke() -> bytes:
    granted = message(
        "capability/grant", {"recipient": "human", "capabilities": [{"kind": "mcp/request", "to": "x"}]}
    )
    return granted + message("capability/revoke", {"recipient": "human", "grant_id": f"m{next(NUMBERS) - 1}"})


def propose(size: int) -> bytes:
    params = {"name": "t", "arguments": {"a": "x" * size}}
    return message("mcp/proposal", {"method": "tools/call", "params": params}, to=["human"])


PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
INITIALIZE = call("initialize", PARAMS)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTEN = call("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}})
LATER = MCP + b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: "
HALF = {"half a body": b"", "a dripping body": b" "}
PING, PONG = frame(b"", 0x89), frame(b"", 0x8A)

# What a client with a token does, and on how many connections at once; first at a gateway, then at an MCP server.
ADMITTED: dict[str, dict[str, tuple[Hostile, int]]] = {
    "gateway": {
        **{
            name: (holding(lambda: request(b"POST", MAIL, b"{", size=1_000_000), drip), 300)
            for name, drip in HALF.items()
        },
        "unread answers": (holding(lambda: request(b"GET", b"/participants") * 200, reads=False), 300),
        "a token, and silence": (holding(lambda: UPGRADE[:-2] + AUTHORIZED[10:] + b"\r\n"), 300),
        "joins and leaves": (joins_and_leaves, 20),
        "more joins than one may have": (pouring(lambda: PING, 1), 100),
        "small messages": (pouring(lambda: message("chat", {"text": "x"})), 8),
        "large messages": (pouring(lambda: message("chat", {"text": "x" * 1_040_000}), 1), 2),
        "messages over the limit": (pouring(lambda: message("chat", {"text": "x" * 4_000_000}), 1), 2),
        "messages of many members": (
            pouring(lambda: message("chat", {f"k{n}": n for n in range(60_000)}), 1),
            2,
        ),
        "no messages": (pouring(lambda: frame(b"{}"), 500), 8),
        "pings": (pouring(lambda: PING, 500), 4),
        "pongs": (pouring(lambda: PONG, 500), 4),
        "pieces of one byte": (
            pouring(lambda: frame(b"{", 0x01) + frame(b"x", 0x00) * 2000 + frame(b"}", 0x80), 1),
            4,
        ),
        "proposals": (pouring(lambda: propose(900_000), 1), 2),
        "grants and revokes": (pouring(grant_and_revoke, 10), 4),
        "streams": (pouring(lambda: message("stream/request", {"direction": "upload"})), 8),
        "invites": (pouring(lambda: message("space/invite", {"participant_id": f"i{next(NUMBERS)}"})), 4),
        "a reader that never reads": (never_reads, 8),
        "posts": (asking(lambda: request(b"POST", MAIL, message("chat", {"text": "x" * 99})[8:]), 20), 20),
        "the same page again and again": (asking(lambda: request(b"GET", MAIL), 1), 8),
    },
    "MCP": {
        **{
            name: (holding(lambda: request(b"POST", b"/mcp", b"{", more=MCP, size=1_000_000), drip), 300)
            for name, drip in HALF.items()
        },
        "large halves of bodies": (
            holding(lambda: request(b"POST", b"/mcp", b"x" * 1_000_000, more=MCP, size=4_000_000)),
            300,
        ),
        "sessions": (asking(lambda: request(b"POST", b"/mcp", INITIALIZE, more=MCP), 1), 20),
        "streams of sessions": (streams_of_a_session, 200),
        "subscriptions": (
            holding(lambda: request(b"POST", b"/mcp", LISTEN, more=LATER + b"subscriptions/listen\r\n")),
            300,
        ),
        "lists": (
            asking(
                lambda: request(
                    b"POST", b"/mcp", call("tools/list", {"_meta": META}), more=LATER + b"tools/list\r\n"
                )
            ),
            20,
        ),
    },
}


async def hold(hostile: Hostile, port: int, count: int) -> None:
    opened = 0

    async def one() -> None:
        nonlocal opened
        first = True
        while True:
            writer = None
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
            opened, first = opened + first, False
            if opened == count:
                opened += 1
                print("ready", flush=True)
            with contextlib.suppress(OSError, ValueError, EOFError):
                if writer is not None:
                    await hostile(reader, writer, b"127.0.0.1:%d" % port)
            if writer is not None:
                writer.close()
            await asyncio.sleep(1.0)

    await asyncio.gather(*(one() for _ in range(count)))


if __name__ == "__main__":
    named = {**HOSTILE}
    if len(sys.argv) > 4:
        TOKEN = Path(sys.argv[4]).read_bytes().strip()
        named = {name: one for name, (one, _) in ADMITTED[sys.argv[5]].items()}
    asyncio.run(hold(named[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])))
