"""The diagnosis finds what was planted in a conversation of a real space, and nothing in a clean one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.log.diagnose.diagnosis import RULES, diagnose
from mew_lab.log.diagnose.findings import SEVERITIES

from ..conftest import examples
from .planted import CLEAN, FAULTS, Conversation, Expected, converse

SEEDS = 6  # conversations for each planted fault


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(30), deadline=None)
def test_a_clean_conversation_has_no_finding(seed: int) -> None:
    records, _ = converse(seed, 40)
    assert list(diagnose(records)) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_and_nothing_else(fault: Callable[[Conversation], list[Expected]]) -> None:
    for seed in range(SEEDS):
        records, expected = converse(seed, 25, fault)
        found = [Expected(finding.rule, finding.id) for finding in diagnose(records)]
        assert sorted(found) == sorted(expected), (seed, list(diagnose(records)))


def test_precision_and_recall_of_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    planted, found, right = Counter[str](), Counter[str](), Counter[str]()
    for at, fault in enumerate(FAULTS):
        for seed in range(SEEDS):
            records, expected = converse(1000 * at + seed, 25, fault)
            findings = [Expected(finding.rule, finding.id) for finding in diagnose(records)]
            planted.update(one.rule for one in expected)
            found.update(one.rule for one in findings)
            right.update(one.rule for one in findings if one in expected)
    with capsys.disabled():
        print(f"\n{'rule':30} planted  precision  recall")
        for rule in sorted(planted | found):
            precision = right[rule] / found[rule] if found[rule] else 0.0
            recall = right[rule] / planted[rule] if planted[rule] else 0.0
            print(f"{rule:30} {planted[rule]:7}  {precision:9.2f}  {recall:6.2f}")
    assert planted == found == right


def test_every_rule_is_planted_but_those_of_broken_files() -> None:
    planted = {one.rule for at, fault in enumerate(FAULTS) for one in converse(at, 5, fault)[1]}
    # A gateway completes a message without an id, so only a foreign log can hold one.
    assert RULES.keys() - planted == {"unreadable-lines", "message-without-id"}


def test_every_exchange_of_the_generator_is_used() -> None:
    assert len(CLEAN) == 13
    assert len({fault.__name__ for fault in FAULTS}) == len(FAULTS)


def test_rules_have_names_of_their_own_and_a_known_severity() -> None:
    assert all(rule.severity in SEVERITIES for rule in RULES.values())
    assert all(id == rule.id for id, rule in RULES.items())
