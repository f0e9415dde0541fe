"""The diagnosis finds what was planted in a conversation of a real space, and nothing in a clean one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.log.diagnose.diagnosis import RULES, diagnose
from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.log import open_log
from mew_lab.log.prune import prune
from mew_lab.protocol.envelope import digest
from mew_lab.space.events import Noted, Record

from ..conftest import examples
from .innocent import INNOCENT
from .planted import CLEAN, FAULTS, Conversation, Expected, Steps, converse
from .stage import keep

SEEDS = 4  # conversations for each planted fault
TOGETHER = 5  # faults in one conversation
ALL = (*CLEAN, *INNOCENT)
Fault = Callable[[Conversation], list[Expected]]


def found_in(records: list[Record]) -> list[Expected]:
    return sorted(Expected(finding.rule, finding.id) for finding in diagnose(records))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(30), deadline=None)
def test_a_clean_conversation_has_no_finding(seed: int) -> None:
    records, _ = converse(seed, 40, kinds=ALL)
    assert list(diagnose(records)) == []


@pytest.mark.parametrize("exchange", ALL, ids=lambda exchange: exchange.__name__)
def test_an_exchange_that_keeps_to_the_specification_has_no_finding(
    exchange: Callable[[Conversation], Steps],
) -> None:
    for seed in range(6):
        records, _ = converse(seed, 4, kinds=[exchange])
        assert list(diagnose(records)) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_and_nothing_else(fault: Fault) -> None:
    for seed in range(SEEDS):
        records, expected = converse(seed, 25, fault, kinds=ALL)
        assert found_in(records) == sorted(expected), (seed, list(diagnose(records)))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_sentence_calls_the_message_by_its_sender_and_id_and_the_other_by_its_id(fault: Fault) -> None:
    records, _ = converse(1, 5, fault)
    for finding in diagnose(records):
        sentence, record = RULES[finding.rule].sentence, records[finding.place - 1]
        if sentence.startswith("{sender}"):
            sender = RecordedEntry(record).sender if record.raw else record.runtime_id or record.participant
            assert finding.sentence.startswith(sender)
        if "{id}" in sentence:
            assert finding.id in finding.sentence
        if "{about}" in sentence and finding.related:
            assert finding.related[0] in finding.sentence


def test_precision_and_recall_of_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """Several faults in each conversation, among clean exchanges and such as look like faults."""
    planted, found, right = Counter[str](), Counter[str](), Counter[str]()
    dice = random.Random(16)
    for seed in range(SEEDS):
        faults = dice.sample(FAULTS, len(FAULTS))
        for at in range(0, len(faults), TOGETHER):
            records, expected = converse(1000 * seed + at, 40, *faults[at : at + TOGETHER], kinds=ALL)
            findings = Counter(found_in(records))
            planted.update(one.rule for one in expected)
            found.update(one.rule for one in findings.elements())
            right.update(one.rule for one in (findings & Counter(expected)).elements())
    with capsys.disabled():
        print(f"\n{'rule':30} planted  found  precision  recall")
        for rule in sorted(planted | found):
            precision = right[rule] / found[rule] if found[rule] else 0.0
            recall = right[rule] / planted[rule] if planted[rule] else 0.0
            print(f"{rule:30} {planted[rule]:7} {found[rule]:6}  {precision:9.2f}  {recall:6.2f}")
    assert planted == found == right


def test_every_rule_is_planted_but_those_of_broken_files() -> None:
    planted = {one.rule for at, fault in enumerate(FAULTS) for one in converse(at, 5, fault)[1]}
    # A gateway completes a message without an id, so only a foreign log can hold one.
    of_spaces = {id for id, rule in RULES.items() if "gateway" in rule.holds}
    assert of_spaces - planted == {"unreadable-lines", "message-without-id"}


def test_every_exchange_of_the_generator_is_used() -> None:
    assert len({exchange.__name__ for exchange in ALL}) == len(ALL) == 44
    assert len({fault.__name__ for fault in FAULTS}) == len(FAULTS)


def test_rules_have_names_of_their_own_and_a_known_severity() -> None:
    assert all(rule.severity in SEVERITIES for rule in RULES.values())
    assert all(id == rule.id for id, rule in RULES.items())


def test_sessions_in_one_log_are_judged_apart(tmp_path: Path) -> None:
    """The same ids and the same people in each: what one leaves open is no other's, and nothing is taken twice."""
    dice = random.Random(3)
    expected = []
    for seed in range(4):
        faults = dice.sample(FAULTS, 3)
        records, found = converse(seed, 15, *faults, kinds=ALL)
        keep(records, tmp_path / f"{seed}" / "j.jsonl", rotate_at=9000)
        expected += found
    assert found_in([*open_log(tmp_path).records]) == sorted(expected)


def test_a_pruned_log_does_not_take_who_came_before_for_absent(tmp_path: Path) -> None:
    records, _ = converse(5, 120, kinds=[CLEAN[0], CLEAN[1]])
    path = keep(records, tmp_path / "j.jsonl", rotate_at=20_000)
    prune(path, keep=1, agree=lambda goes: True)
    assert "addressee-absent" not in {one.rule for one in open_log(path).diagnose()}


@pytest.mark.req("C-23")
@pytest.mark.parametrize(
    ("receipt", "severity"),
    [
        (None, "warn"),
        ({}, "note"),
        ({"by": "policy night", "policy": {"name": "night", "text": "all"}}, "warn"),
        ({"digest": "0" * 64}, "warn"),
        ({"edited": False}, "warn"),
        ({"request": "another"}, "warn"),
        ({"proposal": "another"}, "warn"),
    ],
    ids=["none", "own", "policy", "shown", "unedited", "request", "proposal"],
)
@pytest.mark.parametrize(
    ("writer", "event"), [("anna", "decided"), ("bert", "decided"), ("anna", "reported")]
)
def test_an_edit_is_a_warning_unless_a_receipt_here_says_that_its_sender_made_it(
    receipt: dict[str, object] | None, severity: str, writer: str, event: str
) -> None:
    c = Conversation(7)
    payload = c.call("write")
    proposal = c.propose(payload)
    sent = {**payload, "params": {**payload["params"], "arguments": {"path": "/etc/passwd"}}}
    if receipt is not None:
        shown = digest({"id": proposal, "from": "dan", "to": ["tool"], "payload": sent})
        note = {"proposal": proposal, "decision": "approve", "by": "human", "typed": "yes"}
        note |= {"request": "q-1", "digest": shown, "edited": True, **receipt}
        c.stage.play(Noted(event, writer, json.dumps(note)))
    c.answer(c.request("anna", sent, correlation_id=[proposal], id="q-1"), payload, "anna")
    own = (writer, event) == ("anna", "decided")
    (found,) = diagnose(c.records)
    assert (found.rule, found.requirement) == ("edited-approval", "C-23")
    assert found.severity == (severity if own else "warn")
    assert ("anna made the edit" in found.sentence) == (found.severity == "note")
