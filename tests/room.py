"""A space of this process, and the participants that a test seats in it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import ToolBox
from mew_lab.space.events import Record
from mew_lab.transport.link import Link

Rights = str | Sequence[Mapping[str, Any]] | None


class Room:
    """A gateway with one space `demo`, its records, and those that were seated; at its end all of them have left.

    Where rights are asked for, they are a profile or capabilities; None is what the participant has already.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.gateway = Gateway(observe=self.records.append)
        self.space = self.gateway.add_space(SpaceConfig(name="demo"))
        self.links: dict[str, Link] = {}
        self.clients: list[MEWClient] = []
        self.seated: list[MEWParticipant] = []

    def enrol(self, name: str, can: Rights) -> None:
        if can is not None:
            self.gateway.enrol("demo", name, PROFILES[can] if isinstance(can, str) else can)

    def link(
        self, name: str, *, runtime_id: str | None = None, wrap: Callable[[Link], Link] = lambda link: link
    ) -> Callable[[], Awaitable[Link]]:
        """What opens a link as that participant; the one opened last stands in `links`."""

        async def link() -> Link:
            self.links[name] = attach(self.gateway, "demo", name, runtime_id=runtime_id)
            return wrap(self.links[name])

        return link

    def client(
        self, name: str, can: Rights = None, *, runtime_id: str | None = None, **options: Any
    ) -> MEWClient:
        """A client that has not joined yet; `options` are those of `MEWClient`."""
        self.enrol(name, can)
        given = {"connect_link": self.link(name, runtime_id=runtime_id), **options}
        self.clients.append(MEWClient(space="demo", **given))
        return self.clients[-1]

    def prepare(
        self,
        name: str,
        can: Rights = "human",
        *,
        runtime_id: str | None = None,
        client: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> MEWParticipant:
        """A participant that has not joined yet and leaves with the others; `client` are options of its client."""
        made = MEWParticipant(self.client(name, can, runtime_id=runtime_id, **(client or {})), **options)
        self.seated.append(made)
        return made

    async def seat(self, name: str, can: Rights = "human", **options: Any) -> MEWParticipant:
        """A participant that has joined; `options` are those of `prepare`."""
        participant = self.prepare(name, can, **options)
        await participant.start()
        return participant

    async def tool(self, name: str, function: Callable[..., Any], /, **options: Any) -> MEWParticipant:
        """A participant with one tool; `options` are those of `ToolBox.add`."""
        box = ToolBox(name=name)
        box.add(function, **options)
        return await self.seat(name, "tool", tools=box)

    def sent(self, *kinds: str, sender: str = "") -> list[Envelope]:
        """What the space accepted, in order; of some kinds, of one sender."""
        raws = [one.raw for one in self.records if one.verdict == "accepted" and one.raw]
        envelopes = [Envelope.from_members(json.loads(raw), raw=raw) for raw in raws]
        return [
            one
            for one in envelopes
            if (not kinds or one.kind in kinds) and (not sender or one.sender == sender)
        ]

    async def close(self) -> None:
        for participant in self.seated:
            await participant.stop()
        for client in self.clients:
            await client.disconnect()
        self.gateway.close()
