"""The HTTP server of MCP surfaces: who comes in, how many sessions there are, and what a refusal says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

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
async def test_only_so_many_sessions_are_there_at_once_and_idle_ones_end(surface: Surface) -> None:
    async with served(surface, sessions=2, idle=0.3) as server, httpx.AsyncClient(headers=BEARER) as web:
        opened = [(await web.post(server.url, json=INITIALIZE, headers=ACCEPT)).status_code for _ in range(3)]
        assert opened == [200, 200, 503]

        async with asyncio.timeout(10):
            while (await web.post(server.url, json=INITIALIZE, headers=ACCEPT)).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


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
