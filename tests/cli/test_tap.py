"""`mew-lab tap` between a client and a server: the same bytes, ends, signals and exit status as without it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.bridge.mcp_server import mcp_server
from mew_lab.cli.tap import TapJournal
from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from mew_lab.protocol.token import Token
from mew_lab.sdk.signal import Signal
from mew_lab.space.events import Record

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")
ECHO = "import os\nwhile data := os.read(0, 65536):\n    os.write(1, data)\n"


def tap(journal: Path, code: str, **how: Any) -> subprocess.Popen[bytes]:
    """A running tap before a program in Python."""
    pipe = subprocess.PIPE
    words = [
        sys.executable,
        "-m",
        "mew_lab.cli",
        "tap",
        "--journal",
        str(journal),
        "--",
        sys.executable,
        "-c",
        code,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, **how)


def talk(process: subprocess.Popen[bytes], pieces: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Sends the pieces one by one, and returns all of stdout and stderr."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    found: dict[str, bytes] = {}
    readers = [
        threading.Thread(target=lambda name=name, stream=stream: found.update({name: stream.read()}))
        for name, stream in (("out", process.stdout), ("err", process.stderr))
    ]
    for reader in readers:
        reader.start()
    for piece in pieces:
        process.stdin.write(piece)
        process.stdin.flush()
    process.stdin.close()
    for reader in readers:
        reader.join(40)
    process.wait(20)
    return found["out"], found["err"]


def hostile(dice: random.Random) -> bytes:
    """Lines that are messages, broken, huge, empty or no text at all."""
    lines = []
    for n in range(60):
        lines.append(
            dice.choice(
                (
                    json.dumps({"jsonrpc": "2.0", "id": n, "method": "a", "params": {"x": "é" * n}}).encode(),
                    b'{"jsonrpc":"2.0","id":',
                    dice.randbytes(dice.randrange(300)),
                    b"",
                    b'{"method":"' + b"y" * dice.randrange(300_000) + b'"}',
                    b"[" * dice.randrange(5000),
                )
            )
        )
    return dice.choice((b"\n", b"\r\n")).join(lines) + dice.choice((b"", b"\n"))


@pytest.mark.parametrize("seed", range(3))
def test_all_bytes_arrive_unchanged_in_both_directions(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    data, pieces, at = hostile(dice) + b"z" * 5_000_000, [], 0
    while at < len(data):
        size = dice.choice((1, 10, 1000, 70_000, 1_000_000))
        pieces.append(data[at : at + size])
        at += size
    process = tap(tmp_path / "j.jsonl", ECHO)
    out, _ = talk(process, pieces)
    assert out == data
    assert process.returncode == 0
    log = open_log(tmp_path / "j.jsonl")
    assert log.faults == ()
    by_side = {
        side: [(r.event, r.detail) for r in log.records if r.participant == side]
        for side in ("client", "server")
    }
    assert [event for event, _ in by_side["client"]] == [event for event, _ in by_side["server"]][:-1]


def test_the_journal_is_for_its_owner_alone_and_has_no_secret(tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    sent = b'{"id":1,"method":"a","params":{"authorization":"Bearer abcdefgh12345678"}}\n'
    out, err = talk(tap(journal, ECHO), [sent])
    assert out == sent
    assert journal.stat().st_mode & 0o777 == 0o600
    assert b"abcdefgh12345678" not in journal.read_bytes()
    assert str(journal).encode() in err


def test_exit_status_and_stderr_are_those_of_the_program(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.buffer.write(b'odd \\xff\\n'); sys.stdout.write('last'); sys.exit(37)"
    process = tap(tmp_path / "j.jsonl", code)
    out, err = talk(process, [])
    assert process.returncode == 37
    assert out == b"last"
    assert b"odd \xff\n" in err
    assert [record.detail for record in open_log(tmp_path / "j.jsonl").records][-1] == "exit status 37"


def test_a_signal_reaches_the_program_and_ends_the_tap_alike(tmp_path: Path) -> None:
    code = "import sys, time; print('up', flush=True); time.sleep(30)"
    process = tap(tmp_path / "j.jsonl", code)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM


def test_a_program_that_handles_a_signal_decides_its_end(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('up', flush=True); time.sleep(30)"
    )
    process = tap(tmp_path / "j.jsonl", code)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 5


def test_a_program_that_stops_reading_is_noticed_by_the_client(tmp_path: Path) -> None:
    code = "import os, sys, time; os.close(0); print('closed', flush=True); time.sleep(8)"
    process = tap(tmp_path / "j.jsonl", code)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"closed\n"
    with pytest.raises(BrokenPipeError):
        for _ in range(100):
            process.stdin.write(b"x" * 65536)
            process.stdin.flush()
    process.send_signal(signal.SIGTERM)  # the program is still there
    assert process.wait(20) == -signal.SIGTERM


def test_a_client_that_stops_reading_is_noticed_by_the_program(tmp_path: Path) -> None:
    code = "import os, sys\ntry:\n    while True: os.write(1, b'x' * 65536)\nexcept BrokenPipeError:\n    sys.exit(9)"
    process = tap(tmp_path / "j.jsonl", code)
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(20) == 9


def test_a_full_disk_does_not_stop_the_relay(tmp_path: Path) -> None:
    limit = 20_000
    process = tap(
        tmp_path / "j.jsonl",
        ECHO,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    lines = [b'{"id":%d,"method":"%s"}\n' % (n, b"m" * 900) for n in range(100)]
    out, err = talk(process, lines)
    assert out == b"".join(lines)
    assert process.returncode == 0
    assert err.count(b"The relay goes on without it") == 1
    assert b"could not be written" in err
    log = open_log(tmp_path / "j.jsonl")
    assert log.faults == ()
    assert 5 < len(log) < 30


def test_a_slow_disk_does_not_delay_what_is_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = TapJournal(tmp_path / "j.jsonl", via="stdio", most=1000)
    free, append = threading.Event(), Journal.append

    def wait_first(self: Journal, records: Any) -> None:
        free.wait(20)
        append(self, records)

    monkeypatch.setattr(Journal, "append", wait_first)
    for n in range(100):  # returns while nothing can be written
        journal.observe("client", b'{"id":%d,"method":"a"}\n' % n)
    free.set()
    journal.close()
    records: list[Record] = [*open_log(tmp_path / "j.jsonl").records]
    lost = [json.loads(record.detail)["bytes"] for record in records if record.event == "lost"]
    kept = sum(
        len(json.dumps(json.loads(r.raw)["payload"], separators=(",", ":"))) + 1 for r in records if r.raw
    )
    assert lost and sum(lost) + kept == sum(len(b'{"id":%d,"method":"a"}\n' % n) for n in range(100))


def test_a_journal_that_exists_and_a_program_that_does_not_are_told(tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("mine\n")
    process = tap(there, ECHO)
    _, err = talk(process, [])
    assert process.returncode == 1 and b"there is a file already" in err
    assert there.read_text() == "mine\n"
    words = [
        sys.executable,
        "-m",
        "mew_lab.cli",
        "tap",
        "--journal",
        str(tmp_path / "new.jsonl"),
        "--",
        "no-such-program",
    ]
    ended = subprocess.run(
        words, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=40
    )
    assert ended.returncode == 1
    assert b"there is no program 'no-such-program' on PATH" in ended.stderr


async def test_a_real_client_and_a_real_server_talk_through_it(tmp_path: Path) -> None:
    words = [
        "-m",
        "mew_lab.cli",
        "tap",
        "--journal",
        str(tmp_path / "j.jsonl"),
        "--",
        sys.executable,
        "-m",
        "mcp_server_time",
    ]
    parameters = StdioServerParameters(command=sys.executable, args=words, env={"PYTHONPATH": str(ROOT)})
    async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        tools = await session.list_tools()
        result = await session.call_tool("get_current_time", {"timezone": "Asia/Tokyo"})
    assert [tool.name for tool in tools.tools] == ["get_current_time", "convert_time"]
    requests = open_log(tmp_path / "j.jsonl").requests()
    told = dict(zip(requests.method, requests.state, strict=True))
    assert told == {
        "initialize": "answered",
        "notifications/initialized": "sent",
        "tools/list": "answered",
        "tools/call": "answered",
    }
    assert not result.is_error


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--listen", "127.0.0.1:0"],
        ["--to", "http://x", "--", "cat"],
        ["--listen", "0.0.0.0:1", "--to", "http://x"],
    ],
)
def test_wrong_combinations_of_options_are_told(words: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mew_lab.cli", "tap", "--journal", str(tmp_path / "j.jsonl"), *words]
    ended = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=40
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"mew-lab tap: ")
    assert not (tmp_path / "j.jsonl").exists()


class Surface:
    """A server without tools."""

    def __init__(self) -> None:
        self.changed: Signal[str] = Signal()

    def initialized(self) -> dict[str, Any]:
        return {"serverInfo": {"name": "a surface", "version": "1"}}

    async def answer(
        self, method: str, params: Mapping[str, Any], *, on_progress: Any = None
    ) -> dict[str, Any]:
        return {"tools": []}


async def test_a_real_client_and_a_real_server_talk_through_it_over_http(tmp_path: Path) -> None:
    token = Token("canary-behind-a-tap-0123456789abcdef")
    journal = tmp_path / "j.jsonl"
    async with McpHttpServer(mcp_server(Surface()), token=token) as server:
        words = ["tap", "--journal", str(journal), "--listen", "127.0.0.1:0", "--to", server.url]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "mew_lab.cli",
            *words,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stderr is not None
        await process.stderr.readline()
        url = (await process.stderr.readline()).decode().split()[-1]
        assert url != server.url
        headers = {"Authorization": f"Bearer {token.reveal()}"}
        async with (
            httpx.AsyncClient(headers=headers, trust_env=False) as web,
            streamable_http_client(url, http_client=web) as (reading, writing, *_),
            ClientSession(reading, writing) as session,
        ):
            await session.initialize()
            assert (await session.list_tools()).tools == []
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    requests = open_log(journal).requests()
    told = dict(zip(requests.method, requests.state, strict=True))
    assert told == {"initialize": "answered", "notifications/initialized": "sent", "tools/list": "answered"}
    assert token.reveal().encode() not in journal.read_bytes()
