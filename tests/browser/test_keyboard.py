"""The control room by keyboard alone: a person finds what waits, decides it, moves between parts and leaves again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from access import focus_path
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import BUSY

HERE = "r => r.contains(document.activeElement)"


def opened(plain: Callable[..., Notebook]) -> tuple[Notebook, Locator]:
    book = plain([BUSY, "%mew panel"]).run(0, deadline=60).run(1)
    assert book.text(0).endswith("ready\n"), book.text(0)
    room = book.area(1).locator("section.mew-panel")
    room.scroll_into_view_if_needed()
    book.page.until(lambda: "3 need your approval" in room.inner_text(), "what waits")
    room.locator("section.mew-feed tbody tr").first.wait_for()
    return book, room


def tab_to(book: Notebook, room: Locator, wanted: Callable[[], bool]) -> int:
    """Presses Tab until the focus is where it should be; returns how often."""
    for presses in range(1, 80):
        book.tab.keyboard.press("Tab")
        if wanted():
            return presses
    raise AssertionError("Tab does not lead there")


@pytest.mark.slow
def test_tab_reaches_every_part_and_leaves_the_room_again(plain: Callable[..., Notebook]) -> None:
    book, room = opened(plain)
    path = focus_path(book, room, most=150)
    assert 10 < len(path) < 140, "Tab leaves the room at the end"
    named = "\n".join(path)
    for stop in (
        "button Pause agents",
        "button Settings",
        "button Keys",
        "button Messages",
        "History",
        "Width of the approvals",
    ):
        assert stop.split(" ", 1)[-1] in named or stop in named, (stop, named)
    # Approvals come before the parts in the tabs.
    first = next(n for n, stop in enumerate(path) if "wants to run" in stop)
    assert first < next(n for n, stop in enumerate(path) if stop.startswith("button Messages"))


@pytest.mark.slow
def test_a_request_is_found_rejected_and_another_approved_without_a_mouse(
    plain: Callable[..., Notebook],
) -> None:
    book, room = opened(plain)
    cards = room.locator("section.mew-approvals")
    room.locator("button:visible").first.focus()
    card = "() => document.activeElement.closest('li.mew-card')?.textContent ?? ''"
    tab_to(book, room, lambda: "/etc/passwd" in book.tab.evaluate(card))
    book.page.until(
        lambda: (
            cards.locator("li.mew-card:focus-within button.mew-reject").get_attribute("aria-disabled")
            == "false"
        ),
        "the card to be ready",
    )
    book.tab.keyboard.press("r")
    book.tab.keyboard.type("not that file")
    book.tab.keyboard.press("Enter")
    book.page.until(lambda: "2 need your approval" in room.inner_text(), "the rejection")
    assert room.evaluate(HERE), "the focus stays in the room"
    room.locator("button:visible").first.focus()
    tab_to(book, room, lambda: "moisture" in book.tab.evaluate(card))
    ready = "() => document.activeElement.closest('li.mew-card')?.querySelector('button.mew-approve')?.getAttribute('aria-disabled') === 'false'"
    book.page.until(lambda: book.tab.evaluate(ready), "the card to arm")
    book.tab.keyboard.press("a")
    book.page.until(lambda: "1 needs your approval" in room.inner_text(), "the approval")
    # On to another part, by its tab.
    tab_to(book, room, lambda: "mew-tab" in book.tab.evaluate("() => document.activeElement.className"))
    for name in ("reasoning", "chat", "streams", "tools", "timeline", "grants", "rules"):
        book.tab.keyboard.press("ArrowRight")
        room.locator(f"section.mew-{name}").wait_for()
        assert room.locator(f"[role=tab][data-part={name}]").get_attribute("aria-selected") == "true"
    assert book.page.errors == [] and book.page.dialogs == []
