"""The first line of a journal is enough to make the same space again."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from mew_lab.errors import ProtocolError
from mew_lab.space.core import BASELINE, Space, resumption_note
from mew_lab.space.events import Deliver, Enrolled, Joined, Noted, Received, Record
from mew_lab.space.opening import opening_record, reopen
from mew_lab.space.state import UNBOUNDED, SpaceLimits

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_space_made_anew_from_its_first_record_does_the_same() -> None:
    space = Space(
        "demo",
        epoch=2**64 - 1,
        owner="anna",
        baseline=[{"kind": "chat", "id": "all"}],
        limit=4096,
        limits=SpaceLimits(grants=3, streams=0),
    )
    record = opening_record(space, NOW)
    assert (record.seq, record.now, record.event, record.space, record.raw) == (
        0,
        NOW,
        "opened",
        "demo",
        None,
    )
    assert json.loads(record.detail) == {
        "epoch": 2**64 - 1,
        "owner": "anna",
        "message_bytes": 4096,
        "baseline": [{"kind": "chat", "id": "all"}],
        "limits": {
            "participants": 1000,
            "streams": 0,
            "grants": 3,
            "invites": 1000,
            "capabilities": 1000,
            "description_bytes": 1024 * 1024,
            "rights_bytes": 1024 * 1024,
            "capability_bytes": 16 * 1024,
            "welcome_bytes": 1024 * 1024,
            "steps": 50_000,
            "turn_steps": 120_000,
            "handles": 100_000,
            "runtime_ids": 10_000,
            "connections": 512,
            "share": 8,
        },
        "edition": 4,
    }
    again = reopen(record)
    assert opening_record(again, NOW) == record
    for event in (Enrolled("anna", ({"kind": "mcp/*"},)), Joined("c1", "anna", "anna", "memory")):
        assert again.step(event, NOW) == space.step(event, NOW)


def test_what_an_older_journal_does_not_tell_is_as_it_was_then() -> None:
    again = reopen(Record(0, NOW, "opened", "demo", detail='{"format":1,"epoch":7}'))
    old = Space("demo", epoch=7, baseline=BASELINE, limits=SpaceLimits(**UNBOUNDED), edition=0)
    assert opening_record(again, NOW) == opening_record(old, NOW)


@pytest.mark.ruling("R22", "R24")
def test_a_space_of_an_older_journal_takes_the_numbers_that_it_took_until_it_is_resumed() -> None:
    space = reopen(Record(0, NOW, "opened", "demo", detail='{"format":1,"epoch":7}'))
    for event in (Enrolled("anna", ({"kind": "chat"},)), Joined("c1", "anna", "anna", "memory")):
        space.step(event, NOW)
    message = Received('{"kind":"chat","payload":{"n":18446744073709551616}}', "c1")
    assert next(one.verdict for one in space.step(message, NOW) if type(one) is Record) == "accepted"
    space.step(resumption_note("anna"), NOW)
    refused = next(one for one in space.step(message, NOW) if type(one) is Record)
    assert (refused.verdict, refused.code) == ("refused", "invalid_number")
    assert space.state.limits == SpaceLimits()


@pytest.mark.ruling("R22", "R24")
@pytest.mark.parametrize(
    ("event", "detail"),
    [
        *(("resumed", one) for one in ("", "anna", "{", "[]", "{}", '{"edition":"1"}', '{"edition":true}')),
        *(("resumed", one) for one in ('{"edition":1.0}', '{"edition":0}', '{"edition":1,"edition":1}')),
        ("decided", '{"edition":1}'),
        ("journal_head", '{"edition":1}'),
    ],
)
def test_only_a_note_of_a_resume_that_names_later_rules_brings_them(event: str, detail: str) -> None:
    """What an earlier version noted named none, and its space went on by the rules that it had."""
    space = Space("demo", epoch=7, limits=SpaceLimits(**UNBOUNDED), edition=0)
    space.step(Noted(event, "anna", detail), NOW)
    assert (space.state.edition, space.state.limits) == (0, SpaceLimits(**UNBOUNDED))
    space.step(resumption_note("anna"), NOW)
    assert (space.state.edition, space.state.limits) == (4, SpaceLimits())


@pytest.mark.parametrize("edition", ["5", "-1", '"1"', "true"])
def test_a_journal_whose_rules_this_version_does_not_know_is_not_replayed_by_others(edition: str) -> None:
    with pytest.raises(ProtocolError):
        reopen(Record(0, NOW, "opened", "demo", detail=f'{{"epoch":7,"edition":{edition}}}'))


@pytest.mark.threat(32)
@pytest.mark.parametrize(
    "detail",
    [
        "",
        "[]",
        "{}",
        '{"epoch":null}',
        '{"epoch":true}',
        '{"epoch":1,"message_bytes":1.5}',
        '{"epoch":1,"baseline":4}',
        '{"epoch":1,"baseline":[{"kind":"chat","paylod":{}}]}',
        '{"epoch":1,"limits":[]}',
        '{"epoch":1,"limits":{"grants":"many"}}',
        '{"epoch":1,"limits":{"wings":2}}',
        "[" * 100_000,
    ],
)
def test_a_record_that_does_not_tell_enough_is_reported(detail: str) -> None:
    with pytest.raises(ProtocolError, match="this is no space's first record"):
        reopen(Record(0, NOW, "opened", "demo", detail=detail))


@pytest.mark.ruling("R22")
def test_a_space_of_edition_1_refuses_overflows_as_it_did_until_it_is_resumed() -> None:
    space = reopen(Record(0, NOW, "opened", "demo", detail='{"epoch":7,"edition":1}'))
    for event in (Enrolled("anna", ({"kind": "chat"},)), Joined("c1", "anna", "anna", "memory")):
        space.step(event, NOW)
    message = Received('{"id":"m1","kind":"chat","payload":{"n":1e400}}', "c1")

    def answer() -> tuple[str, list[str]]:
        effects = space.step(message, NOW)
        said = next(one.envelope for one in effects if type(one) is Deliver)
        return next(one.code for one in effects if type(one) is Record), list(said.correlation_id)

    assert answer() == ("invalid_json", [])
    space.step(resumption_note("anna"), NOW)
    assert space.state.edition == 4
    assert answer() == ("invalid_number", ["m1"])
