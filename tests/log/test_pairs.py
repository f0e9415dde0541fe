"""How long questions waited is measured by what happened, not by what somebody claims."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mew_lab.log.chains import Step
from mew_lab.log.pairs import Pair, Pairing, Spread, pairs_of, spread
from mew_lab.space.events import Record

START = datetime(2026, 1, 1, tzinfo=UTC)


def step(
    t: float,
    kind: str,
    sender: str,
    id: str,
    *about: str,
    to: str = "",
    method: str = "tools/call",
    verdict: str = "accepted",
) -> Step:
    members: dict[str, Any] = {"id": id, "from": sender, "kind": kind, "payload": {"method": method}}
    members |= {"correlation_id": list(about), "to": [to] if to else []}
    moment = START + timedelta(seconds=t)
    step.seq = getattr(step, "seq", 0) + 1  # type: ignore[attr-defined]
    return Step.read(Record(1, moment, "envelope", verdict=verdict, raw=json.dumps(members)), step.seq)  # type: ignore[attr-defined]


def told(*steps: Step) -> list[tuple[str, str, str, float]]:
    return [(one.strip, one.how, one.by, round(one.seconds, 3)) for one in pairs_of(steps)[0]]


ASK = step(1, "mcp/request", "human", "q", to="git")
PROPOSE = step(1, "mcp/proposal", "bot", "p", to="git")


def test_a_request_waits_for_its_addressees_response() -> None:
    assert told(ASK, step(3.5, "mcp/response", "git", "a", "q", to="human")) == [
        ("request", "answered", "git", 2.5)
    ]


def test_a_response_of_somebody_else_or_a_second_one_counts_for_nothing() -> None:
    eve = step(2, "mcp/response", "eve", "a0", "q")
    first, second = (step(n, "mcp/response", "git", f"a{n}", "q") for n in (3, 4))
    assert told(ASK, eve, first, second) == [("request", "answered", "git", 2.0)]
    assert told(first, ASK) == []


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (step(6, "mcp/request", "human", "q", "p", to="git"), "fulfilled"),
        (step(6, "mcp/reject", "human", "r", "p"), "rejected"),
        (step(6, "mcp/withdraw", "bot", "w", "p"), "withdrawn"),
    ],
)
def test_a_proposal_waits_for_fulfilment_rejection_or_withdrawal(answer: Step, how: str) -> None:
    assert told(PROPOSE, answer) == [("decision", how, answer.sender, 5.0)]


@pytest.mark.parametrize(
    "claim",
    [
        step(2, "mcp/request", "bot", "q", "p", to="git"),
        step(2, "mcp/request", "human", "q", "p", to="mail"),
        step(2, "mcp/reject", "bot", "r", "p"),
        step(2, "mcp/withdraw", "human", "w", "p"),
        step(2, "mcp/reject", "human", "r", "p", verdict="refused"),
        step(2, "chat", "human", "c", "p"),
    ],
)
def test_what_only_claims_to_decide_decides_nothing(claim: Step) -> None:
    pairs, pairing = pairs_of([PROPOSE, claim])
    assert pairs == [] and list(pairing.proposals) == ["p"]


def test_notifications_and_refused_requests_wait_for_nobody() -> None:
    note = step(1, "mcp/request", "human", "n", to="git", method="notifications/initialized")
    refused = step(1, "mcp/request", "human", "f", to="git", verdict="refused")
    assert list(pairs_of([note, refused, ASK])[1].requests) == ["q"]


def test_one_answer_may_answer_many_and_a_clock_that_goes_back_gives_no_time_below_nothing() -> None:
    other = step(2, "mcp/request", "human", "q2", to="git")
    assert [one[3] for one in told(ASK, other, step(0, "mcp/response", "git", "a", "q", "q2"))] == [0.0, 0.0]


def test_questions_that_nobody_answers_are_bounded() -> None:
    pairing = Pairing(most=3)
    for n in range(10):
        pairing.take(step(n, "mcp/request", "human", f"q{n}", to="git"))
    assert list(pairing.requests) == ["q7", "q8", "q9"]


def test_percentiles_are_nearest_ranks() -> None:
    assert spread([]) == Spread(0, 0.0, 0.0)
    assert spread([4.0]) == Spread(1, 4.0, 4.0)
    assert spread(range(1, 101)) == Spread(100, 50, 95)
    assert spread([3.0, 1.0, 2.0]) == Spread(3, 2.0, 3.0)


def test_a_pair_names_both_envelopes() -> None:
    answer = step(2, "mcp/response", "git", "a", "q")
    (pair,) = pairs_of([ASK, answer])[0]
    assert isinstance(pair, Pair)
    assert (pair.asked, pair.asker, pair.seq, pair.by) == (ASK.seq, "human", answer.seq, "git")
