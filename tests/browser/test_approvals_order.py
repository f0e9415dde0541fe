"""What waits comes first and stays where a person is about to press; a decision and its result are two things."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from bare import Bare
from scenes import armed
from seat import Seat

from mew_lab.lab.decisions.cards import Card
from mew_lab.views.approvals.widget import ApprovalsView


class Scene:
    """One seat and its view on a page."""

    def __init__(self, bare: Callable[..., Bare], **how: Any) -> None:
        self.seat = Seat()
        self.view = ApprovalsView(self.seat, me="human")
        self.page = bare(self.view, **how)
        self.open = self.page.tab.locator(".mew-cards > li")
        self.past = self.page.tab.locator(".mew-decided > li:not([hidden])")

    def propose(self, tool: str, **more: Any) -> Card:
        self.seat.propose(tool, {"path": f"{tool}.md"}, **more)
        return list(self.seat.cards.values())[-1]

    def decide(self, card: Card, **how: Any) -> None:
        """Another view or a policy decides."""
        done = {"state": "done", "by": "human", "decided_at": time.time(), "outcome": "ok"}
        self.seat.put(replace(card, **(done | how)))

    def tools(self) -> list[str]:
        """The tools of the open entries in the order of the page."""
        names = self.open.evaluate_all(
            "all => all.map(n => [...n.querySelectorAll('.mew-tool, .mew-brief-call')].find(t => t.checkVisibility())?.textContent ?? '')"
        )
        return [name.split("(")[0] for name in names]

    def wait_tools(self, *tools: str) -> None:
        self.page.until(lambda: self.tools() == list(tools), f"the order {tools}, not {self.tools()}")


@pytest.fixture
def scene(bare: Callable[..., Bare]) -> Callable[..., Scene]:
    return partial(Scene, bare)


def test_open_cards_stand_above_decided_ones_and_what_has_warnings_above_what_has_none(
    scene: Callable[..., Scene],
) -> None:
    it = scene(width=480, height=660)
    for n in range(8):
        it.decide(it.propose(f"past{n}"))
    for tool, warnings in (("old", ()), ("young", ()), ("risky", ("one", "two")), ("some", ("one",))):
        it.propose(tool, warnings=warnings)
    it.wait_tools("risky", "some", "old", "young")
    head = it.page.tab.locator(".mew-header")
    assert "4 open" in head.inner_text() and "History (8)" in head.inner_text()
    # Of many, those with warnings are shown in full, with their buttons in sight; each other is a line with a button.
    assert it.open.locator("button.mew-approve:visible").count() == 2
    box = it.open.first.locator("button.mew-approve").bounding_box()
    assert box is not None and box["y"] + box["height"] < 660
    assert it.open.locator("button.mew-review-open:visible").count() == 2
    it.page.until(lambda: it.past.count() == 5, "the last five decisions")
    assert "past7" in it.past.first.inner_text(), "the last decision first"
    it.open.nth(2).locator("button.mew-review-open").click()
    it.page.until(lambda: it.open.locator("button.mew-approve:visible").count() == 3, "the reviewed card")
    it.page.tab.locator("button.mew-earlier").click()
    assert it.page.tab.locator(".mew-ledger tbody tr").count() == 8
    assert 'path="past7.md"' in it.page.tab.locator(".mew-ledger tbody tr").first.inner_text()


@pytest.mark.threat(15)
@pytest.mark.parametrize("by", ["pointer", "focus"])
def test_nothing_moves_under_the_pointer_or_the_focus(scene: Callable[..., Scene], by: str) -> None:
    it = scene()
    first, second = it.propose("first"), it.propose("second")
    it.wait_tools("first", "second")
    card = it.open.nth(1)
    if by == "pointer":
        card.hover()
    else:
        card.focus()
    place = card.bounding_box()
    it.propose("risky", warnings=("one",))
    it.wait_tools("first", "second", "risky")
    assert card.bounding_box() == place
    # What another person decides keeps its place and its height, too.
    it.decide(first)
    it.page.until(lambda: it.open.nth(0).get_attribute("class") == "mew-card mew-past", "the decision")
    assert it.open.nth(1).bounding_box() == place
    if by == "pointer":
        it.page.tab.mouse.move(990, 790)
    else:
        card.evaluate("node => node.blur()")
    it.wait_tools("risky", "second")
    assert it.past.count() == 1
    assert second.id in {card.id for card in it.seat.pending()}


@pytest.mark.threat(15)
@pytest.mark.parametrize("width", [pytest.param(1000, marks=pytest.mark.slow), 300])
def test_a_flood_with_banners_moves_nothing_under_the_pointer(
    scene: Callable[..., Scene], width: int
) -> None:
    it = scene(width=width, height=660)
    for tool in ("first", "second"):
        it.propose(tool)
    it.wait_tools("first", "second")
    button = it.open.nth(1).locator("button.mew-approve")
    button.hover()
    place = button.bounding_box()
    it.seat.banner = lambda: "A policy decides some of the requests."
    for n in range(12):
        it.propose(f"more{n}", warnings=("one",) * (n % 3))
    for n in range(200):
        it.seat.propose("alike", {"n": n})
    for card in list(it.seat.cards.values())[2:8]:
        it.decide(card, on_screen=0.2)
    shown = it.page.tab.locator("section.mew-approvals")
    it.page.until(lambda: int(shown.get_attribute("data-open") or 0) > 150, "the flood")
    it.page.pause(0.5)  # nothing is to move in this time
    assert button.bounding_box() == place
    it.page.tab.mouse.move(1, 1)
    it.page.until(lambda: it.page.tab.locator(".mew-banner:visible").count() == 2, "both banners, afterwards")
    box = it.page.tab.locator(".mew-header").evaluate("n => [n.scrollHeight, n.clientHeight]")
    assert box[0] <= box[1], "all of the header"


@pytest.mark.threat(15)
def test_a_table_that_another_person_decides_moves_nothing_below_it(scene: Callable[..., Scene]) -> None:
    it = scene()
    for bed in ("north", "east", "west"):
        it.seat.propose("alike", {"bed": bed})
    alike = list(it.seat.cards.values())
    it.page.until(it.open.locator("table.mew-rows").count, "the table")
    it.propose("other")
    it.page.until(lambda: it.open.count() == 2, "the card below the table")
    card = it.open.nth(1)
    card.hover()
    place = card.bounding_box()
    for one in alike:
        it.decide(one)
    it.page.until(lambda: it.open.first.locator("tr.mew-rowpast").count() == 3, "the decisions")
    it.page.pause(0.5)  # nothing is to move in this time
    assert card.bounding_box() == place
    it.page.tab.mouse.move(990, 790)
    it.wait_tools("other")
    it.page.until(lambda: it.past.count() == 3, "the decided ones below")


def test_after_a_decision_the_keyboard_is_at_the_next_card(scene: Callable[..., Scene]) -> None:
    it = scene()
    for tool in ("first", "second"):
        it.propose(tool)
    it.wait_tools("first", "second")
    it.open.first.focus()
    armed(it.page, it.open.first.locator("button.mew-approve"))
    it.page.tab.keyboard.press("a")
    it.wait_tools("second")
    assert it.open.first.evaluate("n => n === document.activeElement")
    it.propose("third")
    it.wait_tools("second", "third")
    it.page.tab.keyboard.press("j")
    assert it.open.nth(1).evaluate("n => n === document.activeElement")
    it.page.tab.keyboard.press("k")
    assert it.open.nth(0).evaluate("n => n === document.activeElement")


def test_a_reason_is_written_after_reject_and_sent_by_enter_or_chosen_beneath(
    scene: Callable[..., Scene],
) -> None:
    it = scene()
    for tool in ("first", "second", "third"):
        it.propose(tool)
    it.wait_tools("first", "second", "third")
    assert it.open.locator("select:visible, input:visible").count() == 0
    armed(it.page, it.open.first.locator("button.mew-reject")).click()
    chips = it.open.first.locator(".mew-chips button")
    assert chips.count() == 11 and chips.first.get_attribute("title") == "does not agree with the action"
    armed(it.page, chips.get_by_text("Unsafe")).click()
    it.wait_tools("second", "third")
    toast = it.page.tab.locator(".mew-toast")
    assert "Rejected. This cannot be undone, but agent may propose it again." in toast.inner_text()
    assert toast.get_by_role("button").all_inner_texts() == ["Dismiss"]
    # The key opens it at once, before the button is armed: what is typed next decides nothing.
    it.open.first.focus()
    it.open.first.locator("button.mew-reject").evaluate("n => n.setAttribute('aria-disabled', 'true')")
    it.page.tab.keyboard.press("r")
    field = it.open.first.locator(".mew-words input")
    assert field.evaluate("n => n === document.activeElement")
    it.page.tab.keyboard.type("not on a Monday")
    it.page.tab.keyboard.press("Enter")
    it.wait_tools("third")
    # Escape leaves the form, and Enter without words disagrees.
    it.page.until(lambda: it.open.first.evaluate("n => n === document.activeElement"), "the next card")
    armed(it.page, it.open.first.locator("button.mew-reject"))
    it.page.tab.keyboard.press("r")
    it.page.tab.keyboard.press("Escape")
    assert it.open.first.locator(".mew-words").is_hidden()
    it.open.first.focus()
    it.page.tab.keyboard.press("r")
    it.page.tab.keyboard.press("Enter")
    it.page.until(lambda: len(it.seat.fulfilled) == 3, "the rejections")
    assert [one[2] for one in it.seat.fulfilled] == ["unsafe", "not on a Monday", "disagree"]


def test_a_decision_and_the_result_of_the_tool_are_two_things(scene: Callable[..., Scene]) -> None:
    it = scene()
    it.decide(it.propose("fine"), on_screen=2.9, outcome="3 commits")
    it.decide(
        it.propose("broken"), failed=True, outcome="moisture: KeyError: 'east'", by="human by policy wary"
    )
    it.page.until(lambda: it.past.count() == 2, "both")
    broken, fine = it.past.nth(0), it.past.nth(1)
    assert (
        "Approved automatically (policy “wary”) · tool failed: moisture: KeyError: 'east'"
        in broken.inner_text()
    )
    assert "Approved by you after 2.9 s · ran: 3 commits" in fine.inner_text()
    colour = "n => getComputedStyle(n).color"
    results = [one.locator(".mew-result").evaluate(colour) for one in (broken, fine)]
    assert results[0] != results[1] and "!" in broken.inner_text() and "✓" in fine.inner_text()


# Each change of a button that approves, as the page makes it: a busy machine may look only when the button is full.
WATCH_BUTTONS = """() => {
  window.mewButtons = [];
  new MutationObserver((records) => {
    for (const { target } of records) {
      if (target.matches("button.mew-approve") && target.title && target.closest("li").textContent.includes("second"))
        mewButtons.push([target.title, target.getAttribute("aria-disabled"), parseInt(target.style.getPropertyValue("--mew-armed")),
          target.closest("li").querySelector(".mew-hint").textContent]);
    }
  }).observe(document.body, { subtree: true, attributes: true, attributeFilter: ["title", "style", "aria-disabled"] });
}"""


@pytest.mark.threat(30)
@pytest.mark.slow
def test_a_further_card_fills_its_button_for_as_long_as_it_takes_to_read(scene: Callable[..., Scene]) -> None:
    it = scene()
    one = it.propose("first")
    # Some seconds to read, so that a slow page shows them, too.
    it.seat.propose("second", {f"line{n}": f"a part of what is new in this one, {n}" for n in range(3)})
    two = list(it.seat.cards.values())[-1]
    it.wait_tools("first", "second")
    it.page.tab.evaluate(WATCH_BUTTONS)
    # What the lab does at a decision; this seat stands in for it.
    it.seat.gate.record_decided(one, it.seat.click("elsewhere"))
    it.decide(one)
    it.wait_tools("second")
    button = it.open.first.locator("button.mew-approve")
    armed(it.page, button)
    titles, disabled, fills, hints = zip(*it.page.tab.evaluate("() => mewButtons"), strict=True)
    assert all(
        title.startswith("Ready in ") and title.endswith(" s: the time to read what is new")
        for title in titles
    )
    assert set(disabled) == {"true"}
    assert set(hints) == {""}, "the button shows it, not a line of text"
    filled = [fill for fill in fills if fill is not None]
    assert filled == sorted(filled) and filled[0] < filled[-1]
    button.click()
    it.page.until(lambda: [done[0] for done in it.seat.fulfilled] == [two.id], "the approval")


def test_identical_rows_are_marked_and_a_row_can_be_left_out(scene: Callable[..., Scene]) -> None:
    it = scene()
    for bed in ("north", "east", "north"):
        it.seat.propose("moisture", {"bed": bed})
    group = it.page.tab.locator("li.mew-group")
    it.page.until(group.count, "the table")
    assert group.locator(".mew-same").all_inner_texts() == ["same as 1"]
    assert group.locator(".mew-rowwarnings:visible").count() == 0
    group.get_by_label("Include row 2").uncheck()
    button = armed(it.page, group.locator("button.mew-approve-all"))
    assert button.inner_text().startswith("Approve 2")
    button.click()
    it.page.until(lambda: len(it.seat.fulfilled) == 2, "two approvals")
    assert {one[0] for one in it.seat.fulfilled} == {"proposal-1", "proposal-3"}
    assert [card.id for card in it.seat.pending()] == ["proposal-2"]
