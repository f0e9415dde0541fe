"""The elements that all parts share, on a page of their own: menu, popover, toast, sheet of keys, splitter, links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bare import Bare
from playwright.sync_api import BrowserContext, Locator

from mew_lab.views.panel.widget import PARTS_SHOWN, PanelView, RoomCounts
from mew_lab.views.ui.live import LiveWidget
from mew_lab.views.ui.preferences import preferences, preferences_path


@pytest.fixture
def bare(window: BrowserContext) -> Iterator[Callable[..., Bare]]:
    shown: list[Bare] = []

    def show(waiting: int = 1, **options: Any) -> Bare:
        parts = {name: LiveWidget() for name in PARTS_SHOWN}
        counts = [RoomCounts(1, 2, waiting)]
        view = PanelView("demo", parts, lambda: counts[0], {})
        view.interval = 0.0
        page = Bare(window, view, **options)
        page.counts = counts  # type: ignore[attr-defined]
        shown.append(page)
        page.until(lambda: page.tab.locator("[role=tab]").count() == 7, "the tabs")
        return page

    yield show
    for page in shown:
        page.tab.close()
        page.view.close()
    preferences_path().unlink(missing_ok=True)


def test_the_header_counts_with_singular_and_plural(bare: Callable[..., Bare]) -> None:
    page = bare(width=1200)
    header = page.tab.locator(".mew-header").first
    assert header.locator(".mew-counts-line").inner_text().split("\n") == [
        "1 participant",
        "2 messages",
        "1 needs your approval",
    ]
    page.until(lambda: page.tab.title() == "(1)", "the title of the page to say that one waits")


def test_a_menu_is_used_by_keyboard_alone_and_its_choice_is_kept(bare: Callable[..., Bare]) -> None:
    page = bare()
    button = page.tab.get_by_role("button", name="Settings")
    button.focus()
    page.tab.keyboard.press("ArrowDown")
    menu = page.tab.get_by_role("menu", name="Settings")
    assert menu.get_by_role("menuitemcheckbox").evaluate_all("all => all.map(i => i.ariaChecked)") == [
        "false",
        "false",
        "true",
    ]
    page.tab.keyboard.press("End")
    assert "Hide plumbing" in page.tab.locator(":focus").inner_text()
    page.tab.keyboard.press("c")
    assert "Compact rows" in page.tab.locator(":focus").inner_text()
    page.tab.keyboard.press("Enter")
    assert not menu.count() and button.evaluate("b => b === document.activeElement")
    page.until(
        lambda: page.tab.locator("section.mew[data-density=compact]").count() == 1, "the rows to be compact"
    )
    assert preferences.read()["density"] == "compact"
    page.tab.keyboard.press("Enter")
    page.tab.keyboard.press("Escape")
    assert not menu.count() and button.evaluate("b => b === document.activeElement")
    assert page.errors == []


def test_a_press_elsewhere_closes_a_menu_and_a_script_opens_none(bare: Callable[..., Bare]) -> None:
    page = bare()
    button = page.tab.get_by_role("button", name="Pop out")
    button.evaluate("b => b.click()")
    assert not page.tab.get_by_role("menu").count()
    button.click()
    assert page.tab.get_by_role("menu").count() == 1
    page.tab.mouse.click(500, 500)
    assert not page.tab.get_by_role("menu").count()


@pytest.mark.parametrize("above", [True, False])
def test_a_menu_that_grows_does_not_cover_its_button(bare: Callable[..., Bare], above: bool) -> None:
    page = bare(height=900)
    button = page.tab.get_by_role("button", name="Pop out")
    edge = "bottom: 40px" if above else "top: 40px"
    button.evaluate("(b, edge) => { b.style.cssText = `position: fixed; left: 40px; ${edge}`; }", edge)
    button.click()
    menu = page.tab.get_by_role("menu")
    menu.evaluate(
        "m => { for (let n = 0; n < 100; n += 1) m.append(m.lastElementChild.cloneNode(true)); }",
    )
    grown, at = menu.bounding_box(), button.bounding_box()
    assert grown is not None and at is not None and grown["height"] > 400
    if above:
        assert grown["y"] >= 0 and grown["y"] + grown["height"] <= at["y"]
    else:
        assert grown["y"] >= at["y"] + at["height"] and grown["y"] + grown["height"] <= 900
    button.evaluate("b => { b.style.left = '90px'; b.style.top = '400px'; }")
    page.until(lambda: not covers(menu, button), "the menu beside the button that has moved")
    button.click()
    assert not menu.count()


def covers(menu: Locator, button: Locator) -> bool:
    over, under = menu.bounding_box(), button.bounding_box()
    assert over is not None and under is not None
    return (over["y"] < under["y"] + under["height"] and under["y"] < over["y"] + over["height"]) or abs(
        over["x"] - under["x"]
    ) > 1


def test_the_panel_fills_the_window_until_escape(bare: Callable[..., Bare]) -> None:
    page = bare(width=1200, height=600)
    page.tab.get_by_role("button", name="Pop out").click()
    page.tab.get_by_role("menuitem", name="Fill the window").click()
    box = page.tab.locator("section.mew-panel").bounding_box()
    assert box is not None and (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 1200, 600)
    page.tab.keyboard.press("Escape")
    assert page.tab.locator("section.mew-panel:popover-open").count() == 0


def test_the_sheet_of_keys_opens_and_closes_with_the_focus_where_it_was(bare: Callable[..., Bare]) -> None:
    page = bare()
    page.tab.get_by_role("button", name="Keys").click()
    sheet = page.tab.get_by_role("dialog", name="Keys")
    assert "Move between tabs" in sheet.inner_text()
    page.tab.keyboard.press("Escape")
    assert not sheet.count()
    assert page.tab.locator(":focus").get_attribute("aria-label") == "Keys"


def test_a_splitter_moves_by_mouse_and_keys_and_is_remembered(bare: Callable[..., Bare]) -> None:
    page = bare(width=1400)
    bar = page.tab.get_by_role("separator", name="Width of the approvals")
    side = page.tab.locator(".mew-place-side")
    before = side.bounding_box()
    at = bar.bounding_box()
    assert before is not None and at is not None and before["width"] == 440
    page.tab.mouse.move(at["x"] + 4, at["y"] + 100)
    page.tab.mouse.down()
    page.tab.mouse.move(at["x"] - 96, at["y"] + 100)
    page.tab.mouse.up()
    page.until(lambda: preferences.read()["splitters"].get("side") == 540, "the width to be kept")
    bar.focus()
    page.tab.keyboard.press("ArrowRight")
    page.until(lambda: preferences.read()["splitters"].get("side") == 524, "the width to be kept")
    page.until(lambda: bar.get_attribute("aria-valuenow") == "524", "the width to be told")
    page.show()
    page.until(
        lambda: page.tab.locator(".mew-place-side").bounding_box()["width"] == 524,  # type: ignore[index]
        "a new view to have the same width",
    )


def test_a_new_request_that_is_out_of_sight_is_told_and_shown(bare: Callable[..., Bare]) -> None:
    page = bare(0, width=800, height=300)
    page.tab.evaluate("document.body.style.paddingTop = '2000px'; window.scrollTo(0, 0)")
    page.counts[0] = RoomCounts(1, 3, 2)  # type: ignore[attr-defined]
    page.view.wake()
    toast = page.tab.locator(".mew-toast")
    page.until(lambda: toast.count() == 1, "the line that tells of it")
    assert "2 requests need your approval." in toast.inner_text()
    page.until(lambda: page.tab.title().startswith("(2)"), "the title")
    toast.get_by_role("button", name="Show").click()
    page.until(lambda: page.tab.evaluate("window.scrollY") > 1000, "the approvals to be in sight")
    page.counts[0] = RoomCounts(1, 3, 0)  # type: ignore[attr-defined]
    page.view.wake()
    page.until(lambda: not page.tab.title().startswith("("), "the title to be as before")


def test_a_line_that_tells_covers_no_button_and_moves_none_under_a_pointer(bare: Callable[..., Bare]) -> None:
    page = bare(0, width=800, height=300)
    page.tab.evaluate("document.body.style.paddingTop = '2000px'; window.scrollTo(0, 0)")
    page.counts[0] = RoomCounts(1, 3, 2)  # type: ignore[attr-defined]
    page.view.wake()
    toast, room = page.tab.locator(".mew-toast"), page.tab.locator(".mew-room")
    page.until(lambda: toast.count() == 1, "the line that tells of it")
    page.tab.evaluate("window.scrollTo(0, document.body.scrollHeight)")

    def edges() -> tuple[float, float]:
        line, above = toast.bounding_box(), room.bounding_box()
        assert line and above
        return above["y"] + above["height"], line["y"]

    page.until(lambda: edges()[0] <= edges()[1], "the line to stand below the parts")
    page.tab.mouse.move(5, 5)
    height = page.tab.evaluate("document.body.scrollHeight")
    toast.get_by_role("button", name="Dismiss").click()
    page.until(lambda: not toast.is_visible(), "the line to go")
    assert page.tab.evaluate("document.body.scrollHeight") == height, "while the pointer is in the view"
    page.tab.evaluate("window.scrollTo(0, 0)")
    page.tab.mouse.move(5, 5)
    page.until(lambda: toast.count() == 0, "its room to go")
    assert page.tab.evaluate("document.body.scrollHeight") < height
