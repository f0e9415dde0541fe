"""All parts in one page, each in a cell of its own and once more in the panel: no part's styles reach another part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import ADDING, PROPOSE

from mew_lab.views.ui.front_end import front_end
from mew_lab.views.views import PARTS

SCENE = f"""{ADDING}
helper = lab.join("helper", can="agent")
@lab.tool
def water(bed: str, litres: int = 2) -> str:
    "Waters a bed."
    return bed
lab.chat("Please add two numbers.", to="bot")
{PROPOSE}
lab.call("notebook/add", {{"a": 2, "b": 3}}).result(10)
begun = helper.send("reasoning/start", {{"message": "Which beans can still be sown?"}})
helper.send("reasoning/thought", {{"message": "Three kinds remain. " * 12}}, context=begun.id)
stream = lab.loop.submit(helper.participant.streams.request_stream("upload", description="soil moisture")).result(10)
"""
# Elements whose box is compared: all of a section, but those of a part within it and those around that.
MEASURE = """([part, styles, own, extra]) => {
  const mine = { has: (text) => own.some((begin) => text.startsWith(begin.trim())) };
  const sheets = [...document.querySelectorAll('style')].filter((sheet) => sheet.textContent.includes('.mew-'));
  const others = sheets.filter((sheet) => !mine.has(sheet.textContent.trim()));
  const root = part, inner = [...root.querySelectorAll('section.mew')];
  const nodes = [root, ...root.querySelectorAll('*')].filter((node) => !inner.some((one) => one.contains(node) || node.contains(one)));
  const boxes = () => nodes.map((node) => {
    const { width, height } = node.getBoundingClientRect();
    return `${getComputedStyle(node).display} ${width.toFixed(1)} × ${height.toFixed(1)}`;
  });
  const width = root.style.width;
  root.style.width = `${root.getBoundingClientRect().width}px`;
  const added = extra ? document.head.appendChild(Object.assign(document.createElement('style'), { textContent: extra })) : null;
  const together = boxes();
  added?.remove();
  const on = others.filter((sheet) => !sheet.disabled);
  for (const sheet of on) sheet.disabled = true;
  const alone = boxes();
  for (const sheet of on) sheet.disabled = false;
  root.style.width = width;
  const name = (node) => `${node.tagName.toLowerCase()}.${node.getAttribute('class') ?? ''}`;
  return {
    own: sheets.length - others.length, others: others.length,
    compared: nodes.filter((node) => node.matches('button, input, select, textarea, [role=heading], b, th') && node.getClientRects().length).length,
    different: nodes.flatMap((node, n) => (together[n] === alone[n] ? [] : [`${name(node)}: alone ${alone[n]}, with the others ${together[n]}`])),
  };
}"""
WITHIN = "(part, width) => { part.style.width = width; }"


def compare_boxes(section: Locator, own: list[str], extra: str = "") -> dict[str, Any]:
    """The boxes of one section under all styles of the page, and under its own alone."""
    found: dict[str, Any] = section.evaluate(
        f"(part, rest) => ({MEASURE})([part, ...rest])", [None, own, extra]
    )
    return found


@pytest.mark.slow
def test_a_part_beside_all_others_looks_as_it_does_alone(notebook: Callable[..., Notebook]) -> None:
    parts = [part for part in PARTS if part != "panel"]
    book = notebook([SCENE, *(f"lab.view.{part}" for part in parts), "%mew panel"]).run_all()
    css = {part: front_end(part)[1] for part in PARTS}
    sections = {
        part: book.area(number).locator(f"section.mew-{part}") for number, part in enumerate(parts, 1)
    }
    panel = book.area(len(parts) + 1).locator("section.mew-panel")
    for part, section in sections.items():
        book.page.until(
            lambda section=section: section.count() and section.locator("button").count(),
            f"{part} to be drawn",
        )
    book.page.until(lambda: panel.count() and panel.locator("section.mew").count() >= 3, "the panel")
    tools = sections["tools"]
    tools.locator("button.mew-tool[data-target='notebook/water']").evaluate("b => b.click()")
    tools.locator(".mew-form .mew-give").first.wait_for(state="attached")
    sections["reasoning"].locator(".mew-step").first.wait_for(state="attached")
    different: list[str] = []
    for part, section in sections.items():
        for width in ("", "360px"):
            section.evaluate(WITHIN, width)
            found = compare_boxes(section, [css[part]])
            assert found["own"] >= 1 and found["others"] >= len(parts) - 1, (part, found)
            assert found["compared"] > 0, part
            different += [f"{part} {width}: {line}" for line in found["different"]]
        section.evaluate(WITHIN, "")
    # Within the panel a part has the styles of the panel and its own.
    tabs = panel.locator(".mew-tabs [role=tab]")
    book.page.until(tabs.count, "the tabs of the panel")
    for tab in range(tabs.count()):
        tabs.nth(tab).evaluate("tab => tab.click()")
        sheet = panel.locator(f"[id='{tabs.nth(tab).get_attribute('aria-controls')}']")
        book.page.until(lambda sheet=sheet: sheet.locator("section.mew").count(), "the part of the tab")
        book.page.pause(0.1)
        for part in parts:
            section = panel.locator(f"section.mew-{part}")
            if section.count() and section.is_visible():
                found = compare_boxes(section, [css[part], css["panel"]])
                different += [f"{part} in the panel: {line}" for line in found["different"]]
    different += [f"panel: {line}" for line in compare_boxes(panel, [css["panel"]])["different"]]
    assert not different, "\n".join(sorted(set(different))[:40])
    # The comparison notices a rule that names no part.
    for rule, part in (
        (".mew .mew-item { display: grid; }", "reasoning"),
        (".mew button { height: 14px; }", "tools"),
    ):
        assert compare_boxes(sections[part], [css[part]], rule)["different"], rule
