"""A gateway end in the hand of a test: it says whatever the test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.transport.link import Link
from mew_lab.transport.memory import MemoryLink, pair

__all__ = ["Odd", "entry"]


class Odd:
    """A gateway end in the hand of a test."""

    def __init__(self, *, can: Sequence[Any] = ({"kind": "stream/*"},), **options: Any) -> None:
        self.end: MemoryLink
        self.can = can
        self.others: list[dict[str, Any]] = []
        self.extension: Any = None
        self.streams: list[dict[str, Any]] | None = []
        self.errors: list[Exception] = []
        self.client = MEWClient(space="demo", connect_link=self.open, reconnect_delay=0.0, **options)
        self.client.on_error(self.errors.append)
        self.participant = MEWParticipant(self.client)
        self.book = self.participant.streams
        self.marks = 0

    async def open(self) -> Link:
        here, self.end = pair()
        self.welcome()
        return here

    def welcome(self) -> None:
        you = {"id": "me", "capabilities": list(self.can)}
        payload: dict[str, Any] = {"you": you, "participants": self.others}
        if self.streams is not None:
            payload["active_streams"] = self.streams
        if self.extension:
            payload["x-mew-lab"] = self.extension
        self.say("system/welcome", payload, to=["me"])

    def say(self, kind: str, payload: Any, sender: str = "system:gateway", **members: Any) -> None:
        self.end.put(json.dumps({"id": "g", "from": sender, "kind": kind, "payload": payload, **members}))

    async def told(self) -> None:
        """All that was said so far has been heard."""
        self.marks += 1
        mark, heard = f"mark-{self.marks}", asyncio.Event()
        stop = self.client.on_message(lambda one: heard.set() if one.id == mark else None)
        self.say("chat", {"text": "mark"}, sender="eve", id=mark)
        async with asyncio.timeout(10):
            await heard.wait()
        stop()

    async def sent(self, kind: str) -> Envelope:
        """The next message of this kind that came; others are passed over."""
        async with asyncio.timeout(10):
            while True:
                raw = await self.end.receive()
                envelope = Envelope.from_members(json.loads(raw), raw=str(raw))
                if envelope.kind == kind:
                    return envelope


def entry(id: str, owner: str = "bot", **fields: Any) -> dict[str, Any]:
    return {
        "stream_id": id,
        "owner": owner,
        "direction": "upload",
        "created": "2025-11-23T12:00:00Z",
        **fields,
    }
