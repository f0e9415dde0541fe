"""mew-lab as a process: what it prints, what it exits with, what it never tells."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pty
import queue
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from mew_lab import cli
from mew_lab.cli import build_parser, main
from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.delivery import MemoryPeer
from mew_lab.gateway.gateway import Gateway
from mew_lab.log.journal import Journal
from mew_lab.log.reading import read_journal
from mew_lab.protocol.kinds import KINDS
from mew_lab.protocol.visible import visible
from mew_lab.transport.memory import pair

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = [
    "init",
    "up",
    "status",
    "down",
    "serve",
    "join",
    "tail",
    "replay",
    "audit",
    "verify",
    "diagnose",
    "rules",
    "report",
    "open",
    "export",
    "journal",
    "cache",
    "bridge",
    "mcp",
    "acp",
    "tap",
    "agent",
    "tools-agent",
    "conform",
    "demo",
]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("MEW_LAB_")} | {
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
}


class Process:
    """One running `mew-lab`, read line by line, each wait with a deadline."""

    def __init__(self, words: Sequence[str], folder: Path, **how: Any) -> None:
        self.words = list(words)
        self.lines: list[str] = []
        self._coming: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mew_lab.cli", *words],
            cwd=folder,
            env=ENVIRONMENT | how.pop("environment", {}),
            stdin=how.pop("stdin", subprocess.PIPE),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **how,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._coming.put(line.rstrip("\n"))
        self._coming.put(None)

    def until(self, pattern: str, *, within: float = 30.0) -> str:
        """The next line that the pattern matches; fails when the process ends before."""
        while True:
            line = self._coming.get(timeout=within)
            if line is None:
                raise AssertionError(f"{self.words[0]} ended; it said {self.lines}")
            self.lines.append(line)
            if re.search(pattern, line):
                return line

    def type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ends(self, *, within: float = 30.0) -> int:
        """Its exit status, once it has ended and all of its lines are read."""
        status = self.process.wait(within)
        while (line := self._coming.get(timeout=within)) is not None:
            self.lines.append(line)
        return status

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    running: list[Process] = []

    def make(*words: str, **how: Any) -> Process:
        running.append(Process(words, tmp_path, **how))
        return running[-1]

    yield make
    for one in reversed(running):
        one.kill()


def join_words(line: str) -> list[str]:
    """The words behind `mew-lab` of a line that serve printed."""
    return shlex.split(line.partition(": ")[2])[1:]


# --- words -------------------------------------------------------------------------------------------------------


def test_without_a_command_it_prints_the_help(start: Any) -> None:
    process = start()
    assert process.ends() == 2
    assert process.lines[0].startswith("usage: mew-lab")
    assert any(line.strip().startswith("serve ") for line in process.lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "invalid choice: 'nope'"),
        (["serve", "--port", "x"], "invalid int value: 'x'"),
        (["serve", "--space", "a", "--space-config", "b.yaml"], "not allowed with"),
        (["serve", "--host", "0.0.0.0"], "invalid choice: '0.0.0.0'"),
        (["join", "ws://x", "--token", "abc"], "unrecognized arguments: --token abc"),
        (["join", "ws://x", "--token-file", "a", "--token-env", "b"], "not allowed with"),
        (["bridge", "--as", "git"], "required: URL"),
    ],
)
def test_a_command_that_is_written_wrongly_is_one_line_and_exit_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert said in err


@pytest.mark.parametrize("words", [[], *([one] for one in COMMANDS)])
def test_help_is_everywhere(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*words, "--help"])
    assert caught.value.code == 0
    assert "usage: mew-lab" in capsys.readouterr().out


def test_the_list_of_commands_loads_no_program() -> None:
    words = "import sys, mew_lab.cli; parser = mew_lab.cli.build_parser(''); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout
    assert "mew_lab.cli.shell" in loaded.split()
    assert not re.findall(r"mew_lab\.(?:lab|log|bridge|agent)\S*", loaded)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"mew-lab {metadata.version('mew_lab')}\n"


@pytest.mark.threat(1)
def test_no_option_takes_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")  # nothing is wrapped
    usage = build_parser().format_usage()
    (commands,) = re.findall(r"\{([a-z,-]+)\}", usage)
    assert commands.split(",") == COMMANDS
    for command in COMMANDS:
        with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit):
            main([command, "--help"])
        flags = set(re.findall(r"--[a-z-]+", out.getvalue()))
        assert "--help" in flags and "--token" not in flags


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tail", "none.jsonl"], "Cannot read the journal none.jsonl: No such file"),
        (["tail", "--follow", "none.jsonl"], "none.jsonl: No such file"),
        (["tail", "text.txt"], "text.txt is not a journal"),
        (["tail", "ws://127.0.0.1:1/ws"], "give --space NAME"),
        (["tail"], "which has no .mew; start one with mew-lab up; or name another space by its address"),
        (["join"], "MEW_GATEWAY, MEW_SPACE and MEW_TOKEN"),
        (["status"], "which has no .mew; start one with mew-lab up"),
        (["down"], "which has no .mew; start one with mew-lab up"),
        (["up", "--dir", "nowhere"], "there is no such folder"),
        (["up", "none.yaml"], "cannot read the space file none.yaml: there is no such file"),
        (["join", "ws://127.0.0.1:1/ws", "--space", "s"], "give --token-file PATH or --token-env NAME"),
        (["join", "ws://127.0.0.1:1/ws", "--space", "s", "--token-file", "none"], "No such file"),
        (
            ["join", "ws://127.0.0.1:1/ws", "--space", "s", "--token-env", "NO_SUCH"],
            "'NO_SUCH' holds no token",
        ),
        (["join", "ws://127.0.0.1:1/ws", "--space", "s", "--token-env", "SOME_TOKEN"], "127.0.0.1:1"),
        (["bridge", "ws://127.0.0.1:1/ws", "--space", "s", "--", "x"], "give one with --as ID"),
        (["serve", "--enrol", "bot=emperor"], "There is no profile 'emperor'"),
        (["serve", "--space", "a\nb"], "a\\nb"),
        (
            ["serve", "--space-config", "none.yaml"],
            "cannot read the space file none.yaml: there is no such file",
        ),
        (["serve", "--resume", "none.jsonl"], "Cannot read the journal none.jsonl: No such file"),
        (["serve", "--resume", "text.txt"], "text.txt is not a journal"),
        (["replay", "text.txt"], "text.txt is not a journal"),
        (["audit", "none.jsonl", "m-1"], "Cannot read the journal none.jsonl: No such file"),
    ],
)
def test_what_fails_is_one_line_and_exit_1(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_TOKEN", "x" * 40)
    (tmp_path / "text.txt").write_text("hello\n")
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert err.startswith(f"mew-lab {words[0]}: ")
    assert said in err


# --- processes ---------------------------------------------------------------------------------------------------


@pytest.mark.trap("T-23")
@pytest.mark.trap("T-24")
@pytest.mark.threat(1)
def test_a_second_process_joins_a_third_listens_and_no_token_is_told(start: Any, tmp_path: Path) -> None:
    serve = start("serve", "--space", "demo", "--enrol", "bot", "--enrol", "eye=observer")
    url = serve.until("^space demo at ").rpartition(" ")[2]
    assert url.startswith("ws://127.0.0.1:")
    human, bot, eye = (join_words(serve.until(f"^{name}: ")) for name in ("human", "bot", "eye"))
    listener = start("tail", url, "--json", *eye[2:])
    listener.until('"system/welcome"')
    first = start(*human)
    first.until("You are human in demo")
    first.until(r"\bhuman joined|system/presence.*human|Welcome, human")
    second = start(*bot)
    second.until("You are bot in demo")
    assert not any("\a" in line for line in first.lines), "nothing rings in a pipe"
    text = f"hello {secrets.token_hex(6)}"
    second.type(text)
    for one in (first, second, listener):
        assert one.until(text)
    second.type('/propose eye/look {"at": 1}')
    id = second.until(r"mcp/proposal eye/look as bot: open").rpartition("(")[2].strip(")>")
    first.until(r"look\(at=1\)")
    first.type(f"/approve {id}")
    first.until("^Not approved yet: this is what would be sent")
    first.until(r"^ *at +1$")  # what would be sent stands on lines of its own
    first.type(f"/reject {id} not now")
    first.until(r"Rejected \(not now\): bot asks eye to run look")
    second.until("mcp/reject")
    second.type("/nonsense")
    second.until("mew-lab join: There is no command /nonsense")
    second.type("/quit")
    assert second.ends() == 0
    listener.until('"leave"')
    serve.process.send_signal(signal.SIGTERM)
    assert serve.ends() == 0
    assert serve.lines[-1].startswith("space demo is down; the journal stays in ")
    tokens = [Path(words[words.index("--token-file") + 1]).read_text() for words in (human, bot, eye)]
    for one in (serve, first, second, listener):
        printed = "\n".join([*one.lines, *one.words])
        assert not any(token.strip() in printed for token in tokens)


def test_what_comes_in_by_a_pipe_is_said_and_then_it_leaves(start: Any) -> None:
    serve = start("serve")
    words = join_words(serve.until("^human: "))
    joined = start(*words, "--as", "human-2")
    joined.until("You are human-2 in demo")
    joined.process.communicate("from a pipe\n", timeout=30)
    assert joined.process.returncode == 0
    tail = start("tail", serve.lines[1].removeprefix("journal "), "--json")
    assert tail.ends() == 0
    assert sum("from a pipe" in line for line in tail.lines) == 1


def test_an_interrupt_ends_a_space_in_order(start: Any) -> None:
    serve = start("serve", "--journal", "j.jsonl")
    serve.until("^human: ")
    serve.process.send_signal(signal.SIGINT)
    assert serve.ends() == 0
    assert serve.lines[-1] == "space demo is down; the journal stays in j.jsonl"


@pytest.mark.req("P-3.6.8-3", "P-3.6.8-5")
def test_a_space_that_was_killed_is_served_again_replayed_and_audited(start: Any, tmp_path: Path) -> None:
    serve = start("serve", "--enrol", "bot", "--journal", "j.jsonl")
    url = serve.until("^space demo at ").rpartition(" ")[2]
    bot = join_words(serve.until("^bot: "))
    first = start(*bot)
    first.until("You are bot in demo")
    first.type("before the kill")
    first.until("before the kill")
    serve.kill()
    first.kill()

    again = start("serve", "--resume", "j.jsonl")
    assert again.until("^space demo at ").rpartition(" ")[2] == url
    assert again.until("^journal ") == "journal j.jsonl"
    assert join_words(again.until("^bot: ")) == bot, "the token that bot has is still good"
    second = start(*bot)
    second.until("You are bot in demo")
    second.type("after the kill")
    second.until("after the kill")
    again.process.send_signal(signal.SIGTERM)
    assert again.ends() == 0

    done = start("replay", "j.jsonl")
    assert done.ends() == 0
    assert re.fullmatch(r"\d+ events, no difference", done.lines[0])
    assert re.match(r"\d+ lines in one chain, head [0-9a-f]{8}; \d+ kept heads found", done.lines[1])
    chats = [one for one in read_journal(tmp_path / "j.jsonl") if "before the kill" in (one.raw or "")]
    id = json.loads(chats[0].raw or "")["id"]
    audit = start("audit", "j.jsonl", id)
    assert audit.ends() == 0
    assert audit.lines[0].startswith(f'chat "{id}", #{chats[0].seq}, ')
    assert audit.lines[-1] == '  accepted, because bot held {"kind":"chat"} (configured)'

    (tmp_path / "k.jsonl").write_bytes((tmp_path / "j.jsonl").read_bytes().replace(b'"join"', b'"come"', 1))
    differs = start("replay", "k.jsonl")
    assert differs.ends() == 1
    assert len(differs.lines) == 2
    told, why = differs.lines if "vouched" in differs.lines[0] else reversed(differs.lines)
    assert "k.jsonl" in why and "differs in raw" in why
    line = next(
        n for n, one in enumerate((tmp_path / "k.jsonl").read_bytes().splitlines(), 1) if b'"come"' in one
    )
    assert told.startswith(f"line {line} of k.jsonl is not vouched for: ")


def test_a_port_in_use_is_one_line(start: Any) -> None:
    serve = start("serve")
    port = serve.until("^space demo at ").split(":")[2].split("/")[0]
    other = start("serve", "--port", port, "--journal", "other.jsonl")
    assert other.ends() == 1
    assert len(other.lines) == 1
    assert port in other.lines[0]


def test_a_token_of_another_space_is_refused_with_one_line(start: Any, tmp_path: Path) -> None:
    serve = start("serve")
    words = join_words(serve.until("^human: "))
    (tmp_path / "wrong").write_text("x" * 43)
    (tmp_path / "wrong").chmod(0o600)
    words[words.index("--token-file") + 1] = str(tmp_path / "wrong")
    joined = start(*words)
    assert joined.ends() == 1
    assert len(joined.lines) == 1
    assert "demo" in joined.lines[0]


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(start: Any, tmp_path: Path) -> None:
    demo = start("demo", "--keep", "d", "--yes", stdin=subprocess.DEVNULL)
    assert demo.ends(within=60) == 0
    journal = tmp_path / "d" / "journal.jsonl"
    line = f"{shlex.quote(sys.executable)} -m mew_lab.cli tail {shlex.quote(str(journal))} | head -1"
    done = subprocess.run(
        ["sh", "-c", line], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert "system/welcome" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_a_bridge_of_another_process_brings_its_tools(start: Any, tmp_path: Path) -> None:
    from mew_lab.cli.demo import make_repository

    repository = make_repository(tmp_path / "repository", message="from afar")
    serve = start("serve", "--enrol", "git=tool", "--enrol", "coder=agent")
    human, git, coder = (join_words(serve.until(f"^{name}: ")) for name in ("human", "git", "coder"))
    command = ["python", "-m", "mcp_server_git", "--repository", str(repository)]
    bridge = start("bridge", *git[1:], "--as", "git", "--", *command)
    assert sys.executable in bridge.until("^starting ")
    bridge.until("git has joined demo")
    joined = start(*human)
    joined.until("You are human")
    joined.type(f'/call git/git_log {{"repo_path": "{repository}"}}')
    joined.until("from afar|Commit history")
    agent = start(*coder)
    agent.until("You are coder")
    agent.type('/propose git/git_status {"repo_path": "."}')
    told = joined.until("^coder asks git to run git_status. It needs your approval: /approve [0-9a-f]{4} ")
    id = told.split("/approve ")[1].split()[0]
    joined.type("/approve")
    joined.until("repeat /approve")
    joined.type(f"/reject {id} Not now")
    agent.until("Not now")
    assert not any("needs your approval" in line for line in agent.lines), "its own waits for others"
    assert not any("Error" in line for line in joined.lines)
    bridge.process.send_signal(signal.SIGTERM)
    assert bridge.ends() == 0


@pytest.mark.slow
def test_a_coding_agent_of_another_process_answers_its_owner(start: Any) -> None:
    serve = start("serve", "--enrol", "coder=agent")
    human, coder = (join_words(serve.until(f"^{name}: ")) for name in ("human", "coder"))
    agent = Path(__file__).parents[1] / "bridge" / "acp_agent.py"
    limits = ("--acp", "--owner", "human", "--mode", "default")
    bridge = start("bridge", *coder[1:], *limits, "--as", "coder", "--", "python", str(agent))
    assert "asks by its own rules: mode default" in bridge.until("coder has joined demo")
    joined = start(*human)
    joined.until("You are human")
    joined.type("say hello from the shed of coder")
    joined.until("coder.*hello from the shed of coder")
    bridge.process.send_signal(signal.SIGTERM)
    assert bridge.ends() == 0


@pytest.mark.threat(40)
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://example.org/mcp", "the token goes to a gate on this machine alone"),
        ("http://127.0.0.1@example.org/mcp", "the token goes to a gate on this machine alone"),
        ("http://127.0.0.1:9/mcp", "is gone; its space or its agent has ended"),
    ],
)
def test_a_client_is_passed_on_to_a_gate_of_this_machine_alone(url: str, told: str, tmp_path: Path) -> None:
    secret = "a-token-of-some-length-0123456789"
    file = tmp_path / "token"
    file.write_text(secret)
    file.chmod(0o600)
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    done = subprocess.Popen(
        [sys.executable, "-m", "mew_lab.cli", "mcp", url, "--token-file", str(file)],
        env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert done.stdin is not None and done.stderr is not None
        done.stdin.write(json.dumps(asked) + "\n")
        done.stdin.flush()  # and it stays open: the end comes by itself
        assert done.wait(timeout=40) == 1
        [line] = done.stderr.read().splitlines()
    finally:
        done.kill()
        done.communicate()
    assert told in line and secret not in line


@pytest.mark.slow
@pytest.mark.threat(40)
def test_a_coding_agent_of_another_process_uses_tools_of_the_space_by_a_participant_of_its_own(
    start: Any, tmp_path: Path
) -> None:
    from mew_lab.cli.demo import make_repository

    repository = make_repository(tmp_path / "coder", message="from afar")
    serve = start("serve", "--enrol", "git=tool", "--enrol", "coder=agent", "--enrol", "own-tools=agent")
    human, git, coder, own = (
        join_words(serve.until(f"^{name}: ")) for name in ("human", "git", "coder", "own-tools")
    )
    bridge = start(
        *("bridge", *git[1:], "--as", "git"),
        "--",
        "python",
        "-m",
        "mcp_server_git",
        "--repository",
        str(repository),
    )
    bridge.until("git has joined demo")
    agent = Path(__file__).parents[1] / "bridge" / "acp_agent.py"
    tools = ("--tools-as", "own-tools", "--tools-token-file", own[own.index("--token-file") + 1])
    words = ("--acp", "--owner", "human", *tools, "--as", "coder", "--", "python", str(agent), "http")
    coding = start("bridge", *coder[1:], *words)
    coding.until("coder has joined demo")
    joined = start(*human)
    joined.until("You are human")
    joined.type(f'use git_log {{"repo_path": "{repository}"}}')
    joined.until("^own-tools asks git to run git_log. It needs your approval")
    joined.type("/approve")
    joined.until("repeat /approve")
    joined.type("/approve")
    joined.until("coder.*Commit history")
    coding.process.send_signal(signal.SIGTERM)
    assert coding.ends() == 0
    joined.until("own-tools (has )?left")
    secret = Path(own[own.index("--token-file") + 1]).read_text().strip()
    assert not any(secret in line for one in (serve, coding, joined) for line in one.lines)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tools-as", "t", "--as", "x", "--", "prog"], "--tools-as is for a coding agent; add --acp"),
        (["--acp", "--", "claude"], "a coding agent needs --as ID"),
        (["--turns", "3", "--as", "x", "--", "prog"], "--turns is for a coding agent; add --acp"),
        (
            ["--tools-token-env", "T", "--as", "x", "--", "p"],
            "--tools-token-env is for a coding agent; add --acp",
        ),
        (
            ["--acp", "--tools-token-env", "T", "--space", "s", "--as", "x", "--", "p"],
            "--tools-token-env is the token of whom --tools-as names; add that",
        ),
        (["--files", "x", "--as", "x", "--", "prog"], "--files is for a coding agent; add --acp"),
    ],
)
def test_the_options_of_a_coding_agent_are_checked(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bridge", "ws://127.0.0.1:1", *words]) != 0
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_a_bridge_to_a_url_brings_its_tools_and_shows_no_header(start: Any) -> None:
    secret = {"MEW_TEST_SECRET": "full-secret-0123456789"}
    full = Path(__file__).parents[1] / "bridge" / "full_server.py"
    with subprocess.Popen([sys.executable, str(full), "both", "sse"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        serve = start("serve", "--enrol", "far=tool")
        far = join_words(serve.until("^far: "))
        header = ("--header", "Authorization: Bearer ${MEW_TEST_SECRET}")
        try:
            bridge = start("bridge", *far[1:], "--as", "far", *header, "--", url, environment=secret)
            bridge.until("^connecting to http.*SSE, with Authorization")
            bridge.until("far has joined demo")
        finally:
            server.kill()
        assert bridge.ends() == 1
        assert not any("full-secret" in line for line in bridge.lines)


# --- demo --------------------------------------------------------------------------------------------------------


@pytest.mark.req("S-CF-1", "S-CF-2")
@pytest.mark.threat(1)
def test_an_agent_of_another_process_answers_as_its_settings_say(start: Any, tmp_path: Path) -> None:
    server = start("serve", "--space", "demo", "--enrol", "helper=agent")
    human, helper = (join_words(server.until(f"^{name}: ")) for name in ("human", "helper"))
    token = Path(helper[helper.index("--token-file") + 1]).read_text().strip()
    settings = "space: demo\ntoken: ${HELPER_TOKEN}\nname: Helper\nmodel: offline\nmaxIterations: 4\n"
    (tmp_path / "helper.yaml").write_text(settings)
    agent = start("agent", "helper.yaml", environment={"HELPER_TOKEN": token, "MEW_GATEWAY": human[1]})
    agent.until("helper is in demo at ws://.* with .*offline")
    person = start(*human)
    person.until("You are human in demo")
    person.type("Helper, who are you?")
    person.until("offline")
    agent.process.send_signal(signal.SIGTERM)
    assert agent.ends() == 0
    assert token not in "\n".join(agent.lines)


@pytest.mark.slow
def test_an_agent_that_cannot_join_says_why_in_one_line(start: Any, tmp_path: Path) -> None:
    nowhere = start("agent", "--space", "demo")
    assert nowhere.ends() == 1 and "No gateway is named" in nowhere.lines[-1]
    (tmp_path / "bad.yaml").write_text("maxIteration: 3\n")
    bad = start("agent", "bad.yaml")
    assert bad.ends() == 1 and "did you mean 'maxIterations'" in bad.lines[-1]
    server = start("serve", "--space", "demo")
    words = join_words(server.until("^human: "))
    away = start("agent", "--gateway", words[1], "--space", "demo", environment={"MEW_TOKEN": "x" * 40})
    assert away.ends() == 1 and "the token or the space is unknown" in away.lines[-1]
    assert "x" * 40 not in "\n".join(away.lines)


def test_the_demo_shows_what_git_answered_and_journals_it(start: Any, tmp_path: Path) -> None:
    message = f"Commit {secrets.token_hex(8)}"
    demo = start("demo", "--message", message, "--keep", "kept", stdin=subprocess.DEVNULL)
    assert demo.ends(within=60) == 0, demo.lines
    assert any(f"Message: {message}" in line for line in demo.lines)
    assert "No question is asked here: the policy “approve” decides instead of you." in demo.lines
    journal = Path(demo.lines[-1].rpartition(" ")[2])
    assert journal == tmp_path / "kept" / "journal.jsonl"
    assert any(message in (one.raw or "") for one in read_journal(journal) if one.participant == "git")


def test_a_terminal_rings_once_while_proposals_wait(start: Any, tmp_path: Path) -> None:
    serve = start("serve", "--enrol", "bot", "--enrol", "eye=observer")
    human, bot, eye = (join_words(serve.until(f"^{name}: ")) for name in ("human", "bot", "eye"))
    start("tail", *eye[1:], "--json").until('"system/welcome"')
    ours, theirs = pty.openpty()
    try:
        words = [sys.executable, "-m", "mew_lab.cli", *human]
        joined = subprocess.Popen(words, cwd=tmp_path, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=theirs)
        seen = ""

        def until(pattern: str) -> None:
            nonlocal seen
            end = time.monotonic() + 30
            while not re.search(pattern, seen):
                assert time.monotonic() < end and joined.poll() is None, seen
                seen += os.read(ours, 4096).decode()

        until("You are human")
        other = start(*bot)
        other.until("You are bot")
        for n in (1, 2):
            other.type(f'/propose eye/look {{"at": {n}}}')
            until(rf"(?s)(bot asks eye to run look\. It needs your approval: /approve \w+ .*){{{n}}}")
        other.type("the end")
        until("the end")
        assert seen.count("\a") == 1, seen
    finally:
        joined.kill()
        joined.communicate(timeout=30)
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("answer", "decision"), [("y", "approved by you"), ("n", "Proposal rejected by human")]
)
@pytest.mark.slow
def test_in_a_terminal_the_demo_asks(start: Any, answer: str, decision: str) -> None:
    ours, theirs = pty.openpty()
    try:
        demo = start("demo", "--no-color", "--keep", "kept", stdin=theirs)
        demo.until("repo_path")
        os.write(ours, b"what\n" + answer.encode() + b"\n")
        assert demo.ends(within=60) == 0
    finally:
        os.close(ours)
        os.close(theirs)
    assert any(decision in line for line in demo.lines)
    assert any("Approve it? [y/n]" in line for line in demo.lines)


def test_the_demo_without_git_is_one_sentence(start: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    demo = start("demo", environment={"PATH": str(tmp_path / "empty")})
    assert demo.ends() == 1
    assert demo.lines == [
        "mew-lab demo: The demo needs git, which is not on PATH; install git and run the demo again"
    ]


def test_the_demo_touches_no_folder_that_holds_something(start: Any, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    demo = start("demo", "--keep", "full")
    assert demo.ends() == 1
    assert "is not empty" in demo.lines[0]
    assert [one.name for one in (tmp_path / "full").iterdir()] == ["mine.txt"]


HOSTILE = "a\x1b[2J\x1b]0;t\x07\x9b31m\x9d\x7f\r\b\u202eb\u2066\u200b\u2028\U000e0041c\x00\x1b[8mz"


def hostile(value: Any) -> Any:
    """The same shape with hidden characters in every string and every name of a member."""
    if isinstance(value, dict):
        return {**{key: hostile(one) for key, one in value.items()}, HOSTILE: HOSTILE}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


@pytest.mark.threat(17)
def test_no_escape_of_a_peer_reaches_a_terminal_whatever_the_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    gateway = Gateway()
    everything = ParticipantConfig(capabilities=[{"kind": "*"}])
    people = {"anna": everything, "bert": everything}
    gateway.add_space(SpaceConfig(name="demo", participants=people), journal=journal)
    here, _ = pair()
    anna = gateway.admit("demo", "anna", MemoryPeer(here))
    payload = {
        "text": "t",
        "reason": "r",
        "status": "s",
        "method": "tools/call",
        "error": "e",
        "message": "m",
        "params": {"name": "n", "arguments": {"path": "p"}, "uri": "u"},
        "result": {"content": [{"type": "text", "text": "x"}], "tools": [{"name": "n", "description": "d"}]},
        "recipient": "bert",
        "participant_id": "new",
        "grant_id": "g",
        "stream_id": "stream-1",
        "direction": "up",
        "capabilities": [{"kind": "chat", "description": "d"}],
        "description": "d",
        "encoding": "e",
    }
    ids = []
    for n, kind in enumerate([*KINDS, "unknown/kind", f"chat{HOSTILE}"]):
        for form, said in enumerate((hostile(payload), {**payload, "text": HOSTILE, "reason": HOSTILE})):
            ids.append(f"m-{n}-{form}")
            more = {"to": ["bert", HOSTILE][: 1 + form], "context": HOSTILE, "correlation_id": [HOSTILE]}
            gateway.receive("demo", anna, json.dumps({"id": ids[-1], "kind": kind, "payload": said, **more}))
    gateway.receive("demo", anna, f"no JSON {HOSTILE}")
    gateway.receive(
        "demo", anna, json.dumps({"kind": "chat", "payload": {"text": HOSTILE}}, ensure_ascii=False)
    )
    gateway.note(
        "demo", "decided", participant="anna", detail=json.dumps({"rule": HOSTILE}, ensure_ascii=False)
    )
    gateway.leave("demo", anna, f"closed {HOSTILE}")
    gateway.close()
    journal.close()
    path = str(tmp_path / "j.jsonl")
    forged = (tmp_path / "j.jsonl").read_bytes().replace(b'"text":"t', b'"text":"u', 1)
    (tmp_path / "forged.jsonl").write_bytes(forged)
    commands = [
        ["tail", path],
        ["tail", "--json", path],
        ["replay", path],
        ["replay", str(tmp_path / "forged.jsonl")],
        ["diagnose", path],
        ["diagnose", "--json", path],
    ]
    printed = 0
    for words in [*commands, *(["audit", path, id] for id in ids), ["audit", path, HOSTILE]]:
        try:
            status: object = main(words)
        except SystemExit as end:
            status = end.code
        assert status in (0, 1)
        out, err = capsys.readouterr()
        printed += len(out + err)
        for line in (out + err).split("\n"):
            assert visible(line) == line, (words, line)
    assert printed > 50_000


def test_what_is_logged_is_visible_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("mew_lab.x", logging.WARNING, "", 0, "said %s", (HOSTILE,), None)
    line = cli.Formatter("%(levelname)s %(name)s: %(message)s").format(record)
    assert line.startswith("WARNING mew_lab.x: said a") and visible(line) == line


@pytest.mark.threat(17)
@pytest.mark.parametrize("command", ["serve", "tail", "demo", "conform"])
def test_no_fault_of_ours_brings_an_escape_of_a_peer_to_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(options: object) -> None:
        raise RuntimeError(f"what a peer wrote: {HOSTILE}")

    monkeypatch.setattr(f"mew_lab.cli.{command}.run", fail)
    words = {"tail": ["tail", "j.jsonl"], "conform": ["conform", "ws://127.0.0.1:1/ws"]}
    assert main(words.get(command, [command])) == 1
    out, err = capsys.readouterr()
    assert out == "" and "RuntimeError: what a peer wrote" in err
    assert [line for line in err.split("\n") if visible(line) != line] == []


@pytest.mark.threat(17)
@pytest.mark.parametrize("where", ["log", "thread", "task"])
def test_what_any_command_logs_or_leaves_to_a_thread_is_visible(where: str) -> None:
    """In a process of its own: what is logged where nobody has set a handler up goes to stderr as it is."""
    code = f"""
import asyncio, logging, threading
import mew_lab.cli.join

def fail():
    raise RuntimeError({HOSTILE!r})

async def failed():
    asyncio.get_running_loop().create_task(later())
    await asyncio.sleep(0)
    await asyncio.sleep(0)

async def later():
    fail()

def run(options):
    if {where!r} == "log":
        logging.getLogger("other.library").warning("it said %s", {HOSTILE!r})
    elif {where!r} == "thread":
        one = threading.Thread(target=fail)
        one.start()
        one.join()
    else:
        asyncio.run(failed())

mew_lab.cli.join.run = run
mew_lab.cli.main(["join", "ws://127.0.0.1:1/ws"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    err = done.stderr.decode()
    assert "a\\u001b[2J" in err, err
    assert [line for line in err.split("\n") if visible(line) != line] == []


def test_heads_are_ignored_only_where_a_journal_is_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--heads", "ignore"]) != 0
    assert "add --resume FILE" in capsys.readouterr().err
