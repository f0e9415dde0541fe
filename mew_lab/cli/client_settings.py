"""Writes what is pasted into the settings of an MCP client, so that it uses a space as one of its servers.

A call may wait for a person. So each client gets a limit of time above `answer_after`, after which a call that still
waits is answered as pending, and where a client needs it, the settings by which it starts late servers and leaves the
decision about a call to the space. No token is written: a client is given the path of its file, or a variable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.errors import MewError

__all__ = ["CLIENTS", "ClientSettings", "write_settings"]

STARTS_WITHIN = 60  # seconds for the start of a gate on a busy machine
BEYOND = 75.0  # seconds that a client waits longer than the gate


class ClientSettings(NamedTuple):
    """The text to paste, the file that it belongs into, and what a person should know."""

    text: str
    file: str
    remark: str = ""


class _Server(NamedTuple):
    """A gate as a client starts it."""

    name: str
    program: str
    args: Sequence[str]
    variable: str  # with the token; empty where a file has it
    seconds: float  # that the client may wait for an answer

    def env(self, form: str, key: str = "env") -> dict[str, Any]:
        """The member that passes the variable on, in the form of the client; nothing where there is none."""
        return {key: {self.variable: form.replace("NAME", self.variable)}} if self.variable else {}


def _claude(server: _Server) -> ClientSettings:
    entry = {"type": "stdio", "command": server.program, "args": server.args, **server.env("${NAME}")}
    remark = (
        "in a run with -p, have the agent call WaitForMcpServers first: its first turn may have no tools else"
    )
    return ClientSettings(_json({"mcpServers": {server.name: entry}}), ".mcp.json of the project", remark)


def _codex(server: _Server) -> ClientSettings:
    lines = {
        "command": server.program,
        "args": server.args,
        **({"env_vars": [server.variable]} if server.variable else {}),
        "required": True,  # its first request has the tools then
        "startup_timeout_sec": STARTS_WITHIN,
        "tool_timeout_sec": round(server.seconds),
        "default_tools_approval_mode": "approve",  # else it refuses calls before the space hears of them
    }
    text = "\n".join(
        [f"[mcp_servers.{_toml(server.name)}]", *(f"{key} = {_toml(value)}" for key, value in lines.items())]
    )
    remark = "default_tools_approval_mode leaves the decision about its calls to the space"
    return ClientSettings(text, "~/.codex/config.toml", remark)


def _gemini(server: _Server) -> ClientSettings:
    entry = {
        "command": server.program,
        "args": server.args,
        **server.env("$NAME"),
        "timeout": round(server.seconds * 1000),
    }
    return ClientSettings(_json({"mcpServers": {server.name: entry}}), "~/.gemini/settings.json")


def _opencode(server: _Server) -> ClientSettings:
    entry = {
        "type": "local",
        "command": [server.program, *server.args],
        **server.env("{env:NAME}", "environment"),
        "enabled": True,
        "timeout": round(server.seconds * 1000),
    }
    whole = {"$schema": "https://opencode.ai/config.json", "mcp": {server.name: entry}}
    return ClientSettings(_json(whole), "opencode.json of the project")


def _vscode(server: _Server) -> ClientSettings:
    entry = {"type": "stdio", "command": server.program, "args": server.args, **server.env("${env:NAME}")}
    return ClientSettings(_json({"servers": {server.name: entry}}), ".vscode/mcp.json of the project")


def _cursor(server: _Server) -> ClientSettings:
    entry = {"command": server.program, "args": server.args, **server.env("${env:NAME}")}
    return ClientSettings(_json({"mcpServers": {server.name: entry}}), ".cursor/mcp.json of the project")


def _zed(server: _Server) -> ClientSettings:
    if server.variable:
        raise MewError("Cannot write settings for zed: it passes no variable on; give --token-file PATH")
    entry = {"command": server.program, "args": server.args, "env": {}}
    return ClientSettings(_json({"context_servers": {server.name: entry}}), "the settings.json of Zed")


CLIENTS: Mapping[str, Callable[[_Server], ClientSettings]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "vscode": _vscode,
    "cursor": _cursor,
    "zed": _zed,
}


def write_settings(
    client: str, *, name: str, command: Sequence[str], variable: str = "", answer_after: float
) -> ClientSettings:
    """The settings of a client for a gate.

    Args:
        client: one of `CLIENTS`.
        name: the name of the server in the client's settings.
        command: what starts the gate.
        variable: the environment variable with the token, which the client passes on; empty where a file has it.
        answer_after: seconds after which the gate answers a call that still waits.

    Raises:
        MewError: the client passes no variable on, or no file can hold the command.
    """
    program, *args = command
    try:
        "".join([name, *command]).encode()
    except UnicodeEncodeError:
        raise MewError("Cannot write settings: a path in them is no Unicode text; move the file") from None
    return CLIENTS[client](_Server(name, program, args, variable, answer_after + BEYOND))


def _json(value: object) -> str:
    return json.dumps(value, indent=2)


def _toml(value: object) -> str:
    """A value as TOML: a text, a number, true or false, or a list of these, in ASCII."""
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, str):
        return '"' + "".join(map(_toml_character, value)) + '"'
    assert isinstance(value, list)
    return f"[{', '.join(map(_toml, value))}]"


def _toml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    code = ord(character)
    if 0x20 <= code < 0x7F:
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
