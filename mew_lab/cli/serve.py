"""`mew-lab serve`: runs one or more spaces without a human interface, until a signal ends it.

With `--ui` a person decides in a browser: a lab of this process holds her seat, and serves a page of its own.

The functions that serve print by `say` and end when `ended` is set; `run` passes the options and signals of a shell.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mew_lab.cli import shell
from mew_lab.errors import ConfigError
from mew_lab.gateway.keyring import variable
from mew_lab.gateway.space_file import SpaceFile, read_space_file
from mew_lab.lab.config_bridges import ConfigBridges, admit_file
from mew_lab.lab.folder_space import forget_record, keep_record
from mew_lab.lab.host import Host, join_line
from mew_lab.lab.resuming import Past
from mew_lab.lab.shared_options import PERSON, WRITES, add_shared, person_arguments, writes_by_server
from mew_lab.log.journal import journal_path
from mew_lab.protocol.profiles import SEE
from mew_lab.protocol.visible import one_line

if TYPE_CHECKING:
    from mew_lab.lab.labs import HostedLab

__all__ = [
    "PageOptions",
    "Service",
    "add_options",
    "find_person",
    "run",
    "serve",
    "serve_again",
    "serve_files",
]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LEVELS = ("debug", "info", "warning", "error")

Say = Callable[[str], object]


class PageOptions(NamedTuple):
    """Where the page of a person is served: its port on the loopback, and the origin of a proxy that leads there.

    `person` are the arguments of `HostedLab.serve` that say what she shares, and who is told that something waits.
    """

    port: int = 0
    origin: str | None = None
    person: Mapping[str, Any] = MappingProxyType({})


class Service(NamedTuple):
    """How spaces are served: where, for whom, and until when.

    Attributes:
        say: Prints a line.
        ended: Ends the service when it is set.
        enrolled: Participants besides those that a space has by itself, each with its profile.
        bridges: MCP servers that take part in the first space while it is served.
        journal: The journal file; None for a new one.
        ui: The page on which the owner of a single space decides; None for none.
    """

    host: str
    port: int
    say: Say
    ended: asyncio.Event
    enrolled: Sequence[tuple[str, str]] = ()
    bridges: ConfigBridges | None = None
    journal: Path | None = None
    ui: PageOptions | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
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
    about = f"enrols another participant as {profiles}; may be repeated; patterns of its own: in a space.yaml. {SEE}"
    parser.add_argument("--enrol", action="append", default=[], metavar="ID=PROFILE", help=about)
    shell.add_mcp_config(parser)
    about = "with --ui: a tool of --mcp-config that writes a file, with the names of its arguments for path and content"
    parser.add_argument(
        WRITES.flag, action="append", default=[], metavar="SERVER/TOOL=PATH,CONTENT", help=about
    )
    parser.add_argument(
        "--journal", type=Path, metavar="PATH", help="the journal file; default: a new one below .mew"
    )
    about = "serves a page on which you decide as that participant, and prints a link for one browser"
    parser.add_argument("--ui", action="store_true", help=about)
    about = "the port of the page; default: a free one"
    parser.add_argument("--ui-port", type=int, default=0, metavar="N", help=about)
    about = "the address of your TLS proxy that leads to the page, such as https://lab.example.org"
    parser.add_argument("--ui-origin", metavar="URL", help=about)
    add_shared(parser, PERSON)
    running = parser.add_mutually_exclusive_group()
    about = "prints another link to the page of the space that runs in this folder, and ends"
    running.add_argument("--ui-link", action="store_true", help=about)
    about = "signs every browser out of the page of the space that runs in this folder, and ends"
    running.add_argument("--ui-end", action="store_true", help=about)
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
    if options.ui_link or options.ui_end:
        _ask_running(options)
        return
    ui = _read_page(options)
    enrolled = [
        (name, profile or "agent") for name, _, profile in (option.partition("=") for option in options.enrol)
    ]
    bridges: ConfigBridges | None = None
    if options.mcp_config is not None:
        if len(options.space_config or ()) > 1:
            raise ConfigError(
                "--mcp-config is for one space, and several files are given; leave it out", key="--mcp-config"
            )
        bridges = _admit(options.mcp_config, options.trust_config, options.writes)
    elif options.writes:
        raise ConfigError(
            "--writes is for the servers of --mcp-config FILE; add it, or leave --writes out", key="writes"
        )

    async def work() -> None:
        service = Service(
            options.host,
            options.port,
            shell.say,
            shell.end_on_signal(),
            enrolled,
            bridges,
            options.journal,
            ui,
        )
        if options.resume is not None:
            await serve_again(options.resume, service, heads=options.heads)
        elif options.space_config is None:
            await serve(options.space, service, owner=options.as_id or "human", folder=Path.cwd())
        else:
            files = [read_space_file(path) for path in options.space_config]
            await serve_files(files, service, person=options.as_id, auto_start=not options.no_auto_start)

    # The objects loaded by now stay: a full collection over all of them would stop every connection for 20 ms.
    gc.collect()
    gc.freeze()
    with shell.new_runner() as runner:
        runner.run(work())


def _read_page(options: argparse.Namespace) -> PageOptions | None:
    """The page that the options ask for; None for none.

    Raises:
        ConfigError: There are options of a page or of its person, and no page; or these have a fault.
    """
    if options.ui:
        return PageOptions(options.ui_port, options.ui_origin, person_arguments(options))
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("ui_port", "ui_origin", *(option.dest for option in PERSON))
        if getattr(options, name)
    ]
    if given:
        verb = "is of a page or of its person" if len(given) == 1 else "are of a page or of its person"
        raise ConfigError(f"{' and '.join(given)} {verb}; add --ui, or leave them out", key="ui")
    return None


def _ask_running(options: argparse.Namespace) -> None:
    """Asks the process that serves a page for a link, or to end its sessions, and prints its answer."""
    from mew_lab.views.page.control import ask_page
    from mew_lab.views.page.link import qr_text

    files = [read_space_file(path) for path in options.space_config or ()]
    if options.resume is not None or len(files) > 1:
        raise ConfigError("Name one space: by --space in its folder, or by its --space-config", key="ui")
    folder, space = (files[0].folder, files[0].config.name) if files else (Path.cwd(), options.space)
    answered = ask_page(folder, space, "link" if options.ui_link else "end")
    shell.say(answered.said)
    if answered.url and sys.stdout.isatty():
        shell.say(qr_text(answered.url))


def _admit(file: Path, trusted: Sequence[str], writes: Sequence[str]) -> ConfigBridges:
    """The servers of a file that may be started; tells of the others."""
    admitted, left_out = admit_file(file, trusted=trusted, writes=writes_by_server(writes))
    for name, why in left_out.items():
        shell.warn(f"{one_line(name, 80)} is left out: {why}")
    return ConfigBridges(admitted, say=shell.say)


async def serve(name: str, service: Service, *, owner: str, folder: Path) -> None:
    """Serves a space; prints its address, its journal, and the shell line that joins as each participant.

    Args:
        folder: The folder for the token files and, unless the service names a file, the journal.

    Raises:
        MewError: The space cannot be opened, the port is not free, or the journal cannot be created.
    """
    path = service.journal or journal_path(folder, space=name, now=datetime.now(UTC))
    lab = _make_lab(name) if service.ui is not None else None
    observe = lab.observe if lab is not None else None
    space_host = Host(
        name, folder=folder, journal=path, host=service.host, port=service.port, observe=observe
    )
    if lab is not None:
        lab.take(space_host)

    async def open_() -> list[str]:
        await space_host.open(owner=owner, can="human")
        return [owner]

    await _serve(space_host, path, open_, service, lab)


async def serve_files(
    files: Sequence[SpaceFile], service: Service, *, person: str | None = None, auto_start: bool = True
) -> None:
    """Serves the spaces of files on one port, with their programs; prints of each the same as `serve`.

    Each space has its own journal, tokens, logs and programs; none of them shows in another space.

    Args:
        person: The owner of a space whose file names none; None: its default participant, or no owner.
        service: With participants, a journal or servers of its own for a single file only.
        auto_start: Whether to start the programs of the files.

    Raises:
        MewError: A space cannot be opened, two cannot share a port, the port is not free, or a journal cannot be
            created.
    """
    host, port, say, ended, enrolled, bridges, journal, ui = service
    if len(files) > 1:
        _check_together(files, alone={"--journal": journal, "--enrol": enrolled, "--ui": ui})
    lab: HostedLab | None = None
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
            if ui is not None:
                lab = _make_lab(file.config.name)
            space_host = Host(
                file.config.name,
                folder=file.folder,
                journal=journals[at],
                host=host,
                port=port,
                beside=first,
                logs=logs,
                observe=lab.observe if lab is not None else None,
            )
            if lab is not None:
                lab.take(space_host)
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
        stated = person or files[0].config.owner or files[0].config.default_participant
        me = stated or next(iter(hosts[0].keys), "human")
        for file, space_host in zip(files, hosts, strict=True):
            if seat := person or find_person(file):
                _keep_record(space_host, seat, say)
        if lab is not None and ui is not None:
            await _serve_page(lab, hosts[0], me, ui, say)
        for file, space_host in zip(files, hosts, strict=True):
            if auto_start:
                await space_host.start_programs(file, tell=say, fault=say)
        if bridges is not None:
            _start_bridges(bridges, hosts[0], me, lab)
        await ended.wait()
    finally:
        if bridges is not None:
            await bridges.stop()
        if lab is not None and first is not None:
            await _end_page(lab, first)
        for space_host in hosts:
            forget_record(space_host)
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
    journal: Path, service: Service, *, heads: Literal["check", "ignore"] = "check"
) -> None:
    """Resumes a space from its journal, on its port where that is free, and serves it; prints the same as `serve`.

    Raises:
        MewError: The journal cannot be read or resumed, or the port is not free.
    """
    lab: HostedLab | None = None
    if service.ui is None:
        past = Past(journal, heads=heads)
    else:
        from mew_lab.lab.labs import HostedLab

        lab, past = HostedLab.resume(journal, heads=heads)
    if past.remark:
        service.say(f"note: {past.remark}")
    space_host = Host(
        past.name,
        folder=past.folder,
        journal=None,
        host=service.host,
        port=service.port,
        past=past,
        observe=lab.observe if lab is not None else None,
    )
    if lab is not None:
        lab.take(space_host, logs=False)

    async def open_() -> list[str]:
        person = past.owner or "human"
        await space_host.resume(person=person)
        for remark in space_host.remarks():
            service.say(f"note: {remark}")
        return [person, *(name for name in space_host.keys if name != person)]

    await _serve(space_host, journal, open_, service, lab)


async def _serve(
    space_host: Host,
    journal: Path,
    open_: Callable[[], Awaitable[list[str]]],
    service: Service,
    lab: HostedLab | None,
) -> None:
    say, bridges = service.say, service.bridges
    try:
        names = await open_()
        for participant, profile in service.enrolled:
            space_host.enrol(participant, profile)
            names += [participant] if participant not in names else []
        for line in _addresses(space_host, journal, names):
            say(line)
        _keep_record(space_host, names[0], say)
        if lab is not None and service.ui is not None:
            await _serve_page(lab, space_host, names[0], service.ui, say)
        if bridges is not None:
            _start_bridges(bridges, space_host, names[0], lab)
        await service.ended.wait()
    finally:
        if bridges is not None:
            await bridges.stop()
        if lab is not None:
            await _end_page(lab, space_host)
        forget_record(space_host)
        await space_host.close()
    say(f"space {space_host.name} is down; the journal stays in {journal}")


def find_person(file: SpaceFile) -> str:
    """The participant that a person is in the space of a file: its owner, its default participant, or the first that no
    program takes; empty where there is none."""
    free = (name for name, participant in file.config.participants.items() if not participant.starts)
    return file.config.owner or file.config.default_participant or next(free, "")


def _keep_record(space_host: Host, person: str, say: Say) -> None:
    """Lets commands in the folder of the space find it, as this person; says where they cannot."""
    if remark := keep_record(space_host, person=person):
        say(f"note: {remark}")


def _start_bridges(bridges: ConfigBridges, space_host: Host, owner: str, lab: HostedLab | None) -> None:
    if lab is None:
        bridges.start(space_host, owner=owner)
    else:
        bridges.start(space_host, owner=owner, adopt=lab.adopt)


def _make_lab(space: str) -> HostedLab:
    # A space without a page needs nothing of it, and it takes a second to load.
    from mew_lab.lab.labs import HostedLab

    return HostedLab(space)


async def _serve_page(lab: HostedLab, space_host: Host, me: str, ui: PageOptions, say: Say) -> None:
    """Serves the page of the person `me`; prints its first link, and its QR code on a terminal."""
    from mew_lab.views.page.control import keep_control
    from mew_lab.views.page.link import PageLink, qr_text

    link = await lab.serve(me, port=ui.port, origin=ui.origin, **ui.person)
    keep_control(space_host.folder, space_host.name, lab.page.allow_control())
    say(str(link))
    if sys.stdout.isatty() and isinstance(link, PageLink):
        say(qr_text(link.url))


async def _end_page(lab: HostedLab, space_host: Host) -> None:
    from mew_lab.views.page.control import forget_control

    if lab.page is not None:
        forget_control(space_host.folder, space_host.name)
    await lab.close()


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
