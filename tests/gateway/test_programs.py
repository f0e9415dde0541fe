"""What a space.yaml wants to run, and what each program is given: as the peers do, and nothing more."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConfigError
from mew_lab.gateway.keyring import Key
from mew_lab.gateway.programs import Program, programs_of
from mew_lab.gateway.space_file import parse_space_file
from mew_lab.protocol.token import Token

OURS = {"PATH": "/bin", "HOME": "/home/a", "SECRET_OF_OURS": "canary", "NEEDED": "from us"}
BRIDGE = ("python", "-m", "bridge")


def programs(participants: str, **more: Any) -> dict[str, Program]:
    text = f"space: {{id: demo}}\nparticipants:\n{participants}"
    file = parse_space_file(text, path=Path("/spaces/one/space.yaml"), environ={})
    keys = {name: Key(Token(f"token-of-{name}-12345"), None) for name in file.config.participants}
    given = {"url": "ws://127.0.0.1:7000/ws", "port": 7000, "bridge": BRIDGE, "environ": OURS, **more}
    return {one.participant: one for one in programs_of(file, keys, **given)}


def test_only_those_with_auto_start_and_bridges_are_run() -> None:
    found = programs(
        "  human: {type: key}\n"
        "  idle: {command: idle}\n"
        "  off: {command: off, auto_start: false}\n"
        "  agent: {command: agent, auto_start: true}\n"
        "  files: {type: mcp-bridge, mcp_server: {command: files}}\n"
        "  later: {type: mcp-bridge, mcp_server: {command: later}, auto_start: false}\n"
    )
    assert list(found) == ["agent", "files"]


def test_a_coding_agent_is_started_by_the_bridge_and_obeys_the_owner() -> None:
    coder = programs(
        "  human: {type: key}\n  coder: {type: acp, command: claude, args: [x], env: {KEY: y}}\n"
    )["coder"]
    words = " ".join(coder.command)
    assert words.endswith("--as coder --token-env MEW_TOKEN_CODER --acp --env KEY -- claude x")
    assert coder.env["KEY"] == "y"
    assert programs("  coder: {type: acp, command: claude, auto_start: false}\n") == {}
    given = programs("  coder: {type: acp, command: claude, files: src}\n")["coder"]
    assert " --files src -- claude" in " ".join(given.command)


def test_a_coding_agent_gets_its_tools_by_another_participant_whose_token_no_argument_has() -> None:
    found = programs("  own-tools: {type: key}\n  coder: {type: acp, command: claude, tools: own-tools}\n")
    assert list(found) == ["coder"]
    coder = found["coder"]
    assert "--tools-as own-tools --tools-token-env MEW_TOKEN_OWN_TOOLS -- claude" in " ".join(coder.command)
    token = coder.env["MEW_TOKEN_OWN_TOOLS"]
    assert len(token) > 16 and token not in " ".join(coder.command) + repr(coder)
    assert token in [secret.reveal() for secret in coder.secrets]


def test_the_first_of_each_variable_in_an_argument_is_filled_in() -> None:
    agent = programs(
        '  agent: {command: run, auto_start: true, args: ["--at=${PORT}/${SPACE}?${TOKEN}", "${PORT}${PORT}", "${HOME}"]}'
    )["agent"]
    assert agent.command == ("run", "--at=7000/demo?token-of-agent-12345", "7000${PORT}", "${HOME}")


@pytest.mark.threat(28)
def test_the_environment_is_what_the_file_names_and_the_token() -> None:
    agent = programs(
        '  my-bot: {command: run, auto_start: true, env: {A: "x ${NEEDED}", B: "${UNSET}", PATH: "/mine:${PATH}"}}'
    )["my-bot"]
    token = "token-of-my-bot-12345"
    assert dict(agent.env) == {
        "PATH": "/mine:/bin",
        "HOME": "/home/a",
        "A": "x from us",
        "B": "${UNSET}",
        "MEW_TOKEN_MY_BOT": token,
        "PORT": "7000",
        "SPACE": "demo",
        "TOKEN": token,
    }
    assert (agent.cwd, agent.log) == (Path("/spaces/one"), Path("/spaces/one/logs/my-bot.log"))


@pytest.mark.threat(1, 28)
def test_a_bridge_has_its_token_in_the_environment_and_its_server_only_what_is_named() -> None:
    files = programs(
        "  files:\n"
        "    type: mcp-bridge\n"
        "    env: {LEVEL: debug}\n"
        '    mcp_server: {command: npx, args: [-y, server], env: {ROOT: "${HOME}/data"}, cwd: sub}\n'
        "    bridge_config: {init_timeout: 15000, reconnect: true, max_reconnects: 2}\n",
        bridge_env={"PYTHONPATH": "/ours"},
    )["files"]
    assert files.command == (
        *("python", "-m", "bridge", "ws://127.0.0.1:7000/ws", "--space", "demo", "--as", "files"),
        *("--token-env", "MEW_TOKEN_FILES", "--init-timeout", "15"),
        *("--env", "LEVEL", "--env", "ROOT", "--", "npx", "-y", "server"),
    )
    assert files.env["MEW_TOKEN_FILES"] == "token-of-files-12345"
    assert (files.env["ROOT"], files.env["PYTHONPATH"]) == ("/home/a/data", "/ours")
    assert "SECRET_OF_OURS" not in files.env
    assert (files.cwd, files.restart, files.restarts) == (Path("/spaces/one/sub"), "on-failure", 2)


@pytest.mark.ruling("R35")
def test_a_bridge_is_told_what_counts_as_a_repeat_of_an_unknown_call() -> None:
    server = "type: mcp-bridge, mcp_server: {command: x}"
    found = programs(
        f"  a: {{{server}, bridge_config: {{strict_unknown: true, repeats_within: 90}}}}\n"
        f"  b: {{{server}, bridge_config: {{init_timeout: 7000, strict_unknown: false}}}}\n"
        f"  c: {{{server}}}\n"
    )
    settings = {name: one.command[one.command.index("--token-env") + 2 : -2] for name, one in found.items()}
    assert settings == {
        "a": ("--strict-unknown", "--repeats-within", "90.0"),
        "b": ("--init-timeout", "7"),
        "c": (),  # as long as its command may take
    }
    for bad in ("repeats_within: -1", "repeats_within: .nan", "strict_unknown: 1 h", "repeats_within: .inf"):
        with pytest.raises(ConfigError, match=bad.partition(":")[0]):
            programs(f"  a: {{{server}, bridge_config: {{{bad}}}}}\n")


@pytest.mark.ruling("R43")
def test_a_bridge_is_told_how_much_it_keeps_of_large_results() -> None:
    server = "type: mcp-bridge, mcp_server: {command: x}"
    kept = "result_bytes: 10, results_bytes: 20, results_seconds: 30"
    found = programs(f"  a: {{{server}, bridge_config: {{{kept}}}}}\n")["a"].command
    options = ("--result-bytes", "10", "--results-bytes", "20", "--results-seconds", "30.0")
    assert found[-8:-2] == options
    for bad in ("result_bytes: -1", "results_bytes: x", "results_seconds: 0", "results_seconds: .inf"):
        with pytest.raises(ConfigError, match=bad.partition(":")[0]):
            programs(f"  a: {{{server}, bridge_config: {{{bad}}}}}\n")


@pytest.mark.threat(1)
def test_the_headers_of_a_server_at_a_url_are_in_its_environment_and_in_no_argument() -> None:
    far = programs(
        "  far:\n"
        "    type: mcp-bridge\n"
        "    mcp_server:\n"
        "      url: https://host/events\n"
        "      transport: sse\n"
        '      headers: {Authorization: "Bearer ${HOME}", X-Key: word}\n'
    )["far"]
    assert far.command[-8:] == (
        *("--header", "Authorization: ${MEW_LAB_HEADER_0}", "--header", "X-Key: ${MEW_LAB_HEADER_1}"),
        *("--transport", "sse", "--", "https://host/events"),
    )
    assert (far.env["MEW_LAB_HEADER_0"], far.env["MEW_LAB_HEADER_1"]) == ("Bearer /home/a", "word")


def test_without_a_policy_nothing_is_started_again() -> None:
    found = programs(
        "  plain: {command: run, auto_start: true}\n"
        "  keen: {command: run, auto_start: true, restart_policy: always}\n"
        "  files: {type: mcp-bridge, mcp_server: {command: files}}\n"
    )
    assert [one.restart for one in found.values()] == ["never", "always", "never"]


def test_python_is_this_interpreter() -> None:
    assert programs("  a: {command: python, args: [a.py], auto_start: true}")["a"].command == (
        sys.executable,
        "a.py",
    )


@pytest.mark.threat(1)
def test_neither_its_repr_nor_its_command_line_tells_the_token() -> None:
    agent = programs('  agent: {command: run, auto_start: true, args: ["${TOKEN}"]}')["agent"]
    assert agent.command_line == "run tok_…2345"
    assert "token-of-agent" not in repr(agent) + agent.command_line
