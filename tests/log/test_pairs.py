"""How long questions waited is measured by what happened, not by what somebody claims."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from mew_lab.ledger.entry import Entry
from mew_lab.log.entries import entry_of
from mew_lab.log.pairs import Pair, Spread, pairs_of, spread
from mew_lab.space.events import Record

START = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = count(1)


def step(
    t: float,
    kind: str,
    sender: str,
    id: str,
    *about: str,
    to: str = "",
    method: str = "tools/call",
    verdict: str = "accepted",
) -> Entry:
    payload = {
        "mcp/response": {"result": {}},
        "mcp/reject": {"reason": "unsafe"},
        "mcp/withdraw": {},
        "chat": {},
    }
    call = {"method": method, "params": {"name": "git_log"}}
    members: dict[str, Any] = {"id": id, "from": sender, "kind": kind, "payload": payload.get(kind, call)}
    members |= {"correlation_id": list(about), "to": [to] if to else []}
    moment = START + timedelta(seconds=t)
    record = Record(1, moment, "received", verdict=verdict, participant=sender, raw=json.dumps(members))
    return entry_of(record, next(NUMBERS))


def told(*steps: Entry) -> list[tuple[str, str, str, float]]:
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
def test_a_proposal_waits_for_fulfilment_rejection_or_withdrawal(answer: Entry, how: str) -> None:
    assert told(PROPOSE, answer) == [("decision", how, answer.sender, 5.0)]


@pytest.mark.parametrize(
    "claim",
    [
        step(2, "mcp/request", "bot", "q", "p", to="git"),
        step(2, "mcp/request", "human", "q", "p", to="mail"),
        step(2, "mcp/request", "human", "q", "p"),
        step(2, "mcp/request", "human", "q", "p", to="git", method="tools/list"),
        step(2, "mcp/response", "git", "a", "p"),
        step(2, "mcp/withdraw", "human", "w", "p"),
        step(2, "mcp/reject", "human", "r", "p", verdict="refused"),
        step(2, "chat", "human", "c", "p"),
    ],
)
def test_what_only_claims_to_decide_decides_nothing(claim: Entry) -> None:
    pairs, ledger = pairs_of([PROPOSE, claim])
    assert pairs == [] and [call.id for call in ledger.proposals.open()] == ["p"]


def test_notifications_and_refused_requests_wait_for_nobody() -> None:
    note = step(1, "mcp/request", "human", "n", to="git", method="notifications/initialized")
    refused = step(1, "mcp/request", "human", "f", to="git", verdict="refused")
    assert [call.id for call in pairs_of([note, refused, ASK])[1].requests.open()] == ["q"]


def test_of_a_proposal_the_first_decision_counts() -> None:
    fulfilled = step(9, "mcp/request", "human", "q", "p", to="git")
    rejected, withdrawn = step(4, "mcp/reject", "eve", "r", "p"), step(7, "mcp/withdraw", "bot", "w", "p")
    assert told(PROPOSE, rejected, fulfilled) == [("decision", "rejected", "eve", 3.0)]
    assert told(PROPOSE, rejected, step(5, "mcp/reject", "git", "r2", "p"), withdrawn) == [
        ("decision", "rejected", "eve", 3.0)
    ]
    assert told(PROPOSE, fulfilled, withdrawn) == [("decision", "fulfilled", "human", 8.0)]


def test_one_answer_may_answer_many_and_a_clock_that_goes_back_gives_no_time_below_nothing() -> None:
    other = step(2, "mcp/request", "human", "q2", to="git")
    assert [one[3] for one in told(ASK, other, step(0, "mcp/response", "git", "a", "q", "q2"))] == [0.0, 0.0]


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
