"""The elements that all parts share, on a page of their own: menu, popover, toast, sheet of keys, splitter, links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bare import Bare
from playwright.sync_api import BrowserContext, Locator

from mew_lab.views.panel.widget import PARTS_SHOWN, PanelView, RoomCounts
from mew_lab.views.ui.front_end import VIEWS, read_module
from mew_lab.views.ui.live import LiveView
from mew_lab.views.ui.preferences import preferences, preferences_path


@pytest.fixture
def room(bare: Callable[..., Bare]) -> Iterator[Callable[..., Bare]]:
    def show(waiting: int = 1, **options: Any) -> Bare:
        parts = {name: LiveView() for name in PARTS_SHOWN}
        counts = [RoomCounts(1, 2, waiting)]
        view = PanelView("demo", parts, lambda: counts[0], {"pause": lambda: "1 agent paused"})
        view.interval = 0.0
        page = bare(view, **options)
        page.counts = counts  # type: ignore[attr-defined]
        page.until(lambda: page.tab.locator("[role=tab]").count() == 8, "the tabs")
        return page

    yield show
    preferences_path().unlink(missing_ok=True)


def test_the_header_counts_with_singular_and_plural(room: Callable[..., Bare]) -> None:
    page = room(width=1200)
    header = page.tab.locator(".mew-header").first
    assert header.locator(".mew-counts-line").inner_text().split("\n") == [
        "1 participant",
        "2 messages",
        "1 needs your approval",
    ]


def test_a_menu_is_used_by_keyboard_alone_and_its_choice_is_kept(room: Callable[..., Bare]) -> None:
    page = room()
    button = page.tab.get_by_role("button", name="Settings")
    button.focus()
    page.tab.keyboard.press("ArrowDown")
    menu = page.tab.get_by_role("menu", name="Settings")
    assert menu.get_by_role("menuitemcheckbox").evaluate_all("all => all.map(i => i.ariaChecked)") == [
        "false",
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


def test_a_press_elsewhere_closes_a_menu_and_a_script_opens_none(room: Callable[..., Bare]) -> None:
    page = room()
    button = page.tab.get_by_role("button", name="Pop out")
    button.evaluate("b => b.click()")
    assert not page.tab.get_by_role("menu").count()
    button.click()
    assert page.tab.get_by_role("menu").count() == 1
    page.tab.mouse.click(500, 500)
    assert not page.tab.get_by_role("menu").count()


@pytest.mark.parametrize("above", [True, False])
def test_a_menu_that_grows_does_not_cover_its_button(room: Callable[..., Bare], above: bool) -> None:
    page = room(height=900)
    button = page.tab.get_by_role("button", name="Pop out")
    edge = "bottom: 40px" if above else "top: 40px"
    button.evaluate(
        "(b, edge) => { b.style.cssText = `position: fixed; z-index: 9; left: 40px; ${edge}`; }", edge
    )
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


def test_the_panel_fills_the_window_until_escape(room: Callable[..., Bare]) -> None:
    page = room(width=1200, height=600)
    page.tab.get_by_role("button", name="Pop out").click()
    page.tab.get_by_role("menuitem", name="Fill the window").click()
    box = page.tab.locator("section.mew-panel").bounding_box()
    assert box is not None and (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 1200, 600)
    page.tab.keyboard.press("Escape")
    assert page.tab.locator("section.mew-panel:popover-open").count() == 0


def test_the_sheet_of_keys_opens_and_closes_with_the_focus_where_it_was(room: Callable[..., Bare]) -> None:
    page = room()
    page.tab.get_by_role("button", name="Keys").click()
    sheet = page.tab.get_by_role("dialog", name="Keys")
    assert "Move between tabs" in sheet.inner_text()
    page.tab.keyboard.press("Escape")
    assert not sheet.count()
    assert page.tab.locator(":focus").get_attribute("aria-label") == "Keys"


def test_a_splitter_moves_by_mouse_and_keys_and_is_remembered(room: Callable[..., Bare]) -> None:
    page = room(width=1400)
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


def test_a_line_that_tells_covers_no_button_and_moves_none_under_a_pointer(room: Callable[..., Bare]) -> None:
    page = room(0, width=800, height=300)
    page.tab.evaluate("document.body.style.paddingTop = '2000px'")
    page.tab.get_by_role("button", name="Pause agents").click()
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


def test_an_item_for_another_view_is_not_read(room: Callable[..., Bare]) -> None:
    page = room(width=1200)
    counts = {"participants": 1, "messages": 77, "waiting": 0}
    header = page.tab.locator(".mew-header").first
    for view, shown in (("another", "2 messages"), (page.sent[0]["view"], "77 messages")):
        page.view.post({"t": "head", "view": view, "badges": {}, "counts": counts})
        page.pause(0.2)  # an item that is wrongly read would be drawn by then
        page.until(lambda shown=shown: shown in header.inner_text(), shown)


# Rows of buttons over two letters each, the key and the text; `steps` are lists of these, the third button has the focus.
KEYED = """(steps) => {
  const list = document.body.appendChild(document.createElement("ul")), gone = [];
  const rows = keyedRows(list, {
    keyOf: ([key]) => key,
    build: () => ({ node: make("li", {}, make("button")) }),
    fill: ({ node, data }) => write(node.firstChild, data),
    left: ({ data }, focused) => gone.push([data, focused]),
  });
  rows.show(steps[0]);
  const nodes = new Map([...rows.rows].map(([key, { node }]) => [key, node]));
  list.children[2].firstChild.focus();
  return steps.slice(1).map((step) => {
    rows.show(step);
    const told = {
      texts: [...list.children].map((node) => node.textContent),
      same: [...rows.rows].every(([key, { node }]) => !nodes.has(key) || nodes.get(key) === node),
      focus: list.contains(document.activeElement) ? document.activeElement.textContent : "",
      gone: gone.splice(0),
    };
    for (const [key, { node }] of rows.rows) nodes.set(key, node);
    for (const [data] of told.gone) nodes.delete(data[0]);
    return told;
  });
}"""


def test_rows_with_keys_keep_their_elements_and_the_focus_however_they_move(window: BrowserContext) -> None:
    tab = window.new_page()
    sources = [
        read_module(f"ui/{name}.js", (VIEWS / f"ui/{name}.js").read_text()) for name in ("elements", "tables")
    ]
    tab.add_script_tag(content="\n".join(module.text for module in sources))
    steps = [["a1", "b1", "c1", "d1"], ["c1", "d1", "a1", "b2"], ["d2", "e1", "c2"], ["f1", "d2"]]
    told = tab.evaluate(KEYED, steps)
    assert [step["texts"] for step in told] == steps[1:], "each step shows its rows in its order"
    assert all(step["same"] for step in told)
    assert [step["focus"] for step in told] == ["c1", "c2", ""]
    gone = [sorted(map(tuple, step["gone"])) for step in told]
    assert gone == [[], [("a1", False), ("b2", False)], [("c2", True), ("e1", False)]]
    tab.close()
