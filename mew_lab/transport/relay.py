"""Runs a program and relays this process's stdin and stdout to and from it, byte for byte.

Each direction has a thread that reads what is there, shows it to an observer, and writes it on. So each direction waits
only for its own reader, as a pipe does. The end of one side is passed on to the other: a closed input closes the
program's input, and whoever closes the end that it reads from makes the other side's next write fail, as without a
relay. The program has the stderr of this process, its environment, its folder and its process group. Signals to
this process are passed on, and it ends as the program ended: with its exit status, or by the same signal.

The observer must return at once; what it does with the bytes is no business of the relay.

Spec: MCP transports, stdio.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Final

from mew_lab.errors import MewError

__all__ = ["StdioRelay", "end_like"]

CHUNK: Final = 65_536  # bytes, the capacity of a pipe
SETTLE: Final = (
    0.5  # seconds without output after the program's end, while a child process of it holds its stdout
)
PASSED_ON: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
IN, OUT = 0, 1  # the descriptors that every program begins with

Observer = Callable[[str, bytes], None]


class StdioRelay:
    """A program between whose streams and those of this process everything is relayed.

    Args:
        command: The program and its arguments.
        observe: Called as `observe(side, data)` with the bytes that `side` (`client` or `server`) sent, before they
            are passed on, and with no bytes when that side has closed its end. It is called from two threads.
    """

    def __init__(self, command: Sequence[str], observe: Observer) -> None:
        self._command = list(command)
        self._observe = observe
        self._ended = threading.Event()

    def run(self) -> int:
        """Relays until the program has ended; returns its exit status, negative for a signal.

        To be called from the main thread, once, because it handles signals and takes stdin and stdout for itself.

        Raises:
            MewError: when the program cannot be started.
        """
        line = shlex.join(self._command)
        early: list[int] = []  # signals that come before the program has started
        process: subprocess.Popen[bytes] | None = None

        def pass_on(number: int, _frame: object) -> None:
            if process is None:
                early.append(number)
            elif self._ended.is_set():  # only a client that does not read keeps this process
                raise SystemExit(128 + number)
            elif not (number == getattr(signal, "SIGINT", None) and _from_terminal()):
                _send(process, number)

        numbers = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
        before = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, pass_on)
        try:
            try:
                process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
                )
            except FileNotFoundError:
                raise MewError(
                    f"Cannot run {line}: there is no program {self._command[0]!r} on PATH"
                ) from None
            except (OSError, ValueError) as fault:
                raise MewError(f"Cannot run {line}: {getattr(fault, 'strerror', None) or fault}") from None
            for number in early:
                _send(process, number)
            assert process.stdin is not None and process.stdout is not None
            down = threading.Thread(target=self._pass_input, args=(process.stdin,), daemon=True)
            up = threading.Thread(target=self._pass_output, args=(process.stdout,), daemon=True)
            down.start()
            up.start()
            process.wait()
            self._ended.set()
            # What the program wrote must arrive, however slowly the client reads it.
            up.join()
            return process.returncode
        finally:
            for number, handler in before.items():
                with suppress(TypeError):  # a handler that was not set from Python
                    signal.signal(number, handler)

    def _pass_input(self, program: IO[bytes]) -> None:
        target = program.fileno()
        while data := _read(IN):
            self._observe("client", data)
            if not _write(target, data):
                _drop(IN)  # the program no longer reads, so the client's next write shall fail, too
                return
        self._observe("client", b"")
        program.close()

    def _pass_output(self, program: IO[bytes]) -> None:
        source = program.fileno()
        while True:
            ended = self._ended.is_set()  # before the wait: what the program wrote by then is ready
            if not _is_ready(source, SETTLE):
                if ended:
                    break
                continue
            data = _read(source)
            if not data:
                break
            self._observe("server", data)
            if not _write(OUT, data):
                program.close()  # the client no longer reads, so the program's next write shall fail, too
                _drop(OUT)
                return
        self._observe("server", b"")
        _drop(OUT)


def end_like(status: int) -> None:
    """Ends this process by the signal that ended a program; returns where `status` is not that of a signal."""
    if status < 0 and os.name == "posix":
        with suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has written its own
        with suppress(OSError, ValueError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)


def _read(source: int) -> bytes:
    try:
        return os.read(source, CHUNK)
    except OSError:
        return b""


def _write(target: int, data: bytes) -> bool:
    """Writes all of it; returns whether the reader took it."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        return False
    return True


def _drop(stream: int) -> None:
    """Closes a stream of this process for its other end; the number stays taken, so that no file gets it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, stream)
    os.close(nothing)


def _is_ready(source: int, seconds: float) -> bool:
    if sys.platform == "win32":  # only sockets can be waited for there
        return True
    return bool(select.select([source], [], [], seconds)[0])


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(OSError, ValueError):
        process.send_signal(number)


def _from_terminal() -> bool:
    """Whether Ctrl-C of a terminal reaches the program by itself, as one of the process group in front."""
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
