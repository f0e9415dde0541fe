"""`mew-lab serve`: runs one or more spaces without a human interface, until a signal ends it.

The functions that serve print by `say` and end when `ended` is set; `run` passes the options and signals of a shell.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from mew_lab.cli import shell
from mew_lab.errors import ConfigError
from mew_lab.gateway.keyring import variable
from mew_lab.gateway.space_file import SpaceFile, read_space_file
from mew_lab.lab.config_bridges import ConfigBridges, admit_file
from mew_lab.lab.host import Host, join_line
from mew_lab.lab.resuming import Past
from mew_lab.log.journal import journal_path
from mew_lab.protocol.visible import one_line

__all__ = ["add_options", "run", "serve", "serve_again", "serve_files"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LEVELS = ("debug", "info", "warning", "error")

Say = Callable[[str], object]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    parser.set_defaults(run=run)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--space", default="demo", metavar="NAME", help="the name of the space; default: demo")
    about = (
        "a space.yaml that describes a space and its participants; repeat it for several spaces on one port"
    )
    what.add_argument("--space-config", type=Path, metavar="FILE", action="append", help=about)
    about = "the journal of a space that ran before and is to be resumed"
    what.add_argument("--resume", type=Path, metavar="FILE", help=about)
    about = "with ignore, a journal is resumed for which the heads that were kept elsewhere do not vouch"
    parser.add_argument("--heads", choices=("check", "ignore"), default="check", help=about)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        choices=LOOPBACK,
        help="the loopback address to listen on; default: 127.0.0.1",
    )
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port; default: a free one")
    about = "the participant that owns the space; default: human, or the owner in the space.yaml"
    parser.add_argument("--as", dest="as_id", metavar="ID", help=about)
    about = "does not start the agents and bridges of the space.yaml"
    parser.add_argument("--no-auto-start", action="store_true", help=about)
    profiles = "human, proposer, agent, tool, observer or admin; default: agent"
    about = f"enrols another participant as {profiles}; may be repeated"
    parser.add_argument("--enrol", action="append", default=[], metavar="ID=PROFILE", help=about)
    shell.add_mcp_config(parser)
    parser.add_argument(
        "--journal", type=Path, metavar="PATH", help="the journal file; default: a new one below .mew"
    )
    parser.add_argument(
        "--log-level", default="warning", choices=LEVELS, help="the lowest level of the log on stderr"
    )


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: As the functions below.
    """
    if options.heads != "check" and options.resume is None:
        raise ConfigError(
            "--heads concerns a journal that is resumed; add --resume FILE, or leave it out", key="heads"
        )
    enrolled = [
        (name, profile or "agent") for name, _, profile in (option.partition("=") for option in options.enrol)
    ]
    bridges: ConfigBridges | None = None
    if options.mcp_config is not None:
        if len(options.space_config or ()) > 1:
            raise ConfigError(
                "--mcp-config is for one space, and several files are given; leave it out", key="--mcp-config"
            )
        bridges = _admit(options.mcp_config, options.trust_config)
    more: dict[str, Any] = {
        "enrolled": enrolled,
        "bridges": bridges,
        "journal": options.resume or options.journal,
        "host": options.host,
        "port": options.port,
        "say": shell.say,
    }

    async def work() -> None:
        ended = shell.end_on_signal()
        if options.resume is not None:
            await serve_again(ended=ended, heads=options.heads, **more)
        elif options.space_config is None:
            owner = options.as_id or "human"
            await serve(options.space, owner=owner, folder=Path.cwd(), ended=ended, **more)
        else:
            files = [read_space_file(path) for path in options.space_config]
            await serve_files(
                files, person=options.as_id, auto_start=not options.no_auto_start, ended=ended, **more
            )

    # The objects loaded by now stay: a full collection over all of them would stop every connection for 20 ms.
    gc.collect()
    gc.freeze()
    with shell.new_runner() as runner:
        runner.run(work())


def _admit(file: Path, trusted: Sequence[str]) -> ConfigBridges:
    """The servers of a file that may be started; tells of the others."""
    admitted, left_out = admit_file(file, trusted=trusted)
    for name, why in left_out.items():
        shell.warn(f"{one_line(name, 80)} is left out: {why}")
    return ConfigBridges(admitted, say=shell.say)


async def serve(
    name: str,
    *,
    owner: str,
    enrolled: Iterable[tuple[str, str]],
    folder: Path,
    journal: Path | None,
    host: str,
    port: int,
    bridges: ConfigBridges | None = None,
    say: Say,
    ended: asyncio.Event,
) -> None:
    """Serves a space; prints its address, its journal, and the shell line that joins as each participant.

    Args:
        enrolled: Participants besides the owner, each with its profile.
        folder: The folder for the token files and, unless `journal` names a file, the journal.
        bridges: MCP servers that take part while the space is served.

    Raises:
        MewError: The space cannot be opened, the port is not free, or the journal cannot be created.
    """
    path = journal or journal_path(folder, space=name, now=datetime.now(UTC))
    space_host = Host(name, folder=folder, journal=path, host=host, port=port)

    async def open_() -> list[str]:
        await space_host.open(owner=owner, can="human")
        return [owner]

    await _serve(space_host, path, open_, enrolled=enrolled, bridges=bridges, say=say, ended=ended)


async def serve_files(
    files: Sequence[SpaceFile],
    *,
    person: str | None = None,
    enrolled: Iterable[tuple[str, str]] = (),
    journal: Path | None = None,
    host: str,
    port: int,
    auto_start: bool = True,
    bridges: ConfigBridges | None = None,
    say: Say,
    ended: asyncio.Event,
) -> None:
    """Serves the spaces of files on one port, with their programs; prints of each the same as `serve`.

    Each space has its own journal, tokens, logs and programs; none of them shows in another space.

    Args:
        person: The owner of a space whose file names none; None: its default participant, or no owner.
        enrolled: Participants besides those of the file, each with its profile; for a single file only.
        journal: The journal file; for a single file only.
        auto_start: Whether to start the programs of the files.
        bridges: MCP servers that take part while the space is served; for a single file only.

    Raises:
        MewError: A space cannot be opened, two cannot share a port, the port is not free, or a journal cannot be
            created.
    """
    enrolled = list(enrolled)
    if len(files) > 1:
        _check_together(files, alone={"--journal": journal, "--enrol": enrolled})
    first: Host | None = None
    hosts: list[Host] = []
    journals: list[Path] = []
    folders = [file.logs.resolve() for file in files]
    try:
        for at, file in enumerate(files):
            path = journal_path(file.folder, space=file.config.name, now=datetime.now(UTC))
            # Two spaces of one folder would write into one log, so the second has a folder named after its journals.
            logs = path.parent.name if folders[at] in folders[:at] else ""
            journals.append(journal or path)
            space_host = Host(
                file.config.name,
                folder=file.folder,
                journal=journals[at],
                host=host,
                port=port,
                beside=first,
                logs=logs,
            )
            first = first or space_host
            hosts.append(space_host)
        # The first host, which opens the port, is opened last: all spaces exist by then.
        for file, space_host in reversed([*zip(files, hosts, strict=True)]):
            for remark in file.remarks:
                say(f"note: {remark}")
            owner = person or file.config.default_participant
            await space_host.open_file(file, person=owner, fault=say)
            for remark in space_host.remarks():
                say(f"note: {remark}")
        for participant, profile in enrolled:
            hosts[0].enrol(participant, profile)
        lines: list[str] = []
        for space_host, path in zip(hosts, journals, strict=True):
            more = [name for name, _ in enrolled if name not in space_host.keys]
            lines += _addresses(space_host, path, [*space_host.keys, *more])
        for line in lines:
            say(line)
        for file, space_host in zip(files, hosts, strict=True):
            if auto_start:
                await space_host.start_programs(file, tell=say, fault=say)
        if bridges is not None:
            bridges.start(hosts[0], owner=person or files[0].config.owner or next(iter(hosts[0].keys), ""))
        await ended.wait()
    finally:
        if bridges is not None:
            await bridges.stop()
        if first is not None:
            await first.close()
    for space_host, path in zip(hosts, journals, strict=True):
        say(f"space {space_host.name} is down; the journal stays in {path}")


def _check_together(files: Sequence[SpaceFile], *, alone: Mapping[str, object]) -> None:
    """Checks that the spaces can share a port, and that no option for a single space is set.

    Raises:
        ConfigError: Two files conflict, or such an option is set.
    """
    for option, value in alone.items():
        if value:
            raise ConfigError(
                f"{option} is for one space, and {len(files)} files are given; leave it out", key=option
            )
    first = files[0]
    named: dict[str, Path] = {}
    logged: dict[Path, str] = {}
    for file in files:
        other = named.setdefault(file.config.name, file.path)
        if other is not file.path:
            sentence = (
                f"{other} and {file.path} both describe a space {file.config.name!r}; give each its own id"
            )
            raise ConfigError(sentence, path=str(file.path), key="space.id")
        for key in ("hosts", "origins"):
            if set(getattr(file.config, key)) != set(getattr(first.config, key)):
                sentence = (
                    f"space.{key} of {file.path} differs from that of {first.path}; one port needs the same"
                )
                raise ConfigError(sentence, path=str(file.path), key=f"space.{key}")
        if file.config.limits.of_server != first.config.limits.of_server:
            sentence = f"the limits of a port in {file.path} differ from those of {first.path}; they must be the same"
            raise ConfigError(sentence, path=str(file.path), key="space.limits")
        for name, participant in file.config.participants.items():
            if participant.output_log:
                log = (file.folder / participant.output_log).resolve()
                owner = logged.setdefault(log, file.config.name)
                if owner != file.config.name:
                    sentence = f"participants.{name}.output_log of {file.path}: the space {owner!r} writes {log} already"
                    raise ConfigError(sentence, path=str(file.path), key=f"participants.{name}.output_log")


async def serve_again(
    journal: Path,
    *,
    heads: Literal["check", "ignore"] = "check",
    enrolled: Iterable[tuple[str, str]] = (),
    host: str,
    port: int,
    bridges: ConfigBridges | None = None,
    say: Say,
    ended: asyncio.Event,
) -> None:
    """Resumes a space from its journal, on its port where that is free, and serves it; prints the same as `serve`.

    Raises:
        MewError: The journal cannot be read or resumed, or the port is not free.
    """
    past = Past(journal, heads=heads)
    if past.remark:
        say(f"note: {past.remark}")
    space_host = Host(past.name, folder=past.folder, journal=None, host=host, port=port, past=past)

    async def open_() -> list[str]:
        person = past.owner or "human"
        await space_host.resume(person=person)
        for remark in space_host.remarks():
            say(f"note: {remark}")
        return [person, *(name for name in space_host.keys if name != person)]

    await _serve(space_host, journal, open_, enrolled=enrolled, bridges=bridges, say=say, ended=ended)


async def _serve(
    space_host: Host,
    journal: Path,
    open_: Callable[[], Awaitable[list[str]]],
    *,
    enrolled: Iterable[tuple[str, str]],
    bridges: ConfigBridges | None,
    say: Say,
    ended: asyncio.Event,
) -> None:
    try:
        names = await open_()
        for participant, profile in enrolled:
            space_host.enrol(participant, profile)
            names += [participant] if participant not in names else []
        for line in _addresses(space_host, journal, names):
            say(line)
        if bridges is not None:
            bridges.start(space_host, owner=names[0])
        await ended.wait()
    finally:
        if bridges is not None:
            await bridges.stop()
        await space_host.close()
    say(f"space {space_host.name} is down; the journal stays in {journal}")


def _addresses(space_host: Host, journal: Path, names: Iterable[str]) -> list[str]:
    """Lines with the address of a space, its journal, and the shell line that joins as each participant.

    The token files exist once it returns, so that a program that reads the first line finds all of them.
    """
    joining = [f"{participant}: {_join_line(space_host, participant)}" for participant in names]
    return [f"space {space_host.name} at {space_host.url}", f"journal {journal}", *joining]


def _join_line(space_host: Host, participant: str) -> str:
    key = space_host.keys.get(participant)
    if key is not None and key.file is None:
        return join_line(space_host.url, space=space_host.name, token_env=variable(participant))
    return join_line(
        space_host.url, space=space_host.name, token_file=str(space_host.token_file(participant))
    )
