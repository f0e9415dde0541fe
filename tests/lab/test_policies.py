"""Policies decide aloud, or not at all."""

from __future__ import annotations

import pytest

from mew_lab.errors import ConfigError
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision, Policy, is_decision, policy_from_environment

CARD = Card(
    id="p1",
    seq=1,
    proposer="bot",
    to=("git",),
    method="tools/call",
    tool="t",
    arguments=(),
    digest="0",
    since=0,
)


@pytest.mark.parametrize(
    ("word", "decision", "decides"),
    [
        ("approve", Decision("approve"), True),
        ("deny", Decision("reject", "policy"), True),
        ("raise", None, False),
    ],
)
@pytest.mark.trap("T-6")
def test_the_environment_names_a_policy(
    monkeypatch: pytest.MonkeyPatch, word: str, decision: Decision | None, decides: bool
) -> None:
    monkeypatch.setenv("MEW_LAB_DECIDE", word)
    policy = policy_from_environment()
    assert policy is not None and policy.judge(CARD) == decision and policy.decides is decides
    assert repr(policy) == f"<Policy {word}>"


def test_without_the_variable_nobody_decides_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEW_LAB_DECIDE", raising=False)
    assert policy_from_environment() is None


def test_another_word_is_a_fault_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEW_LAB_DECIDE", "yes")
    with pytest.raises(ConfigError, match="MEW_LAB_DECIDE is 'yes'; it must be approve, deny or raise"):
        policy_from_environment()


def test_a_policy_of_ones_own_looks_at_the_card() -> None:
    policy = Policy("only git", lambda card: Decision("approve") if card.to == ("git",) else None)
    assert policy.judge(CARD) == Decision("approve")


@pytest.mark.parametrize(
    "value",
    [
        "approve",
        True,
        ("approve", ""),
        Decision("Approve"),
        Decision(""),
        Decision("reject", 5),
        Decision(None),
    ],  # type: ignore[arg-type]
)
def test_what_is_neither_an_approval_nor_a_rejection_is_no_decision(value: object) -> None:
    assert not is_decision(value)
    assert is_decision(Decision("approve")) and is_decision(Decision("reject", "unsafe"))
