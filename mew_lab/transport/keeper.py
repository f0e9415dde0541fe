"""A keeper: the process between a program and its starter, so that both end together, even by a kill.

It is a script of its own and imports only the standard library. It gets its orders as one line of JSON on stdin, which
stays open as long as the starter lives; the end of stdin is the order to stop. It runs one program in its own process
group and writes the program's output into a log. It reports on stdout in lines of JSON: `{"pid": …}` or
`{"fault": …}` first, `{"exit": …}` last. No process that the program has started outlives it.

With the number of a socket as its argument, orders and reports use that socket, and the program gets the stdin, stdout
and stderr of the keeper.

Spec: threats 28, 43.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

__all__ = ["LogFile", "main"]

MAX_LINE = 64 * 1024  # bytes of one line; the rest of a longer one is left out
MAX_LOG = 64 * 1024 * 1024  # bytes; a log that is full is put aside once, over the one before it
CHUNK = 64 * 1024  # bytes, the capacity of a pipe
SET_CHILD_SUBREAPER = 36  # of prctl(2)
NOW = b"now"  # the word on the line of orders that ends everything without a grace
LOOK = 1.0  # seconds between two checks whether the starter lives
ROUNDS = 1000  # rounds of killing the rest; a process that is left then forks faster than it is killed


class LogFile:
    """The log of a program's output, each line after the time of its arrival."""

    def __init__(self, path: str, *, secrets: Sequence[str] = ()) -> None:
        self._path = path
        self._secrets = [
            (secret.encode(), f"tok_…{secret[-4:]}".encode()) for secret in secrets if len(secret) >= 12
        ]
        self._line = b""
        self._cut = False  # the rest of a line that was too long is on its way

    def write(self, data: bytes) -> None:
        """Adds the next bytes; writes whole lines."""
        *whole, rest = (self._line + data).split(b"\n")
        self._append([piece for line in whole for piece in self._ended(line)])
        self._line = rest
        if len(rest) > MAX_LINE:
            self._append(self._ended(rest))
            self._line, self._cut = b"", True

    def close(self) -> None:
        """Writes a last line without a line end."""
        if self._line:
            self.write(b"\n")

    def _ended(self, line: bytes) -> list[bytes]:
        cut, self._cut = self._cut, False
        if len(line) > MAX_LINE:
            line = line[:MAX_LINE] + " …".encode()
        return [] if cut else [line]

    def _append(self, lines: list[bytes]) -> None:
        if not lines:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3].encode() + b"Z: "
        text = b"".join(now + line.rstrip(b"\r") + b"\n" for line in lines)
        for secret, shown in self._secrets:
            text = text.replace(secret, shown)
        with contextlib.suppress(OSError):
            self._put(text)

    def _put(self, text: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        log = os.open(self._path, flags, 0o600)
        try:
            status = os.fstat(log)
            if stat.S_ISREG(status.st_mode):
                os.write(log, text)
                if status.st_size > MAX_LOG:
                    os.replace(self._path, f"{self._path}.1")  # noqa: PTH105
        finally:
            os.close(log)


class _Keeper:
    def __init__(self, orders: dict[str, Any]) -> None:
        self._grace: float = orders["grace"]
        self._log = LogFile(orders["log"], secrets=orders["secrets"]) if "log" in orders else None
        streams: dict[str, Any] = {}
        if self._log is not None:
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._program: subprocess.Popen[bytes] = subprocess.Popen(
            orders["argv"], cwd=orders["cwd"], env=orders["env"], close_fds=True, **streams
        )
        self.pid = self._program.pid
        self._output: int | None = None
        if self._program.stdout is not None:
            self._output = self._program.stdout.fileno()
            os.set_blocking(self._output, False)
        else:
            _let_go_of_streams()

    def run(self, wake: int, control: int) -> int:
        """Waits for the program's end, or ends it; returns its exit status."""
        events = selectors.DefaultSelector()
        for descriptor in (control, self._output, wake):
            if descriptor is not None:
                events.register(descriptor, selectors.EVENT_READ)
        deadline: float | None = None
        parent = os.getppid()
        while self._runs(stopping=deadline is not None):
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            ended = False
            for key, _ in events.select(LOOK if left is None else left):
                if key.fd == self._output:
                    if self._listen() is False:
                        events.unregister(self._output)
                elif key.fd == wake:
                    _read(wake)
                elif order := _read(control):
                    if NOW in order:
                        self._end()
                elif order == b"":
                    ended = True
            # A process that was forked from the starter holds the other end open after the starter's death.
            if deadline is None and (ended or os.getppid() != parent):
                events.unregister(control)
                deadline = time.monotonic() + self._grace
                os.killpg(0, signal.SIGTERM)
        self._end()
        return self._program.wait()

    def _runs(self, *, stopping: bool) -> bool:
        """Whether there is a process to wait for: the program; when it is to stop, also those that it has started."""
        alive = self._program.poll() is None
        return alive or (stopping and bool(self._left()))

    def _left(self) -> list[int]:
        """The children of the keeper beside the program: processes that the program has started and left."""
        left = []
        for pid in _children():
            if pid != self.pid:
                with contextlib.suppress(ChildProcessError):
                    if os.waitpid(pid, os.WNOHANG)[0] == 0:
                        left.append(pid)
        return left

    def _end(self) -> None:
        """Ends all running processes; the children of an ended one then belong to the keeper, for the next round."""
        for _ in range(ROUNDS):
            left = self._left() + ([self.pid] if self._program.poll() is None else [])
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)
        for _ in range(ROUNDS):
            if not self._listen():
                break
        if self._log is not None:
            self._log.close()

    def _listen(self) -> bool | None:
        """Reads output of the program; None when there is no more now, False at its end."""
        if self._output is None or self._log is None:
            return False
        data = _read(self._output)
        self._log.write(data or b"")
        return None if data is None else bool(data)


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None
    except ConnectionError:
        return b""


def _let_go_of_streams() -> None:
    """Leaves stdin, stdout and stderr to the program, so that their other ends notice when it closes them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _children() -> list[int]:
    """The children of this process, as far as the system reports them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _adopt_orphans() -> None:
    """Makes the keeper the parent of the children of an ended child, where the system supports that."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # not every build of Python has it

        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _report(to: int, **fields: Any) -> None:
    with contextlib.suppress(OSError):  # the reader may have ended
        os.write(to, json.dumps(fields).encode() + b"\n")


def _orders(source: int) -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(source, 1)  # byte by byte: the bytes after the line belong to the program
        if not byte:
            raise SystemExit(0)
        line += byte
    orders: dict[str, Any] = json.loads(line)
    return orders


def main() -> None:
    """Reads its orders, carries them out, and ends with its whole process group."""
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken)
    # Handlers, and not SIG_IGN: the program would inherit that.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    control = int(sys.argv[1]) if len(sys.argv) > 1 else None
    source, report = (0, 1) if control is None else (control, control)
    orders = _orders(source)
    _adopt_orphans()
    try:
        keeper = _Keeper(orders)
    except (OSError, ValueError) as fault:
        where = f"{fault.filename}: " if isinstance(fault, OSError) and fault.filename else ""
        reason = getattr(fault, "strerror", None) or fault
        more = {} if control is None else {"errno": getattr(fault, "errno", None), "said": str(reason)}
        _report(report, fault=f"{where}{reason}", **more)
        return
    _report(report, pid=keeper.pid)
    _report(report, exit=keeper.run(wake, source))
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
