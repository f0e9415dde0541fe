"""Several people decide: what their labs share, what each card says of the others, and a quorum of a lab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.errors import ConfigError, NotApproved
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.decisions.text import card_lines
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.sdk.reviews import REVIEW
from mew_lab.views.approvals.model import card_data

from .looking import call, click, eventually, propose, sent

pytestmark = pytest.mark.ruling("R39")
DECIDERS = ["human", "ben", "cy"]


@pytest.fixture
def joined(lab: Lab) -> Callable[..., Lab]:
    """Opens a lab of another person over a socket."""

    def join(name: str, **options: Any) -> Lab:
        lab.enrol(name, "human")
        options = {"share_review": True} | options
        return connect(lab.url, space=lab.space, token_file=lab.token_file(name), name=name, **options)

    return join


def reviews(lab: Lab, sender: str) -> list[dict[str, Any]]:
    return [
        one["payload"][REVIEW]
        for one in sent(lab, "participant/status")
        if one["from"] == sender and REVIEW in one["payload"]
    ]


def card_at(lab: Lab, id: str) -> Card:
    return eventually(lambda: (found := lab.decisions.queue.find(id)) and found.is_read and found)


def says(lab: Lab, id: str, words: str) -> bool:
    return eventually(lambda: words in card_at(lab, id).review)


def enforce(lab: Lab, count: int, deciders: list[str]) -> None:
    """Gives the executor of this lab's tools a quorum of its own."""
    from mew_lab.sdk.quorum import Quorum

    lab.seats["notebook"].participant.quorum = Quorum.of(count, deciders)


def test_nothing_is_shared_unless_it_is_asked_for(lab: Lab, adding: Any, joined: Callable[..., Lab]) -> None:
    ben = joined("ben", share_review=False)
    card = propose(lab, call(a=1, b=2))
    for one in (lab, ben):
        mine = card_at(one, card.id)
        one.decisions.record_shown(card.id, view="v", digest=mine.digest)
    click(ben, card.id, card_at(ben, card.id).digest)
    eventually(lambda: card_at(lab, card.id).state == "done")
    assert not [one for name in ("human", "ben") for one in reviews(lab, name)]
    assert lab.share_review is False and lab.quorum is None


def test_a_card_says_who_looks_at_it_and_who_said_yes(
    lab: Lab, adding: Any, joined: Callable[..., Lab]
) -> None:
    lab.share_review = True
    ben = joined("ben", quorum=2, deciders=DECIDERS)
    card = propose(lab, call(a=1, b=2))
    there = card_at(ben, card.id)
    ben.decisions.record_shown(card.id, view="v", digest=there.digest)
    assert says(lab, card.id, "shown to ben")
    told = click(ben, card.id, there.digest)
    assert told.startswith(
        "Your yes is shared, and nothing is sent before 1 more yes of human, cy (2 of human, "
    )
    assert says(lab, card.id, "shown to ben; ben said yes")
    assert says(
        ben,
        card.id,
        "you said yes; it waits for 1 more yes of human, cy (2 of human, ben, cy must say yes): asked for by this lab; "
        "human can send alone",
    )
    data, lines = card_data(card_at(lab, card.id)), card_lines(card_at(lab, card.id))
    assert data["review"] == "shown to ben; ben said yes" and data["notices"] == []
    assert "  shown to ben; ben said yes" in lines
    assert card_at(lab, card.id).state == "open" and card.id not in {
        one["id"] for one in sent(lab, "mcp/request")
    }
    # It falls with a rejection, and with the leave of the voter.
    ben.decisions.decide(
        card.id, digest=there.digest, decision="reject", click=ben.decisions.click("v")
    ).result(10)
    eventually(lambda: reviews(lab, "ben")[-1] == {"open": [], "yes": {}})
    other = propose(lab, call(a=2, b=2))
    click(ben, other.id, card_at(ben, other.id).digest)
    assert says(lab, other.id, "ben said yes")
    ben.down()
    eventually(lambda: card_at(lab, other.id).review == "")


def test_the_lab_that_sees_the_last_yes_sends(lab: Lab, adding: Any, joined: Callable[..., Lab]) -> None:
    lab.share_review = True
    lab.quorum = (2, DECIDERS)
    ben = joined("ben", quorum=2, deciders=DECIDERS)
    card = propose(lab, call(a=1, b=2))
    click(lab, card.id, card.digest)
    assert card_at(lab, card.id).state == "open" and says(lab, card.id, "you said yes")
    assert says(ben, card.id, "human said yes")
    told = click(ben, card.id, card_at(ben, card.id).digest)
    # Both labs know both now: the other may have sent it while this yes was being shared.
    assert told.startswith(("Approved: ", "Your yes is shared; meanwhile it was decided: "))
    eventually(lambda: card_at(lab, card.id).state == card_at(ben, card.id).state == "done")
    answers = [one for one in sent(lab, "mcp/response") if one["to"] != ["bot"]]
    done = [one for one in answers if "result" in one["payload"] and one["payload"]["result"].get("content")]
    assert len(done) == 1
    # Where the other lab asks for no quorum, its yes completes this one, which sends.
    cy = joined("cy")
    enforce(lab, 2, DECIDERS)
    second = propose(lab, call(a=2, b=2))
    click(cy, second.id, card_at(cy, second.id).digest)  # refused: the executor knows one yes
    for one in (lab, cy):
        eventually(lambda one=one: card_at(one, second.id).unmet == 1)
    click(lab, second.id, card_at(lab, second.id).digest)
    eventually(lambda: card_at(lab, second.id).state == "done")


def test_an_executor_that_enforces_it_uses_nothing_up_and_the_card_comes_back(
    lab: Lab, adding: Any, joined: Callable[..., Lab]
) -> None:
    lab.share_review = True
    enforce(lab, 2, ["human", "ben"])
    ben = joined("ben")
    pending = lab.join("bot").call("notebook/add", a=1, b=2)
    card = eventually(lambda: next((one for one in lab.decisions.pending() if one.is_read), None))
    assert card.review == "2 of human, ben must say yes, or notebook refuses it"
    assert click(lab, card.id, card.digest).startswith("Approved: ")
    again = eventually(lambda: (one := card_at(lab, card.id)).unmet == 1 and one.state == "open" and one)
    assert again.digest == card.digest and again.request_id != card.request_id
    assert "you said yes" in again.review and eventually(lambda: pending.state == "open")
    refused = next(one for one in lab.decisions.decided() if one.id.startswith(f"{card.id} (refused"))
    assert refused.by == "notebook" and refused.state == "rejected"
    assert "1 more yes of ben (2 of human, ben must say yes)" in refused.outcome
    # A policy never makes it complete, and does not ask again and again.
    lab.decide = Policy.approve()
    assert eventually(lambda: card_at(lab, card.id).state == "open")
    lab.decide = None
    eventually(lambda: card_at(ben, card.id).unmet == 1)
    click(ben, card.id, card_at(ben, card.id).digest)
    assert int(str(pending.result(10))) == 3
    rows = lab.log.requests()
    about = rows[rows["id"].isin([card.request_id, card_at(ben, card.id).sent])]
    assert list(about["state"]) == ["refused", "answered"]
    assert [one.by for one in lab.decisions.decided() if one.id == card.id] == ["ben"]
    assert list(lab.log.proposals()["state"]) == ["answered"]


def test_one_person_with_two_connections_has_one_yes(lab: Lab, adding: Any) -> None:
    """A second id, even one that the owner names by mistake, is the same person where the space runs here."""
    lab.share_review = True
    enforce(lab, 2, ["human", "human-at-home", "ben"])
    again = connect(
        lab.url,
        space=lab.space,
        token_file=lab.token_file(),
        as_id="human-at-home",
        name="home",
        share_review=True,
    )
    pending = lab.join("bot").call("notebook/add", a=1, b=2)
    card = eventually(lambda: next((one for one in lab.decisions.pending() if one.is_read), None))
    click(lab, card.id, card.digest)
    for one in (lab, again):
        eventually(lambda one=one: card_at(one, card.id).unmet == 1)
    click(again, card.id, card_at(again, card.id).digest)
    eventually(lambda: card_at(lab, card.id).unmet == 2)
    assert eventually(lambda: pending.state == "open") and not [
        one
        for one in sent(lab, "mcp/response")
        if "result" in one["payload"]
        and one["to"][0].startswith("human")
        and one["payload"]["result"].get("content")
    ]


def test_a_policy_and_a_call_without_a_target_wait_for_a_person(lab: Lab, adding: Any) -> None:
    lab.share_review = True
    lab.quorum = (1, ["human"])
    lab.decide = Policy.approve()
    card = propose(lab, call(a=1, b=2))
    assert card_at(lab, card.id).state == "open"
    open_target = propose(lab, call(a=1, b=2), to=())
    with pytest.raises(NotApproved, match="names no target"):
        lab.decisions.record_shown(open_target.id, view="v", digest=open_target.digest)
        lab.decisions.decide(
            open_target.id,
            digest=open_target.digest,
            decision="approve",
            click=lab.decisions.click("v"),
            target=("notebook",),
        ).result(10)
    assert click(lab, card.id, card.digest).startswith("Approved: ")


def test_a_status_is_sent_at_most_once_a_second_and_names_at_most_32(lab: Lab, adding: Any) -> None:
    lab.share_review = True
    lab.quorum = (2, ["human", "ben"])
    cards = [propose(lab, call(a=n, b=2)) for n in range(34)]
    for card in cards:
        lab.decisions.record_shown(card.id, view="v", digest=card.digest)
    for card in cards[:32]:
        lab.decisions.decide(card.id, digest=card.digest, decision="approve", click=lab.decisions.click("v"))
    eventually(lambda: len(reviews(lab, "human")[-1]["yes"]) == 32)
    with pytest.raises(NotApproved, match="32 of your yes wait for others"):
        click(lab, cards[33].id, cards[33].digest)
    said = reviews(lab, "human")
    assert len(said) < 8 and len(said[-1]["open"]) == 32
    assert said[-1]["yes"] == {card.id: card.digest for card in cards[:32]}


def test_a_quorum_without_shared_reviews_and_a_wrong_one_are_refused(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="share_review=True"):
        lab.quorum = (2, ["human", "ben"])
    lab.share_review = True
    for wrong in (3, "2", (2,), (2, ["human"]), [2, ["a", "b"]]):
        with pytest.raises(ConfigError):
            lab.quorum = wrong
    with pytest.raises(ConfigError, match="share_review=True"):
        up("other", quorum=2, deciders=["human", "ben"])
    lab.quorum = (2, ["human", "ben"])
    lab.share_review = False
    assert lab.quorum is None


# --- as a stranger would try it --------------------------------------------------------------------------------------


def test_a_yes_that_several_complete_at_once_is_sent_once_and_no_fault_is_told(lab: Lab, adding: Any) -> None:
    lab.share_review = True
    lab.quorum = (2, DECIDERS)
    others = [lab.join(name, can="human").participant for name in ("ben", "cy")]
    card = propose(lab, call(a=1, b=2))
    click(lab, card.id, card.digest)
    review = {REVIEW: {"open": [], "yes": {card.id: card.digest}}}
    lab.loop.call(lambda: [one.telemetry.tell(None, **review) for one in others])  # one read may bring both
    eventually(lambda: card_at(lab, card.id).state == "done")
    assert len([one for one in sent(lab, "mcp/request") if card.id in one.get("correlation_id", ())]) == 1
    assert lab.faults == []


def test_no_card_says_that_nobody_can_send_alone_where_not_all_were_looked_at(
    lab: Lab, adding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.lab.decisions.shared_reviews.MOST_JUDGED", 3)
    for n in range(4):
        lab.join(f"a{n}", can="observer")
    lab.join("zoe", can="human")
    lab.share_review = True
    lab.quorum = (2, DECIDERS)
    card = propose(lab, call(a=1, b=2))
    assert "nobody else here can send alone" not in card_at(lab, card.id).review
    assert says(lab, card.id, "participants were not looked at")


def test_a_card_that_is_shown_whole_as_text_is_looked_at_too(
    lab: Lab, adding: Any, joined: Callable[..., Lab]
) -> None:
    ben = joined("ben", quorum=2, deciders=DECIDERS)
    card = propose(lab, call(a=1, b=2))
    card_at(ben, card.id)
    with pytest.raises(NotApproved):
        ben.approve(card.id)  # the first time shows it
    assert says(lab, card.id, "shown to ben") and "said yes" not in card_at(lab, card.id).review
    assert str(ben.approve(card.id)).startswith("Your yes is shared, and nothing is sent before")
    assert says(lab, card.id, "shown to ben; ben said yes")
