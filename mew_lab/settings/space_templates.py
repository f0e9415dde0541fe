"""Reads template folders of spaces, and fills their variables in.

A template folder has a `space.yaml` with places such as `{{SPACE_NAME}}`, a `template.json` with the variables, and
programs in `agents/`; other implementations have such folders. `{{NAME_JSON}}` stands for the value as a JSON text.

A value may hold anything: a name of a folder, what a person typed, a variable of the environment. It stays a value: the
filled file reads as the template does, with the places filled in its texts (`fill_places`).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.settings.documents import MAX_FILE, is_file, read_document, read_file, read_jsonc, write_yaml
from mew_lab.settings.faults import printable

__all__ = ["SpaceTemplate", "TemplateVariable", "fill_places", "find_places", "read_space_template"]

MOST_FILES = 200  # in agents/
MOST_VARIABLES = 200
COPIED = ("package.json", "package-lock.json")
_PLACE = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_JSON = "_JSON"


class TemplateVariable(NamedTuple):
    """A variable of a template.

    Attributes:
        default: The text where nobody gives one, with `${dirname}`, `${username}`, `${date}` or `${NAME}` of the
            environment in it; None where one must be given.
        sources: The environment variables that give it, the first that is set.
        is_asked: Whether a person is asked for it.
        is_secret: Whether it is never written: the file then names the environment variable.
    """

    name: str
    about: str = ""
    default: str | None = ""
    sources: tuple[str, ...] = ()
    is_asked: bool = False
    is_secret: bool = False


class SpaceTemplate(NamedTuple):
    """A template folder: its space.yaml as text, its variables, and further files by their paths below the folder."""

    path: Path
    about: str
    space: str
    variables: tuple[TemplateVariable, ...]
    files: Mapping[PurePosixPath, tuple[bytes, bool]]
    """The content of each, and whether it may be executed."""


# Those that every template may use.
COMMON = (
    TemplateVariable("SPACE_NAME", "the name of the space", "${dirname}"),
    TemplateVariable("UI_THEME", "a theme of other programs"),
)


def read_space_template(path: Path) -> SpaceTemplate:
    """The template in a folder.

    Raises:
        ConfigError: There is none, or a part of it cannot be used.
    """
    space = read_file(path / "space.yaml", what="space file of the template")
    described: Any = {}
    if os.path.lexists(path / "template.json"):
        text = read_file(path / "template.json", what="description of the template")
        described = read_jsonc(text, path=printable(str(path / "template.json"), 300))
    variables = _read_variables(described, path / "template.json")
    about = described.get("description")
    return SpaceTemplate(path, about if isinstance(about, str) else "", space, variables, _read_files(path))


def _read_variables(described: Any, path: Path) -> tuple[TemplateVariable, ...]:
    def fault(problem: str, key: str) -> ConfigError:
        return ConfigError(f"{printable(str(path), 300)}: {key} {problem}", path=str(path), key=key)

    if not isinstance(described, dict):
        raise fault("must be a mapping, with the variables of the template", "its content")
    listed = described.get("variables", [])
    if not isinstance(listed, list) or len(listed) > MOST_VARIABLES:
        raise fault(f"must be a list of at most {MOST_VARIABLES}", "variables")
    variables = {variable.name: variable for variable in COMMON}
    for at, member in enumerate(listed):
        key = f"variables[{at}]"
        if not isinstance(member, dict) or not isinstance(name := member.get("name"), str):
            raise fault("must be a mapping with a name", key)
        if not _NAME.fullmatch(name):
            raise fault("must be of letters, digits and _", f"{key}.name")
        default = member.get("default")
        if isinstance(default, (int, float)):
            default = json.dumps(default)
        sources = member.get("env_sources", [])
        if not (default is None or isinstance(default, str)) or not (
            isinstance(sources, list)
            and all(isinstance(one, str) and _NAME.fullmatch(one) for one in sources)
        ):
            raise fault("must have a text as default and a list of names as env_sources", key)
        if not default and member.get("required") is True:
            default = None
        elif default is None and member.get("required") is False:
            default = ""
        about = member.get("description")
        variables[name] = TemplateVariable(
            name,
            about if isinstance(about, str) else "",
            default,
            tuple(sources),
            member.get("prompt") is True,
            member.get("sensitive") is True,
        )
    return tuple(variables.values())


def _read_files(path: Path) -> dict[PurePosixPath, tuple[bytes, bool]]:
    found: dict[PurePosixPath, tuple[bytes, bool]] = {}
    names = [PurePosixPath(name) for name in COPIED if os.path.lexists(path / name)]
    waiting = [PurePosixPath("agents")] if os.path.lexists(path / "agents") else []
    while waiting:
        folder = waiting.pop()
        if (path / folder).is_symlink() or not (path / folder).is_dir():
            raise _not_copied(path / folder, "it is a link or no folder")
        for entry in sorted(os.scandir(path / folder), key=lambda entry: entry.name):
            (waiting if entry.is_dir(follow_symlinks=False) else names).append(folder / entry.name)
            if len(names) + len(waiting) > MOST_FILES:
                raise _not_copied(path / folder, f"it has more than {MOST_FILES} files")
    for name in names:
        if (path / name).is_symlink() or not is_file(path / name):
            raise _not_copied(path / name, "it is a link or no plain file")
        try:
            with (path / name).open("rb") as file:
                data = file.read(MAX_FILE + 1)
            mode = (path / name).stat().st_mode
        except OSError as fault:
            raise _not_copied(path / name, fault.strerror or "it cannot be read") from None
        if len(data) > MAX_FILE:
            raise _not_copied(path / name, f"it is larger than {MAX_FILE >> 20} MiB")
        found[name] = (data, bool(mode & stat.S_IXUSR))
    return found


def _not_copied(path: Path, why: str) -> ConfigError:
    return ConfigError(f"The template's {printable(str(path), 300)} is not copied: {why}", path=str(path))


# --- filling ------------------------------------------------------------------------------------------------------


def find_places(text: str) -> list[str]:
    """The names of the variables that a text has places for, each once."""
    return list(dict.fromkeys(_PLACE.findall(text)))


class _Whole(str):
    """A value that is the whole of a scalar."""


def fill_places(text: str, values: Mapping[str, str], *, path: str) -> str:
    """A YAML text with its places filled, with its comments where the values allow that.

    Args:
        values: The value of each variable; `NAME_JSON` is made of that of `NAME`.
        path: The source of the text, for errors.

    Raises:
        ConfigError: A place names no variable, or the text cannot be read.
    """
    texts = {f"{name}{_JSON}": json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    known = texts | dict(values)
    if missing := [name for name in find_places(text) if name not in known]:
        raise ConfigError(
            f"{path} has places for {', '.join(missing)}, which the template does not define", path=path
        )
    # The document is read with a word in each place, which means the same wherever it stands. What the values then make
    # of it is what is meant; the text with the values in it is taken only where it means just that.
    marks = {f"place{secrets.token_hex(12)}": name for name in find_places(text)}
    by_name = {name: mark for mark, name in marks.items()}
    meant = _fill(
        read_document(_PLACE.sub(lambda place: by_name[place[1]], text), path=path),
        {mark: known[name] for mark, name in marks.items()},
    )
    # A JSON text mostly stands in single quotes, where YAML wants each of its own twice.
    quoted = {name: text.replace("'", "''") for name, text in texts.items()} | dict(values)
    for written in (known, quoted):
        plain = _PLACE.sub(lambda place, written=written: written[place[1]], text)  # type: ignore[misc]
        try:
            if _is_same(read_document(plain, path=path), meant):
                return plain
        except ConfigError:
            pass
    return write_yaml(json.loads(json.dumps(meant)))


def _fill(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        if value in words:
            return _Whole(words[value])
        return re.sub("|".join(words), lambda mark: words[mark[0]], value) if words else value
    if isinstance(value, dict):
        return {str(_fill(key, words)): _fill(inner, words) for key, inner in value.items()}
    return [_fill(inner, words) for inner in value] if isinstance(value, list) else value


def _is_same(value: Any, meant: Any) -> bool:
    """Whether a document is the one that is meant; a place that is a whole scalar may be a number or nothing now."""
    if isinstance(meant, _Whole) and (value is None or isinstance(value, (bool, int, float))):
        return meant == ("" if value is None else json.dumps(value))
    if isinstance(meant, str):
        return isinstance(value, str) and value == meant
    if type(value) is not type(meant):
        return False
    if isinstance(meant, dict):
        return list(value) == list(meant) and all(_is_same(value[key], meant[key]) for key in meant)
    if isinstance(meant, list):
        return len(value) == len(meant) and all(map(_is_same, value, meant))
    return bool(value == meant)
