"""What is remembered for who asks later: in order, within its bounds, and private where it was private."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mew_lab.gateway.ring import MAX_BYTES, MAX_ENVELOPES, Page, Ring
from mew_lab.space.events import Record

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUNTIME_IDS = {"anna-7": "anna"}


def a_ring(**bounds: int) -> Ring:
    return Ring(lambda name: RUNTIME_IDS.get(name, name), **bounds)


def said(text: str, *, at: datetime = START, verdict: str = "accepted") -> Record:
    return Record(1, at, "received", "demo", "anna", verdict=verdict, raw=text)


def from_gateway(kind: str, *to: str, at: datetime = START) -> Record:
    members: dict[str, Any] = {"from": "system:gateway", "kind": kind, "payload": {}}
    if to:
        members["to"] = list(to)
    return Record(1, at, "sent", "demo", "system:gateway", verdict="sent", raw=json.dumps(members))


def texts(ring: Ring, after: datetime | None = None, *, participant: str = "bert", **asked: Any) -> list[str]:
    return list(page(ring, after, participant=participant, **asked).texts)


def page(ring: Ring, after: datetime | None = None, *, participant: str = "bert", **asked: Any) -> Page:
    found = ring.since(after, participant=participant, **asked)
    assert found is not None
    return found


def test_the_bounds_are_those_of_the_ruling() -> None:
    assert (MAX_ENVELOPES, MAX_BYTES) == (10_000, 16 * 1024 * 1024)


def test_what_came_strictly_later_is_given_in_its_order() -> None:
    ring = a_ring()
    for n in range(4):
        ring.take(said(f"{n}", at=START + n * SECOND))
    assert texts(ring) == ["0", "1", "2", "3"]
    assert texts(ring, START - SECOND) == ["0", "1", "2", "3"]
    assert texts(ring, START + SECOND) == ["2", "3"]
    assert texts(ring, START + 1.5 * SECOND) == ["2", "3"]
    assert texts(ring, START + 3 * SECOND) == []


@pytest.mark.parametrize("verdict", ["refused", ""])
def test_what_did_not_go_out_is_not_remembered(verdict: str) -> None:
    ring = a_ring()
    ring.take(said("never delivered", verdict=verdict))
    ring.take(Record(1, START, "joined", "demo", "anna", verdict="accepted"))
    assert texts(ring, participant="anna") == []


@pytest.mark.req("P-5.3-7")
@pytest.mark.parametrize("kind", ["system/welcome", "system/error", "space/invite-ack"])
def test_a_private_envelope_is_for_its_addressee_alone(kind: str) -> None:
    ring = a_ring()
    ring.take(from_gateway(kind, "anna-7"))
    assert len(texts(ring, participant="anna")) == 1
    assert texts(ring, participant="bert") == []


@pytest.mark.req("P-5.3-7")
def test_a_private_envelope_that_reached_nobody_is_for_nobody() -> None:
    ring = a_ring()
    ring.take(from_gateway("space/invite-ack"))
    assert texts(ring, participant="anna") == texts(ring, participant="bert") == []


def test_what_the_gateway_says_to_everybody_is_for_everybody_even_where_it_names_one() -> None:
    ring = a_ring()
    ring.take(from_gateway("system/presence"))
    ring.take(from_gateway("stream/open", "anna-7"))
    assert len(texts(ring, participant="bert")) == 2


def test_whoever_asks_page_by_page_misses_none_and_sees_none_twice() -> None:
    ring = a_ring()
    for n in range(7):  # all within one microsecond
        ring.take(said(f"{n}"))
    seen, after = [], None
    for size, more in ((3, True), (3, True), (1, False), (0, False)):
        one = page(ring, after, limit=3)
        assert (len(one.texts), one.more) == (size, more)
        seen += one.texts
        after = one.next
    assert seen == list("0123456")
    ring.take(said("7"))
    assert texts(ring, after) == ["7"]


def test_the_next_time_to_ask_from_lies_behind_what_the_asker_may_not_see() -> None:
    ring = a_ring()
    ring.take(said("0"))
    ring.take(from_gateway("system/error", "anna", at=START + SECOND))
    assert page(ring).next == START + SECOND
    assert page(ring, START + 5 * SECOND).next == START + 5 * SECOND


@pytest.mark.threat(9)
def test_the_oldest_are_forgotten_by_number_and_who_asks_for_them_is_told() -> None:
    ring = a_ring(max_envelopes=3)
    for n in range(5):
        ring.take(said(f"{n}", at=START + n * SECOND))
    assert texts(ring) == ["2", "3", "4"]
    assert ring.since(START, participant="bert") is None
    assert ring.since(START + 0.9 * SECOND, participant="bert") is None
    assert texts(ring, START + SECOND) == ["2", "3", "4"]  # "1" itself was not asked for


@pytest.mark.threat(9)
def test_the_oldest_are_forgotten_by_bytes_and_not_by_characters() -> None:
    ring = a_ring(max_bytes=12)
    for n, text in enumerate(["aaaa", "ääa", "bbbbb"]):  # 4, 5 and 5 bytes
        ring.take(said(text, at=START + n * SECOND))
    assert texts(ring) == ["ääa", "bbbbb"]
    ring.take(said("x" * 13, at=START + 9 * SECOND))  # more than all that is kept
    assert texts(ring) == []
    assert ring.since(START + 8 * SECOND, participant="bert") is None


def test_nothing_forgotten_means_that_any_time_can_be_asked_from() -> None:
    ring = a_ring()
    long_ago = datetime(1, 1, 1, tzinfo=UTC)
    assert texts(ring, long_ago) == []
    ring.take(said("0"))
    assert texts(ring, long_ago) == ["0"]
    assert page(a_ring()).next == long_ago
