"""The control room in a real JupyterLab: every part in its place, at any width, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from access import accessible
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import ADDING, BUSY, PROPOSE, armed

SETUP = f"""{ADDING}
lab.chat("Please add two numbers.", to="bot")
{PROPOSE}
"""


FAILED = """
long = lab.join("a-very-long-name-of-a-participant-of-the-second-shift", can="proposer")
asked = long.call("notebook/moisture", {"bed": "nowhere"})
open_proposals(4)
lab.approve(next(one for one in lab.proposals() if "nowhere" in str(one)))
lab.join("another-long-name-of-the-second-shift", can="proposer").call("notebook/moisture", {"bed": "north"})
open_proposals(4)
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
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SETUP, "%mew panel", "print(p.result(20))"]).run(0).run(1)
    whole = panel(book, 1)
    whole.evaluate("r => { r.style.width = '1600px'; }")
    feed, cards = whole.locator("section.mew-feed"), whole.locator("section.mew-approvals")
    assert left_of(feed, cards)
    header = whole.locator("> .mew-header")
    book.page.until(lambda: "1 needs your approval" in header.inner_text(), "the header to count what waits")
    assert "Connected" in header.locator(".mew-connection").get_attribute("aria-label")
    button = cards.locator("button.mew-approve")
    armed(book.page, button)
    book.click(button)
    book.page.until(lambda: cards.locator("li.mew-past").count() == 1, "the decision")
    assert "3" in book.run(2).text(2)
    whole.evaluate("r => { r.style.width = '360px'; }")
    upper, lower = cards.bounding_box(), feed.bounding_box()
    assert upper is not None and lower is not None and upper["y"] < lower["y"]


@pytest.mark.slow
def test_the_panel_can_be_used_by_everybody(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, "%mew panel"]).run(0).run(1)
    whole = panel(book, 1)
    accessible(book, whole, pictures="panel")
    assert book.page.shot("panel", whole).stat().st_size > 5000
    # A tab shows its part and hides the others, by mouse and by keyboard.
    names = ["feed", "reasoning", "chat", "streams", "tools", "timeline", "grants", "rules"]
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
    keys = [("ArrowRight", "streams"), ("ArrowLeft", "chat"), ("Home", "feed"), ("ArrowLeft", "rules")]
    for key, name in [*keys, ("ArrowRight", "feed"), ("End", "rules"), ("ArrowLeft", "grants")]:
        book.tab.keyboard.press(key)
        shows(name)


@pytest.mark.slow
def test_the_menu_of_a_participant_leads_to_its_messages(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, "%mew panel"]).run(0).run(1)
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


def test_what_the_card_says_moves_no_button_at_any_width(plain: Callable[..., Notebook]) -> None:
    """A button that moves when it arms disarms again: at such a width nobody could ever click it."""
    book = plain([SETUP, "lab.view.approvals"]).run(0).run(1)
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


def bounds(node: Locator) -> dict[str, float]:
    found = node.bounding_box()
    assert found is not None
    return {**found, "right": found["x"] + found["width"], "bottom": found["y"] + found["height"]}


@pytest.mark.slow
def test_what_was_decided_is_a_line_at_the_bottom_edge_and_moves_nothing(
    plain: Callable[..., Notebook],
) -> None:
    other = """@lab.tool
def twice(a: int) -> int:
    return 2 * a
q = bot.call("notebook/add", {"a": 3, "b": 4})
r = bot.call("notebook/twice", {"a": 5})
"""
    book = plain([SETUP + other, "%mew panel"]).run(0).run(1)
    whole = panel(book, 1)
    whole.evaluate("r => { r.style.width = '1000px'; r.scrollIntoView({ block: 'start' }); }")
    cards, line = whole.locator("section.mew-approvals"), whole.locator(".mew-recent-head")
    button = cards.get_by_role("button", name="Recent")
    open_cards = cards.locator("li.mew-card:not(.mew-past)")
    book.page.until(lambda: open_cards.count() == 3, "three cards")
    first = open_cards.first
    first.hover()
    edge, place = bounds(whole)["bottom"], bounds(first)
    # From no cell: the output of one would move the page.
    book.execute("lab.approve(lab.proposals()[1])")
    line.wait_for()
    assert bounds(first)["y"] == place["y"] and bounds(first)["x"] == place["x"]
    assert bounds(line)["height"] <= 40 and abs(bounds(line)["bottom"] - edge) <= 4
    assert button.get_attribute("aria-expanded") == "false" and "Approved by you" in button.inner_text()
    past = cards.locator("li.mew-past:visible")
    assert past.count() == 0
    book.click(button)
    past.first.wait_for()
    assert button.get_attribute("aria-expanded") == "true"
    opened = bounds(line)
    assert opened["bottom"] < edge - 100 and bounds(first)["y"] == place["y"]
    # What is decided later comes into the list, and the list keeps its height.
    book.execute("lab.reject(r.id, 'busy')")
    book.page.until(lambda: past.count() == 2, "the second decision")
    assert bounds(line) == opened
    book.click(button)
    assert past.count() == 0 and "Rejected by you" in button.inner_text()
    assert book.page.errors == []


@pytest.mark.slow
def test_headers_are_as_many_lines_as_they_say_at_each_width(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, "%mew panel"]).run(0).run(1)
    whole = panel(book, 1)
    feed, header = whole.locator("section.mew-feed"), whole.locator("> .mew-header")
    book.page.until(lambda: "1 needs your approval" in header.inner_text(), "the header to count what waits")
    choices = feed.locator(".mew-toolbar button")
    for width, room, bar in ((1600, 48, 48), (1200, 48, 80), (360, 84, 112)):
        whole.evaluate("(r, width) => { r.style.width = width + 'px'; }", width)
        book.page.until(
            lambda bar=bar: bounds(feed.locator("> .mew-header"))["height"] <= bar,  # type: ignore[misc]
            f"the choices of the messages to fit at {width}",
        )
        assert bounds(header)["height"] <= room
        assert "needs your approval" in header.inner_text()
        names = [(one.get_attribute("aria-label") or one.inner_text())[:4] for one in choices.all()]
        assert names == ["Kind", "From", "Cont", "✓ Hi"]
        assert len({bounds(one)["y"] for one in choices.all()}) == 1, f"one line at {width}"
        assert (
            bounds(choices.last)["x"] + bounds(choices.last)["width"]
            <= bounds(feed)["x"] + bounds(feed)["width"]
        )
    whole.evaluate("r => { r.style.width = '1600px'; }")
    strip, plus = whole.locator(".mew-place-strip"), whole.get_by_role("button", name="Invite a participant")
    book.page.until(lambda: 0 <= bounds(strip)["bottom"] - bounds(plus)["bottom"] <= 12, "the button below")


def test_a_part_whose_tab_has_no_room_is_in_a_menu_and_buttons_are_icons_with_names(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SETUP, "%mew panel"]).run(0).run(1)
    whole = panel(book, 1)
    tabs, more = whole.get_by_role("tablist").first, whole.locator("button.mew-other-tabs")
    assert not more.is_visible()
    whole.evaluate("r => { r.style.width = '360px'; }")
    more.wait_for()
    for name in ("Export", "Pop out", "Settings"):
        box = bounds(whole.locator("> .mew-header").get_by_role("button", name=name))
        assert 28 <= box["width"] <= 44, f"{name} is an icon"
    more.focus()
    more.press("Enter")
    items = whole.get_by_role("menuitem").all_inner_texts()
    sight = bounds(tabs)
    for tab in tabs.get_by_role("tab").all():
        box, title = bounds(tab), tab.locator("span").first.inner_text()
        whole_in_sight = sight["x"] - 1 <= box["x"] and box["right"] <= sight["right"] + 1
        assert whole_in_sight != any(item.startswith(title) for item in items), title
    book.tab.keyboard.press("End")
    book.tab.keyboard.press("Enter")
    chosen = tabs.get_by_role("tab", name="Rules")
    book.page.until(lambda: chosen.get_attribute("aria-selected") == "true", "the part of the menu")
    assert chosen.evaluate("node => node === document.activeElement")
    assert bounds(chosen)["right"] <= bounds(tabs)["right"] + 1
    whole.evaluate("r => { r.style.width = '1600px'; }")
    book.page.until(lambda: not more.is_visible(), "the room for all tabs")


# Words for people that end in the middle of a letter, or behind an edge that does not scroll.
CUT = """root => { root.querySelectorAll('td.mew-took').forEach((cell, n) => { cell.textContent = n % 2 ? '999 ms' : 'unknown'; });
  return [...root.querySelectorAll('.mew-took, .mew-tag, .mew-pill, td.mew-num, .mew-opener > span')].filter(node =>
  node.getClientRects().length && node.scrollWidth > node.clientWidth && getComputedStyle(node).display !== 'inline'
  && (node.matches('.mew-took, .mew-num, .mew-opener > span') || getComputedStyle(node).textOverflow !== 'ellipsis')).map(node => `${node.className} ${node.textContent}`); }"""
VACANT = """root => [...root.querySelectorAll('input[placeholder]')].filter(node => node.getClientRects().length
  && !node.value && getComputedStyle(node).textOverflow !== 'ellipsis').map(node => node.placeholder)"""


@pytest.mark.parametrize("width", [1600, 1200, 1100, 700, 360])
@pytest.mark.sampled(5)
def test_a_busy_room_cuts_no_number_and_shows_names_and_the_place_to_write_at_each_width(
    plain: Callable[..., Notebook], width: int
) -> None:
    book = plain([BUSY, FAILED, "%mew panel"]).run(0).run(1).run(2)
    book.tab.set_viewport_size({"width": max(width, 800), "height": 1600})
    whole = panel(book, 2)
    whole.evaluate("(r, width) => { r.style.width = `${width}px`; }", width)
    feed, sheets = whole.locator("section.mew-feed"), whole.locator(".mew-sheets")
    rows = feed.locator("tbody tr")
    book.page.until(lambda: rows.filter(has_text="failed").count(), "the failed call")
    book.page.until(lambda: whole.evaluate(CUT) == [], "all numbers and chips whole")
    assert whole.evaluate(VACANT) == []
    # A long sender leaves room for the addressee, or for its beginning.
    if width >= 1200:
        route = rows.filter(has_text="a-very-long").first.locator(".mew-route > span").last
        edge = bounds(feed.locator("th[data-name=route]"))["right"]
        assert route.inner_text() == " → notebook" and bounds(route)["x"] < edge - 40
    # A finding is a sign where it has no column.
    found = feed.locator(".mew-severity")
    book.page.until(lambda: found.count(), "the finding")
    columns = feed.locator("th").evaluate_all("all => all.map(one => one.dataset.name)")
    assert found.first.evaluate("node => Boolean(node.closest('.mew-finding'))") == ("finding" in columns)
    # The part for chats has its last button in sight, and leaves no room below it.
    whole.get_by_role("tab", name="Chat").click()
    send = whole.locator("section.mew-chat .mew-say")
    send.wait_for()
    book.page.until(lambda: 0 <= bounds(sheets)["bottom"] - bounds(send)["bottom"] <= 80, "where to write")
    if width < 560:
        name = whole.locator(".mew-roster .mew-row", has_text="failed").first.locator(".mew-name")
        assert name.evaluate("node => node.scrollWidth <= node.clientWidth"), "the name before its state"
        state = whole.locator(".mew-roster .mew-state", has_text="waiting for you").last
        assert state.evaluate("node => node.scrollWidth <= node.clientWidth"), "the state beside a long name"


def test_escape_ends_first_what_a_part_has_open_and_then_the_full_window(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SETUP, "%mew panel"]).run(0).run(1)
    whole = panel(book, 1)
    book.click(whole.get_by_role("button", name="Pop out"))
    book.click(whole.get_by_role("menuitem", name="Fill the window"))
    filled = book.tab.locator("section.mew-panel:popover-open")
    book.page.until(filled.count, "the panel to fill the window")
    feed = whole.locator("section.mew-feed")
    feed.locator("tbody tr").first.click()
    feed.locator("tbody tr").first.press("Enter")
    detail = feed.get_by_role("button", name="Close")
    detail.first.wait_for()
    book.tab.keyboard.press("Escape")
    book.page.until(lambda: not detail.first.is_visible(), "the details to close")
    assert filled.count() == 1
    feed.locator("input").first.focus()
    book.tab.keyboard.press("Escape")
    book.page.until(lambda: not filled.count(), "the panel to be in its place")
