"""An address is shown without its secrets, whoever shows it: a sentence, a program, or a library that we use."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import mew_lab
from mew_lab.bridge.remote import RemoteServer
from mew_lab.bridge.session import open_session
from mew_lab.cli import main
from mew_lab.errors import MewError
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.tools import RpcError

from .protocol.test_address import CANARY, PLACES, without_secret

TOKEN = "token-of-a-guest-0123456789"


def text_of(fault: BaseException) -> str:
    """An error as a notebook prints it, with all that led to it."""
    return "".join(traceback.format_exception(fault)) + repr(fault)


def connected(whole: str) -> str:
    try:
        mew_lab.connect(whole, space="demo", token=TOKEN, timeout=20)
    except MewError as fault:
        return text_of(fault)
    raise AssertionError("there is no gateway")


def client_of(whole: str) -> str:
    async def work() -> str:
        client = MEWClient(whole, space="demo", token=TOKEN, reconnect=False)
        shown = f"{client.gateway} {client!r} {client.gateway!r}"
        try:
            await client.connect()
        except MewError as fault:
            return shown + text_of(fault)
        raise AssertionError("there is no gateway")

    return asyncio.run(work())


def bridged(whole: str) -> str:
    async def work() -> str:
        try:
            server = RemoteServer(whole)
        except MewError as fault:
            return text_of(fault)
        shown = f"{server!r} {server.command_line} {server.url}"
        try:
            async with open_session(
                server, on_notification=nothing, on_request=NoRequests(), at_end=lambda: None
            ):
                raise AssertionError("there is no MCP server")
        except (MewError, RpcError, EOFError) as fault:
            return f"{shown} {await server.describe_end()}" + text_of(fault)

    return asyncio.run(work())


async def nothing(method: str, params: object) -> None:
    pass


class NoRequests:
    methods: frozenset[str] = frozenset()

    async def answer(self, method: str, params: object, *, about: object = None) -> dict[str, Any]:
        raise AssertionError(method)


def exported(whole: str) -> str:
    try:
        mew_lab.open_log(Path(mew_lab.__file__).parent / "data" / "garden.jsonl").export_otlp(whole)
    except MewError as fault:
        return text_of(fault)
    raise AssertionError("there is no receiver")


def command(*words: str) -> Callable[[str], str]:
    """What a program prints is in the output of the test."""

    def run(whole: str) -> str:
        try:
            status = main([whole if word == "URL" else word for word in words])
        except SystemExit as end:
            status = int(end.code or 0)
        assert status != 0
        return ""

    return run


TOKENS = ("--space", "demo", "--token-env", "MEW_TOKEN_OF_TEST")
SINKS: dict[str, Callable[[str], str]] = {
    "connect": connected,
    "MEWClient": client_of,
    "bridge": bridged,
    "export_otlp": exported,
    "mew-lab join": command("join", "URL", *TOKENS),
    "mew-lab join without a space": command("join", "URL"),
    "mew-lab mcp": command("mcp", "URL", *TOKENS),
    "mew-lab bridge": command("bridge", "URL", *TOKENS, "--as", "git", "--", "true"),
    "mew-lab tap": command("tap", "--listen", "127.0.0.1:0", "--to", "URL"),
    "mew-lab conform": command("conform", "URL", "--tokens", "profile.json"),
}


class Refusing(BaseHTTPRequestHandler):
    """Answers everything with a status that nobody takes for a success."""

    def answer(self) -> None:
        self.send_error(418, "no")

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture(scope="module")
def refusing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.threat(49)
@pytest.mark.parametrize("sink", SINKS)
def test_no_error_no_program_and_no_library_shows_what_may_be_a_secret_in_an_address(
    sink: str,
    refusing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEW_TOKEN_OF_TEST", TOKEN)
    if sink == "mew-lab conform":
        assert main(["conform", "--write-space", "space.yaml", "--tokens", "profile.json"]) == 0
    caplog.set_level(logging.DEBUG)
    shown: dict[str, str] = {}
    for place in PLACES:
        if sink == "export_otlp" and not place.startswith("http"):
            continue  # the name of a file
        whole = place.replace("HOST", refusing).replace("%s", CANARY).replace("%%", "%")
        text = SINKS[sink](whole)
        output = capfd.readouterr()
        shown[place] = text + output.out + output.err + caplog.text
        caplog.clear()
    assert [place for place, text in shown.items() if not without_secret(text)] == []
    assert all(shown.values())
    assert not any(TOKEN in text for text in shown.values())
