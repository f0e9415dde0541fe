"""Alike calls of several participants are one table, and a card with a warning stands above it in full."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import armed

SETUP = """%load_ext mew_lab
import json, mew_lab
lab = mew_lab.up(journal=None)
@lab.tool
def water(bed: str, litres: int) -> str:
    "Waters a bed."
    return f"{litres} litres on the {bed} bed"
agents = [lab.join(f"agent-{n:02}", can="proposer") for n in range(12)]
"""
PROPOSE = """
for n, agent in enumerate(agents): agent.call("notebook/water", {"bed": "north", "litres": 10 + 3 * n})
agents[3].call("notebook/water", {"bed": "../../etc/passwd", "litres": 11}); None
"""
WIRE = """
sent = [json.loads(record.raw) for record in lab.log.held if record.raw]
print(json.dumps([[one["correlation_id"], one["payload"]["params"]["arguments"]["litres"]] for one in sent
    if one["kind"] == "mcp/request" and one.get("correlation_id")]))
"""


def begun(plain: Callable[..., Notebook], *more: str) -> tuple[Notebook, Locator]:
    """The thirteen proposals, and the view that shows them."""
    book = plain([SETUP, PROPOSE, "lab.view.approvals", WIRE, *more]).run(0).run(1).run(2)
    area = book.area(2)
    book.page.until(
        lambda: area.locator("section.mew").get_attribute("data-open") == "13", "the thirteen proposals"
    )
    return book, area


def requests(book: Notebook) -> list[Any]:
    told: list[Any] = json.loads(book.run(3).text(3))
    return told


def test_twelve_agents_that_want_the_same_are_one_table_and_the_warned_call_is_a_card(
    plain: Callable[..., Notebook],
) -> None:
    book, area = begun(plain)
    first, group = area.locator(".mew-cards > li:visible").first, area.locator("li.mew-group")
    assert "../../etc/passwd" in first.inner_text() and first.locator("button.mew-approve").is_visible()
    title = group.locator(".mew-line").inner_text()
    assert "water ×12," in title and "12 participants, litres 10 – 43" in title
    assert group.locator(".mew-brief-line").is_visible() or group.locator(".mew-rows").is_visible()
    # By keyboard: to the table, open, leave one out, and yes to the others.
    first.focus()
    book.tab.keyboard.press("j")
    assert group.evaluate("n => n === document.activeElement")
    book.tab.keyboard.press("Enter")
    rows = group.locator(".mew-rows tbody tr")
    assert group.locator(".mew-rows thead th:visible").all_inner_texts() == ["", "#", "From", "litres"]
    assert [row.inner_text().split() for row in rows.all()] == [
        [str(n + 1), f"agent-{n:02}", str(10 + 3 * n)] for n in range(12)
    ]
    rows.nth(4).locator("input").focus()
    book.tab.keyboard.press("Space")
    book.tab.keyboard.press("Escape")
    armed(book.page, group.locator("button.mew-approve-all"))
    group.evaluate("n => n.focus({ preventScroll: true })")
    book.tab.keyboard.press("a")
    book.page.until(lambda: len(requests(book)) == 11, "the requests")
    sent = requests(book)
    assert sorted(litres for _, litres in sent) == [10 + 3 * n for n in range(12) if n != 4]
    assert len({id for [id], _ in sent}) == 11


def test_calls_of_other_tools_targets_or_types_are_no_part_of_the_table(
    plain: Callable[..., Notebook],
) -> None:
    others = """
agents[0].call("notebook/water", {"bed": "south", "litres": "many"})
agents[1].call("notebook/water", {"bed": "south"})
lab.join("shed", can="tool")
agents[2].call("shed/water", {"bed": "south", "litres": 5}); None
"""
    book, area = begun(plain, others)
    book.run(4)
    book.page.until(
        lambda: area.locator("section.mew").get_attribute("data-open") == "16", "the other proposals"
    )
    assert area.locator("li.mew-group").count() == 1
    assert area.locator("li.mew-group .mew-rows tbody tr").count() == 12


@pytest.mark.ruling("R32")
def test_who_is_told_of_in_a_row_is_the_proposer_and_for_whom_it_asks(plain: Callable[..., Notebook]) -> None:
    asked = """
said = lab.chat("Please water the west bed.", to="agent-01")
async def ask(n): return await agents[n].participant.send_accepted({"kind": "mcp/proposal", "to": ["notebook"],
    "correlation_id": [said.id], "payload": {"method": "tools/call", "params": {"name": "water", "arguments": {"bed": "west", "litres": n, "more": 1}}}})
for n in range(1, 4): agents[n].run(ask(n))
None
"""
    book, area = begun(plain, asked)
    book.run(4)
    assert "Error" not in book.text(4), book.text(4)
    book.page.until(
        lambda: area.locator("section.mew").get_attribute("data-open") == "16", "the three proposals"
    )
    group, together = (
        area.locator("li.mew-group").filter(has_text="west"),
        area.locator("button.mew-together"),
    )

    def in_one_table() -> bool:
        if together.is_visible():  # one of them was seen before the next one came
            together.click()
        return group.count() == 1 and group.locator(".mew-rows tbody tr").count() == 3

    book.page.until(in_one_table, "the table")
    assert "why: asked by human: “Please water the west bed.”" in (group.text_content() or "")
