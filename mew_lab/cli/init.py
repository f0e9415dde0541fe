"""`mew-lab init`: makes the space of a folder from a template, shows what it starts, and starts it in the background.

Templates are `demo`, `coder` and `notebook` (starters.py), or a template folder of other implementations
(settings/space_templates.py), which goes into `.mew` as there. No file is replaced, and nothing is written before a
person has seen and allowed each command.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from mew_lab.cli import shell
from mew_lab.cli.background import (
    SPACE_FILE,
    BackgroundSpace,
    allow_programs,
    check_free,
    program_lines,
    start_space,
)
from mew_lab.cli.starters import STARTERS, model_lines
from mew_lab.errors import ConfigError
from mew_lab.gateway.space_file import SpaceFile, parse_space_file
from mew_lab.lab.folder_space import NoSpaceHere, check_private
from mew_lab.protocol.filename import is_space_id
from mew_lab.protocol.visible import one_line, visible
from mew_lab.settings.faults import did_you_mean
from mew_lab.settings.space_templates import (
    TemplateVariable,
    fill_places,
    find_places,
    read_space_template,
)
from mew_lab.transport.folder import KEPT, hide, open_below, open_folder

__all__ = ["add_options", "run"]

DEFAULT = "demo"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class NewSpace(NamedTuple):
    """What is to be written: the space, all files by their paths, whether each may be executed, and folders."""

    file: SpaceFile
    files: Mapping[Path, tuple[bytes, bool]]
    folders: tuple[Path, ...]
    next_lines: tuple[str, ...] = ()
    by_hand: str = ""
    """A command that a person must run before the space starts; empty for none."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    named = "; ".join(f"{name}: {starter.about}" for name, starter in STARTERS.items())
    parser.add_argument(
        "template",
        metavar="TEMPLATE",
        nargs="?",
        default=DEFAULT,
        help=f"{named}; or the path of a template folder; default: {DEFAULT}",
    )
    about = "the folder of the space, which is made where it is missing; default: the current one"
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help=about)
    about = "sets a variable of the template, such as SPACE_NAME or MODEL; may be repeated"
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=about)
    about = "writes the files and starts the programs without a question; both are shown all the same"
    parser.add_argument("--yes", action="store_true", help=about)
    parser.add_argument("--no-up", action="store_true", help="writes the files, and starts nothing")


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: The template or a value cannot be used, a file is there already, or the space cannot be started.
    """
    folder = (options.dir or Path.cwd()).absolute()
    _check_folder(folder)
    given = _read_given(options.set)
    asks = not options.yes and sys.stdin.isatty()
    if options.template in STARTERS:
        new = _make_starter(options.template, folder, given)
    else:
        new = _make_from_folder(options.template, folder, given, asks=asks)
    _check_new(new)
    starts = not options.no_up and not new.by_hand
    if starts:
        _check_commands(new.file)
    _show(new, folder)
    if program_lines(new.file) and not options.yes:
        if not asks:
            raise ConfigError(
                "Nothing was written: nobody can be asked here; read the commands, then add --yes",
                key="--yes",
            )
        if not shell.ask_yes_or_no("Write and start all this?" if starts else "Write all this?"):
            raise ConfigError("Nothing was written, and nothing was started")
    _write(new, folder)
    if new.by_hand:
        shell.say(f"before it starts: {new.by_hand}")
    if starts:
        allow_programs(new.file, is_allowed=True, is_shown=True)
        start_space(BackgroundSpace(new.file.folder, new.file.config.name, new.file))
    else:
        shell.say("mew-lab up starts it")
    for line in new.next_lines:
        shell.say(line)


def _check_folder(folder: Path) -> None:
    """Checks that a space can be made in a folder.

    Raises:
        ConfigError: It is no folder, its `.mew` is not private, or a space is there or runs there.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise ConfigError(f"Cannot make a space in {folder}: it is no folder", path=str(folder))
    check_free(folder)
    with contextlib.suppress(NoSpaceHere):
        check_private(folder)
    for path in (folder / SPACE_FILE, folder / KEPT / SPACE_FILE):
        if os.path.lexists(path):
            raise ConfigError(
                f"{folder} has a space already: {path} is there, and stays as it is; mew-lab up starts it",
                path=str(path),
            )


def _read_given(words: Iterable[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set takes NAME=VALUE, and not {one_line(word, 80)!r}", key="--set")
        given[name] = value
    return given


# --- values ------------------------------------------------------------------------------------------------------


def _collect(
    variables: Iterable[TemplateVariable],
    given: Mapping[str, str],
    folder: Path,
    *,
    needed: Iterable[str] | None = None,
    asks: bool = False,
) -> dict[str, str]:
    """The value of each variable: as given, else of the environment, else as a person types it, else its default.

    Args:
        needed: The names of those without which the template cannot be filled; None for all.

    Raises:
        ConfigError: A given name is no variable, a secret is given, or a value is missing; names all that are.
    """
    known = {variable.name: variable for variable in variables}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
            raise ConfigError(f"The template has no variable {one_line(name, 80)!r}; {hint}", key="--set")
        if known[name].is_secret:
            help = f"; set the environment variable {known[name].sources[0]}" if known[name].sources else ""
            raise ConfigError(
                f"{name} is a secret, and every user of this computer can read a command line{help}",
                key="--set",
            )
    values: dict[str, str] = {}
    missing: list[str] = []
    wanted = known.keys() if needed is None else {*needed, *(name.removesuffix("_JSON") for name in needed)}
    for name, variable in known.items():
        value = given.get(name)
        if value is None and variable.is_secret:
            value = f"${{{variable.sources[0]}}}" if variable.sources else None
        elif value is None:
            value = next((os.environ[source] for source in variable.sources if os.environ.get(source)), None)
            value = _fill_default(variable.default, folder) if value is None else value
            if asks and variable.is_asked:
                shown = f" [{one_line(value, 80)}]" if value else ""
                question = f"{one_line(variable.about, 200) or name}{shown}: "
                with contextlib.suppress(EOFError):
                    value = input(question) or value
        if value is not None:
            values[name] = value
        elif name in wanted:
            missing.append(name)
    if missing:
        options = " ".join(f"--set {name}=…" for name in missing if not known[name].is_secret)
        help = f"give it: {options}" if options else "the template must name an environment variable for it"
        raise ConfigError(f"The template needs a value for {', '.join(missing)}; {help}", key="--set")
    return values


def _fill_default(default: str | None, folder: Path) -> str | None:
    """A default with its places filled; None where there is none, or an environment variable in it is not set."""
    if default is None:
        return None
    user = os.environ.get("USER") or os.environ.get("USERNAME") or "user"
    places = {"dirname": folder.name or "space", "username": user, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    filled = re.sub(r"\$\{(dirname|username|date)\}", lambda place: places[place[1]], default)
    if filled == default and default.startswith("${") and default.endswith("}"):
        return os.environ.get(default[2:-1])
    return filled


# --- templates ---------------------------------------------------------------------------------------------------


def _make_starter(name: str, folder: Path, given: Mapping[str, str]) -> NewSpace:
    starter = STARTERS[name]
    values = _collect(starter.variables, given, folder)
    starter.check()
    texts = starter.make(values)
    lines = [f"then say, in mew-lab join: @{starter.agent} {starter.ask}"]
    if not values["MODEL"]:
        settings = f"{starter.agent}.yaml"
        lines += [
            f"{starter.agent} thinks with the offline model: rules, no language model. For a model, write three lines "
            f"into {settings}, then mew-lab down and mew-lab up:",
            *(f"  {line}" for line in model_lines("NAME", values["BASE_URL"])),
        ]
    elif not os.environ.get("OPENAI_API_KEY"):
        lines.append("OPENAI_API_KEY is not set; a server that wants a key refuses its requests until it is")
    if not is_space_id(values["SPACE_NAME"]):
        raise ConfigError(
            f"{one_line(values['SPACE_NAME'], 80)!r} cannot be a space's name: 1 to 128 characters without control "
            "characters; give another one with --set SPACE_NAME=NAME",
            key="--set",
        )
    file = parse_space_file(texts[SPACE_FILE], path=folder / SPACE_FILE)
    files = {folder / path: (text.encode(), False) for path, text in texts.items()}
    return NewSpace(file, files, tuple(folder / path for path in starter.folders), tuple(lines))


def _make_from_folder(template: str, folder: Path, given: Mapping[str, str], *, asks: bool) -> NewSpace:
    path = Path(template).absolute()
    if not path.is_dir():
        hint = (
            did_you_mean(template, STARTERS)
            or f"take {', '.join(STARTERS)}, or the path of a template folder"
        )
        raise ConfigError(f"There is no template {one_line(template, 200)!r}; {hint}", key="template")
    found = read_space_template(path)
    needed = find_places(found.space)
    values = _collect(found.variables, given, folder, needed=needed, asks=asks)
    kept = folder / KEPT
    text = fill_places(found.space, values, path=str(path / SPACE_FILE))
    files = {kept / SPACE_FILE: (text.encode("utf-8", "replace"), False)}
    files |= {kept / name: content for name, content in found.files.items()}
    by_hand = f"npm install --prefix {shlex.quote(str(kept))}" if kept / "package.json" in files else ""
    file = parse_space_file(text, path=kept / SPACE_FILE)
    return NewSpace(file, files, (), (), by_hand)


# --- what is written and started ---------------------------------------------------------------------------------


def _check_new(new: NewSpace) -> None:
    """Checks that nothing stands where something would be written.

    Raises:
        ConfigError: Something does; it names the first.
    """
    for path in (*new.files, *new.folders):
        if os.path.lexists(path):
            raise ConfigError(
                f"{path} is there already, and stays as it is; nothing was written", path=str(path)
            )


def _check_commands(file: SpaceFile) -> None:
    """Checks that the commands of the programs can be found.

    Raises:
        ConfigError: One cannot.
    """
    missing: dict[str, list[str]] = {}
    for name, words in file.commands.items():
        server = file.config.participants[name].mcp_server
        is_started = words[0] != "python" and not (server is not None and server.url)
        if is_started and shutil.which(words[0]) is None:
            missing.setdefault(words[0], []).append(name)
    if missing:
        command, names = next(iter(missing.items()))
        help = "install Node.js, which brings it" if command in ("npx", "node", "npm") else "install it"
        raise ConfigError(
            f"Nothing was written: {one_line(command, 80)!r}, which runs {', '.join(names)}, is not on PATH; {help}, or "
            "add --no-up to write the files alone",
            key=names[0],
        )


def _show(new: NewSpace, folder: Path) -> None:
    """Prints the files that will be written, and the programs that the space starts."""
    names = [visible(str(path.relative_to(folder))) for path in new.files]
    shell.say(f"writes in {visible(str(folder))}: {', '.join(names)}")
    for remark in new.file.remarks:
        shell.say(f"note: {remark}")
    if lines := program_lines(new.file):
        shell.say("\n".join(["its programs, which run in your name:", *(f"  {line}" for line in lines)]))


def _write(new: NewSpace, folder: Path) -> None:
    """Writes all files, or none.

    Raises:
        ConfigError: One cannot be written, or is there already.
    """
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(KEPT in path.relative_to(folder).parts for path in new.files):
            if (made := open_folder(folder / KEPT, make=True)) is not None:
                os.close(made)
            hide(folder / KEPT)
        for path in new.folders:
            path.mkdir()
            written.append(path)
        for path, (data, is_program) in new.files.items():
            private = KEPT in path.relative_to(folder).parts
            mode = (0o600 if private else 0o644) | (0o100 if is_program else 0)
            descriptor = open_below(path, _NEW, mode, make=True)
            written.append(path)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
    except OSError as fault:
        for path in reversed(written):
            with contextlib.suppress(OSError):
                path.rmdir() if path in new.folders else path.unlink()
        where = fault.filename or folder
        raise ConfigError(
            f"Nothing was written: {where}: {fault.strerror or fault}", path=str(where)
        ) from None
