"""A gateway at which the effects of messages fail, so that a test can read what is then said of them.

It is ours, with one thing taken from it: it says nothing of itself, as gateways of other makers. Each kind of message
in a table fails in one of four ways.

    relayed    it is accepted and delivered, and the gateway does nothing of its own
    refused    its sender gets a `system/error`
    swallowed  nobody ever gets an answer
    cut off    the connection of its sender ends
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import pytest

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import EXTENSION
from mew_lab.space import core
from mew_lab.space.events import Close, Event, Received
from mew_lab.space.refusal import Refusal
from mew_lab.space.turn import Turn

__all__ = ["HOWS", "How", "failing"]

How = Literal["relayed", "refused", "swallowed", "cut off"]
HOWS: tuple[How, ...] = ("relayed", "refused", "swallowed", "cut off")


def failing(patch: pytest.MonkeyPatch) -> dict[str, How]:
    """Makes every gateway of this process such a one; returns the table, kind by kind, to be filled at any time."""
    fails: dict[str, How] = {}
    plan, say, rules = core.Space.plan, Turn.say, core.RULES

    class Rules(Mapping[str, Any]):
        def __getitem__(self, kind: str) -> Any:
            if fails.get(kind) == "refused":
                return refuse
            if fails.get(kind) == "relayed":
                raise KeyError(kind)
            return rules[kind]

        def __iter__(self) -> Any:
            return iter(rules)

        def __len__(self) -> int:
            return len(rules)

    def refuse(*about: Any) -> Any:
        raise Refusal("unauthorized", "not at this gateway")

    def fail(self: core.Space, event: Event, now: datetime) -> Turn:
        kind = json.loads(event.text).get("kind") if isinstance(event, Received) else None
        how = fails.get(kind or "")
        if not isinstance(event, Received) or how not in ("swallowed", "cut off"):
            return plan(self, event, now)
        turn = Turn(self.state, space=self.name, epoch=self.epoch, now=now)
        if how == "cut off" and event.connection is not None:
            turn.do(Close(event.connection, 1011, "of the test"))
        return turn

    def say_nothing_of_itself(self: Turn, kind: str, payload: dict[str, Any], **how: Any) -> Envelope:
        if kind == "system/welcome":
            payload, how = {name: payload[name] for name in payload if name != EXTENSION}, {**how, "text": ""}
        return say(self, kind, payload, **how)

    patch.setattr(core, "RULES", Rules())
    patch.setattr(core.Space, "plan", fail)
    patch.setattr(Turn, "say", say_nothing_of_itself)
    return fails
