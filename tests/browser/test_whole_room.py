"""The control room as a whole: a kernel that is gone is gone in every part, tabs keep their line, drawings their theme."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import pytest
from axe import OF_COLOURS, axe_source, axe_violations
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import ADDING, BUSY, PROPOSE

from mew_lab.views.views import PARTS

RESTART = "() => { jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); return performance.now(); }"


@pytest.mark.threat(5, 15)
def test_three_seconds_after_a_restart_every_part_is_dimmed_stands_still_and_can_be_read(
    notebook: Callable[..., Notebook], tmp_path_factory: pytest.TempPathFactory
) -> None:
    alone = ["roster", *(part for part in PARTS if part not in ("panel", "roster"))]
    book = notebook([BUSY, "%mew panel", *(f"lab.view.{part}" for part in alone)]).run(0, deadline=60)
    room, roster = book.area(1).locator("section.mew-panel"), book.area(2).locator("section.mew-roster")
    book.run(1)
    book.page.until(lambda: "3 need your approval" in room.inner_text(), "what waits")
    book.page.until(lambda: room.locator("button.mew-approve").count(), "a card")
    for index, part in enumerate(alone, 2):
        view = book.run(index).area(index).locator(f"section.mew-{part}[data-link=connected]")
        book.page.until(lambda view=view: view.count() == 1, part)
    roster.locator("li.mew-row").first.wait_for()
    headers = [room.locator("> .mew-header .mew-connection"), roster.locator(".mew-connection").first]
    for header in headers:
        book.page.until(
            lambda header=header: header.get_attribute("aria-label") == "Connected", "a connection"
        )
    book.tab.evaluate(RESTART)
    started = book.tab.evaluate("performance.now()")
    for header in headers:
        book.page.until(
            lambda header=header: header.get_attribute("aria-label") == "Disconnected", "the header to say so"
        )
    assert book.tab.evaluate("performance.now()") - started < 3000
    parts = book.tab.locator("section.mew[data-link]")
    assert parts.count() >= len(PARTS) + 2
    for part in parts.all():
        assert part.get_attribute("data-link") == "gone", part.get_attribute("class")
        dimmed = "r => [...r.children].filter(n => n.checkVisibility() && !n.matches('.mew-gone, .mew-notices, .mew-heard, .mew-silence'))"
        within = part.locator("xpath=ancestor::section[contains(@class,'mew-panel')]").count()
        if not within:
            seen = part.evaluate(f"r => ({dimmed})(r).map(n => Number(getComputedStyle(n).opacity))")
            assert seen and max(seen) < 0.8, part.get_attribute("class")

    def texts() -> list[str]:
        # Rates fall to nothing, as they do in a space in which nothing happens.
        return [re.sub(r"[\d.]+( [KM]?i?B)?/s", "", part.text_content() or "") for part in parts.all()]

    shown = texts()
    book.page.pause(2.2)  # a clock that goes would have moved twice
    for before, after in zip(shown, texts(), strict=True):
        assert after == before
    told = book.tab.locator(".mew-gone:visible").all_text_contents()
    assert told and all("un the notebook from the top" in text for text in told)
    assert room.locator("button.mew-approve:visible").count() == 0
    book.page.shot("room-restart", room)
    # On a phone there is room for the name of the space: the banner says in words that the kernel is gone.
    room.evaluate("r => { r.style.width = '360px'; }")
    assert room.locator("> .mew-header > .mew-heading").evaluate("n => n.scrollWidth <= n.clientWidth")
    assert room.evaluate("r => r.scrollWidth <= r.clientWidth")
    room.evaluate("r => { r.style.width = ''; }")
    source = axe_source(tmp_path_factory.getbasetemp())
    faults: list[str] = []
    for theme in ("light", "dark"):
        book.page.theme(theme)
        for index, part in enumerate(["panel", *alone], 1):
            root = book.area(index).locator(f"section.mew-{part}").first
            faults += [f"{part} {theme}: {one}" for one in axe_violations(root, source, OF_COLOURS)]
    book.page.theme("light")
    assert faults == [], "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1600, 1200, 360])
def test_the_tabs_keep_one_line_when_their_numbers_come_and_go(
    plain: Callable[..., Notebook], width: int
) -> None:
    book = plain([BUSY, "%mew panel"]).run(0, deadline=60).run(1)
    room = book.area(1).locator("section.mew-panel")
    room.evaluate("(r, width) => { r.style.width = width + 'px'; }", width)
    tabs = room.get_by_role("tab")
    book.page.until(lambda: tabs.count() == 7, "the tabs")
    # In a narrow room the approvals stand above the tabs: their cards come first.
    book.page.until(lambda: room.get_attribute("data-drawn") == "3", "two parts and a tab to be drawn")
    book.page.until(lambda: room.locator("button.mew-approve").count() == 3, "the cards")
    numbered = tabs.filter(has=book.tab.locator(".mew-badge"))
    book.page.until(
        lambda: numbered.count() > 0 or any(c.isdigit() for c in "".join(tabs.all_inner_texts())),
        "a number on a tab",
    )

    def lines() -> set[float]:
        return {round(top) for top in tabs.evaluate_all("t => t.map(b => b.getBoundingClientRect().top)")}

    sheet = room.locator(".mew-sheets")
    before = sheet.bounding_box()
    assert len(lines()) == 1
    tabs.evaluate_all(
        "t => t.forEach(b => { b.append(document.createElement('i')); b.lastChild.textContent = ' 12 345 new'; })"
    )
    assert len(lines()) == 1
    after = sheet.bounding_box()
    assert before is not None and after is not None and abs(after["y"] - before["y"]) < 1
    # What does not fit is reached by scrolling within the line.
    last = tabs.last
    last.scroll_into_view_if_needed()
    box, frame = last.bounding_box(), room.bounding_box()
    assert (
        box is not None and frame is not None and box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
    )


PIXELS = """async png => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height), ink = canvas.getContext("2d");
  ink.drawImage(image, 0, 0);
  const data = ink.getImageData(0, 0, image.width, image.height).data;
  let light = 0, dark = 0;
  for (let n = 0; n < data.length; n += 4) {
    const grey = (data[n] * 299 + data[n + 1] * 587 + data[n + 2] * 114) / 1000;
    light += grey > 190;
    dark += grey < 70;
  }
  return [light / (data.length / 4), dark / (data.length / 4)];
}"""


def shares(book: Notebook, picture: Locator) -> list[float]:
    """The shares of light and of dark pixels in what is seen."""
    png = base64.b64encode(picture.screenshot(animations="disabled")).decode()
    found: list[float] = book.tab.evaluate(PIXELS, png)
    return found


@pytest.mark.slow
def test_a_drawing_as_the_value_of_a_cell_follows_the_theme_and_can_be_read_in_a_narrow_window(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([f"{ADDING}\n{PROPOSE}", "lab.view.timeline.select(lab.proposals()[0].id)"]).run(0).run(1)
    picture = book.area(1).locator("img").first
    picture.wait_for()
    light, dark = shares(book, picture)
    assert light > 0.8 > dark, "dark ink on a light ground"
    book.page.theme("dark")
    try:
        book.page.until(lambda: shares(book, picture)[1] > 0.8, "a dark ground")
        light, dark = shares(book, picture)
        assert 0.003 < light < 0.2, "light ink on a dark ground"
        book.page.shot("drawing-dark", picture)
    finally:
        book.page.theme("light")
    size = book.tab.viewport_size
    assert size is not None
    book.tab.set_viewport_size({"width": 360, "height": 700})
    try:
        box, drawn = picture.bounding_box(), picture.evaluate("i => i.naturalWidth")
        # Not shrunk until it cannot be read: what does not fit is scrolled.
        assert box is not None and box["width"] >= 0.8 * min(drawn, 1000)
    finally:
        book.tab.set_viewport_size(size)
