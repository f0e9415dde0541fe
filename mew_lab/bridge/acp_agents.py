"""Lists the coding agents that are known to speak ACP: how each is started, and which of its modes asks most.

An agent asks only where its own mode says so, so the mode decides what a person sees before it happens. What is not in
this table is started by its command, in the mode that it chooses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.protocol.visible import one_line
from mew_lab.settings.faults import did_you_mean

__all__ = ["AGENTS", "KnownAgent", "agent_of", "find_agent", "variables_of"]


class KnownAgent(NamedTuple):
    """One agent.

    Attributes:
        command: The program and its arguments.
        install: The line that installs it.
        mode: The mode that asks most; empty where it has none that can be set.
        asks: The modes that are known to ask before they act; any other is not.
        env: Variables that it needs in order to ask.
        passes: Variables that it gets where they are set here: its keys, and the addresses of its model.
        files: What it may do with files by its bridge, where a folder is given: `read`, `write`.
        remark: What is known to go wrong; empty for nothing.
    """

    command: tuple[str, ...]
    install: str
    mode: str = ""
    asks: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    passes: tuple[str, ...] = ()
    files: tuple[str, ...] = ("read", "write")
    remark: str = ""


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")

AGENTS: Mapping[str, KnownAgent] = MappingProxyType(
    {
        "claude": KnownAgent(
            ("claude-agent-acp",),
            "npm install -g @agentclientprotocol/claude-agent-acp",
            mode="default",
            asks=("default", "plan"),
            passes=(
                *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
                *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "IS_SANDBOX"),
            ),
            remark="the user root needs IS_SANDBOX=1, else no session begins",
        ),
        "codex": KnownAgent(
            ("codex-acp",),
            "npm install -g @agentclientprotocol/codex-acp",
            mode="read-only",
            asks=("read-only",),
            passes=("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME", "OPENAI_BASE_URL"),
            remark="what its sandbox forbids fails without a question, unless the model asks to leave the sandbox",
        ),
        "gemini": KnownAgent(
            ("gemini", "--acp", "--skip-trust"),
            "npm install -g @google/gemini-cli",
            mode="default",
            asks=("default", "plan"),
            passes=(
                *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
                *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
            ),
            files=("write",),  # it takes the error for a missing file for a fault, and then makes no new file
            remark="its questions name no input of the tool, only a title and what would change",
        ),
        "opencode": KnownAgent(
            ("opencode", "acp"),
            "npm install -g opencode-ai",
            asks=("build", "plan"),  # by the variable below
            files=(),  # it tells of an edit that it was allowed, and writes that itself, whatever the answer is
            env=MappingProxyType(
                {"OPENCODE_PERMISSION": '{"edit":"ask","bash":"ask","webfetch":"ask","external_directory":"ask"}'}
            ),
            passes=(
                *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"),
                *("OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_AUTOUPDATE"),
            ),
            remark="without OPENCODE_PERMISSION it asks for little",
        ),
        "qwen": KnownAgent(
            ("qwen", "--acp"),
            "npm install -g @qwen-code/qwen-code",
            mode="default",
            asks=("default", "plan"),
            passes=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
            remark="it begins in its mode auto, which writes without asking",
        ),
    }
)  # fmt: skip


def agent_of(name: str) -> KnownAgent:
    """The agent of that name, with the variables of this process that it gets.

    Raises:
        ConfigError: no agent of that name is known.
    """
    if name not in AGENTS:
        hint = did_you_mean(name, sorted(AGENTS))
        known = ", ".join(AGENTS)
        raise ConfigError(
            f"{one_line(name, 80)!r} is no known coding agent{f'; {hint}' if hint else ''}; known are {known}. "
            "Any other takes its command as a list of words",
            key="agent",
        )
    return AGENTS[name]


def find_agent(command: Sequence[str]) -> KnownAgent | None:
    """The known agent whose program a command starts, as by `npx`; None where it is none of them."""
    for known in AGENTS.values():
        if any(Path(word.replace("\\", "/")).name == known.command[0] for word in command[:3]):
            return known
    return None


def variables_of(known: KnownAgent | None) -> dict[str, str]:
    """The variables that an agent gets without being asked for: those that it needs, and its own of this process."""
    passes = (*(known.passes if known else ()), *_PROXIES)
    return {name: os.environ[name] for name in passes if name in os.environ} | dict(
        known.env if known else {}
    )
