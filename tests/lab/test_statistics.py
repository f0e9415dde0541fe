"""Who decides how much, and when somebody has stopped to read."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.lab.decisions.cards import Card, DecidingRule
from mew_lab.lab.decisions.statistics import describe_hurry, describe_shares


def cards(*each: dict[str, Any]) -> list[Card]:
    values: dict[str, Any] = {
        "proposer": "bot", "to": ("git",), "method": "tools/call", "tool": "git_log", "arguments": (),
        "digest": "0" * 64, "since": 0.0, "state": "fulfilled", "by": "human", "on_screen": 0.9,
    }  # fmt: skip
    return [
        Card(**({"id": f"p{n}", "seq": n, "decided_at": float(n)} | values | one))
        for n, one in enumerate(each)
    ]


def test_the_share_of_each_is_told_with_its_base() -> None:
    said = describe_shares(
        cards(
            {},
            {"state": "done"},
            {"state": "rejected"},
            {"by": "human by policy reads"},
            {"by": "human by rule 3", "rule": DecidingRule(3, "0" * 64, "When …")},
            {"state": "withdrawn"},
        ),
        me="human",
    )
    assert said == "3 of 5 decided by you; 1 by policy reads; 1 by rule 3"
    assert describe_shares([], me="human") == "" == describe_shares(cards({"state": "open"}), me="human")
    assert describe_shares(cards({"by": "other"}), me="human") == "0 of 1 decided by you; 1 by other"


@pytest.mark.threat(30)
def test_threat_30_five_quick_approvals_in_a_row_are_told_and_one_slow_one_ends_the_row() -> None:
    assert describe_hurry(cards(*[{}] * 6), me="human") == "You approved the last 6 in under 2 s each."
    assert describe_hurry(cards(*[{}] * 4), me="human") == ""
    assert describe_hurry(cards(*[{}] * 5, {"on_screen": 2.0}), me="human") == ""
    assert describe_hurry(cards({"on_screen": 9.0}, *[{"state": "done"}] * 5), me="human").startswith(
        "You approved the last 5"
    )
    assert describe_hurry(cards(*[{}] * 5, {"on_screen": None}), me="human") == "", (
        "what no view showed was not hurried"
    )
    assert describe_hurry(cards(*[{"state": "rejected"}] * 9), me="human") == ""
    assert describe_hurry(cards(*[{"by": "human by policy all"}] * 9), me="human") == ""
