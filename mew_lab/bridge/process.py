"""How does a program of somebody else's run beside us, and how does it end for certain?

It gets no more than it needs: the named environment variables, no file descriptors of ours, a session and
process group of its own, which is ended with it. What it writes is bounded: a line has a cap, and of its
errors only the last words are kept. It knows no MCP; a line is a line.

Spec: threat 28, api.md (environment and folder of a bridge).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from mew_lab.errors import ConfigError, MewError
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.environment import inherited

__all__ = ["ServerProcess", "environment"]

MAX_LINE = 8 * 1024 * 1024  # bytes; a message of the space takes far less
LAST_WORDS = 4096  # bytes of its stderr
GRACE = 1.0  # seconds between closing its input, asking it to end, and ending it


def environment(names: Sequence[str] | Mapping[str, str] = ()) -> dict[str, str]:
    """The variables that a program is given: PATH, HOME, LANG, TMPDIR, SYSTEMROOT, and those named or written out.

    Raises:
        ConfigError: when a named one is not set here.
    """
    if isinstance(names, Mapping):
        return inherited() | dict(names)
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise ConfigError(
            f"the environment variable {one_line(missing[0], 80)} is to be handed on, but it is not set here",
            path="environment",
            key=missing[0],
        )
    return inherited() | {name: os.environ[name] for name in names}


class ServerProcess:
    """One program, written to and read from by lines. `command` has `python` replaced by this interpreter."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Sequence[str] | Mapping[str, str] = ()
    ) -> None:
        words = [str(word) for word in command]
        if not words or not words[0]:
            raise ConfigError("no command is given: name the program and its arguments", key="command")
        self.command = [sys.executable if words[0] == "python" else words[0], *words[1:]]
        self.cwd = cwd
        self.fault = ""
        self._env = environment(env)
        self._process: asyncio.subprocess.Process | None = None
        self._stderr: asyncio.Task[None] | None = None
        self._heard = b""

    @property
    def command_line(self) -> str:
        """The exact command, as a shell would take it."""
        return shlex.join(self.command)

    @property
    def last_words(self) -> str:
        """The end of what it wrote to its stderr, at most 4 KiB; secrets that we know are masked."""
        return mask(self._heard.decode(errors="replace"))

    @property
    def pid(self) -> int:
        """Its process id, and that of its group."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Starts it.

        Raises:
            MewError: when it cannot be; names the command.
        """
        if not self.cwd.is_dir():
            raise MewError(f"cannot run {self.command_line}: there is no folder {self.cwd}")
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.cwd,
                env=self._env,
                close_fds=True,
                start_new_session=True,
                limit=MAX_LINE,
            )
        except FileNotFoundError:
            raise MewError(
                f"cannot run {self.command_line}: there is no program {self.command[0]!r} on PATH"
            ) from None
        except (OSError, ValueError) as fault:
            said = getattr(fault, "strerror", None) or str(fault)
            raise MewError(f"cannot run {self.command_line}: {said}") from None
        self._stderr = asyncio.get_running_loop().create_task(self._listen(self._process))

    async def lines(self) -> AsyncIterator[bytes]:
        """What it writes, line by line; ends when it closes its output, or writes a line over the limit."""
        assert self._process is not None and self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:  # asyncio's word for a line over the limit
                self.fault = f"wrote a line of more than {MAX_LINE} bytes"
                return
            if not line:
                return
            yield line

    async def write(self, line: bytes) -> None:
        """Writes one line to it; waits while it does not read.

        Raises:
            OSError: when it reads no more.
        """
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def ended(self) -> str:
        """How it ended, in a few words, with its last line of stderr; waits for a moment until that is known."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.0 if self.fault else GRACE):
                await self._process.wait()
                if self._stderr is not None:
                    await asyncio.wait({self._stderr})
        code = self._process.returncode
        how = self.fault or ("closed its output" if code is None else "")
        how = how or (f"ended (exit {code})" if code is None or code >= 0 else f"was ended by signal {-code}")
        lines = [line for line in self.last_words.splitlines() if line.strip()]
        return f"{how}: {one_line(lines[-1].strip(), 300)}" if lines else how

    async def stop(self) -> None:
        """Ends it and all that it started: closes its input, asks, then insists. Twice is harmless."""
        process = self._process
        if process is None:
            return
        try:
            if process.stdin is not None:
                process.stdin.close()
            for sign in (None, signal.SIGTERM, _KILL):
                if sign is not None:
                    self._signal(sign)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GRACE):
                        await process.wait()
                        break
        finally:
            self._signal(_KILL)  # what it started may outlive it
            if self._stderr is not None:
                self._stderr.cancel()

    def _signal(self, sign: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, sign)
            elif self._process is not None:
                self._process.kill()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(LAST_WORDS):
            self._heard = (self._heard + chunk)[-LAST_WORDS:]


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
