"""Runs the process that writes the peers' log files beside a journal, and restarts it when it has ended.

The gateway has no other part in these files than to wake the process when the journal has grown. The process runs
`log/follower.py`. It ends by itself when its stdin closes, after it has written everything that the journal holds.

Spec: §3.6.8.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mew_lab.log import follower
from mew_lab.log.child_process import COMMAND, module_environment
from mew_lab.protocol.token import Token, mask
from mew_lab.protocol.visible import one_line

__all__ = ["PeerLogs"]

FIRST_DELAY = 0.5  # seconds before a restart, doubled each time
LONGEST_DELAY = 30.0
CALM = 60.0  # seconds of a run after which the delay is reset
GRACE = 8.0  # seconds to write the rest; the next process writes what is missing


class PeerLogs:
    """The process for one journal. To be used on one event loop.

    Args:
        journal: The journal's first file.
        root: The folder that the logs are below, and `folder` their path.
        secrets: Tokens that are masked in the lines, where a participant has sent one.
        fault: Receives a sentence when a file cannot be written, or the process has ended.
    """

    def __init__(
        self,
        journal: Path,
        *,
        root: Path,
        folder: str,
        history: bool,
        decisions: bool,
        secrets: Iterable[Token] = (),
        fault: Callable[[str], object],
        first_delay: float = FIRST_DELAY,
        longest_delay: float = LONGEST_DELAY,
        grace: float = GRACE,
        **more: Any,
    ) -> None:
        self._orders = {
            "journal": str(journal.absolute()),
            "root": str(root.absolute()),
            "folder": folder,
            "history": history,
            "decisions": decisions,
            **more,
        }
        self._journal, self._root, self._folder = journal, root, folder
        self._secrets = {token.reveal() for token in secrets}
        self._fault = fault
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._grace = grace
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self._bell = (-1, -1)  # a pipe, from here to the process
        self._final = False  # the process has reported that a restart would not help

    @property
    def pid(self) -> int | None:
        """The process id of the running process; None when none runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def register(self) -> None:
        """Registers the journal before its first message, so that this or a later process writes its logs whole."""
        with contextlib.suppress(OSError):  # the process reports what is wrong with the folder
            follower.register(self._root, self._folder, self._journal, begun=time.time_ns())

    async def start(self) -> None:
        """Starts the process. A failure is reported to `fault` and has no other effect."""
        if os.name != "posix":
            self._fault(f"the log files of the peers are kept on Linux and macOS only{follower.HELP}")
            return
        self._bell = os.pipe()
        os.set_blocking(self._bell[1], False)
        begun = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._keep(begun))
        self._task.add_done_callback(self._remove_bell)
        await begun.wait()

    def wake(self) -> None:
        """Wakes the process, because the journal has grown. Never waits; where no process runs, it does nothing."""
        if self._bell[1] >= 0:
            try:
                os.write(self._bell[1], b"\n")
            except BlockingIOError:  # the pipe is full: what it holds already wakes the process
                pass

    def _remove_bell(self, task: asyncio.Task[None]) -> None:
        bell, self._bell = self._bell, (-1, -1)
        for end in bell:
            os.close(end)

    def hide(self, token: Token) -> None:
        """Masks one more token. Call it before the journal holds a message of its participant."""
        self._secrets.add(token.reveal())
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(_secret(token.reveal()))

    async def stop(self) -> None:
        """Ends the process after it has written everything in the closed journal. Idempotent."""
        self._leave.set()
        if self._task is None:
            return
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
        task, self._task = self._task, None
        done, _ = await asyncio.wait({task}, timeout=self._grace)
        if not done and self._process is not None:
            self._final = True
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._fault(
                f"the log files of the peers are not complete: the time limit was reached{follower.HELP}"
            )
            await asyncio.wait({task}, timeout=self._grace)

    async def _keep(self, begun: asyncio.Event) -> None:
        """Runs the process, and restarts it after it has ended."""
        loop, delay = asyncio.get_running_loop(), self._first_delay
        while True:
            started, last = loop.time(), self._leave.is_set()
            how = await self._run(begun)
            begun.set()
            if not how or self._final or last:
                return
            if self._leave.is_set():  # one more run, for the rest
                continue
            if loop.time() - started >= CALM:
                delay = self._first_delay
            self._fault(f"the writer of the peers' log files {how}; it is restarted in {delay:g} s")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._leave.wait()
            delay = min(delay * 2, self._longest_delay)

    async def _run(self, begun: asyncio.Event) -> str:
        """Runs the process once; returns how it failed, or empty when it is done."""
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *(*COMMAND, follower.__name__),
                stdin=PIPE,
                stdout=PIPE,
                stderr=STDOUT,
                start_new_session=True,  # an interrupt in a terminal must not reach it
                env=module_environment(),
                pass_fds=(self._bell[0],),
            )
        except (OSError, NotImplementedError) as fault:
            return f"cannot be started: {getattr(fault, 'strerror', None) or fault}"
        assert process.stdin is not None
        assert process.stdout is not None
        orders = json.dumps({**self._orders, "bell": self._bell[0]}).encode() + b"\n"
        process.stdin.write(orders + b"".join(map(_secret, self._secrets)))
        begun.set()
        if self._leave.is_set():
            process.stdin.close()
        while line := await _line(process.stdout):
            self._hear(line)
        status = await process.wait()
        if status == 0:
            return ""
        return f"has ended (exit {status})" if status >= 0 else f"was ended by signal {-status}"

    def _hear(self, line: bytes) -> None:
        try:
            report = json.loads(line)
            sentence = str(report["fault"])
            self._final = self._final or report.get("final") is True
        except (ValueError, KeyError, TypeError):
            sentence = one_line(line.decode(errors="replace"), 300)
        if sentence:
            self._fault(mask(sentence))


async def _line(source: asyncio.StreamReader) -> bytes:
    """The next line; a line that is too long is skipped."""
    while True:
        try:
            return await source.readline()
        except ValueError:
            continue


def _secret(secret: str) -> bytes:
    return json.dumps({"secret": secret}).encode() + b"\n"
