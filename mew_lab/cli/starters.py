"""The spaces that `mew-lab init` makes by name: `demo`, `coder` and `notebook`.

Each is the text of its files, made of the values of its variables. Servers of npm are named with their exact version.

Spec: §4.1 (profiles), §5.1.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.protocol.permit import PROFILES
from mew_lab.settings.space_templates import COMMON, TemplateVariable

__all__ = ["STARTERS", "Starter", "model_lines"]

FILES_SERVER = "@modelcontextprotocol/server-filesystem@2026.8.31"
SHELL_SERVER = "mcp-server-commands@0.5.0"
BASE_URL = "https://api.openai.com/v1"
WORK = "work"
"""The folder of the coder's tools, beside `.mew`: whoever reads there finds no token."""

_NAME = COMMON[0]
_MODEL = (
    TemplateVariable("MODEL", "the name of a model", "", ("OPENAI_MODEL",)),
    TemplateVariable("BASE_URL", "the address of its chat completions API", BASE_URL, ("OPENAI_BASE_URL",)),
)


class Starter(NamedTuple):
    """A space that is made by its name.

    Attributes:
        about: What it is, in a few words.
        agent: Its agent, whose settings stand in `<agent>.yaml`.
        ask: What a person can say first.
        variables: What may be set.
        folders: Folders that it needs.
        make: The text of each file by its name, from the values of the variables.
        check: Checks that what it needs is installed.
    """

    about: str
    agent: str
    ask: str
    variables: tuple[TemplateVariable, ...]
    folders: tuple[str, ...]
    make: Callable[[Mapping[str, str]], dict[str, str]]
    check: Callable[[], None]


def model_lines(model: str, base_url: str) -> list[str]:
    """The three lines of an agent's settings that name its model."""
    return [
        f"model: {json.dumps(model, ensure_ascii=False)}",
        f"base_url: {json.dumps(base_url, ensure_ascii=False)}",
        "api_key: ${OPENAI_API_KEY}",
    ]


def _settings(values: Mapping[str, str], prompt: str) -> str:
    """The settings file of an agent; without a model its three lines are comments."""
    model = values["MODEL"]
    lines = model_lines(model or "NAME", values["BASE_URL"])
    if model:
        head = ["# The model, by the chat completions API of its server; the key stays in the environment."]
    else:
        head = [
            "# Without a model it follows rules (mew_lab's offline model). For a model, fill in and uncomment:"
        ]
        lines = [f"# {line}" for line in lines]
    return "\n".join([*head, *lines, f"system_prompt: {json.dumps(prompt, ensure_ascii=False)}", ""])


def _patterns(profile: str) -> str:
    return json.dumps(PROFILES[profile])


def _space(name: str, about: str, members: str) -> str:
    """A space.yaml with its owner, `human`."""
    return f"""# {about}
space:
  id: {json.dumps(name, ensure_ascii=False)}
  owner: human
  default_participant: human
gateway_logging: {{enabled: false}}  # all of it is in the journal
participants:
  human:
    capabilities: [{{kind: "*"}}]
{members}"""


def _agent(name: str, space: str) -> str:
    """An agent of mew_lab that may propose; `-P` keeps modules in its folder from being loaded."""
    words = ["-P", "-m", "mew_lab.cli", "agent", f"{name}.yaml", "--gateway", "ws://127.0.0.1:${PORT}/ws"]
    words += [f"--space={space}", "--as", name, "--token-env", "TOKEN"]
    return f"""  {name}:  # proposes calls of tools, and a person approves them; its settings stand in {name}.yaml
    command: python
    args: {json.dumps(words, ensure_ascii=False)}
    auto_start: true
    env: {{OPENAI_API_KEY: "${{OPENAI_API_KEY}}"}}
    capabilities: {_patterns("agent")}
"""


def _server(name: str, about: str, **server: Any) -> str:
    return f"""  {name}:  # {about}
    type: mcp-bridge
    mcp_server: {json.dumps(server)}
    capabilities: {_patterns("tool")}
"""


# --- demo and notebook ------------------------------------------------------------------------------------------------

CLOCK = "clock"
HELPER = "helper"
QUESTION = "What time is it in Tokyo?"


def _make_demo(values: Mapping[str, str]) -> dict[str, str]:
    name = values["SPACE_NAME"]
    members = _agent(HELPER, name) + _server(
        CLOCK,
        "the MCP server of the package mcp-server-time",
        command="python",
        args=["-P", "-m", "mcp_server_time", "--local-timezone", "UTC"],
    )
    prompt = "You answer questions in one or two sentences, with the tools of this space."
    return {
        "space.yaml": _space(name, "An agent, a clock, and a person who approves.", members),
        f"{HELPER}.yaml": _settings(values, prompt),
    }


def _check_demo() -> None:
    if importlib.util.find_spec("mcp_server_time") is None:
        raise ConfigError(
            'It needs the MCP server mcp-server-time; install it with: pip install "mew_lab[lessons]"',
            key="clock",
        )


CELLS = (
    ("markdown", "# The space of this folder\n\n`mew-lab up` starts it, and `mew-lab down` ends it."),
    ("code", "%load_ext mew_lab\n%mew connect --as human-notebook"),
    (
        "markdown",
        f"Ask `{HELPER}`. A call of a tool that it proposes appears as a card, and runs once you approve it.",
    ),
    ("code", f"%mew ask {HELPER} {QUESTION}"),
    ("code", "%mew approvals"),
    ("markdown", "All that was said so far:"),
    ("code", "%mew feed"),
)


def _make_notebook(values: Mapping[str, str]) -> dict[str, str]:
    cells = []
    for at, (kind, source) in enumerate(CELLS):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{at}", "metadata": {}, "source": source}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    book = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return {**_make_demo(values), "space.ipynb": json.dumps(book, indent=1) + "\n"}


# --- coder --------------------------------------------------------------------------------------------------------

CODER = "coder"


def _make_coder(values: Mapping[str, str]) -> dict[str, str]:
    name = values["SPACE_NAME"]
    members = (
        _agent(CODER, name)
        + _server(
            "files", f"reads and writes files in {WORK}", command="npx", args=["-y", FILES_SERVER, WORK]
        )
        + _server("shell", f"runs commands in {WORK}", command="npx", args=["-y", SHELL_SERVER], cwd=WORK)
    )
    prompt = (
        f"You write programs. Your folder is {WORK}: the tools of files work there, shell runs commands there, "
        "and relative paths begin there. A person approves each call, so make few and say what each is for."
    )
    return {
        "space.yaml": _space(
            name, "An agent that writes programs: it proposes, and a person approves.", members
        ),
        f"{CODER}.yaml": _settings(values, prompt),
    }


STARTERS: Mapping[str, Starter] = {
    "demo": Starter("an agent and a clock", HELPER, QUESTION, (_NAME, *_MODEL), (), _make_demo, _check_demo),
    "coder": Starter(
        "an agent with tools for files and shell, of which a person approves each call",
        CODER,
        "Write hello.txt with the content hello.",
        (_NAME, *_MODEL),
        (WORK,),
        _make_coder,
        lambda: None,
    ),
    "notebook": Starter(
        "the demo, with a notebook that joins it",
        HELPER,
        QUESTION,
        (_NAME, *_MODEL),
        (),
        _make_notebook,
        _check_demo,
    ),
}
