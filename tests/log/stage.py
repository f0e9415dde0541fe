"""A space without a gateway, whose records are kept as a gateway keeps them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from mew_lab.space.core import Space
from mew_lab.space.events import Deliver, Event, Record
from mew_lab.space.opening import opening_record

START = datetime(2026, 11, 21, 22, 40, 1, 123456, UTC)


class Stage:
    """A space whose records are kept, as a gateway keeps them."""

    def __init__(self, *, epoch: int = 7, **settings: Any) -> None:
        self.space = Space("demo", epoch=epoch, **settings)
        self.now = START
        self.records = [opening_record(self.space, START)]
        self.heard: list[str] = []

    def play(self, *events: Event) -> Stage:
        for event in events:
            self.now += timedelta(milliseconds=7)
            for effect in self.space.step(event, self.now):
                if isinstance(effect, Record):
                    self.records.append(effect)
                elif isinstance(effect, Deliver):
                    self.heard.append(effect.envelope.raw)
        return self


def says(kind: str, id: str, payload: Any = None, **members: Any) -> str:
    return json.dumps({"id": id, "kind": kind, **members, "payload": payload or {}})
