"""HTTP through a relay: the same bytes but for the host, and every message of a body is shown."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import socket
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mew_lab.errors import ConfigError
from mew_lab.transport import listener
from mew_lab.transport.http_bodies import BodyReader, EventData
from mew_lab.transport.http_relay import HttpRelay
from mew_lab.transport.http_stream import HttpStream

JSON = b"content-type: application/json\r\n"
RESPONSES = [
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + JSON + b"content-length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n",
    b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end\r\n\r\n",
]
CONTENTS = [b"", b"{}", b"abc0123456789", b"", b"", b"until the end\r\n\r\n"]


def pieces(data: bytes, dice: random.Random) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size = dice.choice((1, 2, 5, 40, 1000))
        found.append(data[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_are_the_bytes_and_the_contents_are_those_of_each_message(seed: int) -> None:
    stream, parts = HttpStream(responses=True), []
    stream.methods += ["POST"] * 5
    for piece in pieces(b"".join(RESPONSES), random.Random(seed)):
        parts += stream.feed(piece)
    parts += stream.end()
    assert b"".join(part.data for part in parts) == b"".join(RESPONSES)
    assert not any(part.unread for part in parts)
    contents = [b""]
    for part in parts:
        contents[-1] += part.content
        if part.last:
            contents.append(b"")
    assert contents == [*CONTENTS, b""]
    assert [part.head.status for part in parts if part.head] == [100, 200, 200, 202, 204, 200]


def test_the_answer_to_head_has_no_body() -> None:
    stream = HttpStream(responses=True)
    stream.methods += ["HEAD", "GET"]
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    parts = [*stream.feed(head + head + b"ok")]
    assert [(part.content, part.last) for part in parts] == [(b"", True), (b"", False), (b"ok", True)]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 no http\r\n\r\nmore",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\nmore",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nmore",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\nmore",
        b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\nmore",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\nmore",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabmore",
        b"POST / HTTP/1.1\r\nno colon\r\n\r\nmore",
        b"x" * 70_000,
    ],
)
def test_what_is_not_understood_passes_as_it_is(data: bytes) -> None:
    stream = HttpStream(responses=False)
    parts = [*stream.feed(data), *stream.feed(b" and after")]
    assert b"".join(part.data for part in parts) == data + b" and after"
    assert parts[-1].unread and parts[-1].data == b" and after"


@pytest.mark.parametrize("seed", range(10))
def test_events_are_complete_whatever_the_pieces(seed: int) -> None:
    data = (
        b'\xef\xbb\xbfdata: {"a":1}\r\n: ping\r\nid: 1\r\nevent: message\r\n\r\ndata:two\ndata: lines\n\n\n\n'
        b"data: only\rdata:returns\r\rdata\n\ndatas: other\n\ndata: cut"
    )
    events, found = EventData(), list[bytes | int]()
    for piece in pieces(data, random.Random(seed)):
        found += events.feed(piece)
    assert found == [b'{"a":1}', b"two\nlines", b"only\nreturns", b""]
    assert events.size == len(b"data: cut")


@pytest.mark.parametrize("seed", range(10))
def test_of_an_event_that_is_too_long_the_size_is_told_and_the_next_one_is_whole(seed: int) -> None:
    # Nothing within the long lines is taken for a line of its own.
    long = b"data: " + b"data: x" * 30 + b"\ndata: and more\n"
    whole = b"data: " + b"y" * 94 + b"\n"
    events, found = EventData(most=100), list[bytes | int]()
    for piece in pieces(long + b"\n" + whole + b"\n" + b"data: z\n" * 15 + b"\n", random.Random(seed)):
        found += events.feed(piece)
    assert found == [len(long) - 2, b"y" * 94, 15 * len(b"data: z")]


@asynccontextmanager
async def between(
    answer: Callable[[bytes], bytes],
) -> AsyncIterator[tuple[HttpRelay, list[bytes], list[tuple[str, bytes]]]]:
    """A relay before a server that notes each request of its connections, up to their end, and answers it."""
    got: list[bytes] = []
    shown: list[tuple[str, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()
        got.append(data)
        writer.write(answer(data))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    relay = HttpRelay(
        "127.0.0.1",
        0,
        f"http://127.0.0.1:{port}/mcp",
        lambda side, data, _: shown.append((side, data)),
        lambda side, size: shown.append((side, b"lost %d" % size)),
    )
    async with server, relay:
        yield relay, got, shown


async def exchange(relay: HttpRelay, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_only_the_host_of_requests_is_changed_and_messages_are_shown() -> None:
    events = b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\ndata: {"id":2}\n\n'
    first = (
        b"POST /mcp HTTP/1.1\r\nHOST: 127.0.0.1:%d\r\nAuthorization: Bearer x\r\n"
        + JSON
        + b'Content-Length: 8\r\n\r\n{"id":1}'
    )
    second = b"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nX-Odd:  \xff \r\n\r\n"
    answers = RESPONSES[1] + events
    async with between(lambda _: answers) as (relay, got, shown):
        assert await exchange(relay, (first + second) % (relay.port, relay.port)) == answers
        there = int(relay_authority(got[0]))
        assert got == [(first + second).replace(b"HOST: ", b"HOST: ") % (there, there)]
    assert there != relay.port
    assert sorted(shown) == [("client", b'{"id":1}'), ("server", b'{"id":2}'), ("server", b"{}")]


def relay_authority(request: bytes) -> bytes:
    return request.partition(b"127.0.0.1:")[2].partition(b"\r\n")[0]


async def test_random_bytes_pass_in_both_directions() -> None:
    dice = random.Random(3)
    for _ in range(20):
        sent, answered = dice.randbytes(dice.randrange(1, 200_000)), dice.randbytes(dice.randrange(200_000))
        async with between(lambda _, answered=answered: answered) as (relay, got, _):  # type: ignore[misc]
            assert await exchange(relay, sent) == answered
            assert got == [sent]


@pytest.mark.parametrize(
    ("host", "becomes"),
    [
        (b"localhost:1", None),
        (b"LOCALHOST", None),
        (b"[::1]:80", None),
        (b"127.0.0.1", None),
        (b"evil.example", b"evil.example"),
        (b"localhost.evil.example:8000", b"localhost.evil.example:8000"),
        (b"127.0.0.1.evil.example", b"127.0.0.1.evil.example"),
        (b"", b""),
    ],
)
async def test_only_a_host_that_names_this_machine_becomes_that_of_the_server(
    host: bytes, becomes: bytes | None
) -> None:
    async with between(lambda _: RESPONSES[1]) as (relay, got, _):
        await exchange(relay, b"GET /mcp HTTP/1.1\r\nHost: %s\r\n\r\n" % host)
        there = b"127.0.0.1:" + relay_authority(got[0]) if becomes is None else becomes
        assert got == [b"GET /mcp HTTP/1.1\r\nHost: %s\r\n\r\n" % there]


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_compressed_body_is_shown_and_passes_as_it_is(coding: str, seed: int) -> None:
    message = b'{"id":1,"result":"' + b"ab" * 20_000 + b'"}'
    pack = gzip.compress if coding == "gzip" else zlib.compress
    json_body, events = pack(message), pack(b"data: one\n\ndata: two\n\n")
    head = "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ncontent-encoding: {}\r\ncontent-length: {}\r\n\r\n"
    answers = b"".join(
        head.format(kind, coding, len(body)).encode() + body
        for kind, body in (("application/json", json_body), ("text/event-stream", events))
    )
    stream = HttpStream(responses=True)
    shown: list[bytes | int] = []
    reader = BodyReader("server", "h1", lambda _, data, __: shown.append(data), lambda _, n: shown.append(n))
    for piece in pieces(answers, random.Random(seed)):
        for part in stream.feed(piece):
            reader.take(part)
    assert shown == [message, b"one", b"two"]


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        (b"br", b"12345"),
        (b"gzip", b"12345"),
        (b"gzip, gzip", b"12345"),
        (b"gzip", gzip.compress(bytes(40_000_000))),  # a body that is large only when it is read
    ],
)
async def test_a_body_that_cannot_be_read_is_counted(coding: bytes, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + JSON + b"content-encoding: %s\r\ncontent-length: %d\r\n\r\n"
    answer = head % (coding, len(body)) + body
    async with between(lambda _: answer) as (relay, _, shown):
        assert await exchange(relay, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") == answer
    assert shown == [("server", b"lost %d" % len(body))]


@pytest.mark.parametrize(
    ("answer", "lost"),
    [
        (b"HTTP/1.1 200 OK\r\n" + JSON + b'content-length: 99\r\n\r\n{"id":1', 7),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\ndata: {", 7),
    ],
)
async def test_a_body_that_is_cut_off_passes_and_is_counted(answer: bytes, lost: int) -> None:
    async with between(lambda _: answer) as (relay, _, shown):
        assert await exchange(relay, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") == answer
    assert shown[-1] == ("server", b"lost %d" % lost)


UPGRADE = b"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"


Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def relay_to(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[Open]:
    """Opens connections through a relay to a server."""
    async with asyncio.timeout(30), await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        relay = HttpRelay("127.0.0.1", 0, f"http://127.0.0.1:{port}", lambda *_: None, lambda *_: None)
        async with relay, contextlib.AsyncExitStack() as stack:

            async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
                reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
                stack.callback(writer.close)
                return reader, writer

            yield connect


@pytest.mark.parametrize("early", [b"", b"\x81\x80abcd", b"\r\n\r\n", b"GET / HTTP/1.1\r\n"])
async def test_after_an_upgrade_each_byte_passes_before_the_next_one_is_sent(early: bytes) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(UPGRADED)
        while data := await reader.read(100_000):
            writer.write(data)
        writer.close()

    async with relay_to(echo) as connect:
        reader, writer = await connect()
        writer.write(UPGRADE + early)  # some clients do not wait for the answer
        assert await reader.readexactly(len(UPGRADED + early)) == UPGRADED + early
        for data in (b"\x81", b"\x85abcd", b"\r\n\r\n", b"\0" * 200_000, b"x"):
            writer.write(data)
            assert await reader.readexactly(len(data)) == data


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted")
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
        UPGRADED,
        UPGRADED + b"\x81\x02{}",
        b"",
    ],
)
async def test_a_client_that_stays_silent_is_left_when_the_server_has_left(answer: bytes) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with relay_to(leave) as connect:
        reader, writer = await connect()
        before = descriptors()
        writer.write(UPGRADE)
        assert await reader.read() == answer
        while descriptors() > before:  # noqa: ASYNC110  its own end is still open
            await asyncio.sleep(0.01)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_server_is_left_when_its_client_is_gone() -> None:
    left = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()  # which ends where the client has ended its side, too
        assert not left.is_set()
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0)
        left.set()

    async with relay_to(wait) as connect:
        _, writer = await connect()
        writer.write(UPGRADE)
        await writer.drain()
        writer.transport.abort()
        await left.wait()


async def test_only_a_request_that_waits_for_its_answer_keeps_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "descriptor_limit", lambda: 12)
    monkeypatch.setattr(listener, "SPARE", 2)
    answer = asyncio.Event()
    answered = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while request := await reader.readuntil(b"\r\n\r\n"):
                if b"slow" in request:
                    await answer.wait()
                writer.write(UPGRADED if request == UPGRADE else answered)
        writer.close()

    async with relay_to(serve) as connect:
        slow = await connect()
        slow[1].write(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        idle: list[asyncio.StreamReader] = []
        for request, expected in [(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", answered), (UPGRADE, UPGRADED)] * 4:
            reader, writer = await connect()
            writer.write(request)
            assert await reader.readexactly(len(expected)) == expected
            idle.append(reader)
        for reader in idle[:4]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        answer.set()
        assert await slow[0].readexactly(len(answered)) == answered


async def test_a_server_that_is_away_ends_the_connection() -> None:
    relay = HttpRelay("127.0.0.1", 0, "http://127.0.0.1:9/mcp", lambda *_: None, lambda *_: None)
    async with relay:
        assert await exchange(relay, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") == b""


@pytest.mark.parametrize("to", ["ftp://x", "http://", "http://[", "http://x:99999", "nothing"])
def test_what_is_no_address_of_http_is_told(to: str) -> None:
    with pytest.raises(ConfigError, match="Cannot relay to"):
        HttpRelay("127.0.0.1", 0, to, lambda *_: None, lambda *_: None)


async def test_whoever_hangs_up_in_a_stream_is_noticed_by_the_other_and_the_relay_goes_on() -> None:
    started, ended = asyncio.Event(), asyncio.Event()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    shown: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wanted = await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"data: one\n\n")
        if wanted.startswith(b"GET /dies"):
            await writer.drain()
            writer.transport.abort()
            return
        started.set()
        with contextlib.suppress(OSError):
            while await reader.read(1) or not writer.transport.is_closing():
                writer.write(b": ping\n\n")
                await writer.drain()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    to = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    relay = HttpRelay("127.0.0.1", 0, to, lambda _, data, __: shown.append(data), lambda *_: None)
    async with server, relay, asyncio.timeout(20):
        assert (await exchange(relay, b"GET /dies HTTP/1.1\r\n\r\n")).startswith(head)
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"GET /stays HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\n\n")
        await started.wait()
        writer.transport.abort()
        await ended.wait()
    assert shown == [b"one", b"one"]


async def test_a_server_that_takes_no_connection_does_not_make_the_relay_deaf() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, contextlib.ExitStack() as open_sockets:
        number = deaf.getsockname()[1]
        for _ in range(4):  # more than its queue takes
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", number))
        relay = HttpRelay("127.0.0.1", 0, f"http://127.0.0.1:{number}", lambda *_: None, lambda *_: None)
        async with asyncio.timeout(60), relay:
            clients = []
            for _ in range(listener.STRANGERS + 2 * listener.AT_ONCE):
                clients.append(await asyncio.open_connection("127.0.0.1", relay.port))
                clients[-1][1].write(b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n")
            for reader, _ in clients[: 2 * listener.AT_ONCE]:  # they make room for the last ones
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
            for _, writer in clients:
                writer.transport.abort()
