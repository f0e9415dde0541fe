"""A real space.yaml: an agent and an MCP server run beside the gateway, curl speaks to them, and nobody is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .waiting import alive, eventually

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("MEW_")} | {
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
    "CANARY_OF_OURS": "canary-of-our-environment",
}

SPACE = """
space:
  id: office
  name: The office
  default_participant: human
participants:
  human:
    tokens: [human-token-of-the-file]
    capabilities: [{kind: "*"}]
    output_log: logs/human.jsonl
    auto_connect: true
  echo:
    type: local
    capabilities: [{kind: chat}]
    auto_start: true
    command: python
    args: [echo.py, "${PORT}", "${SPACE}"]
    env: {GREETING: "you said", UNSET: "${NO_SUCH_VARIABLE}"}
    restart_policy: on-failure
  clock:
    type: mcp-bridge
    mcp_server: {command: python, args: [-m, mcp_server_time, --local-timezone, UTC]}
"""

# An agent as they are in the field: a join frame and no header, partial envelopes, a string as correlation id.
ECHO = """
import json, os, sys
from websockets.sync.client import connect

port, space = sys.argv[1:]
print("environment", sorted(name for name in os.environ if name != "LC_CTYPE"), os.environ["UNSET"], flush=True)
print("my token is", os.environ["TOKEN"], flush=True)
with connect(f"ws://localhost:{port}", proxy=None) as link:
    link.send(json.dumps({"type": "join", "space": space, "token": os.environ["MEW_TOKEN_ECHO"],
        "participantId": "echo", "capabilities": []}))
    for text in link:
        said = json.loads(text)
        if said["kind"] == "chat" and said["from"] != "echo":
            if said["payload"]["text"] == "crash":
                raise SystemExit(3)
            reply = f"{os.environ['GREETING']} {said['payload']['text']}"
            link.send(json.dumps({"kind": "chat", "correlation_id": said["id"], "payload": {"text": reply}}))
"""


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(place.name))
    found, level = [], [pid]
    while level:
        level = [child for one in level for child in parents.get(one, [])]
        found += level
    return found


class Served:
    """One `mew-lab serve --space-config`, and curl against it."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.out = folder / "out.txt"
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mew_lab.cli", "serve", "--space-config", "space.yaml", *words],
                cwd=folder, env=ENVIRONMENT, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def said(self) -> str:
        return self.out.read_text()

    def line(self, start: str) -> str:
        found: str = eventually(
            lambda: next((one for one in self.said().splitlines() if one.startswith(start)), "")
        )
        return found

    @property
    def port(self) -> int:
        return int(self.line("space office at ws://127.0.0.1:").split(":")[2].split("/")[0])

    def curl(self, path: str, *words: str, token: str = "human-token-of-the-file") -> dict[str, Any]:
        at = f"http://127.0.0.1:{self.port}{path}"
        done = subprocess.run(
            ["curl", "-sS", "--noproxy", "*", "-H", f"Authorization: Bearer {token}", *words, at],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def post(self, **message: Any) -> dict[str, Any]:
        words = ("-H", "Content-Type: application/json", "-d", json.dumps(message))
        return self.curl("/participants/human/messages?space=office", *words)

    def heard(self, **wanted: Any) -> list[dict[str, Any]]:
        """What the log of human holds, of these members."""
        path = self.folder / "logs" / "human.jsonl"
        said = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [one for one in said if all(one.get(key) == value for key, value in wanted.items())]

    def log(self, name: str) -> str:
        path = self.folder / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def here(self) -> set[str]:
        listed = self.curl("/participants?space=office")["participants"]
        return {one["id"] for one in listed if one["connected"]}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []
    (tmp_path / "space.yaml").write_text(SPACE)
    (tmp_path / "echo.py").write_text(ECHO)

    def begin(*words: str) -> Served:
        running.append(Served(tmp_path, *words))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(10)


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on PATH")


@needs_curl
@pytest.mark.timeout(120)
@pytest.mark.threat(1, 28)
@pytest.mark.req("P-5.3-1", "P-5.1-2")
def test_an_agent_and_an_mcp_server_of_a_space_yaml_answer_to_curl(serve: Callable[..., Served]) -> None:
    one = serve()
    eventually(lambda: {"echo", "clock"} <= one.here())
    sent = one.post(kind="chat", payload={"text": "hello"})
    assert sent["status"] == "accepted"
    reply = eventually(lambda: one.heard(kind="chat", **{"from": "echo"}))[0]
    assert (reply["payload"], reply["correlation_id"]) == ({"text": "you said hello"}, [sent["id"]])
    call = {
        "name": "convert_time",
        "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    }
    asked = one.post(
        kind="mcp/request",
        to=["clock"],
        payload={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
    )
    answer = eventually(lambda: one.heard(kind="mcp/response", correlation_id=[asked["id"]]))[0]
    assert "21:00:00+09:00" in answer["payload"]["result"]["content"][0]["text"]

    environment = (
        "['GREETING', 'HOME', 'LANG', 'MEW_TOKEN_ECHO', 'PATH', 'PORT', 'SPACE', 'TMPDIR', 'TOKEN', 'UNSET']"
    )
    told = next(line for line in one.log("echo").splitlines() if "environment" in line)
    names = set(json.loads(told[told.index("[") : told.index("]") + 1].replace("'", '"')))
    assert names <= set(json.loads(environment.replace("'", '"')))
    assert told.endswith(" ${NO_SUCH_VARIABLE}")
    token = (one.folder / ".mew/tokens/office/echo.token").read_text().strip()
    assert f"my token is tok_…{token[-4:]}" in one.log("echo")
    started = [line for line in one.said().splitlines() if ": starting " in line]
    assert started[0] == f"echo: starting {sys.executable} echo.py {one.port} office"
    assert started[1].startswith("clock: starting ") and "-- python -m mcp_server_time" in started[1]

    below = descendants(one.process.pid)
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below]
    assert any(b"mcp_server_time" in command for command in commands)
    told_anywhere = one.said() + one.log("echo") + one.log("clock") + repr(commands)
    journal = "".join(path.read_text() for path in (one.folder / ".mew/office").glob("*.jsonl"))
    history, decisions = (
        one.folder / f"logs/{name}.jsonl" for name in ("envelope-history", "capability-decisions")
    )
    lines = [f'"event":"received","id":"{sent["id"]}"', f'"envelope_id":"{sent["id"]}","participant":"human"']
    for path, line in zip((history, decisions), lines, strict=True):
        eventually(lambda path=path, line=line: line in path.read_text())  # written by a process of its own
        journal += path.read_text()
    secrets = [path.read_text().strip() for path in (one.folder / ".mew/tokens/office").iterdir()]
    assert len(secrets) >= 3
    for secret in (*secrets, "human-token-of-the-file", "canary-of-our"):
        assert secret not in told_anywhere + journal

    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(30) == 0
    assert one.said().splitlines()[-1].startswith("space office is down")
    eventually(lambda: not any(map(alive, below)))


@needs_curl
@pytest.mark.timeout(120)
@pytest.mark.threat(28)
def test_when_the_gateway_is_killed_no_process_of_the_space_is_left(serve: Callable[..., Served]) -> None:
    one = serve()
    eventually(lambda: {"echo", "clock"} <= one.here())
    below = descendants(one.process.pid)
    assert len(below) >= 5  # two keepers, the agent, the bridge and its MCP server
    one.process.kill()
    one.process.wait(10)
    eventually(lambda: not any(map(alive, below)))


@needs_curl
@pytest.mark.timeout(120)
def test_an_agent_that_crashes_is_started_again(serve: Callable[..., Served]) -> None:
    one = serve()
    eventually(lambda: "echo" in one.here())
    one.post(kind="chat", payload={"text": "crash"})
    assert one.line("echo: ended").startswith("echo: ended (exit 3); restart 1 of 5 in 1 s")
    eventually(lambda: one.log("echo").count("my token is") == 2)
    eventually(lambda: "echo" in one.here())
    one.post(kind="chat", payload={"text": "again"})
    eventually(lambda: one.heard(kind="chat", payload={"text": "you said again"}))


@needs_curl
def test_without_auto_start_nothing_is_run_but_the_space(serve: Callable[..., Served]) -> None:
    one = serve("--no-auto-start", "--port", "0", "--log-level", "debug")
    assert one.here() == set()
    one.line("clock: mew-lab join")
    below = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(one.process.pid)]
    assert len(below) == 1 and b"mew_lab.log.follower" in below[0]  # which keeps the log files of the peers
    assert "starting" not in one.said()


def test_every_fault_of_the_file_is_told_a_line_each(serve: Callable[..., Served], tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(
        "space: {idd: x}\nparticipants: {bot: {comand: x, auto_start: true}}\n"
    )
    one = serve()
    assert one.process.wait(30) == 1
    first, *others = one.said().splitlines()
    assert first == f"mew-lab serve: {tmp_path / 'space.yaml'} has 4 faults:"
    assert [line.split(":")[0] for line in others] == [
        "- space.id",
        "- space.idd",
        "- participants.bot.comand",
        "- participants.bot.command",
    ]


def test_a_port_in_use_is_one_sentence(serve: Callable[..., Served], tmp_path: Path) -> None:
    one = serve("--no-auto-start")
    port = one.port
    other = subprocess.run(
        [sys.executable, "-m", "mew_lab.cli", "serve", "--space-config", "space.yaml", "--port", str(port)],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert other.returncode == 1
    assert (
        other.stderr
        == f"mew-lab serve: port {port} of 127.0.0.1 is in use already; choose another port, or 0 for any free one\n"
    )
