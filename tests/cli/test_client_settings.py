"""What `mew-lab mcp --config` prints is read by the parser of each client's format, and starts the gate."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.cli import main
from mew_lab.cli.client_settings import CLIENTS, write_settings
from mew_lab.errors import MewError

URL = "ws://127.0.0.1:9/ws"
PLACES = {
    "claude": ("mcpServers", "demo"), "codex": ("mcp_servers", "demo"), "gemini": ("mcpServers", "demo"),
    "opencode": ("mcp", "demo"), "vscode": ("servers", "demo"), "cursor": ("mcpServers", "demo"),
    "zed": ("context_servers", "demo"),
}  # fmt: skip


def entry_of(client: str, text: str) -> dict[str, Any]:
    whole = tomllib.loads(text) if client == "codex" else json.loads(text)
    chapter, name = PLACES[client]
    (found,) = whole[chapter].items()
    assert found[0] == name
    return found[1]  # type: ignore[no-any-return]


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
    assert command[-10:] == [*given, "--answer-after", "30"]
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


def test_a_client_waits_longer_than_the_gate_takes_to_answer() -> None:
    for client, key, unit in (
        ("codex", "tool_timeout_sec", 1),
        ("gemini", "timeout", 1000),
        ("opencode", "timeout", 1000),
    ):
        settings = write_settings(client, name="demo", command=["x"], answer_after=600)
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
            client, name="demo", command=[program, *words], variable=variable, answer_after=45
        )
        assert command_of(client, entry_of(client, settings.text)) == [program, *words]
        assert settings.text.isascii() and all(line.isprintable() for line in settings.text.split("\n"))


def test_half_of_a_character_is_refused() -> None:
    with pytest.raises(MewError, match="no Unicode text"):
        write_settings("codex", name="demo", command=[sys.executable, "\udcff"], answer_after=45)
