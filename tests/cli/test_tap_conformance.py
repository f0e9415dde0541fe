"""`mew-lab tap` under the traffic of the official MCP conformance suite, and of real servers over stdio.

The suite says the same of a server and of a client through the tap as without it; recorders on both sides of the tap
have the same bytes; and the journal has every message of JSON-RPC that passed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from mew_lab.log.log import open_log

sys.path.insert(0, str(Path(__file__).parent / "mcp_conformance"))

from recorded import ROOT, TcpRecorder, difference, tapped
from suite import installed_suite, run_suite

HERE = Path(__file__).parent / "mcp_conformance"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")]
CLIENT_SCENARIOS = ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the conformance suite."""
    return installed_suite(tmp_path_factory.mktemp("suite"))


def passed(checks: Counter[tuple[str, str, str]]) -> int:
    return sum(n for (_, _, status), n in checks.items() if status == "SUCCESS")


@contextmanager
def suite_server() -> Iterator[str]:
    """The address of a running server."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(HERE / "suite_server.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.kill()
        process.wait()


def bodies(recorder: TcpRecorder) -> tuple[list[Any], list[Any]]:
    """The JSON-RPC messages of the client and of the server in recorded HTTP, found without the code of the tap."""
    asked, answered = list[Any](), list[Any]()
    for conversation in recorder.conversations():
        for data, found in zip(conversation, (asked, answered), strict=True):
            text = re.sub(
                rb"\r\n[0-9a-f]+\r\n", b"", data
            )  # the sizes of chunks, which no message here spans
            for line in re.split(rb"\r\n|\n", text):
                start = line.find(b"{")
                if line.startswith((b"data: {", b"{")):
                    found.append(json.loads(line[start : line.rindex(b"}") + 1]))
    return asked, answered


def payloads(journal: Path, side: str) -> list[Any]:
    """The messages of one side in a journal."""
    log = open_log(journal)
    assert log.faults == ()
    assert not [record for record in log.records if record.event in ("lost", "oversize")]
    return [
        json.loads(record.raw)["payload"]
        for record in log.records
        if record.raw and record.participant == side
    ]


def in_any_order(messages: list[Any]) -> list[str]:
    return sorted(json.dumps(message, sort_keys=True) for message in messages)


def test_the_suite_says_the_same_of_a_server_behind_the_tap(suite: list[str], tmp_path: Path) -> None:
    with suite_server() as url:
        plain = run_suite([*suite, "server", "--url", url], tmp_path / "plain")
    journal = tmp_path / "tap.jsonl"
    with suite_server() as url:
        with tapped(url, journal) as there:
            through = run_suite([*suite, "server", "--url", there.url], tmp_path / "through")
        assert difference(there) == ""
    assert through == plain
    assert passed(plain) >= 40
    for side, messages in zip(("client", "server"), bodies(there.before), strict=True):
        assert in_any_order(payloads(journal, side)) == in_any_order(messages)
    assert [str(finding) for finding in open_log(journal).diagnose("warn")] == []
    methods = Counter(open_log(journal).requests().method)
    assert {"sampling/createMessage", "elicitation/create", "notifications/progress", "tools/call"} <= set(
        methods
    )


@pytest.mark.parametrize("scenario", CLIENT_SCENARIOS)
def test_the_suite_says_the_same_of_a_client_before_the_tap(
    scenario: str, suite: list[str], tmp_path: Path
) -> None:
    client = f"{sys.executable} -W ignore {HERE / 'suite_client.py'}"
    words = [*suite, "client", "--scenario", scenario, "--command"]
    plain = run_suite([*words, client], tmp_path / "plain")
    journals = tmp_path / "journals"
    journals.mkdir()
    through = run_suite([*words, f"{client} --through {journals}"], tmp_path / "through")
    assert reported(tmp_path / "through") == ""
    assert through == plain
    assert passed(plain) >= 1
    (journal,) = journals.iterdir()
    log = open_log(journal)
    requests = log.requests()
    assert list(log.diagnose("warn")) == []
    assert set(requests.state) <= {"answered", "sent"}
    assert requests.method.tolist()[:2] == ["initialize", "notifications/initialized"]


def reported(folder: Path) -> str:
    """What the client reported of the bytes on both sides of its tap."""
    (path,) = folder.glob("*/stderr.txt")
    return path.read_text().strip()


CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "mcp_server_time": [
        ("get_current_time", {"timezone": "Asia/Tokyo"}),
        ("get_current_time", {"timezone": "No/Where"}),
        (
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Europe/Oslo"},
        ),
    ],
    "mcp_server_git": [
        ("git_status", {"repo_path": "."}),
        ("git_log", {"repo_path": ".", "max_count": 200}),
        ("git_show", {"repo_path": ".", "revision": "HEAD"}),
        ("git_status", {"repo_path": "/nowhere"}),
    ],
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a commit of a large file and of text in several scripts."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "large.txt").write_text("a line — одна строка — 一行\n" * 40_000)

    def git(*words: str) -> None:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "All of it")
    return folder


@pytest.mark.parametrize("server", CALLS)
async def test_a_real_server_over_stdio_gets_and_sends_the_same_bytes(
    server: str, repository: Path, tmp_path: Path
) -> None:
    journal, before, behind = tmp_path / "tap.jsonl", tmp_path / "before", tmp_path / "behind"
    before.mkdir()
    behind.mkdir()
    record = [sys.executable, str(HERE / "recorded.py")]
    tap = [sys.executable, "-m", "mew_lab.cli", "tap", "--journal", str(journal), "--"]
    words = [*record, str(before), *tap, *record, str(behind), sys.executable, "-m", server]
    parameters = StdioServerParameters(
        command=words[0],
        args=words[1:],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        cwd=repository,
    )
    async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        names = {tool.name for tool in (await session.list_tools()).tools}
        results = [await session.call_tool(name, given) for name, given in CALLS[server]]
    assert names >= {name for name, _ in CALLS[server]}
    assert {result.is_error for result in results} == {True, False}
    for stream, side in (("in", "client"), ("out", "server")):
        data = (before / stream).read_bytes()
        assert data == (behind / stream).read_bytes()
        assert payloads(journal, side) == [json.loads(line) for line in data.splitlines()]
    log = open_log(journal)
    assert set(log.requests().state) == {"answered", "sent"}
    assert list(log.diagnose("warn")) == []
