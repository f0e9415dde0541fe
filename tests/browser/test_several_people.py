"""The card of a call that several people decide: who looks at it, who said yes, and the refusal of an executor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bare import Bare
from scenes import armed

import mew_lab
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.sdk.quorum import Quorum

pytestmark = [pytest.mark.ruling("R39"), pytest.mark.timeout(180)]


@pytest.fixture
def labs() -> tuple[Lab, Lab]:
    lab = mew_lab.up("demo", journal=None, share_review=True)

    @lab.tool
    def transfer(euros: int, to: str) -> str:
        "Transfers money."
        return f"{euros} to {to}"

    lab.enrol("ben", "human")
    lab.seats["notebook"].participant.quorum = Quorum.of(2, ["human", "ben"])
    ben = connect(lab.url, space="demo", token_file=lab.token_file("ben"), name="ben", share_review=True)
    return lab, ben


def approve(page: Bare) -> None:
    button = page.tab.locator(".mew-card .mew-approve:visible").first
    page.until(button.count, "a card")
    armed(page, button).click()


@pytest.mark.slow
def test_the_card_says_who_said_yes_and_comes_back_when_the_executor_refuses(
    bare: Callable[..., Bare], labs: tuple[Lab, Lab]
) -> None:
    lab, ben = labs
    page = bare(lab.view.approvals)
    pending = lab.join("bot").call("notebook/transfer", euros=10, to="ada")
    review = page.tab.locator(".mew-card .mew-reviewers:visible")
    page.until(lambda: review.count() and "must say yes" in review.inner_text(), "the quorum on the card")
    approve(page)
    page.until(
        lambda: review.count() and "you said yes; 2 of human, ben must say yes" in review.inner_text(),
        "the card that came back",
    )
    page.until(
        lambda: "1 more yes of ben" in page.tab.locator("body").inner_text(), "what the executor refused with"
    )
    page.until(lambda: pending.state == "open", "the proposal to be open")
    other = bare(ben.view.approvals)
    theirs = other.tab.locator(".mew-card .mew-reviewers:visible")
    other.until(lambda: theirs.count() and "human said yes" in theirs.inner_text(), "the yes of the first")
    page.until(lambda: "shown to ben" in review.inner_text(), "that ben looks at it")
    approve(other)
    other.until(lambda: pending.state == "answered", "the call")
    assert str(pending.result()) == "10 to ada"
    page.until(lambda: not review.count(), "the end of the card")


@pytest.mark.slow
def test_a_yes_that_waits_for_others_leaves_the_card_to_be_decided(
    bare: Callable[..., Bare], labs: tuple[Lab, Lab]
) -> None:
    lab, _ = labs
    lab.seats["notebook"].participant.quorum = None
    lab.quorum = (2, ["human", "ben"])
    page = bare(lab.view.approvals, width=360, dark=True)
    pending = lab.join("bot").call("notebook/transfer", euros=10, to="ada")
    approve(page)
    review = page.tab.locator(".mew-card .mew-reviewers:visible")
    page.until(
        lambda: "you said yes; it waits for 1 more yes of ben" in review.inner_text(), "the yes on the card"
    )
    assert "asked for by this lab; ben can send alone" in review.inner_text()
    page.until(lambda: pending.state == "open", "the proposal to be open")
    reject = page.tab.locator(".mew-card button:has-text('Reject'):visible")
    page.until(lambda: reject.count() and reject.first.is_enabled(), "a way to take it back")
