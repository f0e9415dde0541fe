"""What happens instead of the rows that are not done: every recorded divergence is pinned here."""

from __future__ import annotations

import re

import pytest

from .report_requirements import DIVERGENCES, EXTENSIONS, read_report, read_rows
from .space.stage import Stage

LEVELS = {row.id: row.level for row in read_rows()}


def test_each_is_a_row_of_the_table_once_and_a_must_that_is_not_done_is_one_that_a_ruling_turns_round() -> (
    None
):
    rows = [one.row for one in DIVERGENCES]
    assert len(rows) == len(set(rows))
    binding = {
        one.row: one.ruling for one in DIVERGENCES if LEVELS[one.row].startswith("MUST") and not one.but
    }
    assert all(re.fullmatch(r"R\d+[bc]?", ruling) for ruling in binding.values()), binding


def test_each_names_the_ruling_that_decides_it_and_says_what_happens_instead() -> None:
    for one in (*DIVERGENCES, *EXTENSIONS):
        assert re.fullmatch(
            r"R([1-9]|[123][0-9]|4[0-3])[bc]?|C-\d+|T-\d+|(P-[\d.]+|S-[A-Z\d]+)-\d+|threat \d+", one.ruling
        )
        assert len(one.note.split()) >= 8


def test_each_is_pinned_by_a_test() -> None:
    shown = read_report().shown
    assert [one.row for one in DIVERGENCES if ("divergence", one.row) not in shown] == []
    assert [one.row for one in DIVERGENCES if (("req", one.row) in shown) != one.but] == []
    assert [one.name for one in EXTENSIONS if ("extension", one.name) not in shown] == []


@pytest.mark.divergence("P-8.1-9")
@pytest.mark.extension("invalid_number")
def test_a_number_that_readers_take_differently_is_not_passed_on() -> None:
    stage = Stage(alice="*", bot=[])
    step = stage.raw("alice", '{"kind":"chat","payload":{"n":18446744073709551616}}')
    assert (step.error["code"], step.heard("bot")) == ("invalid_number", [])


@pytest.mark.divergence("P-3.4.1-3")
def test_an_acknowledgement_is_heard_by_all() -> None:
    stage = Stage(alice="*", bot=["chat/acknowledge"], eve=[])
    step = stage.send("bot", "chat/acknowledge", {"status": "received"}, to=["alice"], correlation_id=["m0"])
    assert step.told("chat/acknowledge") == {"alice", "bot", "eve"}


@pytest.mark.divergence("P-3.9.4-6")
def test_a_status_is_heard_by_all_however_often_it_comes() -> None:
    stage = Stage(alice="*", bot=["participant/status"], eve=[])
    for n in range(20):
        step = stage.send("bot", "participant/status", {"messages_in_context": n}, to=["alice"])
        assert step.told("participant/status") == {"alice", "bot", "eve"}


@pytest.mark.divergence("P-3.6.5-6")
def test_an_invitation_is_mailed_to_nobody_and_its_address_stands_in_no_effect_but_the_journals_input() -> (
    None
):
    stage = Stage(alice="*", eve=[])
    step = stage.send("alice", "space/invite", {"participant_id": "new", "email": "new@example.org"})
    assert {type(one).__name__ for one in step.effects} == {"Record", "Deliver", "Mint"}
    assert all("example.org" not in one.raw for name in ("alice", "eve") for one in step.heard(name))


@pytest.mark.divergence("P-5.4-2", "P-7.3-5")
def test_a_violation_is_told_to_the_violator_and_the_journal_and_to_nobody_else() -> None:
    stage = Stage(alice="*", bot=["chat"], eve=[])
    step = stage.send("bot", "mcp/request", {"method": "tools/call"})
    assert step.hearers == {"bot"} and step.kinds("bot") == ["system/error"]
    assert (step.record.verdict, step.record.code) == ("refused", "capability_violation")
    assert "tools/call" in str(step.record.raw) and step.record.detail


@pytest.mark.divergence("P4-3.8.1-1")
def test_the_welcome_lists_active_streams_even_where_there_are_none() -> None:
    stage = Stage(alice="*")
    stage.leave("alice")
    assert stage.join("alice").said("system/welcome").payload["active_streams"] == []


@pytest.mark.divergence("S-L3-5")
def test_an_id_with_an_underscore_is_taken_and_two_that_differ_by_it_are_two() -> None:
    stage = Stage(alice="*", a_b=["chat"], **{"a-b": ["chat"]}, absent=["a_b"])
    assert stage.join("a_b").said("system/welcome").payload["you"]["id"] == "a_b"
    assert stage.send("a_b", "chat", {"text": "x"}).said("chat").sender == "a_b"
