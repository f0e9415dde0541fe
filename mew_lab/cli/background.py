"""`mew-lab up`, `status` and `down`: keep the space of a folder in the background.

`up` starts `mew-lab serve` as a process of its own and waits until it answers. The process keeps a record in
`.mew/run.json` (lab/folder_space.py), by which the other two, `join`, `tail` and `%mew connect` find it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from mew_lab.bridge.config_consents import ConsentStore
from mew_lab.cli import shell
from mew_lab.cli.serve import find_person
from mew_lab.errors import ConfigError, MewError, NoReply
from mew_lab.gateway.space_file import SpaceFile, names_file, read_space_file
from mew_lab.lab.folder_space import (
    LOG,
    NoSpaceHere,
    RunningSpace,
    RunRecord,
    check_private,
    check_process,
    find_running,
    read_record,
    request_json,
    start_of,
)
from mew_lab.ledger.calls import CallLedger, Proposal
from mew_lab.log.child_process import PACKAGE
from mew_lab.log.entries import entry_of
from mew_lab.protocol.coerce import list_of, mapping_of, text_of
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import count_of
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line, visible
from mew_lab.settings.documents import is_file, read_file
from mew_lab.space.events import Record
from mew_lab.transport.files import FileLock, read_small
from mew_lab.transport.folder import KEPT, open_below, open_folder

__all__ = [
    "SPACE_FILE",
    "BackgroundSpace",
    "add_program",
    "allow_programs",
    "check_free",
    "program_lines",
    "start_space",
]

LOCK = "run.lock"
SPACE_FILE = "space.yaml"
ANSWERS_WITHIN = 60.0  # seconds from the start of the process
ENDS_WITHIN = 30.0  # seconds from the signal; programs have some of them to end
LOOK = 0.05  # seconds between two looks
MOST_HISTORY = 64 * 1024 * 1024  # bytes of the messages that a gateway keeps
MOST_LISTED = 20  # proposals
LAST_LINES = 4 * 1024  # bytes of a log


class BackgroundSpace(NamedTuple):
    """A space that is to run: its folder, and its name or file. `options` are further words for `mew-lab serve`."""

    folder: Path
    name: str = ""
    file: SpaceFile | None = None
    options: Sequence[str] = ()


def add_program(name: str, parser: argparse.ArgumentParser) -> None:
    """Adds the options of one of the three commands, and what runs it."""
    parser.add_argument(
        "--dir", type=Path, metavar="FOLDER", help="the folder of the space; default: the current one"
    )
    if name == "up":
        about = f"a space.yaml, or the name of a space; default: {SPACE_FILE} of the folder or of its {KEPT}, else demo"
        parser.add_argument("what", metavar="SPACE.yaml|NAME", nargs="?", help=about)
        parser.add_argument("--port", type=int, default=0, metavar="N", help="the port; default: a free one")
        about = "the participant that owns the space; default: human, or the owner in the space.yaml"
        parser.add_argument("--as", dest="as_id", metavar="ID", help=about)
        about = "enrols another participant, as in mew-lab serve; may be repeated"
        parser.add_argument("--enrol", action="append", default=[], metavar="ID=PROFILE", help=about)
        about = "does not start the agents and bridges of the space.yaml"
        parser.add_argument("--no-auto-start", action="store_true", help=about)
        about = "starts the programs of the space.yaml without a question; they are shown all the same"
        parser.add_argument("--yes", action="store_true", help=about)
    parser.set_defaults(run={"up": _run_up, "status": _run_status, "down": _run_down}[name])


# --- up ----------------------------------------------------------------------------------------------------------


def _run_up(options: argparse.Namespace) -> None:
    space = _find_what(options)
    check_free(space.folder)
    for remark in space.file.remarks if space.file is not None else ():
        shell.say(f"note: {remark}")
    if space.file is not None and not options.no_auto_start:
        allow_programs(space.file, is_allowed=options.yes)
    start_space(space)


def _find_what(options: argparse.Namespace) -> BackgroundSpace:
    folder = (options.dir or Path.cwd()).absolute()
    if not folder.is_dir():
        raise ConfigError(f"Cannot start a space in {folder}: there is no such folder", path=str(folder))
    words = [f"--port={options.port}"]
    words += [f"--as={options.as_id}"] if options.as_id else []
    words += [f"--enrol={one}" for one in options.enrol]
    words += ["--no-auto-start"] if options.no_auto_start else []
    what = options.what
    if what is None:
        there = [path for path in (folder / SPACE_FILE, folder / KEPT / SPACE_FILE) if is_file(path)]
        if len(there) > 1:
            raise ConfigError(f"There are {there[0]} and {there[1]}; name the one that is meant", key="what")
        what = there[0] if there else "demo"
    if not names_file(what):
        return BackgroundSpace(folder, str(what), None, words)
    file = read_space_file(what)
    if options.dir is not None and file.folder.resolve() != folder.resolve():
        raise ConfigError(f"The folder of {file.path} is {file.folder}; leave --dir out", key="--dir")
    if not options.as_id and not find_person(file):
        words.append("--as=human")  # there would be nobody to join as
    return BackgroundSpace(file.folder, file.config.name, file, words)


def check_free(folder: Path) -> None:
    """Checks that no space runs in a folder.

    Raises:
        ConfigError: One does, or what stands in its `.mew` cannot be used.
    """
    with contextlib.suppress(NoSpaceHere):
        record = read_record(folder)
        check_process(record, folder)
        raise ConfigError(
            f"The space {record.space!r} runs in {folder} already, since {_since(record)}; mew-lab status shows it, "
            "mew-lab down ends it",
            path=str(folder),
        )


def program_lines(file: SpaceFile) -> list[str]:
    """All that the programs of a file are started with, one or more lines each; only secrets are masked."""
    lines = []
    for name, words in file.commands.items():
        participant = file.config.participants[name]
        server = participant.mcp_server
        lines.append(f"{name}: {visible(mask(words[0] if len(words) == 1 else shlex.join(words)))}")
        if server is not None and server.cwd:
            lines.append(f"    in {visible(str(file.folder / server.cwd))}")
        if names := [*participant.env, *(server.env if server is not None else ())]:
            lines.append(f"    with {visible(', '.join(names))}")
        lines += [f"    note: {remark}" for remark in _remarks(file, words)]
    return lines


def _remarks(file: SpaceFile, words: Sequence[str]) -> Iterator[str]:
    """What a person should know of a command before it runs."""
    if Path(words[0]).name in ("npx", "uvx", "bunx", "pnpx") and not any(map(_is_pinned, words[1:])):
        yield "it takes the newest version at each start; write the exact one, as in NAME@1.2.3"
    tokens = file.folder / KEPT / "tokens"
    for word in (part for whole in words[1:] for part in whole.split(",") if part and "\0" not in part):
        place = Path(os.path.normpath(file.folder / word))
        if tokens.is_relative_to(place) or place.is_relative_to(tokens):
            yield f"{visible(word)} leads to the tokens in {KEPT}: what reads files there can take them"
            return


def _is_pinned(word: str) -> bool:
    name, _, version = word.replace("==", "@").rpartition("@")
    return bool(name) and version[:1].isdigit()


def allow_programs(file: SpaceFile, *, is_allowed: bool, is_shown: bool = False) -> None:
    """Shows the programs of a file, and has the person allow them, once for each file and each change of it.

    Args:
        is_allowed: Whether the person has said yes already, and `is_shown` whether she has seen them.

    Raises:
        ConfigError: She says no, or nobody can be asked.
    """
    if not (lines := program_lines(file)):
        return
    if not is_shown:
        head = f"{visible(str(file.path))} starts, in your name:"
        shell.say("\n".join([head, *(f"  {line}" for line in lines)]))
    digest = sha256(read_file(file.path, what="space file").encode("utf-8", "surrogatepass")).hexdigest()
    store = ConsentStore.beside(file.folder.resolve())
    if not is_allowed and store.has(file.path, digest):
        return
    if not is_allowed:
        if not sys.stdin.isatty():
            raise ConfigError(
                "Nothing was started: these programs were not allowed yet, and nobody can be asked here; read them, "
                "then add --yes, or --no-auto-start for the space without them",
                path=str(file.path),
            )
        if not shell.ask_yes_or_no("Start them?"):
            raise ConfigError("Nothing was started; --no-auto-start starts the space without them")
    if remark := store.keep(file.path, SPACE_FILE, digest):
        shell.say(f"note: {remark}")


def start_space(space: BackgroundSpace) -> None:
    """Starts a space in the background, waits until it answers, and prints what a person can do next.

    Raises:
        MewError: It cannot be started, or did not answer in time; no process is left.
    """
    folder = space.folder
    log = folder / KEPT / LOG
    try:
        if (made := open_folder(folder / KEPT, make=True)) is not None:
            os.close(made)
        check_private(folder)
        lock = FileLock(folder / KEPT, LOCK)
    except BlockingIOError:
        raise ConfigError(f"Another mew-lab up starts a space in {folder}; try mew-lab status") from None
    except OSError as fault:
        raise ConfigError(f"Cannot start a space in {folder}: {fault.strerror or fault}") from None
    try:
        check_free(folder)
        what = [f"--space={space.name}"] if space.file is None else [f"--space-config={space.file.path}"]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NONBLOCK", 0)
        output = open_below(log, flags)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "mew_lab.cli", "serve", *what, *space.options],
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            os.close(output)
        running = _wait(process, folder, log)
    finally:
        lock.release()
    _tell_next(running.record, folder)


def _environment() -> dict[str, str]:
    paths = [str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def _wait(process: subprocess.Popen[bytes], folder: Path, log: Path) -> RunningSpace:
    end, why = time.monotonic() + ANSWERS_WITHIN, ""
    try:
        while process.poll() is None:
            try:
                running = find_running(folder)
                if running.record.pid == process.pid:
                    return running
            except MewError as fault:
                why = str(fault)
            if time.monotonic() > end:
                raise NoReply(
                    f"The space in {folder} did not answer within {ANSWERS_WITHIN:g} s, and was ended: {why}; "
                    f"its log is {log}",
                    after_s=ANSWERS_WITHIN,
                    waiting_for="the space",
                )
            time.sleep(LOOK)
        raise ConfigError(f"The space in {folder} was not started: {_last_words(log)}", path=str(log))
    except BaseException:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_WITHIN)
        raise


def _last_words(log: Path) -> str:
    """The error that a process has written last into its log."""
    try:
        text = read_small(log.parent, log.name, most=LAST_LINES, end=True).decode("utf-8", "replace")
    except OSError:
        text = ""
    lines = [line for line in text.splitlines() if line.strip()]
    at = max(
        (n for n, line in enumerate(lines) if line.startswith("mew-lab serve: ")), default=len(lines) - 1
    )
    said = " ".join(line.removeprefix("mew-lab serve: ") for line in lines[max(at, 0) :])
    return one_line(said, 2000) or "its process ended without a word"


def _tell_next(record: RunRecord, folder: Path) -> None:
    at = "" if folder.resolve() == Path.cwd().resolve() else f"cd {shlex.quote(str(folder))} && "
    shell.say(
        f"space {record.space} is up at {record.url}, in process {record.pid}; its log is {folder / KEPT / LOG}\n"
        f"join it:   {at}mew-lab join      in a notebook of that folder: %mew connect\n"
        f"watch it:  {at}mew-lab tail\n"
        f"look:      {at}mew-lab status\n"
        f"end it:    {at}mew-lab down"
    )


# --- status ------------------------------------------------------------------------------------------------------


def _run_status(options: argparse.Namespace) -> None:
    folder = (options.dir or Path.cwd()).absolute()
    record, token = find_running(folder)
    query = f"?space={quote(record.space, safe='')}"
    asked = request_json(record, f"/participants{query}", token=token, most=MOST_HISTORY)
    shell.say(
        f"space {record.space} at {record.url}, in process {record.pid} since {_since(record)}; "
        f"you are {record.person}"
    )
    for participant in list_of(mapping_of(asked).get("participants")):
        about = mapping_of(participant)
        here = "here" if about.get("connected") is True else "not here"
        shell.say(f"  {one_line(text_of(about.get('id')), 64):20} {here}")
    history = request_json(
        record, f"/participants/{record.person}/messages{query}", token=token, most=MOST_HISTORY
    )
    waiting = _find_waiting(list_of(mapping_of(history).get("messages")))
    if not waiting:
        shell.say("nothing waits for an approval")
        return
    shell.say(f"{count_of(len(waiting), 'proposal waits', 'proposals wait')} for an approval:")
    for id, proposal in list(waiting.items())[:MOST_LISTED]:
        asks = f"{proposal.proposer} asks {', '.join(proposal.to) or 'anybody'}: {proposal.tool or proposal.method}"
        shell.say(f"  {visible(id)}  {one_line(asks, 200)}")
    if len(waiting) > MOST_LISTED:
        shell.say(f"  and {len(waiting) - MOST_LISTED} more")
    shell.say("/approve ID shows one, in a mew-lab join that was open when it was proposed")


def _find_waiting(messages: Sequence[Any]) -> dict[str, Proposal]:
    """The open proposals among messages, by the shortest beginning of their ids that tells them apart. Spec: R37."""
    ledger = CallLedger()
    for seq, message in enumerate(messages, 1):
        members = mapping_of(message)
        record = Record(
            seq,
            datetime.now(UTC),
            "received",
            "",
            text_of(members.get("from")),
            via="http",
            raw=compact(members),
        )
        ledger.observe(entry_of(record, seq, members))
    waiting = ledger.proposals.open()
    ids = [proposal.id for proposal in waiting]
    return {_shorten(proposal.id, ids): proposal for proposal in waiting}


def _shorten(id: str, ids: Sequence[str]) -> str:
    for length in (4, 8, 12):
        if sum(other.startswith(id[:length]) for other in ids) == 1:
            return id[:length]
    return id


def _since(record: RunRecord) -> str:
    return f"{record.since.astimezone():%Y-%m-%d %H:%M:%S}"


# --- down --------------------------------------------------------------------------------------------------------


def _run_down(options: argparse.Namespace) -> None:
    folder = (options.dir or Path.cwd()).absolute()
    record = read_record(folder)
    check_process(record, folder)
    _signal(record)
    end = time.monotonic() + ENDS_WITHIN
    while start_of(record.pid) == record.started:
        if time.monotonic() > end:
            raise NoReply(
                f"The space {record.space!r} was asked to end and its process {record.pid} still runs after "
                f"{ENDS_WITHIN:g} s; its log is {folder / KEPT / LOG}; kill -KILL {record.pid} ends it all the same",
                after_s=ENDS_WITHIN,
                waiting_for="the end of the space",
            )
        time.sleep(LOOK)
    shell.say(f"space {record.space} is down: process {record.pid} has ended")


def _signal(record: RunRecord) -> None:
    """Asks the process of a record to end; where it has ended meanwhile, nobody gets the signal."""
    with contextlib.suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open"):
            os.kill(record.pid, signal.SIGTERM)
            return
        descriptor = os.pidfd_open(record.pid)
        try:
            if start_of(record.pid) == record.started:  # the number may have been given to another process
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)
