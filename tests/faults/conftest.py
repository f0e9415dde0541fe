"""A gateway in a process of its own, as `mew-lab serve` starts it, and lean sockets that listen to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shlex
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ..waiting import until

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("MEW_LAB_")} | {
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
}
UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def masked(first: int, data: bytes) -> bytes:
    """A client's frame; a mask of zeros leaves the payload readable (RFC 6455 §5.3)."""
    size = len(data)
    if size < 126:
        return bytes((first, 0x80 | size)) + bytes(4) + data
    if size < 1 << 16:
        return bytes((first, 0xFE)) + size.to_bytes(2) + bytes(4) + data
    return bytes((first, 0xFF)) + size.to_bytes(8) + bytes(4) + data


class Ear(asyncio.Protocol):
    """One WebSocket of a participant: `texts` are all whole text messages that came, `times` when."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.times: list[float] = []
        self.closed: tuple[int, str] | None = None
        self.gone = asyncio.Event()
        self.heard = asyncio.Event()  # something came; to be cleared by who waits
        self._upgraded = asyncio.Event()
        self._rest = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, fault: Exception | None) -> None:
        self.gone.set()

    def data_received(self, data: bytes) -> None:
        data, now = self._rest + data, time.monotonic()
        if not self._upgraded.is_set():
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self._rest = head
                return
            assert b" 101 " in head, head
            self._upgraded.set()
        at, size = 0, len(data)
        while at + 2 <= size:
            length, head_size = data[at + 1], 2
            if length >= 126:
                head_size = 4 if length == 126 else 10
                length = int.from_bytes(data[at + 2 : at + head_size])
            if at + head_size + length > size:
                break
            self._frame(data[at] & 15, data[at + head_size : at + head_size + length], now)
            at += head_size + length
        self._rest = data[at:]

    def _frame(self, opcode: int, payload: bytes, now: float) -> None:
        if opcode == 1:
            self.texts.append(payload.decode())
            self.times.append(now)
            self.heard.set()
        elif opcode == 9:
            self.transport.write(masked(0x8A, payload))
        elif opcode == 8:
            self.closed = (int.from_bytes(payload[:2]), payload[2:].decode())

    def say(self, *texts: str) -> None:
        self.transport.write(b"".join([masked(0x81, text.encode()) for text in texts]))

    def hear(self, kind: str) -> list[dict[str, Any]]:
        """The envelopes of a kind that came so far."""
        mark = f'"kind":"{kind}"'
        return [json.loads(text) for text in self.texts if mark in text.replace('": "', '":"')]

    async def wait(self, count: int) -> None:
        await until(lambda: len(self.texts) >= count)

    @classmethod
    async def join(cls, port: int, token: str, *, buffer: int = 0) -> Ear:
        """Joined by a join frame, its welcome there; `buffer` bounds what its system keeps for it unread."""
        one = socket.socket()
        if buffer:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        one.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(one, ("127.0.0.1", port))
        _, ear = await loop.create_connection(cls, sock=one)
        ear.transport.write(UPGRADE.format(port=port).encode())
        await ear._upgraded.wait()
        ear.say(json.dumps({"type": "join", "token": token}))
        await ear.wait(1)
        return ear


class Served:
    """The process, the port and the tokens. `end` is harmless when it has ended."""

    def __init__(self, process: asyncio.subprocess.Process, journal: Path) -> None:
        self.process = process
        self.folder = journal.parent
        self.journal = journal
        self.port = 0
        self.tokens: dict[str, str] = {}
        self.told = ""

    @classmethod
    async def start(
        cls,
        folder: Path,
        people: Iterable[str],
        *,
        profile: str = "human",
        journal: str = "journal.jsonl",
        resume: int | None = None,
    ) -> Served:
        """Starts a gateway with these people, each `name` or `name=profile`; with `resume`, the one that wrote the
        journal again, on that port."""
        people = list(people)
        words = [
            word for name in people for word in ("--enrol", name if "=" in name else f"{name}={profile}")
        ]
        how = (
            ["--journal", journal, *words] if resume is None else ["--resume", journal, "--port", str(resume)]
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mew_lab.cli", "serve", *how,
            cwd=folder, env=ENVIRONMENT, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        made = cls(process, folder / journal)
        async with asyncio.timeout(30):
            while len(made.tokens) <= len(people):
                line = (await process.stdout.readline()).decode()
                assert line, await made.complaint()
                made._read(line)
        return made

    def _read(self, line: str) -> None:
        self.told += line
        if line.startswith("space "):
            self.port = int(line.split(":")[-1].split("/")[0])
        elif ": mew-lab join " in line:
            name, _, words = line.partition(": ")
            (path,) = (after for word, after in pairwise(shlex.split(words)) if word == "--token-file")
            self.tokens[name] = Path(path).read_text().strip()

    async def complaint(self) -> str:
        return (await self.process.stderr.read()).decode()

    async def join(self, name: str, **how: Any) -> Ear:
        return await Ear.join(self.port, self.tokens[name], **how)

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}"}

    def memory(self, line: str = "VmRSS") -> int:
        """Bytes of memory that the process has now, or has had at most (`VmHWM`)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (said,) = (one for one in status.splitlines() if one.startswith(line))
        return int(said.split()[1]) * 1024

    def limit_files(self, size: int | None) -> None:
        """From now on no file of the process may grow beyond this size; None lifts it."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def end(self) -> str:
        """Ends it in order; what it had to complain of."""
        if self.process.returncode is None:
            self.process.terminate()
        complaint = await self.complaint()
        await self.process.wait()
        return complaint


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Starts gateways in folders of their own; none of them is left behind."""
    if sys.platform != "linux":
        pytest.skip("a process is watched by /proc here")
    started: list[Served] = []

    async def start(*people: str, **how: Any) -> Served:
        folder = tmp_path / f"gateway-{len(started)}"
        folder.mkdir()
        started.append(await Served.start(folder, people, **how))
        return started[-1]

    yield start
    for one in started:
        await one.kill()


def chat(n: int, *, sender: str = "", size: int = 20, **more: Any) -> str:
    """An envelope with a number in it and a text of so many characters."""
    said: dict[str, Any] = {"id": f"{sender}-{n}"} if sender else {}
    text = "as it was said, so it stands. "  # no token of another test is part of it
    payload = {"n": n, "text": (text * (size // len(text) + 1))[:size]}
    return json.dumps({**said, "kind": "chat", "payload": payload, **more}, separators=(",", ":"))
