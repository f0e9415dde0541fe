"""Runs the programs of a space: starts them, restarts them by their policy, and ends them with the gateway.

Each runs under a keeper (`keeper.py`), a process that ends it on request or when this process ends for any reason. It
inherits no open file, has its own process group, and writes its output to its log.

Spec: threat 28.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.gateway.programs import Program
from mew_lab.protocol.coerce import json_of
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.transport import keeper

__all__ = ["Processes"]

GRACE = 5.0  # seconds that a program has to end on request; a bridge ends its own server within them
PATIENCE = 3.0  # further seconds for a keeper
FIRST_DELAY = 1.0  # seconds before the first restart, doubled each time
CALM = 60.0  # seconds of running after which earlier failures of a program no longer count


class _Ended(NamedTuple):
    """The end of a program: its exit status, or the fault that prevented its start."""

    status: int = 0
    fault: str = ""

    def __str__(self) -> str:
        if self.fault:
            return self.fault
        return f"ended (exit {self.status})" if self.status >= 0 else f"was ended by signal {-self.status}"

    @property
    def well(self) -> bool:
        return not self.fault and self.status == 0


class Processes:
    """The programs of one space while they run. To be used on one event loop.

    Args:
        tell: called with a participant and a sentence: with the exact command before its first start, and when it has
            ended normally.
        fault: the same, when a program cannot be started, has failed, is restarted or is given up.
        first_delay: seconds before the first restart of a program, doubled with each further one.
        calm: seconds of running after which earlier failures of a program no longer count.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        tell: Callable[[str, str], object],
        fault: Callable[[str, str], object],
        first_delay: float = FIRST_DELAY,
        calm: float = CALM,
        grace: float = GRACE,
    ) -> None:
        self._programs = tuple(programs)
        self._tell = tell
        self._fault = fault
        self._first_delay = first_delay
        self._calm = calm
        self._grace = grace
        self._leave = asyncio.Event()
        self._kept: list[asyncio.Task[object]] = []
        self._keepers: dict[str, asyncio.subprocess.Process] = {}
        self.pids: dict[str, int] = {}
        """The process id of each program that runs now, by participant."""

    async def start(self) -> None:
        """Starts all programs; one that cannot be started is reported, and the others run.

        Raises:
            ConfigError: on a system without process groups, where programs could not be ended reliably.
        """
        if self._programs and os.name != "posix":
            raise ConfigError(
                "programs of a space.yaml are started on Linux and macOS only; use --no-auto-start",
                key="auto_start",
            )
        loop = asyncio.get_running_loop()
        first = [loop.create_future() for _ in self._programs]
        self._kept = [
            loop.create_task(self._keep(program, begun))
            for program, begun in zip(self._programs, first, strict=True)
        ]
        await asyncio.gather(*first)

    async def stop(self) -> None:
        """Ends all programs and their child processes. A second call does nothing."""
        self._leave.set()
        for keeper_ in self._keepers.values():
            if keeper_.stdin is not None:
                keeper_.stdin.close()
        if self._kept:
            await asyncio.wait(self._kept, timeout=self._grace + PATIENCE)
        for name in list(self._keepers):
            self._kill(name, lost=True)
        if self._kept:
            await asyncio.wait(self._kept, timeout=PATIENCE)

    async def _keep(self, program: Program, begun: asyncio.Future[None]) -> object:
        """Runs a program, with restarts, as long as its policy allows."""
        name, loop, failed = program.participant, asyncio.get_running_loop(), 0
        self._tell(name, f"starting {program.command_line}")
        while not self._leave.is_set():
            started = loop.time()
            ended = await self._run(program, begun)
            if self._leave.is_set():
                return None
            if loop.time() - started >= self._calm:
                failed = 0
            report = self._tell if ended.well else self._fault
            if program.restart == "never" or (program.restart == "on-failure" and ended.well):
                return report(name, f"{ended}; its output is in {program.log}")
            if failed >= program.restarts:
                last = f"given up after {failed} restarts; its output is in {program.log}"
                return self._fault(name, f"{ended}; {last}")
            delay = self._first_delay * 2**failed
            failed += 1
            self._fault(name, f"{ended}; restart {failed} of {program.restarts} in {delay:g} s")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._leave.wait()
        return None

    async def _run(self, program: Program, begun: asyncio.Future[None]) -> _Ended:
        """Runs a program once, from its start to its end."""
        name = program.participant
        try:
            log = _log_file(program)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-X", "utf8", keeper.__file__),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                env={},
            )
        except OSError as fault:
            _set_done(begun)
            return _Ended(fault=f"cannot be started: {fault.strerror}")
        self._keepers[name] = process
        assert process.stdin is not None
        assert process.stdout is not None
        orders = {
            "argv": program.command,
            "cwd": str(program.cwd),
            "env": dict(program.env),
            "log": str(log),
            "secrets": [secret.reveal() for secret in program.secrets],
            "grace": self._grace,
        }
        process.stdin.write(json.dumps(orders).encode() + b"\n")
        if self._leave.is_set():
            process.stdin.close()
        reports: dict[str, Any] = {}
        try:
            while line := await process.stdout.readline():
                reports |= _report(line)
                if "pid" in reports:
                    self.pids[name] = reports["pid"]
                    _set_done(begun)
        finally:
            _set_done(begun)
            self.pids.pop(name, None)
            self._kill(name, lost="exit" not in reports)
        await process.wait()
        if "exit" in reports:
            return _Ended(reports["exit"])
        if "pid" in reports:
            return _Ended(fault="has lost its keeper, and was ended")
        return _Ended(fault=f"cannot be started: {reports.get('fault', 'it has no keeper')}")

    def _kill(self, name: str, *, lost: bool) -> None:
        """Ends the processes of a lost keeper; a process group keeps its number while a process is in it."""
        process = self._keepers.pop(name, None)
        if process is not None and lost:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _report(line: bytes) -> dict[str, Any]:
    """The report of a keeper; any other output is reported as its fault."""
    report = json_of(line)
    return (
        report if isinstance(report, dict) else {"fault": one_line(mask(line.decode(errors="replace")), 200)}
    )


def _log_file(program: Program) -> Path:
    """The log file of a program, with its folder; a link that leads elsewhere is not followed.

    Raises:
        OSError: when the folder cannot be made.
    """
    folder = program.log.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink():
        raise OSError(0, f"{folder} is a link; logs are kept in a folder of their own")
    return program.log
