"""A space with its participants on stage: what somebody does, and what everybody then hears.

A connection is called like its participant unless the test says otherwise. Time stands still until `at` moves it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mew_lab.protocol.envelope import Envelope
from mew_lab.space.core import BASELINE, Space
from mew_lab.space.events import (
    Close,
    Deliver,
    Effect,
    Enrolled,
    Event,
    FrameReceived,
    HttpReply,
    Joined,
    Left,
    Received,
    Record,
    Relay,
)
from mew_lab.space.state import LIMITS, SpaceLimits

START = datetime(2026, 1, 1, tzinfo=UTC)

Rights = str | Iterable[str | Mapping[str, Any]]


def patterns(rights: Rights) -> list[Mapping[str, Any]]:
    """`"chat"` and `["chat", {"kind": …}]` written out."""
    listed = [rights] if isinstance(rights, str) else rights
    return [{"kind": one} if isinstance(one, str) else one for one in listed]


class Step:
    """What came of one event."""

    def __init__(self, effects: tuple[Effect, ...]) -> None:
        self.effects = effects

    def of(self, type_: type) -> list[Any]:
        """The effects of one type, in order."""
        return [one for one in self.effects if isinstance(one, type_)]

    def heard(self, connection: str, kind: str = "") -> list[Envelope]:
        """The envelopes that this connection is given, or those of one kind."""
        return [
            one.envelope
            for one in self.of(Deliver)
            if connection in one.connections and kind in ("", one.envelope.kind)
        ]

    def kinds(self, connection: str) -> list[str]:
        return [one.kind for one in self.heard(connection)]

    def frames(self, connection: str) -> list[bytes]:
        return [one.data for one in self.of(Relay) if connection in one.connections]

    @property
    def hearers(self) -> set[str]:
        """All connections that are given anything."""
        return {name for one in self.of(Deliver) + self.of(Relay) for name in one.connections}

    def said(self, kind: str) -> Envelope:
        """The one envelope of this kind."""
        [envelope] = [one.envelope for one in self.of(Deliver) if one.envelope.kind == kind]
        return envelope

    def told(self, kind: str) -> set[str]:
        """Who is given the one envelope of this kind."""
        [deliver] = [one for one in self.of(Deliver) if one.envelope.kind == kind]
        return set(deliver.connections)

    @property
    def error(self) -> dict[str, Any]:
        """The payload of the one system/error."""
        return self.said("system/error").payload

    @property
    def record(self) -> Record:
        """The first line of the journal: what happened."""
        first: Record = self.of(Record)[0]
        return first

    @property
    def accepted(self) -> bool:
        return self.record.verdict == "accepted"

    @property
    def reply(self) -> HttpReply:
        """The answer to the one who posted."""
        [reply] = self.of(HttpReply)
        return reply  # type: ignore[no-any-return]

    @property
    def closed(self) -> dict[str, int]:
        """Close codes by connection."""
        return {one.connection: one.code for one in self.of(Close)}


class Stage:
    """Participants by name and rights; all of them join, in this order, but the `absent`."""

    def __init__(
        self,
        *,
        owner: str = "",
        absent: Iterable[str] = (),
        baseline: Iterable[Mapping[str, Any]] = BASELINE,
        limits: SpaceLimits = LIMITS,
        **rights: Rights,
    ) -> None:
        self.now = START
        self.space = Space(
            "demo",
            epoch=1,
            owner=owner,
            participants={name: patterns(held) for name, held in rights.items()},
            baseline=baseline,
            limits=limits,
        )
        self._sent = 0
        for name in rights:
            if name not in absent:
                self.join(name)

    def step(self, event: Event) -> Step:
        return Step(self.space.step(event, self.now))

    def at(self, seconds: float) -> None:
        self.now = START + timedelta(seconds=seconds)

    # --- coming and going ---

    def enrol(self, name: str, rights: Rights) -> Step:
        return self.step(Enrolled(name, tuple(patterns(rights))))

    def join(self, name: str, *, as_: str = "", on: str = "") -> Step:
        return self.step(Joined(on or as_ or name, name, as_ or name, "websocket"))

    def sink(self, name: str, *, on: str) -> Step:
        return self.step(Joined(on, name, name, "log"))

    def leave(self, connection: str) -> Step:
        return self.step(Left(connection, "gone"))

    # --- speaking ---

    def _text(self, kind: str, payload: Mapping[str, Any] | None, members: dict[str, Any]) -> str:
        self._sent += 1
        said = {"id": f"m{self._sent}", "kind": kind, **members}
        return json.dumps(said if payload is None else {**said, "payload": payload})

    def send(
        self, connection: str, kind: str, payload: Mapping[str, Any] | None = None, **members: Any
    ) -> Step:
        return self.raw(connection, self._text(kind, payload, members))

    def raw(self, connection: str, text: str | bytes) -> Step:
        return self.step(Received(text, connection))

    def post(
        self,
        name: str,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        as_: str = "",
        **members: Any,
    ) -> Step:
        return self.step(Received(self._text(kind, payload, members), None, name, as_ or name))

    def frame(self, connection: str, data: bytes, *, text: bool = False) -> Step:
        return self.step(FrameReceived(connection, data, text))

    # --- what a chapter says often ---

    def grant(self, giver: str, recipient: str, rights: Rights, **members: Any) -> Step:
        payload = {"recipient": recipient, "capabilities": patterns(rights)}
        return self.send(giver, "capability/grant", payload, **members)

    def revoke(self, revoker: str, **payload: Any) -> Step:
        return self.send(revoker, "capability/revoke", payload)

    def open(self, owner: str, /, **payload: Any) -> str:
        """Opens a stream; returns its id."""
        opened = self.send(owner, "stream/request", {"direction": "upload", **payload}).said("stream/open")
        return str(opened.payload["stream_id"])

    def held(self, name: str) -> list[Mapping[str, Any]]:
        """What a participant may send, as a welcome tells it: asked by one more admission, which leaves again."""
        welcome = self.join(name, as_=f"{name}-asks").said("system/welcome")
        self.leave(f"{name}-asks")
        return list(welcome.payload["you"]["capabilities"])

    def streams(self) -> list[dict[str, Any]]:
        """The active streams as a late joiner learns of them."""
        self.enrol("late", [])
        welcome = self.join("late").said("system/welcome")
        self.leave("late")
        return list(welcome.payload["active_streams"])
