"""Hostile connections to one port: `python hostile.py KIND PORT COUNT` holds COUNT of them until it is killed.

A connection that the server closes is opened again a second later. "ready" is printed when each was
open once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import sys
from collections.abc import Awaitable, Callable

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
    "reset": reset,
}


async def hold(kind: str, port: int, count: int) -> None:
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
            with contextlib.suppress(OSError, ValueError):
                if writer is not None:
                    await HOSTILE[kind](reader, writer, b"127.0.0.1:%d" % port)
            if writer is not None:
                writer.close()
            await asyncio.sleep(1.0)

    await asyncio.gather(*(one() for _ in range(count)))


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
