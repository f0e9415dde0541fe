"""ASGI servers, connections and journals that can be looked at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mew_lab.errors import JournalError
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.delivery import Frame
from mew_lab.gateway.gateway import Gateway
from mew_lab.space.events import Record


class FakeTransport:
    """A socket that takes what fits: `waiting` bytes are what the reader has not taken."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.waiting = 0
        self.aborted = False
        self.closing = False
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def is_closing(self) -> bool:
        return self.closing or self.aborted

    def abort(self) -> None:
        self.aborted = True


class FakeProtocol:
    """As much of the server library's protocol as is used; `writable` is cleared while a reader is slow."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.writable = asyncio.Event()
        self.writable.set()
        self.sent: list[MutableMapping[str, Any]] = []
        self.gone = False
        self.read_paused = False
        self.ping_timeout = 0.1
        self.pong_timer: asyncio.TimerHandle | None = None
        self.overdue = 0

    def handle_pong(self, event: Any) -> None: ...

    def handle_ping(self) -> None: ...

    def handle_cont(self, event: Any) -> None: ...

    def keepalive_timeout(self) -> None:
        self.overdue += 1

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.writable.wait()
        if self.gone:
            raise OSError("client is gone")
        self.sent.append(message)


class FakeServer:
    """Without an inside that we know."""

    def __init__(self) -> None:
        self.sent: list[MutableMapping[str, Any]] = []

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


async def turn() -> None:
    """Lets everything that is ready in this turn of the loop happen."""
    await asyncio.sleep(0)


class Tape:
    """A journal that can be full."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.full = False

    def append(self, records: Iterable[Record]) -> None:
        if self.full:
            raise JournalError("no space left on device", path="tape")
        self.records.extend(records)


class Disk(Tape):
    """A journal in a file, on a disk that has so much room."""

    def __init__(self, free: int = 1 << 40) -> None:
        super().__init__()
        self.free = free

    @property
    def head(self) -> tuple[int, bytes]:
        return len(self.records), b"%064d" % len(self.records)

    def free_space(self) -> int:
        return self.free


class Listener:
    """A peer that keeps the messages that it was given; those that `journal` had not recorded by then as well."""

    def __init__(self, journal: Tape | None = None) -> None:
        self.heard: list[dict[str, Any]] = []
        self.closed: tuple[int, str] | None = None
        self.journal = journal
        self.unrecorded: list[str] = []

    def put(self, frame: Frame) -> None:
        text = frame.message
        if isinstance(text, str):
            self.heard.append(json.loads(text))
            if self.journal is not None and all(text != record.raw for record in self.journal.records):
                self.unrecorded.append(text)

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        self.closed = (code, reason)

    async def alive(self, timeout: float) -> bool:
        return True

    @property
    def kinds(self) -> list[str]:
        return [one["kind"] for one in self.heard]

    def errors(self) -> list[str]:
        return [one["payload"]["error"] for one in self.heard if one["kind"] == "system/error"]

    def chats(self) -> list[str]:
        return [one["id"] for one in self.heard if one["kind"] == "chat"]


START = datetime(2026, 1, 1, tzinfo=UTC)


class Scene:
    """A gateway with a space `demo`: its clock is `now`, or the wall's, and a listener hears for each of the people."""

    def __init__(
        self, people: Mapping[str, Sequence[str]], *, tape: Any = None, wall: bool = False, **config: Any
    ) -> None:
        self.now = START
        self.tape = Tape() if tape is None else tape
        self.gateway = Gateway(clock=lambda: datetime.now(UTC) if wall else self.now, new_epoch=lambda: 5)
        participants = {
            name: {"capabilities": [{"kind": kind} for kind in may]} for name, may in people.items()
        }
        described = {"name": "demo", "participants": participants, **config}
        self.space = self.gateway.add_space(SpaceConfig.model_validate(described), journal=self.tape)
        self.peers = {name: Listener() for name in people}
        self.of = {
            name: self.gateway.admit("demo", name, peer, via="websocket") for name, peer in self.peers.items()
        }

    def say(self, who: str, kind: str, payload: object, **members: Any) -> None:
        self.hear(who, json.dumps({"kind": kind, "payload": payload, **members}))

    def hear(self, who: str, message: str | bytes) -> None:
        """The gateway is given this by the connection of a participant."""
        self.gateway.receive("demo", self.of[who], message)

    def events(self, name: str) -> list[Record]:
        return [one for one in self.tape.records if one.event == name]
