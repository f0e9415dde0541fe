"""The WebSocket link beyond the contract: opening, and who refuses."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus

import pytest
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from mew_lab.transport.link import HandshakeRefused, LinkClosed
from mew_lab.transport.websocket import connect

CANARY = "canary-0123456789abcdef"
Starter = Callable[..., Awaitable[str]]


@pytest.fixture
async def start() -> AsyncIterator[Starter]:
    """Starts a plain WebSocket server and gives its URL; `answer` may refuse the handshake."""
    running: list[Server] = []

    async def started(
        handle: Callable[[ServerConnection], Awaitable[None]] = lambda one: one.wait_closed(),
        answer: Callable[[ServerConnection, Request], Response | None] | None = None,
    ) -> str:
        server = await serve(handle, "127.0.0.1", 0, process_request=answer)
        running.append(server)
        return f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"

    yield started
    for server in running:
        server.close(close_connections=True)
        await server.wait_closed()


async def test_headers_go_with_the_upgrade_and_compression_is_off(start: Starter) -> None:
    seen: list[Request] = []
    url = await start(answer=lambda one, request: seen.append(request))
    link = await connect(url, headers={"Authorization": f"Bearer {CANARY}"})
    await link.close()
    assert seen[0].headers["Authorization"] == f"Bearer {CANARY}"
    assert "Sec-WebSocket-Extensions" not in seen[0].headers


@pytest.mark.parametrize("status", [401, 403, 421, 503])
async def test_a_refused_handshake_carries_status_and_body(start: Starter, status: int) -> None:
    url = await start(answer=lambda one, request: one.respond(HTTPStatus(status), '{"error":"no"}'))
    with pytest.raises(HandshakeRefused) as refused:
        await connect(url)
    assert (refused.value.status, refused.value.body) == (status, '{"error":"no"}')


@pytest.mark.threat(1)
async def test_a_redirect_is_a_refusal_and_the_headers_stay_here(start: Starter) -> None:
    asked: list[str] = []
    elsewhere = await start(answer=lambda one, request: asked.append(request.path))

    def redirect(one: ServerConnection, request: Request) -> Response:
        response = one.respond(HTTPStatus.TEMPORARY_REDIRECT, "")
        response.headers["Location"] = elsewhere
        return response

    with pytest.raises(HandshakeRefused) as refused:
        await connect(await start(answer=redirect), headers={"Authorization": f"Bearer {CANARY}"})
    assert refused.value.status == 307
    assert asked == []


async def test_no_proxy_of_the_environment_is_used(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    monkeypatch.delenv("no_proxy", raising=False)
    link = await connect(await start())
    await link.close()


async def test_an_unreachable_address_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        port = held.getsockname()[1]
        with pytest.raises(LinkClosed, match=rf"nothing could be reached at ws://127\.0\.0\.1:{port}"):
            await connect(f"ws://127.0.0.1:{port}/ws?space=x")


async def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(LinkClosed, match=r"did not answer within 0\.1 s"):
            await connect(f"ws://127.0.0.1:{port}/", open_timeout=0.1)


async def test_a_server_that_speaks_no_websocket_is_named() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(LinkClosed, match="does not answer as a WebSocket server"):
            await connect(f"ws://127.0.0.1:{port}/")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "127.0.0.1:1", "ws://me:secret@127.0.0.1:1/"])
async def test_what_is_no_websocket_url_is_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        await connect(url)
    assert "secret" not in str(refused.value)


async def test_a_connection_that_breaks_has_no_close_code_of_its_own(start: Starter) -> None:
    async def hang_up(one: ServerConnection) -> None:
        one.transport.abort()

    link = await connect(await start(hang_up))
    with pytest.raises(LinkClosed) as closed:
        await link.receive()
    assert closed.value.code == 1006


async def test_a_message_over_the_limit_closes_the_link_with_1009(start: Starter) -> None:
    async def shout(one: ServerConnection) -> None:
        await one.send("x" * 2000)
        await one.wait_closed()

    link = await connect(await start(shout), max_size=1000)
    with pytest.raises(LinkClosed) as closed:
        await link.receive()
    assert closed.value.code == 1009


async def test_a_long_reason_is_cut_where_a_close_frame_ends(start: Starter) -> None:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def listen(one: ServerConnection) -> None:
        await one.wait_closed()
        told.set_result(one.close_reason or "")

    link = await connect(await start(listen))
    await link.close(4000, "ä" * 100)
    assert await told == "ä" * 61


@pytest.mark.threat(1)
async def test_headers_are_not_logged_even_at_debug(start: Starter, caplog: pytest.LogCaptureFixture) -> None:
    url = await start()
    caplog.set_level(logging.WARNING, logger="websockets.server")  # the other side's log is its own
    caplog.set_level(logging.DEBUG)
    link = await connect(url, headers={"Authorization": f"Bearer {CANARY}"})
    await link.close()
    assert CANARY not in caplog.text
