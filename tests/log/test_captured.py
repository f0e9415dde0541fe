"""The ten captured sessions are opened, diagnosed, followed and verified, and sent again to our gateway: each time with
the findings that a reader of their lines has."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mew_lab.log.diagnose.diagnosis import RULES
from mew_lab.log.log import Log, open_log
from mew_lab.log.replay import replay

from ..captures.session import Ours
from ..captures.session import read as read_lines
from .captured import READINGS, Call, Found, Proposed, Reading
from .stage import keep


@cache
def ids_of(folder: Path) -> dict[int, str]:
    """The envelope id on each line of the two files, as `captured` numbers them."""
    ids: dict[int, str] = {}
    for sign, name in ((1, "envelope-history.jsonl"), (-1, "capability-decisions.jsonl")):
        for number, line in enumerate((folder / name).read_text(encoding="utf-8").splitlines(), 1):
            members = json.loads(line)
            id = members["envelope_id"] if sign < 0 else members["envelope"].get("id", "")
            ids[sign * number] = id
    return ids


@pytest.fixture(params=sorted(READINGS))
def folder(request: pytest.FixtureRequest, shared: Path) -> Path:
    return shared / "captures" / str(request.param)


@pytest.fixture
def reading(folder: Path) -> Reading:
    return READINGS[folder.name]


@pytest.fixture
def log(folder: Path) -> Log:
    return open_log(folder)


@pytest.fixture
def ours(folder: Path, tmp_path: Path) -> Log:
    """The journal of our space after the lines that came in were sent to it, each at its time."""
    return open_log(keep(sent_again(folder), tmp_path / "j.jsonl"))


def sent_again(folder: Path) -> list[Any]:
    lines = read_lines(folder)
    text = (folder / "envelope-history.jsonl").read_text(encoding="utf-8")
    times = [datetime.fromisoformat(json.loads(line)["timestamp"]) for line in text.splitlines()]
    space = Ours(lines, start=times[0])
    for line in lines:
        if line.event == "received" or line.appears:
            space.now = max(space.now, times[line.number - 1])
            space.step(space.event(line))
    return space.records


def test_every_capture_was_read(shared: Path) -> None:
    assert {path.name for path in (shared / "captures").iterdir()} == set(READINGS)


def test_each_finding_of_a_reader_names_a_rule_and_a_row_of_the_requirements(shared: Path) -> None:
    with (shared / "requirements.csv").open(encoding="utf-8") as lines:
        rows = {row["id"] for row in csv.DictReader(lines)}
    found = [one for reading in READINGS.values() for one in (*reading.found, *reading.there_only)]
    assert {one.requirement for one in found} - {""} <= rows
    assert {rule.requirement for rule in RULES.values()} - {""} <= rows
    assert {one.rule for one in found} <= RULES.keys()


def test_a_capture_is_read_whole(log: Log, reading: Reading) -> None:
    assert (len(log), log.faults) == (reading.messages, ())
    assert log.diagnose().summary.startswith(f"{reading.messages} messages: ")
    assert set(log.participants()["participant"]) >= set(reading.participants)


def findings(log: Log) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    return ((one.id, one.rule, one.severity, one.requirement, one.related) for one in log.diagnose())


def expected(folder: Path, found: tuple[Found, ...]) -> list[tuple[str, str, str, str, tuple[str, ...]]]:
    id = ids_of(folder)
    return sorted(
        (id[one.line], one.rule, one.severity, one.requirement, tuple(id[line] for line in one.about))
        for one in found
    )


def test_a_capture_has_the_findings_that_a_reader_has_and_no_error(
    log: Log, reading: Reading, folder: Path
) -> None:
    assert sorted(findings(log)) == expected(folder, (*reading.found, *reading.there_only))
    assert not log.diagnose("error")


def check_calls(log: Log, reading: Reading, folder: Path) -> None:
    id = ids_of(folder)
    proposals = [
        Proposed(0, row["from"], row["tool"], row["state"], row["decided_by"])
        for row in log.proposals().to_dict("records")
    ]
    assert proposals == [one._replace(line=0, request=0) for one in reading.proposals]
    assert list(log.proposals()["id"]) == [id[one.line] for one in reading.proposals]
    assert list(log.proposals()["request"]) == [id.get(one.request, "") for one in reading.proposals]
    requests = [
        Call(0, row["from"], ", ".join(row["to"]), row["tool"] or row["method"])
        for row in log.requests().to_dict("records")
    ]
    assert requests == [one._replace(line=0, answer=0) for one in reading.calls]
    assert list(log.requests()["id"]) == [id[one.line] for one in reading.calls]
    states = ["answered" if one.answer else "waiting" for one in reading.calls]
    assert list(log.requests()["state"]) == states
    assert list(log.requests()["answered_by"]) == [one.of if one.answer else "" for one in reading.calls]
    decisions = log.decisions()
    decided, open_ones = (
        decisions[decisions["outcome"].isin(["open", "withdrawn", "expired"]) == is_open]
        for is_open in (False, True)
    )
    assert list(decided["id"]) == [id[one.line] for one in reading.calls]
    assert decided["executed"].all() and not open_ones["executed"].any()
    assert list(open_ones["id"]) == [id[one.line] for one in reading.proposals if not one.request]


def check_verified(log: Log, reading: Reading, folder: Path) -> None:
    id = ids_of(folder)
    found = log.verify().consents
    assert found.own_right == reading.own_right
    proposal_of = {one.request: one.line for one in reading.proposals}
    elsewhere = [(one.id, one.proposal, one.why) for one in found.elsewhere]
    assert elsewhere == [(id[n], id[proposal_of[n]], "it has no receipt") for n in reading.unreceipted]
    assert (found.consented, found.reported, found.without, found.other_calls) == ((), (), (), ())
    assert (found.unknown, found.receipts, sum(found.unrecorded.values())) == ((), 0, 0)


def test_a_capture_tells_who_proposed_who_decided_and_what_was_executed(
    log: Log, reading: Reading, folder: Path
) -> None:
    check_calls(log, reading, folder)
    refusals = log.verdicts()
    refused = refusals[refusals["verdict"] == "refused"]
    assert list(refused["participant"]) == [one[1] for one in reading.refusals]
    denied = [one for one in log.diagnose() if one.rule == "denied"]
    for (line, by, kind), one in zip(reading.refusals, denied, strict=True):
        assert one.id == ids_of(folder)[line]
        assert one.sentence.startswith(f'{by} may not send {kind} {one.id}: no capability for kind "{kind}"')


def test_a_capture_has_no_chain_and_no_receipt_and_says_so(log: Log, reading: Reading, folder: Path) -> None:
    check_verified(log, reading, folder)
    found = log.verify()
    assert (found.intact, found.consented) == (False, True)
    assert (found.status(), found.status(unchained_ok=True)) == (2, 0)
    assert str(found).startswith("no chain: nothing vouches for this log\n")


def test_what_belongs_to_a_message_of_a_capture_is_found(log: Log, reading: Reading, folder: Path) -> None:
    id = ids_of(folder)
    for line, lines in reading.exchanges.items():
        assert log.follow(id[line]).exchange.ids == tuple(id[one] for one in lines), line


def test_a_capture_sent_again_to_our_gateway_has_the_findings_that_are_not_of_the_other_one(
    ours: Log, reading: Reading, folder: Path
) -> None:
    made = {"open-stream"}  # about messages of the gateway, whose ids are its own
    again = sorted(one for one in findings(ours) if one[1] not in made)
    assert again == expected(folder, tuple(one for one in reading.found if one.rule not in made))
    assert [one.rule for one in ours.diagnose() if one.rule in made] == [
        one.rule for one in reading.found if one.rule in made
    ]


def test_a_capture_sent_again_to_our_gateway_is_replayed_and_verified(
    ours: Log, reading: Reading, folder: Path
) -> None:
    assert ours.source is not None
    assert replay(ours.source.paths[0]).unwritten == ()
    check_calls(ours, reading, folder)
    check_verified(ours, reading, folder)
    assert ours.verify().intact


def test_an_answer_that_breaks_json_rpc_is_told_with_what_is_wrong(shared: Path) -> None:
    [one] = [
        one for one in open_log(shared / "captures" / "2-mcp").diagnose() if one.rule == "malformed-answer"
    ]
    assert " to request tools-call-invalid-" in one.sentence
    assert one.sentence.endswith(" has an error whose code is no integer: 'NOT_FOUND'")


def test_all_captures_in_one_log_have_the_findings_and_requests_of_each(shared: Path) -> None:
    log = open_log(shared / "captures")
    each = [(shared / "captures" / name, reading) for name, reading in READINGS.items()]
    assert len(log) == sum(reading.messages for _, reading in each)
    union = [
        one for folder, reading in each for one in expected(folder, (*reading.found, *reading.there_only))
    ]
    assert sorted(findings(log)) == sorted(union)
    found = log.verify().consents
    own_right = sum((Counter(reading.own_right) for _, reading in each), Counter[str]())
    assert (found.own_right, found.unknown) == (own_right, ())
    assert len(found.elsewhere) == sum(len(reading.unreceipted) for _, reading in each)
