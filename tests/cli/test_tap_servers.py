"""The diagnosis of real servers behind a tap: nothing in their sessions, and the one rule that a wrapper breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from mew_lab.log.log import open_log

from ..bridge.real_servers import npm_server

ROOT = Path(__file__).resolve().parents[2]
FAULTY = Path(__file__).parent / "faulty_server.py"
TIME = [sys.executable, "-m", "mcp_server_time"]
NOW = ("get_current_time", {"timezone": "Asia/Tokyo"})
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
Calls = Sequence[tuple[str, dict[str, Any]]]


def behind_a_tap(command: Sequence[str], journal: Path) -> StdioServerParameters:
    words = ["-m", "mew_lab.cli", "tap", "--journal", str(journal), "--", *command]
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(journal.parent)}
    return StdioServerParameters(command=sys.executable, args=words, env=environment, cwd=journal.parent)


async def use(session: Any, calls: Calls) -> None:
    """Lists all, calls the tools, and lists all again; what a server does not offer is an error to the client."""

    async def list_all() -> None:
        for each in ("list_tools", "list_resources", "list_resource_templates", "list_prompts"):
            try:
                await getattr(session, each)()
            except MCPError:
                pass

    await list_all()
    for name, arguments in calls:
        try:
            await session.call_tool(name, arguments)
        except MCPError:
            pass
    await list_all()


async def use_as_session(command: Sequence[str], journal: Path, calls: Calls) -> None:
    async with (
        stdio_client(behind_a_tap(command, journal)) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        await use(session, calls)


async def use_as_client(command: Sequence[str], journal: Path, calls: Calls) -> None:
    """With the client of both eras, which asks for `server/discover` first."""
    async with Client(behind_a_tap(command, journal)) as session:
        await use(session, calls)


def diagnosed(journal: Path) -> tuple[int, list[tuple[str, str, str]]]:
    """The exit status of the command, and severity, rule and sentence of its findings."""
    command = [sys.executable, "-m", "mew_lab.cli", "diagnose", "--json", str(journal)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert not ended.stderr
    rows = map(json.loads, ended.stdout.splitlines())
    return ended.returncode, [(row["severity"], row["rule"], row["sentence"]) for row in rows]


def assert_healthy(journal: Path) -> None:
    status, findings = diagnosed(journal)
    assert status == 0
    assert {(severity, rule) for severity, rule, _ in findings} <= {("note", "error-answer")}
    requests = open_log(journal).requests()
    assert len(requests) >= 10 and set(requests.state) <= {"answered", "failed", "sent"}


@pytest.mark.parametrize("use_server", [use_as_session, use_as_client])
async def test_a_healthy_session_has_no_warning(use_server: Any, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    await use_server(TIME, journal, [NOW, ("get_current_time", {"timezone": "No/Where"})])
    assert_healthy(journal)


FAULTS = {
    "prints_lines": ("error", "line-without-message", "is no JSON-RPC message: Loading module"),
    "prints_objects": ("error", "line-without-message", 'message: {"level": "info", "message": "listening"}'),
    "asks_too_early": (
        "error",
        "request-before-initialized",
        'server asked for roots/list (id "of-the-fault-2") before client had sent notifications/initialized',
    ),
    "uses_an_id_twice": ("error", "request-id-twice", "server's ping"),
    "answers_twice": ("error", "answer-repeated", "server answered tools/call get_current_time (id"),
    "answers_nothing": ("error", "answer-without-request", "server answered id 9999, and client has sent no"),
    "cannot_read": ("warn", "message-not-read", "a message of client: -32700 Parse error"),
    "changes_its_list": (
        "warn",
        "list-changed-without-notice",
        "tools/list differs from the one before (gone: ",
    ),
    "dies": ("warn", "request-without-answer", "client's tools/call get_current_time (id"),
    "refuses": ("note", "error-answer", "with an error: -32603 the disk is full"),
}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(name, marks=() if name == "prints_lines" else pytest.mark.slow) for name in FAULTS],
)
async def test_the_one_rule_that_a_server_breaks_is_found(fault: str, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    try:
        await use_as_session([sys.executable, str(FAULTY), fault, *TIME], journal, [NOW])
    except* MCPError:  # the server has ended
        assert fault == "dies"
    severity, rule, words = FAULTS[fault]
    status, findings = diagnosed(journal)
    told = [found for found in findings if severity == "note" or found[0] != "note"]
    assert {found[:2] for found in told} == {(severity, rule)}
    assert len(told) == (39 if fault == "prints_lines" else 1)
    assert all(words in sentence for _, _, sentence in told)
    assert status == (0 if severity == "note" else 1)


def test_a_client_that_asks_before_initialize_is_told(tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    parameters = behind_a_tap(TIME, journal)
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}\n'
    ended = subprocess.run(
        [parameters.command, *parameters.args],
        input=asked,
        env=parameters.env,
        cwd=parameters.cwd,
        capture_output=True,
        timeout=60,
    )
    assert ended.returncode == 0
    status, findings = diagnosed(journal)
    assert status == 1
    assert ("error", "request-before-initialized") in {found[:2] for found in findings}
    assert any("tools/list (id 1) before client had sent initialize" in found[2] for found in findings)


# --- servers of npm ---

THOUGHT = {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
OF_NPM: dict[str, tuple[Sequence[str], Calls]] = {
    "server-everything": (["stdio"], [("echo", {"message": "hi"}), ("get-sum", {"a": 1, "b": 2})]),
    "server-filesystem": (["."], [("list_directory", {"path": "."}), ("read_text_file", {"path": "x"})]),
    "server-memory": ([], [("read_graph", {})]),
    "server-sequential-thinking": ([], [("sequentialthinking", THOUGHT)]),
}


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.parametrize("use_server", [use_as_session, use_as_client])
@pytest.mark.parametrize("name", OF_NPM)
async def test_a_real_server_of_npm_has_no_warning(name: str, use_server: Any, tmp_path: Path) -> None:
    arguments, calls = OF_NPM[name]
    journal = tmp_path / "j.jsonl"
    command = [*npm_server(f"@modelcontextprotocol/{name}"), *arguments]
    await use_server(command, journal, calls)
    assert_healthy(journal)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("use_server", [use_as_session, use_as_client])
async def test_a_real_server_of_git_has_no_warning(use_server: Any, repository: Path, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    calls = [
        ("git_status", {"repo_path": str(repository)}),
        ("git_show", {"repo_path": ".", "revision": "HEAD"}),
    ]
    await use_server([sys.executable, "-m", "mcp_server_git"], journal, calls)
    assert_healthy(journal)
