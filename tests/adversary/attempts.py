"""What the attempts beside it share: a bare WebSocket client, a bare HTTP client, one line a verdict.

An attempt is a program that tries to refute a promise and prints `[HELD ]` or `[BROKE]` a line. It says in its docstring what
was promised, and shows that it reaches the point where the promise would break. Run one with `python tests/adversary/NAME.py`.
It talks to 127.0.0.1 alone, in a scratch folder of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import websockets

SCRATCH = Path(tempfile.mkdtemp(prefix="mew-attempt-"))
os.chdir(SCRATCH)
_numbers = itertools.count(1)


def verdict(title: str, held: bool, detail: str = "") -> None:
    """Prints whether the promise held."""
    shown = f" -- {' '.join(detail.split())}" if detail else ""
    print(f"[{'HELD ' if held else 'BROKE'}] {title}{shown}", flush=True)


def reached(what: str, there: bool) -> None:
    """Ends the attempt unless it came to where the promise would break: else it would prove nothing."""
    if not there:
        raise SystemExit(f"the attempt did not reach its point: {what}")


def until(what: str, holds: Callable[[], Any]) -> None:
    """Waits until it holds; ends the attempt where it does not within ten seconds."""
    end = time.monotonic() + 10
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    reached(what, bool(holds()))


def settle(lab: Any, *seats: Any) -> None:
    """Waits until each seat has heard all that was sent before: what comes in between would have been heard."""
    heard: list[str] = []
    ends = [seat.participant.client.on_message(lambda one: heard.append(one.id)) for seat in seats]
    mark = lab.chat("the end of what was sent").id
    until("what was sent is delivered", lambda: heard.count(mark) == len(seats))
    for end in ends:
        end()


class Raw:
    """A bare WebSocket client: nothing of mew_lab's SDK in it."""

    def __init__(self, url: str, space: str, token: str, id: str | None = None) -> None:
        self.url, self.space, self.token, self.id = url, space, token, id
        self.inbox: list[dict[str, Any]] = []

    async def open(self, **options: Any) -> Raw:
        self.ws = await websockets.connect(
            f"{self.url}?space={self.space}",
            proxy=None,
            max_size=None,
            additional_headers={"Authorization": f"Bearer {self.token}"},
            open_timeout=20,
            **options,
        )
        if self.id:
            join = {"type": "join", "space": self.space, "token": self.token, "participantId": self.id}
            await self.ws.send(json.dumps(join))
        self.welcome = json.loads(await self.ws.recv())
        self.me = self.welcome["payload"]["you"]["id"]
        return self

    async def send(self, kind: str, payload: dict[str, Any] | None = None, **members: Any) -> str:
        id = members.pop("id", None) or f"x-{os.getpid()}-{next(_numbers)}"
        envelope = {
            "protocol": "mew/v0.4",
            "id": id,
            "ts": "2026-01-01T00:00:00Z",
            "from": self.me,
            "kind": kind,
            "payload": payload or {},
            **members,
        }
        await self.ws.send(json.dumps(envelope))
        return str(id)

    async def raw(self, text: str) -> None:
        await self.ws.send(text)

    async def recv(self, timeout: float = 2.0) -> dict[str, Any]:
        return dict(json.loads(await asyncio.wait_for(self.ws.recv(), timeout)))

    async def about(self, id: str, timeout: float = 3.0) -> dict[str, Any]:
        """The echo of a message, or the error about it."""
        end = time.monotonic() + timeout
        while True:
            message = await self.recv(max(0.05, end - time.monotonic()))
            self.inbox.append(message)
            if message.get("id") == id or id in (message.get("correlation_id") or []):
                return message

    async def drain(self, quiet: float = 0.3) -> list[dict[str, Any]]:
        """All that comes until nothing came for so many seconds."""
        got: list[dict[str, Any]] = []
        with contextlib.suppress(TimeoutError, websockets.ConnectionClosed):
            while True:
                got.append(await self.recv(quiet))
        return got

    async def close(self) -> None:
        await self.ws.close()


async def http(
    port: int, method: str, path: str, *, headers: dict[str, str] | None = None, body: bytes = b""
) -> tuple[str, bytes]:
    """The status line and the body of one request, whatever the server makes of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = {"Host": f"127.0.0.1:{port}", "Connection": "close", **(headers or {})}
    if body:
        lines.setdefault("Content-Length", str(len(body)))
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(head.encode("latin-1") + b"\r\n" + body)
    data = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(5):
            while piece := await reader.read(65536):
                data += piece
    writer.close()
    head_of_answer, _, rest = data.partition(b"\r\n\r\n")
    return head_of_answer.split(b"\r\n")[0].decode("latin-1"), rest
