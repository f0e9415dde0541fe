"""A space without a gateway, whose records are kept as a gateway keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from mew_lab.log.branching import begin_branch
from mew_lab.log.journal import Journal
from mew_lab.log.log import Log
from mew_lab.log.replay import replay
from mew_lab.space.core import Space, resumption_note
from mew_lab.space.events import Deliver, Enrolled, Event, GrantEnded, Left, Received, Record
from mew_lab.space.opening import opening_record

from .sessions import session

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


ENDS: list[dict[str, Any]] = [{"max_uses": 1}, {"max_uses": 3}, {"expires_at": "2026-11-21T22:40:02Z"}, {}]


def hostile(seed: int, events: int) -> Stage:
    """A hostile session, with grants that end by time and by use, and messages that use them."""
    dice = Random(seed)
    stage = Stage(epoch=dice.getrandbits(64), owner="anna")
    for event in session(stage.space, seed, events):
        stage.play(event)
        if dice.random() < 0.1:
            here = [name for name, one in stage.space.state.connections.items() if one.participant == "anna"]
            end = dice.choice(ENDS)
            payload = {"recipient": dice.choice(["bert", "dan"]), "capabilities": [{"kind": "mcp/*"}], **end}
            if here:
                stage.play(Received(says("capability/grant", f"end-{stage.now}", payload), here[0]))
        if dice.random() < 0.2:
            for name, one in list(stage.space.state.connections.items()):
                if one.participant in ("bert", "dan"):
                    kind = dice.choice(["mcp/request", "mcp/withdraw"])
                    named = {"id": f"use-{len(stage.records)}"} if dice.random() < 0.5 else {}
                    members: dict[str, Any] = {"kind": kind, **named, "payload": {"method": "x"}}
                    stage.play(Received(json.dumps(members), name))
        if dice.random() < 0.05:
            stage.now += timedelta(milliseconds=dice.choice([1, 900]))
            stage.play(GrantEnded())
    return stage


def observed(records: Iterable[Record], **about: Any) -> Log:
    """A live log that has observed these records."""
    log = Log.live(**about)
    for record in records:
        log.observe(record)
    return log


def keep(records: Iterable[Record], path: Path, **settings: Any) -> Path:
    journal = Journal(path, **settings)
    for record in records:
        journal.append([record])
    journal.close()
    return path


def branch_of(stage: Stage, folder: Path, *, seed: int, until: int, events: int = 150) -> Path:
    """A journal that branched from one of a session and went on; its gateway was resumed twice meanwhile.

    Nobody is enrolled anew in it, so that all rights are those of its snapshot and of later grants.
    """
    target = folder / "branch.jsonl"
    begin_branch([keep(stage.records, folder / "first.jsonl")], until, target=target, now=stage.now)
    now = stage.now
    for part in range(3):
        space = replay(target).space
        journal = Journal.resume(target, rotate_at=60_000)
        resumed: list[Event] = [resumption_note("anna"), *map(Left, space.state.connections)]
        for event in chain(resumed, session(space, 100 * seed + part, events // 3)):
            if isinstance(event, Enrolled):
                continue
            now += timedelta(milliseconds=7)
            journal.append([one for one in space.step(event, now) if type(one) is Record])
        journal.close()
    return target
