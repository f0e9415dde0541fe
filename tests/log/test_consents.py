"""Each request of a random session gets the place that the session gives it: consented, own right, or not.

The verification sees the records alone.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.log.log import open_log
from mew_lab.log.receipts import Consents, check_consents
from mew_lab.space.events import Record

from ..conftest import examples
from .consent_sessions import ACTIONS, Session, approves, play
from .stage import keep


def places(found: Consents) -> dict[str, list[str]]:
    lists = {"consented": found.consented, "without": found.without, "other_calls": found.other_calls}
    return {name: [one.id for one in requests] for name, requests in lists.items()}


def check(session: Session, found: Consents) -> None:
    for name, ids in places(found).items():
        assert ids == [id for id, _ in session.places.get(name, [])], name
    assert found.own_right == Counter(sender for _, sender in session.places.get("own", []))
    assert found.unknown == ()
    assert found.requests == sum(map(len, session.places.values()))
    assert {(one.record.participant, one.note.request) for one in found.unused} == session.unsent


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(80), deadline=None)
def test_each_request_has_the_place_that_the_session_gives_it(seed: int) -> None:
    session = play(seed, 40)
    check(session, check_consents(session.stage.records))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(20), deadline=None)
def test_the_numbers_of_the_records_do_not_matter(seed: int) -> None:
    session = play(seed, 40)
    dice = random.Random(seed)
    numbers = [1, *(dice.randrange(1, 9) for _ in session.stage.records)]
    renumbered = [one._replace(seq=seq) for one, seq in zip(session.stage.records, numbers, strict=False)]
    renumbered[1] = renumbered[1]._replace(seq=1)
    check(session, check_consents(renumbered))


def test_a_journal_that_is_rotated_and_the_frame_of_decisions_say_the_same(tmp_path: Path) -> None:
    for seed in range(3):
        session = play(seed, 60)
        path = keep(session.stage.records, tmp_path / str(seed) / "j.jsonl", rotate_at=8_000)
        log = open_log(path)
        found = log.verify()
        check(session, found.consents)
        assert found.intact
        rows = log.decisions().set_index("seq")
        receipts = Counter(one["request"] for one in map(note_of, session.stage.records) if "request" in one)
        requests = Counter(id for place in session.places.values() for id, _ in place)
        once = [one for one in found.consents.consented if receipts[one.id] == requests[one.id] == 1]
        assert len(once) > 2
        for one in once:
            row = rows.loc[one.seq]
            assert one.receipt is not None
            assert (row["digest"], row["how"]) == (one.receipt.note.digest, one.receipt.note.how)


def note_of(record: Record) -> dict[str, Any]:
    with contextlib.suppress(ValueError, AttributeError):
        return dict(json.loads(record.detail).items()) if record.event == "decided" else {}
    return {}


@pytest.mark.parametrize("actions", ACTIONS, ids=lambda action: action.__name__)
def test_each_action_of_a_session_happens(actions: Callable[[Session], None]) -> None:
    """The sessions are worth something: every place is taken in them, by each action that is meant to take it."""
    session = Session(1)
    for _ in range(12):
        approves(session)
        actions(session)
    check(session, check_consents(session.stage.records))


def test_the_sessions_have_requests_in_every_place() -> None:
    counts = Counter({name: len(ids) for seed in range(20) for name, ids in play(seed, 40).places.items()})
    assert counts.keys() == {"consented", "own", "other_calls", "without"}


def test_no_receipt_covers_two_requests() -> None:
    for seed in range(40):
        session = play(seed, 60)
        used = [one.receipt for one in check_consents(session.stage.records).consented]
        records: list[Record] = [one.record for one in used if one is not None]
        assert len({id(one) for one in records}) == len(records)
