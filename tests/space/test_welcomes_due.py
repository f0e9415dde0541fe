"""A right that many hold ends with one message: the welcomes that tell of it come in portions, each an event of its own.

Rights themselves change at once. The same events are fed to a space that tells every welcome within the event, and
both end alike.
"""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from mew_lab.log.replay import event_of
from mew_lab.space.core import Space
from mew_lab.space.events import (
    Deliver,
    Effect,
    Enrolled,
    GrantEnded,
    Joined,
    Received,
    Record,
    WelcomesDue,
)
from mew_lab.space.opening import opening_record, reopen
from mew_lab.space.snapshot import restore, snapshot
from mew_lab.space.state import LIMITS

from .stage import START, Stage
from .test_snapshot import NAMES, an_event

pytestmark = [pytest.mark.ruling("R24"), pytest.mark.threat(37)]

MOST = 700  # bytes of welcomes in one event
SMALL = LIMITS._replace(welcome_bytes=MOST)


def crowd(most: int = 5000) -> Stage:
    """Thirty participants; ann has given each something, and root may put ann out."""
    stage = Stage(
        owner="root",
        root="*",
        ann=["chat", "capability/grant"],
        limits=LIMITS._replace(welcome_bytes=most),
        **{f"p{n}": [] for n in range(30)},
    )
    for n in range(30):
        stage.grant("ann", f"p{n}", "chat")
    return stage


def welcomes(effects: tuple[Effect, ...]) -> list[tuple[str, int]]:
    """Who is welcomed, and the bytes of it."""
    return [
        (one.connections[0], len(one.envelope.raw))
        for one in effects
        if isinstance(one, Deliver) and one.envelope.kind == "system/welcome"
    ]


def test_one_event_tells_no_more_than_it_may_and_the_next_ones_tell_the_others_once_each() -> None:
    stage = crowd()
    kick = stage.send("root", "space/kick", {"participant_id": "ann"})
    told = welcomes(kick.effects)
    assert sum(size for _, size in told[:-1]) <= 5000 + 300 * len(told)
    assert 0 < len(told) < 30 and set(stage.space.state.due.values()) == {"root"}
    assert not stage.send("p29", "chat", {}).accepted, "the right itself is gone at once"
    while stage.space.state.due:
        step = stage.step(WelcomesDue())
        assert (step.record.event, step.record.participant) == ("welcomes_due", "root")
        portion = welcomes(step.effects)
        assert portion and sum(size for _, size in portion[:-1]) <= 5000 + 300 * len(portion)
        told += portion
    assert sorted(name for name, _ in told) == sorted(f"p{n}" for n in range(30))
    assert stage.step(WelcomesDue()).effects == ()


def test_whoever_leaves_is_owed_nothing_and_whoever_is_told_meanwhile_is_not_told_twice() -> None:
    stage = crowd()
    stage.send("root", "space/kick", {"participant_id": "ann"})
    first, second, *_ = stage.space.state.due
    stage.leave(first)
    assert [name for name, _ in welcomes(stage.grant("root", second, "mcp/request").effects)] == [second]
    told: list[str] = []
    while stage.space.state.due:
        told += [name for name, _ in welcomes(stage.step(WelcomesDue()).effects)]
    assert told and not {first, second} & set(told)


def test_a_portion_is_of_one_cause() -> None:
    stage = Stage(
        owner="root",
        root="*",
        guard=["space/kick"],
        ann=["chat", "capability/grant"],
        ben=["chat", "capability/grant"],
        limits=LIMITS._replace(welcome_bytes=10_000),
        **{f"p{n}": [] for n in range(30)},
    )
    for n in range(30):
        stage.grant("ann" if n % 2 else "ben", f"p{n}", "chat")
    stage.send("root", "space/kick", {"participant_id": "ann"})
    stage.send("guard", "space/kick", {"participant_id": "ben"})
    caused = dict(stage.space.state.due)
    assert set(caused.values()) == {"root", "guard"}
    while stage.space.state.due:
        step = stage.step(WelcomesDue())
        assert {caused[name] for name, _ in welcomes(step.effects)} == {step.record.participant}


def test_what_no_participant_has_caused_has_no_name() -> None:
    soon = "2026-01-01T00:00:01Z"
    stage = Stage(owner="root", root="*", limits=SMALL, **{f"p{n}": [] for n in range(20)})
    for n in range(20):
        payload = {"recipient": f"p{n}", "capabilities": [{"kind": "chat"}], "expires_at": soon}
        stage.send("root", "capability/grant", payload)
    stage.at(2)
    stage.step(GrantEnded())
    assert set(stage.space.state.due.values()) == {""}
    assert stage.step(WelcomesDue()).record.participant == ""


def test_a_journal_that_tells_of_no_such_limit_is_replayed_with_every_welcome_at_once() -> None:
    record = opening_record(crowd().space, START)
    assert reopen(record).state.limits.welcome_bytes == 5000
    old = record._replace(detail=record.detail.replace('"welcome_bytes":5000,', ""))
    assert old != record and reopen(old).state.limits.welcome_bytes == 0
    stage = crowd(most=0)
    assert len(welcomes(stage.send("root", "space/kick", {"participant_id": "ann"}).effects)) == 30
    assert not stage.space.state.due


@pytest.mark.parametrize("seed", range(40))
def test_everybody_ends_up_knowing_what_it_holds_as_where_all_is_told_at_once(seed: int) -> None:
    r = random.Random(seed)
    people = {name: [{"kind": "*"}] for name in NAMES} | {f"p{n}": [{"kind": "chat"}] for n in range(8)}
    made = [
        Space("demo", epoch=1, owner="ada", participants=people, limits=LIMITS._replace(welcome_bytes=most))
        for most in (MOST, 0)
    ]
    space, plain = made
    now = START
    first = opening_record(space, now)
    records: list[Record] = []
    last: list[dict[str, object]] = [{}, {}]
    owed = 0

    def take(at: int, effects: tuple[Effect, ...]) -> list[tuple[str, str]]:
        for one in effects:
            if isinstance(one, Record) and at == 0:
                records.append(one)
            elif isinstance(one, Deliver) and one.envelope.kind == "system/welcome":
                last[at][one.connections[0]] = one.envelope.payload["you"]["capabilities"]
        return [
            (one.verdict, one.code) for one in effects if isinstance(one, Record) and one.verdict != "sent"
        ]

    for name in people:
        for at, one in enumerate(made):
            take(at, one.step(Joined(f"{name}!", name, name, "websocket"), now))
    for n in range(120):
        now += timedelta(seconds=r.choice([0, 0, 0, 1, 7]))
        event = an_event(r, n)
        if isinstance(event, Received) and r.random() < 0.5:  # somebody who is here for certain
            event = event._replace(connection=f"{r.choice(NAMES)}!")
        try:
            expected = take(1, plain.step(event, now))
        except ValueError:  # the host's own fault: a name that is taken
            continue
        assert take(0, space.step(event, now)) == expected
        owed += bool(space.state.due)
        if space.state.due and r.random() < 0.4:
            take(0, space.step(WelcomesDue(), now))
        if n == 60:
            again = reopen(first)
            restore(again, snapshot(space))
            assert again.state.due == space.state.due
    while space.state.due:
        take(0, space.step(WelcomesDue(), now))
    here = space.state.connections
    assert here.keys() == plain.state.connections.keys()
    for name, connection in here.items():
        held = list(space.state.members[connection.participant].capabilities.patterns)
        assert last[0][name] == last[1][name] == held
    assert owed
    # The journal tells it all again: participants are enrolled there by the host.
    replayed = replay_enrolled(first, people, records)
    assert replayed.state.due == {} and replayed.state.connections == here


def replay_enrolled(first: Record, people: dict[str, list[dict[str, str]]], records: list[Record]) -> Space:
    """The space that comes of the events which the records tell of."""
    again = reopen(first)
    for name, held in people.items():
        again.step(Enrolled(name, tuple(held)), START)
    again.state.records = again.state.messages = 0
    foretold: list[Record] = []
    for record in records:
        if not foretold:
            effects = again.step(event_of(record), record.now)
            foretold = [one for one in effects if isinstance(one, Record)]
        assert foretold.pop(0) == record
    return again
