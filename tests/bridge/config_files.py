"""Forty files of MCP servers, as clients and as strangers write them, and what is to come of each.

`CANARY` stands wherever a file has a secret; nothing that is shown may hold it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CANARY", "ENVIRON", "FILES", "ConfigFile"]

CANARY = "canary-5ecret-0123456789"
ENVIRON = {"KEY": CANARY, "EMPTY": "", "LOOP": "${KEY}", "PORT": "8080", "HOME": "/home/ada"}


@dataclass(frozen=True)
class ConfigFile:
    """A file and its outcome.

    Attributes:
        name: What is odd about it.
        text: Its content, or what makes it.
        path: Its path in the project.
        gives: By server what it starts: words of a command, or an address; `{W}` is the folder of the project.
        env: By server the variables or headers that it gets.
        cwd: By server its folder below the project.
        left_out: By server a part of the sentence about it.
        fault: A part of the error about the whole file.
        more: Makes further files in the project.
        typed: The answers that a person types to inputs.
    """

    name: str
    text: str | bytes | Callable[[], str | bytes]
    path: str = ".mcp.json"
    gives: Mapping[str, list[str] | str] = field(default_factory=dict)
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cwd: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    more: Callable[[Path], object] = lambda _: None
    typed: tuple[str, ...] = ()


def of(servers: Mapping[str, Any], chapter: str = "mcpServers", **more: Any) -> str:
    return json.dumps({chapter: servers, **more})


def write(folder: Path, name: str, text: str, mode: int = 0o600) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def link_file(folder: Path) -> None:
    write(folder, "real.env", f"A={CANARY}\n")
    (folder / ".env").symlink_to("real.env")


def link_folder(folder: Path) -> None:
    write(folder, "real/.env", f"A={CANARY}\n")
    (folder / "linked").symlink_to("real")


def ask(*inputs: Mapping[str, Any], args: list[str]) -> str:
    return of({"a": {"command": "run", "args": args}}, "servers", inputs=list(inputs))


PASSWORD = {"id": "key", "type": "promptString", "description": "the key", "password": True}
RUN = {"command": "run"}

FILES = [
    # --- as clients write them ---
    ConfigFile(
        "the plain form",
        of({"a": {"command": "npx", "args": ["-y", "pack"]}}),
        gives={"a": ["npx", "-y", "pack"]},
    ),
    ConfigFile(
        "the form of an editor, with comments and last commas",
        '{ // servers\n"servers": {"a": {"type": "stdio", /* of "mine" */ "command": "run", "args": ["//x", "/*",],},},}',
        ".vscode/mcp.json",
        gives={"a": ["run", "//x", "/*"]},
        cwd={"a": "."},
    ),
    ConfigFile(
        "streamable HTTP with a header from a variable",
        of(
            {
                "a": {
                    "type": "http",
                    "url": "https://h.example/mcp",
                    "headers": {"Authorization": "Bearer ${KEY}"},
                }
            }
        ),
        gives={"a": "https://h.example/mcp"},
        env={"a": {"Authorization": f"Bearer {CANARY}"}},
    ),
    ConfigFile(
        "the older transport",
        of({"a": {"type": "sse", "url": "http://127.0.0.1:9/x"}}),
        gives={"a": "http://127.0.0.1:9/x"},
    ),
    ConfigFile(
        "no type and an address",
        of({"a": {"url": "https://h.example/sse"}}),
        gives={"a": "https://h.example/sse"},
    ),
    ConfigFile(
        "unknown members are left alone",
        of(
            {"a": {**RUN, "dev": {"watch": 1}, "description": "x", "preferences": [], "gallery": True}},
            note=1,
        ),
        gives={"a": ["run"]},
    ),
    ConfigFile(
        "a disabled server with nonsense in it",
        of({"a": {"disabled": True, "command": 7, "url": "x"}, "b": RUN, "c": {**RUN, "enabled": False}}),
        gives={"b": ["run"]},
        left_out={"a": "disabled", "c": "disabled"},
    ),
    ConfigFile(
        "variables, defaults, and an empty variable",
        of(
            {
                "a": {
                    **RUN,
                    "env": {
                        "A": "${KEY}",
                        "B": "${NONE:-x y}",
                        "C": "${EMPTY:-d}",
                        "D": "${env:PORT}",
                        "E": "${EMPTY}",
                    },
                }
            }
        ),
        gives={"a": ["run"]},
        env={"a": {"A": CANARY, "B": "x y", "C": "d", "D": "8080", "E": ""}},
    ),
    ConfigFile(
        "folders in every place",
        of(
            {
                "a": {
                    "command": "${workspaceFolder}/s.py",
                    "args": ["${workspaceFolder}/d", "${workspaceFolderBasename}"],
                    "cwd": "${workspaceFolder}/sub",
                }
            }
        ),
        gives={"a": ["{W}/s.py", "{W}/d", "{N}"]},
        cwd={"a": "sub"},
    ),
    ConfigFile(
        "a relative folder",
        of({"a": {**RUN, "cwd": "sub"}}),
        ".cursor/mcp.json",
        gives={"a": ["run"]},
        cwd={"a": "sub"},
    ),
    ConfigFile(
        "a file with variables",
        of({"a": {**RUN, "envFile": "${workspaceFolder}/.env", "env": {"B": "mine"}}}),
        gives={"a": ["run"]},
        env={"a": {"A": CANARY, "B": "mine", "C": "with # sign", "D": "plain"}},
        more=lambda w: write(w, ".env", f"# c\nexport A={CANARY}\nB=x\nC='with # sign'\n\nD=plain # c\n"),
    ),
    ConfigFile(
        "an input with a password",
        ask(PASSWORD, args=["--token", "${input:key}"]),
        gives={"a": ["run", "--token", CANARY]},
        typed=(CANARY,),
    ),
    ConfigFile(
        "a choice and a default",
        ask(
            {
                "id": "e",
                "type": "pickString",
                "description": "which",
                "options": ["one", {"label": "2", "value": "two"}],
            },
            {"id": "d", "type": "promptString", "default": "usual"},
            args=["${input:e}", "${input:d}"],
        ),
        gives={"a": ["run", "two", "usual"]},
        typed=("neither", "two", ""),
    ),
    ConfigFile(
        "numbers and flags without quotes",
        of({"a": {**RUN, "args": [1, 2.5], "env": {"P": 80, "F": True}}}),
        gives={"a": ["run", "1", "2.5"]},
        env={"a": {"P": "80", "F": "true"}},
    ),
    ConfigFile(
        "other names of types",
        of({"a": {"type": "streamableHttp", "url": "https://h.example/"}, "b": {**RUN, "type": "local"}}),
        gives={"a": "https://h.example/", "b": ["run"]},
    ),
    ConfigFile(
        "both chapters",
        json.dumps({"mcpServers": {"a": RUN}, "servers": {"b": RUN}}),
        gives={"a": ["run"], "b": ["run"]},
    ),
    ConfigFile("a byte order mark", b"\xef\xbb\xbf" + of({"a": RUN}).encode(), gives={"a": ["run"]}),
    ConfigFile("no server at all", of({}), gives={}),
    # --- with faults ---
    ConfigFile(
        "a key twice",
        '{"mcpServers": {"a": {"command": "run"}, "a": {"command": "other"}}}',
        fault="'a' stands twice",
    ),
    ConfigFile(
        "a secret under a key twice",
        f'{{"mcpServers": {{"a": {{"env": {{"K": "{CANARY}", "K": "x"}}}}}}}}',
        fault="'K' stands twice",
    ),
    ConfigFile("no JSON", f'{{"mcpServers": {{"a": {CANARY}}}}}', fault="line 1, column 22"),
    ConfigFile("10 MB", lambda: of({"a": {**RUN, "x": "y" * 10_000_000}}), fault="larger than 1 MiB"),
    ConfigFile("nested too deeply", '{"mcpServers": ' + '{"a":' * 5000 + "1" + "}" * 5001, fault="nested"),
    ConfigFile("no UTF-8", b'{"mcpServers": {"\xff": 1}}', fault="not UTF-8"),
    ConfigFile("a list", "[]", fault="must be a mapping"),
    ConfigFile(
        "a misspelt chapter", json.dumps({"mcpServer": {"a": RUN}}), fault="did you mean 'mcpServers'"
    ),
    ConfigFile("servers without a chapter", json.dumps({"git": RUN}), fault="put its servers into a mapping"),
    ConfigFile("servers in a list", json.dumps({"servers": [RUN]}), fault="not a list"),
    ConfigFile(
        "members of other types",
        of(
            {
                "a": {"command": ["run"]},
                "b": {**RUN, "args": "x"},
                "c": {**RUN, "args": [None]},
                "d": 3,
                "e": {**RUN, "env": []},
                "f": {},
                "g": {**RUN, "disabled": "no"},
                "h": {**RUN, "args": [True]},
            }
        ),
        left_out={
            "a": "text",
            "b": "list",
            "c": r"args[0]",
            "d": "mapping",
            "f": "missing",
            "g": "true or false",
            "h": "text",
        },
        gives={"e": ["run"]},
    ),
    ConfigFile(
        "an unknown type",
        of(
            {
                "a": {"type": "htpp", "url": "https://h.example"},
                "b": {"type": CANARY, "url": "https://h.example"},
                "c": RUN,
            }
        ),
        left_out={"a": "did you mean 'http'", "b": "not known"},
        gives={"c": ["run"]},
    ),
    # --- hostile ---
    ConfigFile(
        "a variable in an address",
        of(
            {
                "a": {"url": "https://evil.example/${KEY}"},
                "b": {"url": "https://${HOST:-h}/x"},
                "c": {"url": "https://h/${input:k}"},
            },
            inputs=[PASSWORD],
        ),
        left_out={"a": "an address takes no", "b": "an address takes no", "c": "an address takes no"},
    ),
    ConfigFile(
        "headers without encryption",
        of(
            {
                "a": {"type": "http", "url": "http://h.example/mcp", "headers": {"A": CANARY}},
                "b": {"type": "http", "url": "http://localhost:1/", "headers": {"A": "x"}},
            }
        ),
        left_out={"a": "not encrypted"},
        gives={"b": "http://localhost:1/"},
        env={"b": {"A": "x"}},
    ),
    ConfigFile(
        "a password in an address",
        of(
            {
                "a": {"url": f"https://ada:{CANARY}@h.example/"},
                "b": {"url": "ftp://h.example"},
                "c": {"url": "http://"},
            }
        ),
        left_out={"a": "user name or password", "b": "no URL", "c": "no URL"},
    ),
    ConfigFile(
        "variables where none are filled in",
        of(
            {
                "a": {"command": "${KEY}"},
                "b": {**RUN, "cwd": "${KEY}"},
                "c": {**RUN, "envFile": "${KEY}"},
                "d": {**RUN, "args": ["${A${KEY}}"]},
                "e": {**RUN, "args": ["${KEY"]},
                "f": {**RUN, "args": ["${command:x}"]},
                "g": {**RUN, "args": ["${NONE}"]},
            }
        ),
        left_out={
            "a": "takes no variables",
            "b": "takes no variables",
            "c": "takes no variables",
            "d": "within another",
            "e": "without }",
            "f": "not known",
            "g": "the variable NONE, which is not set",
        },
    ),
    ConfigFile(
        "values that look like expressions again",
        of(
            {
                "a": {**RUN, "args": ["${LOOP}", "${input:key}"]},
                "b": {"type": "http", "url": "https://h.example", "headers": {"A": "${LOOP}"}},
            },
            inputs=[{**PASSWORD, "default": "${input:key}${KEY}"}],
        ),
        gives={"a": ["run", "${KEY}", "${input:key}${KEY}"], "b": "https://h.example"},
        env={"b": {"A": "${KEY}"}},
        typed=("",),
    ),
    ConfigFile(
        "inputs that cannot be asked for",
        of(
            {
                name: {**RUN, "args": [f"${{input:{name}}}"]}
                for name in ("gone", "cmd", "empty", "odd", "two")
            },
            inputs=[
                {"id": "cmd", "type": "command", "command": CANARY},
                {"id": "empty", "type": "pickString"},
                {"id": "odd", "default": 7},
                {"id": "two"},
                {"id": "two"},
                5,
            ],
        ),
        left_out={
            "gone": "no input 'gone'",
            "cmd": "type is not known",
            "empty": "no options",
            "odd": "must be text",
            "two": "twice",
        },
    ),
    ConfigFile(
        "files with variables that may not be read",
        of(
            {
                name: {**RUN, "envFile": path}
                for name, path in {
                    "open": "open.env",
                    "link": ".env",
                    "up": "../x.env",
                    "abs": "/etc/hostname",
                    "none": "none.env",
                    "pipe": "pipe",
                    "sick": "sick.env",
                    "up2": "a/../../x.env",
                }.items()
            }
        ),
        left_out={
            "open": "chmod 600",
            "link": "a link",
            "up": "outside",
            "abs": "outside",
            "none": "No such file",
            "pipe": "no plain file",
            "sick": "line 2",
            "up2": "outside",
        },
        more=lambda w: (
            link_file(w),
            write(w, "open.env", f"A={CANARY}", 0o644),
            os.mkfifo(w / "pipe", 0o600),
            write(w, "sick.env", f"A=1\n{CANARY}\n"),
        ),
    ),
    ConfigFile(
        "a folder of a file with variables that is a link",
        of({"a": {**RUN, "envFile": "linked/.env"}}),
        left_out={"a": "a link"},
        more=link_folder,
    ),
    ConfigFile(
        "names that move the cursor, and names of no variable",
        of(
            {
                "a\u202e\x1b[2J\n": {**RUN, "env": {"A=B": "x"}},
                "b": {**RUN, "env": {"A": "x\0y"}},
                "c": {**RUN, "args": ["x\0"]},
                "d": {**RUN, "args": ["\ud800"]},
            }
        ),
        left_out={
            "a\u202e\x1b[2J\n": "no environment variable",
            "b": "no environment variable",
            "c": "no argument",
            "d": "half of a character",
        },
    ),
    ConfigFile(
        "a command that nobody could read, and one in one text",
        of(
            {
                "a": {**RUN, "args": ["x" * 9000]},
                "c": {**RUN, "env": {f"N{n}" * 30: "x" for n in range(99)}},
                "d": {**RUN, "env": {f"N{n}": f"${{M{n}:-x}}" * 40 for n in range(99)}},
                "e": {"url": "https://h.example/ x"},
                "b": {"command": f"npx -y pack --token {CANARY}"},
            }
        ),
        left_out={
            "c": "could read them",
            "d": "could read them",
            "e": "URL",
            "a": "nobody could read it",
            "b": "its arguments stand in args",
        },
    ),
]
