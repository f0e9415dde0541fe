"""Coding agents as a user runs them without a terminal, each with a home folder of its own and a model on the loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..bridge.real_servers import npm_package
from .space import environment

NPM = {
    "claude": "@anthropic-ai/claude-code@2.1.332",
    "codex": "@openai/codex@0.171.0",
    "gemini": "@google/gemini-cli@0.61.0",
    "opencode": "opencode-ai@1.18.33",
}
DEADLINE = 120.0  # seconds of one run


class Prepared(NamedTuple):
    """The words after the program, and what its environment has beside the usual."""

    words: list[str]
    environment: dict[str, str]


def _merged(settings: str, more: Mapping[str, Any]) -> str:
    return json.dumps({**json.loads(settings), **more})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def claude(home: Path, project: Path, settings: str, model: str, prompt: str) -> Prepared:
    _write(project / ".mcp.json", settings)
    _write(home / ".claude" / "settings.json", '{"enableAllProjectMcpServers": true}')
    words = ["--dangerously-skip-permissions", "-p", prompt]
    more = {"IS_SANDBOX": "1", "ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "none"}
    return Prepared(words, {**more, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})


def codex(home: Path, project: Path, settings: str, model: str, prompt: str) -> Prepared:
    provider = f'name = "own"\nbase_url = "{model}/v1"\nwire_api = "responses"\n'
    head = f'model = "own"\nmodel_provider = "own"\n[model_providers.own]\n{provider}'
    _write(home / ".codex" / "config.toml", head + settings)
    return Prepared(
        ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt], {}
    )


def gemini(home: Path, project: Path, settings: str, model: str, prompt: str) -> Prepared:
    more = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    _write(home / ".gemini" / "settings.json", _merged(settings, more))
    words = ["--skip-trust", "--yolo", "--model", "gemini-2.5-pro", "-p", prompt]
    return Prepared(words, {"GOOGLE_GEMINI_BASE_URL": model, "GEMINI_API_KEY": "none"})


def opencode(home: Path, project: Path, settings: str, model: str, prompt: str) -> Prepared:
    takes = {"name": "own", "attachment": True, "tool_call": True}
    takes["modalities"] = {"input": ["text", "image"], "output": ["text"]}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "own", "models": {"own": takes}}
    provider["options"] = {"baseURL": f"{model}/v1", "apiKey": "none"}
    more = {"provider": {"own": provider}, "model": "own/own", "autoupdate": False, "share": "disabled"}
    _write(project / "opencode.json", _merged(settings, more))
    return Prepared(
        ["run", prompt], {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
    )


AGENTS: dict[str, Callable[[Path, Path, str, str, str], Prepared]] = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
    "opencode": opencode,
}


def program_of(name: str) -> str:
    return str(npm_package(NPM[name], scripts=name in ("claude", "opencode")) / ".bin" / name)


async def run_agent(
    name: str, place: Path, settings: str, model: str, prompt: str, *, state: Path | None = None
) -> str:
    """Runs one turn of an agent; returns what it printed. `state` keeps the user's state folder for the next run."""
    home, project = place / "home", place / "project"
    home.mkdir(parents=True)
    project.mkdir()
    prepared = AGENTS[name](home, project, settings, model, prompt)
    kept = {"XDG_STATE_HOME": str(state)} if state else {}
    return await run_to_the_end(
        [program_of(name), *prepared.words], project, environment(home, **prepared.environment, **kept)
    )


async def run_to_the_end(words: list[str], folder: Path, env: Mapping[str, str]) -> str:
    """Runs a program in a session of its own; what it leaves behind ends with it."""
    process = await asyncio.create_subprocess_exec(
        *words, cwd=folder, env=env, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, fault = await asyncio.wait_for(process.communicate(), DEADLINE)
    except TimeoutError:
        raise AssertionError(f"{words[0]} has not ended within {DEADLINE:g} s") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    assert process.returncode == 0, f"{words[0]} ended with {process.returncode}: {fault.decode()[-2000:]}"
    return out.decode()
