"""A web page of another origin, in a real browser, gets nothing out of a gateway on this machine and nothing in."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

import mew_lab

OPEN = """url => new Promise(done => {
    const socket = new WebSocket(url);
    socket.onopen = () => { socket.send('{"type":"join"}'); done('open'); };
    socket.onmessage = () => done('message');
    socket.onclose = event => done(event.code);
})"""
FETCH = "url => fetch(url).then(answer => answer.status, fault => fault.name)"
POST = """url => fetch(url, {method: 'POST', mode: 'no-cors', body: '{"kind":"chat"}'})
    .then(answer => answer.type, fault => fault.name)"""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of somebody else's page on this machine."""

    class Quiet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title>")

        def log_message(self, *said: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.threat(24)
def test_a_page_of_another_origin_can_neither_open_read_nor_send(
    window: BrowserContext, elsewhere: str, tmp_path: Path
) -> None:
    lab = mew_lab.up(journal=tmp_path / "journal.jsonl")
    tab = window.new_page()
    try:
        tab.goto(elsewhere)
        before = len(lab.log)
        address = lab.url.replace("ws://", "http://").removesuffix("/ws")
        assert tab.evaluate(OPEN, lab.url) == 1006  # the handshake failed; a page is not told more
        assert tab.evaluate(FETCH, f"{address}/health") == "TypeError"
        assert tab.evaluate(POST, f"{address}/participants/human/messages") in ("opaque", "TypeError")
        assert len(lab.log) == before
    finally:
        tab.close()
        lab.down()
