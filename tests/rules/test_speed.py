"""The cost of rules beside what is there anyway: a pass of the ledger, and the making of a card."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from typing import Any

import pytest

from mew_lab.lab.decisions.cards import read_card, unread_card
from mew_lab.lab.decisions.sources import Sources
from mew_lab.ledger.calls import CallLedger, Proposal
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.ledger_rows import LedgerPass
from mew_lab.protocol.steps import finish
from mew_lab.rules.approvals import Approvals
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.judgements import judge
from mew_lab.rules.learner import learn
from mew_lab.space.events import Record

from .policies import KINDS, TOOL_HASH, proposals
from .test_never import decided

COUNT = 10_000
Make = Callable[[Random, int], AskedCall]


def ask(
    arguments: dict[str, Any], *, tool: str = "read", hints: tuple[str, ...] = ("read-only",)
) -> AskedCall:
    return AskedCall(
        proposer="coder", target="server", tool=tool, arguments=arguments, tool_hash=TOOL_HASH, hints=hints
    )


def deep(dice: Random, n: int) -> AskedCall:
    """Paths in a tree of two names, each of them another file."""
    folders = ["/".join(dice.choices("ab", k=dice.randint(8, 30))) for _ in range(20)]
    return ask({f"path{k}": f"{folder}/{n}.md" for k, folder in enumerate(folders)}, tool=f"read{n % 3}")


def long(dice: Random, n: int) -> AskedCall:
    """Paths of 700 characters, the upper folders of which no rule is below."""
    return ask(
        {f"path{k}": f"a,b/{'/'.join(dice.choices(['docs', 'src'], k=150))}/{n}{k}" for k in range(20)},
        tool=f"read{n % 3}",
    )


def far(dice: Random, n: int) -> AskedCall:
    """Numbers each of which is farther off than all before."""
    return ask({f"number{k}": 2 ** (n % 1000) + k for k in range(20)}, tool=f"read{n % 3}")


def few(dice: Random, n: int) -> AskedCall:
    """Only some calls of each of many tools, with many arguments."""
    folders = ["/".join(dice.choices("ab", k=5)) for _ in range(20)]
    return ask({f"path{k}": f"{folder}/{n}" for k, folder in enumerate(folders)}, tool=f"read{n % 100}")


def many(dice: Random, n: int) -> AskedCall:
    """More arguments than a rule has."""
    return ask({f"path{k}": f"docs/{dice.random()}/{n}.md" for k in range(60)})


def changed(dice: Random, n: int) -> AskedCall:
    """Tools that are described otherwise at each second call."""
    call = ask({"path": f"docs/{n}.md"}, tool=f"read{n % 5000}")
    return replace(call, tool_hash=f"{n:064}") if n % 2 else call


def records(calls: Sequence[tuple[AskedCall, bool]]) -> list[Record]:
    """The records of a journal of these calls, each with whether a person approved it."""
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

    for n, (call, approved) in enumerate(calls):
        now += timedelta(seconds=100)
        params = {"name": call.tool, "arguments": dict(call.arguments)}
        payload = {"method": "tools/call", "params": params}
        add("mcp/proposal", "coder", f"p{n}", payload)
        tool = {"sha256": call.tool_hash, "hints": call.hints}
        note = {"proposal": f"p{n}", "by": "human", "digest": "d" * 64, "on_screen": 900, "tool": tool}
        decision = {"decision": "approve", "request": f"q{n}"} if approved else {"decision": "reject"}
        made.append(Record(len(made) + 1, now, "decided", "demo", "ada", detail=json.dumps(note | decision)))
        if approved:
            add("mcp/request", "ada", f"q{n}", payload, f"p{n}")
            add("mcp/response", "server", f"a{n}", {"result": {}}, f"q{n}", to="ada")
        else:
            add("mcp/reject", "ada", f"r{n}", {"reason": "no"}, f"p{n}", to="coder")
    return made


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def run_pass(made: Sequence[Record]) -> None:
    ledger = LedgerPass()
    for record in made:
        ledger.observe(record)


def check_learning(calls: Sequence[tuple[AskedCall, bool]]) -> list[DecidedCall]:
    """Learning costs two passes of the ledger at most; both are measured in turn, since others use the machine."""
    made, taught = records(calls), [decided(n, call, yes=yes) for n, (call, yes) in enumerate(calls)]
    found = [(seconds(lambda: learn(taught)), seconds(lambda: run_pass(made))) for _ in range(2)]
    of_learning, of_pass = (min(column) for column in zip(*found, strict=True))
    assert of_learning <= 2 * of_pass, (of_learning, of_pass)
    return taught


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("make", [deep, long, far, few, many, changed])
def test_learning_from_what_a_peer_chose_costs_at_most_two_passes_of_the_ledger(make: Make) -> None:
    dice = Random(1)
    check_learning([(make(dice, n), dice.random() < 0.95) for n in range(6_000)])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_learning_costs_at_most_two_passes_of_the_ledger_and_a_judgement_at_most_a_card() -> None:
    source = proposals(KINDS["folder"](Random(1)), Random(2))
    history = [(one.call, one.deserves) for one in islice(source, COUNT)]
    taught, made = check_learning(history), records(history[:300])
    assert learn(taught)

    approvals, rule = Approvals(taught), learn(taught)[0].rule
    source = proposals(KINDS["folder"](Random(1)), Random(3))
    calls = [next(source).call for _ in range(300)]
    of_judgements = min(
        seconds(lambda: [judge(rule, one, approvals, now=1.8e9) for one in calls]) for _ in range(3)
    )
    ledger, open_ones = CallLedger(), list[Proposal]()
    sources = Sources(ledger.requests)
    for record in [one for one in made if one.raw and '"mcp/proposal"' in one.raw]:
        for change in ledger.observe(RecordedEntry(record)):
            open_ones.append(change.proposal)
    of_cards = min(seconds(lambda: [make_card(one, sources) for one in open_ones]) for _ in range(3))
    assert of_judgements <= of_cards, (of_judgements, of_cards)


def make_card(proposal: Proposal, sources: Sources) -> object:
    unread = unread_card(proposal, since=1.0, request_id="r")
    return finish(read_card(unread, proposal, of_the_tool=(), sources=sources, last=None))
