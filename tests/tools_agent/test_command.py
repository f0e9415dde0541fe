"""`mew-lab tools-agent` as it is typed: what it prints, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli import main
from mew_lab.cli import tools_agent as command
from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import write_token_file
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.server import Server
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import ToolBox
from mew_lab.settings.documents import write_yaml

from ..agent.llm_server import ChatServer, text_answer

ROOT = Path(__file__).resolve().parents[2]

FILE = """
metadata:
  name: Clock
  version: 1.0.0
  mode: tools
  tools:
    - name: tell
      description: Tells something.
      parameters:
        type: object
        properties: {what: {type: string}, more: {type: string}}
        required: [what]
      prompt: Tell me about {what} and {whom}
settings: {toolPermission: tool}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "clock.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path / "clock.yaml"


@pytest.fixture
def gated_file(file: Path) -> Path:
    """The file with a server whose tools need a permission."""
    file.write_text(f"{FILE}\nmcpServers: {{shop: {{command: x}}}}\n", encoding="utf-8")
    return file


def test_check_tells_what_is_there_and_what_to_look_at(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tools-agent", "check", str(file)]) == 0
    out = capsys.readouterr().out
    for words in (
        "Clock 1.0.0, mode tools, tools: tell",
        "tell asks: Tell me about {what} and {whom}",
        "metadata.tools[0].prompt: {whom} is no parameter",
        "the parameter more is declared, but the prompt does not use it",
        "settings.toolPermission",
    ):
        assert words in out


@pytest.mark.parametrize("action", [["check"], ["serve"], ["call"]])
def test_a_file_with_faults_is_told_fault_by_fault_on_stderr_and_exit_1(
    file: Path, action: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(write_yaml({"metadata": {"mode": "x", "tools": [{}]}}), encoding="utf-8")
    assert main(["tools-agent", *action, str(file), *(["tell"] if action == ["call"] else [])]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    first, *others = err.strip().split("\n")
    assert first == f"mew-lab tools-agent: {file} has 6 faults:"
    assert len(others) == 6 and any("metadata.tools[0].prompt" in line for line in others)


def test_an_agent_without_tools_may_be_checked_and_not_served(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("metadata: {name: A, mode: tools, tools: []}\n", encoding="utf-8")
    assert main(["tools-agent", "check", str(file)]) == 0
    assert main(["tools-agent", "serve", str(file)]) == 1
    assert "metadata.tools is empty" in capsys.readouterr().err


def test_what_has_no_effect_is_reported_by_check_and_by_every_run(
    file: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text(f"{FILE}mcpServers: {{s: {{type: internal}}}}\nsupervisors: [{{name: guard}}]\n")
    assert main(["tools-agent", "check", str(file)]) == 0
    out = capsys.readouterr().out
    assert "look at mcpServers.s.type: " in out and "look at supervisors[0]: " in out
    call = ["tools-agent", "call", str(file), "tell", '{"what": "yourself"}']
    assert main(call) == 1
    assert "--without-supervisors" in capsys.readouterr().err
    caplog.clear()
    assert main([*call, "--without-supervisors"]) == 0
    assert [f"{file}: mcpServers.s.type: " in line for line in caplog.messages].count(True) == 1


def test_call_prints_the_result_and_ends_with_1_where_it_is_an_error(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tools-agent", "call", str(file), "tell", '{"what": "yourself"}']) == 0
    out = capsys.readouterr().out
    assert "offline model" in out and "called" not in out
    with pytest.raises(SystemExit) as caught:
        main(["tools-agent", "call", str(file), "tell", '{"who": 1}'])
    assert caught.value.code == 1
    assert "Invalid arguments for tell: " in capsys.readouterr().out
    for words, reason in (
        (["tell", "{"], "not JSON"),
        (["tell", "[1]"], "must be an object"),
        (["ask"], "Unknown tool"),
    ):
        assert main(["tools-agent", "call", str(file), *words]) == 1
        assert reason in capsys.readouterr().err


def test_a_key_that_is_not_there_is_told_by_its_variable(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tools-agent", "call", str(file), "tell", "--key-env", "NOT_SET_HERE"]) == 1
    assert "NOT_SET_HERE is not set" in capsys.readouterr().err


async def test_it_joins_a_space_elsewhere_and_answers_there(tmp_path: Path, file: Path) -> None:
    gateway = Gateway()
    gateway.add_space(SpaceConfig(name="demo"))
    gateway.enrol("demo", "clock", PROFILES["agent"])
    gateway.enrol("demo", "human", PROFILES["human"])
    token = write_token_file(tmp_path, "demo", "clock", gateway.tokens.mint("demo", "clock"))
    human = gateway.tokens.mint("demo", "human")
    server = Server(gateway)
    url = f"ws://127.0.0.1:{await server.start()}/ws"
    words = [
        "tools-agent",
        "join",
        str(file),
        url,
        "--space",
        "demo",
        "--token-file",
        str(token),
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mew_lab.cli", *words,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        assert line.decode().startswith("clock is in demo as Clock, with ")
        async with MEWParticipant(gateway=url, space="demo", token=human) as me:
            assert [tool["name"] for tool in await me.list_tools("clock")] == ["tell"]
            assert "offline model" in (await me.call("clock/tell", {"what": "yourself"}, timeout=20)).text
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await server.stop()
        gateway.close()


@pytest.mark.parametrize("option", ["", "--propose", "--interactive"])
async def test_a_joined_agent_asks_people_as_its_options_say(
    tmp_path: Path, gated_file: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It may only propose to `free`.
    gateway = Gateway()
    gateway.add_space(SpaceConfig(name="demo"))
    gateway.enrol("demo", "clock", [*PROFILES["agent"], {"kind": "mcp/request", "to": ["shop"]}])
    for name, profile in (("human", "human"), ("free", "tool"), ("shop", "tool")):
        gateway.enrol("demo", name, PROFILES[profile])
    tokens = {name: gateway.tokens.mint("demo", name) for name in ("clock", "human", "free", "shop")}
    server = Server(gateway)
    url = f"ws://127.0.0.1:{await server.start()}/ws"

    def member(name: str, **how: Any) -> MEWParticipant:
        return MEWParticipant(gateway=url, space="demo", token=tokens[name], **how)

    def look() -> str:
        """Looks."""
        return "seen"

    box = ToolBox()
    box.add(look)
    monkeypatch.setenv("A_KEY", "k" * 20)
    async with ChatServer([text_answer("Nothing.")]) as models:
        words = ["join", str(gated_file), url, "--space", "demo", "--model", "m", "--base-url", models.url]
        words += ["--token-file", str(write_token_file(tmp_path, "demo", "clock", tokens["clock"]))]
        words += ["--key-env", "A_KEY", *([option] if option else [])]
        async with member("human") as me, member("free", tools=box), member("shop", tools=box):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mew_lab.cli", "tools-agent", *words,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                assert await asyncio.wait_for(process.stdout.readline(), 30)
                assert (await me.call("clock/tell", {"what": "x"}, timeout=20)).text == "Nothing."
            finally:
                process.kill()
                await process.wait()
    offered = {tool["function"]["name"] for tool in models.bodies[0].get("tools", ())}
    expected = {"": set(), "--propose": {"free_look"}, "--interactive": {"free_look", "shop_look"}}
    assert offered == expected[option]
    await server.stop()
    gateway.close()


@pytest.mark.threat(1, 40)
async def test_over_http_it_is_served_with_the_token_of_a_file_that_is_made_once_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEW_SHORT_TOKENS", raising=False)
    file = tmp_path / "an agent.json"
    tool = {"name": "t", "description": "d", "parameters": {"type": "object"}, "prompt": "p"}
    about = {"name": "A", "version": "1", "description": "d", "mode": "tools", "tools": [tool]}
    file.write_text(json.dumps({"metadata": about, "settings": {"model": "offline"}}))
    ended = asyncio.Event()
    sentences: list[str] = []

    def say(line: str) -> None:
        sentences.append(line)
        ended.set()

    for _ in range(2):
        ended.clear()
        await command.serve(file, http=0, ended=ended, say=say)
    (token,) = (tmp_path / ".mew" / "tools-agents").iterdir()
    assert (token.suffix, stat.S_IMODE(token.stat().st_mode)) == (".token", 0o600)
    assert all(
        f"with the token in {token}" in sentence and token.read_text().strip() not in sentence
        for sentence in sentences
    )
    short = tmp_path / "short.token"
    short.write_text("fifteen-letters")
    short.chmod(0o600)
    with pytest.raises(ConfigError, match="fewer than 16 characters"):
        await command.serve(file, http=0, ended=ended, say=say, token_file=short)
