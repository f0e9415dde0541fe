"""Selects the environment of a started program, and fills in `${NAME}` in settings.

`fill_variables` and `fill_settings` know `${NAME}` alone. `Expression` has what stands between `${` and `}` in the files
of MCP clients: `NAME`, `NAME:-default`, `env:NAME`, `input:id` and the names of folders.

A started program gets only the variables that are named here and those in its configuration. It also names the folder
in which programs of this user keep what outlives them. This module starts nothing and reads no file.

Spec: threat 28, api.md (environment and folder of a bridge).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.settings.faults import place

__all__ = [
    "INHERITED",
    "Expression",
    "cache_folder",
    "fill_expressions",
    "fill_settings",
    "fill_variables",
    "find_expressions",
    "inherited_environment",
    "state_folder",
    "unset_variables",
]

INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def inherited_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that every started program gets: paths, home, language and the folder of scratch files."""
    return {name: environ[name] for name in INHERITED if name in environ}


def state_folder(*, outside: Iterable[Path] = (), environ: Mapping[str, str] = os.environ) -> Path | None:
    """The user's folder for state that outlives a process, such as `~/.local/state/mew-lab`; it may not exist yet.

    Args:
        outside: folders to which others have access, such as the roots of a bridged server.

    Returns:
        None where the folder would lie within one of `outside`, or the user has no home.
    """
    try:
        base = _base_folder("XDG_STATE_HOME", ".local/state", "Application Support", environ)
        folder = (base / "mew-lab").resolve()
        is_within = any(folder.is_relative_to(Path(shared).resolve()) for shared in outside)
    except (OSError, RuntimeError):  # no home, or a link that leads to itself
        return None
    return None if is_within else folder


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The user's folder for what can be made again, such as `~/.cache/mew-lab`; None where the user has no home."""
    try:
        return (_base_folder("XDG_CACHE_HOME", ".cache", "Caches", environ) / "mew-lab").resolve()
    except (OSError, RuntimeError):  # no home, or a link that leads to itself
        return None


def _base_folder(variable: str, usual: str, on_darwin: str, environ: Mapping[str, str]) -> Path:
    stated, windows = Path(environ.get(variable, "")), Path(environ.get("LOCALAPPDATA", ""))
    if stated.is_absolute():
        return stated
    if os.name == "nt" and windows.is_absolute():
        return windows
    if sys.platform == "darwin":
        return Path.home() / "Library" / on_darwin
    return Path.home() / usual


def fill_variables(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """`text` with each `${NAME}` replaced once by that variable; that of an unset variable stays."""
    return _VARIABLE.sub(lambda match: environ.get(match[1], match[0]), text)


def unset_variables(text: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The names of the unset variables that `text` uses, each once."""
    return list(dict.fromkeys(name for name in _VARIABLE.findall(text) if name not in environ))


def fill_settings(value: Any, environ: Mapping[str, str] = os.environ, *, key: str, source: str = "") -> Any:
    """A setting with the variables in all its strings replaced, also within lists and mappings.

    Args:
        value: the value of the setting, of any type.
        environ: the variables.
        key: the key path of the value, for errors.
        source: the file or variable that the value is from, for errors.

    Raises:
        ConfigError: a variable is not set; it names the key path and the variable, and shows no value.
    """
    if isinstance(value, str):
        if missing := unset_variables(value, environ):
            where = f"{source}: {key}" if source else key
            message = f"{where} asks for the variable {missing[0]}, which is not set; set it"
            raise ConfigError(message, path=source, key=key)
        return fill_variables(value, environ)
    if isinstance(value, dict):
        return {
            name: fill_settings(inner, environ, key=place(key, name), source=source)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [
            fill_settings(inner, environ, key=place(key, at), source=source) for at, inner in enumerate(value)
        ]
    return value


# --- the expressions of MCP clients -------------------------------------------------------------------------------

FOLDERS = ("workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/")
_EXPRESSION = re.compile(r"\$\{([^{}$]*)\}")
_NAMED = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Expression(NamedTuple):
    """What `${…}` stands for: an environment variable, the answer to an input, or a folder.

    `default` is what an unset or empty variable gives; None where there is none.
    """

    kind: Literal["variable", "input", "folder"]
    name: str
    default: str | None = None


def find_expressions(text: str) -> list[Expression]:
    """The expressions in a text, in their order.

    Raises:
        ValueError: one of them is none that is known; the message quotes nothing of it.
    """
    found = [_read_expression(match[1]) for match in _EXPRESSION.finditer(text)]
    if "${" in _EXPRESSION.sub("", text):
        raise ValueError("it has ${ without }, or one expression within another")
    return found


def fill_expressions(text: str, value_of: Callable[[Expression], str]) -> str:
    """The text with each expression replaced once; a value is not read again. Raises as `find_expressions`."""
    find_expressions(text)
    return _EXPRESSION.sub(lambda match: value_of(_read_expression(match[1])), text)


def _read_expression(inner: str) -> Expression:
    if inner in FOLDERS:
        return Expression("folder", inner)
    if inner.startswith("input:") and len(inner) > len("input:"):
        return Expression("input", inner.removeprefix("input:"))
    if (named := _NAMED.fullmatch(inner)) is not None:
        return Expression("variable", named[1], named[2])
    raise ValueError(
        "it has an expression that is not known; known are ${NAME}, ${NAME:-default}, ${env:NAME}, ${input:id}, "
        + ", ".join(f"${{{name}}}" for name in FOLDERS)
    )
