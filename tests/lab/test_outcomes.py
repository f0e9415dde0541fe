"""What is told of a request that was sent as this human, whatever the book takes for the proposal's outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.outcomes import Outcomes
from mew_lab.lab.lab import Lab
from mew_lab.ledger.calls import MAX_ANSWERS
from mew_lab.protocol.envelope import Envelope

from ..ledger.book import Book
from .looking import eventually, sent

CALL = {"method": "tools/call", "params": {"name": "rm", "arguments": {"n": 1}}}


def said(
    kind: str, sender: str, id: str, about: str, payload: Any, to: tuple[str, ...] = ("git",)
) -> Envelope:
    members = {
        "id": id,
        "from": sender,
        "kind": kind,
        "to": list(to),
        "correlation_id": [about],
        "payload": payload,
    }
    return Envelope.of(members)


def answer(sender: str, text: str, about: str = "r-1", id: str = "a-1") -> Envelope:
    content = {"content": [{"type": "text", "text": text}]}
    return said(
        "mcp/response", sender, id, about, {"jsonrpc": "2.0", "id": "r-1", "result": content}, ("human",)
    )


class Desk:
    """A book and the outcomes beside it, told the same messages."""

    def __init__(self, to: tuple[str, ...] = ("git",)) -> None:
        self.book = Book()
        self.outcomes = Outcomes(self.book.ledger.requests)
        self.card = Card(
            id="p",
            seq=1,
            proposer="bot",
            to=to,
            method="tools/call",
            tool="rm",
            arguments=(),
            digest="",
            since=0.0,
        )
        self.hear(
            Envelope.of({"id": "p", "from": "bot", "kind": "mcp/proposal", "to": list(to), "payload": CALL})
        )

    def hear(self, *envelopes: Envelope) -> str:
        for envelope in envelopes:
            self.book.observe(envelope)
            proposal = self.book.get("p")
            if envelope.kind == "mcp/request":
                mine, believed = envelope.sender == "human", proposal.fulfilment == envelope.id
                self.outcomes.note_request(self.card, envelope, mine=mine, believed=believed)
            elif envelope.kind == "mcp/response":
                assert set(self.outcomes.find_proposals(envelope)) <= {"p"}
            self.outcome = self.outcomes.describe(self.card, proposal, me="human")
        return self.outcome

    def held(self) -> int:
        return sum(len(table) for table in vars(self.outcomes).values() if isinstance(table, dict))


def request(sender: str = "human", id: str = "r-1", to: tuple[str, ...] = ("git",)) -> Envelope:
    return said("mcp/request", sender, id, "p", {"jsonrpc": "2.0", "id": id, **CALL}, to)


WITHDRAW = said("mcp/withdraw", "bot", "w-1", "p", {"reason": "no_longer_needed"}, ())


@pytest.mark.req("C-23")
def test_the_answer_alone_is_told_where_one_was_asked_and_others_answers_are_not() -> None:
    desk = Desk()
    assert desk.hear(request()) == "" and desk.outcomes.last_sent("p") == "r-1"
    late = answer("eve", "harmless", id="a-3")
    assert (
        desk.hear(answer("eve", "harmless"), answer("git", "done"), answer("git", "again", id="a-2"), late)
        == "done"
    )


@pytest.mark.req("C-22", "C-23")
def test_ruling_32_a_request_that_crossed_a_withdraw_is_not_executed_until_a_foreign_executor_says_it_did() -> (
    None
):
    desk = Desk()
    assert desk.hear(WITHDRAW, request()) == "your request: withdrawn by bot; not executed"
    assert desk.hear(answer("git", "removed")) == "request r-1 was sent as you all the same: git: removed"
    proposal = desk.book.get("p")
    assert proposal is not None and (proposal.state, proposal.fulfilment) == ("withdrawn", None)


@pytest.mark.req("C-23")
def test_ruling_17_a_request_that_crossed_somebody_elses_is_told_beside_the_outcome() -> None:
    desk = Desk()
    told = desk.hear(request("anna", "r-0"), request(), answer("git", "first", about="r-0", id="a-0"))
    assert told == "first; your request: already approved by anna; not executed"
    assert (
        desk.hear(answer("git", "second")) == "first; request r-1 was sent as you all the same: git: second"
    )


@pytest.mark.req("C-23")
@pytest.mark.ruling("R35")
def test_of_a_request_that_came_too_late_nothing_is_known_once_its_executor_is_gone() -> None:
    desk = Desk()
    gone = {"event": "leave", "participant": {"id": "git", "capabilities": []}}
    leave = Envelope.of({"id": "l", "from": "system:gateway", "kind": "system/presence", "payload": gone})
    told = desk.hear(request("anna", "r-0"), answer("git", "first", about="r-0", id="a-0"), request(), leave)
    assert told == (
        "first; request r-1 was sent as you all the same: no answer came. "
        "It was sent. Whether it took effect is not known."
    )


@pytest.mark.req("C-23")
def test_who_answered_is_named_where_several_could_and_the_proposer_is_marked() -> None:
    to = ("bot", "git")
    desk = Desk(to)
    assert (
        desk.hear(request(to=to), answer("bot", "nothing to see")) == "bot, who proposed it: nothing to see"
    )
    assert (
        desk.hear(answer("git", "removed", id="a-2")) == "bot, who proposed it: nothing to see; git: removed"
    )


@pytest.mark.threat(9)
def test_threat_09_what_is_held_of_a_card_is_bounded_and_let_go() -> None:
    crowd = tuple(f"r{n}" for n in range(MAX_ANSWERS + 4))
    desk = Desk(crowd)
    desk.hear(request(to=crowd), *(answer(one, "x", id=f"a-{one}") for one in crowd))
    assert "4 more answered" in desk.outcome
    desk.hear(*(request(id=f"r-{n}", to=crowd) for n in range(2, 20)))
    desk.hear(*(request("eve", id=f"e-{n}", to=crowd) for n in range(20)))
    assert desk.held() <= 5 + 3
    desk.outcomes.forget("p")
    assert desk.held() == 0


@pytest.mark.req("C-23")
@pytest.mark.threat(9)
def test_threat_09_what_was_answered_is_still_told_when_the_ledger_has_forgotten_the_request() -> None:
    desk = Desk(("bot", "git"))
    to = desk.card.to
    desk.hear(WITHDRAW, request(to=to), answer("git", "removed"), answer("bot", "nothing", id="a-2"))
    told = desk.outcome
    assert told.endswith("git: removed; bot, who proposed it: nothing")
    desk.book.ledger.requests.limit = 1
    desk.hear(said("mcp/request", "eve", "e-1", "x", CALL))
    assert desk.book.ledger.requests.get("r-1") is None and desk.outcome == told


@pytest.mark.req("C-23")
def test_ruling_17_in_a_lab_an_approval_that_crosses_a_withdraw_says_what_was_sent_and_who_answered(
    lab: Lab, adding: Callable[..., Any]
) -> None:
    bot = lab.join("bot")
    crossed = 0
    for n in range(20):
        pending = bot.call("notebook/add", a=n, b=1)
        entry = eventually(lambda id=pending.id: [one for one in lab.proposals() if one.id == id])[0]

        async def both(id: str = pending.id, digest: str = entry.digest) -> str:
            """The withdraw is under way when the yes is said."""
            sending = bot.participant.client.send(
                {"kind": "mcp/withdraw", "correlation_id": [id], "payload": {"reason": "no_longer_needed"}}
            )
            approving = lab.decisions.carry_out(id, digest=digest, decision="approve", typed="yes")
            _, said = await asyncio.gather(sending, approving, return_exceptions=True)
            return str(said)

        told = lab.loop.run(both(), timeout=20, doing="crossing")
        requests = [one for one in sent(lab, "mcp/request") if one["correlation_id"] == [pending.id]]
        card = eventually(lambda id=pending.id: [one for one in lab.decisions.decided() if one.id == id])[0]
        if not requests or card.state != "withdrawn":
            assert bool(requests) == (card.decision == "fulfilled"), (told, card)
            continue
        crossed += 1
        [request_sent] = requests
        # The tool is not executed: its participant has heard the withdraw first, too.
        end = "withdrawn by bot; not executed"
        [done] = eventually(
            lambda id=pending.id, end=end: [
                one
                for one in lab.decisions.decided()
                if one.id == id and one.outcome.endswith(f"your request: {end}")
            ]
        )
        assert (done.state, done.decision, done.sent) == (
            "withdrawn", "withdrawn after it was sent", request_sent["id"],
        )  # fmt: skip
        row = next(row for row in lab.history() if f"a={n}," in row[1])
        assert row[3] == "withdrawn after it was sent" and row[6].endswith(end)
        assert told == f"Proposal {pending.id}: {end}"
        notes = [json.loads(one.detail) for one in lab.log.held if one.event == "decided"]
        assert notes[-1]["request"] == request_sent["id"]
    assert crossed, "an approval and a withdraw never crossed"
