"""A payment whose answer was lost, with a real MCP server: all say that its outcome is unknown, and nobody pays twice.

Ruling R35.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import CannotWait, NotApproved, OutcomeUnknown, StillRunning, ToolFailed
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.notebook.waiting import before_wait
from mew_lab.views.approvals.model import card_data, outcome_line

from .looking import eventually

pytestmark = [pytest.mark.ruling("R35"), pytest.mark.timeout(120)]

SERVER = Path(__file__).with_name("paying_server.py")
UNKNOWN = "It was sent. Whether it took effect is not known."


class Bank:
    """The lab with the bridged bank, and an agent that wants to pay."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.account = folder / "account"
        self.dying = folder / "dies"
        self.dying.touch()
        lab.bridge("bank", ["python", str(SERVER), str(self.account)])
        self.clerk = lab.join("clerk", "proposer")

    @property
    def paid(self) -> list[str]:
        return self.account.read_text().split() if self.account.exists() else []

    def propose(self, amount: int = 7) -> Any:
        """A proposal of the clerk, once its card is here and the server, which may have been restarted, answers."""
        eventually(self._answers)
        pending = self.clerk.propose("bank/pay", {"amount": amount})
        eventually(lambda: any(card.id == pending.id for card in self.lab.decisions.pending()))
        return pending

    def _answers(self) -> bool:
        try:
            self.lab.call("bank/balance").result(20)
        except ToolFailed:  # it is being started again
            return False
        return True

    def card(self, id: str) -> Any:
        cards = [*self.lab.decisions.pending(), *self.lab.decisions.decided()]
        return next(card for card in cards if card.id == id)

    def lose(self) -> Any:
        """A payment that was approved and carried out, and whose answer was lost."""
        pending = self.propose()
        self.lab.approve(self.lab.proposals()[0])
        with pytest.raises(OutcomeUnknown, match="the MCP server of participant bank ended") as caught:
            pending.result(20)
        assert str(caught.value).endswith(UNKNOWN) and self.paid == ["7"]
        return pending


@pytest.fixture
def bank(lab: Lab, tmp_path: Path) -> Bank:
    return Bank(lab, tmp_path)


def test_every_reader_says_that_the_outcome_of_a_lost_payment_is_unknown(bank: Bank, tmp_path: Path) -> None:
    pending, lab = bank.lose(), bank.lab
    assert pending.state == "unknown"
    row = lab.log.decisions().query("executed and tool == 'pay'").iloc[0]
    assert (row["outcome"], row["latency"] == row["latency"]) == ("unknown", False)
    assert "the MCP server of participant bank ended" in row["error"]
    proposal = lab.log.proposals().set_index("id").loc[pending.id]
    assert proposal["state"] == "unknown" and proposal["failed"] is not True
    assert {entry["kind"] for entry in lab.log.filter("state == unknown")} == {"mcp/request", "mcp/proposal"}
    card = eventually(lambda: (card := bank.card(pending.id)).state == "unknown" and card)
    assert not card.failed and card.decision == "fulfilled"
    assert "not known whether it took effect" in outcome_line(card)
    assert lab.history()[0][-1].startswith("not known whether it took effect: ")
    assert "not known whether it took effect: " in str(lab.proposals(all=True))
    assert card_data(card)["state"] == "unknown"
    assert "unknown" in str(lab.log.requests()["state"].tolist())
    path = tmp_path / "session.html"
    lab.report(path)
    assert UNKNOWN in path.read_text() and ", 1 with an unknown outcome" in path.read_text()
    spans = tmp_path / "spans.json"
    lab.log.export_otlp(str(spans))
    told = [span for span in _spans(json.loads(spans.read_text())) if span["name"].endswith(" pay")]
    states = [_attribute(span, "mew.call.state") for span in told]
    assert states and set(states) == {"unknown"} and not any("status" in span for span in told)
    assert "unknown-outcome" in {finding.rule for finding in lab.log.diagnose()}


def _spans(exported: Any) -> list[Any]:
    scopes = [scope for resource in exported["resourceSpans"] for scope in resource["scopeSpans"]]
    return [span for scope in scopes for span in scope["spans"]]


def _attribute(span: Any, key: str) -> str:
    return next((one["value"]["stringValue"] for one in span["attributes"] if one["key"] == key), "")


def test_the_card_of_a_second_payment_begins_with_the_first_and_only_a_person_approves_it(bank: Bank) -> None:
    first, lab = bank.lose(), bank.lab
    request = lab.log.proposals().set_index("id").loc[first.id]["request"]
    lab.decide = Policy.approve()
    bank.dying.unlink()
    second = bank.propose()
    card = bank.card(second.id)
    assert card.state == "open" and f"human sent the same call before (request {request[:12]}" in card.repeats
    assert f"since {time.strftime('%Y-%m-%d')}" in card.repeats
    assert card_data(card)["warnings"][0]["text"].startswith("human sent the same call before")
    shown = str(lab.proposals()).splitlines()
    assert "human sent the same call before" in shown[shown.index(next(x for x in shown if "pay" in x)) + 1]
    with pytest.raises(NotApproved, match=r"despite=.unknown"):
        lab.approve(lab.proposals()[0])
    with pytest.raises(CannotWait, match="waits for a person: human sent the same call before"):
        before_wait(second, True)
    assert bank.paid == ["7"]
    lab.approve(lab.proposals()[0], despite="unknown")
    assert second.result(20).text == "paid" and bank.paid == ["7", "7"]


def test_what_a_person_found_out_lets_the_policy_decide_again(bank: Bank) -> None:
    first, lab = bank.lose(), bank.lab
    request = lab.log.proposals().set_index("id").loc[first.id]["request"]
    bank.dying.unlink()
    lab.decide = Policy.approve()
    second = bank.propose()
    assert bank.card(second.id).repeats
    lab.resolve(request, happened=False, note="no payment")
    assert second.result(20).text == "paid"
    card = bank.card(first.id)
    assert card.state == "resolved" and "found out: it did not happen (human: no payment)" in card.outcome
    row = lab.log.decisions().set_index("id").loc[request]
    assert (row["outcome"], row["resolution"]) == ("resolved", "did not happen (human: no payment)")
    assert lab.call("bank/pay", {"amount": 7}).result(20).text == "paid"  # by own right, at the executor


def test_what_took_effect_is_not_repeated_by_a_policy_when_a_person_says_so(bank: Bank) -> None:
    first, lab = bank.lose(), bank.lab
    request = lab.log.proposals().set_index("id").loc[first.id]["request"]
    bank.dying.unlink()
    lab.decide = Policy.approve()
    second = bank.propose()
    lab.resolve(request, happened=True, note="the money is there")
    card = eventually(lambda: "and it took effect" in (card := bank.card(second.id)).repeats and card)
    lab.call("bank/balance").result(20)
    assert card.state == "open" and bank.paid == ["7"]
    with pytest.raises(NotApproved, match="it took effect"):
        lab.approve(lab.proposals()[0])
    lab.approve(lab.proposals()[0], despite="unknown")
    assert second.result(20).text == "paid" and bank.paid == ["7", "7"]


def test_a_payment_by_own_right_is_not_repeated(bank: Bank) -> None:
    lab = bank.lab
    with pytest.raises(OutcomeUnknown, match="the MCP server of participant bank ended"):
        lab.call("bank/pay", {"amount": 7}).result(20)
    bank.dying.unlink()

    def repeated() -> str:
        with pytest.raises(OutcomeUnknown) as caught:
            lab.call("bank/pay", {"amount": 7}).result(20)
        return str(caught.value)

    assert "Not executed again: human sent the same call before" in eventually(repeated)
    assert bank.paid == ["7"]


def test_a_time_that_is_over_for_its_caller_leaves_a_call_as_it_is(lab: Lab) -> None:
    @lab.tool
    async def slow() -> str:
        import asyncio

        await asyncio.sleep(0.5)
        return "done"

    call = lab.call("notebook/slow")
    with pytest.raises(StillRunning):
        call.result(0.05)
    assert lab.log.requests().set_index("id").loc[call.id]["state"] == "waiting"
    assert call.result(20).text == "done"
    assert lab.log.requests().set_index("id").loc[call.id]["state"] == "answered"
