"""A view in a shadow tree, as some front ends draw it: the page outside knows of its host alone, and all works the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bare import Bare
from playwright.sync_api import Locator
from seat import Seat

from mew_lab.views.approvals.widget import ApprovalsView

INSIDE = """() => {
  const host = document.body.appendChild(document.createElement("div"));
  const tree = host.attachShadow({ mode: "open" });
  const style = tree.appendChild(document.createElement("style"));
  style.textContent = document.querySelector("style").textContent;
  const el = tree.appendChild(document.createElement("div"));
  el.id = "inside";
  const model = mewModel(message => { mewSay(JSON.stringify(message)); }, window.mewKernel);
  mewModels.push(model);
  document.getElementById("out").replaceChildren();
  mewModule.render({ model, el });
}"""
COVER = """() => {
  const cover = document.body.appendChild(document.createElement("div"));
  cover.id = "cover";
  cover.style.cssText = "position: fixed; inset: 0; background: #fff; z-index: 9";
}"""


@pytest.fixture
def inside(bare: Callable[..., Bare]) -> Callable[[Seat], Bare]:
    def make(seat: Seat) -> Bare:
        page = bare(ApprovalsView(seat))  # type: ignore[arg-type]
        page.tab.evaluate(INSIDE)
        page.until(lambda: page.cards("inside").count(), "the cards in the shadow tree")
        return page

    return make


def armed(bare: Bare, card: Locator) -> Locator:
    button = card.locator("button.mew-approve")
    bare.until(lambda: button.get_attribute("aria-disabled") == "false", "the card to arm")
    return button


def test_a_card_in_a_shadow_tree_arms_and_is_decided_by_mouse_and_keys(
    inside: Callable[[Seat], Bare],
) -> None:
    seat = Seat()
    for name in ("git_log", "git_status", "git_diff"):
        seat.propose(name)
    bare = inside(seat)
    armed(bare, bare.cards("inside").first).click()
    bare.until(lambda: len(seat.fulfilled) == 1, "the approval")
    assert seat.fulfilled[0][:2] == ("proposal-1", "approve")
    # The focus went on to the next card, whose keys act.
    card = bare.cards("inside").first
    bare.until(
        lambda: card.evaluate("card => card.getRootNode().activeElement === card"), "the focus on the next"
    )
    armed(bare, card)
    bare.tab.keyboard.press("a")
    bare.until(lambda: len(seat.fulfilled) == 2, "the approval by a key")
    # A press in a menu is no press beside it.
    card = bare.cards("inside").first
    armed(bare, card)
    card.locator("button.mew-reject").click()
    reason = card.get_by_role("button", name="Unsafe")
    bare.until(lambda: reason.get_attribute("aria-disabled") == "false", "the reasons to arm")
    reason.click()
    bare.until(lambda: len(seat.fulfilled) == 3, "the rejection")
    assert [decided[:3] for decided in seat.fulfilled[1:]] == [
        ("proposal-2", "approve", ""),
        ("proposal-3", "reject", "unsafe"),
    ]


def test_what_the_page_draws_over_a_shadow_tree_keeps_its_cards_from_arming(
    inside: Callable[[Seat], Bare],
) -> None:
    seat = Seat()
    seat.propose("git_log")
    bare = inside(seat)
    button = armed(bare, bare.cards("inside").first)
    bare.tab.evaluate(COVER)
    bare.until(lambda: button.get_attribute("aria-disabled") == "true", "the covered card to be disarmed")
    bare.tab.evaluate("() => document.getElementById('cover').remove()")
    armed(bare, bare.cards("inside").first)
