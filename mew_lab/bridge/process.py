"""Runs a foreign program, and reliably ends it when this process ends.

The program gets only what it needs: the named environment variables, none of the file descriptors of this process, and
its own session and process group, which end with it. Its parent is a keeper (`transport/keeper.py`), so that it ends
with all its child processes, even when this process is killed. Its output is bounded: a long line goes into a file, of
one that is too long for that only both ends are kept, and of its stderr only the last lines, without secrets. This
module knows lines, not MCP.

Spec: threats 28 and 43, api.md (environment and folder of a bridge).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import re
import shlex
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from mew_lab.bridge.secrets import hide_arguments, remember_variables
from mew_lab.errors import ConfigError, MewError
from mew_lab.protocol.coerce import json_of
from mew_lab.protocol.envelope import MAX_MESSAGE
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.settings.environment import inherited_environment
from mew_lab.transport import keeper, line_judge

__all__ = [
    "TOLD",
    "TOLD_LINES",
    "GrowingLine",
    "Judgement",
    "LineJudge",
    "LongLine",
    "RestartLimit",
    "ServerProcess",
    "Spool",
    "end_and_report",
    "environment",
    "may_fetch",
    "start_seconds",
    "tell_start",
]

logger = logging.getLogger(__name__)
ENDLESS = 1 << 30  # bytes; a line that goes on for longer ends the session
LONGEST = 2 * MAX_MESSAGE  # bytes of a line that is held in memory
ENDS = 4096  # bytes that are kept of the beginning and the end of a longer one
CHUNK = 64 * 1024
JUDGED_WITHIN = 20.0  # seconds, with the start of the judge; then a line that may be costly is refused
STDERR_LINE = 8 * 1024  # bytes of a line of its stderr that are kept
STDERR_LINES = 64
TOLD_LINES = 5  # of its stderr, with the end of a server
TOLD = 200  # characters of each
STARTS_WITHIN = 30.0  # seconds
FETCHES_WITHIN = 300.0  # seconds for a program that may download the server first
GRACE = 1.0  # seconds between the close of its input, SIGTERM, and SIGKILL
TELL_AFTER = 3.0  # seconds of a start after which it is told of
QUIET = 20.0  # seconds more before it is told again that it goes on
TOLD_MOST = 100  # lines of a start that are told
MINUTE = 60.0  # seconds
PAUSE = 0.5  # seconds before a second start within a minute; each further one waits so much longer


# Programs that download what they run.
_FETCHERS = frozenset(
    {"npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "uv", "uvx", "pipx", "deno", "docker", "podman"}
)
# a line of a stack, beside which the reason stands
_FRAME = re.compile(rb"\s|Traceback \(most recent call last\)")


def may_fetch(command: Sequence[str]) -> bool:
    """Whether a command may download the server that it runs; `cmd /c npx` is one, too."""
    return any(Path(word.replace("\\", "/")).stem.lower() in _FETCHERS for word in command[:3])


def start_seconds(command: Sequence[str]) -> float:
    """The seconds that a server of this command may take for its first answer."""
    return FETCHES_WITHIN if may_fetch(command) else STARTS_WITHIN


async def end_and_report(
    stop: Callable[[], Awaitable[object]], why: str, on_end: Callable[[str], object] | None
) -> None:
    """Ends a bridge that nobody has stopped, and reports why."""
    await stop()
    logger.info("%s", why)
    if on_end is not None:
        on_end(why)


async def tell_start(
    server: ServerProcess, name: str, tell: Callable[[str], object], *, within: float
) -> None:
    """Tells of a start that takes long: the stderr of the program, and where there is none, that it goes on.

    It ends by itself only after `TOLD_MOST` lines. `within` are the seconds that the start may take.
    """
    loop, told, seen = asyncio.get_running_loop(), 0, 0
    began, quiet_since = loop.time(), loop.time()
    patience = TELL_AFTER if may_fetch(server.command) else 3 * TELL_AFTER
    await asyncio.sleep(patience)
    while told < TOLD_MOST:
        lines, seen = server.stderr_since(seen)
        for line in lines[: TOLD_MOST - told]:
            tell(f"{name}: {one_line(line.strip(), TOLD)}")
            told, quiet_since = told + 1, loop.time()
        if loop.time() - quiet_since >= patience:
            quiet_since = loop.time() + QUIET
            fetches = "; a first start may download it" if may_fetch(server.command) else ""
            tell(
                f"{name}: has been starting for {loop.time() - began:.0f} s, of {within:g} s "
                f"at most ({server.command_line}){fetches}"
            )
        await asyncio.sleep(0.2)  # nothing wakes this for a new line
    tell(f"{name}: more of its error output is not shown")


class RestartLimit:
    """How often within a minute a program that ends by itself is started again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ends: list[float] = []  # the times of the ends within the last minute

    def note_end(self) -> str | None:
        """Records an end; returns None where it may be started again, else a remark, which may be empty."""
        now = asyncio.get_running_loop().time()
        self._ends = [*(at for at in self._ends if now - at < MINUTE), now]
        if len(self._ends) <= self._most:
            return None
        return (
            f"; it ended {len(self._ends)} times within a minute, so it is not started again"
            if self._most
            else ""
        )

    async def pause(self) -> None:
        """Waits before the next start, the longer the more often it has ended."""
        await asyncio.sleep(PAUSE * (len(self._ends) - 1))


def environment(names: Sequence[str] | Mapping[str, str] = ()) -> dict[str, str]:
    """The variables for a program: PATH, HOME, LANG, TMPDIR, SYSTEMROOT, and those in `names`.

    The secrets among these are masked in texts from now on.

    Raises:
        ConfigError: when a variable in `names` is not set in this process, or `names` is no mapping of names to texts.
    """
    if isinstance(names, Mapping):
        for name, value in names.items():
            if not isinstance(name, str) or not name or "=" in name or "\0" in name:
                raise ConfigError(
                    f"{one_line(str(name), 80)!r} is no name of an environment variable", key="env"
                )
            if not isinstance(value, str) or "\0" in value:
                raise ConfigError(
                    f"the value of the environment variable {one_line(name, 80)} must be text", key="env"
                )
        remember_variables(names)
        return inherited_environment() | dict(names)
    if isinstance(names, str):
        raise ConfigError(
            "env= takes a list of names of variables to pass on, or a mapping of names to values", key="env"
        )
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise ConfigError(
            f"the environment variable {one_line(missing[0], 80)} is to be passed on, but it is not set here",
            path="environment",
            key=missing[0],
        )
    passed = {name: os.environ[name] for name in names}
    remember_variables(passed)
    return inherited_environment() | passed


class Spool(Protocol):
    """Makes the files for long lines."""

    def new_file(self) -> Path:
        """A new empty private file; its user deletes it.

        Raises:
            OSError: it cannot be made.
        """

    def check_growth(self, size: int) -> None:
        """Raises OSError where there is no room for so many bytes more of such files."""

    @property
    def most(self) -> int:
        """The bytes of the longest line that is kept."""


class LongLine(NamedTuple):
    """Both ends of a line over `LONGEST`, which is not parsed here.

    `path` is the file that has all of it; None where there is none, and `why` says why not.
    """

    head: bytes
    tail: bytes
    path: Path | None = None
    why: str = ""

    @property
    def may_answer(self) -> bool:
        """Whether it may be a JSON object, or a batch of them, as its ends say."""
        return _BEGIN.match(self.head) is not None and _END.search(self.tail) is not None

    @property
    def answers(self) -> int | str | None:
        """The id of the request that it answers; None where it answers none, or does not say so at its ends."""
        found = _HEAD_ID.match(self.head) or _TAIL_ID.search(self.tail)
        if found is None or self.is_request:
            return None
        id = json_of(found[1])
        return id if isinstance(id, str | int) and not isinstance(id, bool) else None

    @property
    def is_request(self) -> bool:
        """Whether it is a request or a notification, as its beginning says."""
        return _METHOD.match(self.head) is not None

    @property
    def request_id(self) -> int | str | None:
        """The id of the request that it is; None where it is none, or does not say so at its ends."""
        found = _METHOD.match(self.head)
        if found is None:
            return None
        tail = _TAIL_ID.search(self.tail)
        text = found[1] or (tail[1] if tail else None)
        id = json_of(text) if text is not None else None
        return id if isinstance(id, str | int) and not isinstance(id, bool) else None


_BEGIN, _END = re.compile(rb"\s*(?:\[\s*)?\{"), re.compile(rb"\}(?:\s*\])?\s*$")
_ID = rb'"id"\s*:\s*(-?\d{1,15}|"(?:[^"\\]|\\.){0,256}")\s*'
_RPC = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_HEAD_ID = re.compile(rb"\s*\{\s*(?:" + _RPC + rb",\s*)?" + _ID + rb",")
_TAIL_ID = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _RPC + rb")?\}\s*$")
_METHOD = re.compile(rb"\s*\{\s*(?:" + _RPC + rb",\s*)?(?:" + _ID + rb',\s*)?"method"\s*:')


class GrowingLine:
    """A line that goes into a file once it is long; of one that is too long only both ends are kept.

    `held` are the bytes of a line that is held in memory.
    """

    def __init__(self, spool: Spool | None, *, held: int = LONGEST) -> None:
        self.size = 0
        self._held = held
        self._spool = spool
        self._parts: list[bytes] = []
        self._long: LongLine | None = None
        self._file: BinaryIO | None = None

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if self._long is None:
            self._parts.append(piece)
            if self.size > self._held:
                self._grow_long()
            return
        self._long = self._long._replace(tail=(self._long.tail + piece)[-ENDS:])
        if self._file is not None:
            self._write(piece)

    def take(self) -> bytes | LongLine:
        line = self._long or b"".join(self._parts)
        if self._file is not None:
            try:
                self._file.close()
            except OSError as fault:
                line = self._without_file(fault.strerror or str(fault))
        self.size, self._parts, self._long, self._file = 0, [], None, None
        return line

    def drop(self) -> None:
        """Deletes the file of a line that did not end."""
        if self._file is not None:
            self._without_file("did not end")

    def _grow_long(self) -> None:
        whole = b"".join(self._parts)
        self._parts.clear()
        self._long = LongLine(whole[:ENDS], whole[-ENDS:], why=f"is longer than {self._held} bytes")
        if self._spool is None:
            return
        try:
            path = self._spool.new_file()
            self._file = path.open("wb", buffering=0)
        except OSError as fault:
            self._without_file(f"could not be kept: {fault.strerror or fault}")
            return
        self._long = self._long._replace(path=path)
        self._write(whole)

    def _write(self, piece: bytes) -> None:
        assert self._file is not None and self._spool is not None
        if self.size > self._spool.most:
            self._without_file(f"is longer than {self._spool.most} bytes")
            return
        try:
            self._spool.check_growth(len(piece))
            if self._file.write(piece) != len(piece):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as fault:
            self._without_file(f"could not be kept: {fault.strerror or fault}")

    def _without_file(self, why: str) -> LongLine:
        assert self._long is not None
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
        if self._long.path is not None:
            self._long.path.unlink(missing_ok=True)
        self._long = self._long._replace(path=None, why=why)
        return self._long


class Judgement(NamedTuple):
    """What a line holds: its values and names, the lists and objects among them, the id of the request it answers."""

    is_json: bool
    values: int = 0
    containers: int = 0
    answers: int | str | None = None


class LineJudge:
    """A process that reads costly JSON lines (`line_judge`), one after the other; it starts with its first line."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def judge(self, line: bytes) -> Judgement | None:
        """What a line holds; None where the process cannot start, ends, or takes too long."""
        found = await self._ask(b"%d\n" % len(line), line)
        return None if found is None else Judgement(bool(found), **found)

    async def take_result(self, path: Path) -> dict[str, Any] | None:
        """Reads a file with one response, and leaves only the text of its result in it.

        Returns:
            `id`, and with a result its `size`, `sha256` and `kinds`; empty for what is no response, None where it takes
            too long.
        """
        return await self._ask(json.dumps({"file": str(path)}).encode() + b"\n")

    async def split_list(self, path: Path, member: str) -> dict[str, Any] | None:
        """Puts lines in the place of the result of a list in a file: its other members, then an entry each.

        Returns:
            `count` and `omitted`, the number and first names of the entries that are left out; empty where `member` is
            no list of entries, None where it takes too long.
        """
        return await self._ask(json.dumps({"file": str(path), "list": member}).encode() + b"\n")

    async def _ask(self, *parts: bytes) -> dict[str, Any] | None:
        """The answer of the process; None where there is none in time."""
        async with self._turn:
            return await self._ask_in_turn(parts)

    async def _ask_in_turn(self, parts: Sequence[bytes]) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(JUDGED_WITHIN):
                process = self._process = self._process or await asyncio.create_subprocess_exec(
                    sys.executable, "-I", "-S", line_judge.__file__,
                    stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL, close_fds=True, env={},
                )  # fmt: skip
                assert process.stdin is not None and process.stdout is not None
                process.stdin.writelines(parts)
                await process.stdin.drain()
                answer: dict[str, Any] = json.loads(await process.stdout.readline())
        except (TimeoutError, OSError, ValueError):
            await self.close()
            return None
        except asyncio.CancelledError:  # its answer would be read as the next one
            await self.close()
            raise
        return answer

    async def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class ServerProcess:
    """One program with line-based input and output. In `command`, `python` is replaced by this interpreter.

    `spool` makes the files for long lines; without it, only both ends of them are kept.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Sequence[str] | Mapping[str, str] = (),
        spool: Spool | None = None,
    ) -> None:
        words = [str(word) for word in command]
        if not words or not words[0]:
            raise ConfigError("no command is given: name the program and its arguments", key="command")
        self.command = [sys.executable if words[0] == "python" else words[0], *words[1:]]
        self.cwd = cwd
        self.spool = spool
        self.fault = ""
        self._env = environment(env)
        self._process: asyncio.subprocess.Process | None = None  # its keeper, where there is one
        self._control: asyncio.StreamWriter | None = None
        self._reports: asyncio.Task[None] | None = None
        self._pid = 0
        self._code: int | None = None
        self._ended = asyncio.Event()  # the program has ended
        self._stderr: asyncio.Task[None] | None = None
        self._stderr_lines: deque[bytes] = deque(maxlen=STDERR_LINES)
        self._stderr_count = 0  # lines so far

    @property
    def command_line(self) -> str:
        """The exact command in shell syntax, but for secrets among its arguments."""
        return shlex.join(hide_arguments(self.command))

    def stderr_since(self, count: int) -> tuple[list[str], int]:
        """The lines of its stderr after the first `count`, as far as they are kept, and the number of lines so far.

        Known secrets are masked.
        """
        fresh = min(self._stderr_count - count, len(self._stderr_lines))
        lines = list(self._stderr_lines)[len(self._stderr_lines) - fresh :]
        return [mask(line.decode(errors="replace")) for line in lines], self._stderr_count

    @property
    def pid(self) -> int:
        """The process id of the program; 0 before its start."""
        return self._pid

    async def start(self) -> None:
        """Starts the program.

        Raises:
            MewError: when it cannot be started; the error names the command.
        """
        if not self.cwd.is_dir():
            raise MewError(f"cannot run {self.command_line}: there is no folder {self.cwd}")
        try:
            if os.name == "posix":
                await self._start_under_keeper()
            else:
                await self._start_alone()
        except FileNotFoundError:
            raise MewError(
                f"cannot run {self.command_line}: there is no program {self.command[0]!r} on PATH"
            ) from None
        except (OSError, ValueError) as fault:
            reason = getattr(fault, "strerror", None) or str(fault)
            raise MewError(f"cannot run {self.command_line}: {reason}") from None
        assert self._process is not None
        self._stderr = asyncio.get_running_loop().create_task(self._read_stderr(self._process))

    async def _start_under_keeper(self) -> None:
        """Starts the program by a keeper: orders and reports use a socket; its streams belong to this process."""
        ours, theirs = socket.socketpair()
        try:
            words = (sys.executable, "-I", "-S", "-X", "utf8", keeper.__file__, str(theirs.fileno()))
            process = await self._exec(*words, cwd=None, env={}, pass_fds=(theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._process = process
        reader, self._control = await asyncio.open_connection(sock=ours)
        orders = {"argv": self.command, "cwd": str(self.cwd), "env": self._env, "grace": GRACE}
        self._control.write(json.dumps(orders).encode() + b"\n")
        first = _parse_report(await reader.readline())
        if "pid" not in first:
            self._control.close()
            await process.wait()
            self._process = None
            raise OSError(first.get("errno") or 0, str(first.get("said") or "it has no keeper"))
        self._pid = first["pid"]

        async def read_reports() -> None:
            while line := await reader.readline():
                self._code = _parse_report(line).get("exit", self._code)
            # the keeper is lost; all its processes are in the process group with its number
            if self._code is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                self._code = await process.wait()
            self._ended.set()

        self._reports = asyncio.get_running_loop().create_task(read_reports())

    async def _start_alone(self) -> None:
        """Starts the program as a child of this process, on a system without process groups."""
        process = self._process = await self._exec(*self.command, cwd=self.cwd, env=self._env)
        self._pid = process.pid

        async def wait() -> None:
            self._code = await process.wait()
            self._ended.set()

        self._reports = asyncio.get_running_loop().create_task(wait())

    @staticmethod
    async def _exec(*words: str, **how: Any) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            close_fds=True,
            start_new_session=True,
            **{"limit": 4 * CHUNK, **how},
        )

    async def lines(self) -> AsyncIterator[bytes | LongLine]:
        """The lines of its output, until it closes the output or writes one that does not end (`ENDLESS`).

        A line over `LONGEST` is a `LongLine`; its reader deletes its file.
        """
        assert self._process is not None and self._process.stdout is not None
        line = GrowingLine(self.spool)
        try:
            while chunk := await self._process.stdout.read(CHUNK):
                first, *more = chunk.split(b"\n")
                line.add(first)
                for piece in more:
                    line.add(b"\n")
                    yield line.take()
                    line.add(piece)
                if line.size > ENDLESS:
                    self.fault = f"wrote a line of more than {ENDLESS} bytes"
                    return
            if line.size:
                yield line.take()
        finally:
            line.drop()

    async def write(self, line: bytes) -> None:
        """Writes one line to the program; waits while the program does not read.

        Raises:
            OSError: when the program no longer reads.
        """
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def describe_end(self) -> str:
        """A short text on how the program ended, with its last lines of stderr; waits up to `GRACE` seconds for both."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.0 if self.fault else GRACE):
                await self._ended.wait()
                if self._stderr is not None:
                    await asyncio.wait({self._stderr})
        code = self._code
        how = self.fault or ("closed its output" if code is None else "")
        how = how or (f"ended (exit {code})" if code is None or code >= 0 else f"was ended by signal {-code}")
        told = [one_line(line.strip(), TOLD) for line in self._last_lines()]
        if len(told) > 1:
            return f"{how}; its last lines: {' | '.join(told)}"
        return f"{how}: {told[0]}" if told else how

    def _last_lines(self) -> list[str]:
        """The last lines of its stderr with words in them, without those of a stack."""
        lines = [line for line in self._stderr_lines if any(map(str.isalnum, line.decode(errors="replace")))]
        plain = [line for line in lines if not _FRAME.match(line)] or lines
        return [mask(line.decode(errors="replace")) for line in plain[-TOLD_LINES:]]

    async def stop(self) -> None:
        """Ends the program and its children: closes its input, sends SIGTERM, kills. A second call does nothing."""
        process = self._process
        if process is None:
            return
        try:
            if process.stdin is not None:
                process.stdin.close()
            for end_program in (None, self._terminate, self._kill):
                if end_program is not None:
                    end_program()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GRACE):
                        await self._ended.wait()
                        break
        finally:
            self._kill()  # its child processes may outlive it
            if self._control is not None:
                self._control.close()
            if self._stderr is not None:
                self._stderr.cancel()

    def _terminate(self) -> None:
        if self._process is not None and os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def _kill(self) -> None:
        """Has the keeper kill the program and its children at once; without a keeper, kills only the program."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        if self._control is None:
            process.kill()
        elif not self._control.is_closing():
            self._control.write(b"now\n")

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        """Keeps the last lines; a carriage return ends one too, as in the progress of a download."""
        assert process.stderr is not None
        line = b""
        while chunk := await process.stderr.read(CHUNK):
            *ended, rest = re.split(rb"[\r\n]+", line + chunk)
            for one in ended:
                self._keep_line(one)
            line = rest[:STDERR_LINE] if len(rest) > STDERR_LINE else rest
        self._keep_line(line)

    def _keep_line(self, line: bytes) -> None:
        if line.strip():
            self._stderr_lines.append(line[:STDERR_LINE])
            self._stderr_count += 1


def _parse_report(line: bytes) -> dict[str, Any]:
    """The report of a keeper; empty where the keeper ended without one."""
    report = json.loads(line) if line else {}
    return report if isinstance(report, dict) else {}
