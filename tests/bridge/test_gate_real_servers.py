"""Servers of the field behind a bridge, called by the official client through a gate, when a person has approved."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types

from mew_lab.protocol.permit import PROFILES

from .conftest import until
from .desk import Desk, text
from .real_servers import npm_server, python_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@asynccontextmanager
async def client_of(desk: Desk, name: str, command: list[str], mode: str) -> AsyncIterator[Client]:
    """A client of a gate to a space with this server as the participant `name`."""
    await desk.site.bridge(command, name=name, can=PROFILES["tool"], start_timeout=60)
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        yield client


async def decide(desk: Desk, client: Client, name: str, arguments: Mapping[str, Any], **how: Any) -> Any:
    """The result of a call that the person approves as soon as she sees it, as it was made."""
    call = asyncio.create_task(client.call_tool(name, dict(arguments), **how))
    id = await desk.proposed()
    proposal = desk.card(id)
    assert proposal.payload["params"]["arguments"] == arguments
    await desk.human.approve(id)
    return await call


async def test_git(desk: Desk, repository: Path, mode: str) -> None:
    command = [*python_server("mcp-server-git"), "--repository", str(repository)]
    where = {"repo_path": str(repository)}
    async with client_of(desk, "git", command, mode) as client:
        log = await decide(desk, client, "git_git_log", where)
        (repository / "readme.txt").write_text("bye\n")
        diff = await decide(desk, client, "git_git_diff_unstaged", where)
    assert not log.is_error and "The first of them" in text(log)
    assert "-hello" in text(diff) and "+bye" in text(diff)


async def test_time(desk: Desk, mode: str) -> None:
    command = [*python_server("mcp-server-time"), "--local-timezone", "UTC"]
    asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    async with client_of(desk, "clock", command, mode) as client:
        result = await decide(desk, client, "clock_convert_time", asked)
        refused = await decide(desk, client, "clock_convert_time", {**asked, "time": "no time"})
    assert "T21:00:00+09:00" in json.loads(text(result))["target"]["datetime"]
    assert refused.is_error and "time" in text(refused)


class Page(BaseHTTPRequestHandler):
    """A server with one page of plain text."""

    def do_GET(self) -> None:
        found = self.path == "/page"
        body = b"the text of the page" if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if found:
            self.server.visits += 1  # type: ignore[attr-defined]

    def log_message(self, *what: object) -> None: ...


@pytest.fixture
def web() -> Iterator[ThreadingHTTPServer]:
    """A web server of this machine; `visits` counts how often its page was fetched."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    server.visits = 0  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


async def test_fetch(desk: Desk, web: ThreadingHTTPServer, mode: str) -> None:
    command = [*python_server("mcp-server-fetch"), "--allow-private-ips"]
    url = f"http://127.0.0.1:{web.server_port}/page"
    async with client_of(desk, "web", command, mode) as client:
        call = asyncio.create_task(client.call_tool("web_fetch", {"url": url}))
        await desk.human.reject(await desk.proposed(), "not there")
        refused = await call
        assert refused.is_error and "human rejected web/fetch: not there" in text(refused)
        assert web.visits == 0  # type: ignore[attr-defined]
        result = await decide(desk, client, "web_fetch", {"url": url})
    assert not result.is_error and "the text of the page" in text(result)
    assert web.visits == 1  # type: ignore[attr-defined]


async def test_everything(desk: Desk, mode: str) -> None:
    reports: list[tuple[float, float | None]] = []

    async def take(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total))

    command = [*npm_server("@modelcontextprotocol/server-everything"), "stdio"]
    steps = {"duration": 2, "steps": 4}
    async with client_of(desk, "every", command, mode) as client:
        echo = await decide(desk, client, "every_echo", {"message": "hi"})
        image = await decide(desk, client, "every_get-tiny-image", {})
        structured = await decide(desk, client, "every_get-structured-content", {"location": "Chicago"})
        name = "every_trigger-long-running-operation"
        done = await decide(desk, client, name, steps, progress_callback=take)
        task = await decide(desk, client, "every_simulate-research-query", {"topic": "bees"})
        prompt = types.PromptReference(name="every_completable-prompt")
        completed = await client.complete(prompt, {"name": "department", "value": "E"})
        page = asyncio.create_task(client.list_resources())
        [resource, *_] = (await page).resources
        contents = (await desk.approved(client.read_resource(resource.uri))).contents
    assert text(echo) == "Echo: hi"
    assert "image" in {block.type for block in image.content}
    assert structured.structured_content
    assert "Steps: 4" in text(done)
    assert contents
    assert not task.is_error and "Research Report: bees" in text(task)  # it runs only as a task
    assert completed.completion.values == ["Engineering"]
    if mode == "legacy":  # in this process, the library gives a client of the latest revision no token
        assert len(reports) >= 4 and reports[-1] == (4, 4)
        assert all(earlier < later for (earlier, _), (later, _) in itertools.pairwise(reports))


async def test_pages_of_mcp_apps(desk: Desk, mode: str) -> None:
    page = "ui://clock/get-time/mcp-app.html"
    command = [*npm_server("@modelcontextprotocol/server-basic-vanillajs"), "--stdio"]
    async with client_of(desk, "clock", command, mode) as client:
        [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "clock_get-time"]
        assert tool.meta is not None and tool.meta["ui"] == {"resourceUri": page}
        assert page in {resource.uri for resource in (await client.list_resources()).resources}
        [content] = (await desk.approved(client.read_resource(page))).contents
        now = await decide(desk, client, "clock_get-time", {})
    assert (content.uri, content.mime_type) == (page, "text/html;profile=mcp-app")
    assert isinstance(content, types.TextResourceContents) and content.text.startswith("<!DOCTYPE html>")
    assert not now.is_error and set(now.structured_content) == {"time"}


async def test_filesystem(desk: Desk, tmp_path: Path, mode: str) -> None:
    place = tmp_path / "files"
    place.mkdir()
    file = {"path": str(place / "note.txt")}
    command = [*npm_server("@modelcontextprotocol/server-filesystem"), str(place)]
    async with client_of(desk, "files", command, mode) as client:
        call = asyncio.create_task(client.call_tool("files_write_file", {**file, "content": "one"}))
        await desk.human.reject(await desk.proposed(), "keep it")
        assert (await call).is_error
        await until(lambda: not desk.open)
        assert not any(place.iterdir())
        written = await decide(desk, client, "files_write_file", {**file, "content": "two"})
        assert not written.is_error and (place / "note.txt").read_text() == "two"
        read = await decide(desk, client, "files_read_text_file", file)
        outside = await decide(desk, client, "files_read_text_file", {"path": "/etc/passwd"})
    assert "two" in text(read)
    assert outside.is_error and "outside allowed directories" in text(outside)
