"""Ctrl-. stops everything from any view, and the line that says so goes on again, by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from real_lab import Notebook
from scenes import ADDING, PROPOSE, armed

FOCUSED = "node => node.contains(document.activeElement)"


def test_ctrl_dot_stops_the_lab_in_each_of_its_views_and_go_on_lists_before_it_undoes(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([ADDING, PROPOSE, "lab.view.approvals", "lab.view.feed"]).run(0).run(1).run(2).run(3)
    cards, feed = book.area(2), book.area(3)
    approve = cards.locator("li.mew-card button.mew-approve")
    armed(book.page, approve)
    cards.locator("li.mew-card").focus()
    book.tab.keyboard.press("Control+.")
    lines = [area.locator(".mew-stopped") for area in (cards, feed)]
    for line in lines:
        book.page.until(line.is_visible, "the line that says who stopped it")
        assert line.locator("b").inner_text().startswith("Stopped by human at ")
    seen = lines[0].locator("li")
    book.page.until(
        lambda: "cards: 1 open proposal cannot be approved" in "".join(seen.all_inner_texts()),
        "what was seen",
    )

    def refused() -> bool:
        if "this lab was stopped by human" in cards.inner_text():
            return True
        # Again: a press does not count where the line has just moved what is under it.
        if approve.get_attribute("aria-disabled") != "true":
            approve.click()
        return False

    book.page.until(refused, "the refusal")
    go = lines[1].locator("button")
    go.focus()
    book.tab.keyboard.press("Enter")
    book.page.until(lambda: "can be approved again" in lines[1].inner_text(), "what going on would undo")
    assert lines[0].is_visible(), "the list comes before anything is undone"
    book.page.until(lambda: go.inner_text() == "Go on now", "the button that does it")
    book.tab.keyboard.press("Enter")
    for line in lines:
        book.page.until(line.is_hidden, "the line to go")
    assert feed.evaluate(FOCUSED), "the focus stays in the view when its line goes"
    lab = book.shell.user_ns["lab"]  # type: ignore[attr-defined]
    assert not lab.stopping.text and "not stopped" in str(lab.go())
    armed(book.page, approve)


@pytest.mark.slow
def test_a_panel_says_once_that_it_is_stopped_and_takes_the_key_in_each_part(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([ADDING, PROPOSE, "%mew panel"]).run(0).run(1).run(2)
    room = book.area(2).locator("section.mew-panel")
    shown = (
        "r => [...r.querySelectorAll('.mew-stopped')].filter((line) => line.getClientRects().length).length"
    )
    for part in ("section.mew-approvals", "section.mew-feed", "section.mew-roster"):
        opener = room.locator(f"{part} button:visible").first
        opener.focus()
        book.tab.keyboard.press("Control+.")
        book.page.until(lambda: room.evaluate(shown) == 1, f"one line, from {part}")
        seen = room.locator(":scope > .mew-stopped li")
        book.page.until(lambda seen=seen: seen.count() >= 4, "what was seen, in the line of the panel")
        for _ in range(2):
            go = room.locator(":scope > .mew-stopped button")
            go.focus()
            before = room.locator(":scope > .mew-stopped").inner_text()
            book.tab.keyboard.press("Enter")
            book.page.until(
                lambda before=before: room.locator(":scope > .mew-stopped").inner_text() != before,
                "the answer",
            )
        book.page.until(lambda: room.evaluate(shown) == 0, "the line to go")
        assert opener.evaluate("n => n === document.activeElement"), "the focus goes back"
    room.locator("button.mew-stop").click()
    book.page.until(lambda: room.evaluate(shown) == 1, "the line, by the button")
