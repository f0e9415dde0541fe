"""The HTTP server of MCP surfaces: who comes in, how many sessions there are, and what a refusal says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from mew_lab.bridge.delivery import SESSION_HEADER
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.bridge.mcp_server import mcp_server
from mew_lab.errors import ConfigError
from mew_lab.protocol.token import Token
from mew_lab.sdk.signal import Signal

TOKEN = Token("canary-of-a-served-surface-0123456789")
BEARER = {"Authorization": f"Bearer {TOKEN.reveal()}"}
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Surface:
    """A surface without tools that counts what it is asked."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.changed: Signal[str] = Signal()

    def initialized(self) -> dict[str, Any]:
        return {"serverInfo": {"name": "a surface", "version": "1"}}

    async def answer(
        self, method: str, params: Mapping[str, Any], *, on_progress: Any = None
    ) -> dict[str, Any]:
        self.requests.append(method)
        return {"tools": []}


@pytest.fixture
def surface() -> Surface:
    return Surface()


def served(surface: Surface, **how: Any) -> McpHttpServer:
    return McpHttpServer(mcp_server(surface), token=TOKEN, **how)


@pytest.mark.threat(40)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Basic abc"}, 401),
        ({"Authorization": "Bearer wrong-wrong-wrong-wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN.reveal()[:-1]}"}, 401),
        ({**BEARER, "Host": "example.org"}, 421),
        ({**BEARER, "Host": "127.0.0.1:1"}, 421),
        ({**BEARER, "Host": ""}, 421),
        ({**BEARER, "Origin": "http://example.org"}, 403),
        ({**BEARER, "Origin": "http://127.0.0.1:8888"}, 403),
        ({**BEARER, "Origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS"])
async def test_nobody_comes_in_without_the_token_by_another_name_or_from_a_page(
    surface: Surface, caplog: pytest.LogCaptureFixture, method: str, headers: dict[str, str], status: int
) -> None:
    async with served(surface) as server, httpx.AsyncClient() as web:
        for path in ("/mcp", "/", "/mcp/"):
            url = server.url.replace("/mcp", path)
            answer = await web.request(method, url, json=INITIALIZE, headers={**ACCEPT, **headers})
            assert answer.status_code == status
            assert "mcp-session-id" not in answer.headers
            assert TOKEN.reveal() not in answer.text + caplog.text
    assert surface.requests == []


@pytest.mark.threat(40)
@pytest.mark.threat(55)
async def test_only_so_many_sessions_are_there_at_once_and_the_least_used_makes_room(
    surface: Surface,
) -> None:
    async with served(surface, sessions=2) as server, httpx.AsyncClient(headers=BEARER) as web:

        async def status_of(session: str, method: str = "tools/list") -> int:
            request = {"jsonrpc": "2.0", "id": 2, "method": method}
            answer = await web.post(server.url, json=request, headers={**ACCEPT, SESSION_HEADER: session})
            return answer.status_code

        async def open_session() -> str:
            answer = await web.post(server.url, json=INITIALIZE, headers=ACCEPT)
            assert answer.status_code == 200
            return answer.headers[SESSION_HEADER]

        first = await open_session()
        used = [await status_of(first) for _ in range(3)]
        opened = [await open_session() for _ in range(70)]
        assert {*used, await status_of(first), await status_of(opened[-1])} == {200}
        assert {await status_of(session) for session in opened[:-1]} == {404}


@pytest.mark.threat(40)
async def test_idle_sessions_end(surface: Surface) -> None:
    async with served(surface, idle=0.3) as server, httpx.AsyncClient(headers=BEARER) as web:
        answer = await web.post(server.url, json=INITIALIZE, headers=ACCEPT)
        request = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        headers = {**ACCEPT, SESSION_HEADER: answer.headers[SESSION_HEADER]}
        await asyncio.sleep(0.4)
        async with asyncio.timeout(10):
            while (await web.post(server.url, json=request, headers=headers)).status_code != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.4)


async def test_a_port_that_is_taken_is_told(surface: Surface) -> None:
    async with served(surface) as server:
        with pytest.raises(ConfigError, match=f"port {server.port} of 127.0.0.1 is in use already; choose"):
            async with served(surface, port=server.port):
                pass


@pytest.mark.threat(26)
async def test_many_wrong_tokens_are_one_line_of_the_log_with_none_of_them(
    surface: Surface, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(surface) as server, httpx.AsyncClient(trust_env=False) as web:
        for n in range(20):
            headers = {"Authorization": f"Bearer wrong-wrong-wrong-{n}"}
            assert (await web.post(server.url, headers=headers)).status_code == 401
    lines = [record.getMessage() for record in caplog.records if "wrong" in record.getMessage()]
    assert lines == ["requests with a wrong token, refused since the last such line: 1"]


async def test_a_refusal_names_the_token_that_is_wanted(surface: Surface) -> None:
    server = served(surface, token_name="the token of desk.yaml")
    async with server, httpx.AsyncClient(trust_env=False) as web:
        absent = await web.post(server.url, json=INITIALIZE)
        wrong = await web.post(
            server.url, json=INITIALIZE, headers={"Authorization": "Bearer wrong-wrong-wrong"}
        )
    assert absent.json()["message"] == "send Authorization: Bearer and the token of desk.yaml"
    assert (wrong.json()["error"], wrong.json()["message"]) == (
        "invalid_token",
        "this is not the token of desk.yaml",
    )
    assert wrong.headers["www-authenticate"] == absent.headers["www-authenticate"] == "Bearer"


@pytest.mark.threat(55, 37)
@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "id": 7, "result": [[]] * 30_000},
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "x", "arguments": {"a": [1] * 50_000}},
        },
        [{"jsonrpc": "2.0", "id": 7, "method": "ping"}] * 30_000,
    ],
)
async def test_a_body_of_many_values_is_refused_before_it_is_parsed(surface: Surface, body: Any) -> None:
    async with served(surface) as server, httpx.AsyncClient(headers=BEARER, trust_env=False) as web:
        answer = await web.post(server.url, json=body, headers=ACCEPT)
    assert (answer.status_code, answer.json()["error"]) == (413, "limit_exceeded")
    assert surface.requests == []


async def test_what_stands_in_a_text_is_no_value(surface: Surface) -> None:
    arguments = {"text": '{"a": [1, 2, "\\\\"]},' * 20_000}
    call = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "x", "arguments": arguments},
    }
    async with served(surface) as server, httpx.AsyncClient(headers=BEARER, trust_env=False) as web:
        answer = await web.post(server.url, json=INITIALIZE, headers=ACCEPT)
        headers = {**ACCEPT, SESSION_HEADER: answer.headers[SESSION_HEADER]}
        assert (await web.post(server.url, json=call, headers=headers)).status_code == 200
    assert surface.requests == ["tools/call"]


@pytest.mark.threat(55)
async def test_a_body_that_is_not_sent_to_its_end_makes_room_for_others(surface: Surface) -> None:
    async with served(surface) as server, httpx.AsyncClient(headers=BEARER, trust_env=False) as web:
        half = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {bearer}\r\nContent-Length: 9\r\n\r\n{{"
        head = half.format(port=server.port, bearer=BEARER["Authorization"]).encode()
        opened = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(head)
            opened.append((reader, writer))
            await asyncio.sleep(0.02)
        assert b"503" in await asyncio.wait_for(opened[0][0].readline(), 4)
        assert (await web.post(server.url, json=INITIALIZE, headers=ACCEPT)).status_code == 200
        for _, writer in opened:
            writer.close()
