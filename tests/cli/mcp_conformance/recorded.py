"""Records what passes on both sides of a tap, from outside: a relay of TCP, and one of stdin and stdout.

`python recorded.py FOLDER COMMAND…` runs a command and writes the bytes that it got and sent to `in` and `out` in the folder.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[3]
CHUNK = 65_536


class Conversation(NamedTuple):
    """The bytes of one connection."""

    asked: bytes
    answered: bytes


class TcpRecorder:
    """Listens on a port of its own, passes each connection on to another address, and keeps the bytes."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname and parts.port
        self._there = (parts.hostname, parts.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}{parts.path}"
        self._kept: list[tuple[bytearray, bytearray]] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def conversations(self) -> list[Conversation]:
        """All connections that carried anything, after both of their ends are closed; it listens no longer."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in self._threads)
        return [Conversation(bytes(asked), bytes(answered)) for asked, answered in self._kept if asked]

    def _start(self, run, *arguments) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._there)
            except OSError:
                return
            asked, answered = bytearray(), bytearray()
            self._kept.append((asked, answered))
            self._start(self._pass, client, server, asked)
            self._start(self._pass, server, client, answered)

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
        # What is sent to a client that has gone is kept, too.
        gone = False
        with suppress(OSError):
            while data := source.recv(CHUNK):
                kept += data
                try:
                    gone or target.sendall(data)
                except OSError:
                    gone = True
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class TappedUrl(NamedTuple):
    """The address that leads through a tap, and the recorders before and behind it."""

    url: str
    before: TcpRecorder
    behind: TcpRecorder


@contextmanager
def tapped(url: str, journal: Path) -> Iterator[TappedUrl]:
    """A running `mew-lab tap --listen` before a server, with a recorder on each side of it."""
    behind = TcpRecorder(url)
    words = ["tap", "--journal", str(journal), "--listen", "127.0.0.1:0", "--to", behind.url]
    process = subprocess.Popen(
        [sys.executable, "-m", "mew_lab.cli", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stderr is not None
        process.stderr.readline()
        found = re.search(r"connect to (\S+)", line := process.stderr.readline())
        assert found, line
        before = TcpRecorder(found[1])
        yield TappedUrl(before.url, before, behind)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def difference(there: TappedUrl) -> str:
    """What differs between both sides of a tap but for the `Host` of requests; nothing after a faithful one."""
    sides = []
    for recorder in (there.before, there.behind):
        port = urlsplit(recorder.url).netloc.encode()
        sides.append(
            sorted(
                (re.sub(rb"(?mi)^(host: )%s\r$" % port, rb"\1HOST\r", asked), answered)
                for asked, answered in recorder.conversations()
            )
        )
    before, behind = sides
    if len(before) != len(behind):
        return f"{len(before)} connections before the tap, {len(behind)} behind it"
    return "".join(
        f"{one!r}\nbecame\n{two!r}\n" for one, two in zip(before, behind, strict=True) if one != two
    )


def main() -> int:
    """Runs a command between two files."""
    folder, *command = sys.argv[1:]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin is not None and process.stdout is not None

    def pass_on(source: int, target: int, path: Path) -> None:
        with path.open("wb", buffering=0) as kept, suppress(OSError):
            while data := os.read(source, CHUNK):
                kept.write(data)
                while data:
                    data = data[os.write(target, data) :]
        os.close(target)

    up = threading.Thread(target=pass_on, args=(process.stdout.fileno(), 1, Path(folder) / "out"))
    down = threading.Thread(
        target=pass_on, args=(0, process.stdin.fileno(), Path(folder) / "in"), daemon=True
    )
    down.start()
    up.start()
    up.join()
    return process.wait()


if __name__ == "__main__":
    os._exit(main())
