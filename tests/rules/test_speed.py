"""The cost of rules beside what is there anyway: a pass of the ledger, and the making of a card."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from mew_lab.lab.decisions.cards import read_card, unread_card
from mew_lab.lab.decisions.sources import Sources
from mew_lab.ledger.calls import CallLedger, Proposal
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.ledger_rows import LedgerPass
from mew_lab.log.log import Log
from mew_lab.protocol.steps import finish
from mew_lab.rules.approvals import Approvals
from mew_lab.rules.judgements import judge
from mew_lab.rules.learner import learn
from mew_lab.space.events import Record

from .policies import KINDS, TOOL_HASH, proposals

COUNT = 10_000


def records() -> list[Record]:
    made: list[Record] = []
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def add(kind: str, sender: str, id: str, payload: Any, *about: str, to: str = "server") -> None:
        members = {
            "id": id,
            "from": sender,
            "kind": kind,
            "payload": payload,
            "to": [to],
            "correlation_id": list(about),
        }
        made.append(
            Record(
                len(made) + 1, now, "received", "demo", sender, verdict="accepted", raw=json.dumps(members)
            )
        )

    source = proposals(KINDS["folder"](Random(1)), Random(2))
    for n in range(COUNT):
        proposed = next(source)
        now += timedelta(seconds=100)
        payload = {
            "method": "tools/call",
            "params": {"name": proposed.call.tool, "arguments": dict(proposed.call.arguments)},
        }
        add("mcp/proposal", "coder", f"p{n}", payload)
        tool = {"sha256": TOOL_HASH, "hints": ["writes data"]}
        note = {"proposal": f"p{n}", "by": "human", "digest": "d" * 64, "on_screen": 900, "tool": tool}
        decision = (
            {"decision": "approve", "request": f"q{n}"} if proposed.deserves else {"decision": "reject"}
        )
        made.append(Record(len(made) + 1, now, "decided", "demo", "ada", detail=json.dumps(note | decision)))
        if proposed.deserves:
            add("mcp/request", "ada", f"q{n}", payload, f"p{n}")
            add("mcp/response", "server", f"a{n}", {"result": {}}, f"q{n}", to="ada")
        else:
            add("mcp/reject", "ada", f"r{n}", {"reason": "no"}, f"p{n}", to="coder")
    return made


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.slow
def test_learning_costs_at_most_two_passes_of_the_ledger_and_a_judgement_at_most_a_card() -> None:
    made = records()
    log = Log.live(space="demo")
    for record in made:
        log.observe(record)

    def run_pass() -> None:
        ledger = LedgerPass()
        for record in made:
            ledger.observe(record)

    of_pass = min(seconds(run_pass) for _ in range(2))
    decided = log.decided_calls()
    of_learning = min(seconds(lambda: learn(decided)) for _ in range(2))
    assert learn(decided) and of_learning <= 2 * of_pass, (of_learning, of_pass)

    approvals, rule = Approvals(decided), learn(decided)[0].rule
    source = proposals(KINDS["folder"](Random(1)), Random(3))
    calls = [next(source).call for _ in range(300)]
    of_judgements = min(
        seconds(lambda: [judge(rule, one, approvals, now=1.8e9) for one in calls]) for _ in range(3)
    )
    ledger, open_ones = CallLedger(), list[Proposal]()
    sources = Sources(ledger.requests)
    for record in [one for one in made if one.raw and '"mcp/proposal"' in one.raw][:300]:
        for change in ledger.observe(RecordedEntry(record)):
            open_ones.append(change.proposal)
    of_cards = min(seconds(lambda: [make_card(one, sources) for one in open_ones]) for _ in range(3))
    assert of_judgements <= of_cards, (of_judgements, of_cards)


def make_card(proposal: Proposal, sources: Sources) -> object:
    unread = unread_card(proposal, since=1.0, request_id="r")
    return finish(read_card(unread, proposal, of_the_tool=(), sources=sources, last=None))
