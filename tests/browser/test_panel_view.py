"""The control room in a real JupyterLab: every part in its place, at any width, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Callable

from access import accessible
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import ADDING, PROPOSE

SETUP = f"""{ADDING}
lab.chat("Please add two numbers.", to="bot")
{PROPOSE}
"""


def panel(book: Notebook, index: int) -> Locator:
    """The panel, when the parts in sight are drawn: both sides and the first tab, the messages with their rows."""
    found = book.area(index).locator("section.mew-panel")
    book.page.until(
        lambda: found.count() and found.get_attribute("data-drawn") == "3",
        "two parts and a tab to be drawn",
    )
    found.locator("section.mew-feed th").first.wait_for()
    return found


def left_of(a: Locator, b: Locator) -> bool:
    one, other = a.bounding_box(), b.bounding_box()
    assert one is not None and other is not None
    return one["x"] + one["width"] <= other["x"] + 1


def test_all_parts_stand_in_their_places_and_a_decision_is_one_click(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([SETUP, "%mew panel", "print(await p)"]).run(0).run(1)
    whole = panel(book, 1)
    whole.evaluate("r => { r.style.width = '1600px'; }")
    feed, cards = whole.locator("section.mew-feed"), whole.locator("section.mew-approvals")
    assert left_of(feed, cards)
    header = whole.locator("> .mew-header")
    book.page.until(lambda: "1 needs your approval" in header.inner_text(), "the header to count what waits")
    assert "Connected" in header.locator(".mew-connection").get_attribute("aria-label")
    book.run(2, wait=False)
    button = cards.locator("button.mew-approve")
    button.scroll_into_view_if_needed()
    book.page.until(lambda: button.get_attribute("aria-disabled") == "false", "the card to arm")
    book.click(button)
    assert "3" in book.wait(2).text(2)
    whole.evaluate("r => { r.style.width = '360px'; }")
    upper, lower = cards.bounding_box(), feed.bounding_box()
    assert upper is not None and lower is not None and upper["y"] < lower["y"]


def test_the_panel_can_be_used_by_everybody(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SETUP, "%mew panel"]).run(0).run(1)
    whole = panel(book, 1)
    accessible(book, whole, pictures="panel")
    assert book.page.shot("panel", whole).stat().st_size > 5000
    # A tab shows its part and hides the others, by mouse and by keyboard.
    names = ["feed", "reasoning", "chat", "streams", "tools", "timeline", "grants"]
    assert whole.get_by_role("tab").evaluate_all("t => t.map(b => b.dataset.part)") == names
    titles = ["Messages", "Reasoning", "Chat", "Streams", "Tools", "Timeline", "Permissions"]
    assert whole.get_by_role("tab").evaluate_all("t => t.map(b => b.firstChild.textContent)") == titles

    def shows(name: str) -> None:
        part = whole.locator(".mew-sheets").locator(f"section.mew-{name}")
        book.page.until(lambda: part.count() and part.is_visible(), f"{name} to be shown")
        seen = whole.locator("[role=tabpanel]").evaluate_all(
            "all => all.map(s => s.getClientRects().length > 0)"
        )
        assert seen == [one == name for one in names]
        assert whole.get_by_role("tab", selected=True).get_attribute("data-part") == name
        assert whole.locator("[role=tab][tabindex='0']:focus").get_attribute("data-part") == name

    for name in ("streams", "chat"):
        book.click(whole.locator(f"[role=tab][data-part={name}]"))
        shows(name)
    keys = [("ArrowRight", "streams"), ("ArrowLeft", "chat"), ("Home", "feed"), ("ArrowLeft", "grants")]
    for key, name in [*keys, ("ArrowRight", "feed"), ("End", "grants"), ("ArrowLeft", "timeline")]:
        book.tab.keyboard.press(key)
        shows(name)


def test_the_menu_of_a_participant_leads_to_its_messages(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SETUP, "%mew panel"]).run(0).run(1)
    whole = book.area(1).locator("section.mew-panel")
    avatar = whole.locator("li.mew-row[data-id='bot'] button.mew-avatar")
    avatar.wait_for()
    book.click(whole.locator("[role=tab][data-part=chat]"))
    book.click(avatar)
    book.click(whole.locator(".mew-flyout button.mew-menu-button"))
    book.click(whole.get_by_role("menuitem", name="Show messages"))
    feed = whole.locator("section.mew-feed")
    book.page.until(
        lambda: feed.locator("input[placeholder^=Filter]").input_value() == "from:bot", "the filter"
    )
    assert whole.get_by_role("tab", selected=True).get_attribute("data-part") == "feed"
    assert whole.locator(".mew-toast:visible").count() == 0
    routes = feed.locator("tbody tr").evaluate_all("all => all.map(r => r.innerText)")
    assert routes and all("bot" in route for route in routes)


def test_what_the_card_says_moves_no_button_at_any_width(notebook: Callable[..., Notebook]) -> None:
    """A button that moves when it arms disarms again: at such a width nobody could ever click it."""
    book = notebook([SETUP, "lab.view.approvals"]).run(0).run(1)
    cards = book.area(1).locator("section.mew-approvals")
    cards.locator("button.mew-approve").wait_for()
    cards.evaluate("root => { root.style.width = '360px'; }")
    card = cards.locator(".mew-card")
    rest = card.evaluate(
        "node => node.getBoundingClientRect().bottom - node.querySelector('.mew-approve').getBoundingClientRect().bottom"
    )
    assert 0 < rest <= 12, "no empty line stands below the buttons"
    moved = cards.evaluate(
        """root => {
          const hint = root.querySelector('.mew-hint'), buttons = [...root.querySelectorAll('.mew-card button')];
          const places = (text) => { hint.textContent = text; return buttons.map(b => { const r = b.getBoundingClientRect(); return `${r.left},${r.top}`; }).join(' '); };
          const out = [];
          for (let width = 260; width < 1000; width += 10) {
            root.style.width = `${width}px`;
            if (new Set(['', 'Sending…', 'Expand “content” and 2 more to approve'].map(places)).size > 1) out.push(width);
          }
          root.style.width = '';
          return out;
        }"""
    )
    assert moved == []
