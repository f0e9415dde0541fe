"""Reads and writes the files of one folder for an ACP agent, where the owner of its bridge has given that folder.

How it works
------------
`AgentFiles` knows the folder and touches the disk; its methods block, so they run in threads. A path is resolved with
all of its links, and what lies outside the folder then is refused. What lies inside is opened name by name, from a
descriptor of the folder on, and no link is followed there: a link that is put in the way meanwhile leads nowhere. Only
regular files of at most `MAX_BYTES` are touched, and nothing that `.mew` holds.

`FileRequests` answers the agent. A read is told in the report of the turn, without its content. A write is a question
to the people of the space with the difference of the file. It is executed where they choose so and the file is still
the one that the difference was made of; the new content then replaces the old one at once, or not at all.

Nothing is locked: another program may change the file between the last look at it and the replacement.

Spec: Agent Client Protocol 1, `fs/read_text_file`, `fs/write_text_file`; ruling R41; threats 27, 28.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from mew_lab.bridge.acp_permissions import Effect, PermissionDecision
from mew_lab.bridge.acp_turn import TurnReport
from mew_lab.bridge.secrets import hide_in_lines
from mew_lab.bridge.written_files import lines_of, open_plain
from mew_lab.errors import ConfigError
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.tools import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from mew_lab.transport.folder import KEPT, open_beneath

_P = ParamSpec("_P")
_R = TypeVar("_R")

__all__ = ["FILE_METHODS", "MAX_BYTES", "MAX_SHOWN", "AgentFiles", "FileRequests", "WrittenFile"]

READ, WRITE = "fs/read_text_file", "fs/write_text_file"
FILE_METHODS = (READ, WRITE)
READ_FILES, WRITE_FILES = "read", "write"
MAX_BYTES = 10_000_000  # of a file
MAX_SHOWN = 400_000  # bytes of a difference, as a message has it
MAX_READS = 1_000  # of one turn
AT_ONCE = 4  # files that are touched at a time
CONTEXT = 3  # equal lines that are shown around a change
MAX_PATH = 4_096  # characters of a path; no system opens a longer one
MAX_PLACE = 300  # characters of a path in a sentence
NOT_FOUND = -32002  # the code of the protocol for a file that does not exist
NOT_ALLOWED = INVALID_PARAMS
WRITE_IT = "write"
OPTIONS: Sequence[Mapping[str, str]] = (
    {"id": WRITE_IT, "name": "Write", "kind": "allow_once"},
    {"id": "reject", "name": "Reject", "kind": "reject_once"},
)


class FoundFile(NamedTuple):
    """A path that was resolved: the names from the folder to it, and `place`, these as a person reads them."""

    names: tuple[str, ...]
    place: str


class ReadPart(NamedTuple):
    """The lines of a file that were asked for: `content`, the number of the first one, and how many there are."""

    content: str
    first: int
    lines: int
    size: int


class WrittenFile(NamedTuple):
    """A file that is to be written: what stands in it, None for no file, and what shall stand in it."""

    found: FoundFile
    old: bytes | None
    new: bytes

    @property
    def old_hash(self) -> str:
        """The SHA-256 of the old content in hex; empty where there is no file."""
        return "" if self.old is None else sha256(self.old).hexdigest()


class AgentFiles:
    """The files of one folder, `root`, for an agent.

    Raises:
        ConfigError: it is no folder, the whole disk, or this system opens no files without following links.
    """

    def __init__(self, root: str | Path) -> None:
        try:
            self.root = Path(root).expanduser().resolve(strict=True)
            about = self.root.stat()
            self._identity = about.st_dev, about.st_ino
            folder = open_beneath(self.root, (), identity=self._identity)
        except (OSError, RuntimeError, ValueError) as fault:
            raise ConfigError(
                f"files={one_line(str(root), 200)!r} is no folder that can be opened: {one_line(str(fault), 200)}",
                key="files",
            ) from None
        if folder is None:
            raise ConfigError(
                "files= needs a system that opens files without following links, and this one does not",
                key="files",
            )
        os.close(folder)
        if self.root == Path(self.root.anchor):
            raise ConfigError("files= is the whole disk: name the folder of a project", key="files")

    def find(self, path: object) -> FoundFile:
        """The file that a path means, which need not exist.

        Raises:
            RpcError: it is no absolute path of a file in the folder.
        """
        if not isinstance(path, str) or not path:
            raise RpcError(INVALID_PARAMS, "it names no path")
        named = one_line(path, MAX_PLACE)
        if len(path) > MAX_PATH:
            raise RpcError(NOT_ALLOWED, f"{named} has {len(path):,} characters, too many for a path")
        if not os.path.isabs(path):  # noqa: PTH117
            raise RpcError(NOT_ALLOWED, f"{named} is no absolute path")
        if path.endswith(("/", "/.", "/..")):
            raise RpcError(NOT_ALLOWED, f"{named} is the path of a folder")
        try:
            resolved = Path(os.path.realpath(path))
        except (OSError, ValueError) as fault:  # a NUL, or text that no file system takes
            raise RpcError(NOT_ALLOWED, f"{named} is no path: {one_line(str(fault), 160)}") from None
        if resolved == self.root or not resolved.is_relative_to(self.root):
            raise RpcError(NOT_ALLOWED, f"{named} is not in the folder that was given, {self.root}")
        names = resolved.relative_to(self.root).parts
        if any(name.casefold() == KEPT for name in names):
            raise RpcError(NOT_ALLOWED, f"{named} is not given: {KEPT} holds the keys of spaces")
        return FoundFile(names, one_line("/".join(names), MAX_PLACE))

    def read(self, found: FoundFile) -> bytes | None:
        """The content of a file; None where there is none.

        Raises:
            RpcError: it is no regular file, too large, or cannot be read.
        """
        try:
            with self._open_folder(found) as folder:
                descriptor = open_plain(found.names[-1], folder)
            if isinstance(descriptor, str):
                raise RpcError(NOT_ALLOWED, f"{found.place} is {descriptor}")
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as fault:
            raise _refuse(found, fault) from None
        if len(data) > MAX_BYTES:
            raise RpcError(NOT_ALLOWED, f"{found.place} has more than {MAX_BYTES:,} bytes")
        return data

    def read_lines(self, found: FoundFile, line: int | None, limit: int | None) -> ReadPart:
        """The text of a file, from a line on (the first is 1), at most `limit` lines.

        Raises:
            RpcError: as `read`, and where there is no file.
        """
        data = self.read(found)
        if data is None:
            # Agents look for these words: they take any other refusal for a fault.
            raise RpcError(NOT_FOUND, f"Resource not found: {found.place} does not exist")
        lines = lines_of(_decode(data, found))
        first = max(1, line or 1)
        chosen = lines[first - 1 :] if limit is None else lines[first - 1 : first - 1 + limit]
        return ReadPart("".join(chosen), first, len(chosen), len(data))

    def plan_write(self, found: FoundFile, content: str) -> WrittenFile:
        """What a write would change.

        Raises:
            RpcError: the old file cannot be replaced, or the content is no text of a file.
        """
        try:
            new = content.encode()
        except UnicodeEncodeError:
            raise RpcError(INVALID_PARAMS, f"{found.place}: the content is no text in UTF-8") from None
        if len(new) > MAX_BYTES:
            raise RpcError(NOT_ALLOWED, f"{found.place}: the content has more than {MAX_BYTES:,} bytes")
        old = self.read(found)
        if old is not None:
            _decode(old, found)
        else:
            self._check_folder(found)
        return WrittenFile(found, old, new)

    def write(self, written: WrittenFile) -> None:
        """Replaces a file as planned, at once. One that has the new content already is left alone.

        Raises:
            RpcError: the file is another one than it was, or cannot be written. Then nothing was written.
        """
        found = written.found
        now = self.read(found)
        if now == written.new:
            return
        if now != written.old:
            what = "was made" if written.old is None else "was removed" if now is None else "was changed"
            raise _changed(found, what)
        try:
            with self._open_folder(found) as folder:
                _put_in_place(folder, found.names[-1], written)
        except FileExistsError:
            raise _changed(found, "was made") from None
        except (OSError, ValueError) as fault:
            raise _refuse(found, fault) from None

    def _check_folder(self, found: FoundFile) -> None:
        """Checks that the folder of a new file is there. Raises RpcError."""
        try:
            with self._open_folder(found):
                return
        except FileNotFoundError:
            raise RpcError(
                NOT_FOUND, f"Resource not found: the folder of {found.place} does not exist"
            ) from None
        except (OSError, ValueError) as fault:
            raise _refuse(found, fault) from None

    @contextlib.contextmanager
    def _open_folder(self, found: FoundFile) -> Iterator[int]:
        """The folder of a file, open. Raises OSError."""
        folder = open_beneath(self.root, found.names[:-1], identity=self._identity)
        assert folder is not None  # the constructor has looked
        try:
            yield folder
        finally:
            os.close(folder)


def _changed(found: FoundFile, what: str) -> RpcError:
    why = f"{found.place} {what} after it was shown"
    return RpcError(INTERNAL_ERROR, f"Not written: {why}; read it and write it again")


def _decode(data: bytes, found: FoundFile) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RpcError(NOT_ALLOWED, f"{found.place} is no text in UTF-8") from None


def _refuse(found: FoundFile, fault: Exception) -> RpcError:
    if isinstance(fault, OSError) and fault.errno in (errno.ELOOP, errno.ENOTDIR):
        return RpcError(NOT_ALLOWED, f"{found.place}: there is a link or a file on the way to it")
    why = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
    return RpcError(INTERNAL_ERROR, f"{found.place}: {one_line(why, 200)}")


def _put_in_place(folder: int, name: str, written: WrittenFile) -> None:
    """Puts the new content in the place of the old at once; a file that was not there must still not be there.

    Raises:
        FileExistsError: another file was made meanwhile.
        OSError: it cannot be written; the old file stays.
    """
    fresh = f".{secrets.token_hex(8)}.new"
    mode, asked = None, 0o666
    if written.old is not None:
        asked = 0o600  # nobody reads the new content before it has the mode of the old
        mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) & 0o777
        if not os.access(name, os.W_OK, dir_fd=folder):
            raise OSError(errno.EACCES, "it may not be written")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, asked, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(written.new)
            file.flush()
            if mode is not None:
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        if written.old is None:
            os.link(fresh, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        else:
            os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)


def describe_write(written: WrittenFile, root: Path) -> dict[str, Any]:
    """What a question shows of a write: the lines that differ with some around them, and the hashes of both contents.

    A line of the old file that the new content does not hold is shown without its secrets.

    Raises:
        RpcError: the difference is too large to be shown.
    """
    found, old = written.found, written.old
    before, after = lines_of((old or b"").decode()), lines_of(written.new.decode())
    same = _count_equal(before, after)
    rest = _count_equal(before[same:][::-1], after[same:][::-1])
    first, last = max(0, same - CONTEXT), max(0, rest - CONTEXT)
    kept = set(after)
    hidden = hide_in_lines([line.removesuffix("\n") for line in before])
    shown = [
        line if line in kept else clean + line[len(line.removesuffix("\n")) :]
        for line, clean in zip(before, hidden, strict=True)
    ]
    change = {
        "type": "diff",
        "path": "/".join(found.names),
        "oldText": None if old is None else "".join(shown[first : len(shown) - last]),
        "newText": "".join(after[first : len(after) - last]),
    }
    if len(json.dumps(change)) > MAX_SHOWN:
        raise RpcError(
            NOT_ALLOWED,
            f"{found.place}: the change is too large to be shown on a card; write less of it at once",
        )
    around = f"{count_of(first, 'line')} before and {count_of(last, 'line')} after stay as they are"
    return {
        "question": f"{'Make' if old is None else 'Write'} {found.place} inside {one_line(root.name, 80)}/?",
        "content": [change],
        **({"unchanged": around} if first or last else {}),
        "old": "no file" if old is None else f"{len(old):,} bytes, SHA-256 {written.old_hash}",
        "new": f"{len(written.new):,} bytes, SHA-256 {sha256(written.new).hexdigest()}",
    }


def _count_equal(one: list[str], other: list[str]) -> int:
    """How many lines are equal at the beginning of both."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


class FileRequests:
    """Answers what an agent asks of the files of one folder.

    Args:
        files: the folder.
        offered: what the agent was told that it may do: `read`, `write`.
        report: the report of what the agent does now.
        refusal: why nothing is answered now for a session, in a sentence; empty where it is.
        ask: asks the people of the space; what it is given last is called with the chosen option before the request for
            it is answered, and an error of it is that answer.
    """

    def __init__(
        self,
        files: AgentFiles,
        *,
        offered: Sequence[str] = (READ_FILES, WRITE_FILES),
        report: Callable[[], TurnReport],
        refusal: Callable[[object], str],
        ask: Callable[[dict[str, Any], Effect], Awaitable[PermissionDecision]],
    ) -> None:
        self.files = files
        self.offered = offered
        self._report = report
        self._refusal = refusal
        self._ask = ask
        self._few = asyncio.Semaphore(AT_ONCE)
        self._reads = 0
        self._read_in: TurnReport | None = None

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answers a request of `FILE_METHODS`.

        Raises:
            RpcError: it is refused, which the report tells.
        """
        session = params.get("sessionId")
        self._check(session)
        if (READ_FILES if method == READ else WRITE_FILES) not in self.offered:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
        doing = "read" if method == READ else "written"
        try:
            found = await self._run(self.files.find, params.get("path"))
            if method == READ:
                return await self._read(found, params)
            return await self._write(found, params)
        except RpcError as refusal:
            if not self._refusal(session):
                self._report().tell(f"Not {doing}: {refusal.message.removeprefix('Not written: ')}")
            raise

    def _check(self, session: object) -> None:
        if why := self._refusal(session):
            raise RpcError(INTERNAL_ERROR, why)

    async def _run(self, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        async with self._few:
            return await asyncio.to_thread(work, *args, **kwargs)

    async def _read(self, found: FoundFile, params: Mapping[str, Any]) -> dict[str, Any]:
        line, limit = (_number(params, name) for name in ("line", "limit"))
        part = await self._run(self.files.read_lines, found, line, limit)
        self._check(params.get("sessionId"))
        report = self._report()
        if report is not self._read_in:
            self._read_in, self._reads = report, 0
        self._reads += 1
        if self._reads > MAX_READS:
            raise RpcError(
                INTERNAL_ERROR, f"{found.place}: {MAX_READS:,} files were read in this turn already"
            )
        lines = f"lines {part.first} to {part.first + part.lines - 1}" if part.lines else "no line"
        about = {"path": found.place, "first_line": part.first, "lines": part.lines, "bytes": part.size}
        report.tell(f"Read {found.place}: {lines}, of {part.size:,} bytes", always=True, file_read=about)
        return {"content": part.content}

    async def _write(self, found: FoundFile, params: Mapping[str, Any]) -> dict[str, Any]:
        session, content = params.get("sessionId"), params.get("content")
        if not isinstance(content, str):
            raise RpcError(INVALID_PARAMS, f"{found.place}: no content is stated")
        written = await self._run(self.files.plan_write, found, content)
        if written.old == written.new:
            self._report().tell(f"{found.place} has this content already, so it was not written")
            return {}
        arguments = await self._run(describe_write, written, self.files.root)
        self._check(session)
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def execute(option: str) -> None:
            if option != WRITE_IT:
                return
            why = f"It is not known whether {found.place} was written"
            try:
                self._check(session)
                await self._run(self.files.write, written)
                why = ""
            except RpcError as refusal:
                why = refusal.message
                raise ValueError(why) from None
            finally:
                done.set_result(why)

        decision = await self._ask({**arguments, "options": list(OPTIONS)}, execute)
        if decision.option != WRITE_IT:
            by = f"{one_line(decision.by, 64)} rejected it" if decision.by else ""
            why = ": ".join(filter(None, (by, one_line(decision.reason, 300)))) or "nobody decided"
            raise RpcError(INTERNAL_ERROR, f"Not written: {found.place}: {why}")
        if why := await done:
            raise RpcError(INTERNAL_ERROR, why)
        size, sha = len(written.new), sha256(written.new).hexdigest()
        self._report().tell(
            f"Wrote {found.place}: {size:,} bytes, as {one_line(decision.by, 64)} decided",
            always=True,
            file_written={"path": found.place, "bytes": size, "sha256": sha},
        )
        return {}


def _number(params: Mapping[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise RpcError(INVALID_PARAMS, f"{name} must be a whole number of at least 0")
    return value
