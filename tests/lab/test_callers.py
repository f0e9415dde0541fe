"""Cards for which no client waits: what its proposer tells of the client decides how such a card can be approved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions import cards
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.lab.decisions.text import card_lines
from mew_lab.lab.lab import Lab
from mew_lab.views.approvals.model import card_data

from .looking import approve, call, click, eventually, propose, sent

Adding = Callable[[int, int], Any]


def propose_add(lab: Lab, *, by: str = "bot", a: int = 1, meta: dict[str, Any] | None = None) -> Card:
    """A proposal of `notebook/add`; its card."""
    payload = call(a=a, b=2)
    payload["params"] |= {"_meta": meta} if meta else {}
    return propose(lab, payload, by=by)


def tell(lab: Lab, calls: Any, *, by: str = "bot") -> None:
    """A participant tells of the clients of its proposals in its status."""
    seat = lab.seats[by]
    payload = {"messages_in_context": 0, "x-calls": calls}
    seat.run(seat.participant.send_accepted({"kind": "participant/status", "payload": payload}))


def card_with(lab: Lab, id: str, caller: str) -> Card:
    """The open card, once its client is known to be in that state."""
    return eventually(
        lambda: [card for card in lab.decisions.pending() if (card.id, card.caller) == (id, caller)]
    )[0]


def test_a_card_that_its_client_cancelled_is_unarmed_until_the_client_asks_again(
    lab: Lab, adding: Adding
) -> None:
    card = propose_add(lab)
    lab.decisions.record_shown(card.id, view="v", digest=card.digest)
    tell(lab, {card.id: "cancelled"})
    cancelled = card_with(lab, card.id, "cancelled")
    assert cancelled.notices == ("cancelled by its client",) and card_data(cancelled)["cancelled"]
    assert "  cancelled by its client" in card_lines(cancelled)
    with pytest.raises(NotApproved, match="was cancelled by its client; if that asks again"):
        click(lab, card.id, card.digest)
    with pytest.raises(NotApproved) as refused:
        approve(lab, card.id)
    assert refused.value.code == "cancelled_by_client" and sent(lab, "mcp/request") == []
    tell(lab, {})
    armed = card_with(lab, card.id, "")
    assert armed.notices == () and not card_data(armed)["cancelled"]
    # Each view has to show it anew: what it showed before is not what is approved now.
    refusal = lab.decisions.refusal(
        card.id, digest=card.digest, decision="approve", click=lab.decisions.click("v")
    )
    assert "has not shown it yet" in refusal
    assert click(lab, card.id, card.digest).startswith("Approved")


def test_a_card_that_its_client_cancelled_can_be_rejected(lab: Lab, adding: Adding) -> None:
    card = propose_add(lab)
    tell(lab, {card.id: "cancelled"})
    card_with(lab, card.id, "cancelled")
    assert click(lab, card.id, card.digest, "reject").startswith("Rejected")


@pytest.mark.parametrize("how", ["click", "typed"])
def test_a_card_whose_client_is_gone_is_approved_the_second_time(lab: Lab, adding: Adding, how: str) -> None:
    card = propose_add(lab)
    tell(lab, {card.id: "gone"})
    gone = card_with(lab, card.id, "gone")
    [notice] = gone.notices
    assert notice.startswith("its client gave up after ") and notice.endswith(" s and may ask again")

    def decide() -> Any:
        return click(lab, card.id, card.digest) if how == "click" else approve(lab, card.id)

    with pytest.raises(NotApproved, match="and may ask again; approve it once more") as refused:
        decide()
    assert refused.value.code == "client_gone" and sent(lab, "mcp/request") == []
    assert str(decide()).startswith("Approved")
    assert [request["correlation_id"] for request in sent(lab, "mcp/request")] == [[card.id]]


def test_a_double_click_is_one_approval_of_a_card_whose_client_is_gone(
    lab: Lab, adding: Adding, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = propose_add(lab)
    tell(lab, {card.id: "gone"})
    card_with(lab, card.id, "gone")
    lab.decisions.record_shown(card.id, view="v", digest=card.digest)
    monkeypatch.setattr(cards, "ARMING", 0.2)
    eventually(lambda: (lab.decisions.gate.on_screen(card) or 0) > 0.25)

    def refusal() -> str:
        now = lab.decisions.click("v")
        return lab.decisions.refusal(card.id, digest=card.digest, decision="approve", click=now)

    assert "once more" in refusal() and "once more" in refusal()
    eventually(lambda: refusal() == "")


def test_a_client_that_came_back_and_is_gone_again_is_asked_about_again(lab: Lab, adding: Adding) -> None:
    card = propose_add(lab)
    for calls, caller in (({card.id: "gone"}, "gone"), ({}, ""), ({card.id: "gone"}, "gone")):
        tell(lab, calls)
        card_with(lab, card.id, caller)
        if caller:
            with pytest.raises(NotApproved, match="once more"):
                click(lab, card.id, card.digest)


@pytest.mark.parametrize("state", ["cancelled", "gone"])
def test_a_policy_decides_nothing_for_which_no_client_waits_and_decides_when_it_asks_again(
    lab: Lab, adding: Adding, state: str
) -> None:
    card = propose_add(lab)
    tell(lab, {card.id: state})
    card_with(lab, card.id, state)
    judged: list[str] = []

    def judge(card: Card) -> Decision:
        judged.append(card.caller)
        return Decision("approve")

    lab.decide = Policy("yes", judge)
    other = propose_add(lab, a=7)
    eventually(lambda: [one for one in lab.decisions.decided() if one.id == other.id])
    assert [one.id for one in lab.decisions.pending()] == [card.id] and judged == [""]
    tell(lab, {})
    eventually(lambda: [one for one in lab.decisions.decided() if one.id == card.id])
    assert judged == ["", ""]


@pytest.mark.parametrize(
    "calls",
    [
        *(None, 3, "x", [], ["cancelled"], {"x": "cancelled"}, {"": "gone"}),
        *("{id}", {"{id}": "waits"}, {"{id}": None}, {"{id}": ["cancelled"]}, {"{id}": {"cancelled": 1}}),
    ],
)
def test_a_status_of_another_form_says_nothing(lab: Lab, adding: Adding, calls: Any) -> None:
    card = propose_add(lab)
    if isinstance(calls, dict):
        calls = {key.replace("{id}", card.id): value for key, value in calls.items()}
    tell(lab, calls)
    later = propose_add(lab, a=5)
    assert [(one.id, one.caller) for one in lab.decisions.pending()] == [(card.id, ""), (later.id, "")]


@pytest.mark.extension("client_status")
def test_a_participant_tells_nothing_of_the_proposals_of_others(lab: Lab, adding: Adding) -> None:
    card = propose_add(lab)
    own = propose_add(lab, by="mallory", a=9)
    tell(lab, {card.id: "cancelled", own.id: "gone"}, by="mallory")
    card_with(lab, own.id, "gone")
    assert [one.caller for one in lab.decisions.pending()] == ["", "gone"]
    tell(lab, {card.id: "gone"})
    card_with(lab, card.id, "gone")
    tell(lab, {}, by="mallory")
    card_with(lab, own.id, "")
    assert [one.caller for one in lab.decisions.pending()] == ["gone", ""]


def test_the_card_of_an_equal_call_says_that_it_is_the_same_as_the_one_above(
    lab: Lab, adding: Adding
) -> None:
    first = propose_add(lab, meta={"progressToken": "gate-1"})
    second = propose_add(lab, meta={"progressToken": "gate-2"})
    third = propose_add(lab, by="helper")
    other = propose_add(lab, a=3)
    assert (first.notices, other.notices) == ((), ())
    words = f"the same as the one above, proposal {first.id}; approving both runs it twice"
    for card in (second, third):
        assert card.notices == (words,) and f"  {words}" in card_lines(card)
        assert card_data(card)["notices"] == [words] and card.warnings == first.warnings
    for card in (first, second):
        approve(lab, card.id)
    # What was decided is above no more; the oldest that is open is.
    assert propose_add(lab).twin == third.id
    lab.reject(third.id)
    with pytest.raises(MewError):
        lab.reject(third.id)
