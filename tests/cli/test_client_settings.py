"""What `mew-lab mcp --config` prints is read by the parser of each client's format, and starts the gate."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.bridge.client_settings import CLIENTS, write_settings
from mew_lab.cli import main
from mew_lab.errors import MewError

URL = "ws://127.0.0.1:9/ws"
HTTP = "http://127.0.0.1:9/mcp"
PLACES = {
    "claude": ("mcpServers", "demo"), "codex": ("mcp_servers", "demo"), "gemini": ("mcpServers", "demo"),
    "opencode": ("mcp", "demo"), "vscode": ("servers", "demo"), "cursor": ("mcpServers", "demo"),
    "zed": ("context_servers", "demo"),
}  # fmt: skip


def entry_of(client: str, text: str) -> dict[str, Any]:
    if client == "openai-agents":
        return entry_of_program(text)
    whole = tomllib.loads(text) if client == "codex" else json.loads(text)
    chapter, name = PLACES[client]
    (found,) = whole[chapter].items()
    assert found[0] == name
    return found[1]  # type: ignore[no-any-return]


def entry_of_program(text: str) -> dict[str, Any]:
    """The parameters of the one server that a program makes, and its keywords; `environ` stands for what it reads."""
    *_, made = ast.parse(text).body
    assert isinstance(made, ast.Assign) and isinstance(made.value, ast.Call)
    keywords = {word.arg: ast.literal_eval(word.value) for word in made.value.keywords if word.arg}
    code = ast.unparse(made.value.args[0])
    return {"kind": ast.unparse(made.value.func), **keywords, **eval(code, {"os": Reads})}  # noqa: S307


class Reads:
    """What a program reads of its environment."""

    class environ:
        def __class_getitem__(cls, name: str) -> str:
            return f"<{name}>"


def command_of(client: str, entry: dict[str, Any]) -> list[str]:
    return entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]  # type: ignore[no-any-return]


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "coder's token"
    path.touch(0o600)
    path.write_text("canary-token-0123456789")
    return path


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_reads_what_starts_the_gate(
    client: str, token_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(token_file.parent)
    words = [
        "mcp",
        URL,
        "--space",
        "demo",
        "--token-file",
        token_file.name,
        "--as",
        "coder-2",
        "--answer-after",
        "30",
    ]
    assert main([*words, "--config", client]) == 0
    out, told = capsys.readouterr()
    command = command_of(client, entry_of(client, out))
    assert Path(command[0]).is_absolute()
    given = ["mcp", URL, "--space", "demo", "--token-file", str(token_file), "--as", "coder-2"]
    patience = "3600" if client == "openai-agents" else "30"
    assert command[-10:] == [*given, "--answer-after", patience]
    assert told.startswith("this belongs into ") and told.count("\n") == 1
    assert "canary" not in out + told
    ran = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0 and "--answer-after" in ran.stdout


def test_codex_waits_for_the_gate_and_leaves_the_decision_to_the_space(
    token_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", URL, "--space", "demo", "--token-file", str(token_file), "--config", "codex"]) == 0
    entry = entry_of("codex", capsys.readouterr().out)
    assert entry["default_tools_approval_mode"] == "approve" and entry["required"] is True
    assert entry["startup_timeout_sec"] >= 30 and entry["tool_timeout_sec"] > 45


def test_claude_code_waits_for_the_tools_before_its_first_turn() -> None:
    for way in ({"command": ["x"]}, {"url": "http://127.0.0.1:9/mcp", "variable": "TOKEN"}):
        settings = write_settings("claude", space="demo", answer_after=45, **way)  # type: ignore[arg-type]
        assert entry_of("claude", settings.text)["alwaysLoad"] is True
        [longer] = re.findall(r"MCP_CONNECT_TIMEOUT_MS=(\d+)", settings.remark)
        assert int(longer) > 5000  # milliseconds that it waits by itself


def test_openai_agents_is_given_more_than_its_five_seconds_and_no_second_try() -> None:
    settings = write_settings("openai-agents", space="demo", command=["x"], answer_after=45)
    entry = entry_of("openai-agents", settings.text)
    assert (entry["kind"], entry["name"], entry["max_retry_attempts"]) == ("MCPServerStdio", "demo", 0)
    patience = float(command_of("openai-agents", entry)[-1])
    assert entry["client_session_timeout_seconds"] > patience >= 3600


@pytest.mark.parametrize(
    ("client", "reached"),
    [
        ("claude", {"type": "http", "url": HTTP, "headers": {"Authorization": "Bearer ${TOKEN}"}}),
        ("codex", {"url": HTTP, "bearer_token_env_var": "TOKEN", "required": True}),
        ("gemini", {"httpUrl": HTTP, "headers": {"Authorization": "Bearer $TOKEN"}, "timeout": 120_000}),
        ("opencode", {"type": "remote", "url": HTTP, "headers": {"Authorization": "Bearer {env:TOKEN}"}}),
        ("vscode", {"type": "http", "url": HTTP, "headers": {"Authorization": "Bearer ${env:TOKEN}"}}),
        ("cursor", {"url": HTTP, "headers": {"Authorization": "Bearer ${env:TOKEN}"}}),
        ("openai-agents", {"kind": "MCPServerStreamableHttp", "url": HTTP, "headers": {"Authorization": "Bearer <TOKEN>"}}),
    ],
)  # fmt: skip
def test_a_gate_at_an_address_is_reached_with_the_token_of_a_variable(
    client: str, reached: dict[str, Any]
) -> None:
    token_file = Path("/home/a b/coder.token")
    settings = write_settings(
        client, space="demo", url=HTTP, variable="TOKEN", token_file=token_file, answer_after=45
    )
    entry = entry_of(client, settings.text)
    assert entry.items() >= reached.items() and not {"command", "args"} & entry.keys()
    assert "start it after export TOKEN=\"$(cat '/home/a b/coder.token')\"" in settings.where
    assert repr(settings) == f"{settings.text}\n\n{settings.where}"


def test_all_that_was_said_of_the_gate_is_in_the_command(
    token_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ["--bare-names", "git", "--decide-within", "60", "--run-within", "90", "--grace", "20", "--withdraw-after", "1"]  # fmt: skip
    given = ["mcp", URL, "--space", "demo", "--token-file", str(token_file)]
    assert main([*given, *said, "--config", "claude"]) == 0
    assert command_of("claude", entry_of("claude", capsys.readouterr().out))[-16:] == [*given, *said]


def test_a_client_waits_longer_than_the_gate_takes_to_answer() -> None:
    for client, key, unit in (
        ("codex", "tool_timeout_sec", 1),
        ("gemini", "timeout", 1000),
        ("opencode", "timeout", 1000),
    ):
        settings = write_settings(client, space="demo", command=["x"], answer_after=600)
        assert entry_of(client, settings.text)[key] > 600 * unit


@pytest.mark.parametrize(
    ("client", "passed"),
    [
        ("claude", {"env": {"TOKEN": "${TOKEN}"}}),
        ("codex", {"env_vars": ["TOKEN"]}),
        ("gemini", {"env": {"TOKEN": "$TOKEN"}}),
        ("opencode", {"environment": {"TOKEN": "{env:TOKEN}"}}),
        ("vscode", {"env": {"TOKEN": "${env:TOKEN}"}}),
        ("cursor", {"env": {"TOKEN": "${env:TOKEN}"}}),
        ("openai-agents", {"env": {"TOKEN": "<TOKEN>"}}),
    ],
)
def test_a_variable_is_passed_on_by_its_name(
    client: str, passed: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "canary-token-0123456789")
    assert main(["mcp", URL, "--space", "demo", "--token-env", "TOKEN", "--config", client]) == 0
    out = capsys.readouterr().out
    assert entry_of(client, out).items() >= passed.items() and "canary" not in out


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--config", "zed"], "it passes no variable on"),
        (["--config", "claude", "--http"], "leave out --http"),
    ],
)
def test_what_a_client_cannot_have_is_refused(
    more: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "canary-token-0123456789")
    assert main(["mcp", URL, "--space", "demo", "--token-env", "TOKEN", *more]) == 1
    assert why in capsys.readouterr().err


ANY = st.text(st.characters(exclude_categories=["Cs"]))


@given(words=st.lists(ANY, max_size=4), program=ANY, variable=ANY)
def test_any_text_arrives_unchanged_and_is_written_in_ascii(
    words: list[str], program: str, variable: str
) -> None:
    for client in CLIENTS:
        if client == "zed" and variable:
            continue
        settings = write_settings(
            client, space="demo", command=[program, *words], variable=variable, answer_after=45
        )
        command = command_of(client, entry_of(client, settings.text))
        assert command[: 1 + len(words)] == [program, *words]
        assert command[1 + len(words) :] == (["--answer-after", "3600"] if client == "openai-agents" else [])
        assert settings.text.isascii() and all(line.isprintable() for line in settings.text.split("\n"))


def test_half_of_a_character_is_refused() -> None:
    with pytest.raises(MewError, match="no Unicode text"):
        write_settings("codex", space="demo", command=[sys.executable, "\udcff"], answer_after=45)
