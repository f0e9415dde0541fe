"""Finds the space that runs in a folder, by the record that its process keeps in `.mew/run.json`.

The record has the address of the gateway, the process and its start, and the id of its run. It may have come with a copy
of the folder, or from somebody who would like to get a token. So before anything is contacted, everything that this
computer knows is checked: whose the folder and the file are, that nobody else may read them, that the address is the
loopback, and that the process is this user's and began when the record says. The token goes out after the gateway has
answered the id of the run.

Spec: §5.2; threats 26, 27.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import os
import re
import stat
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mew_lab.errors import ConfigError, ConnectionLost, MewError
from mew_lab.gateway.auth import read_token_file, token_from
from mew_lab.gateway.keyring import variable
from mew_lab.lab.host import Host
from mew_lab.protocol.coerce import json_of
from mew_lab.protocol.filename import is_space_id
from mew_lab.protocol.text import parse_rfc3339, write_rfc3339
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.space.state import is_participant_id
from mew_lab.transport.files import remove, replace_small
from mew_lab.transport.folder import KEPT, hide, open_folder

__all__ = [
    "LOG",
    "FoundSpace",
    "NoSpaceHere",
    "RunRecord",
    "RunningSpace",
    "check_private",
    "find_running",
    "find_space",
    "forget_record",
    "keep_record",
    "read_record",
    "request_json",
    "start_of",
]

RECORD = "run.json"
LOG = "run.log"
MOST = 16 * 1024  # bytes of a record
MOST_ANSWERED = 64 * 1024  # bytes of an answer about the run
ANSWERS_WITHIN = 5.0  # seconds of silence
HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
FROM_ENVIRONMENT = ("MEW_GATEWAY", "MEW_SPACE", "MEW_TOKEN")
ELSEWHERE = "name another space by its address, or by the variables MEW_GATEWAY, MEW_SPACE and MEW_TOKEN"
START = "start one with mew-lab up"
_RUN = re.compile(r"[0-9a-f]{32}")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class NoSpaceHere(ConfigError):
    """No space runs in the folder, as far as its record tells."""


class RunRecord(NamedTuple):
    """What a process tells of the space that it serves.

    Attributes:
        url: The address of its gateway.
        space: The name of the space.
        pid: The number of the process, and `started` its start as the system tells it.
        run: The id of the run.
        since: When the space was opened.
        person: The participant that the folder's user is.
        token_file: The file of that participant's token, relative to the folder; empty where an environment variable
            holds the token.
        place: The device and the number of `.mew`, by which a copy of the folder is told from it.
    """

    url: str
    space: str
    pid: int
    started: str
    run: str
    since: datetime
    person: str
    token_file: str
    place: str


class RunningSpace(NamedTuple):
    """A space that runs in a folder: its record, all of which was checked, and the token of its person."""

    record: RunRecord
    token: Token


class FoundSpace(NamedTuple):
    """A space to join. `remark` is why the one of the folder is not it; empty where it is."""

    url: str
    space: str
    token: Token
    remark: str = ""


# --- the record of the process that serves a space ---------------------------------------------------------------


def keep_record(host: Host, *, person: str) -> str:
    """Writes the record of an open space of this process; returns why there is none, else an empty text."""
    folder = host.folder.absolute()
    started = start_of(os.getpid())
    if started is None:
        return "this system does not tell when a process began, so the space is not found by its folder"
    key = host.keys.get(person)
    file = None if key is not None and key.file is None else host.token_file(person).absolute()
    place = ""
    try:
        place = check_private(folder)
        other = read_record(folder)
        if other.run != host.run and start_of(other.pid) == other.started:
            return f"the space {other.space!r} runs in {folder} already; its folder leads to that one"
    except (ConfigError, OSError) as fault:
        if not isinstance(fault, NoSpaceHere):
            return f"the space is not found by its folder: {fault}"
    record = {
        "url": host.url,
        "space": host.name,
        "pid": os.getpid(),
        "started": started,
        "run": host.run,
        "since": write_rfc3339(datetime.now(UTC)),
        "person": person,
        "token_file": "" if file is None else Path(os.path.relpath(file, folder)).as_posix(),
        "place": place,
    }
    try:
        replace_small(folder / KEPT, RECORD, json.dumps(record).encode())
        hide(folder / KEPT)
    except OSError as fault:
        return f"the space is not found by its folder: {fault.strerror or fault}"
    return ""


def forget_record(host: Host) -> None:
    """Removes the record of a space of this process; that of another one stays."""
    with contextlib.suppress(MewError, OSError):
        if read_record(host.folder).run == host.run:
            remove(host.folder / KEPT, RECORD)


# --- the space that runs in a folder -----------------------------------------------------------------------------


def check_private(folder: Path) -> str:
    """Checks that `.mew` of a folder is this user's own, and that nobody else may look into it; returns its `place`.

    Raises:
        NoSpaceHere: There is none.
        ConfigError: It is not.
    """
    descriptor = _open_private(folder)
    try:
        return _place_of(descriptor)
    finally:
        os.close(descriptor)


def _place_of(descriptor: int) -> str:
    about = os.fstat(descriptor)
    return f"{about.st_dev}:{about.st_ino}"


def _open_private(folder: Path) -> int:
    place = folder.absolute() / KEPT
    if not os.path.lexists(place):
        raise NoSpaceHere(f"No space runs in {folder}, which has no {KEPT}; {START}", path=str(place))
    try:
        descriptor = open_folder(place)
    except OSError as fault:
        raise _unusable(place, fault.strerror or str(fault)) from None
    if descriptor is None:
        raise _unusable(place, "this system does not tell whose a folder is")
    about = os.fstat(descriptor)
    if about.st_mode & 0o077:
        os.close(descriptor)
        raise _unusable(
            place, f"others may look into it; run: chmod 700 {place}, where all that is in it is yours"
        )
    return descriptor


def _unusable(place: Path, why: str) -> ConfigError:
    return ConfigError(f"{place} is not used: {why}", path=str(place))


def read_record(folder: Path) -> RunRecord:
    """The record in a folder; nothing in it is true yet but its form.

    Raises:
        NoSpaceHere: There is none.
        ConfigError: It cannot be used.
    """
    place = folder.absolute() / KEPT / RECORD
    within = _open_private(folder)
    here = _place_of(within)
    try:
        descriptor = os.open(RECORD, os.O_RDONLY | _NOFOLLOW, dir_fd=within)
    except FileNotFoundError:
        raise NoSpaceHere(f"No space runs in {folder}; {START}", path=str(place)) from None
    except OSError:
        raise _unusable(place, "it is a link or cannot be read; delete it") from None
    finally:
        os.close(within)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            raise _unusable(place, "it is no plain file of yours; delete it")
        if about.st_mode & 0o077:
            raise _unusable(place, "others may read it, so it came with a copy of the folder; delete it")
        data = file.read(MOST + 1)
    record = _parse(json_of(data)) if len(data) <= MOST else None
    if record is None:
        raise _unusable(place, "it is no record of a space that runs; delete it")
    if record.place != here:
        raise NoSpaceHere(
            f"No space runs in {folder}: its {RECORD} is a copy of that of another folder; {START}",
            path=str(place),
        )
    return record


def _parse(members: Any) -> RunRecord | None:
    """The record of these members; None where it is none."""
    if not isinstance(members, dict) or members.keys() != set(RunRecord._fields):
        return None
    pid = members["pid"]
    texts = {name: value for name, value in members.items() if name != "pid"}
    if type(pid) is not int or not 1 < pid < 1 << 31:
        return None
    if not all(isinstance(text, str) and text.isprintable() for text in texts.values()):
        return None
    since = parse_rfc3339(texts.pop("since"))
    file = PurePosixPath(texts["token_file"])
    if (
        since is None
        or not is_space_id(texts["space"])
        or not is_participant_id(texts["person"])
        or not _RUN.fullmatch(texts["run"])
        or file.is_absolute()
        or ".." in file.parts
    ):
        return None
    return RunRecord(pid=pid, since=since, **texts)


def find_running(
    folder: Path, *, environ: Mapping[str, str] = os.environ, timeout: float = ANSWERS_WITHIN
) -> RunningSpace:
    """The space that runs in a folder; no parent of it is searched.

    Args:
        timeout: The seconds of silence after which its gateway counts as gone.

    Raises:
        NoSpaceHere: There is no record, or its process has ended.
        ConfigError: What stands there is not this user's own, or its token cannot be read; nothing was contacted.
        ConnectionLost: The gateway does not answer, or it is another run.
    """
    record = read_record(folder)
    place = folder.absolute() / KEPT / RECORD
    check_process(record, folder)
    try:
        parts = urlsplit(record.url)
        is_here = parts.hostname in HOSTS and parts.port is not None and parts.scheme == "ws"
    except ValueError:
        is_here = False
    if not is_here or record.url != f"ws://{parts.netloc}/ws" or "@" in record.url:
        raise _unusable(place, "the address in it is not one of this computer; delete it")
    token = _token_of(record, folder.absolute(), environ)
    answer = request_json(record, "/health", most=MOST_ANSWERED, timeout=timeout)
    run = answer.get("run") if isinstance(answer, dict) else None
    if not isinstance(run, str) or not hmac.compare_digest(run.encode(), record.run.encode()):
        raise ConnectionLost(
            f"What answers at {record.url} is not the space that runs in {folder}, and got no token; {START}"
        )
    return RunningSpace(record, token)


def check_process(record: RunRecord, folder: Path) -> None:
    """Checks that the process of the record in a folder is this user's, and the same as then.

    Raises:
        NoSpaceHere: It is not.
    """
    if start_of(record.pid) != record.started:
        raise NoSpaceHere(
            f"No space runs in {folder}: process {record.pid}, which {RECORD} names, has ended or is another one; "
            f"{START}",
            path=str(folder.absolute() / KEPT / RECORD),
        )


def _token_of(record: RunRecord, folder: Path, environ: Mapping[str, str]) -> Token:
    if not record.token_file:
        name = variable(record.person)
        if not environ.get(name):
            raise ConfigError(
                f"The token of {record.person} in {record.space!r} is in no file: set the variable {name}",
                key=name,
            )
        return token_from(variable=name)
    path = folder / record.token_file
    try:
        about = path.lstat()
        is_own = about.st_uid == os.geteuid() and path.parent.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or "it cannot be found"
        raise ConfigError(f"The token file {path} cannot be read: {why}", path=str(path)) from None
    if not is_own or not stat.S_ISREG(about.st_mode):
        raise ConfigError(f"The token file {path} is not used: it is no plain file of yours", path=str(path))
    return read_token_file(path)


def request_json(
    record: RunRecord,
    path: str,
    *,
    token: Token | None = None,
    most: int,
    timeout: float = ANSWERS_WITHIN,
) -> Any:
    """The JSON that the gateway of a record answers to a GET; None where it is no JSON, or longer than `most` bytes.

    Args:
        token: Sent as the bearer; None sends none.

    Raises:
        ConnectionLost: Nothing answers there.
        ConfigError: The gateway refuses it.
    """
    parts = urlsplit(record.url)
    headers = {} if token is None else {"authorization": f"Bearer {token.reveal()}"}
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        data = answer.read(most + 1)
    except (OSError, ValueError, http.client.HTTPException):
        raise ConnectionLost(
            f"Nothing answers at {record.url}, where process {record.pid} serves {record.space!r}"
        ) from None
    finally:
        connection.close()
    if answer.status != 200:
        raise ConfigError(
            f"The gateway at {record.url} refused {path.partition('?')[0]}: "
            f"{one_line(data.decode(errors='replace'), 200)}"
        )
    return json_of(data) if len(data) <= most else None


def find_space(folder: Path, *, environ: Mapping[str, str] = os.environ) -> FoundSpace:
    """The space that runs in a folder, else the one that the environment names.

    Raises:
        MewError: There is neither; the message says why the folder's is none.
    """
    try:
        record, token = find_running(folder, environ=environ)
    except (ConfigError, ConnectionLost) as fault:
        if not environ.get(FROM_ENVIRONMENT[0]):
            raise ConfigError(f"{fault}; or {ELSEWHERE}", key="gateway") from None
        for name in FROM_ENVIRONMENT:
            if not environ.get(name):
                raise ConfigError(
                    f"MEW_GATEWAY names a gateway, and {name} is not set; set all of {', '.join(FROM_ENVIRONMENT)}",
                    key=name,
                ) from None
        url, space, secret = (environ[name] for name in FROM_ENVIRONMENT)
        there = os.path.lexists(folder / KEPT / RECORD)
        return FoundSpace(url, space, Token(secret), f"{fault}; MEW_GATEWAY is joined" if there else "")
    return FoundSpace(record.url, record.space, token)


# --- processes ---------------------------------------------------------------------------------------------------


def start_of(pid: int, *, proc: Path = Path("/proc")) -> str | None:
    """The start of a process of this user, as the system tells it; None where no such process runs.

    Args:
        proc: Where the system tells of its processes; where there is nothing, `ps` is asked.
    """
    try:
        if (proc / str(pid)).stat().st_uid != os.geteuid():
            return None
        text = (proc / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None if (proc / "self/stat").exists() else _start_by_ps(pid)
    about = text.rpartition(")")[2].split()
    return None if about[0] in "ZX" else f"{boot} {about[19]}"


def _start_by_ps(pid: int) -> str | None:
    """As `start_of`, by a program that each Unix has."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
    command = ["ps", "-o", "uid=,stat=,lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    words = done.stdout.split()
    if len(words) < 3 or words[0] != str(os.geteuid()) or words[1].startswith("Z"):
        return None
    return " ".join(words[2:])
