"""Writes what is pasted into the settings of an MCP client, so that it uses a space as one of its servers.

The client starts a gate as a command, or reaches one at an address. A call may wait for a person. So each client gets a
limit of time above `answer_after`, after which a call that still waits is answered as pending, and where a client needs
it, the settings by which it waits for the first list and leaves the decision about a call to the space. No token is
written: a client is given the path of its file, or a variable.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.protocol.visible import one_line
from mew_lab.settings.waiting import ANSWER_AFTER

__all__ = ["CLIENTS", "ClientSettings", "claude_entry", "write_settings"]

STARTS_WITHIN = 60  # seconds for the start of a gate on a busy machine
BEYOND = 75.0  # seconds that a client waits longer than the gate
WAITS_ITSELF = (
    3600.0  # seconds that a gate waits for a client that fails at the answer that a call is pending
)
MAX_NAME = 32  # characters of the name of the server in a client, which its tools carry


class ClientSettings(NamedTuple):
    """The text to paste, the file that it belongs into, and what a person should know."""

    text: str
    file: str
    remark: str = ""

    @property
    def where(self) -> str:
        """What to do with the text, as the rest of a sentence."""
        return f"this belongs into {self.file}{self.remark and '; '}{self.remark}"

    def __repr__(self) -> str:
        return f"{self.text}\n\n{self.where}"


class _Gate(NamedTuple):
    """A gate as a client starts it by a command, or reaches it at a URL."""

    name: str
    command: Sequence[str]
    url: str
    variable: str  # with the token; empty where the command reads it from a file
    answer_after: float

    @property
    def seconds(self) -> float:
        """How long the client may wait for an answer."""
        return self.answer_after + BEYOND

    @property
    def words(self) -> list[str]:
        """The command with its limit of time, where that is not the usual one."""
        usual = self.answer_after == ANSWER_AFTER
        return [*self.command, *([] if usual else ["--answer-after", f"{self.answer_after:g}"])]

    def entry(self, form: str, *, url: str = "url") -> dict[str, Any]:
        """How the client reaches the gate; the form `NAME` is how it writes an environment variable."""
        written = form.replace("NAME", self.variable)
        if self.url:
            return {url: self.url, "headers": {"Authorization": f"Bearer {written}"}}
        program, *args = self.words
        return {
            "command": program,
            "args": args,
            **({"env": {self.variable: written}} if self.variable else {}),
        }


def claude_entry(way: Mapping[str, Any]) -> dict[str, Any]:
    """How Claude Code reaches a server, with its tools in the first turn; `claude mcp add` has no option for that."""
    return {"type": "http" if "url" in way else "stdio", **way, "alwaysLoad": True}


def _claude(gate: _Gate) -> ClientSettings:
    entry = claude_entry(gate.entry("${NAME}"))
    remark = (
        "alwaysLoad has its first turn wait for the tools, up to 5 seconds, and have them without a search; on a busy "
        f"machine, MCP_CONNECT_TIMEOUT_MS={STARTS_WITHIN * 1000} in its environment has it wait longer; what stands "
        f"within {gate.name!a} is what `claude mcp add-json {gate.name} -` reads"
    )
    return ClientSettings(_json({"mcpServers": {gate.name: entry}}), ".mcp.json of the project", remark)


def _codex(gate: _Gate) -> ClientSettings:
    lines: dict[str, Any]
    if gate.url:
        lines = {"url": gate.url, "bearer_token_env_var": gate.variable}
    else:
        program, *args = gate.words
        lines = {"command": program, "args": args}
        lines |= {"env_vars": [gate.variable]} if gate.variable else {}
    lines |= {
        "required": True,  # its first request has the tools then
        "startup_timeout_sec": STARTS_WITHIN,
        "tool_timeout_sec": round(gate.seconds),
        "default_tools_approval_mode": "approve",  # else it refuses calls before the space hears of them
    }
    text = "\n".join(
        [f"[mcp_servers.{_toml(gate.name)}]", *(f"{key} = {_toml(value)}" for key, value in lines.items())]
    )
    remark = "default_tools_approval_mode leaves the decision about its calls to the space"
    return ClientSettings(text, "~/.codex/config.toml", remark)


def _gemini(gate: _Gate) -> ClientSettings:
    entry = {**gate.entry("$NAME", url="httpUrl"), "timeout": round(gate.seconds * 1000)}
    return ClientSettings(_json({"mcpServers": {gate.name: entry}}), "~/.gemini/settings.json")


def _opencode(gate: _Gate) -> ClientSettings:
    entry = gate.entry("{env:NAME}")
    if not gate.url:
        entry = {"command": gate.words, **({"environment": entry["env"]} if gate.variable else {})}
    entry = {
        "type": "remote" if gate.url else "local",
        **entry,
        "enabled": True,
        "timeout": round(gate.seconds * 1000),
    }
    whole = {"$schema": "https://opencode.ai/config.json", "mcp": {gate.name: entry}}
    return ClientSettings(_json(whole), "opencode.json of the project")


def _vscode(gate: _Gate) -> ClientSettings:
    entry = {"type": "http" if gate.url else "stdio", **gate.entry("${env:NAME}")}
    return ClientSettings(_json({"servers": {gate.name: entry}}), ".vscode/mcp.json of the project")


def _cursor(gate: _Gate) -> ClientSettings:
    entry = gate.entry("${env:NAME}")
    return ClientSettings(_json({"mcpServers": {gate.name: entry}}), ".cursor/mcp.json of the project")


def _zed(gate: _Gate) -> ClientSettings:
    if gate.variable:
        raise MewError(
            "Cannot write settings for zed: it passes no variable on; use mew-lab mcp with --token-file PATH"
        )
    entry = {**gate.entry(""), "env": {}}
    return ClientSettings(_json({"context_servers": {gate.name: entry}}), "the settings.json of Zed")


def _openai_agents(gate: _Gate) -> ClientSettings:
    token = f"os.environ[{gate.variable!a}]"
    remark = "enter it with `async with server:`, and give the agent mcp_servers=[server]"
    waits = max(gate.answer_after, WAITS_ITSELF)
    if gate.url:
        kind = "MCPServerStreamableHttp"
        params = f'{{"url": {gate.url!a}, "headers": {{"Authorization": "Bearer " + {token}}}}}'
        if gate.answer_after < waits:
            remark += (
                f"; serve it with answer_after={waits:g}, as it fails at the answer that a call is pending"
            )
    else:
        kind = "MCPServerStdio"
        gate = gate._replace(answer_after=waits)  # it fails at the answer that a call is pending
        program, *args = gate.words
        env = f', "env": {{{gate.variable!a}: {token}}}' if gate.variable else ""
        params = f'{{"command": {program!a}, "args": {args!a}{env}}}'
    text = "\n".join(
        [
            *(["import os", ""] if gate.variable else []),
            f"from agents.mcp import {kind}",
            "",
            f"server = {kind}(",
            f"    {params},",
            f"    name={gate.name!a},",
            f"    client_session_timeout_seconds={gate.seconds:g},",  # its own is 5, which no person meets
            "    max_retry_attempts=0,",  # a retry makes the same call again
            ")",
        ]
    )
    return ClientSettings(text, "a program with the package openai-agents", remark)


CLIENTS: Mapping[str, Callable[[_Gate], ClientSettings]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "vscode": _vscode,
    "cursor": _cursor,
    "zed": _zed,
    "openai-agents": _openai_agents,
}


def write_settings(
    client: str,
    *,
    space: str,
    command: Sequence[str] = (),
    url: str = "",
    variable: str = "",
    token_file: Path | None = None,
    answer_after: float,
) -> ClientSettings:
    """The settings of a client for a gate.

    Args:
        client: one of `CLIENTS`.
        space: the name of the space, by which the client's settings name the server.
        command: what starts the gate; empty where the client reaches it at `url`.
        variable: the environment variable with the token, which the client passes on; empty where the command reads
            it from a file.
        token_file: the file that the variable is to be set from; None where the person knows.
        answer_after: seconds after which the gate answers a call that still waits.

    Raises:
        MewError: there is no such client, it passes no variable on, or no file can hold the command.
    """
    if client not in CLIENTS:
        known = ", ".join(CLIENTS)
        why = f"No settings are known for {one_line(client, 80)!r}; they are for {known}"
        raise MewError(why)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", space).strip("-")[:MAX_NAME] or "mew"
    try:
        "".join([*command, url]).encode()
    except UnicodeEncodeError:
        raise MewError("Cannot write settings: a path in them is no Unicode text; move the file") from None
    settings = CLIENTS[client](_Gate(name, command, url, variable, answer_after))
    if token_file is None:
        return settings
    export = f'export {variable}="$(cat {shlex.quote(str(token_file))})"'
    return settings._replace(remark="; ".join(filter(None, [settings.remark, f"start it after {export}"])))


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
