"""MCP servers at a URL behind a bridge: streamable HTTP and SSE, their headers, and networks that fail."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mew_lab
from mew_lab.bridge.http_client import EventBody
from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.message_reader import MessageReader
from mew_lab.bridge.process import LineJudge
from mew_lab.bridge.remote import RemoteServer
from mew_lab.errors import ConfigError, MewError, OutcomeUnknown, ToolFailed

from .conftest import Site, until

FULL = Path(__file__).parent / "full_server.py"
SECRET = "full-secret-0123456789"
HEADERS = {"Authorization": "Bearer ${MEW_TEST_SECRET}"}


@asynccontextmanager
async def served(transport: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The address of the full server over HTTP, which wants the secret, and its process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(FULL), "both", transport, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield (await process.stdout.readline()).decode().strip(), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def answering(head: bytes, body: bytes = b"") -> AsyncIterator[str]:
    """The address of a server that gives each request the same answer."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 " + head + b"\r\nConnection: close\r\n\r\n" + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp?key=in-the-query"


class Breaking:
    """An MCP server over HTTP whose answer to a call breaks off: `head` and `body` are all that it sends."""

    def __init__(self, head: bytes, body: bytes, *, resets: bool = False, echoes: bool = False) -> None:
        self.head, self.body, self.resets, self.echoes = head, body, resets, echoes
        self.called = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"content-length: (\d+)", head)
        message = json.loads(await reader.readexactly(int(length[1]))) if length else {}
        method, result = message.get("method"), None
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            about = {"name": "bank", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        elif method == "tools/list":
            result = {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}
        if method == "tools/call":
            self.called += 1
            if self.echoes:  # the id of the request is as long as the one in the body
                self.body = self.body.replace(b"null", json.dumps(message["id"]).encode().ljust(4))
            writer.write(b"HTTP/1.1 " + self.head + b"\r\n\r\n" + self.body)
            await writer.drain()
            if self.resets:
                writer.transport.abort()
        elif message and "id" not in message:
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        elif message:
            told = {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}).encode()
            about_body = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
            writer.write(f"HTTP/1.1 200 OK\r\n{about_body}\r\nConnection: close\r\n\r\n".encode() + body)
        else:
            writer.write(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEW_TEST_SECRET", SECRET)


@pytest.mark.threat(1)
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_at_a_url_is_a_participant_and_its_header_is_shown_nowhere(
    site: Site, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(transport) as (url, process):
        bridge = await site.bridge(url, headers=HEADERS)
        human = await site.seat("human")
        assert (await human.call("git/add", {"a": 2, "b": 3})).text == "5"
        assert [tool["name"] for tool in await human.list_tools("git")][:3] == ["add", "steps", "hold"]
        assert (bridge.pid, SECRET in repr(bridge), "with Authorization" in repr(bridge)) == (0, False, True)
        process.kill()
        await process.wait()
        if transport == "http":  # a request that cannot be sent is an error, and the participant stays
            with pytest.raises(ToolFailed, match=r"http://127.0.0.1:\d+/mcp .* cannot be reached"):
                await human.call("git/add", {"a": 2, "b": 3})
            assert "git" in human.client.participants and not site.ended
        else:
            await until(lambda: "git" not in human.client.participants and site.ended)
            assert "the MCP server of participant git closed the connection" in site.ended[0]
    assert SECRET not in caplog.text + " ".join(site.ended)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_without_its_header_the_sentence_names_what_is_missing(site: Site, transport: str) -> None:
    async with served(transport) as (url, _):
        with pytest.raises(
            MewError, match=r"it answered with HTTP 401; it may need a header such as Authorization$"
        ):
            await site.bridge(url)
    assert site.gateway.connections("demo") == 0


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_that_is_not_there_cannot_be_reached(site: Site, transport: str) -> None:
    with pytest.raises(MewError, match=r"http://127.0.0.1:9/mcp \(.*\): it cannot be reached: "):
        await site.bridge("http://127.0.0.1:9/mcp", transport=transport)


@pytest.mark.parametrize(
    ("head", "body", "sentence"),
    [
        (b"200 OK\r\nContent-Type: text/html", b"<h1>Hello</h1>", "Unexpected content type: text/html"),
        (b"500 Oops\r\nContent-Type: text/plain", b"oops", "it answered with HTTP 500"),
        (b"200 OK\r\nContent-Type: application/json", b"{", "Failed to parse JSON response"),
        (
            b"200 OK\r\nContent-Type: application/json",
            b" " * (9 << 20),
            "it has 9437184 bytes, and is no answer of MCP",
        ),
        (b"200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip", b"", "compressed its answer"),
        (b"302 Found\r\nLocation: http://127.0.0.2:1/", b"", "not followed"),
    ],
)
async def test_what_is_no_mcp_server_is_told_in_one_line(
    site: Site, head: bytes, body: bytes, sentence: str
) -> None:
    async with answering(head, body) as url:
        with pytest.raises(MewError, match=sentence) as caught:
            await site.bridge(url)
    assert "\n" not in str(caught.value) and "in-the-query" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "options", "sentence"),
    [
        ("ftp://host/x", {}, "begins with http:// or https://"),
        ("http://", {}, "begins with http:// or https://"),
        ("https://host:port/x", {}, "is no URL of an MCP server"),
        ("https://me:secret-word@host/x", {}, "a user name or password does not belong into a URL"),
        ("https://host/x", {"transport": "pigeon"}, "'pigeon' is no transport"),
        ("https://host/x", {"headers": {"A b": "c"}}, "is no name of a header"),
        ("https://host/x", {"headers": {"A": "b\r\nC: d"}}, "is not printable ASCII"),
        ("https://host/x", {"headers": {"A": "${NOT_SET_ANYWHERE}"}}, "NOT_SET_ANYWHERE, which is not set"),
        ("http://example.org/x", {"headers": HEADERS}, "the connection is not encrypted; use https"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_before_anything_is_sent(
    url: str, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        McpBridge("git", url, **options)  # type: ignore[arg-type]
    assert "secret" not in str(caught.value) and "\r" not in str(caught.value)


JSON, SSE = (b"200 OK\r\nContent-Type: " + kind for kind in (b"application/json", b"text/event-stream"))
BAD = JSON.replace(b"200 OK", b"502 Bad Gateway")


@pytest.mark.ruling("R35")
@pytest.mark.parametrize(
    ("head", "body", "resets"),
    [
        pytest.param(JSON + b"\r\nContent-Length: 500", b'{"jsonrpc":"2.0","id":', False, id="half a body"),
        pytest.param(JSON + b"\r\nContent-Length: 500", b'{"jsonrpc":"2.0",', True, id="a reset"),
        pytest.param(JSON + b"\r\nTransfer-Encoding: chunked", b"9\r\n{\"jsonrpc\r\n", False, id="half the chunks"),
        pytest.param(JSON + b"\r\nConnection: close", b'{"jsonrpc":"2.0","re', False, id="half an object"),
        pytest.param(JSON + b"\r\nContent-Length: 0", b"", False, id="no body"),
        pytest.param(BAD + b"\r\nContent-Length: 21", b'{"error":"a gateway"}', False, id="an error of a gateway"),
        pytest.param(BAD + b"\r\nContent-Length: 50", b'{"error":{"code":1', False, id="half an error"),
        pytest.param(b"200 OK\r\nContent-Length: 4", b"page", False, id="a page"),
        pytest.param(b"202 Accepted\r\nContent-Length: 0", b"", False, id="no answer to come"),
        pytest.param(SSE + b"\r\nTransfer-Encoding: chunked", b"7\r\ndata: {\r\n", False, id="half an event"),
        pytest.param(SSE + b"\r\nConnection: close", b": nothing\n\n", False, id="a stream without the answer"),
    ],
)  # fmt: skip
async def test_a_call_whose_answer_breaks_off_is_unknown(
    site: Site, head: bytes, body: bytes, resets: bool
) -> None:
    breaking = Breaking(head, body, resets=resets)
    server = await asyncio.start_server(breaking.serve, "127.0.0.1", 0)
    async with server:
        await site.bridge(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        human = await site.seat("human")
        async with asyncio.timeout(20):
            with pytest.raises(OutcomeUnknown, match=r"It was sent\. Whether it took effect is not known\.$"):
                await human.call("git/pay")
        assert breaking.called == 1


@pytest.mark.ruling("R35")
@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (b"200 OK", {"code": -32000, "message": "no money"}, "no money"),
        (b"500 Oops", {"code": -32603, "message": "it broke"}, "it broke"),
        (b"400 Bad", {"code": -32602, "message": "no such account"}, "no such account"),
        (b"401 No", "unauthorized", "Server returned an error response"),
        (b"200 OK", {"code": -32602, "message": "Failed to parse date '2025-13-01'"}, "Failed to parse date"),
        (
            b"200 OK",
            {"code": -32700, "message": "Failed to parse the account"},
            "Failed to parse the account",
        ),
        (b"200 OK", {"code": -32000, "message": "SSE stream is not for sale"}, "is not for sale"),
        (b"200 OK", {"code": -32602, "message": "Unexpected content type: pdf"}, "Unexpected content type"),
        (b"200 OK", {"code": -32602, "message": "SSE stream failed: no money"}, "no money"),
    ],
)
async def test_the_error_that_a_server_at_a_url_gives_stays_a_failure(
    site: Site, status: bytes, error: object, said: str
) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    head = status + f"\r\nContent-Type: application/json\r\nContent-Length: {len(body)}".encode()
    breaking = Breaking(head, body, echoes=True)
    server = await asyncio.start_server(breaking.serve, "127.0.0.1", 0)
    async with server:
        await site.bridge(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        human = await site.seat("human")
        async with asyncio.timeout(20):
            with pytest.raises(ToolFailed, match=said):
                await human.call("git/pay")


@pytest.mark.ruling("R35")
@pytest.mark.parametrize(
    ("head", "body"), [(JSON, b"%b"), (SSE, b"data: %b\n\n"), (SSE, b"data: \ndata:%b\n\n")]
)
async def test_the_answer_in_a_batch_is_that_of_the_call(site: Site, head: bytes, body: bytes) -> None:
    batch = (
        b'[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":null,"result":{"content":[]}}]'
    )
    breaking = Breaking(head + b"\r\nConnection: close", body % batch, echoes=True)
    server = await asyncio.start_server(breaking.serve, "127.0.0.1", 0)
    async with server:
        await site.bridge(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        human = await site.seat("human")
        async with asyncio.timeout(20):
            assert (await human.call("git/pay")).raw["content"] == []


class Posted:
    """A server over SSE that answers on its stream, but to the POST of a call of `pay` itself."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._stream: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("GET"):
            self._stream = writer
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /m\n\n"
            )
            return
        size = re.search(r"(?i)content-length: (\d+)", head)
        assert size is not None and self._stream is not None
        message = json.loads(await reader.readexactly(int(size[1])))
        pays = message.get("params", {}).get("name") == "pay"
        writer.write(self._answer if pays else b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"},
            },
            "tools/list": {
                "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "see")]
            },
        }
        if "id" in message and not pays:
            result = results.get(message["method"], {"content": []})
            event = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            self._stream.write(f"data: {event}\n\n".encode())


PAID = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no money"}}'
NO_MONEY = (
    b"HTTP/1.1 400 No\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(PAID) + PAID
)


@pytest.mark.ruling("R35")
@pytest.mark.parametrize(
    ("answer", "fault", "said"),
    [
        pytest.param(b"", OutcomeUnknown, "cannot be reached", id="none"),
        pytest.param(b"HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n", OutcomeUnknown, "HTTP 502", id="of a gateway"),
        pytest.param(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", ToolFailed, "HTTP 401; it may need", id="refused"),
        pytest.param(NO_MONEY, ToolFailed, "no money", id="an error"),
    ],
)  # fmt: skip
async def test_a_request_over_sse_that_is_not_taken_ends_alone(
    site: Site, answer: bytes, fault: type[MewError], said: str
) -> None:
    server = await asyncio.start_server(Posted(answer).serve, "127.0.0.1", 0)
    async with server:
        await site.bridge(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse")
        human = await site.seat("human")
        async with asyncio.timeout(20):
            assert (await human.call("git/see")).text == ""
            with pytest.raises(fault, match=said):
                await human.call("git/pay")
            assert (await human.call("git/see")).text == ""


class Chunks(httpx2.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk

    async def aclose(self) -> None: ...


FIELD = st.sampled_from(
    ["data: {}", 'data:{"a":', "data:  1}", "data:", "data", "event: message", "event:endpoint", "id: 7", ": ping",
     "retry: 5", "é: x", "dat", ""]
)  # fmt: skip
END = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(st.tuples(FIELD, END)), st.lists(st.integers(0, 40)))
async def test_events_that_nothing_speaks_against_come_as_they_were_however_they_are_cut(
    lines: list[tuple[str, str]], cuts: list[int]
) -> None:
    data = "".join(map("".join, [*lines, ("", "\n"), ("", "\n")])).encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[begin:end] for begin, end in itertools.pairwise(places)]
    server = RemoteServer("http://127.0.0.1:9/mcp")
    reader = MessageReader(None, "a server", LineJudge())

    async def events(body: httpx2.AsyncByteStream) -> list[tuple[str, str, str, int | None]]:
        request, kind = httpx2.Request("GET", "http://127.0.0.1:9"), {"content-type": "text/event-stream"}
        response = httpx2.Response(200, headers=kind, stream=body, request=request)
        return [(it.event, it.data, it.id, it.retry) async for it in httpx2.EventSource(response)]

    assert await events(EventBody(Chunks(pieces), reader, server, held=10_000)) == await events(
        Chunks([data])
    )


@pytest.mark.parametrize("line", [b"\n", b": ping\n\n", b"\r"])
async def test_what_is_no_event_is_not_passed_on(line: bytes) -> None:
    reader = MessageReader(None, "a server", LineJudge())
    body = EventBody(Chunks([line * 100]), reader, RemoteServer("http://127.0.0.1:9/mcp"), held=10_000)
    assert [piece async for piece in body] == []


def test_the_transport_is_that_of_the_path_unless_it_is_named() -> None:
    assert RemoteServer("https://host/sse").transport == "sse"
    assert RemoteServer("https://host/mcp").transport == "http"
    assert RemoteServer("https://host/sse", transport="http").transport == "http"
    assert (
        repr(RemoteServer("https://host/mcp?key=word"))
        == "<RemoteServer https://host/mcp?… (streamable HTTP)>"
    )


def test_a_lab_connects_a_url() -> None:
    with subprocess.Popen([sys.executable, str(FULL), "both", "http"], stdout=subprocess.PIPE) as process:
        url = process.stdout.readline().decode().strip()
        lab = None
        try:
            lab = mew_lab.up(journal=None)
            seat = lab.bridge("far", url, headers=HEADERS)
            assert lab.call("far/add", {"a": 2, "b": 3}).result(timeout=20).text == "5"
            assert SECRET not in f"{seat!r}{lab.who()}"
            with pytest.raises(MewError, match="HTTP 401"):
                lab.bridge("farther", url)
        finally:
            process.kill()
            if lab is not None:
                lab.down()
