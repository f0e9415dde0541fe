"""Every port of the project under hostile connections, without a token and with one: another client is served meanwhile."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import re
import runpy
import secrets
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import websockets
from websockets.typing import Origin

import mew_lab
from mew_lab.transport.websocket import connect

from .waiting import until

resource = pytest.importorskip("resource")

PACKAGE = Path(mew_lab.__file__).parent
DESCRIPTORS = 256  # that a server under test may have
COUNT = 300  # hostile connections at once: more than a server has descriptors
LINES = 12  # of stderr for one kind of hostile connection
WITHIN = 1.0  # seconds
LASTS = 3.0  # seconds of a flood at least: its connections are open before they are taken
HELPER = Path(__file__).with_name("hostile.py")
_TABLE = runpy.run_path(str(HELPER))
HOSTILE, ADMITTED = _TABLE["HOSTILE"], _TABLE["ADMITTED"]
GROWTH = 256  # MiB that a server may grow by under a flood
AGENT = """
metadata:
  name: Desk
  version: 1.0.0
  mode: tools
  tools: [{name: tell, description: Tells., parameters: {type: object}, prompt: Tell me.}]
"""
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip

# --- which modules listen ---------------------------------------------------------------------------------------

# What listens, in the standard library and in those that are installed; `Listener` is the one place for it.
LISTENS = {
    *("listen", "sock_accept", "accept", "start_server", "create_server", "start_unix_server"),
    *("create_unix_server", "create_datagram_endpoint", "bind_socket", "TCPServer", "HTTPServer", "run_app"),
    *("ThreadingHTTPServer", "make_server", "WSGIServer"),
}
OURS = {"Listener", "HttpServer"}
# Methods of our own, or of the MCP library, that have such a name and listen on no port.
OTHERS = {("agent/agent.py", "accept"), ("bridge/acp.py", "accept"), ("bridge/session.py", "listen")}


def calls_of(path: Path) -> Iterator[tuple[str, str]]:
    """Each function that a module calls by a name of the two sets."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in LISTENS | OURS:
                yield path.relative_to(PACKAGE).as_posix(), name


@pytest.mark.threat(48)
def test_only_the_guarded_listener_listens_and_each_of_its_servers_is_under_the_hostile_connections() -> None:
    found = {call for path in sorted(PACKAGE.rglob("*.py")) for call in calls_of(path)} - OTHERS
    assert {module for module, name in found if name in LISTENS} == {"transport/listener.py"}
    servers = {module for module, name in found if name in OURS} - {"gateway/http_server.py"}
    assert servers == {server.module for server in SERVERS.values()}


# --- the servers, each as the program that a user starts --------------------------------------------------------


class Served(NamedTuple):
    """A running server, and what its admitted client does."""

    process: subprocess.Popen[str]
    port: int
    token: Path
    errors: Path
    ask: Callable[[Served], Awaitable[None]]
    behind: bool  # it is a tap before another server

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def memory(self) -> int:
        """MiB of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) // 1024

    def hostile_token(self) -> Path:
        """The token of another participant; an MCP server has one token for all its clients."""
        other = self.token.with_name("mallory.token")
        return other if other.exists() else self.token


class Program(NamedTuple):
    module: str
    words: list[str]
    printed: str
    ask: Callable[[Served], Awaitable[None]]


async def ask_gateway(served: Served) -> None:
    token = served.token.read_text().strip()
    async with httpx.AsyncClient(trust_env=False, timeout=30) as web:
        answer = await web.get(
            f"http://127.0.0.1:{served.port}/participants", headers={"Authorization": f"Bearer {token}"}
        )
    assert answer.status_code == 200
    id = secrets.token_hex(4)
    link = await connect(
        f"ws://127.0.0.1:{served.port}/ws", close_timeout=0.1
    )  # shows its token by a join frame
    await link.send(
        json.dumps({"type": "join", "space": "demo", "token": token, "participantId": f"human-{id}"})
    )
    assert json.loads(await link.receive())["kind"] == "system/welcome"
    await link.send(
        json.dumps({"protocol": "mew/v0.4", "id": f"ws-{id}", "kind": "chat", "payload": {"text": "x"}})
    )
    while f"ws-{id}" not in str(await link.receive())[:200]:
        pass
    async with httpx.AsyncClient(trust_env=False, timeout=30) as web:
        answer = await web.post(
            f"http://127.0.0.1:{served.port}/participants/human/messages",
            headers={"Authorization": f"Bearer {token}"},
            json={"protocol": "mew/v0.4", "id": f"http-{id}", "kind": "chat", "payload": {"text": "x"}},
        )
    assert answer.status_code == 200, answer.text
    while f"http-{id}" not in str(await link.receive())[:200]:
        pass
    await link.close()


async def ask_mcp(served: Served) -> None:
    headers = {
        "Authorization": f"Bearer {served.token.read_text().strip()}",
        "Accept": "application/json, text/event-stream",
    }
    url = f"http://127.0.0.1:{served.port}/mcp"
    async with httpx.AsyncClient(trust_env=False, timeout=30, headers=headers) as web:
        status = 404
        while status == 404:  # its session made room: a client opens another one, as the specification says
            answer = await web.post(url, json=INITIALIZE)
            if answer.status_code == 503:  # requests of the flood wait; it says to try again
                await asyncio.sleep(0.05)
                continue
            assert answer.status_code == 200, answer.text
            session = {"mcp-session-id": answer.headers["mcp-session-id"]}
            request = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            listed = await web.post(url, json=request, headers=session)
            status = listed.status_code
        assert '"tools"' in listed.text
        await web.delete(url, headers=session)


SESSIONS: dict[int, str] = {}  # of the page, by its port


async def ask_page(served: Served) -> None:
    """Gets the page, and its socket's welcome; the first time it signs in by the code of the printed link."""
    origin = f"http://127.0.0.1:{served.port}"
    async with httpx.AsyncClient(trust_env=False, timeout=30, headers={"Origin": origin}) as web:
        if served.port not in SESSIONS:
            signed = await web.post(f"{origin}/ui/session", json={"code": str(served.token)})
            SESSIONS[served.port] = signed.json()["session"]
        assert (await web.get(f"{origin}/ui")).status_code == 200
    async with websockets.connect(f"ws://127.0.0.1:{served.port}/ui/ws", origin=Origin(origin)) as socket:
        await socket.send(json.dumps({"session": SESSIONS[served.port]}))
        assert json.loads(await socket.recv())["welcome"] == "demo"


SERVERS = {
    "page": Program(
        "views/page/server.py", ["serve", "--ui"], r"http://127\.0\.0\.1:(\d+)/ui#(\S+)", ask_page
    ),
    "gateway": Program(
        "gateway/server.py",
        ["serve", "--enrol", "mallory=admin"],
        r"human: .*ws://127\.0\.0\.1:(\d+)/.*--token-file (\S+)",
        ask_gateway,
    ),
    "MCP surface": Program(
        "bridge/mcp_http.py",
        ["tools-agent", "serve", "desk.yaml", "--http", "0"],
        r"http://127\.0\.0\.1:(\d+)/mcp with the token in (\S+),",
        ask_mcp,
    ),
    "tap": Program(
        "transport/http_relay.py",
        ["tap", "--listen", "127.0.0.1:0", "--to", "http://127.0.0.1:{port}/mcp"],
        r"clients connect to http://127\.0\.0\.1:(\d+)()",
        ask_mcp,
    ),
}
SERVERS["tap of a gateway"] = SERVERS["tap"]._replace(ask=ask_gateway)
BEHIND = {"tap": "MCP surface", "tap of a gateway": "gateway"}


@contextlib.contextmanager
def started(program: Program, folder: Path, behind: Served | None) -> Iterator[Served]:
    words = [word.format(port=behind.port if behind else 0) for word in program.words]
    errors = folder / "errors"

    def limit() -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, most))

    with errors.open("w") as to, subprocess.Popen(
        [sys.executable, "-u", "-m", "mew_lab.cli", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=to, text=True, preexec_fn=limit,
    ) as process:  # fmt: skip
        try:
            found = None
            deadline = time.monotonic() + 60
            if behind is None:
                assert process.stdout is not None
                while found is None and (line := process.stdout.readline()):
                    found = re.search(program.printed, line)
            while found is None and process.poll() is None and time.monotonic() < deadline:
                found = re.search(program.printed, errors.read_text())
                time.sleep(0.02)
            assert found is not None, errors.read_text()
            token = behind.token if behind else Path(found[2])
            yield Served(process, int(found[1]), token, errors, program.ask, behind is not None)
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module", params=SERVERS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with contextlib.ExitStack() as stack:
        behind = None
        for name in filter(None, (BEHIND.get(request.param), request.param)):
            folder = tmp_path_factory.mktemp("served")
            (folder / "desk.yaml").write_text(AGENT, encoding="utf-8")
            behind = stack.enter_context(started(SERVERS[name], folder, behind))
        assert behind is not None
        yield behind


@contextlib.contextmanager
def attacked(kind: str, port: int, count: int = COUNT, *token: str) -> Iterator[None]:
    """Holds the connections from another process; all have been open once."""
    words = [sys.executable, str(HELPER), kind, str(port), str(count), *token]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
    ) as attacker:
        try:
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == "ready\n"
            yield
        finally:
            attacker.kill()


async def ask_again(served: Served) -> None:
    """Asks, and once more where a connection that was still unread made room for the next stranger's.

    A tap learns from the server's answer alone who is refused. Until then all are served, and none is left for the next.
    """
    closed, ends = 0, time.monotonic() + LASTS * 10
    while True:
        try:
            return await served.ask(served)
        except httpx.RemoteProtocolError:
            closed += 1
            if closed > 1:
                raise
        except AssertionError as fault:
            if not served.behind or "503" not in str(fault) or time.monotonic() > ends:
                raise


async def seconds_of(work: Awaitable[None]) -> float:
    began = time.monotonic()
    await work
    return time.monotonic() - began


@pytest.mark.sampled(10)  # each holds its connections for some seconds
@pytest.mark.threat(48)
@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_client_with_the_token_is_served_while_strangers_hold_connections(
    served: Served, kind: str
) -> None:
    quiet = [await seconds_of(served.ask(served)) for _ in range(3)]
    before, lines = served.descriptors(), len(served.errors.read_text().splitlines())
    with attacked(kind, served.port):
        taken = [await seconds_of(ask_again(served)) for _ in range(5)]
        assert served.descriptors() < DESCRIPTORS
    # A tap asks the server for each stranger, too: a client has its turn among all of them.
    turns = COUNT if served.behind else 30
    assert max(taken) <= max(WITHIN, turns * sorted(quiet)[1]), (quiet, taken)
    await until(lambda: served.descriptors() <= before + 2, within=20)
    errors = served.errors.read_text().splitlines()[lines:]
    assert len(errors) <= LINES, errors
    assert not any("Traceback" in line for line in errors)


SPEAK = {"gateway": "gateway", "tap of a gateway": "gateway", "MCP surface": "MCP", "tap": "MCP"}


@pytest.mark.sampled(10)  # each holds its connections for some seconds
@pytest.mark.threat(55)
@pytest.mark.parametrize(
    ("served", "server", "kind"),
    [
        (name, speaks, kind)
        for name, speaks in SPEAK.items()
        for kind, (_, count) in ADMITTED[speaks].items()
        if name not in BEHIND or count == COUNT
    ],
    indirect=["served"],
)
async def test_a_client_is_served_while_another_one_floods_with_a_token_of_its_own(
    served: Served, server: str, kind: str
) -> None:
    quiet = [await seconds_of(served.ask(served)) for _ in range(3)]
    before, memory, lines = served.descriptors(), served.memory(), len(served.errors.read_text().splitlines())
    with attacked(kind, served.port, ADMITTED[server][kind][1], str(served.hostile_token()), server):
        taken, ends = [], time.monotonic() + LASTS
        while len(taken) < 5 or time.monotonic() < ends:
            taken.append(await seconds_of(ask_again(served)))
        assert served.descriptors() < DESCRIPTORS
        assert served.memory() < memory + GROWTH
    if not served.behind:  # a tap is promised to keep its places, not to be quick
        assert max(taken) <= max(WITHIN, 30 * sorted(quiet)[1]), (quiet, taken)
    await until(lambda: served.descriptors() <= before + 2, within=20)
    errors = served.errors.read_text().splitlines()[lines:]
    assert len(errors) <= LINES, errors
    assert not any("Traceback" in line for line in errors)
